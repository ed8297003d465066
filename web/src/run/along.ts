// Running sums and products, linear recurrences, and orders: what goes along one axis.

import { empty, type Data } from "./array";
import { alongLines, linesOf } from "./lines";
import type { Primitive, Table } from "./primitive";
import { spread } from "./views";

function running(first: number, step: (before: number, a: number) => number): Primitive {
  return ([a], { axis }, shape, dtype) =>
    alongLines(a!, [axis as number], shape, dtype, (x, start, end, out, at) => {
      let value = first;
      for (let k = start; k < end; k++) out[at + k - start] = value = step(value, x[k]!);
    });
}

// s_j = t_j + a_j s_{j−1}, from the other end when reversed
const recurrence: Primitive = ([a, t], { axis, reverse }, shape, dtype) => {
  const along = [axis as number];
  const factors = linesOf({ ...a!, shape, data: spread(a!, shape) }, along).data;
  const terms = { ...t!, shape, data: spread(t!, shape) };
  return alongLines(terms, along, shape, dtype, (x, start, end, out, at) => {
    const n = end - start;
    let s = 0;
    for (let i = 0; i < n; i++) {
      const j = reverse ? n - 1 - i : i;
      out[at + j] = s = i ? x[start + j]! + factors[start + j]! * s : x[start + j]!;
    }
  });
};

// Stable; NaNs stand last.
function orderOf(x: Data, start: number, end: number): number[] {
  const order = Array.from({ length: end - start }, (_, k) => k);
  return order.sort((i, j) => {
    const a = x[start + i]!;
    const b = x[start + j]!;
    if (a < b || (b !== b && a === a)) return -1;
    return a > b || (a !== a && b === b) ? 1 : i - j;
  });
}

const argsort: Primitive = ([a], { axis }, shape, dtype) =>
  alongLines(a!, [axis as number], shape, dtype, (x, start, end, out, at) => out.set(orderOf(x, start, end), at));

const ranked: Primitive = ([a], { axis, ranks }, shape, dtype) =>
  alongLines(a!, [axis as number], shape, dtype, (x, start, end, out, at) => {
    const order = orderOf(x, start, end);
    (ranks as number[]).forEach((r, k) => (out[at + k] = order[r]!));
  });

const searchsorted: Primitive = ([a, v], { side }, shape, dtype) => {
  const y = empty(shape, dtype);
  const { data } = a!;
  const isBefore = (x: number, limit: number): boolean =>
    x < limit || (limit !== limit && x === x) || (side === "right" && (x === limit || limit !== limit));
  for (let k = 0; k < y.data.length; k++) {
    let low = 0;
    let high = data.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (isBefore(data[middle]!, v!.data[k]!)) low = middle + 1;
      else high = middle;
    }
    y.data[k] = low;
  }
  return y;
};

export const ALONG: Table = {
  cumsum: running(0, (total, a) => total + a),
  cumprod: running(1, (total, a) => total * a),
  recurrence,
  argsort,
  ranked,
  searchsorted,
};
