"""What the staging of nests costs: each level once more than the one around it, not twice as often."""

import textwrap
from collections import Counter

import numpy as np
import pytest

import backsolve as bs
from backsolve.frontend import branches, loops

DEPTH = 5


def nest(before, opening, innermost, closing=(), result="y.sum() + z.sum()"):
    """A function of DEPTH loops, one in the other, from lines of its source."""
    lines = [*before]
    for k in range(DEPTH):
        lines += ["    " * k + line.format(k=k) for line in opening]
    lines += ["    " * DEPTH + line for line in innermost]
    for k in reversed(range(DEPTH)):
        lines += ["    " * (k + 1) + line.format(k=k, inner=k + 1) for line in closing]
    body = textwrap.indent("\n".join([*lines, f"return {result}"]), "    ")
    return f"import numpy as np\n\n\ndef f(x, n):\n{body}\n"


LOOP = "for i{k} in range(n):"
ARRAYS = ["y, z = x * 1.0, x + 1.0"]
NESTS = {
    "arrays change hands": nest(ARRAYS, [LOOP], ["y, z = z, np.sin(y)"]),
    "two names of one array": nest(ARRAYS, [LOOP], ["y = z = 0.5 * np.sin(y) + z"]),
    "an array from outside": nest([*ARRAYS, "w = x + 2.0"], [LOOP], ["y = w", "z = z + y"]),
    "names and writes": nest(
        [*ARRAYS, "w = np.zeros(4)"],
        [LOOP],
        ["new = y.copy()", "new[0] = z[1] * 0.5", "w[1] = z[0] + w[1]", "y = z = new"],
        result="y.sum() + 2.0 * z.sum() + w.sum()",
    ),
    "bare numbers": nest(
        [],
        ["s{k} = 0.0", LOOP],
        [f"s{DEPTH} = x.sum()"],
        ["s{k} = s{k} + np.sin(s{inner})"],
        result="s0",
    ),
    "written by a function": nest(
        [*ARRAYS, "def add(y):", "    y[1] = 0.5 * y[1] + x[0]", ""], [LOOP], ["add(y)"]
    ),
    "`while True`": nest(
        ["y = z = x * 1.0"],
        ["k{k} = 0", "while True:", "    if k{k} >= n: break", "    k{k} = k{k} + 1"],
        ["y = np.sin(y) + z"],
    ),
}


@pytest.fixture
def staged(monkeypatch):
    """How often each round was staged, by its line."""
    count = Counter()
    once = loops._Round.once

    def counting(self, *args):
        count[self.body.__code__.co_firstlineno] += 1
        return once(self, *args)

    monkeypatch.setattr(loops._Round, "once", counting)
    return count


@pytest.mark.parametrize("text", NESTS.values(), ids=NESTS.keys())
def test_the_cost_of_a_nest_of_loops(text, staged, tmp_path):
    path = tmp_path / "nest.py"
    path.write_text(text)
    names = {}
    exec(compile(text, str(path), "exec"), names)
    x, n = np.linspace(0.0, 1.0, 4), np.int64(2)
    assert bs.jit(names["f"])(x, n) == pytest.approx(names["f"](x, n), rel=1e-12)
    assert len(staged) == DEPTH
    assert max(staged.values()) <= DEPTH + 2, dict(staged)


def test_branches_of_other_types_are_staged_once(monkeypatch):
    def f(x):
        if x[0] < 0:
            s = 0
        elif x[1] < 0:
            s = 1
        elif x[2] < 0:
            s = 2.5
        else:
            s = x.sum()
        return s

    count = 0
    stage = branches._stage_if

    def counting(*args):
        nonlocal count
        count += 1
        stage(*args)

    monkeypatch.setattr(branches, "_stage_if", counting)
    g = bs.jit(f)
    for k in range(4):
        x = np.where(np.arange(4) == k, -1.0, 2.0)
        assert g(x) == pytest.approx(f(x))
    assert count == 3
