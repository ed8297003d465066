// Whether the page computes what Python did, on the inputs of the run: else it must not compute anything else.

import { norm, type NDArray } from "./run/array";
import { toNumber, type Scene, type Summary } from "./scene";

// The first node whose numbers differ; null if all agree.
export function firstOther(scene: Scene, values: readonly NDArray[], adjoints: readonly (NDArray | null)[]): number | null {
  const isSingle = scene.nodes.some((n) => n.value.dtype === "float32" || n.adjoint?.dtype === "float32");
  const near = isSingle ? 1e-3 : 1e-6;
  const found = scene.nodes.findIndex(({ value, adjoint }, k) => {
    const g = adjoints[k];
    return !agrees(value, values[k]!, near) || (adjoint === null) !== (g === null) || (adjoint && g && !agrees(adjoint, g, near));
  });
  return found < 0 ? null : found;
}

function agrees(told: Summary, { data }: NDArray, near: number): boolean {
  if (told.data) {
    const size = told.data.reduce<number>((most, x) => Math.max(most, finite(toNumber(x))), 1);
    return told.data.every((x, k) => isNear(toNumber(x), data[k]!, near * size));
  }
  if (told.norm === undefined) return true;
  const size = toNumber(told.norm);
  return isNear(size, norm(data), near * Math.max(1, finite(size)));
}

const finite = (x: number): number => (Number.isFinite(x) ? Math.abs(x) : 0);

function isNear(x: number, y: number, near: number): boolean {
  return Object.is(x, y) || x === y || Math.abs(x - y) <= near;
}
