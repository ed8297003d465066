"""Recursive filters: SciPy's values, derivatives in signal, coefficients and state, compiled and batched."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.signal

import backsolve as bs
from backsolve.errors import ShapeError
from backsolve.testing import check_grads

RNG = np.random.default_rng(3)
B, A = scipy.signal.butter(3, 0.3)
SOS = scipy.signal.butter(4, 0.4, output="sos")
X = RNG.normal(size=(2, 30))
ours = bs.scipy.signal

CASES = [
    ("lfilter", (B, A, X), {}),
    ("lfilter", (B * 2, A * 2, X.T), {"axis": 0}),
    ("lfilter", ([1.0, 2.0, 3.0], [2.0], X[0]), {}),
    ("lfilter", ([1.0], [1.0, -0.9, 0.2], X[0, :2]), {}),
    ("lfilter", (B, A, X + 1j * X[::-1]), {}),
    ("lfilter", (B, A, X), {"zi": RNG.normal(size=(2, 3))}),
    ("lfilter", (B, A, X[0, :2]), {"zi": RNG.normal(size=3)}),
    ("lfilter_zi", (B, A), {}),
    ("lfilter_zi", (B, [2.0, 0.5]), {}),
    ("sosfilt", (SOS, X), {}),
    ("sosfilt", (SOS, X), {"zi": RNG.normal(size=(2, 2, 2))}),
    ("sosfilt_zi", (SOS,), {}),
    ("filtfilt", (B, A, X), {}),
    ("filtfilt", (B, A, X.T), {"axis": 0, "padtype": "even", "padlen": 5}),
    ("filtfilt", (B, A, X), {"padtype": "constant"}),
    ("filtfilt", (B, A, X), {"padtype": None}),
    ("sosfiltfilt", (SOS, X), {}),
]


def parts(y):
    return y if isinstance(y, tuple) else (y,)


@pytest.mark.parametrize(("name", "args", "options"), CASES)
def test_scipys_values_eager_and_compiled(name, args, options):
    expected = parts(getattr(scipy.signal, name)(*args, **options))
    f = getattr(ours, name)
    varying = [bs.tensor(np.asarray(a), requires_grad=True) for a in args]
    compiled = bs.jit(lambda x: f(*args[:-1], x, **options))
    for found in (f(*varying, **options), compiled(np.asarray(args[-1]))):
        for x, y in zip(parts(found), expected, strict=True):
            x = np.asarray(bs.stop_gradient(x))
            np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-12)


def test_derivatives_in_everything():
    zi = RNG.normal(size=3)
    check_grads(lambda b, a, x, zi: ours.lfilter(b, a, x, zi=zi), (B, A, X[0, :8], zi), order=2)
    check_grads(lambda b, a, x: ours.filtfilt(b, a, x, padlen=4), (B, A, X[0, :12]), order=1)

    def sections(free, x):  # of which SciPy wants the fourth coefficient to be 1
        sos = np.concatenate([free[:, :3], np.ones((2, 1)), free[:, 3:]], axis=1)
        return ours.sosfiltfilt(sos, x, padlen=4)

    check_grads(sections, (np.delete(SOS, 3, 1), X[0, :12]), order=1)


def test_gradients_compiled_and_batched():
    def loss(a, x):
        return np.sum(ours.lfilter(B, a, x) ** 2)

    expected = bs.grad(loss, (0, 1))(A, X[0])
    for x, y in zip(bs.jit(bs.grad(loss, (0, 1)))(A, X[0]), expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-9)
    found = bs.vmap(bs.grad(loss, 1), (None, 0))(A, X)
    np.testing.assert_allclose(found[0], expected[1], rtol=1e-9)


def test_plain_arrays_are_scipys_business():
    assert isinstance(ours.lfilter(B, A, X), np.ndarray)
    assert isinstance(ours.filtfilt(B, A, X, method="gust"), np.ndarray)


def test_what_does_not_fit_is_said():
    x = bs.tensor(X)
    with pytest.raises(ShapeError, match="3 entries along axis 1"):
        ours.lfilter(B, A, x, zi=np.ones((2, 2)))
    with pytest.raises(ShapeError, match="vector of coefficients"):
        ours.lfilter(np.ones((2, 2)), A, x)
    with pytest.raises(ShapeError, match="rows of 6"):
        ours.sosfilt(np.ones((2, 5)), x)
    with pytest.raises(ValueError, match="more than padlen"):
        ours.filtfilt(B, A, x[:, :5])
    with pytest.raises(ValueError, match="padtype"):
        ours.filtfilt(B, A, x, padtype="round")
