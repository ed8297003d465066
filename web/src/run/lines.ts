// Lines: an array as rows of numbers that run along some of its axes. Reductions, running sums and orders all
// work line by line.

import { empty, sizeOf, type Data, type NDArray } from "./array";
import { permuted } from "./views";

export interface Lines {
  data: Data; // line after line
  count: number;
  length: number;
  rest: number[]; // the axes along which lines are counted
}

export function linesOf(a: NDArray, axes: readonly number[]): Lines {
  const rest = a.shape.map((_, k) => k).filter((k) => !axes.includes(k));
  return {
    data: permuted(a, [...rest, ...axes]).data,
    count: sizeOf(rest.map((k) => a.shape[k]!)),
    length: sizeOf(axes.map((k) => a.shape[k]!)),
    rest,
  };
}

// One number for each line.
export function ofEachLine(
  a: NDArray,
  axes: readonly number[],
  shape: readonly number[],
  dtype: string,
  f: (data: Data, start: number, end: number) => number,
): NDArray {
  const { data, count, length } = linesOf(a, axes);
  const y = empty(shape, dtype);
  for (let i = 0; i < count; i++) y.data[i] = f(data, i * length, (i + 1) * length);
  return y;
}

// A new line, which may have another length, for each line. `f` writes it from `at` on.
export function alongLines(
  a: NDArray,
  axes: readonly number[],
  shape: readonly number[],
  dtype: string,
  f: (data: Data, start: number, end: number, out: Data, at: number) => void,
): NDArray {
  const { data, count, length, rest } = linesOf(a, axes);
  const order = [...rest, ...axes];
  const y = empty(order.map((k) => shape[k]!), dtype);
  const made = count ? y.data.length / count : 0;
  for (let i = 0; i < count; i++) f(data, i * length, (i + 1) * length, y.data, i * made);
  return permuted(y, order.map((_, k) => order.indexOf(k)));
}
