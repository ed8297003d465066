// Which boxes are seen: a node, or the outermost closed group around it. Nodes keep their numbers; group g is
// box `nodes.length + g`.

import type { Scene } from "./scene";

export interface Box {
  id: number;
  group: number | null; // the open group it stands in
  isGroup: boolean;
  first: number; // the range of nodes that it stands for
  last: number;
  count: number;
}

export interface Wire {
  id: string;
  from: number; // boxes
  to: number;
  edges: number[]; // what it bundles, by their numbers in the scene
}

export interface Visible {
  boxes: Box[]; // in the order of the run
  wires: Wire[];
  boxOf: number[]; // of each node
  open: number[]; // groups whose parts are seen
}

export function visible(scene: Scene, closed: ReadonlySet<number>): Visible {
  const hiddenBy = outermostClosed(scene, closed);
  const boxOf = scene.nodes.map((node, k) => {
    const hidden = node.group === null ? -1 : hiddenBy[node.group]!;
    return hidden < 0 ? k : scene.nodes.length + hidden;
  });
  const boxes = new Map<number, Box>();
  boxOf.forEach((id, k) => {
    const box = boxes.get(id);
    if (box) {
      box.last = k;
      box.count++;
      return;
    }
    const isGroup = id >= scene.nodes.length;
    const group = isGroup ? scene.groups[id - scene.nodes.length]!.parent : scene.nodes[k]!.group;
    boxes.set(id, { id, group, isGroup, first: k, last: k, count: 1 });
  });
  const wires = new Map<string, Wire>();
  scene.edges.forEach((e, k) => {
    const from = boxOf[e.from]!;
    const to = boxOf[e.to]!;
    if (from === to) return;
    const id = `${from}-${to}`;
    const wire = wires.get(id);
    if (wire) wire.edges.push(k);
    else wires.set(id, { id, from, to, edges: [k] });
  });
  const open = scene.groups.map((_, g) => g).filter((g) => hiddenBy[g]! < 0);
  return { boxes: [...boxes.values()], wires: [...wires.values()], boxOf, open };
}

// The closed group that hides each group, itself among them; -1 if it is seen open.
function outermostClosed(scene: Scene, closed: ReadonlySet<number>): number[] {
  const found: number[] = [];
  scene.groups.forEach((group, g) => {
    const above = group.parent === null ? -1 : found[group.parent]!;
    found.push(above >= 0 ? above : closed.has(g) ? g : -1);
  });
  return found;
}

export function isWithin(scene: Scene, inner: number | null, outer: number): boolean {
  while (inner !== null && inner > outer) inner = scene.groups[inner]!.parent;
  return inner === outer;
}

// Opens every group around a node, so that it is seen.
export function revealing(scene: Scene, closed: ReadonlySet<number>, node: number): Set<number> {
  const open = new Set(closed);
  for (let g = scene.nodes[node]!.group; g !== null; g = scene.groups[g]!.parent) open.delete(g);
  return open;
}
