// The matrix as lines of cells: where blocks stand, and to which cell a key leads.

import type { Box, Visible, Wire } from "./fold";
import type { Scene } from "./scene";

export interface Cell {
  id: string;
  line: number;
  column: number;
  wire: Wire | null; // of a block; null at the head of a line and on the diagonal
}

export interface Grid {
  rows: Box[];
  parameters: Box[]; // the columns of D, behind those of I − L
  columns: Map<number, number>; // of boxes
  lines: Cell[][]; // each from left to right, its head first
  across: number;
}

const GAP = 0.5; // between I − L and D, in blocks
const HEAD = -1;

export function gridOf(scene: Scene, seen: Visible): Grid {
  const isParameter = (b: Box) => !b.isGroup && scene.nodes[b.id]!.kind === "parameter";
  const rows = seen.boxes.filter((b) => !isParameter(b));
  const parameters = seen.boxes.filter(isParameter);
  const line = new Map(rows.map((b, k) => [b.id, k]));
  const columns = new Map([...line, ...parameters.map((b, k): [number, number] => [b.id, rows.length + GAP + k])]);
  const lines = rows.map((b, k): Cell[] => [
    { id: headOf(b.id), line: k, column: HEAD, wire: null },
    { id: `one ${b.id}`, line: k, column: k, wire: null },
  ]);
  for (const wire of seen.wires) {
    const k = line.get(wire.to)!;
    lines[k]!.push({ id: wire.id, line: k, column: columns.get(wire.from)!, wire });
  }
  for (const cells of lines) cells.sort((a, b) => a.column - b.column);
  return { rows, parameters, columns, lines, across: rows.length + GAP + parameters.length };
}

export const headOf = (box: number) => `head ${box}`;

export function cellOf(grid: Grid, id: string): Cell | undefined {
  return grid.lines.flat().find((c) => c.id === id);
}

// Left and right within a line; up and down to what stands nearest in the line above or below.
export function cellAt(grid: Grid, { id, line, column }: Cell, key: string): Cell | undefined {
  const cells = grid.lines[line]!;
  const at = cells.findIndex((c) => c.id === id);
  switch (key) {
    case "ArrowLeft": return cells[at - 1];
    case "ArrowRight": return cells[at + 1];
    case "Home": return cells[0];
    case "End": return cells.at(-1);
    case "ArrowUp": return nearest(grid.lines[line - 1], column);
    case "ArrowDown": return nearest(grid.lines[line + 1], column);
    default: return undefined;
  }
}

function nearest(cells: Cell[] | undefined, column: number): Cell | undefined {
  const isHead = column === HEAD;
  const others = cells?.filter((c) => (c.column === HEAD) === isHead);
  return others?.reduce((a, b) => (Math.abs(b.column - column) < Math.abs(a.column - column) ? b : a));
}
