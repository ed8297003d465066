"""Random programs: a thousand here, as many as you like with `make fuzz`."""

from dataclasses import replace

import numpy as np
import pytest

from backsolve.rewrite.simplify import RULES
from backsolve.testing import fuzz
from backsolve.testing.fuzz_sketch import MAKERS, Sketch, Step
from backsolve.testing.fuzz_steps import Pool

CHUNK = 25


@pytest.mark.parametrize("first", range(0, 1000, CHUNK))
def test_random_programs(first):
    for seed in range(first, first + CHUNK):
        found = fuzz.explain(seed)
        assert found is None, found


def test_a_seed_makes_one_program():
    assert str(fuzz.sketch(7)) == str(fuzz.sketch(7))
    assert len({str(fuzz.sketch(seed)) for seed in range(50)}) == 50


def test_programs_cover_the_rows():
    """What the makers write: many functions, dtypes, ranks, empty arrays."""
    sketches = [fuzz.sketch(seed) for seed in range(300)]
    text = "\n".join(s.source() for s in sketches)
    rows = ["P.windows", "P.fold", "P.sylvester", "P.sqrtm", "P.banded_solve", "_part("]
    for word in (
        *rows,
        "einsum",
        "@",
        "where",
        "concatenate",
        "put(",
        "cumsum",
        "sort",
        "astype",
        "P.",
    ):
        assert word in text, word
    inputs = [x for s in sketches for x in s.inputs]
    assert {x.ndim for x in inputs} >= {0, 1, 2, 3, 4}
    assert {x.dtype.name for x in inputs} >= {"float32", "float64", "int64", "int32", "bool"}
    assert any(x.size == 0 for x in inputs)
    assert any(len(s.outputs) > 1 for s in sketches)


@pytest.mark.parametrize("maker", MAKERS, ids=lambda m: m.__name__)
def test_every_maker_makes_something(maker):
    rng = np.random.default_rng(0)
    values = [
        rng.uniform(0.5, 1, (3, 4)),
        rng.uniform(1.1, 1.5, (3, 4)),
        np.arange(3),
        np.ones(3) > 0,
    ]
    made = [m for m in (maker(Pool(rng, values)) for _ in range(60)) if m is not None]
    assert made


def test_a_failure_is_found_and_made_small(monkeypatch):
    """A wrong rule, planted: the program that shows it is one line on one number."""
    monkeypatch.setitem(RULES, "sin", [lambda walk, e: e.inputs[0]])
    line = Step("np.sin({0}) * 2 - {0}", (0,))
    noise = Step("np.exp({0})[:, None] * {1}", (0, 1))
    s = Sketch(1, (np.ones(4), np.ones(3)), (line, noise, replace(noise, args=(2, 1))), (3, 4))
    assert fuzz.failure(s)
    small = fuzz.shrink(s, fuzz.failure)
    assert "compiled: value 0" in fuzz.failure(small)
    assert [step.code for step in small.steps] == [line.code]
    assert [x.shape for x in small.inputs] == [(1,)]


def test_the_printed_program_runs():
    s = fuzz.sketch(3)
    exec(str(s), {})
    broken = str(s).replace("def f(", "def g(").replace("check_function(f", "check_function(h")
    header = "h = lambda *xs: (np.random.default_rng().normal(size=2) + xs[0].sum() * 0.0,)"
    with pytest.raises(fuzz.CheckError):
        exec(broken.replace("\ncheck_function", f"\n{header}\ncheck_function"), {})


def test_main_counts():
    assert fuzz.main(2) == 0
