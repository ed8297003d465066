"""Convolutions and pools that XLA takes as such, beside products over windows in NumPy."""

import numpy as np
import pytest

import backsolve as bs
from backsolve.operators.windows import Cut
from backsolve.primitive import P

pytest.importorskip("jax")
F = bs.nn.functional

# dimensions, stride, padding, dilation, groups
CASES = [
    (1, 3, 2, 2, 2),
    (1, 1, "same", 2, 1),
    (2, 2, 1, 1, 1),
    (2, (1, 3), (2, 0), (2, 1), 4),
    (3, 2, 1, 1, 2),
]


def case(n, stride, padding, dilation, groups):
    """A loss of a convolution and of a transposed one, with arrays for it."""
    rng = np.random.default_rng(n)
    x = rng.normal(size=(2, 4, *[{1: 17, 2: 9, 3: 5}[n] + k for k in range(n)]))
    w = rng.normal(size=(8, 4 // groups, *[3, 2, 3][:n]))
    back = 0 if padding == "same" else padding

    def loss(w, x):
        y = getattr(F, f"conv{n}d")(x, w, None, stride, padding, dilation, groups)
        z = getattr(F, f"conv_transpose{n}d")(y, w, None, stride, back, 0, groups, dilation)
        return np.sum(np.sin(z))

    return loss, w, x


def test_convolutions_and_their_adjoints():
    losses, arguments = [], []
    for chosen in CASES:
        loss, *arrays = case(*chosen)
        losses.append(loss)
        arguments.append(arrays)

    def gradients(arguments):
        return [bs.grad(f, argnums=(0, 1))(*a) for f, a in zip(losses, arguments, strict=True)]

    run = bs.jit(gradients, backend="xla")
    for mine, theirs in zip(run(arguments), gradients(arguments), strict=True):
        for a, b in zip(mine, theirs, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9 * np.max(np.abs(b)))
    text = run.lower(arguments).stages["stablehlo"]
    # both, and of both the adjoints of x and w; no array of windows
    assert text.count("stablehlo.convolution") == 6 * len(CASES)
    assert "stablehlo.concatenate" not in text


def test_pools():
    x = np.random.default_rng(0).normal(size=(2, 3, 9, 8))
    x[0, 0, 2, 2] = np.nan

    def pools(x):
        largest = F.max_pool2d(x, 3, 2, 1, ceil_mode=True)
        mean = F.avg_pool2d(x, (2, 3), 1, 1, count_include_pad=False)
        return largest, mean, F.max_pool2d(x, 2, 1, dilation=2)

    run = bs.jit(pools, backend="xla")
    for a, b in zip(run(x), pools(x), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    assert run.lower(x).stages["stablehlo"].count("reduce_window") == 3

    f = lambda x: sum(np.sum(np.sin(y)) for y in pools(x))
    x[0, 0, 2, 2] = 0.5
    np.testing.assert_allclose(bs.jit(bs.grad(f), backend="xla")(x), bs.grad(f)(x), rtol=1e-9)


def test_adjoints_of_max_pools_make_no_windows():
    """The first of equal entries gets all, a NaN is the largest; also in 16 bits, behind an infinite slope."""
    rng = np.random.default_rng(1)
    x = rng.integers(0, 3, (2, 3, 9, 8)).astype(np.float32)  # many ties, and √ has slope ∞ at 0
    x[0, 0, 2, 2] = x[0, 0, 2, 3] = x[1, 2, 0, 0] = np.nan
    t = rng.integers(1, 9, (2, 3, 5, 5)).astype(np.float32)

    def f(x):
        return np.sum(F.max_pool2d(np.sqrt(x), 3, 2, 1, ceil_mode=True)[..., :5, :5] * t)

    def both(x):
        return bs.grad(f)(x), bs.grad(lambda x: f(x.astype(np.float16)))(x)

    run = bs.jit(both, backend="xla", half="bfloat16")
    assert "x3x3x" not in run.lower(x).stages["stablehlo"]
    wide, narrow = run(x)
    expected = bs.grad(f)(x)
    np.testing.assert_allclose(wide, expected, rtol=1e-6)
    np.testing.assert_allclose(narrow, expected, rtol=2e-2)


@pytest.mark.parametrize("step", [1, 2, 3, 4])
@pytest.mark.parametrize("dilation", [1, 2, 3])
@pytest.mark.parametrize("n", [9, 10, 11, 12])
def test_windows_that_are_put_back(step, dilation, n):
    """Places that never meet are added up apart: one array among zeros for each kind of place."""
    cut = Cut((0, 1), (3, 2), (step, 2), (dilation, 1))
    t = np.random.default_rng(2).normal(size=cut.shape((n, 7, 2)))
    run = bs.jit(lambda t: P.fold(t, cut=cut, shape=(n, 7, 2)), backend="xla")
    np.testing.assert_allclose(run(t), cut.add(np.zeros((n, 7, 2)), t), rtol=1e-12)
    kinds = 2 * len({k * dilation % step for k in range(3)})
    text = run.lower(t).stages["stablehlo"]
    assert text.count("stablehlo.pad") - text.count("interior = [0, 0, 0]") == kinds


def test_a_mask_that_hides_numbers_stays():
    x, w = (np.random.default_rng(k).normal(size=s) for k, s in enumerate([(1, 2, 7), (3, 2, 3)]))
    hidden = np.arange(3) < 2

    def f(x, w):
        windows = P.windows(x, cut=Cut((2,), (3,), (1,), (1,)))
        return np.einsum("ncxk,ock->nox", np.where(hidden, windows, 0), w)

    np.testing.assert_allclose(bs.jit(f, backend="xla")(x, w), f(x, w), rtol=1e-12)
