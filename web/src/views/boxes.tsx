// The parts of the graph: boxes with their numbers, wires, frames of open groups.

import { useComputed } from "@preact/signals";
import type { Box, Wire } from "../fold";
import type { BoxPlace, Place, Point, WirePlace } from "../layout";
import { gravity, type Finding } from "../scene";
import { findings, hovered, isAsRun, moment, numbers, order, scene, seen, selected, sent, troubles } from "../state";
import { stubText } from "../summary";
import { isLit, wireLight } from "./light";
import { Shape } from "./shapes";
import { fold, stopOfBox, stopOfFrame } from "./stops";
import { isOutput, labelOf, plural, readers, spoken } from "./words";

export function Frame({ group, place, onFocus }: { group: number; place: Place; onFocus: () => void }) {
  const { name, kind } = scene.groups[group]!;
  return (
    <g class={`frame ${kind}`} transform={`translate(${place.x - place.width / 2} ${place.y - place.height / 2})`}>
      <rect width={place.width} height={place.height} rx="10" />
      <text x="8" y="14" role="button" tabindex={-1} data-stop={stopOfFrame(group)} onFocus={onFocus} aria-label={`fold ${name}`} onClick={() => fold(group)}>▾ {name}</text>
    </g>
  );
}

export function WireView({ wire, place }: { wire: Wire; place: WirePlace }) {
  // Computed apart: a wire is drawn anew only if its own light changes, not at every step.
  const light = useComputed(() => (hovered.value === wire.id ? "lit" : wireLight(wire, moment.value))).value;
  const isPassed = useComputed(() => isLit(wire.to, moment.value).adjoint).value;
  const d = curve(place.points);
  const edge = wire.edges.length === 1 ? wire.edges[0]! : null;
  const what = edge === null ? null : sent.value[edge]!;
  const isKnown = what !== null && place.label !== null && isPassed;
  return (
    <g class="link" data-wire={wire.id} onMouseEnter={() => { hovered.value = wire.id; }} onMouseLeave={() => { hovered.value = null; }}>
      <path class="hit" d={d} />
      <path class={`wire ${light}`} d={d} marker-end={`url(#arrow${light})`} />
      {isKnown && <text class="sent adjoint" x={place.label!.x} y={place.label!.y + 13}>{stubText(what!)}</text>}
      <title>{wireText(wire)}</title>
    </g>
  );
}

export function wireText(wire: Wire): string {
  const edges = wire.edges.map((k) => scene.edges[k]!);
  const cost = edges.reduce((s, e) => s + (e.multiplications ?? 0), 0);
  const price = plural(cost, "multiplication");
  if (edges.length > 1) return `${edges.length} blocks from ${boxName(wire.from)} to ${boxName(wire.to)}, ${price}`;
  const [e] = edges;
  const back = sent.value[wire.edges[0]!] ?? (isOnlyTerm(wire.edges[0]!) ? numbers.value[e!.from]!.adjoint : null);
  const gradient = back ? `; sends back ${back.text}` : "";
  return `∂${scene.nodes[e!.to]!.name}/∂${scene.nodes[e!.from]!.name}: ${isAsRun.value ? e!.operator : e!.kind}, ${price}${gradient}`;
}

const boxName = (id: number) => scene.nodes[id]?.name ?? scene.groups[id - scene.nodes.length]!.name;

// Then what goes back along it is all that its source gets.
export function isOnlyTerm(edge: number): boolean {
  const { from } = scene.edges[edge]!;
  return readers[from]!.length === 1 && !isOutput.has(from);
}

// Level at every corner, so that wires leave and enter boxes straight.
function curve(points: Point[]): string {
  const at = (p: Point) => `${p.x.toFixed(1)} ${p.y.toFixed(1)}`;
  return points.reduce((d, p, k) => {
    if (k === 0) return `M${at(p)}`;
    const before = points[k - 1]!;
    const middle = (before.x + p.x) / 2;
    return `${d}C${at({ x: middle, y: before.y })} ${at({ x: middle, y: p.y })} ${at(p)}`;
  }, "");
}

interface BoxProps {
  box: Box;
  place: BoxPlace;
  act: () => void;
  onFocus: () => void;
}

export function BoxView({ box, place, act, onFocus }: BoxProps) {
  const node = box.isGroup ? null : scene.nodes[box.id]!;
  const now = box.isGroup ? null : numbers.value[box.id]!;
  const { width: w, height: h } = place;
  const state = useComputed(() => isLit(box.id, moment.value).state).value;
  const isKnown = useComputed(() => isLit(box.id, moment.value).value).value;
  const isPassed = useComputed(() => isLit(box.id, moment.value).adjoint).value;
  const isSelected = useComputed(() => selected.value === box.id).value;
  const isStop = useComputed(() => box.id === (order.value.has(selected.value ?? -1) ? selected.value : seen.value.boxes[0]!.id)).value;
  const kind = box.isGroup ? "group" : (node!.gate ?? "parameter");
  const bad = troubles.value.get(box.id) ?? (box.isGroup ? troubleWithin(box.id) : undefined);
  const fanOut = box.isGroup ? 0 : readers[box.id]!.length;
  return (
    <g class={`box ${kind} ${state} ${isSelected ? "selected" : ""} ${bad ? gravity(bad) : ""}`}
      data-node={box.id} data-order={box.first} data-stop={stopOfBox(box.id)} transform={`translate(${place.x} ${place.y})`} role="button" tabindex={isStop ? 0 : -1}
      aria-label={spoken(box)} aria-pressed={isSelected} onClick={act} onFocus={onFocus}>
      {box.isGroup && <rect class="behind" x={-w / 2 + 4} y={-h / 2 - 4} width={w} height={h} rx="10" />}
      {node && <rect class="hit" y={-h / 2} width={place.port - place.x - 6} height={h} />}
      <Shape kind={kind} width={w} height={h} />
      <text class="name" y={box.isGroup ? -2 : 4}>{shorten(labelOf(box))}</text>
      {box.isGroup && <text class="count" y="16">▸ {box.count} rows</text>}
      {node?.kind === "row" && <text class="number" y={-h / 2 - 6}>{node.name}</text>}
      {now && fanOut > 0 && <path class="stub" d={`M${w / 2} 0H${place.port - place.x}`} />}
      {now && isKnown && <text class="value" x={w / 2 + 5} y="-5">{stubText(now.value)}</text>}
      {now?.adjoint && isPassed && <text class="adjoint" x={w / 2 + 5} y="14">{stubText(now.adjoint)}</text>}
      {fanOut > 1 && <circle class="copy" cx={place.port - place.x} r="3.5"><title>copy adds: {fanOut} rows read it, and what comes back is added</title></circle>}
      <title>{bad ? `${spoken(box)}. ${box.isGroup ? `${scene.nodes[bad.node]!.name}: ` : ""}${bad.text}` : spoken(box)}</title>
    </g>
  );
}

const shorten = (label: string) => (label.length > 26 ? `${label.slice(0, 25)}…` : label);

function troubleWithin(box: number): Finding | undefined {
  const within = findings.value.filter((f) => seen.value.boxOf[f.node] === box);
  return within.find((f) => gravity(f) === "bad") ?? within[0];
}
