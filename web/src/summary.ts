// A number or an array in a few characters, as Python's side writes it.

import { norm, type NDArray } from "./run/array";
import { toNumber, type Num, type Summary } from "./scene";

const SHOWN = 64;

export function shortly(x: number): string {
  if (Number.isNaN(x)) return "nan";
  if (!Number.isFinite(x)) return x > 0 ? "inf" : "-inf";
  if (x === 0) return Object.is(x, -0) ? "-0.0" : "0.0";
  const size = Math.abs(x);
  if (size < 1e-4 || size >= 1e6) {
    const [digits, power] = x.toExponential(5).split("e") as [string, string];
    const sign = power.startsWith("-") ? "-" : "+";
    return `${tidy(digits)}e${sign}${power.replace(/^[+-]/, "").padStart(2, "0")}`;
  }
  const text = tidy(x.toPrecision(6));
  return text.includes(".") ? text : `${text}.0`;
}

// What stands on a wire: a number, or the shape and the norm of an array.
export function stubText(a: Summary): string {
  if (a.shape.length === 0) return a.text;
  if (a.shape.length === 1 && a.shape[0]! <= 2) return a.text;
  const size = a.norm === undefined ? "" : ` ‖${shortest(toNumber(a.norm))}‖`;
  return `${a.shape.join("×")}${size}`;
}

// What stands in a line: all entries if there are few.
export function told(a: Summary): string {
  return a.shape.length === 1 && a.data && a.data.length <= 4 ? a.text : stubText(a);
}

function shortest(x: number): string {
  if (!Number.isFinite(x)) return shortly(x);
  return x !== 0 && (Math.abs(x) < 1e-3 || Math.abs(x) >= 1e5) ? x.toExponential(1) : String(Number(x.toPrecision(3)));
}

function tidy(digits: string): string {
  return digits.includes(".") ? digits.replace(/0+$/, "").replace(/\.$/, "") : digits;
}

function num(x: number): Num {
  return Number.isNaN(x) ? "nan" : x === Infinity ? "inf" : x === -Infinity ? "-inf" : x;
}

export function summarise(a: NDArray): Summary {
  const text =
    a.shape.length === 0
      ? shortly(a.data[0]!)
      : a.shape.length === 1 && a.data.length <= 4
        ? `[${[...a.data].map(shortly).join(", ")}]`
        : `${a.dtype}[${a.shape.join(", ")}]`;
  const found: Summary = { text, shape: [...a.shape], dtype: a.dtype, norm: num(norm(a.data)) };
  if (a.data.length <= SHOWN) return { ...found, data: [...a.data].map(num) };
  const good = [...a.data].filter(Number.isFinite);
  const spread = { ...found, bad: a.data.length - good.length };
  if (!good.length) return spread;
  const least = good.reduce((x, y) => Math.min(x, y));
  const most = good.reduce((x, y) => Math.max(x, y));
  const total = good.reduce((s, x) => s + x, 0);
  return { ...spread, least, most, mean: total / good.length, ...histogram(good, least, most) };
}

const BINS = 24;

function histogram(data: number[], least: number, most: number): Pick<Summary, "histogram" | "edges"> {
  if (least === most) return { histogram: [data.length], edges: [least] };
  const width = (most - least) / BINS;
  const counts = new Array<number>(BINS).fill(0);
  for (const x of data) counts[Math.min(BINS - 1, Math.floor((x - least) / width))]!++;
  return { histogram: counts, edges: Array.from({ length: BINS + 1 }, (_, k) => least + k * width) };
}
