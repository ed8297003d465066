// What boxes are called, and how they are read aloud.

import type { Box } from "../fold";
import { numbers, scene } from "../state";

const SYMBOL: Record<string, string> = {
  add: "+", subtract: "−", multiply: "×", divide: "÷", contract: "@", negative: "−", sum: "Σ", square: "x²", power: "xʸ",
  maximum: "max", minimum: "min", sqrt: "√",
};

export function labelOf(box: Box): string {
  if (box.isGroup) return scene.groups[box.id - scene.nodes.length]!.name;
  const node = scene.nodes[box.id]!;
  return node.operation ? (SYMBOL[node.operation] ?? node.operation) : node.name;
}

export const nameOf = (box: Box) => (box.isGroup ? labelOf(box) : scene.nodes[box.id]!.name);

export function spoken(box: Box): string {
  if (box.isGroup) return `${labelOf(box)}, ${box.count} rows, folded. Enter opens it`;
  const node = scene.nodes[box.id]!;
  const now = numbers.value[box.id]!;
  const what = node.text ? `${node.name} = ${node.text}` : `parameter ${node.name}`;
  return `${what}, value ${now.value.text}, gradient ${now.adjoint?.text ?? "none"}`;
}

// 64, 4.1k, 2.5M
export const compactly = (n: number) => new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 }).format(n).toLowerCase().replace("m", "M");

export const many = (n: number | null) => (n === null ? "–" : n.toLocaleString("en"));
export const plural = (n: number, what: string) => `${many(n)} ${what}${n === 1 ? "" : "s"}`;

// Which edges lead out of a node, and which it reads along.
export const readers: number[][] = scene.nodes.map(() => []);
export const reads: number[][] = scene.nodes.map(() => []);
scene.edges.forEach((e, k) => {
  readers[e.from]!.push(k);
  reads[e.to]!.push(k);
});
export const isOutput = new Set(scene.outputs);
