// Arithmetic, powers and selection.

import { isFloat } from "./array";
import { binary, tableOf, ternary, unary, type Binary, type Ternary, type Unary } from "./elementwise";
import type { Primitive, Table } from "./primitive";

// JavaScript says NaN where C and NumPy say that 1 to any power is 1.
export const power: Binary = (a, b) => {
  if (a === 1 || (a === -1 && Math.abs(b) === Infinity)) return 1;
  return b === 2 ? a * a : Math.pow(a, b);
};

// The remainder has the sign of the divisor, as in Python.
const remainder: Binary = (a, b) => {
  const r = a % b;
  if (r === 0) return b < 0 || Object.is(b, -0) ? -0 : 0;
  return r < 0 !== b < 0 ? r + b : r;
};

const floorDivide: Binary = (a, b) => {
  if (b === 0 || Math.abs(a) === Infinity || Math.abs(b) === Infinity) return a / b;
  const r = a % b;
  let quotient = (a - r) / b;
  if (r !== 0 && r < 0 !== b < 0) quotient -= 1;
  if (quotient === 0) return a / b < 0 || Object.is(a / b, -0) ? -0 : 0;
  const whole = Math.floor(quotient);
  return quotient - whole > 0.5 ? whole + 1 : whole;
};

// Integers have no infinity: divided by 0 they give 0.
function ofIntegersToo(f: Binary): Primitive {
  const real = binary(f);
  const whole = binary((a, b) => (b === 0 ? 0 : f(a, b)));
  return (inputs, metadata, shape, dtype) => (isFloat(dtype) ? real : whole)(inputs, metadata, shape, dtype);
}

const TWO_52 = 2 ** 52;

// To the nearest whole number, halves to the even one.
export const rint: Unary = (a) => {
  const size = Math.abs(a);
  if (!(size < TWO_52)) return a;
  const whole = size + TWO_52 - TWO_52;
  return a < 0 || Object.is(a, -0) ? -whole : whole;
};

const sign: Unary = (a) => (a > 0 ? 1 : a < 0 ? -1 : a === 0 ? 0 : a);
const isNegative = (a: number): boolean => a < 0 || Object.is(a, -0);
const copysign: Binary = (a, b) => (isNegative(b) ? -Math.abs(a) : Math.abs(a));

const UNARY: Record<string, Unary> = {
  negative: (a) => -a,
  reciprocal: (a) => 1 / a,
  square: (a) => a * a,
  sqrt: Math.sqrt,
  cbrt: Math.cbrt,
  absolute: Math.abs,
  fabs: Math.abs,
  sign,
  floor: Math.floor,
  ceil: Math.ceil,
  trunc: Math.trunc,
  rint,
  alias: (a) => a,
  detach: (a) => a,
  conjugate: (a) => a,
  real: (a) => a,
  imag: () => 0,
  angle: (a) => (isNegative(a) ? Math.PI : a === a ? 0 : NaN),
};

const BINARY: Record<string, Binary> = {
  add: (a, b) => a + b,
  subtract: (a, b) => a - b,
  multiply: (a, b) => a * b,
  divide: (a, b) => a / b,
  power,
  float_power: power,
  maximum: Math.max,
  minimum: Math.min,
  fmax: (a, b) => (a !== a ? b : b !== b ? a : Math.max(a, b)),
  fmin: (a, b) => (a !== a ? b : b !== b ? a : Math.min(a, b)),
  copysign,
  heaviside: (a, b) => (a !== a ? a : a < 0 ? 0 : a === 0 ? b : 1),
  hypot: Math.hypot,
  ldexp: (a, b) => (Math.abs(b) > 1000 ? a * 2 ** Math.trunc(b / 2) * 2 ** (b - Math.trunc(b / 2)) : a * 2 ** b),
};

const TERNARY: Record<string, Ternary> = {
  where: (a, b, c) => (a !== 0 ? b : c),
  clip: (a, low, high) => Math.min(Math.max(a, low), high),
};

// Nearer to 0 as it becomes a whole number; storing does the rest.
function cast(inputs: Parameters<Primitive>[0], _: unknown, shape: readonly number[], dtype: string) {
  const f: Unary = isFloat(dtype) || dtype === "bool" ? (a) => a : (a) => Math.trunc(a);
  return unary(f)(inputs, {}, shape, dtype);
}

export const ARITHMETIC: Table = {
  ...tableOf(unary, UNARY),
  ...tableOf(binary, BINARY),
  ...tableOf(ternary, TERNARY),
  floor_divide: ofIntegersToo(floorDivide),
  remainder: ofIntegersToo(remainder),
  fmod: ofIntegersToo((a, b) => a % b),
  cast,
  cast_discrete: cast,
};
