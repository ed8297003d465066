// What a moment of the stepper lights up, in the graph and in the matrix alike.

import type { Box, Wire } from "../fold";
import { seen, type Moment } from "../state";

export interface Light {
  state: "" | "now" | "dim";
  value: boolean;
  adjoint: boolean;
}

export function isLit(box: Box, at: Moment): Light {
  const boxes = seen.value.boxes;
  const k = boxes.findIndex((b) => b.id === box.id);
  const value = k < at.known;
  const adjoint = k >= boxes.length - at.done;
  return { state: at.box === box.id ? "now" : value ? "" : "dim", value, adjoint };
}

// Ahead, the wires that a row reads; back, those along which it sends its adjoint: the same ones.
export function wireLight(wire: Wire, at: Moment): string {
  if (at.box === null || wire.to !== at.box) return "";
  return at.phase === "ahead" ? "ahead" : "back";
}
