// What the page knows and what changes. Views read these signals, and nothing else is shared between them.

import { batch, computed, effect, signal } from "@preact/signals";
import { firstOther } from "./agree";
import { isWithin, revealing, visible } from "./fold";
import { fadingFindings } from "./fading";
import { badFindings } from "./health";
import { layout, type Place } from "./layout";
import { arrayOf, fromData, type NDArray } from "./run/array";
import { run } from "./run/program";
import type { Finding, Scene, Summary } from "./scene";
import { stubText, summarise } from "./summary";

export const scene: Scene = JSON.parse(document.getElementById("scene")!.textContent!);
export const rows = scene.nodes.length;
const program = "program" in scene.recompute ? scene.recompute.program : null;

// ---- values

export const isEditable = program !== null;
export const originals: readonly NDArray[] = program?.inputs.map(fromData) ?? [];
export const seeded = program?.seeded ?? []; // nodes: the last inputs are their seeds
export const inputs = signal(originals);
export const isEdited = signal(false);

export interface Numbers {
  value: Summary;
  adjoint: Summary | null;
}

// A large program has many arrays, and few are looked at.
class Again implements Numbers {
  #value: Summary | undefined;
  #adjoint: Summary | null | undefined;
  constructor(readonly v: NDArray, readonly g: NDArray | null) {}
  get value(): Summary {
    return (this.#value ??= summarise(this.v));
  }
  get adjoint(): Summary | null {
    return (this.#adjoint ??= this.g && summarise(this.g));
  }
}

const results = computed(() => (program && isEdited.value ? run(program, inputs.value) : null));
// The line at which the edited inputs take another path; the page knows only the one that was run.
export const leavesPathAt = computed(() => results.value?.leaves ?? null);

// Whether the numbers are still those of the run, as all that Python wrote about blocks and paths is.
export const isAsRun = computed(() => results.value === null || leavesPathAt.value !== null);

export const numbers = computed<Numbers[]>(() => {
  if (!results.value || leavesPathAt.value !== null) return scene.nodes;
  const { values, adjoints } = results.value;
  return scene.nodes.map((_, k) => new Again(values[k]!, adjoints[k]!));
});

// What goes back along an edge, where its source adds up several terms.
export const sent = computed<(Summary | null)[]>(() => {
  const again = results.value;
  if (!again || leavesPathAt.value !== null) return scene.edges.map((e) => e.sent);
  return scene.edges.map((_, k) => (again.sent.has(k) ? summarise(again.sent.get(k)!) : null));
});

const asRun = computed(() => (program ? run(program, originals) : null));
// A node of which this browser finds other numbers than Python did.
export const differsAt = computed(() => asRun.value && firstOther(scene, asRun.value.values, asRun.value.adjoints));
// Of all nodes, with all entries; absent while the inputs lead another way.
export const gradients = computed(() => (leavesPathAt.value === null ? (results.value ?? asRun.value)?.adjoints : undefined));

export const findings = computed<Finding[]>(() => {
  if (!results.value || leavesPathAt.value !== null) return scene.findings;
  const { values, adjoints } = results.value;
  return [...badFindings(scene, values, adjoints), ...fadingFindings(scene, values, adjoints, inputs.value.slice(inputs.value.length - seeded.length))];
});

export const troubles = computed(() => new Map([...findings.value].reverse().map((f) => [f.node, f]))); // the worst of each node

export function edit(input: number, changes: readonly [entry: number, x: number][]): void {
  const changed = inputs.value.slice();
  const before = changed[input]!;
  const after = arrayOf(before.shape, before.dtype, before.data);
  for (const [entry, x] of changes) after.data[entry] = x;
  changed[input] = after;
  batch(() => {
    inputs.value = changed;
    isEdited.value = true;
  });
}

export function restore(): void {
  batch(() => {
    inputs.value = originals;
    isEdited.value = false;
  });
}

// ---- folding

export const closed = signal<ReadonlySet<number>>(new Set(scene.closed));
export const seen = computed(() => visible(scene, closed.value));
export const order = computed(() => new Map(seen.value.boxes.map((b, k) => [b.id, k]))); // places in the run
export const places = computed(() => layout(scene, seen.value, lettersAt, lettersOn));

// As long as the numbers that the page came with: editing one does not move the boxes.
function lettersAt(node: number): number {
  const { value, adjoint } = scene.nodes[node]!;
  return Math.max(stubText(value).length, adjoint ? stubText(adjoint).length : 0);
}

function lettersOn(edges: readonly number[]): number {
  const what = edges.length === 1 ? scene.edges[edges[0]!]!.sent : null;
  return what ? stubText(what).length : 0;
}

interface Anchor {
  group: number;
  first: number; // of its nodes
  before: Place | null;
  focus: string | undefined; // the view that had it
}

// The group that was just opened or closed: it stays where it is on the screen while boxes move, and keeps the focus.
export const anchor = signal<Anchor | null>(null);

export function toggle(group: number): void {
  const now = new Set(closed.value);
  if (!now.delete(group)) now.add(group);
  const before = placeOf(group);
  const focus = document.activeElement?.closest("#graph, #matrix")?.id;
  const first = scene.nodes.findIndex((n) => isWithin(scene, n.group, group));
  batch(() => {
    fold(now);
    anchor.value = { group, first, before, focus };
  });
}

// The stepper stays where it is in the program.
function fold(now: ReadonlySet<number>): void {
  const { phase, box } = moment.value;
  const first = seen.value.boxes.find((b) => b.id === box)?.first;
  anchor.value = null;
  closed.value = now;
  if (first === undefined) return;
  const at = order.value.get(seen.value.boxOf[first]!)!;
  step.value = phase === "ahead" ? at + 1 : steps.value - at;
}

// Of a group, open or closed.
export function placeOf(group: number): Place | null {
  return places.value.frames.get(group) ?? places.value.boxes.get(scene.nodes.length + group) ?? null;
}

// ---- selection and steps

export const selected = signal<number | null>(null); // a box
export const hovered = signal<string | null>(null); // a wire, which is a block of the matrix
export const panel = signal(scene.findings.some((f) => f.kind === "nan" || f.kind === "inf") ? "Findings" : "Step");

export function select(node: number): void {
  batch(() => {
    const open = revealing(scene, closed.value, node);
    if (open.size < closed.value.size) fold(open);
    selected.value = node;
  });
}

// Selects, and says all about it.
export function inspect(node: number): void {
  batch(() => {
    select(node);
    panel.value = "Details";
  });
}

// Step 0: nothing is known. Steps 1 … n: the boxes that are seen are computed one by one, ahead; then, from the
// last to the first, their adjoints are complete.
export const step = signal(-1); // -1: everything is shown, nobody steps
export const steps = computed(() => 2 * seen.value.boxes.length);
export const isPlaying = signal(false);
export const SPEEDS = [0.25, 0.5, 1, 2, 4];
export const speed = signal(1);

export interface Moment {
  phase: "all" | "ahead" | "back";
  box: number | null; // being computed, or passing its adjoint on
  known: number; // so many boxes have values
  done: number; // and so many, from the last, adjoints
}

export const moment = computed<Moment>(() => {
  const boxes = seen.value.boxes;
  const n = boxes.length;
  const k = Math.min(step.value, 2 * n);
  if (k < 0) return { phase: "all", box: null, known: n, done: n };
  if (k <= n) return { phase: "ahead", box: k === 0 ? null : boxes[k - 1]!.id, known: k, done: 0 };
  return { phase: "back", box: boxes[2 * n - k]!.id, known: n, done: k - n };
});

export function go(to: number): void {
  step.value = Math.max(-1, Math.min(to, steps.value));
  if (step.value >= steps.value) isPlaying.value = false;
}

effect(() => {
  if (!isPlaying.value) return;
  const pace = Math.max(120, Math.min(900, 30_000 / steps.value)) / speed.value;
  const timer = setInterval(() => go(step.value + 1), pace);
  return () => clearInterval(timer);
});

// ---- appearance

export type Theme = "light" | "dark";
const wish = window.matchMedia?.("(prefers-color-scheme: dark)").matches ? "dark" : "light";
export const theme = signal<Theme>(wish);
effect(() => {
  document.documentElement.dataset.theme = theme.value;
});
