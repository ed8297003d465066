// Shapes: reshape, permute, broadcast, concatenate; windows of arrays, and windows added back.

import { empty, type NDArray } from "./array";
import type { Primitive, Table } from "./primitive";
import { permuted, places, spread, stridesOf, taken } from "./views";

const concatenate: Primitive = (parts, { axis, starts }, shape, dtype) => {
  const y = empty(shape, dtype);
  const strides = stridesOf(shape);
  const k = axis as number;
  parts.forEach((part, n) => {
    const at = places(part.shape, strides, (starts as number[])[n]! * (strides[k] ?? 1));
    for (let i = 0; i < at.length; i++) y.data[at[i]!] = part.data[i]!;
  });
  return y;
};

type Cut = [axes: number[], size: number[], step: number[], dilation: number[]];

// Where the entries of all windows stand in an array of `whole` shape.
function windowPlaces(whole: readonly number[], windows: readonly number[], cut: Cut): Int32Array {
  const [axes, , step, dilation] = cut;
  const own = stridesOf(whole);
  const counting = own.map((s, k) => (axes.includes(k) ? s * step[axes.indexOf(k)]! : s));
  const inside = axes.map((k, n) => own[k]! * dilation[n]!);
  return places(windows, [...counting, ...inside]);
}

const windows: Primitive = ([a], { cut }, shape) => taken(a!, windowPlaces(a!.shape, shape, cut as Cut), shape);

const fold: Primitive = ([t], { cut }, shape, dtype) => {
  const y = empty(shape, dtype);
  const at = windowPlaces(shape, t!.shape, cut as Cut);
  const whole = new Float64Array(y.data.length);
  for (let i = 0; i < at.length; i++) whole[at[i]!]! += t!.data[i]!;
  y.data.set(whole);
  if (dtype === "bool") for (let i = 0; i < whole.length; i++) y.data[i] = whole[i] ? 1 : 0;
  return y;
};

const convolve: Primitive = ([a, b], { mode }, shape, dtype) => {
  const [x, v]: [NDArray, NDArray] = a!.data.length >= b!.data.length ? [a!, b!] : [b!, a!];
  const first = mode === "full" ? 0 : v.data.length - 1;
  const y = empty(shape, dtype);
  for (let k = 0; k < y.data.length; k++) {
    let total = 0;
    for (let j = 0; j < v.data.length; j++) {
      const i = first + k - j;
      if (i >= 0 && i < x.data.length) total += x.data[i]! * v.data[j]!;
    }
    y.data[k] = total;
  }
  return y;
};

export const SHAPE: Table = {
  reshape: ([a], _, shape) => ({ ...a!, shape }),
  permute: ([a], { axes }) => permuted(a!, axes as number[]),
  broadcast_to: ([a], _, shape) => ({ ...a!, shape, data: spread(a!, shape) }),
  concatenate,
  windows,
  fold,
  convolve,
};
