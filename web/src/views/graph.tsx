// The graph, left to right: values in green above a wire, gradients in red below it.

import { useSignalEffect } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { gravity } from "../scene";
import { anchor, findings, inspect, moment, placeOf, places, scene, seen, selected } from "../state";
import type { Gate } from "../scene";
import { BoxView, Frame, WireView } from "./boxes";
import { usePan } from "./pan";
import { GateLegend } from "./shapes";
import { fold, reach, reachedStop, reachNext } from "./stops";
import { Tools } from "./tools";
import { readers } from "./words";

const gates = [...new Set(scene.nodes.flatMap((n) => (n.gate ? [n.gate] : [])))] as Gate[];
const order = Object.keys(scene.gates);
gates.sort((a, b) => order.indexOf(a) - order.indexOf(b));
const hasArrays = scene.nodes.some((n) => n.value.shape.length > 0);
const hasCopies = readers.some((found) => found.length > 1);

export function GraphView() {
  const { svg, inner, pan } = usePan(() => places.value);
  const isFresh = useRef(true);

  // Before anything is painted: boxes that move are not seen to jump.
  useLayoutEffect(() => {
    const kept = anchor.peek();
    const after = kept && placeOf(kept.group);
    if (kept?.before && after) pan.keep(kept.before, after);
    else if (isFresh.current) pan.fit();
    isFresh.current = false;
    if (kept?.focus === "graph") focusReached();
  }, [places.value]);
  useEffect(() => {
    const resized = new ResizeObserver(() => selected.peek() === null && moment.peek().box === null && pan.fit());
    resized.observe(svg.current!);
    return () => resized.disconnect();
  }, []);
  // The stepper's box, or the one selected in another view, comes into sight, and what it reads, if there is room.
  useSignalEffect(() => {
    const looked = moment.value.box ?? selected.value;
    if (looked === null) return;
    const { boxes } = places.peek();
    const lit = seen.peek().wires.filter((w) => w.to === looked).map((w) => w.from);
    const found = [looked, ...lit].flatMap((id) => boxes.get(id) ?? []);
    const [first, ...others] = found;
    if (first) pan.show(first, ...others);
  });

  // One stop of the tab key; within, up and down go from box to box.
  function onKeyDown(e: KeyboardEvent) {
    if (e.key === "Enter" || e.key === " ") reachedStop()?.act();
    else if (e.key === "ArrowDown" || e.key === "ArrowUp") {
      reachNext(e.key === "ArrowDown" ? 1 : -1);
      focusReached();
    } else return;
    e.preventDefault();
  }
  function focusReached() {
    svg.current!.querySelector<SVGElement>(`[data-stop="${reachedStop()?.id}"]`)?.focus();
  }
  // Heard around the svg: one that hears of focus itself becomes a stop of the tab key.
  const onFocus = (e: FocusEvent) => reach((e.target as Element).closest<SVGElement>("[data-stop]")?.dataset.stop ?? null);
  const { boxes, wires } = seen.value;
  return (
    <section class="graph" id="graph" aria-label="Graph" onFocusIn={onFocus}>
      <div class="strip">
        <p><b class="value">values</b> above a wire, <b class="adjoint">gradients</b> below{hasArrays && <>; of arrays the shape and the ‖norm‖</>}</p>
        <Tools of="graph" fit={() => pan.fit(true)} by={pan.by} />
      </div>
      <svg ref={svg} role="group" aria-label={`Graph of ${scene.title}: ${scene.nodes.length} nodes`} onKeyDown={onKeyDown}>
        <defs>
          {["", "ahead", "back", "lit"].map((kind) => (
            <marker key={kind} id={`arrow${kind}`} class={kind} viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8"
              markerUnits="userSpaceOnUse" orient="auto-start-reverse"><path d="M0 0 L8 4 L0 8 z" /></marker>
          ))}
        </defs>
        <g ref={inner}>
          {[...places.value.frames].map(([g, place]) => <Frame key={`f${g}`} group={g} place={place} onFocus={() => pan.show({ ...place, width: 0, height: 0, x: place.x - place.width / 2, y: place.y - place.height / 2 })} />)}
          {wires.map((wire) => <WireView key={wire.id} wire={wire} place={places.value.wires.get(wire.id)!} />)}
          {boxes.map((box) => (
            <BoxView key={box.id} box={box} place={places.value.boxes.get(box.id)!}
              onFocus={() => pan.show(places.value.boxes.get(box.id)!)}
              act={() => (box.isGroup ? fold(box.id - scene.nodes.length) : inspect(box.id))} />
          ))}
        </g>
      </svg>
      <GateLegend kinds={gates} says={scene.gates} hasCopies={hasCopies} marks={[...new Set(findings.value.map(gravity))]} />
    </section>
  );
}
