// Reductions over axes, and softmax. Sums of float32 are added up in doubles and rounded once.

import type { Data } from "./array";
import { alongLines, ofEachLine } from "./lines";
import type { Metadata, Primitive, Table } from "./primitive";

type Fold = (data: Data, start: number, end: number) => number;

function axesOf(metadata: Metadata): number[] {
  const { axis } = metadata;
  return typeof axis === "number" ? [axis] : (axis as number[]);
}

function reduction(f: Fold): Primitive {
  return ([a], metadata, shape, dtype) => ofEachLine(a!, axesOf(metadata), shape, dtype, f);
}

const sum: Fold = (x, start, end) => {
  let total = 0;
  for (let k = start; k < end; k++) total += x[k]!;
  return total;
};

const max: Fold = (x, start, end) => {
  let top = -Infinity;
  for (let k = start; k < end; k++) top = Math.max(top, x[k]!);
  return top;
};

const finiteTop: Fold = (x, start, end) => {
  const top = max(x, start, end);
  return Number.isFinite(top) ? top : 0;
};

function sumOfExponentials(x: Data, start: number, end: number, top: number): number {
  let total = 0;
  for (let k = start; k < end; k++) total += Math.exp(x[k]! - top);
  return total;
}

// Scaled by the largest entry: no square overflows.
const norm: Fold = (x, start, end) => {
  let top = 0;
  for (let k = start; k < end; k++) top = Math.max(top, Math.abs(x[k]!));
  if (!(top > 0 && top < Infinity)) top = 1;
  let total = 0;
  for (let k = start; k < end; k++) total += (x[k]! / top) ** 2;
  return top * Math.sqrt(total);
};

// The first of the largest (or, for sign −1, of the smallest) entries; a NaN is both.
function place(sign: number): Fold {
  return (x, start, end) => {
    let best = start;
    for (let k = start; k < end; k++) {
      if (x[k] !== x[k]) return k - start;
      if (sign * x[k]! > sign * x[best]!) best = k;
    }
    return best - start;
  };
}

const FOLDS: Record<string, Fold> = {
  sum,
  prod: (x, start, end) => {
    let total = 1;
    for (let k = start; k < end; k++) total *= x[k]!;
    return total;
  },
  max,
  first_max: max,
  min: (x, start, end) => {
    let least = Infinity;
    for (let k = start; k < end; k++) least = Math.min(least, x[k]!);
    return least;
  },
  any: (x, start, end) => {
    for (let k = start; k < end; k++) if (x[k] !== 0) return 1;
    return 0;
  },
  all: (x, start, end) => {
    for (let k = start; k < end; k++) if (x[k] === 0) return 0;
    return 1;
  },
  logsumexp: (x, start, end) => {
    const top = finiteTop(x, start, end);
    return Math.log(sumOfExponentials(x, start, end, top)) + top;
  },
  norm,
  argmax: place(1),
  argmin: place(-1),
};

const softmax: Primitive = ([a], metadata, shape, dtype) =>
  alongLines(a!, axesOf(metadata), shape, dtype, (x, start, end, out, at) => {
    const top = max(x, start, end);
    const total = sumOfExponentials(x, start, end, top);
    for (let k = start; k < end; k++) out[at + k - start] = Math.exp(x[k]! - top) / total;
  });

const logSoftmax: Primitive = ([a], metadata, shape, dtype) =>
  alongLines(a!, axesOf(metadata), shape, dtype, (x, start, end, out, at) => {
    const top = max(x, start, end);
    const total = Math.log(sumOfExponentials(x, start, end, top));
    for (let k = start; k < end; k++) out[at + k - start] = x[k]! - top - total;
  });

export const REDUCE: Table = {
  ...Object.fromEntries(Object.entries(FOLDS).map(([name, f]) => [name, reduction(f)])),
  softmax,
  log_softmax: logSoftmax,
};
