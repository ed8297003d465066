// (I − L) dx = D dp as blocks: a row reads the columns left of the diagonal, and parameters in D. Coloured by the
// kind of operator.

import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { computed, signal, useComputed, useSignalEffect } from "@preact/signals";
import type { Box } from "../fold";
import { cellAt, cellOf, gridOf, headOf, type Cell } from "../grid";
import { anchor, hovered, inspect, moment, scene, seen, selected, toggle } from "../state";
import { wireText } from "./boxes";
import { wireLight } from "./light";
import { Tools } from "./tools";
import { compactly, many, nameOf, plural, spoken } from "./words";

const READABLE = 32; // pixels of a block that has room for its kind: more of them scroll
const LEAST = 3;
const MOST = 58;
const LETTERS = 16; // of a name
const ROOM_FOR_COST = 38;

const room = signal({ width: 560, height: 400 });
const zoom = signal<number | "fit">(1); // of what is readable
const grid = computed(() => gridOf(scene, seen.value));
const head = computed(() => 10 + 6.4 * Math.max(2, ...seen.value.boxes.map((b) => briefly(b).length))); // room for names
const fitting = computed(() => {
  const { width, height } = room.value;
  return Math.min(MOST, (width - head.value - 8) / grid.value.across, (height - head.value - 8) / grid.value.rows.length);
});
const side = computed(() => {
  if (zoom.value === "fit") return Math.max(LEAST, fitting.value);
  return Math.max(LEAST, zoom.value * Math.max(READABLE, fitting.value));
});

// One stop of the tab key; arrows go from cell to cell.
const reached = signal<string | null>(null);
const stop = computed(() => {
  const chosen = [reached.value, selected.value === null ? null : headOf(selected.value)];
  const isThere = (id: string | null) => id !== null && cellOf(grid.value, id) !== undefined;
  return chosen.find(isThere) ?? grid.value.lines[0]?.[0]?.id;
});

const kinds = [...new Map(scene.edges.map((e) => [e.kind, e.family]))];
const total = scene.edges.reduce((s, e) => s + (e.multiplications ?? 0), 0);

function act(box: Box): void {
  if (!box.isGroup) return inspect(box.id);
  toggle(box.id - scene.nodes.length);
  const opened = grid.value.rows.find((b) => b.first >= box.first); // what stands there now
  if (opened) reached.value = headOf(opened.id);
}

export function MatrixView() {
  const frame = useRef<HTMLDivElement>(null);
  const svg = useRef<SVGSVGElement>(null);
  const { rows, parameters, columns, lines, across } = grid.value;
  const width = head.value + across * side.value + 6;
  const height = head.value + rows.length * side.value + 6;

  useEffect(() => {
    const resized = new ResizeObserver(([e]) => { room.value = e!.contentRect; });
    resized.observe(frame.current!);
    return () => resized.disconnect();
  }, []);
  useSignalEffect(() => {
    const looked = moment.value.box ?? selected.value;
    const at = looked === null ? -1 : grid.peek().rows.findIndex((b) => b.id === looked);
    if (at >= 0) reveal(at, at);
  });
  useLayoutEffect(() => {
    if (anchor.peek()?.focus === "matrix" && stop.value !== undefined) focus(stop.value);
  }, [seen.value]);

  // Names stay in sight, so what they cover is not.
  function reveal(line: number, column: number) {
    const near = (at: number, now: number, extent: number) => {
      const place = head.value + at * side.value;
      return place < now + head.value || place + side.value > now + extent ? Math.max(0, place - (head.value + extent) / 2) : now;
    };
    const { scrollTop, scrollLeft, clientHeight, clientWidth } = frame.current!;
    frame.current!.scrollTop = near(line, scrollTop, clientHeight);
    if (column >= 0) frame.current!.scrollLeft = near(column, scrollLeft, clientWidth);
  }
  function focus(id: string) {
    reached.value = id;
    svg.current!.querySelector<SVGElement>(`[data-cell="${id}"]`)?.focus({ preventScroll: true });
  }
  const cellUnder = (target: EventTarget | null): Cell | undefined => {
    const id = (target as Element | null)?.closest<SVGElement>("[data-cell]")?.dataset.cell;
    return id === undefined ? undefined : cellOf(grid.value, id);
  };
  function onKeyDown(e: KeyboardEvent) {
    const cell = stop.value === undefined ? undefined : cellOf(grid.value, stop.value); // the one in focus, drawn or not yet
    if (!cell || e.ctrlKey || e.metaKey || e.altKey) return;
    if (e.key === "Enter" || e.key === " ") act(grid.value.rows[cell.line]!);
    else if (e.key.startsWith("Arrow") || e.key === "Home" || e.key === "End") {
      const next = cellAt(grid.value, cell, e.key);
      if (next) focus(next.id);
    } else return;
    e.preventDefault();
    e.stopPropagation();
  }
  const onFocus = (e: FocusEvent) => {
    const cell = cellUnder(e.target);
    if (!cell) return;
    reached.value = cell.id;
    hovered.value = cell.wire?.id ?? null;
    reveal(cell.line, cell.column);
  };
  const onClick = (e: MouseEvent) => {
    const line = (e.target as Element).closest<SVGElement>("[data-row]")?.dataset.row;
    const row = grid.value.rows.find((b) => String(b.id) === line);
    if (row) act(row);
  };
  const scrolled = () => {
    svg.current!.style.setProperty("--left", `${frame.current!.scrollLeft}px`);
    svg.current!.style.setProperty("--top", `${frame.current!.scrollTop}px`);
  };
  const grow = (by: number) => {
    zoom.value = Math.min(MOST * 2, Math.max(LEAST, side.value * by)) / Math.max(READABLE, fitting.value);
  };
  return (
    <section class="matrix" id="matrix" aria-label="Matrix">
      <div class="strip">
        <p>
          <b>(I − L)</b> dx = <b>D</b> dp: {plural(scene.edges.length, "block")},{" "}
          {plural(total, "multiplication")} to pass once
        </p>
        <Tools of="matrix" fit={() => { zoom.value = "fit"; }} by={grow} />
      </div>
      <div class="scroll" ref={frame} onScroll={scrolled} onKeyDown={onKeyDown} onFocusIn={onFocus} onFocusOut={() => { hovered.value = null; }} onClick={onClick}>
        <svg ref={svg} role="grid" width={width} height={height} aria-rowcount={rows.length} aria-colcount={rows.length + parameters.length}
          aria-label={`I minus L: ${rows.length} rows; D: ${parameters.length} columns; ${seen.value.wires.length} blocks`}>
          <g transform={`translate(${head.value} ${head.value})`}>
            {parameters.length > 0 && <rect class="part" x={columns.get(parameters[0]!.id)! * side.value} width={parameters.length * side.value} height={rows.length * side.value} />}
            <rect class="part" width={rows.length * side.value} height={rows.length * side.value} />
            {rows.map((b, k) => <Line key={b.id} box={b} cells={lines[k]!} at={k} across={across} />)}
            <g class="heads" aria-hidden="true">
              <rect x={-head.value} y={-head.value} width={width} height={head.value - 1} />
              {seen.value.boxes.map((b) => <Heading key={b.id} box={b} at={columns.get(b.id)!} />)}
            </g>
          </g>
        </svg>
      </div>
      <ul class="legend" aria-label="Kinds of operators">
        {kinds.map(([kind, family]) => <li key={kind}><i class={family} />{kind}</li>)}
        {side.value >= ROOM_FOR_COST && total > 0 && <li>numbers: multiplications</li>}
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
  cells: Cell[];
  at: number;
  across: number;
}

function Line({ box, cells, at, across }: LineProps) {
  const isNow = useComputed(() => moment.value.box === box.id).value;
  const isSelected = useComputed(() => selected.value === box.id).value;
  const s = side.value;
  const names = head.value;
  return (
    <g class={`line ${isNow ? "now" : ""} ${isSelected ? "selected" : ""}`} role="row" aria-rowindex={at + 1} aria-selected={isSelected} aria-label={nameOf(box)} data-row={box.id}>
      <rect class="band" x={-names} y={at * s} width={names + across * s} height={s} />
      {cells.map((c) => (c.wire ? <Block key={c.id} cell={c} /> : c.column < 0 ? null : <One key={c.id} cell={c} name={nameOf(box)} />))}
      <Focusable cell={cells[0]!} role="rowheader" label={spoken(box)} kind="names">
        <rect class="under" x={-names} y={at * s + 1} width={names - 1} height={s - 2} />
        {s >= 10 && <text class="head" x={-6} y={(at + 0.5) * s}>{briefly(box)}</text>}
      </Focusable>
    </g>
  );
}

interface FocusableProps {
  cell: Cell;
  role: "gridcell" | "rowheader";
  label: string;
  kind: string;
  children: preact.ComponentChildren;
}

function Focusable({ cell, role, label, kind, children }: FocusableProps) {
  const isStop = useComputed(() => stop.value === cell.id).value;
  const lit = { onMouseEnter: () => { hovered.value = cell.wire!.id; }, onMouseLeave: () => { hovered.value = null; } };
  return (
    <g class={kind} role={role} tabindex={isStop ? 0 : -1} aria-label={label} data-cell={cell.id} data-wire={cell.wire?.id} {...(cell.wire ? lit : {})}>
      {children}
      <title>{label}</title>
    </g>
  );
}

function One({ cell: c, name }: { cell: Cell; name: string }) {
  const s = side.value;
  return (
    <Focusable cell={c} role="gridcell" label={`the diagonal: I, of ${name}`} kind="one">
      <rect x={c.column * s + 1} y={c.line * s + 1} width={Math.max(1, s - 2)} height={Math.max(1, s - 2)} />
      {s >= 22 && <text class="i" x={(c.column + 0.5) * s} y={(c.line + 0.5) * s}>I</text>}
    </Focusable>
  );
}

function Heading({ box, at }: { box: Box; at: number }) {
  const isLit = useComputed(() => moment.value.box === box.id || selected.value === box.id).value;
  if (side.value < 10) return null;
  return <text class={`head above ${isLit ? "lit" : ""}`} transform={`translate(${(at + 0.5) * side.value} -6) rotate(-90)`}>{briefly(box)}</text>;
}

function Block({ cell: c }: { cell: Cell }) {
  const wire = c.wire!;
  const edges = wire.edges.map((k) => scene.edges[k]!);
  const [first] = edges;
  const light = useComputed(() => (hovered.value === wire.id ? "lit" : wireLight(wire, moment.value))).value;
  const s = side.value;
  const isOfD = c.column > grid.value.rows.length;
  const kind = edges.length > 1 ? many(edges.length) : first!.kind.length <= 5 ? first!.kind : first!.short.slice(1);
  const label = isOfD || edges.length > 1 ? kind : `−${kind}`;
  const size = Math.min(12.5, (s - 5) / ems(label));
  const cost = s >= ROOM_FOR_COST ? edges.reduce((t, e) => t + (e.multiplications ?? 0), 0) : 0;
  const y = (c.line + 0.5) * s;
  return (
    <Focusable cell={c} role="gridcell" label={wireText(wire)} kind={`block ${first!.family} ${light}`}>
      <rect x={c.column * s + 1} y={c.line * s + 1} width={Math.max(1, s - 2)} height={Math.max(1, s - 2)} rx={Math.min(4, s / 6)} />
      {size >= 6 && <text x={(c.column + 0.5) * s} y={cost ? y - 5 : y} style={{ fontSize: `${size}px` }}>{label}</text>}
      {cost > 0 && <text class="cost" x={(c.column + 0.5) * s} y={y + 10}>{compactly(cost)}</text>}
    </Focusable>
  );
}

// How wide letters are, beside their height, in wide fonts.
function ems(label: string): number {
  return [...label].reduce((w, letter) => w + (/[−mwMW]/.test(letter) ? 0.95 : /[iljtfI]/.test(letter) ? 0.36 : 0.66), 0);
}
