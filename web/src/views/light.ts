// What a moment of the stepper lights up, in the graph and in the matrix alike.

import type { Wire } from "../fold";
import { order, type Moment } from "../state";

export interface Light {
  state: "" | "now" | "dim";
  value: boolean;
  adjoint: boolean;
}

export function isLit(box: number, at: Moment): Light {
  const k = order.value.get(box)!;
  const value = k < at.known;
  const adjoint = k >= order.value.size - at.done;
  return { state: at.box === box ? "now" : value ? "" : "dim", value, adjoint };
}

// Ahead, the wires that a row reads; back, those along which it sends its adjoint: the same ones.
export function wireLight(wire: Wire, at: Moment): "" | "ahead" | "back" {
  if (at.box === null || wire.to !== at.box) return "";
  return at.phase === "ahead" ? "ahead" : "back";
}
