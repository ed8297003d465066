"""Piecewise constant functions: comparison, logic, bits, rounding. Their derivative is 0."""

from __future__ import annotations

import numpy as np

from .elementwise import binary, unary

for _name, _symbol in (
    ("equal", "=="),
    ("not_equal", "!="),
    ("less", "<"),
    ("less_equal", "<="),
    ("greater", ">"),
    ("greater_equal", ">="),
    ("bitwise_and", "&"),
    ("bitwise_or", "|"),
    ("bitwise_xor", "^"),
    ("left_shift", "<<"),
    ("right_shift", ">>"),
):
    binary(_name, text=f"{{0}} {_symbol} {{1}}", code=f"{{0}} {_symbol} {{1}}")

for _name in ("logical_and", "logical_or", "logical_xor", "gcd", "lcm"):
    binary(_name)

for _name in (
    "floor",
    "ceil",
    "trunc",
    "rint",
    "logical_not",
    "invert",
    "isnan",
    "isinf",
    "isfinite",
    "signbit",
    "spacing",
    "bitwise_count",
):
    unary(_name, None)

unary("isneginf", None, np.isneginf)
unary("isposinf", None, np.isposinf)
