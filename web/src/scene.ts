// What the page is given: made by src/backsolve/show/data.py.

export type Num = number | "nan" | "inf" | "-inf";

export interface Summary {
  text: string;
  shape: number[];
  dtype: string;
  data?: Num[]; // all entries, if they are few
  bad?: number; // else: how many are not finite, and how the others are spread
  least?: Num;
  most?: Num;
  mean?: Num;
  norm?: Num;
  histogram?: number[];
  edges?: Num[];
}

export type Gate = "add" | "multiply" | "max" | "move" | "function" | "other";

export interface SceneNode {
  name: string;
  tex: string; // v_{4}
  bar: string; // \bar v_{4}
  kind: "parameter" | "row";
  value: Summary;
  adjoint: Summary | null;
  group: number | null;
  operation?: string; // of a row, from here on
  gate?: Gate;
  text?: string; // v1 · v3
  formula?: string; // the same in TeX
  line?: number;
  code?: string;
}

export interface SceneEdge {
  from: number;
  to: number;
  kind: string; // Diagonal, Contraction, Slice …
  short: string; // the same in four letters
  family: string; // what gives it its colour
  operator: string;
  tex: string;
  step: string; // what goes back along it, in TeX: \bar v_{4} \cdot v_{3}
  multiplications: number | null;
  sent: Summary | null; // what goes back along it, where several terms add up
}

export interface Group {
  kind: "function" | "module" | "loop" | "round" | "stretch";
  name: string;
  parent: number | null;
  line: number;
}

export type Atom = number | { number: Num };

export interface ArrayData {
  shape: number[];
  dtype: string;
  data: Num[];
}

// Variables are numbered: inputs, constants, then one for each equation.
export type Equation = [name: string, inputs: Atom[], metadata: Record<string, unknown>, shape: number[], dtype: string];

export interface Program {
  inputs: ArrayData[]; // the parameters, then seeds
  seeded: number[]; // the nodes that have these
  constants: ArrayData[];
  equations: Equation[];
  values: Atom[]; // one for each node of the scene
  adjoints: (Atom | null)[];
  sent: [edge: number, what: Atom][];
  branches: [condition: Atom, truth: boolean, line: number][]; // on the path that the Program is
}

export interface Scene {
  version: 1;
  title: string;
  source: { text: string; first: number } | null;
  nodes: SceneNode[]; // parameters, then rows in the order of the run
  edges: SceneEdge[];
  groups: Group[]; // a group before its parts
  closed: number[]; // those that are folded when the page opens
  outputs: number[];
  gates: Record<Gate, string>;
  code: { lines: string[]; nodes: number[][] } | null; // flat gradient code; which nodes a line is about
  costs: string[][] | null; // a table: its head, then the way that is chosen
  paths: Paths | null;
  findings: Finding[];
  recompute: { program: Program } | { why: string };
  watched: Watched | null; // by what findings are found again
}

export interface Paths {
  count: number;
  entropy: Num;
  proven: boolean;
  paths: { nodes: number[]; carries: Num; share: Num }[];
  inputs: { name: string; value: Num; gradient: Num; share: Num }[];
}

export interface Chain {
  nodes: number[]; // whose gradients are compared
  way: string;
  unit: string;
}

export interface Watched {
  limits: Record<"small" | "large" | "fades" | "flat" | "rounding" | "many", number>;
  chains: Chain[];
  adding: number[]; // nodes to which terms come back that may cancel
  activations: [node: number, functionOrAxis: string | number][];
}

export interface Finding {
  kind: "nan" | "inf" | "vanishing" | "exploding" | "saturated" | "dead" | "zero" | "unused";
  node: number;
  text: string;
}

// What spoils a result or a training; the rest is only worth a look.
export const gravity = ({ kind }: Finding): "bad" | "notice" => (["nan", "inf", "vanishing", "exploding"].includes(kind) ? "bad" : "notice");

export function toNumber(x: Num): number {
  return x === "nan" ? NaN : x === "inf" ? Infinity : x === "-inf" ? -Infinity : x;
}
