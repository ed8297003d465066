// The graph, left to right: values in green above a wire, gradients in red below it.

import { select as pick } from "d3-selection";
import { zoom, zoomIdentity, type ZoomBehavior } from "d3-zoom";
import { useEffect, useRef } from "preact/hooks";
import type { Box, Wire } from "../fold";
import type { BoxPlace, Place, Point } from "../layout";
import { moment, numbers, places, scene, seen, selected, toggle, troubles } from "../state";
import { stubText } from "../summary";
import { isLit, wireLight } from "./light";

const SYMBOL: Record<string, string> = {
  add: "+", subtract: "−", multiply: "×", divide: "÷", contract: "@", negative: "−", sum: "Σ", square: "x²", power: "xʸ",
  maximum: "max", minimum: "min", sqrt: "√",
};

export function labelOf(box: Box): string {
  if (box.isGroup) return scene.groups[box.id - scene.nodes.length]!.name;
  const node = scene.nodes[box.id]!;
  return node.operation ? (SYMBOL[node.operation] ?? node.operation) : node.name;
}

export function spoken(box: Box): string {
  if (box.isGroup) return `${labelOf(box)}, ${box.count} rows, folded. Enter opens it`;
  const node = scene.nodes[box.id]!;
  const now = numbers.value[box.id]!;
  const what = node.text ? `${node.name} = ${node.text}` : `parameter ${node.name}`;
  return `${what}, value ${now.value.text}, gradient ${now.adjoint?.text ?? "none"}`;
}

export function GraphView() {
  const svg = useRef<SVGSVGElement>(null);
  const inner = useRef<SVGGElement>(null);
  const zooming = useRef<ZoomBehavior<SVGSVGElement, unknown> | null>(null);
  const { width, height } = places.value;

  useEffect(() => {
    const behaviour = zoom<SVGSVGElement, unknown>()
      .scaleExtent([0.05, 4])
      .on("zoom", (event) => inner.current!.setAttribute("transform", String(event.transform)));
    zooming.current = behaviour;
    pick(svg.current!).call(behaviour).on("dblclick.zoom", null);
  }, []);
  useEffect(fit, [width, height]);

  function fit() {
    const view = svg.current!.getBoundingClientRect();
    if (!view.width) return;
    const scale = Math.min(1.4, view.width / width, view.height / height);
    const readable = Math.max(scale, 0.6);
    const x = readable > scale ? 0 : (view.width - width * readable) / 2;
    const y = Math.max(0, (view.height - height * readable) / 2);
    pick(svg.current!).call(zooming.current!.transform, zoomIdentity.translate(x, y).scale(readable));
  }

  return (
    <section class="graph" aria-label="Graph">
      <div class="tools">
        <button type="button" onClick={fit}>fit</button>
        <button type="button" aria-label="zoom in" onClick={() => pick(svg.current!).call(zooming.current!.scaleBy, 1.3)}>+</button>
        <button type="button" aria-label="zoom out" onClick={() => pick(svg.current!).call(zooming.current!.scaleBy, 1 / 1.3)}>−</button>
      </div>
      <svg ref={svg} role="group" aria-label={`Graph of ${scene.title}: ${scene.nodes.length} nodes`}>
        <defs>
          <marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto-start-reverse">
            <path d="M0 0 L8 4 L0 8 z" />
          </marker>
        </defs>
        <g ref={inner}>
          {[...places.value.frames].map(([g, place]) => <Frame key={`f${g}`} group={g} place={place} />)}
          {seen.value.wires.map((wire) => <WireView key={wire.id} wire={wire} />)}
          {seen.value.boxes.map((box) => <BoxView key={box.id} box={box} place={places.value.boxes.get(box.id)!} />)}
        </g>
      </svg>
    </section>
  );
}

function Frame({ group, place }: { group: number; place: Place }) {
  const { name, kind } = scene.groups[group]!;
  return (
    <g class={`frame ${kind}`} transform={`translate(${place.x - place.width / 2} ${place.y - place.height / 2})`}>
      <rect width={place.width} height={place.height} rx="10" />
      <text x="8" y="-4" role="button" tabindex={0} aria-label={`fold ${name}`} onClick={() => toggle(group)}
        onKeyDown={(e) => e.key === "Enter" && toggle(group)}>▾ {name}</text>
    </g>
  );
}

function WireView({ wire }: { wire: Wire }) {
  const from = places.value.boxes.get(wire.from)!;
  const to = places.value.boxes.get(wire.to)!;
  const points = [{ x: from.port, y: from.y }, ...places.value.wires.get(wire.id)!, { x: to.x - to.width / 2, y: to.y }];
  return <path class={`wire ${wireLight(wire, moment.value)}`} d={curve(points)} marker-end="url(#arrow)" />;
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

function BoxView({ box, place }: { box: Box; place: BoxPlace }) {
  const node = box.isGroup ? null : scene.nodes[box.id]!;
  const now = box.isGroup ? null : numbers.value[box.id]!;
  const { width: w, height: h } = place;
  const shown = isLit(box, moment.value);
  const isRound = node?.gate === "add" || node?.gate === "multiply";
  const kind = box.isGroup ? "group" : (node!.gate ?? "parameter");
  const bad = troubles.value.get(box.id);
  const readers = box.isGroup ? 0 : fanOut(box.id);
  const act = () => {
    if (box.isGroup) toggle(box.id - scene.nodes.length);
    else selected.value = box.id;
  };
  return (
    <g class={`box ${kind} ${shown.state} ${selected.value === box.id ? "selected" : ""} ${bad ? "bad" : ""}`}
      data-node={box.id} transform={`translate(${place.x} ${place.y})`} role="button" tabindex={0}
      aria-label={spoken(box)} aria-pressed={selected.value === box.id} onClick={act}
      onKeyDown={(e) => (e.key === "Enter" || e.key === " ") && (e.preventDefault(), act())}>
      {isRound ? <circle r={h / 2} /> : <rect x={-w / 2} y={-h / 2} width={w} height={h} rx={box.isGroup ? 12 : 6} />}
      {node?.gate === "max" && <path class="mark" d={`M${-w / 2 + 4} ${-h / 2 + 4} L${-w / 2 + 10} 0 L${-w / 2 + 4} ${h / 2 - 4}`} />}
      <text class="name" y={box.isGroup ? -2 : 4}>{labelOf(box).slice(0, 26)}</text>
      {box.isGroup && <text class="count" y="16">▸ {box.count} rows</text>}
      {node && node.kind === "row" && <text class="number" y={-h / 2 - 14}>{node.name}</text>}
      {now && readers > 0 && <path class="stub" d={`M${w / 2} 0H${place.port - place.x}`} />}
      {now && shown.value && <text class="value" x={w / 2 + 5} y="-5">{stubText(now.value)}</text>}
      {now?.adjoint && shown.adjoint && <text class="adjoint" x={w / 2 + 5} y="14">{stubText(now.adjoint)}</text>}
      {readers > 1 && <circle class="copy" cx={place.port - place.x} r="3.5"><title>copy adds: {readers} rows read it, and what comes back is added</title></circle>}
      <title>{bad ? `${spoken(box)}. ${bad}` : spoken(box)}</title>
    </g>
  );
}

const counts = new Map<number, number>();
for (const e of scene.edges) counts.set(e.from, (counts.get(e.from) ?? 0) + 1);
const fanOut = (node: number) => counts.get(node) ?? 0;
