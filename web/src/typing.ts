// What people type into a cell, and how far a key moves a number.

const NAMED: Record<string, number> = { nan: NaN, inf: Infinity, "+inf": Infinity, "-inf": -Infinity };
const LARGEST: Record<string, number> = { float32: 3.4028234663852886e38, float64: Number.MAX_VALUE };

// A number, or why it is none.
export function readNumber(text: string, dtype: string): number | string {
  const given = text.trim().toLowerCase().replace("−", "-").replace(/^([+-]?)infinity$/, "$1inf");
  if (given === "") return "a number is missing";
  if (given in NAMED) return NAMED[given]!;
  if (!/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/.test(given)) return `“${text.trim()}” is no number`;
  const x = Number(given);
  return Math.abs(x) <= (LARGEST[dtype] ?? Infinity) ? x : `${text.trim()} is beyond ${dtype}; write inf for an infinity`;
}

// Lines of numbers, as tables and NumPy write them; or what cannot be read.
export function readLines(text: string, dtype: string): number[][] | string {
  const lines: number[][] = [];
  for (const line of text.replace(/array|[()[\]{}]/g, " ").split(/\r?\n/)) {
    const words = line.split(/[\s,;]+/).filter(Boolean);
    const read = words.map((word) => readNumber(word, dtype));
    const wrong = read.find((x) => typeof x === "string");
    if (wrong !== undefined) return wrong as string;
    if (words.length) lines.push(read as number[]);
  }
  return lines;
}

// The next number up (count 1) or down (-1), or ten steps at once: a step is one in the second digit.
export function stepped(x: number, count: number): number {
  if (!Number.isFinite(x)) return x;
  const digit = x === 0 ? -1 : Math.floor(Math.log10(Math.abs(x))) - 1;
  const moved = x + count * 10 ** Math.max(digit, -300);
  return Number(moved.toPrecision(12));
}

// All digits that tell it from other numbers of its kind.
export function inFull(x: number, dtype: string): string {
  if (Number.isNaN(x)) return "nan";
  if (!Number.isFinite(x)) return x > 0 ? "inf" : "-inf";
  if (dtype !== "float32") return String(x);
  for (let digits = 6; digits < 10; digits++) {
    const short = Number(x.toPrecision(digits));
    if (Math.fround(short) === x) return String(short);
  }
  return String(x);
}
