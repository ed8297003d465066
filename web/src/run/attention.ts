// attention: y = softmax(scale · q kᵀ) v for stacks of matrices (…, n, d), (…, m, d), (…, m, e), and its adjoints.
// With `causal`, line i looks at the keys 0 … i.

import { empty, type Data, type NDArray } from "./array";
import type { Metadata, Primitive, Table } from "./primitive";

// One matrix of a stack: where it begins, and the length of its lines.
interface Matrix {
  data: Data;
  at: number;
  width: number;
}

function matrixOf(a: NDArray, number: number): Matrix {
  const [height, width] = a.shape.slice(-2) as [number, number];
  return { data: a.data, at: number * height * width, width };
}

function dot(a: Matrix, i: number, b: Matrix, j: number): number {
  let total = 0;
  for (let k = 0; k < a.width; k++) total += a.data[a.at + i * a.width + k]! * b.data[b.at + j * b.width + k]!;
  return total;
}

// y[i] += factor · b[j], line by line
function add(y: Matrix, i: number, factor: number, b: Matrix, j: number): void {
  for (let k = 0; k < y.width; k++) y.data[y.at + i * y.width + k]! += factor * b.data[b.at + j * b.width + k]!;
}

// The weights of line i: softmax(scale · q_i kᵀ).
function weights(q: Matrix, k: Matrix, i: number, keys: number, scale: number): Float64Array {
  const w = new Float64Array(keys);
  let top = -Infinity;
  for (let j = 0; j < keys; j++) top = Math.max(top, (w[j] = scale * dot(q, i, k, j)));
  let total = 0;
  for (let j = 0; j < keys; j++) total += w[j] = Math.exp(w[j]! - top);
  for (let j = 0; j < keys; j++) w[j]! /= total;
  return w;
}

// Calls `f` for every line of every matrix of queries.
function forLines(
  q: NDArray,
  k: NDArray,
  { scale, causal }: Metadata,
  f: (number: number, i: number, w: Float64Array) => void,
): void {
  const [n, d] = q.shape.slice(-2) as [number, number];
  const m = k.shape.at(-2)!;
  const count = n * d ? q.data.length / (n * d) : 0;
  for (let number = 0; number < count; number++) {
    for (let i = 0; i < n; i++) {
      const keys = causal ? Math.min(i + 1, m) : m;
      f(number, i, weights(matrixOf(q, number), matrixOf(k, number), i, keys, scale as number));
    }
  }
}

// Sums are made in doubles, and rounded once if they are float32.
function summed(shape: readonly number[], dtype: string, fill: (y: NDArray) => void): NDArray {
  const y = empty(shape, "float64");
  fill(y);
  const stored = empty(shape, dtype);
  stored.data.set(y.data);
  return stored;
}

const attention: Primitive = ([q, k, v], metadata, shape, dtype) =>
  summed(shape, dtype, (y) =>
    forLines(q!, k!, metadata, (number, i, w) => {
      w.forEach((weight, j) => add(matrixOf(y, number), i, weight, matrixOf(v!, number), j));
    }),
  );

// S̄ = W (u vᵀ − Σ W u vᵀ):  q̄ = scale · S̄ k,  k̄ = scale · S̄ᵀ q,  v̄ = Wᵀ u
const attentionAdjoint: Primitive = ([q, k, v, u], metadata, shape, dtype) =>
  summed(shape, dtype, (y) =>
    forLines(q!, k!, metadata, (number, i, w) => {
      const [to, uM, vM] = [matrixOf(y, number), matrixOf(u!, number), matrixOf(v!, number)];
      if (metadata["which"] === 2) {
        w.forEach((weight, j) => add(to, j, weight, uM, i));
        return;
      }
      const pulled = w.map((_, j) => dot(uM, i, vM, j));
      const mean = w.reduce((total, weight, j) => total + weight * pulled[j]!, 0);
      w.forEach((weight, j) => {
        const s = (metadata["scale"] as number) * weight * (pulled[j]! - mean);
        if (metadata["which"] === 0) add(to, i, s, matrixOf(k!, number), j);
        else add(to, j, s, matrixOf(q!, number), i);
      });
    }),
  );

export const ATTENTION: Table = { attention, attention_adjoint: attentionAdjoint };
