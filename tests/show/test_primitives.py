"""The page's own primitives give what NumPy's do, on the samples of every row and where they are delicate."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from backsolve.ir import Type
from backsolve.primitive import PRIMITIVES
from backsolve.show.numbers import array_data
from backsolve.show.recompute import DTYPES, program_data, runs_in_browser
from backsolve.testing.samples import EVERY_INTEGER, cases
from backsolve.trace import stage

from .conftest import as_array

SPECIAL = {"erf", "erfc", "erfinv", "ndtr", "gammaln", "gamma", "digamma", "polygamma"}
EDGES = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    1.5,
    2.5,
    -2.5,
    1e-300,
    1e300,
    -1e300,
    40.0,
    -40.0,
    800.0,
    -800.0,
]
EDGES += [np.inf, -np.inf, np.nan]
# Where SciPy's own choice at an edge is no more than a choice, or the sample is out of the row's domain.
NOT_AT_EDGES = {"ldexp", "cast_discrete", "where", "gammaln", "gamma", "digamma", "erfinv"}
WHOLE = {
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "left_shift",
    "right_shift",
    "gcd",
    "lcm",
    "invert",
}


def samples(name):
    """(label, arguments, metadata) of one row."""
    prim = PRIMITIVES[name]
    for case in cases(name, others=EVERY_INTEGER):
        if "complex" in case.dtype + str(case.params) or "uint64" in case.dtype:
            continue
        args = case.make(np.random.default_rng(3))
        if name == "reciprocal" and np.asarray(args[0]).dtype.kind in "biu":
            args = [args[0] | (args[0] == 0)]  # of 0 NumPy gives what the processor does
        yield str(case), args, case.params
    if prim.elementwise and name not in NOT_AT_EDGES | WHOLE:
        arity = next(len(case.make(np.random.default_rng(0))) for case in cases(name))
        grid = np.meshgrid(*[np.array(EDGES)] * min(arity, 2), indexing="ij")
        params = {"dtype": np.dtype(np.float32)} if name == "cast" else {}
        params = {"n": 1} if name == "polygamma" else params
        edges = [g.reshape(-1) for g in grid] + [np.array(1.0)] * (arity - 2)
        yield f"{name} at edges", edges, params


def case_of(name, args, params):
    """The Program of one call, its inputs, and what NumPy says."""
    places = [k for k, a in enumerate(args) if type(a) is not float]
    types = [Type(np.shape(args[k]), np.asarray(args[k]).dtype) for k in places]

    def call(*xs):
        given = list(args)
        for k, x in zip(places, xs, strict=True):
            given[k] = x
        return PRIMITIVES[name](*given, **params)

    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = np.asarray(PRIMITIVES[name].run(*args, **params))
        if not places:
            return None
        data = program_data(stage(call, types)[0])
    data["values"], data["adjoints"] = data.pop("outputs"), []
    data["branches"], data["sent"] = [], []
    return {"program": data, "inputs": [array_data(args[k]) for k in places]}, expected


@pytest.fixture(scope="module")
def found(in_page):
    """By row: (label, expected, what the page says)."""
    labels, asked, expected = [], [], []
    for name in sorted(runs_in_browser()):
        for label, args, params in samples(name):
            made = case_of(name, args, params)
            if made is not None and made[1].dtype.name in DTYPES:
                labels.append((name, label))
                asked.append(made[0])
                expected.append(made[1])
    answers = in_page(asked)
    by_row = {}
    for (name, label), e, a in zip(labels, expected, answers, strict=True):
        by_row.setdefault(name, []).append((label, e, a))
    return by_row


def tolerance(name, expected):
    if expected.dtype.kind != "f":
        return 0.0
    exact = 1e-10 if name in SPECIAL else 1e-12
    return (
        max(exact, 200 * float(np.finfo(expected.dtype).eps))
        if expected.dtype == np.float32
        else exact
    )


@pytest.mark.parametrize("name", sorted(runs_in_browser()))
def test_value_is_that_of_numpy(name, found):
    assert found[name]
    for label, expected, answer in found[name]:
        assert "error" not in answer, f"{label}: {answer}"
        got = as_array(answer["values"][0])
        assert (got.shape, got.dtype) == (expected.shape, expected.dtype), label
        rtol = tolerance(name, expected)
        atol = rtol if expected.dtype.kind == "f" and "edges" not in label else 0.0
        np.testing.assert_allclose(got, expected, rtol=rtol, atol=atol, err_msg=label)


def test_list_of_primitives_is_that_of_the_page(in_page):
    assert set(in_page.tab.evaluate("backsolve.primitives")) == runs_in_browser()
