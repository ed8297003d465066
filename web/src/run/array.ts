// Arrays of real numbers in row-major order: all that the page computes with.

import { toNumber, type ArrayData, type Num } from "../scene";

export type Data =
  | Float64Array
  | Float32Array
  | Int32Array
  | Int16Array
  | Int8Array
  | Uint32Array
  | Uint16Array
  | Uint8Array;

export interface NDArray {
  shape: readonly number[];
  dtype: string;
  data: Data;
}

// What is stored is rounded, or wraps round, as in NumPy. Integers of 64 bits are held as doubles, which are exact
// up to 2^53.
const STORES: Record<string, new (n: number) => Data> = {
  float64: Float64Array,
  float32: Float32Array,
  int64: Float64Array,
  int32: Int32Array,
  uint32: Uint32Array,
  int16: Int16Array,
  uint16: Uint16Array,
  int8: Int8Array,
  uint8: Uint8Array,
  bool: Uint8Array,
};

export function sizeOf(shape: readonly number[]): number {
  let n = 1;
  for (const s of shape) n *= s;
  return n;
}

export function empty(shape: readonly number[], dtype: string): NDArray {
  const Store = STORES[dtype];
  if (!Store) throw new Error(`the page does not compute with ${dtype}`);
  return { shape, dtype, data: new Store(sizeOf(shape)) };
}

export function arrayOf(shape: readonly number[], dtype: string, numbers: ArrayLike<number>): NDArray {
  const made = empty(shape, dtype);
  made.data.set(numbers);
  return made;
}

export function fromData(a: ArrayData): NDArray {
  return arrayOf(a.shape, a.dtype, a.data.map((x: Num) => Number(toNumber(x))));
}

// Also of numbers whose squares are too large or too small.
export function norm(data: ArrayLike<number>): number {
  let most = 0;
  for (let k = 0; k < data.length; k++) if (!(Math.abs(data[k]!) <= most)) most = Math.abs(data[k]!);
  if (most === 0 || !Number.isFinite(most)) return most;
  let total = 0;
  for (let k = 0; k < data.length; k++) total += (data[k]! / most) ** 2;
  return most * Math.sqrt(total);
}

export function isFloat(dtype: string): boolean {
  return dtype === "float64" || dtype === "float32";
}
