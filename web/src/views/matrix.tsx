// I − L as blocks: a row reads the columns left of the diagonal. Coloured by the kind of operator.

import type { Wire } from "../fold";
import { moment, numbers, scene, seen, selected } from "../state";
import { labelOf } from "./graph";
import { wireLight } from "./light";

export function MatrixView() {
  const { boxes, wires } = seen.value;
  const n = boxes.length;
  const place = new Map(boxes.map((b, k) => [b.id, k]));
  const side = Math.max(10, Math.min(34, 560 / n));
  const isWritten = side >= 22;
  const kinds = [...new Map(scene.edges.map((e) => [e.kind, e.family]))];
  return (
    <section class="matrix" aria-label="Matrix">
      <svg role="group" viewBox={`-${side * 1.6} -${side * 1.2} ${(n + 2) * side} ${(n + 2) * side}`}
        aria-label={`I minus L: ${n} rows, ${wires.length} blocks`}>
        {boxes.map((b, k) => (
          <g key={b.id} class={`line ${moment.value.box === b.id ? "now" : ""} ${selected.value === b.id ? "selected" : ""}`}>
            <rect class="band" x="0" y={k * side} width={n * side} height={side} />
            <rect class="one" x={k * side} y={k * side} width={side} height={side}><title>{b.isGroup ? labelOf(b) : scene.nodes[b.id]!.name}</title></rect>
            {isWritten && <text x={(k + 0.5) * side} y={(k + 0.64) * side}>I</text>}
            {isWritten && <text class="head" x={-side * 0.8} y={(k + 0.64) * side}>{b.isGroup ? "…" : scene.nodes[b.id]!.name}</text>}
          </g>
        ))}
        {wires.map((w) => <Block key={w.id} wire={w} side={side} row={place.get(w.to)!} column={place.get(w.from)!} isWritten={isWritten} />)}
      </svg>
      <ul class="legend" aria-label="Kinds of operators">
        {kinds.map(([kind, family]) => <li key={kind}><i class={family} />{kind}</li>)}
      </ul>
    </section>
  );
}

function Block({ wire, side, row, column, isWritten }: { wire: Wire; side: number; row: number; column: number; isWritten: boolean }) {
  const edges = wire.edges.map((k) => scene.edges[k]!);
  const cost = edges.reduce((s, e) => s + (e.multiplications ?? 0), 0);
  const text = edges.length > 1 ? `${edges.length} blocks` : `${edges[0]!.operator}`;
  const reader = scene.nodes[edges[0]!.to]!.name;
  const read = scene.nodes[edges[0]!.from]!.name;
  const value = edges.length > 1 ? "" : `, gradient ${numbers.value[edges[0]!.from]!.adjoint?.text ?? "none"}`;
  return (
    <g class={`block ${edges[0]!.family} ${wireLight(wire, moment.value)}`}>
      <rect x={column * side + 1} y={row * side + 1} width={side - 2} height={side - 2} rx="3" />
      {isWritten && <text x={(column + 0.5) * side} y={(row + 0.62) * side}>{edges.length > 1 ? edges.length : edges[0]!.short}</text>}
      <title>{`∂${reader}/∂${read}: ${text}, ${cost} multiplications${value}`}</title>
    </g>
  );
}
