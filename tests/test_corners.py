"""Corners where eager and compiled code must do as NumPy does: NaN, bounds, kinds of results, messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import special

import backsolve as bs
from backsolve import errors

NAN, INF = np.nan, np.inf
M = np.array([[1.0, NAN, 3.0], [2.0, 1.0, 4.0], [NAN, NAN, NAN]])
U = np.array([0, 7, 255], np.uint8)
POWERS = np.array([-INF, -0.0, 0.0, 4.0, -1.0, INF, NAN])
CASES: dict[str, tuple[Callable[..., Any], Any]] = {
    "median of a NaN": (np.median, M[0]),
    "median along rows": (lambda a: np.median(a, axis=1), M),
    "median along columns": (lambda a: np.median(a, axis=0, keepdims=True), M),
    "nanmax of integers": (np.nanmax, np.array([1, 5, 3], np.int32)),
    "nanmin of integers": (lambda a: np.nanmin(a, axis=0), np.array([[1, 5], [3, 2]], np.uint8)),
    "nanprod of booleans": (np.nanprod, np.array([True, False])),
    "nanmax along rows": (lambda a: np.nanmax(a, axis=1), M),
    "nanmin along rows": (lambda a: np.nanmin(a, axis=1, keepdims=True), M),
    "nanmax with a start": (lambda a: np.nanmax(a, initial=3.5), M),
    "clip, bounds beyond": (lambda a: np.clip(a, -1, 300), U),
    "clip, one bound beyond": (lambda a: np.clip(a, 1, 300), U),
    "clip, no upper bound": (lambda a: np.clip(a, -1, None), U),
    "clip, a bound of its own dtype": (lambda a: np.clip(a, np.int64(-1), 300), U),
    "roots": (lambda a: a**0.5, POWERS),
    "roots, single precision": (lambda a: a**0.5, POWERS.astype("f4")),
    "powers": (lambda a: np.power(a, np.linspace(0.5, 0.75, 7)), POWERS),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", CASES)
def test_as_numpy_does(name: str) -> None:
    f, x = CASES[name]
    expected = np.asarray(f(x))
    for got in (f(bs.tensor(x)).value, bs.jit(f)(x)):
        assert np.asarray(got).dtype == expected.dtype
        np.testing.assert_array_equal(got, expected)
        # By machine: which zero (-0) ** a is, and the sign of a NaN.
        shown = ~np.isnan(expected) & (expected != 0 if name == "powers" else True)
        np.testing.assert_array_equal(np.signbit(got)[shown], np.signbit(expected)[shown])


def test_clip_keeps_numpys_error() -> None:
    for f in (lambda a: np.clip(a, 300, 400), lambda a: np.clip(a, None, -1)):
        with pytest.raises(OverflowError, match="out of bounds for uint8"):
            f(U)
        with pytest.raises(OverflowError, match="out of bounds for uint8"):
            f(bs.tensor(U))


def test_gradients_beside_a_nan() -> None:
    x = np.array([[1.0, NAN, 3.0], [2.0, 1.0, 4.0]])
    expected = [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]  # a NaN is the median of its row
    np.testing.assert_array_equal(bs.grad(lambda a: np.median(a, axis=1).sum())(x), expected)
    expected = [[0.0, 0.0, 1.0], [0.0, 0.0, 1.0]]
    np.testing.assert_array_equal(bs.grad(lambda a: np.nanmax(a, axis=1).sum())(x), expected)


NUMBERS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "float times int": (lambda x, n: x * n, (2.0, 3)),
    "int by int": (lambda x, n: x / n, (2, 3)),
    "float to an int": (lambda x, n: x**n, (2.0, 3)),
    "several": (lambda x, n: (x + n, x - n, x), (2.0, 3)),
    "gradient": (bs.grad(lambda x: x * x), (3.0,)),
    "gradient, and an int": (bs.grad(lambda x, n: x * n), (3.0, 2)),
    "value and gradient": (bs.value_and_grad(lambda x, n: x * x * n), (3.0, 2)),
    "second derivative": (bs.grad(bs.grad(lambda x: x * x * x)), (3.0,)),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_python_numbers_come_back_as_such(name: str) -> None:
    f, args = NUMBERS[name]
    got, expected = bs.jit(f)(*args), f(*args)
    assert got == expected
    for x, y in zip(bs.tree.flatten(got)[0], bs.tree.flatten(expected)[0], strict=True):
        assert type(x) is type(y) is float


@pytest.mark.parametrize("what", ["donate", "static_argnums"])
@pytest.mark.parametrize("given", ["x", 1.5, [0, "a"], [True], None])
def test_places_are_integers(what: str, given: Any) -> None:
    options: dict[str, Any] = {what: given}
    with pytest.raises(TypeError, match=rf"`{what}` takes the places of arguments, .* got"):
        bs.jit(np.sin, **options)


def test_functions_of_scipy_are_called_so() -> None:
    with pytest.raises(
        errors.UnsupportedError, match=r"`scipy\.special\.mathieu_a` has no derivative"
    ):
        bs.grad(lambda x: special.mathieu_a(1.0, x))(1.0)
    with pytest.raises(errors.UnsupportedError, match=r"`scipy\.special\.expit` .* where="):
        special.expit(bs.tensor(np.ones(2)), where=np.ones(2, bool))
    with pytest.raises(errors.UnsupportedError, match=r"`numpy\.fmod\.reduce` has no derivative"):
        bs.grad(np.fmod.reduce)(np.ones(2))


ROOT = lambda x: np.sum(np.sqrt(x) * 0)
COMPILED: dict[str, Any] = {
    "jit": bs.jit(ROOT),
    "jit of grad": bs.jit(bs.grad(ROOT)),
    "grad of jit": bs.grad(bs.jit(ROOT)),
    "a container": lambda x: bs.jit(lambda d: ROOT(d["x"]))({"x": x}),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", COMPILED)
@pytest.mark.parametrize("x", [-1.0, np.array([4.0, -1.0])], ids=["number", "array"])
def test_debug_nans_looks_into_compiled_functions(name: str, x: Any) -> None:
    f = COMPILED[name]
    assert np.isnan(f(x)).any()
    with bs.debug_nans(), pytest.raises(errors.NaNError, match="`sqrt` made a NaN") as info:
        f(x)
    assert "np.sqrt(x) * 0" in str(info.value)
    assert np.isnan(f(x)).any()  # switched off again


def test_what_debug_nans_runs_gives_the_same() -> None:
    f = bs.jit(lambda x, d: {"y": x * d["k"], "z": np.sum(x)}, donate=0)
    x = np.ones(3)
    with bs.debug_nans():
        got = f(x, {"k": 2.0})
    assert type(got["y"]) is np.ndarray
    np.testing.assert_array_equal(got["y"], 2 * np.ones(3))
    assert got["z"] == 3
    np.testing.assert_array_equal(x, np.ones(3))


SPECIAL = np.array([1.0, 2.0, -0.5, np.inf, -2.0, -np.inf, np.nan, 0.0])


@pytest.mark.parametrize(
    "f",
    [
        np.modf,
        np.gradient,
        lambda x: np.gradient(x, 0.5),
        lambda x: np.logaddexp2(x * 400 - 700, x),
        lambda x: np.isclose(x, x[::-1]),
        lambda x: np.isclose(x, x * (1 + 1e-9), equal_nan=True),
        lambda x: np.isclose(x, x * (1 + 1e-9), rtol=1e-12, atol=0),
        lambda x: np.allclose(x[:3], x[:3] + 1e-12),
        lambda x: np.allclose(x, x),
        lambda x: np.array_equal(x, x),
        lambda x: np.array_equal(x, x, equal_nan=True),
        lambda x: np.array_equal(x, x[:2]),
    ],
)
def test_infinities_and_nan_in_compiled_code(f):
    with np.errstate(all="ignore"):
        found, expected = bs.jit(f)(SPECIAL), f(SPECIAL)
    for y, right in zip(np.atleast_1d(found), np.atleast_1d(expected), strict=True):
        np.testing.assert_allclose(y, right, rtol=1e-14)
