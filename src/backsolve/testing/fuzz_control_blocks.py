"""Random statements for structured programs: assignments, writes, branches, loops, jumps, functions.

A Writer collects lines. Each maker writes one statement, or none if the scope offers nothing for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from .fuzz_control_more import asserted, collected, nest, other_name, truth
from .fuzz_control_values import (
    Helper,
    Scope,
    condition,
    index,
    matrix,
    number,
    part,
    vector,
)

LONG = 9  # rounds of a loop that is staged and not unrolled, at least


@dataclass
class Writer:
    """The lines of one function."""

    size: int  # statements that may still be written
    lines: list[str] = field(default_factory=list)
    indent: int = 1
    count: int = 0  # of names
    loops: int = 0  # around here
    result: Callable[[Scope], str] = lambda s: number(s)  # what `return` returns

    def write(self, line: str) -> None:
        self.lines.append("    " * self.indent + line)

    def name(self, letter: str) -> str:
        self.count += 1
        return f"{letter}{self.count}"


def block(w: Writer, s: Scope, most: int = 4) -> None:
    """An indented block of its own scope, with something in it."""
    w.indent += 1
    begun = len(w.lines)
    for _ in range(1 + s.below(most)):
        statement(w, s)
    if len(w.lines) == begun:
        assign(w, s)
    w.indent -= 1


def statement(w: Writer, s: Scope) -> None:
    w.size -= 1
    deep = w.indent > 3 or w.size <= 0
    makers = SIMPLE if deep else {**SIMPLE, **COMPOUND}
    weights = list(makers.values())
    drawn = s.rng.random() * sum(weights)
    for make, weight in makers.items():
        drawn -= weight
        if drawn < 0:
            make(w, s)
            return


# ---- without blocks


def assign(w: Writer, s: Scope) -> None:
    if s.floats and s.chance(0.6):
        name = s.pick(s.floats)
        form = s.pick(
            ["{n} = {e}", "{n} += {e}", "{n} -= 0.5 * {e}", "{n} *= {e}", "{n} = 0.6 * {n} + {e}"]
        )
        w.write(form.format(n=name, e=number(s)))
        return
    name = w.name("s")
    w.write(f"{name} = {number(s)}")
    s.floats.append(name)


def swap(w: Writer, s: Scope) -> None:
    if len(s.floats) >= 2:
        p, q = s.rng.permutation(s.floats)[:2]
        w.write(f"{p}, {q} = {q}, {number(s, 1)}" if s.chance(0.5) else f"{p}, {q} = {q}, {p}")


def pair(w: Writer, s: Scope) -> None:
    if s.pairs and s.chance(0.7):
        p = s.pick(s.pairs)
        w.write(f"{p} = ({p}[1], {number(s)})")
        return
    name = w.name("p")
    w.write(f"{name} = ({number(s, 1)}, {number(s, 1)})")
    s.pairs.append(name)


def record(w: Writer, s: Scope) -> None:
    if s.records and s.chance(0.7):
        d, key = s.pick(s.records), s.pick("uv")
        w.write(f'{d}["{key}"] {s.pick(["=", "+=", "*="])} {number(s)}')
        return
    name = w.name("d")
    w.write(f'{name} = {{"u": {number(s, 1)}, "v": {number(s, 1)}}}')
    s.records.append(name)


def count(w: Writer, s: Scope) -> None:
    """Whole numbers that change: bounded by nothing but the number of rounds."""
    mine = [i for i in s.whole if i.startswith("m")]
    if mine and s.chance(0.7):
        w.write(f"{s.pick(mine)} += {1 + s.below(2)}")
        return
    name = w.name("m")
    w.write(f"{name} = {s.below(3)}")
    s.whole[name] = None


def local_array(w: Writer, s: Scope) -> None:
    if s.chance(0.35):
        shape = (2 + s.below(3), 2 + s.below(3))
        name = w.name("M")
        made = f"np.zeros({shape})" if s.chance(0.6) else matrix(s, shape)
        w.write(f"{name} = {made}")
        s.matrices[name] = shape
        return
    n = s.pick([*s.vectors.values(), 3, 5])
    name = w.name("y")
    kind = s.below(5)
    made = f"np.zeros({n})" if kind < 3 else f"({vector(s, n)}) * 1.0" if kind == 3 else ""
    same = [v for v, m in s.vectors.items() if m == n]
    if not made:
        made = f"{s.pick(same)}.copy()" if same else f"np.ones({n})"
    w.write(f"{name} = {made}")
    s.vectors[name] = n
    if s.chance(0.25):
        s.rebound.add(name)
        s.views.add(name)


def write_entry(w: Writer, s: Scope) -> None:
    arrays: list[tuple[str, int | tuple[int, int]]] = [*s.vectors.items(), *s.matrices.items()]
    arrays = [(name, shape) for name, shape in arrays if name not in s.views]
    if not arrays:
        return
    name, shape = s.pick(arrays)
    op = s.pick(["=", "=", "+=", "+=", "*=", "-="])
    if isinstance(shape, int):
        w.write(f"{name}[{index(s, shape)}] {op} {number(s)}")
    else:
        w.write(f"{name}[{index(s, shape[0])}, {index(s, shape[1])}] {op} {number(s)}")


def write_part(w: Writer, s: Scope) -> None:
    vectors = [(v, n) for v, n in s.vectors.items() if v not in s.views]
    if s.matrices and s.chance(0.4):
        name, (rows, columns) = s.pick(list(s.matrices.items()))
        op = s.pick(["=", "+=", "*="])
        if s.chance(0.6):
            place = s.pick(["{i}", "{i}, :"]).format(i=index(s, rows))
            w.write(f"{name}[{place}] {op} {vector(s, columns)}")
        else:
            w.write(f"{name}[:, {index(s, columns)}] {op} {vector(s, rows)}")
    elif vectors:
        name, n = s.pick(vectors)
        width = 1 + s.below(n)
        value = vector(s, width) if s.chance(0.7) else number(s)
        w.write(f"{name}[{part(s, n, width)}] {s.pick(['=', '+=', '*='])} {value}")


def whole_array(w: Writer, s: Scope) -> None:
    """An array that is written into is not bound anew in a loop: jit refuses that where it has other names."""
    vectors = [(v, n) for v, n in s.vectors.items() if v not in s.views or v in s.rebound]
    if s.matrices and s.chance(0.3):
        name, shape = s.pick(list(s.matrices.items()))
        w.write(f"{name}{'[:, :]' if w.loops else ''} = {matrix(s, shape)}")
    elif vectors:
        name, n = s.pick(vectors)
        value = f"({vector(s, n)}) * 1.0"
        if name in s.rebound:
            w.write(f"{name} = {value}")
        elif w.loops and s.chance(0.5):
            w.write(f"{name}[:] = {value}")
        else:
            w.write(f"{name} {s.pick(['+=', '*='] if w.loops else ['=', '=', '+=', '*='])} {value}")


def leave(w: Writer, s: Scope) -> None:
    """break, continue or return under a condition."""
    words = ["break", "continue"] if w.loops else []
    if not words or s.chance(0.25):
        words = [f"return {w.result(s)}"]
    w.write(f"if {condition(s)}:")
    if s.chance(0.3):
        w.indent += 1
        assign(w, s.inner())
        w.indent -= 1
    w.write(f"    {s.pick(words)}")


# ---- with blocks


def choice(w: Writer, s: Scope) -> None:
    # Bound on every way; not in loops, where a way may leave the round and not the function.
    shared = w.name("s") if s.chance(0.3) and not w.loops else None
    ways = ["if"] + ["elif"] * (s.below(2)) + (["else"] if shared or s.chance(0.6) else [])
    for way in ways:
        w.write(f"{way} {condition(s)}:" if way != "else" else "else:")
        inner = s.inner()
        block(w, inner, 3)
        if shared:
            w.write(f"    {shared} = {number(inner)}")
    if shared:
        s.floats.append(shared)


def counted(w: Writer, s: Scope) -> None:
    """for over a range: short, long, or of a traced length."""
    i = w.name("i")
    start, bound = "", 0
    kind = s.below(8)
    if kind < 2:
        bound = 2 + s.below(3)
        words = f"{bound}"
    elif kind < 4:
        bound = LONG + s.below(4)
        words = f"{bound}"
    elif kind == 4:
        start, bound = s.pick([("1, ", 11), ("0, ", 11)])
        words = f"{start}{bound}" + s.pick(["", ", 2"])
    elif kind == 5:
        bound = 12
        words = s.pick(["11, -1, -1", "10, 0, -2"])
    elif s.whole:
        j = s.pick(list(s.whole))
        bound = 6
        words = s.pick([f"{j} % 6", f"1, {j} % 7", f"{j} % 3, {j} % 3 + 3", f"{j} % 6, 0, -1"])
    else:
        bound = 3
        words = "3"
    if s.vectors and s.chance(0.3):
        bound = s.pick(list(s.vectors.values()))
        words = s.pick([f"{bound}", f"{bound} - 1, -1, -1"])
    over = f"range({words})"
    w.write(f"for {i} in {'reversed(' + over + ')' if s.chance(0.1) else over}:")
    inner = s.inner()
    inner.whole[i] = bound
    _round(w, s, inner)


def over_array(w: Writer, s: Scope) -> None:
    if not s.vectors:
        return
    name, n = s.pick(list(s.vectors.items()))
    value, i = w.name("v"), w.name("i")
    kind = s.below(4)
    inner = s.inner()
    inner.fixed.append(value)
    inner.views.add(name)  # what a loop runs over is not written into
    if kind == 0:
        w.write(f"for {value} in {name}:")
    elif kind < 3:
        w.write(f"for {i}, {value} in enumerate({name}):")
        inner.whole[i] = n
    else:
        other, _ = s.pick(list(s.vectors.items()))
        second = w.name("v")
        inner.fixed.append(second)
        inner.views.add(other)
        w.write(f"for {value}, {second} in zip({name}, {other}):")
    _round(w, s, inner)


def guarded(w: Writer, s: Scope) -> None:
    """while on data, with a counter so that it ends."""
    n = w.name("n")
    most = s.pick([3, 6, 12])
    w.write(f"{n} = 0")
    inner = s.inner()
    inner.whole[n] = most + 1
    ends_inside = s.chance(0.2)
    if ends_inside:
        w.write("while True:")
    else:
        tests = [f"{condition(s)} and {n} < {most}", f"{n} < {most} and {condition(s)}"]
        w.write(f"while {s.pick(tests)}:")
    w.write(f"    {n} += 1")
    if ends_inside:
        w.write(f"    if {n} > {most} or {condition(inner)}:")
        w.write("        break")
    _round(w, s, inner)
    s.whole[n] = most + 2


def _round(w: Writer, s: Scope, inner: Scope) -> None:
    w.loops += 1
    block(w, inner)
    w.loops -= 1
    if s.chance(0.15):
        w.write("else:")
        block(w, s.inner(), 1)


SIMPLE: dict[Callable[[Writer, Scope], None], float] = {
    assign: 4,
    swap: 0.7,
    pair: 0.7,
    record: 0.7,
    count: 0.6,
    local_array: 1.5,
    write_entry: 3,
    write_part: 1.2,
    whole_array: 0.8,
    leave: 1,
    nest: 0.8,
    truth: 1,
    asserted: 0.4,
    other_name: 0.3,
    collected: 0.3,
}
COMPOUND: dict[Callable[[Writer, Scope], None], float] = {
    choice: 2.5,
    counted: 3,
    over_array: 1.2,
    guarded: 1.5,
}


# ---- functions


def helper(rng_scope: Scope, k: int, known: list[Helper], size: int) -> tuple[Helper, list[str]]:
    """A function of numbers, and perhaps an array, with control flow of its own."""
    s = Scope(rng_scope.rng, helpers=list(known))
    takes = ["f"] * (1 + s.below(2))
    names = [f"u{j}" for j in range(len(takes))]
    s.floats += names
    if s.chance(0.3):
        n = 3 + s.below(2)
        takes.append(f"v{n}")
        names.append("z")
        s.vectors["z"] = n
        s.views.add("z")
    w = Writer(size)
    recursive = s.chance(0.5)
    if recursive:
        takes.append("d")
        names.append("depth")
        s.whole["depth"] = None
        w.write("if depth <= 0:")
        w.write(f"    return {number(s, 1)}")
    for _ in range(1 + s.below(2)):
        statement(w, s)
    if recursive:
        again = [names[-2] if n == "z" else number(s, 1) for n in names[:-1]]
        again = ["z" if n == "z" else e for n, e in zip(names[:-1], again, strict=True)]
        inner = f"g{k}({', '.join([*again, 'depth - 1'])})"
        w.write(f"return {number(s, 1)} + 0.5 * np.tanh({inner})")
    else:
        w.write(f"return {number(s)}")
    return Helper(f"g{k}", tuple(takes)), [f"def g{k}({', '.join(names)}):", *w.lines]


def main_function(s: Scope, size: int) -> list[str]:
    """f(a, b, x, k, idx) of a scope that knows these."""
    w = Writer(size)
    while w.size > 0:
        statement(w, s)
    ends = [number(s)]
    ends += [f"np.sum({v} * {v}) * 0.5" for v in s.vectors if s.chance(0.7)]
    ends += [f"np.sum({m} * {m}) * 0.1" for m in s.matrices if s.chance(0.7)]
    ends += [f"np.sin({n})" for n in s.floats if s.chance(0.6)]
    w.write(f"return {' + '.join(ends)}")
    return ["def f(a, b, x, k, idx):", *w.lines]
