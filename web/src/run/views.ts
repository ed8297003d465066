// A view, as NumPy has it: where the entries of a shape stand in the memory of an array. Slices, transposes,
// broadcasting, windows and diagonals are all this one thing.

import { empty, sizeOf, type Data, type NDArray } from "./array";

export function stridesOf(shape: readonly number[]): number[] {
  const strides = new Array<number>(shape.length);
  let step = 1;
  for (let k = shape.length - 1; k >= 0; k--) {
    strides[k] = step;
    step *= shape[k]!;
  }
  return strides;
}

// The place of every entry of `shape`, in row-major order.
export function places(shape: readonly number[], strides: readonly number[], first = 0): Int32Array {
  const found = new Int32Array(sizeOf(shape));
  if (!found.length) return found;
  found[0] = first;
  let filled = 1; // the entries along the axes done so far, which the next axis repeats with a shift
  for (let k = shape.length - 1; k >= 0; k--) {
    const n = shape[k]!;
    const step = strides[k]!;
    for (let i = 1; i < n; i++) {
      const shift = i * step;
      const start = i * filled;
      for (let j = 0; j < filled; j++) found[start + j] = found[j]! + shift;
    }
    filled *= n;
  }
  return found;
}

export function taken(a: NDArray, at: Int32Array, shape: readonly number[]): NDArray {
  const y = empty(shape, a.dtype);
  for (let k = 0; k < at.length; k++) y.data[k] = a.data[at[k]!]!;
  return y;
}

// The entries of an array broadcast to a shape.
export function spread(a: NDArray, shape: readonly number[]): Data {
  const n = sizeOf(shape);
  if (a.data.length === n && n) return a.data; // then axes of length 1 are all that differs
  if (a.data.length === 1) {
    const y = empty(shape, a.dtype);
    return y.data.fill(a.data[0]!);
  }
  const missing = shape.length - a.shape.length;
  const own = stridesOf(a.shape);
  const strides = shape.map((_, k) => (k < missing || a.shape[k - missing] === 1 ? 0 : own[k - missing]!));
  return taken(a, places(shape, strides), shape).data;
}

export function permuted(a: NDArray, axes: readonly number[]): NDArray {
  const shape = axes.map((k) => a.shape[k]!);
  if (axes.every((k, n) => k === n)) return { ...a, shape };
  const strides = stridesOf(a.shape);
  return taken(a, places(shape, axes.map((k) => strides[k]!)), shape);
}
