"""Branches whose sides a GPU computes all (backends/xla/sides.py); the CPU plays the device."""

import numpy as np
import pytest

import backsolve as bs

jax = pytest.importorskip("jax")
X = np.linspace(0.5, 2.0, 5)


@pytest.fixture
def compiled(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    yield lambda f, **options: bs.jit(f, backend="xla", **options)
    bs.settle()


def chooses(f, *args):
    """Whether the device has to choose what to run."""
    return "stablehlo.case" in f.lower(*args).stages["stablehlo"]


def rotated(x):
    size = np.sum(x * x)
    if size > 0.0:
        if size > 4.0:
            x = x / np.sqrt(size)
        return np.sin(x) / size
    return x * 2.0


def test_small_sides_are_computed_both(compiled):
    f, g = compiled(rotated), compiled(bs.grad(lambda x: np.sum(rotated(x) ** 2)))
    for x in (X, 0.3 * X, 0 * X):
        np.testing.assert_allclose(np.asarray(f(x)), rotated(x), rtol=1e-14)
        expected = bs.grad(lambda x: np.sum(rotated(x) ** 2))(x)
        np.testing.assert_allclose(np.asarray(g(x)), expected, rtol=1e-12)
    assert not chooses(f, X)
    assert not chooses(g, X)


def test_large_sides_are_not(compiled):
    f, x = compiled(lambda x: np.sin(x) if x[0] > 0 else np.exp(x)), np.ones(1 << 14)
    np.testing.assert_allclose(np.asarray(f(x)), np.sin(x), rtol=1e-14)
    assert chooses(f, x)


def test_a_loop_that_would_not_end_is_not_begun(compiled):
    @compiled
    def root(x):
        if x > 0.0:
            y = x
            while y * y > 2.0:
                y = y / 2
            return y
        return x

    assert float(root(np.array(6.0))) == 0.75
    assert chooses(root, np.array(6.0))


def test_a_side_that_is_not_taken_fails_nothing(compiled):
    @compiled
    def read(x, i):
        if i[0] < 5:
            return x[i] * 2.0
        return x[:1] * 0.0

    assert float(read(X, np.array([4]))[0]) == 4.0
    assert float(read(X, np.array([7]))[0]) == 0.0
    bs.settle()
    assert not chooses(read, X, np.array([4]))
    assert np.isnan(float(read(X, np.array([-9]))[0]))
    with pytest.raises(IndexError, match="size 5"):
        bs.settle()


def test_on_the_host_only_what_is_taken_runs(compiled):
    from scipy import special

    def bessel(x):
        if x[0] > 1.0:
            return special.jv(0.3, x)
        return x * 2.0

    f = compiled(bessel)
    np.testing.assert_allclose(np.asarray(f(X + 1)), special.jv(0.3, X + 1), rtol=1e-12)
    np.testing.assert_array_equal(np.asarray(f(X)), 2 * X)
    (made,) = f.stats()["specialisations"]
    assert made["elsewhere"] == 1
    assert chooses(f, X)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128, np.int64, np.bool_])
def test_parts_that_are_joined_by_choosing(compiled, dtype):
    parts = [np.array(a).astype(dtype) for a in ([[0.0, 1.0]], np.empty((0, 2)), [[1, 1], [0, 1]])]
    if np.dtype(dtype).kind in "fc":
        parts[0][0] = np.nan, -0.0
        parts[2][0] = np.inf, -0.0
    join = lambda a, b, c: np.concatenate([a, b, c])
    f = compiled(join)
    got, expected = np.asarray(f(*parts)), join(*parts)
    np.testing.assert_array_equal(got, expected)
    assert got.dtype == dtype
    if np.dtype(dtype).kind in "fc":
        np.testing.assert_array_equal(np.signbit(got.real), np.signbit(expected.real))
    assert "stablehlo.concatenate" not in f.lower(*parts).stages["stablehlo"]
    across = compiled(lambda a, c: np.concatenate([a.T, c.T], axis=1))
    np.testing.assert_array_equal(np.asarray(across(parts[0], parts[2])), expected.T)
