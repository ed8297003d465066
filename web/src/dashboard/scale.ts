// Axes: from numbers to places, round numbers to write beside them; and smoothed curves.

import type { Point } from "./runs";

export interface Scale {
  (value: number): number;
  ticks: number[];
}

export function linear(low: number, high: number, from: number, to: number, count = 5): Scale {
  if (high <= low) [low, high] = [low - (Math.abs(low) / 2 || 0.5), high + (Math.abs(high) / 2 || 0.5)];
  const at = (v: number) => from + ((v - low) / (high - low)) * (to - from);
  const rough = (high - low) / Math.max(count, 1);
  const ten = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * ten).find((s) => s >= rough * 0.999)!;
  const ticks: number[] = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++) ticks.push(k * step);
  return Object.assign(at, { ticks });
}

export function logarithmic(low: number, high: number, from: number, to: number): Scale {
  const [a, b] = low < high ? [Math.log10(low), Math.log10(high)] : [Math.log10(low) - 0.5, Math.log10(low) + 0.5];
  const at = (v: number) => from + ((Math.log10(v) - a) / (b - a)) * (to - from);
  const every = Math.max(1, Math.ceil((b - a) / 6));
  const parts = b - a < 1.5 ? [1, 2, 5] : [1];
  const ticks: number[] = [];
  for (let k = Math.floor(a); k <= b; k += 1) {
    if (k % every === 0) for (const m of parts) if (m * 10 ** k >= 10 ** a * 0.999 && m * 10 ** k <= 10 ** b * 1.001) ticks.push(m * 10 ** k);
  }
  return Object.assign(at, { ticks });
}

// A running mean that forgets; what it lacks at its beginning is made up for.
export function smoothed(points: Point[], weight: number): Point[] {
  let sum = 0;
  let share = 0;
  return points.map((p) => {
    if (!Number.isFinite(p.y)) return p;
    sum = weight * sum + (1 - weight) * p.y;
    share = weight * share + (1 - weight);
    return { ...p, y: sum / share };
  });
}

export function shortly(x: number): string {
  if (!Number.isFinite(x)) return String(x);
  if (x !== 0 && (Math.abs(x) < 1e-3 || Math.abs(x) >= 1e6)) return x.toExponential(2).replace(/\.?0*e\+?/, "e");
  return Number(x.toPrecision(4)).toLocaleString("en", { maximumFractionDigits: 8 });
}

// The place of the point nearest to x; points are in order.
export function nearest(points: Point[], x: number): number {
  let low = 0;
  let high = points.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (points[middle]!.x < x) low = middle + 1;
    else high = middle;
  }
  return low > 0 && x - points[low - 1]!.x < points[low]!.x - x ? low - 1 : low;
}
