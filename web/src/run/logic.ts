// Comparison, logic and bits.

import { binary, tableOf, unary, type Binary, type Unary } from "./elementwise";
import type { Primitive, Table } from "./primitive";

const is = (condition: boolean): number => (condition ? 1 : 0);

const BINARY: Record<string, Binary> = {
  equal: (a, b) => is(a === b),
  not_equal: (a, b) => is(a !== b),
  less: (a, b) => is(a < b),
  less_equal: (a, b) => is(a <= b),
  greater: (a, b) => is(a > b),
  greater_equal: (a, b) => is(a >= b),
  logical_and: (a, b) => is(a !== 0 && b !== 0),
  logical_or: (a, b) => is(a !== 0 || b !== 0),
  logical_xor: (a, b) => is((a !== 0) !== (b !== 0)),
};

const UNARY: Record<string, Unary> = {
  logical_not: (a) => is(a === 0),
  isnan: (a) => is(a !== a),
  isinf: (a) => is(Math.abs(a) === Infinity),
  isfinite: (a) => is(Number.isFinite(a)),
  isposinf: (a) => is(a === Infinity),
  isneginf: (a) => is(a === -Infinity),
  signbit: (a) => is(a < 0 || Object.is(a, -0)),
};

// Bits beyond 32, which JavaScript's own operators cut off.
function inWholeNumbers(f: (a: bigint, b: bigint) => bigint): Binary {
  return (a, b) => Number(BigInt.asIntN(64, f(BigInt(a), BigInt(b))));
}

function gcd(a: number, b: number): number {
  while (b) [a, b] = [b, a % b];
  return Math.abs(a);
}

const BITS: Record<string, Binary> = {
  bitwise_and: inWholeNumbers((a, b) => a & b),
  bitwise_or: inWholeNumbers((a, b) => a | b),
  bitwise_xor: inWholeNumbers((a, b) => a ^ b),
  left_shift: inWholeNumbers((a, b) => a << b),
  right_shift: inWholeNumbers((a, b) => a >> b),
  gcd,
  lcm: (a, b) => (a && b ? Math.abs(a * b) / gcd(a, b) : 0),
};

const invert: Primitive = (inputs, metadata, shape, dtype) =>
  unary(dtype === "bool" ? (a) => is(a === 0) : (a) => -a - 1)(inputs, metadata, shape, dtype);

export const LOGIC: Table = {
  ...tableOf(binary, BINARY),
  ...tableOf(unary, UNARY),
  ...tableOf(binary, BITS),
  invert,
};
