// Element-wise rows, y[i] = f(a[i], b[i], …): broadcasting and storing are here, what f is stands in tables.

import { empty, type Data, type NDArray } from "./array";
import type { Primitive, Table } from "./primitive";
import { spread } from "./views";

export type Unary = (a: number) => number;
export type Binary = (a: number, b: number) => number;
export type Ternary = (a: number, b: number, c: number) => number;

export function unary(f: Unary): Primitive {
  return ([a], _, shape, dtype) => {
    const x = spread(a!, shape);
    const y = empty(shape, dtype);
    const out = beforeStored(y);
    for (let k = 0; k < out.length; k++) out[k] = f(x[k]!);
    return stored(y, out);
  };
}

export function binary(f: Binary): Primitive {
  return ([a, b], _, shape, dtype) => {
    const x = spread(a!, shape);
    const z = spread(b!, shape);
    const y = empty(shape, dtype);
    const out = beforeStored(y);
    for (let k = 0; k < out.length; k++) out[k] = f(x[k]!, z[k]!);
    return stored(y, out);
  };
}

export function ternary(f: Ternary): Primitive {
  return ([a, b, c], _, shape, dtype) => {
    const x = spread(a!, shape);
    const z = spread(b!, shape);
    const u = spread(c!, shape);
    const y = empty(shape, dtype);
    const out = beforeStored(y);
    for (let k = 0; k < out.length; k++) out[k] = f(x[k]!, z[k]!, u[k]!);
    return stored(y, out);
  };
}

// Truth values are computed as numbers (1 + 1 is 2, and NaN is true) and stored as 0 or 1.
function beforeStored(y: NDArray): Data {
  return y.dtype === "bool" ? new Float64Array(y.data.length) : y.data;
}

function stored(y: NDArray, out: Data): NDArray {
  if (y.data !== out) for (let k = 0; k < out.length; k++) y.data[k] = out[k] !== 0 ? 1 : 0;
  return y;
}

export function tableOf<F>(make: (f: F) => Primitive, functions: Record<string, F>): Table {
  return Object.fromEntries(Object.entries(functions).map(([name, f]) => [name, make(f)]));
}
