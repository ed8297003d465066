"""Programs as their authors write them, eager and compiled: values as Python's, derivatives of both modes as
central differences."""

from __future__ import annotations

import copy

import more_programs  # noqa: F401  (adds to the cases)
import numpy as np
import programs
import pytest
import science_programs  # noqa: F401

import backsolve as bs
from backsolve.testing import check_grads

NAMES = [f.__name__ for f, _ in programs.CASES]


def varied(f, arguments):
    """`f` of its arguments that are real, and these."""
    places = [k for k, a in enumerate(arguments) if np.result_type(a).kind == "f"]

    def of_varied(*values):
        full = list(arguments)
        for k, x in zip(places, values, strict=True):
            full[k] = x
        return f(*full)

    return of_varied, [arguments[k] for k in places]


@pytest.mark.parametrize(("f", "arguments"), programs.CASES, ids=NAMES)
def test_compiled(f, arguments):
    got = bs.jit(f)(*copy.deepcopy(arguments))
    np.testing.assert_allclose(got, f(*copy.deepcopy(arguments)), rtol=1e-12)
    g, values = varied(f, arguments)
    compiled = bs.jit(g)
    check_grads(compiled, values, order=1)
    everything = tuple(range(len(values)))
    eager = bs.grad(g, argnums=everything)(*values)
    for a, b in zip(bs.jit(bs.grad(g, argnums=everything))(*values), eager, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("f", "arguments"), programs.CASES, ids=NAMES)
def test_eager(f, arguments):
    g, values = varied(f, arguments)
    check_grads(g, values, order=1)
