"""Steps timed one by one: all of them, inside of sweeps too, with the results as they are without counters."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import backsolve as bs
from backsolve.backends.native.pricing import counted
from backsolve.backends.native.sweep import Sweep
from backsolve.rewrite import rewrite_for_machines

FOLDER = Path(__file__).parents[2] / "benchmarks"
if str(FOLDER) not in sys.path:  # scripts, no part of the package
    sys.path.insert(0, str(FOLDER))

import steps  # noqa: E402


def test_every_step_is_timed_and_priced_as_in_the_whole() -> None:
    softmax = lambda x: np.exp(x) / np.sum(np.exp(x), -1, keepdims=True)
    x = np.random.default_rng(0).normal(size=(5000, 40))
    compiled = bs.jit(softmax)
    expected = compiled(x)
    (special,) = compiled._known.values()
    program = rewrite_for_machines(special.program)
    watched = steps.Watched(program, 0)
    np.testing.assert_array_equal(watched.call(x), expected)
    watched.run(x, 2)
    found = [*watched.timed(steps.ticks_a_second())]
    assert any(isinstance(t.step, Sweep) for t in found)
    assert any(t.depth == 1 for t in found)
    assert all(t.seconds > 0 for t in found)
    outer = [t for t in found if t.depth == 0]
    np.testing.assert_allclose(sum(t.counted.seconds for t in outer), counted(program).seconds)
