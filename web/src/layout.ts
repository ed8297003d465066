// Where boxes and wires are drawn: layers from left to right, by dagre.

import dagre from "@dagrejs/dagre";
import type { Scene } from "./scene";
import type { Visible } from "./fold";

export interface Place {
  x: number; // the middle
  y: number;
  width: number;
  height: number;
}

export interface BoxPlace extends Place {
  port: number; // where wires leave: behind the numbers that stand on the stub
}

export interface Point {
  x: number;
  y: number;
}

export interface WirePlace {
  points: Point[]; // from end to end
  label: Point | null; // the middle of what is written below it
}

export interface Layout {
  width: number;
  height: number;
  boxes: Map<number, BoxPlace>;
  frames: Map<number, Place>; // of open groups
  wires: Map<string, WirePlace>;
}

const FEW = 60; // boxes, up to which dagre keeps those of a group together, and takes its time over ranks
const HEAD = 18; // above and below a box, for its name
const TITLE = 18; // the height of a frame's name
const LETTER = 6.6;
const ENTRY = 9; // between wires that enter a box

export const isRound = (gate: string | undefined) => gate === "add" || gate === "multiply";

// `written` says how many letters stand on the stub of a box, `sent` how many on a wire that bundles these edges.
export function layout(scene: Scene, seen: Visible, written: (box: number) => number, sent: (edges: number[]) => number): Layout {
  const isSmall = seen.boxes.length <= FEW;
  const framed = isSmall && seen.open.length > 0;
  const home = homes(scene, seen);
  const graph = new dagre.graphlib.Graph({ compound: framed, multigraph: false });
  graph.setGraph({ rankdir: "LR", nodesep: 10, edgesep: 14, ranksep: 24, marginx: 24, marginy: 24 + (framed ? TITLE * depth(scene, seen.open) : 0), ranker: isSmall ? "network-simplex" : "tight-tree" });
  const sizes = new Map<number, { width: number; height: number; stub: number }>();
  for (const box of seen.boxes) {
    const node = box.isGroup ? null : scene.nodes[box.id]!;
    const name = node ? (node.operation ?? node.name) : scene.groups[box.id - scene.nodes.length]!.name;
    const height = box.isGroup ? 52 : 40;
    const width = isRound(node?.gate) ? height + 4 : Math.max(box.isGroup ? 84 : 46, 24 + 7.4 * Math.min(name.length, 24));
    const stub = box.isGroup ? 0 : 10 + LETTER * written(box.id);
    sizes.set(box.id, { width, height, stub });
    graph.setNode(String(box.id), { width: width + stub, height: height + 2 * HEAD });
  }
  if (framed) {
    for (const g of seen.open) graph.setNode(`frame ${g}`, {});
    for (const g of seen.open) {
      const parent = scene.groups[g]!.parent;
      if (parent !== null) graph.setParent(`frame ${g}`, `frame ${parent}`);
    }
    for (const [id, group] of home) if (group !== null) graph.setParent(String(id), `frame ${group}`);
  }
  for (const wire of seen.wires) {
    const letters = sent(wire.edges);
    const label = letters ? { width: 8 + LETTER * letters, height: 34, labelpos: "c" } : { width: 0, height: 0 };
    graph.setEdge(String(wire.from), String(wire.to), label);
  }
  dagre.layout(graph);

  const place = (id: string): Place => {
    const n = graph.node(id);
    return { x: n.x, y: n.y, width: n.width, height: n.height };
  };
  const boxes = new Map<number, BoxPlace>();
  for (const [id, { width, height, stub }] of sizes) {
    const { x, y } = place(String(id));
    boxes.set(id, { x: x - stub / 2, y, width, height, port: x + (width + stub) / 2 });
  }

  const wires = new Map<string, WirePlace>();
  const entering = new Map<number, { from: number; wire: WirePlace }[]>();
  for (const wire of seen.wires) {
    const edge = graph.edge(String(wire.from), String(wire.to));
    const from = boxes.get(wire.from)!;
    // dagre clips a wire at the outlines; ours leave and enter in the middle of a side.
    const bends: Point[] = (edge.points ?? []).slice(1, -1);
    const label = edge.width ? { x: edge.x!, y: edge.y! } : null;
    const inner = label ? bends.flatMap((p) => (isAt(p, label) ? level(p, edge.width / 2) : [p])) : bends;
    const found = { points: [{ x: from.port, y: from.y }, ...inner], label };
    wires.set(wire.id, found);
    const others = entering.get(wire.to);
    const entry = { from: inner.at(-1)?.y ?? from.y, wire: found };
    if (others) others.push(entry);
    else entering.set(wire.to, [entry]);
  }
  for (const [id, found] of entering) enter(boxes.get(id)!, isRound(scene.nodes[id]?.gate), found);

  const size = graph.graph();
  return {
    width: size.width ?? 100,
    height: size.height ?? 100,
    boxes,
    frames: framed ? titled(scene, new Map(seen.open.map((g) => [g, place(`frame ${g}`)]))) : around(scene, seen, home, boxes),
    wires,
  };
}

// The names of frames in frames stand one below the other.
function titled(scene: Scene, frames: Map<number, Place>): Map<number, Place> {
  for (const [g, inner] of [...frames].sort(([a], [b]) => b - a)) {
    const outer = frames.get(scene.groups[g]!.parent ?? -1);
    if (!outer) continue;
    const more = TITLE - (top(inner) - top(outer));
    if (more <= 0) continue;
    outer.y -= more / 2;
    outer.height += more;
  }
  return frames;
}

// How many frames stand around another at most.
function depth(scene: Scene, open: readonly number[]): number {
  const around = new Map<number | null, number>();
  for (const g of open) around.set(g, (around.get(scene.groups[g]!.parent) ?? -1) + 1);
  return Math.max(0, ...around.values());
}

const top = ({ y, height }: Place) => y - height / 2;

type Homes = Map<number, number | null>; // the open group in which each box stands

// Weights stand with what alone reads them. Arguments of the function itself stay outside, as do those that many rounds read.
function homes(scene: Scene, seen: Visible): Homes {
  const home: Homes = new Map(seen.boxes.map((b) => [b.id, b.group]));
  const shared = new Map<number, number | null>();
  for (const { from, to } of seen.wires) {
    const node = scene.nodes[from];
    if (node?.kind !== "parameter" || /^\w+$/.test(node.name)) continue;
    const group = home.get(to)!;
    shared.set(from, shared.has(from) ? common(scene, shared.get(from)!, group) : group);
  }
  for (const [id, group] of shared) {
    let g = group;
    while (g !== null && (scene.groups[g]!.kind === "loop" || scene.groups[g]!.kind === "stretch")) g = scene.groups[g]!.parent;
    home.set(id, g);
  }
  return home;
}

// The innermost group that holds both: groups come before their parts.
function common(scene: Scene, a: number | null, b: number | null): number | null {
  while (a !== b) {
    if (a === null || b === null) return null;
    if (a > b) a = scene.groups[a]!.parent;
    else b = scene.groups[b]!.parent;
  }
  return a;
}

// Frames around what stands in open groups, wherever it stands. Where boxes of others stand between, a frame would
// tell a lie: what is left of it is its name, above its first box.
function around(scene: Scene, seen: Visible, home: Homes, boxes: Map<number, BoxPlace>): Map<number, Place> {
  const frames = new Map<number, Edges>();
  const isIn = new Map<number, Set<number>>(seen.open.map((g) => [g, new Set()]));
  for (const box of seen.boxes) {
    const inner = edgesOf(boxes.get(box.id)!);
    for (let g = home.get(box.id) ?? null, depth = 0; g !== null; g = scene.groups[g]!.parent, depth++) {
      const grown = grow(inner, 5 + 5 * depth, 8 + 20 * depth);
      const old = frames.get(g);
      frames.set(g, old ? joined(old, grown) : grown);
      isIn.get(g)!.add(box.id);
    }
  }
  const places = new Map<number, Place>();
  for (const [g, frame] of frames) {
    const members = isIn.get(g)!;
    const isTrue = seen.boxes.every((b) => members.has(b.id) || areApart(frame, edgesOf(boxes.get(b.id)!)));
    const first = seen.boxes.find((b) => members.has(b.id))!;
    const { left, top, right, bottom } = isTrue ? frame : grow(edgesOf(boxes.get(first.id)!), 5, 8);
    places.set(g, { x: (left + right) / 2, y: isTrue ? (top + bottom) / 2 : top, width: right - left, height: isTrue ? bottom - top : 0 });
  }
  return places;
}

interface Edges {
  left: number;
  top: number;
  right: number;
  bottom: number;
}

function edgesOf({ x, y, width, height, port }: BoxPlace): Edges {
  return { left: x - width / 2, top: y - height / 2 - HEAD, right: Math.max(port, x + width / 2), bottom: y + height / 2 };
}

const grow = (e: Edges, x: number, y: number): Edges => ({ left: e.left - x, top: e.top - y - 12, right: e.right + x, bottom: e.bottom + y });
const areApart = (a: Edges, b: Edges) => a.right < b.left || b.right < a.left || a.bottom < b.top || b.bottom < a.top;
const joined = (a: Edges, b: Edges): Edges => ({
  left: Math.min(a.left, b.left), top: Math.min(a.top, b.top), right: Math.max(a.right, b.right), bottom: Math.max(a.bottom, b.bottom),
});

const isAt = (p: Point, q: Point) => Math.abs(p.x - q.x) < 1 && Math.abs(p.y - q.y) < 1;

// A wire runs level where something is written below it.
function level({ x, y }: Point, half: number): Point[] {
  return [{ x: x - half, y }, { x: x + half, y }];
}

// Wires enter a box side by side, in the order in which they come, so that none hides another.
function enter(box: BoxPlace, isRounded: boolean, found: { from: number; wire: WirePlace }[]): void {
  found.sort((a, b) => a.from - b.from);
  const gap = Math.min(ENTRY, (box.height - 10) / found.length);
  found.forEach(({ wire }, k) => {
    const dy = (k - (found.length - 1) / 2) * gap;
    const inset = isRounded ? (Math.abs(dy) / box.height) * box.width * 0.5 : 0;
    wire.points.push({ x: box.x - box.width / 2 + inset, y: box.y + dy });
  });
}
