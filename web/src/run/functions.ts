// Exponentials and logarithms, trigonometric and hyperbolic functions, and what networks make of them.

import { power } from "./arithmetic";
import { binary, tableOf, unary, type Binary, type Unary } from "./elementwise";
import type { Table } from "./primitive";

// log(eᵃ + eᵇ), without a number that overflows.
const logaddexp: Binary = (a, b) => {
  if (a === b) return a + Math.LN2; // also where both are the same infinity
  return Math.max(a, b) + Math.log1p(Math.exp(-Math.abs(a - b)));
};

const logaddexp2: Binary = (a, b) => {
  if (a === b) return a + 1;
  return Math.max(a, b) + Math.log1p(power(2, -Math.abs(a - b))) / Math.LN2;
};

const sigmoid: Unary = (a) => {
  if (a >= 0) return 1 / (1 + Math.exp(-a));
  const e = Math.exp(a);
  return e / (1 + e);
};

const logSigmoid: Unary = (a) => Math.min(a, 0) - Math.log1p(Math.exp(-Math.abs(a)));

// log(p / (1 − p)), which near 1/2 is near 0
const logit: Unary = (p) => {
  const s = 2 * (p - 0.5);
  return p < 0.3 || p > 0.65 ? Math.log(p / (1 - p)) : Math.log1p(s) - Math.log1p(-s);
};

const UNARY: Record<string, Unary> = {
  exp: Math.exp,
  exp2: (a) => power(2, a),
  expm1: Math.expm1,
  log: Math.log,
  log2: Math.log2,
  log10: Math.log10,
  log1p: Math.log1p,
  sin: Math.sin,
  cos: Math.cos,
  tan: Math.tan,
  arcsin: Math.asin,
  arccos: Math.acos,
  arctan: Math.atan,
  sinh: Math.sinh,
  cosh: Math.cosh,
  tanh: Math.tanh,
  arcsinh: Math.asinh,
  arccosh: Math.acosh,
  arctanh: Math.atanh,
  deg2rad: (a) => a * (Math.PI / 180),
  rad2deg: (a) => a * (180 / Math.PI),
  sigmoid,
  log_sigmoid: logSigmoid,
  softplus: (a) => logaddexp(a, 0),
  logit,
};

const vanishes = (a: number, b: number): boolean => a === 0 && b === b;

const BINARY: Record<string, Binary> = {
  arctan2: Math.atan2,
  logaddexp,
  logaddexp2,
  xlogy: (a, b) => (vanishes(a, b) ? 0 : a * Math.log(b)),
  xlog1py: (a, b) => (vanishes(a, b) ? 0 : a * Math.log1p(b)),
};

export const FUNCTIONS: Table = { ...tableOf(unary, UNARY), ...tableOf(binary, BINARY) };
