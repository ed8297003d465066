"""Random programs on extreme numbers: some here, as many as you like with `make fuzz`."""

import numpy as np
import pytest

from backsolve.testing import fuzz_extremes
from backsolve.testing.fuzz_sketch import Sketch, Step


@pytest.mark.parametrize("first", range(0, 40, 20))
def test_random_programs(first):
    for seed in range(first, first + 20):
        found = fuzz_extremes.explain(seed)
        assert found is None, found


def test_numbers_are_extreme():
    rng = np.random.default_rng(0)
    x = np.concatenate([fuzz_extremes.extreme(rng, np.ones((4, 5), "f")) for _ in range(50)])
    sizes = np.abs(x)
    assert np.isfinite(x).all()
    assert sizes.max() > 1e29
    assert sizes[sizes > 0].min() < 1e-29
    assert (np.signbit(x) & (x == 0)).any()
    np.testing.assert_array_equal(fuzz_extremes.extreme(rng, np.arange(3)), np.arange(3))


def test_what_is_a_fault():
    got = np.array([np.nan, np.inf, 0.0, 1.0, 2.0, np.nan, 0.0, np.nan], "f")
    eager = np.array([1.0, 0.0, 1.0, np.nan, 1.0, 1.0, 1e-8, np.inf], "f")
    truth = np.array([1.0, 0.0, 1.0, 1.0, 1.0, 2.0, 1e-8, np.inf])
    expected = [True, True, True, False, False, False, False, False]
    np.testing.assert_array_equal(fuzz_extremes.faults(got, eager, truth), expected)


def test_a_fault_is_found(monkeypatch):
    """With a factor that overflows on its way."""

    class Early(fuzz_extremes.Jitted):
        def __call__(self, x, y, u):
            _, dx, dy = super().__call__(x, y, u)
            return (x * 1e30 * y) / np.float32(1e30), dx, dy

    monkeypatch.setattr(fuzz_extremes, "Jitted", Early)
    inputs = (np.ones((2, 3), np.float32), np.ones((2, 3), np.float32))
    s = Sketch(1, inputs, (Step("{0} * {1}", (0, 1)),), (2,))
    with np.errstate(all="ignore"):
        assert "should be" in fuzz_extremes.failure(s)


def test_main_counts():
    assert fuzz_extremes.main(1) == 0
