// (I − L) dx = D dp as blocks: a row reads the columns left of the diagonal, and parameters in D. Coloured by the
// kind of operator.

import { useEffect, useRef } from "preact/hooks";
import { signal, useComputed, useSignalEffect } from "@preact/signals";
import type { Box, Wire } from "../fold";
import { hovered, inspect, moment, scene, seen, selected, toggle } from "../state";
import { wireText } from "./boxes";
import { wireLight } from "./light";
import { many, nameOf, plural, spoken } from "./words";

const LEAST = 15; // pixels of a block: more of them scroll
const MOST = 58;
const GAP = 0.5; // between I − L and D, in blocks
const LETTERS = 16; // of a name
const room = signal({ width: 560, height: 400 });

interface Frame {
  side: number;
  head: number; // room for the names, left and above
}

export function MatrixView() {
  const frame = useRef<HTMLDivElement>(null);
  const { boxes, wires } = seen.value;
  const isParameter = (b: Box) => !b.isGroup && scene.nodes[b.id]!.kind === "parameter";
  const rows = boxes.filter((b) => !isParameter(b));
  const parameters = boxes.filter(isParameter);
  const longest = Math.max(2, ...boxes.map((b) => briefly(b).length));
  const head = 10 + 6.4 * longest;
  const across = rows.length + GAP + parameters.length;
  const side = Math.max(LEAST, Math.min(MOST, Math.min((room.value.width - head - 12) / across, (room.value.height - head - 10) / rows.length)));
  const row = new Map(rows.map((b, k) => [b.id, k]));
  const column = new Map([...row, ...parameters.map((b, k): [number, number] => [b.id, rows.length + GAP + k])]);
  const width = head + across * side + 6;
  const height = head + rows.length * side + 6;
  const shape = useRef({ row, head, side });
  shape.current = { row, head, side };
  const total = scene.edges.reduce((s, e) => s + (e.multiplications ?? 0), 0);

  useEffect(() => {
    const resized = new ResizeObserver(([e]) => { room.value = e!.contentRect; });
    resized.observe(frame.current!);
    return () => resized.disconnect();
  }, []);
  useSignalEffect(() => {
    const looked = moment.value.box ?? selected.value;
    const at = looked === null ? undefined : shape.current.row.get(looked);
    if (at === undefined) return;
    const { head, side } = shape.current;
    const { scrollTop, scrollLeft, clientHeight, clientWidth } = frame.current!;
    const near = (now: number, extent: number) => {
      const place = head + at * side;
      return place < now + head ? Math.max(0, place - extent / 2) : place + side > now + extent ? place - extent / 2 : now;
    };
    frame.current!.scrollTop = near(scrollTop, clientHeight);
    frame.current!.scrollLeft = near(scrollLeft, clientWidth);
  });

  const kinds = [...new Map(scene.edges.map((e) => [e.kind, e.family]))];
  const act = (b: Box) => (b.isGroup ? toggle(b.id - scene.nodes.length) : inspect(b.id));
  return (
    <section class="matrix" id="matrix" aria-label="Matrix">
      <p class="total">
        <b>(I − L)</b> dx = <b>D</b> dp: {plural(scene.edges.length, "block")},{" "}
        {plural(total, "multiplication")} to pass once
      </p>
      <div class="scroll" ref={frame} tabIndex={0} role="group" aria-label="Blocks of I minus L and of D">
        <svg role="group" width={width} height={height} aria-label={`I minus L: ${rows.length} rows; D: ${parameters.length} columns; ${wires.length} blocks`}>
          <g transform={`translate(${head} ${head})`}>
            {parameters.length > 0 && <rect class="part" x={(rows.length + GAP) * side} width={parameters.length * side} height={rows.length * side} />}
            <rect class="part" width={rows.length * side} height={rows.length * side} />
            {rows.map((b, k) => <Line key={b.id} box={b} at={k} across={across} frame={{ side, head }} act={() => act(b)} />)}
            {boxes.map((b) => <Heading key={b.id} box={b} at={column.get(b.id)!} side={side} />)}
            {wires.map((w) => (
              <Block key={w.id} wire={w} side={side} row={row.get(w.to)!} column={column.get(w.from)!} isOfD={!row.has(w.from)}
                act={() => act(boxes.find((b) => b.id === w.to)!)} />
            ))}
          </g>
        </svg>
      </div>
      <ul class="legend" aria-label="Kinds of operators">
        {kinds.map(([kind, family]) => <li key={kind}><i class={family} />{kind}</li>)}
      </ul>
    </section>
  );
}

function briefly(box: Box): string {
  const name = nameOf(box);
  return name.length > LETTERS ? `${name.slice(0, LETTERS - 1)}…` : name;
}

interface LineProps {
  box: Box;
  at: number;
  across: number;
  frame: Frame;
  act: () => void;
}

function Line({ box, at, across, frame: { side, head }, act }: LineProps) {
  const isNow = useComputed(() => moment.value.box === box.id).value;
  const isSelected = useComputed(() => selected.value === box.id).value;
  return (
    <g class={`line ${isNow ? "now" : ""} ${isSelected ? "selected" : ""}`} data-row={box.id} onClick={act}>
      <rect class="band" x={-head} y={at * side} width={head + across * side} height={side} />
      <rect class="one" x={at * side + 1} y={at * side + 1} width={side - 2} height={side - 2} />
      {side >= 22 && <text class="i" x={(at + 0.5) * side} y={(at + 0.5) * side}>I</text>}
      <text class="head" x={-6} y={(at + 0.5) * side}>{briefly(box)}</text>
      <title>{spoken(box)}</title>
    </g>
  );
}

function Heading({ box, at, side }: { box: Box; at: number; side: number }) {
  const isLit = useComputed(() => moment.value.box === box.id || selected.value === box.id).value;
  return <text class={`head above ${isLit ? "lit" : ""}`} transform={`translate(${(at + 0.5) * side} -6) rotate(-90)`}>{briefly(box)}</text>;
}

interface BlockProps {
  wire: Wire;
  side: number;
  row: number;
  column: number;
  isOfD: boolean;
  act: () => void;
}

function Block({ wire, side, row, column, isOfD, act }: BlockProps) {
  const edges = wire.edges.map((k) => scene.edges[k]!);
  const [first] = edges;
  const light = useComputed(() => (hovered.value === wire.id ? "lit" : wireLight(wire, moment.value))).value;
  const kind = edges.length > 1 ? many(edges.length) : first!.kind.length <= 5 ? first!.kind : first!.short.slice(1);
  const label = isOfD || edges.length > 1 ? kind : `−${kind}`;
  const size = Math.min(12.5, (side - 4) / (0.62 * label.length));
  return (
    <g class={`block ${first!.family} ${light}`} data-wire={wire.id} onClick={act}
      onMouseEnter={() => { hovered.value = wire.id; }} onMouseLeave={() => { hovered.value = null; }}>
      <rect x={column * side + 1} y={row * side + 1} width={side - 2} height={side - 2} rx={Math.min(4, side / 6)} />
      {size >= 6.5 && <text x={(column + 0.5) * side} y={(row + 0.5) * side} style={{ fontSize: `${size}px` }}>{label}</text>}
      <title>{wireText(wire)}</title>
    </g>
  );
}
