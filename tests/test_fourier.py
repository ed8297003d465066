"""numpy.fft of Tensors: NumPy's values, and derivatives of both modes and two orders."""

from __future__ import annotations

import numpy as np
import pytest

import backsolve as bs
import backsolve.numpy as bnp
from backsolve.testing import check_grads

RNG = np.random.default_rng(3)
REAL = RNG.normal(size=(3, 4))
COMPLEX = REAL + 1j * RNG.normal(size=(3, 4))
SIZES = {"s": (4, 5), "axes": (0, 1)}

CALLS = [
    *[(name, COMPLEX, o) for name in ("fft", "ifft") for o in ({}, {"n": 6}, {"n": 3, "axis": 0})],
    *[("fft", REAL, {"norm": norm}) for norm in ("backward", "ortho", "forward")],
    *[("ifft", REAL, {"norm": norm}) for norm in ("backward", "ortho", "forward")],
    *[(name, COMPLEX, {"s": (2, 5)}) for name in ("fft2", "ifft2")],
    *[(name, COMPLEX, {"s": (2, 5), "axes": (0, 1)}) for name in ("fftn", "ifftn")],
    ("fftn", COMPLEX, {"axes": (0, 1, 1)}),
    ("fftn", COMPLEX, {"s": (5,), "axes": (0,), "norm": "ortho"}),
    *[("rfft", REAL, o) for o in ({}, {"n": 7}, {"n": 2}, {"axis": 0, "norm": "ortho"})],
    *[("irfft", COMPLEX, o) for o in ({}, {"n": 7}, {"n": 3, "norm": "forward"}, {"axis": 0})],
    *[("hfft", COMPLEX, o) for o in ({}, {"n": 5, "norm": "ortho"}, {"norm": "forward"})],
    *[("ihfft", REAL, o) for o in ({}, {"n": 5, "norm": "ortho"}, {"norm": "forward"})],
    *[(name, REAL, o) for name in ("rfft2", "rfftn") for o in ({}, SIZES, {"norm": "ortho"})],
    *[(name, COMPLEX, o) for name in ("irfft2", "irfftn") for o in ({}, SIZES)],
    *[
        (name, REAL, o)
        for name in ("fftshift", "ifftshift")
        for o in ({}, {"axes": 1}, {"axes": (0,)})
    ],
    ("fft", np.arange(4), {}),
    ("rfft", REAL.astype(np.float32), {}),
]


@pytest.mark.parametrize(("name", "a", "options"), CALLS)
def test_values_and_derivatives(name, a, options):
    f = getattr(np.fft, name)
    expected = f(a, **options)
    got = f(bs.tensor(a), **options)
    compiled = bs.jit(lambda a: f(a, **options))(a)
    tight = 1e-5 if expected.dtype in (np.complex64, np.float32) else 1e-12
    for y in (np.asarray(got), compiled):
        assert y.dtype == expected.dtype
        np.testing.assert_allclose(y, expected, rtol=tight, atol=tight)
    if a.dtype in (np.float64, np.complex128):
        check_grads(lambda a: f(np.sin(a), **options), (a,), order=2)


def test_a_spectrum_is_fitted_by_its_gradient():
    """The gradient of |rfft(x) − y|² is what Parseval's theorem says."""
    x, y = RNG.normal(size=9), np.fft.rfft(RNG.normal(size=9))
    g = bs.jit(bs.grad(lambda x: np.sum(np.abs(np.fft.rfft(x) - y) ** 2)))(x)
    full = np.fft.fft(x) - np.concatenate([y, np.conjugate(y[:0:-1])])
    half = np.where(np.arange(9) <= 4, full, 0)
    np.testing.assert_allclose(g, 2 * np.real(np.fft.ifft(half) * 9), atol=1e-12)


def test_batched():
    f = lambda x: np.fft.irfft(np.fft.rfft(x) * np.fft.rfft(x), 4)
    xs = RNG.normal(size=(3, 4))
    np.testing.assert_allclose(bs.vmap(f)(xs), [f(x) for x in xs])
    together = bs.vmap(bs.grad(lambda x: np.sum(np.sin(f(x)))))(xs)
    np.testing.assert_allclose(together, [bs.grad(lambda x: np.sum(np.sin(f(x))))(x) for x in xs])


def test_frequencies_are_tensors():
    assert isinstance(bnp.fft.fftfreq(4), bs.Tensor)
    assert bnp.fft.rfftfreq(5, d=0.5, dtype=np.float32).dtype == np.float32
    np.testing.assert_allclose(np.asarray(bnp.fft.fftfreq(5, d=0.1)), np.fft.fftfreq(5, 0.1))


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (lambda: np.fft.fft(bs.tensor(REAL), norm="other"), ValueError),
        (lambda: np.fft.fft(bs.tensor(REAL), n=0), ValueError),
        (lambda: np.fft.fft(bs.tensor(REAL), axis=2), IndexError),
        (lambda: np.fft.rfft(bs.tensor(COMPLEX)), TypeError),
        (lambda: np.fft.fftn(bs.tensor(REAL), s=(2,), axes=(0, 1)), ValueError),
    ],
)
def test_mistakes(call, kind):
    with pytest.raises(kind):
        call()
