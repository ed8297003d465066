"""`numpy.f(tensor)`: promotion like NumPy's, and an error wherever a derivative would be lost."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import special

import backsolve as bs
from backsolve.primitive import UFUNCS

KINDS: dict[str, Any] = {
    "float32": np.float32([0.5, 0.25]),
    "float64": np.array([0.5, 0.75]),
    "complex64": np.complex64([0.5 + 0.25j, 0.25]),
    "complex128": np.array([0.5 - 1j, 0.5]),
    "int32": np.int32([1, 2]),
    "int64": np.array([2, 1]),
    "uint8": np.uint8([1, 3]),
    "bool": np.array([True, False]),
    "scalar32": np.float32(0.5),
    "scalar64": np.float64(0.5),
}
PYTHON: dict[str, Any] = {"float": 0.5, "int": 2, "truth": True, "complex": 0.5 + 0.5j}
OPERATORS = [
    operator.add,
    operator.sub,
    operator.mul,
    operator.truediv,
    operator.floordiv,
    operator.mod,
    operator.pow,
    operator.and_,
    operator.or_,
    operator.xor,
    operator.lshift,
    operator.rshift,
    operator.lt,
    operator.le,
    operator.gt,
    operator.ge,
    operator.eq,
    operator.ne,
]
UNARY = [u for u in UFUNCS if u.nin == 1 and u.nout == 1]
BINARY = [u for u in UFUNCS if u.nin == 2 and u.nout == 1]


def quietly(f: Callable[..., Any], *args: Any) -> Any:
    """The result, or TypeError (or ValueError) if that is the answer."""
    with np.errstate(all="ignore"):
        try:
            return f(*args)
        except TypeError:
            return TypeError
        except ValueError:
            return ValueError


def assert_agrees(f: Callable[..., Any], args: tuple[Any, ...], wrapped: tuple[Any, ...]) -> None:
    expected = quietly(f, *args)
    got = quietly(f, *wrapped)
    if isinstance(expected, type):
        assert got is expected
        return
    assert isinstance(got, bs.Tensor)
    assert got.dtype == np.asarray(expected).dtype
    assert got.shape == np.shape(expected)
    np.testing.assert_allclose(got.value, expected, rtol=1e-6, equal_nan=True)


@pytest.mark.parametrize("ufunc", UNARY, ids=lambda u: u.__name__)
def test_unary_ufunc_promotes_like_numpy(ufunc: np.ufunc) -> None:
    for x in KINDS.values():
        assert_agrees(ufunc, (x,), (bs.tensor(x),))


@pytest.mark.parametrize("ufunc", BINARY, ids=lambda u: u.__name__)
def test_binary_ufunc_promotes_like_numpy(ufunc: np.ufunc) -> None:
    for x in KINDS.values():
        for y in [*KINDS.values(), *PYTHON.values()]:
            if ufunc is np.power and x.dtype == bool:  # NumPy: ** 2 gives int8, power(_, 2) int64
                continue
            t = bs.tensor(y) if not isinstance(y, bool | int | float | complex) else y
            assert_agrees(ufunc, (x, y), (bs.tensor(x), y))
            assert_agrees(ufunc, (y, x), (y, bs.tensor(x)))
            assert_agrees(ufunc, (y, x), (t, bs.tensor(x)))


@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: op.__name__)
def test_operator_promotes_like_numpy(op: Callable[..., Any]) -> None:
    for x in KINDS.values():
        for y in [*KINDS.values(), *PYTHON.values()]:
            assert_agrees(op, (x, y), (bs.tensor(x), y))
            assert_agrees(op, (y, x), (y, bs.tensor(x)))
            if not isinstance(y, bool | int | float | complex):
                assert_agrees(op, (x, y), (bs.tensor(x), bs.tensor(y)))


@pytest.mark.parametrize("op", OPERATORS[:12], ids=lambda op: op.__name__)
def test_promotion_is_the_same_while_staged(op: Callable[..., Any]) -> None:
    for x in KINDS.values():
        for y in [*KINDS.values(), *PYTHON.values()]:
            expected = quietly(op, x, y)
            batch = np.stack([x, x])
            got = quietly(bs.vmap(lambda x, y=y: op(x, y)), batch)
            if isinstance(expected, type):
                assert got is expected
            else:
                assert got.dtype == np.asarray(expected).dtype


# ---- derivatives of ufuncs, at points inside their domains

UNIT = {"arcsin", "arccos", "arctanh", "erfinv", "logit"}
ABOVE_ONE = {"arccosh"}
SMOOTH_UNARY = [u for u in UNARY if getattr(quietly(u, 0.5), "dtype", np.dtype(int)).kind == "f"]


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("ufunc", SMOOTH_UNARY, ids=lambda u: u.__name__)
def test_unary_ufunc_derivatives(ufunc: np.ufunc) -> None:
    x = np.array([0.3, 0.55, 0.8])
    x = x + 1 if ufunc.__name__ in ABOVE_ONE else x if ufunc.__name__ in UNIT else 2 * x + 0.05
    points = x if ufunc.__name__ in UNIT | ABOVE_ONE else np.concatenate([x, -x])
    points = points[np.isfinite(ufunc(points))]
    h = 1e-6
    first = bs.grad(lambda x: ufunc(x).sum())
    np.testing.assert_allclose(
        first(points), (ufunc(points + h) - ufunc(points - h)) / (2 * h), rtol=1e-6
    )
    second = bs.jvp(first, [points], [np.ones_like(points)])[1]
    np.testing.assert_allclose(
        second, (first(points + h) - first(points - h)) / (2 * h), rtol=1e-5, atol=1e-7
    )


SMOOTH_BINARY = [
    u for u in BINARY if getattr(quietly(u, 1.5, 2.5), "dtype", np.dtype(int)).kind == "f"
]


@pytest.mark.parametrize("ufunc", SMOOTH_BINARY, ids=lambda u: u.__name__)
def test_binary_ufunc_derivatives(ufunc: np.ufunc) -> None:
    a, b = np.array([[0.6], [1.7]]), np.array([0.35, 0.9, 2.2])
    h = 1e-6
    da, db = bs.grad(lambda a, b: ufunc(a, b).sum(), (0, 1))(a, b)
    by_a = (ufunc(a + h, b) - ufunc(a - h, b)) / (2 * h)
    by_b = (ufunc(a, b + h) - ufunc(a, b - h)) / (2 * h)
    np.testing.assert_allclose(da, by_a.sum(1, keepdims=True), rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(db, by_b.sum(0), rtol=1e-6, atol=1e-7)


def test_sinc_at_zero() -> None:
    """sin(πx)/(πx) = 1 − (πx)²/6 + (πx)⁴/120 − …"""
    f = np.sinc
    derivatives = [1.0, 0.0, -(np.pi**2) / 3, 0.0, np.pi**4 / 5]
    for expected in derivatives:
        np.testing.assert_allclose(f(0.0), expected, atol=1e-12)
        f = bs.grad(f)
    x = np.array([1e-9, -1e-5, 0.0317, 0.0319])  # on both sides of where the series takes over
    t = np.pi * x
    # −(t² sin t + 2 t cos t − 2 sin t)/t³ loses all digits near 0; its own series does not
    second = -(np.pi**2) * (1 / 3 - t**2 / 10 + t**4 / 168 - t**6 / 6480)
    np.testing.assert_allclose(
        np.diag(bs.jacobian(bs.grad(lambda x: np.sinc(x).sum()))(x)), second, rtol=1e-9
    )


def test_rounding_does_not_vary() -> None:
    for f in (np.round, np.floor, np.ceil, np.trunc, np.rint, np.sign, lambda x: np.round(x, 2)):
        assert bs.grad(lambda x, f=f: f(x) * x)(1.3) == f(1.3)


# ---- what would lose a derivative


DROPS: dict[str, Callable[[Any, Any], Any]] = {
    "float": lambda x, a: float(x[0]),
    "int": lambda x, a: int(x[0]),
    "complex": lambda x, a: complex(x[0]),
    "math": lambda x, a: math.sin(x[0]),
    "item": lambda x, a: x[0].item(),
    "tolist": lambda x, a: x.tolist(),
    "asarray": lambda x, a: np.asarray(x),
    "array": lambda x, a: np.array(x),
    "array of a list": lambda x, a: np.array([x[0], x[1]]),
    "array of a mixed list": lambda x, a: np.array([1.0, x[0]]),
    "array of rows": lambda x, a: np.array([x, x]),
    "float64": lambda x, a: np.float64(x[0]),
    "sum of a list": lambda x, a: np.sum([x[0], x[1]]),
    "full": lambda x, a: np.full(2, x[0]),
    "setting a slice": lambda x, a: operator.setitem(a, slice(None), x),
    "adding in place": lambda x, a: operator.iadd(a, x),
    "multiplying in place": lambda x, a: operator.imul(a, x),
    "adding a part in place": lambda x, a: operator.iadd(a[:1], x[:1]),
    "out": lambda x, a: np.add(x, 1.0, out=a),
    "out of a reduction": lambda x, a: np.sum(x, out=np.zeros(())),
    "out of a product": lambda x, a: np.matmul(np.eye(2), x, out=a),
    "add.at": lambda x, a: np.add.at(a, [0, 1], x),
    "copyto": lambda x, a: np.copyto(a, x),
    "put": lambda x, a: np.put(a, [0], x[0]),
    "putmask": lambda x, a: np.putmask(a, a > 0, x),
    "place": lambda x, a: np.place(a, a > 0, x),
    "fill_diagonal": lambda x, a: np.fill_diagonal(np.eye(2), x),
    "fill": lambda x, a: a.put([0], x[0]),
    "unknown function": lambda x, a: np.may_share_memory(x, a),
    "unknown ufunc": lambda x, a: special.mathieu_a(1, x),
    "unknown method of a ufunc": lambda x, a: np.arctan2.accumulate(x),
    "random": lambda x, a: np.random.default_rng(0).normal(x),
}


@pytest.mark.parametrize("drop", DROPS.values(), ids=DROPS)
def test_dropping_a_derivative_is_an_error(drop: Callable[[Any, Any], Any]) -> None:
    a = np.ones(2)

    def f(x: Any) -> Any:
        drop(x * 2.0, a)
        return x.sum()

    joins = [DROPS[name] for name in ("asarray", "array", *[n for n in DROPS if "array of" in n])]
    if drop in joins:  # functions that join tensors so are rewritten, and nothing is lost
        np.testing.assert_array_equal(bs.grad(f)(np.array([1.0, 2.0])), 1.0)
    else:
        with pytest.raises(TypeError, match=r"derivative(.|\n)*test_protocols\.py:\d+"):
            bs.grad(f)(np.array([1.0, 2.0]))
    np.testing.assert_array_equal(a, 1.0)
    rewritten = [*joins, *[DROPS[name] for name in ("float", "int", "math", "full")]]
    if drop in rewritten:  # the value stays a staged one
        np.testing.assert_array_equal(bs.vmap(f)(np.array([[1.0, 2.0]])), [3.0])
        return
    with pytest.raises(TypeError):
        bs.vmap(f)(np.array([[1.0, 2.0]]))


@pytest.mark.parametrize("store", [lambda a, x: operator.setitem(a, 0, x), lambda a, x: a.fill(x)])
def test_storing_a_tensor_in_an_array(store: Callable[[Any, Any], Any]) -> None:
    """NumPy words the error itself, and shows ours as its cause."""
    x = bs.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises((ValueError, TypeError)) as caught:
        store(np.zeros(2), x[0])
    cause = caught.value.__cause__ or caught.value
    assert "derivative" in str(cause)
    assert "bs.tensor" in str(cause)


def test_constants_may_leave() -> None:
    x = bs.tensor([1.0, 2.0])
    assert float(x[0]) == 1.0
    assert math.sin(x[0]) == math.sin(1.0)
    np.testing.assert_array_equal(np.asarray(x), [1.0, 2.0])
    np.testing.assert_array_equal(np.array([x[0], x[1]]), [1.0, 2.0])
    unique = np.unique(x)
    assert isinstance(unique, bs.Tensor)
    assert [10, 20, 30][bs.tensor(2)] == 30
    view = np.asarray(x)
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 9.0
    own = np.array(x)
    own[0] = 9.0
    assert x.value[0] == 1.0


# ---- writing into tensors by NumPy's functions

WRITES: dict[str, Callable[[Any, Any], Any]] = {
    "add out": lambda x, v: np.add(x, v, out=x),
    "sum out": lambda x, v: np.sum(np.stack([x, v]), axis=0, out=x),
    "copyto": lambda x, v: np.copyto(x, v),
    "copyto where": lambda x, v: np.copyto(x, v, where=[True, False, True]),
    "copyto one": lambda x, v: np.copyto(x, v[1]),
    "put": lambda x, v: np.put(x, [2, 0], v[:2]),
    "put one": lambda x, v: np.put(x, [2, 0], v[0]),
    "put wrapped": lambda x, v: np.put(x, [5, -7], v[:2], mode="wrap"),
    "putmask": lambda x, v: np.putmask(x, np.array([True, False, True]), v),
    "place": lambda x, v: np.place(x, np.array([True, False, True]), v),
    "put_along_axis": lambda x, v: np.put_along_axis(x, np.array([2, 1]), v[:2], 0),
    "multiply.at": lambda x, v: np.multiply.at(x, [2, 0], v[:2]),
    "negative.at": lambda x, v: np.negative.at(x, [1]),
    "divmod out": lambda x, v: np.modf(v * x, out=(x, None)),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_writing_functions(write: Callable[[Any, Any], Any]) -> None:
    x, v = np.array([1.25, 2.5, 3.75]), np.array([0.5, -1.5, 2.25])

    def f(x: Any, v: Any) -> Any:
        y = x * 1.0
        write(y, v)
        return y

    expected = f(x, v)
    got, image = bs.jvp(f, [x, v], [v, x])
    np.testing.assert_array_equal(got, expected)
    h = 1e-6
    np.testing.assert_allclose(
        image, (f(x + h * v, v + h * x) - f(x - h * v, v - h * x)) / (2 * h), atol=1e-6
    )


def test_fill_diagonal() -> None:
    def f(v: Any) -> Any:
        x = bs.numpy.full((3, 3), v[0])
        np.fill_diagonal(x, v)
        return x

    expected = np.full((3, 3), 1.0)
    np.fill_diagonal(expected, [1.0, 2.0, 3.0])
    v = np.array([1.0, 2.0, 3.0])
    got, pull = bs.vjp(f, v)
    np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(pull(np.ones((3, 3)))[0], [7.0, 1.0, 1.0])


def test_repeated_places_of_another_ufunc() -> None:
    with pytest.raises(TypeError, match=r"multiply\.at.*distinct"):
        np.multiply.at(bs.tensor([1.0, 2.0]), [0, 0], 3.0)


# ---- the namespace


def test_namespace_is_numpy_with_more() -> None:
    bnp = bs.numpy
    assert bnp.pi == np.pi
    assert bnp.sin is np.sin
    assert {"sum", "logsumexp", "erf", "float32"} <= set(dir(bnp))
    with pytest.raises(AttributeError):
        bnp.getitem  # noqa: B018
    with pytest.raises(AttributeError):
        bnp.no_such_function  # noqa: B018
    x = np.array([1.0, 2.0, 3.0])
    assert type(bnp.logsumexp(x)) is np.float64
    np.testing.assert_allclose(bnp.logsumexp(x), special.logsumexp(x))
    np.testing.assert_allclose(bnp.logsumexp(x, b=x), special.logsumexp(x, b=x))
    np.testing.assert_array_equal(bnp.erf(x), special.erf(x))


def test_array_of_tensors() -> None:
    def f(x: Any) -> Any:
        return bs.numpy.array([[x[0], 1.0], [x[1] * x[0], x[2]]])

    x = np.array([2.0, 3.0, 5.0])
    got, image = bs.jvp(f, [x], [np.array([1.0, 10.0, 100.0])])
    np.testing.assert_array_equal(got, [[2.0, 1.0], [6.0, 5.0]])
    np.testing.assert_array_equal(image, [[1.0, 0.0], [23.0, 100.0]])
    assert bs.numpy.array([1, 2]).dtype == np.int64
    assert bs.numpy.asarray(bs.tensor([1.0]), dtype=np.float32).dtype == np.float32
    full = bs.numpy.full((2, 2), bs.tensor(1.5))
    np.testing.assert_array_equal(full.value, np.full((2, 2), 1.5))


def test_dtypes_of_tensors() -> None:
    x = bs.tensor(np.float32([1.0]), requires_grad=True)
    assert np.result_type(x, 1.0) == np.float32
    assert np.result_type(x, np.float64) == np.float64
    assert np.can_cast(x, np.float64)


WRONG: dict[str, tuple[Callable[[Any], Any], type[Exception], str]] = {
    "axis": (lambda x: np.sum(x, axis=2), np.exceptions.AxisError, r"`sum`.*axis=2.*rank 2"),
    "repeated axis": (lambda x: np.sum(x, axis=(0, 0)), ValueError, r"`sum`.*\(0, 0\)"),
    "axis of a method": (lambda x: x.mean(axis=-3), IndexError, r"`mean`.*axis=-3"),
    "axis of cumsum": (lambda x: np.cumsum(x, axis=5), np.exceptions.AxisError, r"`cumsum`"),
    "sizes": (lambda x: x + np.ones(3), ValueError, r"`add`.*\(3, 4\) and \(3,\)"),
    "matmul": (lambda x: x @ np.ones(3), ValueError, r"`matmul`.*\(3, 4\) and \(3,\)"),
    "matmul of numbers": (lambda x: x @ 2.0, ValueError, r"`matmul`.*`\*`"),
    "reshape": (lambda x: x.reshape(5), ValueError, r"`reshape`.*\(3, 4\).*\(5,\)"),
    "reshape twice": (lambda x: x.reshape(-1, -1), ValueError, r"`reshape`"),
    "squeeze": (lambda x: np.squeeze(x, 0), ValueError, r"`squeeze`.*\(3, 4\)"),
    "transpose": (lambda x: np.transpose(x, (0, 0)), ValueError, r"`transpose`"),
    "concatenate": (lambda x: np.concatenate([x, x.T]), ValueError, r"`concatenate`.*\(4, 3\)"),
    "stack": (lambda x: np.stack([x, x.T]), ValueError, r"`stack`.*\(4, 3\)"),
    "split": (lambda x: np.split(x, 2), ValueError, r"`split`.*array_split"),
    "broadcast_to": (lambda x: np.broadcast_to(x, (2, 4)), ValueError, r"`broadcast_to`.*\(3, 4\)"),
    "max of nothing": (lambda x: np.max(x[:0]), ValueError, r"`max`.*\(0, 4\)"),
    "einsum labels": (lambda x: np.einsum("ijk->i", x), ValueError, r"einsum.*'ijk'.*\(3, 4\)"),
    "einsum sizes": (lambda x: np.einsum("ij,ij->", x, x.T), ValueError, r"'i'|ij"),
    "einsum output": (lambda x: np.einsum("ij->k", x), ValueError, r"einsum 'ij->k'.*output"),
    "einsum diagonal": (lambda x: np.einsum("ij->ii", x), ValueError, r"einsum 'ij->ii'.*once"),
    "text": (lambda x: x.astype(str), TypeError, r"`astype`.*U"),
    "tensordot": (lambda x: np.tensordot(x, x, 1), ValueError, r"`?tensordot`?.*\(3, 4\)"),
    "cross": (lambda x: np.cross(x, x), ValueError, r"`cross`.*\(3, 4\)"),
    "bits": (lambda x: x & 1, TypeError, r"`bitwise_and`.*float64"),
    "option": (lambda x: np.add(x, x, where=x.value > 0), TypeError, r"`numpy\.add`.*where"),
}  # fmt: skip


@pytest.mark.parametrize(("f", "kind", "message"), WRONG.values(), ids=WRONG)
def test_errors_name_the_function_and_the_line(f: Any, kind: type[Exception], message: str) -> None:
    x = bs.tensor(np.ones((3, 4)), requires_grad=True)
    with pytest.raises(kind, match=message) as caught:
        f(x)
    assert isinstance(caught.value, bs.errors.BacksolveError)
    assert "test_protocols.py:" in str(caught.value)
