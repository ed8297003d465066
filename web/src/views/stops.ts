// What the keys reach in the graph: boxes and names of frames, in the order of the run. Which one is reached is known
// here, not by what has the focus: a key may come before what the last one opened is drawn.

import { computed } from "@preact/signals";
import { isWithin } from "../fold";
import { closed, inspect, places, scene, seen, toggle } from "../state";

interface Stop {
  id: string;
  order: number;
  act: () => void;
}

export const stopOfBox = (box: number) => `box ${box}`;
export const stopOfFrame = (group: number) => `frame ${group}`;

const stops = computed<Stop[]>(() => {
  const boxes = seen.value.boxes.map((b) => ({
    id: stopOfBox(b.id), order: b.first, act: () => (b.isGroup ? fold(b.id - scene.nodes.length) : inspect(b.id)),
  }));
  const frames = [...places.value.frames.keys()].map((g) => ({
    id: stopOfFrame(g), order: firstOf(g) - 0.5 + g / scene.groups.length / 2, act: () => fold(g),
  }));
  return [...boxes, ...frames].sort((a, b) => a.order - b.order);
});

const firstOf = (group: number) => scene.nodes.findIndex((n) => isWithin(scene, n.group, group));

let reached: string | null = null;

export function reach(id: string | null): void {
  reached = id;
}

export const reachedStop = (): Stop | undefined => stops.value.find((s) => s.id === reached);

// The next one, or the one before; the first if none was reached.
export function reachNext(by: 1 | -1): void {
  const at = stops.value.findIndex((s) => s.id === reached);
  reached = stops.value[Math.max(0, Math.min(stops.value.length - 1, at + by))]?.id ?? null;
}

// Opens or closes a group, and stays there: at its frame or its box, or, if it has no frame, at its first box.
export function fold(group: number): void {
  toggle(group);
  const wanted = closed.value.has(group) ? stopOfBox(scene.nodes.length + group) : stopOfFrame(group);
  const found = stops.value.find((s) => s.id === wanted) ?? stops.value.find((s) => s.order >= firstOf(group));
  reached = found?.id ?? null;
}
