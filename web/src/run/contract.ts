// contract: loops over products, Y[h,i,j] += A[h,i,k] · B[h,j,k]. Every label is a loop. One may stand twice in an
// operand or in the output (a diagonal), and an output label may stand in no operand (`sizes` has its length).

import { empty, type NDArray } from "./array";
import type { Primitive, Table } from "./primitive";
import { places, stridesOf } from "./views";

type Lengths = Map<string, number>;

// How far one step of each loop goes in an array with these labels.
function stepsOf(labels: string, shape: readonly number[], loops: readonly string[]): number[] {
  const strides = stridesOf(shape);
  return loops.map((c) => {
    let step = 0;
    for (let k = 0; k < labels.length; k++) if (labels[k] === c) step += strides[k]!;
    return step;
  });
}

function nest(
  a: NDArray,
  la: string,
  b: NDArray,
  lb: string,
  output: string,
  lengths: Lengths,
  dtype: string,
): NDArray {
  const outer = [...new Set(output)];
  const inner = [...new Set(la + lb)].filter((c) => !outer.includes(c));
  const outerShape = outer.map((c) => lengths.get(c)!);
  const innerShape = inner.map((c) => lengths.get(c)!);
  const y = empty([...output].map((c) => lengths.get(c)!), dtype);
  const at = places(outerShape, stepsOf(output, y.shape, outer));
  const [startA, stepA] = [
    places(outerShape, stepsOf(la, a.shape, outer)),
    places(innerShape, stepsOf(la, a.shape, inner)),
  ];
  const [startB, stepB] = [
    places(outerShape, stepsOf(lb, b.shape, outer)),
    places(innerShape, stepsOf(lb, b.shape, inner)),
  ];
  const x = a.data;
  const z = b.data;
  const n = stepA.length;
  const isEven = inner.length === 1 && n > 1; // one sum: no need to look up where the next entry stands
  const [da, db] = isEven ? [stepA[1]!, stepB[1]!] : [0, 0];
  for (let o = 0; o < at.length; o++) {
    let i = startA[o]!;
    let j = startB[o]!;
    let total = 0;
    if (isEven) for (let k = 0; k < n; k++, i += da, j += db) total += x[i]! * z[j]!;
    else for (let k = 0; k < n; k++) total += x[i + stepA[k]!]! * z[j + stepB[k]!]!;
    y.data[at[o]!] = total;
  }
  return y;
}

const ONE: NDArray = { shape: [], dtype: "float64", data: Float64Array.of(1) };

const contract: Primitive = (inputs, { subscripts, sizes }, _, dtype) => {
  const [read, output] = (subscripts as string).split("->") as [string, string];
  const labels = read.split(",");
  const lengths: Lengths = new Map(sizes as [string, number][]);
  labels.forEach((l, n) => [...l].forEach((c, k) => lengths.set(c, inputs[n]!.shape[k]!)));
  let [made, own] = [inputs[0]!, labels[0]!];
  for (let n = 1; n < inputs.length - 1; n++) {
    const later = labels.slice(n + 1).join("") + output;
    const kept = [...new Set(own + labels[n]!)].filter((c) => later.includes(c)).join("");
    [made, own] = [nest(made, own, inputs[n]!, labels[n]!, kept, lengths, dtype), kept];
  }
  const last = inputs.length > 1 ? inputs.length - 1 : -1;
  return nest(made, own, last < 0 ? ONE : inputs[last]!, last < 0 ? "" : labels[last]!, output, lengths, dtype);
};

export const CONTRACT: Table = { contract };
