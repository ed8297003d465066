"""Random programs through XLA: straight ones, and such with loops and branches."""

import pytest

from backsolve.testing import fuzz, fuzz_control
from backsolve.testing.fuzz_control_source import written
from backsolve.testing.fuzz_sketch import sketch

pytest.importorskip("jax")


@pytest.mark.parametrize("seed", [0, 3, 7, 11])
def test_straight_programs(seed):
    fuzz.check(sketch(seed), "xla")


@pytest.mark.parametrize("seed", [1, 3, 17, 23, 35])
def test_structured_programs(seed):
    """Odd seeds: there all checks run on the backend."""
    assert fuzz_control.failure(written(seed), "xla") is None
