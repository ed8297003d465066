"""Random expressions for structured programs: numbers, indices, conditions, arrays.

A Scope says what stands where; every maker takes one and returns source text. Numbers stay tame: whatever may
grow is damped, roots are of positive numbers, divisors away from 0, indices inside their arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass
class Helper:
    """A function written before: what it takes ("f" a number, "v<n>" an array of n, "d" a depth)."""

    name: str
    takes: tuple[str, ...]


@dataclass
class Scope:
    """The names that have a value here."""

    rng: np.random.Generator
    floats: list[str] = field(default_factory=list)
    fixed: list[str] = field(default_factory=list)  # numbers that are read only
    whole: dict[str, int | None] = field(default_factory=dict)  # integers ≥ 0, and what bounds them
    vectors: dict[str, int] = field(default_factory=dict)
    matrices: dict[str, tuple[int, int]] = field(default_factory=dict)
    pairs: list[str] = field(default_factory=list)
    records: list[str] = field(default_factory=list)  # dicts {"u": number, "v": number}
    nests: list[str] = field(
        default_factory=list
    )  # {"p": [number, number], "y": three, "t": (number, int)}
    flags: list[str] = field(default_factory=list)  # truths
    indices: dict[str, tuple[int, int]] = field(default_factory=dict)  # (length, bound of entries)
    helpers: list[Helper] = field(default_factory=list)
    views: set[str] = field(default_factory=set)  # arrays that must not be written into
    rebound: set[str] = field(default_factory=set)  # those of them that are bound anew instead

    def inner(self) -> Scope:
        """For a block: names that are first bound there are not seen behind it."""
        kinds = (list, dict, set)
        copied: Any = {k: v.copy() for k, v in vars(self).items() if isinstance(v, kinds)}
        return Scope(self.rng, **copied)

    # ---- draws

    def below(self, n: int) -> int:
        return int(self.rng.integers(n))

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def pick(self, options: Sequence[Any]) -> Any:
        return options[self.below(len(options))]

    def number(self, low: float = -1.2, high: float = 1.2) -> str:
        return repr(round(float(self.rng.uniform(low, high)), 2))


# ---- indices


def index(s: Scope, n: int, from_end: bool = True) -> str:
    """Inside an axis of length n."""
    kind = s.below(6)
    inside = [i for i, bound in s.whole.items() if bound is not None and bound <= n]
    if inside and kind < 4:
        i = s.pick(inside)
        options = [i, i, f"{n} - 1 - {i}"] + ([f"{i} - 1"] if from_end else [])
        return str(s.pick(options))
    if kind == 4 and s.indices and s.whole:
        name, (length, bound) = s.pick(list(s.indices.items()))
        entry = f"{name}[{index(s, length)}]"
        return entry if bound <= n else f"{entry} % {n}"
    if s.whole and kind < 5:
        i = s.pick(list(s.whole))
        return str(s.pick([f"{i} % {n}", f"({i} + 1) % {n}", f"({i} * 2 + 1) % {n}"]))
    return str(s.below(n) - (n if from_end and s.chance(0.3) else 0))


def part(s: Scope, n: int, width: int) -> str:
    """A slice of this width out of n."""
    kind = s.below(5)
    if width == n and kind < 2:
        return s.pick([":", "::-1"])
    if kind == 0:
        return str(s.pick([f"{n - width}:", f"-{width}:"]))
    if kind == 1:
        return str(s.pick([f":{width}", f":{width - n}" if width < n else f":{width}"]))
    start = index(s, n - width + 1, from_end=False)
    return f"{start}:{start} + {width}" if not start.isdigit() else f"{start}:{int(start) + width}"


def entry(s: Scope) -> str | None:
    """x[i] or M[i, j]"""
    arrays: list[Any] = [*s.vectors.items(), *s.matrices.items()]
    if not arrays:
        return None
    name, shape = s.pick(arrays)
    if isinstance(shape, int):
        return f"{name}[{index(s, shape)}]"
    return f"{name}[{index(s, shape[0])}, {index(s, shape[1])}]"


# ---- numbers


def number(s: Scope, depth: int = 2) -> str:
    """A number: a leaf, or an operation on smaller ones."""
    if depth <= 0 or s.chance(0.25):
        return _leaf(s)
    kind = s.below(20)
    a = number(s, depth - 1)
    if kind < 5:
        forms = ["np.sin({a})", "np.cos({a})", "np.tanh({a})", "np.exp(-{a} ** 2)"]
        forms += ["np.sqrt({a} * {a} + 0.5)", "np.arctan({a})", "np.exp(np.sin({a}))", "abs({a})"]
        return str(s.pick(forms)).format(a=a)
    if kind < 12:
        b = number(s, depth - 1)
        forms = ["({a} + {b})", "({a} - {b})", "({a} * {b})", "({a} * {b})", "(0.7 * {a} + {b})"]
        forms += ["({a} / (1.5 + {b} * {b}))", "max({a}, {b})", "min({a}, {b})"]
        forms += ["np.maximum({a}, {b})", "(-{a})", "({a} ** 2 - {b})"]
        return s.pick(forms).format(a=a, b=b)
    if kind < 14:
        return f"({a} if {condition(s, 1)} else {number(s, depth - 1)})"
    if kind < 18 and s.vectors:
        return _reduction(s)
    if kind < 20 and s.helpers:
        return call(s, depth - 1)
    if s.chance(0.5):
        from .fuzz_control_more import summed

        return summed(s)
    return a


def _leaf(s: Scope) -> str:
    names = [*s.floats, *s.floats, *s.fixed]
    options: list[str] = []
    if names:
        options += [s.pick(names)] * 4
    found = entry(s)
    if found:
        options += [found] * 3
    if s.pairs:
        options.append(f"{s.pick(s.pairs)}[{s.below(2)}]")
    if s.records:
        options.append(f'{s.pick(s.records)}["{s.pick("uv")}"]')
    if s.nests:
        q = s.pick(s.nests)
        options.append(
            s.pick([f'{q}["p"][{s.below(2)}]', f'{q}["y"][{index(s, 3)}]', f'{q}["t"][0]'])
        )
    if s.whole and s.chance(0.3):
        options.append(f"{s.pick(list(s.whole))} * 0.1")
    options.append(s.number())
    return str(s.pick(options))


def _reduction(s: Scope) -> str:
    n = s.pick(list(s.vectors.values()))
    v = vector(s, n, 1)
    forms = ["np.sum({v}) * 0.3", "({v}).sum() * 0.3", "np.mean({v})", "({v}).max()"]
    forms += ["np.prod({v} * 0.9)", "np.min({v})", "(({v}) @ {w} * 0.3)", "np.dot({v}, {w}) * 0.2"]
    return str(s.pick(forms)).format(v=v, w=vector(s, n, 0))


def call(s: Scope, depth: int) -> str:
    helper = s.pick(s.helpers)
    words = []
    for kind in helper.takes:
        if kind == "f":
            words.append(number(s, depth))
        elif kind == "d":
            words.append(_depth(s))
        else:
            words.append(vector(s, int(kind[1:]), 0))
    return f"{helper.name}({', '.join(words)})"


def _depth(s: Scope) -> str:
    if s.whole and s.chance(0.6):
        return f"{s.pick(list(s.whole))} % 4"
    return str(s.below(4))


# ---- conditions


def condition(s: Scope, depth: int = 2) -> str:
    kind = s.below(10)
    if depth > 0 and kind < 3:
        a, b = condition(s, depth - 1), condition(s, depth - 1)
        return str(s.pick(["({a} and {b})", "({a} or {b})", "(not {a})"])).format(a=a, b=b)
    if s.whole and kind < 5:
        i = s.pick(list(s.whole))
        j = s.pick(list(s.whole))
        forms = [f"{i} % {2 + s.below(3)} == {s.below(2)}", f"{i} > {s.below(6)}", f"{i} <= {j}"]
        return str(s.pick(forms))
    if s.flags and s.chance(0.3):
        return str(s.pick(s.flags))
    a, b = number(s, 1), number(s, 1)
    if kind == 5:
        return f"{s.number(-1.5, 0.2)} < {a} < {s.number(0.3, 2.0)}"
    if kind == 6 and s.vectors:
        name = s.pick(list(s.vectors))
        return str(s.pick([f"np.any({name} > {s.number()})", f"({name} < {b}).all()"]))
    return f"{a} {s.pick(['<', '>', '<=', '>='])} {s.pick([s.number(), b])}"


# ---- arrays


def vector(s: Scope, n: int, depth: int = 2) -> str:
    """An array of n numbers."""
    names = [v for v, length in s.vectors.items() if length == n]
    options = list(names) * 3
    longer = [(v, m) for v, m in s.vectors.items() if m >= n]
    if longer:
        v, m = s.pick(longer)
        options.append(f"{v}[{part(s, m, n)}]")
    rows = [(m, shape) for m, shape in s.matrices.items() if shape[1] == n]
    if rows:
        m, shape = s.pick(rows)
        options.append(f"{m}[{index(s, shape[0])}]")
    columns = [(m, shape) for m, shape in s.matrices.items() if shape[0] == n]
    if columns:
        m, shape = s.pick(columns)
        options.append(f"{m}[:, {index(s, shape[1])}]")
    if not options:
        options.append(
            f"np.full({n}, {number(s, 1)})" if s.chance(0.3) else f"np.linspace(0.1, 0.9, {n})"
        )
    if depth <= 0 or s.chance(0.3):
        return str(s.pick(options))
    kind = s.below(10)
    a = vector(s, n, depth - 1)
    if kind < 3:
        return str(
            s.pick(["np.sin({a})", "np.tanh({a})", "np.exp(-{a} * {a})", "np.sqrt({a} ** 2 + 0.4)"])
        ).format(a=a)
    if kind < 7:
        b = vector(s, n, depth - 1) if s.chance(0.5) else number(s, 1)
        forms = ["({a} + {b})", "({a} * {b})", "({b} - {a})", "({a} * 0.5 + {b})"]
        return str(s.pick(forms)).format(a=a, b=b)
    if kind == 7:
        return f"np.where({a} > {s.number()}, {vector(s, n, depth - 1)}, {number(s, 1)})"
    if kind == 8 and columns:
        m, shape = s.pick(columns)
        return f"({m} @ {vector(s, shape[1], 0)} * 0.4)"
    return f"np.cumsum({a}) * 0.3" if s.chance(0.5) else f"({a})[::-1]"


def matrix(s: Scope, shape: tuple[int, int]) -> str:
    names = [m for m, have in s.matrices.items() if have == shape]
    if names and s.chance(0.6):
        m = s.pick(names)
        return str(s.pick([f"np.tanh({m})", f"{m} * {number(s, 1)}", f"({m} + {m} * 0.5)"]))
    columns, row = vector(s, shape[0], 0), vector(s, shape[1], 0)
    return str(s.pick([f"({columns})[:, None] * {row}", f"np.outer({columns}, {row})"]))
