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

export interface Layout {
  width: number;
  height: number;
  boxes: Map<number, BoxPlace>;
  frames: Map<number, Place>; // of open groups
  wires: Map<string, Point[]>; // the corners between their ends
}

const FRAMES = 40; // open groups, up to which dagre keeps them together

// `written` says how many letters stand on the stub of a box.
export function layout(scene: Scene, seen: Visible, written: (box: number) => number): Layout {
  const framed = seen.open.length > 0 && seen.open.length <= FRAMES;
  const graph = new dagre.graphlib.Graph({ compound: framed, multigraph: false });
  graph.setGraph({ rankdir: "LR", nodesep: 30, ranksep: 34, marginx: 24, marginy: 24 });
  graph.setDefaultEdgeLabel(() => ({}));
  const widths = new Map<number, [box: number, stub: number]>();
  for (const box of seen.boxes) {
    const node = box.isGroup ? null : scene.nodes[box.id]!;
    const name = node ? (node.operation ?? node.name) : scene.groups[box.id - scene.nodes.length]!.name;
    const height = box.isGroup ? 52 : 38;
    const isRound = node?.gate === "add" || node?.gate === "multiply";
    const width = isRound ? height : Math.max(box.isGroup ? 84 : 44, 18 + 7.4 * Math.min(name.length, 24));
    const stub = box.isGroup ? 0 : 10 + 6.6 * written(box.id);
    widths.set(box.id, [width, stub]);
    graph.setNode(String(box.id), { width: width + stub, height });
  }
  if (framed) {
    for (const g of seen.open) graph.setNode(`frame ${g}`, {});
    for (const g of seen.open) {
      const parent = scene.groups[g]!.parent;
      if (parent !== null) graph.setParent(`frame ${g}`, `frame ${parent}`);
    }
    for (const box of seen.boxes) {
      if (box.group !== null) graph.setParent(String(box.id), `frame ${box.group}`);
    }
  }
  for (const wire of seen.wires) graph.setEdge(String(wire.from), String(wire.to));
  dagre.layout(graph);
  const place = (id: string): Place => {
    const n = graph.node(id);
    return { x: n.x, y: n.y, width: n.width, height: n.height };
  };
  const boxes = new Map<number, BoxPlace>();
  for (const [id, [width, stub]] of widths) {
    const { x, y, height } = place(String(id));
    boxes.set(id, { x: x - stub / 2, y, width, height, port: x + (width + stub) / 2 });
  }
  const size = graph.graph();
  return {
    width: size.width ?? 100,
    height: size.height ?? 100,
    boxes,
    frames: new Map(framed ? seen.open.map((g) => [g, place(`frame ${g}`)]) : []),
    wires: new Map(seen.wires.map((w) => [w.id, bend(graph.edge(String(w.from), String(w.to)).points ?? [])])),
  };

  // dagre clips a wire at the outlines; ours leave and enter in the middle of a side.
  function bend(points: Point[]): Point[] {
    return points.slice(1, -1);
  }
}
