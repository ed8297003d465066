// Indexing: rectangular slices by a spec (an index, [start, stop, step] or null for each axis, as
// operators/slice.py has it) and index arrays of one shape along the first axes; to read and to write.

import { empty, sizeOf, type NDArray } from "./array";
import type { Primitive, Table } from "./primitive";
import { places, spread, stridesOf, taken } from "./views";

type Spec = (number | [number | null, number | null, number | null] | null)[];

interface Part {
  shape: number[];
  at: Int32Array;
}

// The entries that Python's slice takes of an axis of n: the first, and how many.
function range(n: number, start: number | null, stop: number | null, step: number): [first: number, count: number] {
  const low = step > 0 ? 0 : -1;
  const high = step > 0 ? n : n - 1;
  const within = (k: number): number => Math.min(Math.max(k < 0 ? k + n : k, low), high);
  const first = start === null ? (step > 0 ? low : high) : within(start);
  const last = stop === null ? (step > 0 ? high : low) : within(stop);
  return [first, Math.max(0, Math.ceil((last - first) / step))];
}

function partOf(whole: readonly number[], spec: Spec): Part {
  const own = stridesOf(whole);
  const shape: number[] = [];
  const strides: number[] = [];
  let axis = 0;
  let offset = 0;
  for (const entry of spec) {
    if (entry === null) {
      shape.push(1);
      strides.push(0);
      continue;
    }
    const n = whole[axis]!;
    const stride = own[axis]!;
    axis++;
    if (typeof entry === "number") {
      offset += stride * (entry < 0 ? entry + n : entry);
      continue;
    }
    const step = entry[2] ?? 1;
    const [first, count] = range(n, entry[0], entry[1], step);
    shape.push(count);
    strides.push(stride * step);
    offset += stride * first;
  }
  shape.push(...whole.slice(axis));
  strides.push(...own.slice(axis));
  return { shape, at: places(shape, strides, offset) };
}

function copyOf(a: NDArray): NDArray {
  return { ...a, data: a.data.slice() };
}

function written(y: NDArray, { shape, at }: Part, v: NDArray): NDArray {
  // An assignment may drop leading axes of length 1.
  const extra = v.shape.length - shape.length;
  const values = spread(extra > 0 ? { ...v, shape: v.shape.slice(extra) } : v, shape);
  for (let k = 0; k < at.length; k++) y.data[at[k]!] = values[k]!;
  return y;
}

// What `indices` read of an array of shape `whole`: entries, or whole blocks of trailing axes.
function partAt(whole: readonly number[], indices: readonly NDArray[]): Part {
  const common = broadcastShape(indices.map((i) => i.shape));
  const strides = stridesOf(whole);
  const trailing = whole.slice(indices.length);
  const inside = places(trailing, strides.slice(indices.length));
  const starts = new Int32Array(sizeOf(common));
  indices.forEach((index, axis) => {
    const n = whole[axis]!;
    const numbers = spread(index, common);
    for (let k = 0; k < starts.length; k++) {
      const i = numbers[k]!;
      if (!(i >= -n && i < n)) throw new Error(`index ${i} is out of bounds for an axis of ${n} entries`);
      starts[k]! += (i < 0 ? i + n : i) * strides[axis]!;
    }
  });
  const at = new Int32Array(starts.length * inside.length);
  for (let k = 0, n = 0; k < starts.length; k++)
    for (let j = 0; j < inside.length; j++) at[n++] = starts[k]! + inside[j]!;
  return { shape: [...common, ...trailing], at };
}

function broadcastShape(shapes: readonly (readonly number[])[]): number[] {
  const rank = Math.max(0, ...shapes.map((s) => s.length));
  const sizeAt = (k: number): number => {
    const sizes = shapes.map((s) => s[s.length - rank + k] ?? 1);
    return sizes.find((n) => n !== 1) ?? 1;
  };
  return Array.from({ length: rank }, (_, k) => sizeAt(k));
}

const gather: Primitive = ([a, ...indices], _, shape) => taken(a!, partAt(a!.shape, indices).at, shape);

const scatterAdd: Primitive = ([t, ...indices], _, shape, dtype) => {
  const part = partAt(shape, indices);
  const values = spread(t!, part.shape);
  const y = empty(shape, dtype);
  for (let k = 0; k < part.at.length; k++) y.data[part.at[k]!]! += values[k]!;
  return y;
};

export const INDEXING: Table = {
  slice: ([a], { spec }, shape) => taken(a!, partOf(a!.shape, spec as Spec).at, shape),
  unslice: ([t], { spec }, shape, dtype) => written(empty(shape, dtype), partOf(shape, spec as Spec), t!),
  slice_update: ([a, v], { spec }, shape) => written(copyOf(a!), partOf(shape, spec as Spec), v!),
  gather,
  scatter_add: scatterAdd,
  scatter_set: ([a, v, ...indices], _, shape) => written(copyOf(a!), partAt(shape, indices), v!),
};
