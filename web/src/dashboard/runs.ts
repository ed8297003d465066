// The runs of the page, what of them is shown, and the curves that their lines make.

import { computed, effect, signal } from "@preact/signals";
import { toNumber, type Num } from "../scene";

export interface Histogram {
  size: number;
  bad: number; // not finite, and in nothing else
  zeros?: number;
  low?: Num;
  high?: Num;
  mean?: Num;
  std?: Num;
  counts?: number[];
}

// A line of log.jsonl: src/backsolve/training/log.py says what stands in which kind.
export interface Row {
  kind: string;
  step: number;
  epoch?: number;
  epochs?: number;
  time?: number;
  text?: string;
  stopped?: string | null;
  host?: string | null; // on which the log is held
  norms?: Record<string, Num>;
  arrays?: Record<string, Histogram>;
  [measure: string]: unknown;
}

export interface Run {
  name: string;
  settings: Record<string, string>;
  rows: Row[];
  every: Record<string, number>; // of these kinds, only each k-th line is here
  news: News | null; // null: no log yet
}

// Whether a process on this host holds the log (null: not known), and for how many seconds no line came.
export interface News {
  held: boolean | null;
  age: number;
  host: string;
}

interface Given {
  title: string;
  live: boolean;
  runs: Run[];
}

export const given: Given = JSON.parse(document.getElementById("scene")!.textContent!);
export const runs = signal<Run[]>(given.runs);
export const news = signal(given.runs.map((run) => run.news)); // apart: they change every second, and curves do not
export const hidden = signal<ReadonlySet<number>>(new Set());
export const visible = computed(() => runs.value.map((_, k) => k).filter((k) => !hidden.value.has(k)));
export const chosen = signal(0); // the run whose gradients and histograms are shown

export type Axis = "step" | "epoch" | "time";
export const axis = signal<Axis>("step");
export const smoothing = signal(0.6);
export const isLog = signal(false);

export interface Point {
  x: number;
  y: number;
  step: number;
}

export interface Series {
  label: string;
  color: string;
  dashed?: boolean;
  noisy?: boolean; // smoothing is for it
  points: Point[];
}

const COLORS = ["#2a78d6", "#e07b00", "#1b9e5a", "#c2388b", "#7a5bd0", "#9a7400", "#0e9aa7", "#d0443a"];
export const colorOf = (k: number): string => COLORS[k % COLORS.length]!;

// Names that are no measures of a model, or have charts of their own.
const OWN = /^(kind|step|epoch|seconds|step_seconds|examples_per_second|learning_rate(\/.*)?)$/;

// ---- a run's lines as curves

const asNumber = (x: unknown): number => (typeof x === "number" || typeof x === "string" ? toNumber(x as Num) : NaN);
const of = (run: Run, kind: string): Row[] => run.rows.filter((r) => r.kind === kind);

// Where a step stands on the axis: epochs and seconds are known at some lines, and on straight lines between.
export function place(run: Run, to: Axis): (step: number) => number {
  if (to === "step") return (step) => step;
  const known: [number, number][] = [[0, 0]];
  for (const row of run.rows) {
    const at = to === "epoch" ? (row.kind === "epoch" ? row.epoch : undefined) : row.kind === "step" || row.kind === "epoch" ? row["seconds"] : undefined;
    if (typeof at === "number" && row.step > known.at(-1)![0]) known.push([row.step, at]);
  }
  if (known.length < 2) return () => NaN;
  return (step) => {
    let k = known.findIndex(([s]) => s >= step);
    if (k < 0) k = known.length - 1;
    const [s0, a0] = known[Math.max(k - 1, 0)]!;
    const [s1, a1] = known[Math.max(k, 1)]!;
    return s1 === s0 ? a1 : a0 + ((step - s0) / (s1 - s0)) * (a1 - a0);
  };
}

export function points(run: Run, kind: string, read: (row: Row) => unknown): Point[] {
  const at = place(run, axis.value);
  return of(run, kind)
    .filter((row) => read(row) !== undefined && read(row) !== null)
    .map((row) => ({ x: at(row.step), y: asNumber(read(row)), step: row.step }))
    .filter((p) => Number.isFinite(p.x));
}

export interface Curve {
  title: string;
  series: Series[];
}

// A chart for each measure: what steps logged and, from epochs, what was validated.
export const measures = computed<Curve[]>(() => {
  const names = new Set<string>();
  for (const k of visible.value) {
    for (const row of runs.value[k]!.rows) {
      if (row.kind !== "step" && row.kind !== "epoch") continue;
      for (const name of Object.keys(row)) if (!OWN.test(name)) names.add(name.replace(/^val_/, ""));
    }
  }
  return [...names].map((name) => ({ title: name, series: visible.value.flatMap((k) => seriesOf(k, name)) }));
});

function seriesOf(k: number, name: string): Series[] {
  const run = runs.value[k]!;
  const alone = runs.value.length === 1;
  const head = alone ? "" : `${run.name} `;
  const steps = points(run, "step", (r) => r[name]);
  const trained = steps.length > 1 ? steps : points(run, "epoch", (r) => r[name]);
  const tested = points(run, "epoch", (r) => r[`val_${name}`]);
  return [
    { label: `${head}training`, color: colorOf(k), noisy: trained === steps, points: trained },
    { label: `${head}validation`, color: alone ? colorOf(1) : colorOf(k), dashed: !alone, points: tested },
  ].filter((s) => s.points.length);
}

// The same measure of steps, run by run.
export function stepSeries(name: RegExp, scale = 1, called?: string): Series[] {
  return visible.value.flatMap((k) => {
    const run = runs.value[k]!;
    const names = [...new Set(of(run, "step").flatMap((r) => Object.keys(r).filter((n) => name.test(n))))];
    return names.map((n, j) => ({
      label: [runs.value.length > 1 ? run.name : "", names.length > 1 ? n.replace(/^[^/]*\//, "") : ""].filter(Boolean).join(" ") || (called ?? n.replaceAll("_", " ")),
      color: runs.value.length > 1 ? colorOf(k) : colorOf(j),
      noisy: n !== "learning_rate" && !n.startsWith("learning_rate/"),
      points: points(run, "step", (r) => (r[n] === undefined ? undefined : asNumber(r[n]) * scale)),
    }));
  }).filter((s) => s.points.length);
}

export const epochSeconds = computed<Series[]>(() =>
  visible.value.map((k) => {
    const ends = points(runs.value[k]!, "epoch", (r) => r["seconds"]);
    return {
      label: runs.value.length > 1 ? runs.value[k]!.name : "seconds",
      color: colorOf(k),
      points: ends.map((p, j) => ({ ...p, y: j ? p.y - ends[j - 1]!.y : p.y })),
    };
  }).filter((s) => s.points.length),
);

// Layers from the first to the last: from blue to red.
export const gradients = computed<Series[]>(() => {
  const run = runs.value[chosen.value]!;
  const names = [...new Set(of(run, "gradients").flatMap((r) => Object.keys(r.norms ?? {})))];
  return names.map((name, k) => ({
    label: name,
    color: `hsl(${230 - (names.length > 1 ? (230 * k) / (names.length - 1) : 0)} 70% ${k % 2 ? 60 : 42}%)`, // neighbours differ in lightness
    noisy: true,
    points: points(run, "gradients", (r) => r.norms?.[name]),
  }));
});

export interface Spread {
  name: string;
  at: { step: number; epoch: number; histogram: Histogram }[];
}

export function spreads(kind: "weights" | "activations" | "slopes"): Spread[] {
  const found = new Map<string, Spread>();
  for (const row of of(runs.value[chosen.value]!, kind)) {
    for (const [name, histogram] of Object.entries(row.arrays ?? {})) {
      if (!found.has(name)) found.set(name, { name, at: [] });
      found.get(name)!.at.push({ step: row.step, epoch: row.epoch ?? NaN, histogram });
    }
  }
  return [...found.values()];
}

export function latest(run: Run, ...kinds: string[]): Row | undefined {
  return run.rows.filter((r) => kinds.includes(r.kind)).at(-1);
}

// ---- appearance

export const theme = signal(window.matchMedia?.("(prefers-color-scheme: dark)").matches ? "dark" : "light");
effect(() => {
  document.documentElement.dataset.theme = theme.value;
});
