// Runs a Program of the scene: values of all nodes, and of all their adjoints, for given inputs.

import { toNumber, type Atom, type Program } from "../scene";
import { arrayOf, fromData, type NDArray } from "./array";
import type { Metadata, Primitive } from "./primitive";
import { PRIMITIVES } from "./primitives";

export interface Results {
  values: NDArray[];
  adjoints: (NDArray | null)[];
  sent: Map<number, NDArray>; // by the edges that have it
  leaves: number | null; // the line at which these inputs take another path: then the numbers mean nothing
}

interface Step {
  primitive: Primitive;
  reads: number[];
  metadata: Metadata;
  shape: number[];
  dtype: string;
}

// What does not depend on the inputs, made once: constants, bare numbers (behind all variables), the rows' code.
interface Ready {
  variables: (NDArray | undefined)[];
  steps: Step[];
  values: number[];
  adjoints: (number | null)[];
  sent: [edge: number, place: number][];
  branches: [condition: number, truth: boolean, line: number][];
}

const ready = new WeakMap<Program, Ready>();

function prepare(program: Program): Ready {
  const known = program.inputs.length + program.constants.length;
  const variables: (NDArray | undefined)[] = new Array(known + program.equations.length);
  program.constants.forEach((c, k) => (variables[program.inputs.length + k] = fromData(c)));
  const place = (a: Atom): number =>
    typeof a === "number" ? a : variables.push(arrayOf([], "float64", [toNumber(a.number)])) - 1;
  const steps = program.equations.map(([name, atoms, metadata, shape, dtype]): Step => {
    const primitive = PRIMITIVES[name];
    if (!primitive) throw new Error(`the page has no code for ${name}`);
    return { primitive, reads: atoms.map(place), metadata, shape, dtype };
  });
  const values = program.values.map(place);
  const adjoints = program.adjoints.map((a) => (a === null ? null : place(a)));
  const sent = program.sent.map(([k, a]): [number, number] => [k, place(a)]);
  const branches = program.branches.map(([a, truth, line]): Ready["branches"][0] => [place(a), truth, line]);
  return { variables, steps, values, adjoints, sent, branches };
}

export function run(program: Program, inputs: readonly NDArray[]): Results {
  let made = ready.get(program);
  if (!made) ready.set(program, (made = prepare(program)));
  const variables = made.variables.slice() as NDArray[];
  inputs.forEach((a, k) => (variables[k] = a));
  const first = program.inputs.length + program.constants.length;
  made.steps.forEach(({ primitive, reads, metadata, shape, dtype }, k) => {
    variables[first + k] = primitive(reads.map((n) => variables[n]!), metadata, shape, dtype);
  });
  const other = made.branches.find(([n, truth]) => (variables[n]!.data[0] !== 0) !== truth);
  return {
    leaves: other ? other[2] : null,
    values: made.values.map((n) => variables[n]!),
    adjoints: made.adjoints.map((n) => (n === null ? null : variables[n]!)),
    sent: new Map(made.sent.map(([k, n]) => [k, variables[n]!])),
  };
}
