// The error function, the gamma function and its derivatives.

import { tableOf, unary, type Unary } from "./elementwise";
import type { Primitive, Table } from "./primitive";

const ROOT_PI = Math.sqrt(Math.PI);
const EULER = 0.5772156649015329;
// The Bernoulli numbers B_2, B_4, …
const BERNOULLI = [1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798];
const FAR = 12; // from where on asymptotic series of nine terms are exact

// ---- the error function

// 2/√π e^(−x²) Σ 2ⁿ x^(2n+1) / (2n+1)!!, all of one sign: nothing cancels.
function erfNear(x: number): number {
  let term = x;
  let total = x;
  for (let n = 1; Math.abs(term) > 1e-17 * Math.abs(total); n++) {
    term *= (2 * x * x) / (2 * n + 1);
    total += term;
  }
  return (2 / ROOT_PI) * Math.exp(-x * x) * total;
}

// e^(−x²)/(x√π) · 1/(1 + q/(1 + 2q/(1 + 3q/…))),  q = 1/(2x²), for x ≥ 2.
function erfcFar(x: number): number {
  if (x > 28) return 0;
  const q = 0.5 / (x * x);
  let fraction = 1;
  for (let k = 120; k > 0; k--) fraction = 1 + (k * q) / fraction;
  return Math.exp(-x * x) / (x * ROOT_PI * fraction);
}

export const erf: Unary = (x) => {
  if (x !== x) return x;
  const size = Math.abs(x);
  return size < 2 ? erfNear(x) : x < 0 ? erfcFar(size) - 1 : 1 - erfcFar(size);
};

export const erfc: Unary = (x) => {
  if (x !== x) return x;
  const size = Math.abs(x);
  return size < 2 ? 1 - erfNear(x) : x < 0 ? 2 - erfcFar(size) : erfcFar(size);
};

// The x with erfc(x) = q, of 0 < q ≤ 1, by Halley's method.
function inverseErfc(q: number): number {
  const t = Math.sqrt(-2 * Math.log(q / 2));
  let x = Math.max(0, Math.SQRT1_2 * (t - (2.30753 + 0.27061 * t) / (1 + t * (0.99229 + 0.04481 * t))));
  for (let k = 0; k < 4; k++) {
    const step = (erfc(x) - q) / ((-2 / ROOT_PI) * Math.exp(-x * x));
    x -= step / (1 + x * step);
  }
  return x;
}

const erfinv: Unary = (y) => {
  if (!(Math.abs(y) < 1)) return Math.abs(y) === 1 ? y * Infinity : NaN;
  if (Math.abs(y) > 0.5) return Math.sign(y) * inverseErfc(1 - Math.abs(y));
  let x = (y * ROOT_PI) / 2;
  for (let k = 0; k < 5; k++) {
    const step = (erf(x) - y) / ((2 / ROOT_PI) * Math.exp(-x * x));
    x -= step / (1 + x * step);
  }
  return x;
};

// ---- the gamma function and what belongs to it

const MOST = 1e6; // terms that are added one by one

// ζ(s, q) = Σ (q + k)^(−s), by Euler and Maclaurin.
function zeta(s: number, q: number): number {
  if (q <= 0 && Math.floor(q) === q) return Infinity;
  if (!(q > -MOST)) return NaN;
  let total = 0;
  while (q < FAR) total += Math.pow(q++, -s);
  let term = Math.pow(q, -s);
  total += Math.pow(q, 1 - s) / (s - 1) + 0.5 * term;
  for (let k = 0; k < BERNOULLI.length; k++) {
    const n = 2 * k + 2; // term = s (s+1) … (s+n−2) q^(−s−n+1) / n!
    term *= n === 2 ? s / (2 * q) : ((s + n - 3) * (s + n - 2)) / ((n - 1) * n * q * q);
    total += BERNOULLI[k]! * term;
  }
  return total;
}

const ZETA_LESS_ONE = Array.from({ length: 30 }, (_, k) => zeta(k + 2, 2));

// log Γ(2 + w) = (1 − γ) w + Σ (−1)ᵏ (ζ(k) − 1) wᵏ / k, for |w| ≤ 1/2: accurate where it is 0, too.
function logGammaNearTwo(w: number): number {
  let total = 0;
  for (let k = ZETA_LESS_ONE.length - 1; k >= 0; k--) total = (ZETA_LESS_ONE[k]! / (k + 2) - total) * w;
  return w * (1 - EULER + total);
}

function logGammaFar(x: number): number {
  let total = 0;
  for (let k = BERNOULLI.length; k > 0; k--) total = total / (x * x) + BERNOULLI[k - 1]! / (2 * k * (2 * k - 1));
  return (x - 0.5) * Math.log(x) - x + 0.5 * Math.log(2 * Math.PI) + total / x;
}

export const gammaln: Unary = (x) => {
  if (x !== x || x === Infinity) return x;
  if (x <= 0 && Number.isInteger(x)) return Infinity;
  if (x < 0) return Math.log(Math.PI / Math.abs(sinPi(x))) - gammaln(1 - x);
  if (x < 0.5) return logGammaNearTwo(x) - Math.log1p(x) - Math.log(x);
  if (x < 1.5) return logGammaNearTwo(x - 1) - Math.log1p(x - 1);
  if (x < 2.5) return logGammaNearTwo(x - 2);
  let product = 1;
  while (x < FAR) product *= x++;
  return logGammaFar(x) - Math.log(product);
};

// sin(πx), exact where it is 0
function sinPi(x: number): number {
  const r = x - 2 * Math.floor(x / 2);
  return r < 0.5 ? Math.sin(Math.PI * r) : r < 1.5 ? Math.sin(Math.PI * (1 - r)) : Math.sin(Math.PI * (r - 2));
}

const gamma: Unary = (x) => {
  if (x === 0) return 1 / x;
  if (x < 0) return Number.isInteger(x) || x === -Infinity ? NaN : Math.PI / (sinPi(x) * gamma(1 - x));
  if (!Number.isInteger(x) || x > 171) return Math.exp(gammaln(x));
  let product = 1;
  for (let k = 2; k < x; k++) product *= k;
  return product;
};

export const digamma: Unary = (x) => {
  if (x === 0) return -1 / x;
  if (x < 0) return Number.isInteger(x) || x === -Infinity ? NaN : digamma(1 - x) - (Math.PI * cosPi(x)) / sinPi(x);
  if (x === Infinity) return x;
  let total = 0;
  while (x < FAR) total -= 1 / x++;
  let series = 0;
  for (let k = BERNOULLI.length; k > 0; k--) series = (series + BERNOULLI[k - 1]! / (2 * k)) / (x * x);
  return total + Math.log(x) - 0.5 / x - series;
};

const cosPi = (x: number): number => sinPi(x + 0.5);

// ψ⁽ⁿ⁾(x) = (−1)ⁿ⁺¹ n! ζ(n + 1, x)
const polygamma: Primitive = (inputs, metadata, shape, dtype) => {
  const n = metadata["n"] as number;
  if (n === 0) return unary(digamma)(inputs, {}, shape, dtype);
  const factor = (n % 2 ? 1 : -1) * Math.round(gamma(n + 1));
  const f: Unary = (x) => factor * zeta(n + 1, x);
  return unary(f)(inputs, {}, shape, dtype);
};

const UNARY: Record<string, Unary> = {
  erf,
  erfc,
  erfinv,
  ndtr: (x) => 0.5 * erfc(-x * Math.SQRT1_2),
  gammaln,
  gamma,
  digamma,
};

export const SPECIAL: Table = { ...tableOf(unary, UNARY), polygamma };
