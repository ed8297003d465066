// What depth and single functions do to a gradient, after inputs were edited; for the run itself Python says it
// (show/health.py), and a test compares the two.

import { norm, type NDArray } from "./run/array";
import type { Chain, Finding, Scene, Watched } from "./scene";

type Arrays = readonly (NDArray | null)[];

export function fadingFindings(scene: Scene, values: readonly NDArray[], adjoints: Arrays, seeds: readonly NDArray[]): Finding[] {
  const watched = scene.watched!;
  const along = (unit: string) => watched.chains.filter((c) => c.unit === unit).flatMap((c) => fading(c, watched, adjoints));
  const layers = along("layer");
  return [...(layers.length ? layers : along("round")), ...sizes(scene, watched, adjoints, seeds), ...activations(watched, values)];
}

function fading({ nodes, way, unit }: Chain, { limits }: Watched, adjoints: Arrays): Finding[] {
  const found = nodes.map((k) => norm(adjoints[k]!.data) / Math.sqrt(Math.max(1, adjoints[k]!.data.length)));
  const [a, b] = [found[0]!, found.at(-1)!];
  if (!(a > 0 && b > 0 && Number.isFinite(a) && Number.isFinite(b))) return [];
  const ratio = a / b;
  const each = ratio ** (1 / (found.length - 1));
  const text = `${way} the gradient becomes ${power(ratio)} of what it was: ×${twoDigits(each)} in each ${unit}`;
  const steps = found.slice(1).flatMap((x, k) => (x > 0 ? [found[k]! / x] : []));
  const half = steps.length / 2;
  const node = nodes[0]!;
  if (ratio < limits.fades && steps.filter((s) => s < 0.9).length >= half) return [{ kind: "vanishing", node, text }];
  if (ratio > 1 / limits.fades && steps.filter((s) => s > 1.1).length >= half) return [{ kind: "exploding", node, text }];
  return [];
}

// Gradients that are tiny or huge beside the seeds, where they become so; those that are zero or absent.
function sizes(scene: Scene, { limits, adding }: Watched, adjoints: Arrays, seeds: readonly NDArray[]): Finding[] {
  const found: Finding[] = [];
  const reference = Math.max(0, ...seeds.map((s) => norm(s.data))) || 1;
  const all = adjoints.map((a) => (a ? norm(a.data) / reference : null));
  const above = scene.nodes.map((): number[] => []);
  for (const { from, to } of scene.edges) if (all[to] !== null) above[from]!.push(all[to]!);
  const addsUp = new Set(adding);
  for (let node = all.length - 1; node >= 0; node--) {
    const size = all[node];
    const say = (kind: Finding["kind"], text: string) => found.push({ kind, node, text });
    if (size === null || size === undefined) {
      if (scene.nodes[node]!.kind === "parameter") say("unused", "the result does not depend on it");
      continue;
    }
    if (!adjoints[node]!.data.length || !adjoints[node]!.data.every(Number.isFinite)) continue;
    const before = above[node]!.length ? Math.max(...above[node]!) : 1;
    if (size > 0 && size < limits.rounding * before && addsUp.has(node)) say("zero", "its gradient is zero up to rounding: what comes back to it cancels");
    else if (size > 0 && size < limits.small && before >= limits.small) say("vanishing", `its gradient has the norm ${power(size)}`);
    else if (size > limits.large && before <= limits.large) say("exploding", `its gradient has the norm ${power(size)}`);
    else if (size === 0 && before >= limits.small && above[node]!.length) say("zero", "its gradient is zero everywhere: nothing passes back");
  }
  return found;
}

const SLOPES: Record<string, (y: number) => number> = { tanh: (y) => 1 - y * y, sigmoid: (y) => y * (1 - y), erf: (y) => 1 - Math.abs(y) };

function activations({ limits, activations: rows }: Watched, values: readonly NDArray[]): Finding[] {
  return rows.flatMap(([node, watched]): Finding[] => {
    const { data, shape } = values[node]!;
    if (!data.length || !data.every(Number.isFinite)) return [];
    if (typeof watched === "string") {
      const share = Array.from(data).filter((y) => SLOPES[watched]!(y) < limits.flat).length / data.length;
      const entries = data.length === 1 ? "its one entry is" : `its ${data.length.toLocaleString("en")} entries are`;
      return share < limits.many ? [] : [{ kind: "saturated", node, text: `${Math.round(100 * share)}% of ${entries} saturated: slopes below ${limits.flat}` }];
    }
    const units = shape[watched]!;
    const inner = shape.slice(watched + 1).reduce((n, s) => n * s, 1);
    const isAlive = new Set<number>();
    for (let k = 0; k < data.length; k++) if (data[k] !== 0) isAlive.add(Math.floor(k / inner) % units);
    const dead = units - isAlive.size;
    return dead < limits.many * units ? [] : [{ kind: "dead", node, text: `${dead} of ${units} units give zero for everything that came in` }];
  });
}

// As Python writes them: 3.1e-04, and 0.32, 12 or 1.2e+03.
function power(x: number): string {
  return x.toExponential(1).replace(/e([+-])(\d)$/, "e$10$2");
}

function twoDigits(x: number): string {
  const digits = Math.floor(Math.log10(Number(x.toPrecision(2))));
  return digits < -4 || digits >= 2 ? power(x).replace(".0e", "e") : String(Number(x.toPrecision(2)));
}
