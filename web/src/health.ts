// Where NaN and infinities start, after inputs were edited; for the run itself Python says it (show/health.py).

import type { NDArray } from "./run/array";
import type { Finding, Scene } from "./scene";

type Trouble = "nan" | "inf" | null;

const WORDS = { nan: "NaN", inf: "an infinity" };

export function badFindings(scene: Scene, values: readonly NDArray[], adjoints: readonly (NDArray | null)[]): Finding[] {
  const found: Finding[] = [];
  const ahead = values.map(trouble);
  const back = adjoints.map((a) => (a ? trouble(a) : null));
  const reads = scene.nodes.map((): number[] => []);
  const readers = scene.nodes.map((): number[] => []);
  for (const { from, to } of scene.edges) {
    reads[to]!.push(from);
    readers[from]!.push(to);
  }
  ahead.forEach((kind, node) => {
    if (!kind || reads[node]!.some((k) => ahead[k])) return;
    const why = scene.nodes[node]!.kind === "parameter" ? `${WORDS[kind]} was given` : `its value holds ${WORDS[kind]}, and what it reads does not`;
    found.push({ kind, node, text: why });
  });
  for (let node = back.length - 1; node >= 0; node--) {
    const kind = back[node];
    if (kind && !readers[node]!.some((k) => back[k])) {
      found.push({ kind, node, text: `its gradient holds ${WORDS[kind]}, and those it comes from do not` });
    }
  }
  return found;
}

function trouble(a: NDArray): Trouble {
  let found: Trouble = null;
  for (const x of a.data) {
    if (Number.isNaN(x)) return "nan";
    if (!Number.isFinite(x)) found = "inf";
  }
  return found;
}
