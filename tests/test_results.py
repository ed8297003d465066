"""What a function gives back: results that nobody can look into, names beside numbers, dtypes of Jacobians."""

from __future__ import annotations

import functools
from collections import UserList, deque
from collections.abc import Callable
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import backsolve as bs
from backsolve.errors import (
    DTypeError,
    NotDifferentiableError,
    StaticArgumentError,
    UnsupportedError,
)

X = np.array([0.3, 1.2, -0.7])
METHODS = ("auto", "forward", "reverse", "eliminate", "colour", "measured")
cube = bs.jacobian(lambda y: y**3, sparse=True)


def beside(f: Any) -> Any:
    return bs.grad(lambda x: (f(x), x.sum())[1])(X)


class Box:
    def __init__(self, x: Any):
        self.x = x

    def __call__(self) -> Any:
        return self.x


OPAQUE: dict[str, Callable[[Any], Any]] = {
    "SimpleNamespace": lambda x: SimpleNamespace(a=x * 2),
    "generator": lambda x: (v * 2 for v in x),
    "map": lambda x: map(np.sin, x),
    "set": lambda x: {x[0] * 2},
    "frozenset": lambda x: frozenset([x[0] * 2]),
    "dict_values": lambda x: {"a": x * 2}.values(),
    "deque": lambda x: deque([x * 2]),
    "UserList": lambda x: UserList([x * 2]),
    "Box": lambda x: {"good": x * 2, "odd": Box(x * 2)},
    "function": lambda x: lambda y: x * y,
    "partial": lambda x: functools.partial(np.add, x),
    "VaryingCsr is a sparse matrix.*toarray": cube,
    "VaryingCsr": lambda x: (x * 2, cube(x)),
}
WAYS: dict[str, Callable[[Any], Any]] = {
    **{m: lambda f, m=m: bs.jacobian(f, method=m)(X) for m in METHODS},
    "sparse": lambda f: bs.jacobian(f, sparse=True)(X),
    "sparsity": lambda f: bs.sparsity(f, X),
    "jit": lambda f: bs.jit(bs.jacobian(f))(X),
    "vmap": lambda f: bs.vmap(bs.jacobian(f))(np.stack([X, X])),
    "linearize": lambda f: bs.linearize(f)(X),
    "jvp": lambda f: bs.jvp(f, (X,), (X,)),
    "vjp": lambda f: bs.vjp(f, X),
    "jet": lambda f: bs.jet(f, (X,), [[X]]),
    "checkpoint": lambda f: beside(bs.checkpoint(f)),
    "checkpoint of steps": lambda f: beside(bs.checkpoint([f, id], memory="1MB")),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", OPAQUE)
def test_a_result_that_nobody_looks_into_is_an_error(way: str, kind: str) -> None:
    with pytest.raises(DTypeError, match=kind):
        WAYS[way](OPAQUE[kind])


def test_a_checkpoint_within_a_budget_keeps_what_an_object_holds() -> None:
    f = bs.checkpoint(OPAQUE["SimpleNamespace"], memory="1MB")
    np.testing.assert_array_equal(bs.grad(lambda x: f(x).a.sum())(X), [2, 2, 2])


def test_what_has_aux_hands_out_inside_of_an_object_has_its_derivative() -> None:
    def outer(x: Any) -> Any:
        inner = bs.grad(lambda y: ((y**2).sum(), SimpleNamespace(a=y**3)), has_aux=True)
        return inner(x)[1].a.sum()

    np.testing.assert_allclose(bs.grad(outer)(X), 3 * X**2)


ALONE: dict[str, tuple[Any, str]] = {
    "text": ("yes", "a result of type str"),
    "texts": (("a", "b"), "a result of type str"),
    "array of texts": (np.array(["a", "b"]), "a result of type ndarray"),
    "function": (np.sin, "a result of type ufunc"),
    "type": (float, "a result of type type"),
    "date": (np.datetime64("2020-01-01"), "a result of type datetime64"),
}


@pytest.mark.parametrize("way", [w for w in WAYS if "checkpoint" not in w])
@pytest.mark.parametrize("kind", ALONE)
def test_what_is_no_number_has_no_derivative(way: str, kind: str) -> None:
    result, got = ALONE[kind]
    with pytest.raises(NotDifferentiableError, match=f"needs a function whose.*{got}"):
        WAYS[way](lambda x: result)


def test_of_nothing_the_derivative_is_nothing() -> None:
    for nothing in ((), [], {}):
        assert bs.jacobian(lambda x, y=nothing: y)(X) == nothing
        assert bs.jit(bs.jacobian(lambda x, y=nothing: y))(X) == nothing
        y, back = bs.vjp(lambda x, y=nothing: y, X)
        assert y == nothing
        assert not np.any(back(nothing)[0])


def test_what_a_compiled_function_gives_is_no_number_either() -> None:
    for result in ("yes", np.sin, np.datetime64("2020-01-01")):
        with pytest.raises(NotDifferentiableError, match="needs a function whose results"):
            bs.jacobian(bs.jit(lambda x, y=result: y))(X)


NO_NUMBERS: dict[str, tuple[Any, ...]] = {
    "names": ("a", None, b"a", float, np.dtype(float)),
    "functions": (np.tanh, lambda t: t, functools.partial(np.sum, axis=0), Box(1.0)),
    "numbers": (True, 3, 10**30, Fraction(1, 2), np.float32(1), np.array(["a", "b"])),
    "sparse": (scipy.sparse.csr_array(np.eye(3)), scipy.sparse.coo_array(np.eye(2))),
}


@pytest.mark.parametrize("kind", NO_NUMBERS)
@pytest.mark.parametrize("method", METHODS)
def test_constants_beside_a_result_have_zeros(method: str, kind: str) -> None:
    f = lambda x: {"constant": NO_NUMBERS[kind], "x": x * 2}
    found = bs.jacobian(f, method=method)(X)
    np.testing.assert_array_equal(found["x"], 2 * np.eye(3))
    for y, J in zip(NO_NUMBERS[kind], found["constant"], strict=True):
        if y is not None:
            assert J.shape == (*np.shape(y), 3) if not scipy.sparse.issparse(y) else (*y.shape, 3)
            assert J.dtype == X.dtype
            assert not J.any()
    assert bs.jacobian(f, sparse=True)(X)["x"].nnz == 3
    np.testing.assert_array_equal(bs.linearize(f)(X).jacobian(method)["x"], 2 * np.eye(3))
    np.testing.assert_array_equal(bs.jvp(f, (X,), (X,))[1]["x"], 2 * X)


@pytest.mark.parametrize("method", METHODS)
def test_booleans_and_integers_have_zeros_of_the_argument(method: str) -> None:
    found = bs.jacobian(lambda x: (x > 0, np.argsort(x), x), method=method)(X)
    assert [J.dtype for J in found] == [X.dtype] * 3
    np.testing.assert_array_equal(np.stack(found), [np.zeros((3, 3))] * 2 + [np.eye(3)])


ARGUMENTS: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "wider": (lambda x: x * np.arange(3.0), np.ones(3, np.float32)),
    "narrower": (lambda x: x.astype(np.float32) * 2, np.ones(3)),
    "half": (lambda x: x * np.arange(3.0), np.ones(3, np.float16)),
    "scalar": (lambda x: (x * np.arange(3.0)).sum(), np.float32(2)),
    "number": (lambda x: x * np.arange(3, dtype=np.float32), 2.0),
    "tensor": (lambda x: x * np.arange(3.0), bs.tensor(np.ones(3, np.float32))),
    "dict": (
        lambda d: (d["a"] * np.arange(3.0), d["b"].astype(np.float32) * d["a"]),
        {"a": np.ones(3, np.float32), "b": np.ones(3)},
    ),
}


@pytest.mark.parametrize("name", ARGUMENTS)
@pytest.mark.parametrize("method", METHODS)
def test_a_jacobian_has_the_dtype_of_its_argument(method: str, name: str) -> None:
    f, x = ARGUMENTS[name]
    leaves = bs.tree.flatten(x)[0]
    dtypes = [getattr(leaf, "dtype", np.dtype(float)) for leaf in leaves]
    system = lambda x: bs.linearize(f)(x).jacobian(method)
    for way in (bs.jacobian(f, method=method), system):
        for run in (way, bs.jit(way)):
            found = bs.tree.flatten(run(x))[0]
            assert [J.dtype for J in found] == dtypes * (len(found) // len(dtypes))
    if name not in ("tensor", "number"):
        several = bs.tree.map(lambda leaf: np.stack([leaf, leaf]), x)
        found = bs.tree.flatten(bs.vmap(bs.jacobian(f, method=method))(several))[0]
        assert [J.dtype for J in found] == dtypes * (len(found) // len(dtypes))


def test_a_slice_is_an_argument_of_a_sparse_jacobian() -> None:
    f = lambda x, part: x[part] ** 2
    J = bs.jacobian(f, sparse=True)
    for part in (slice(0, 2), slice(1, 3), slice(0, 2)):
        np.testing.assert_array_equal(J(X, part).toarray(), bs.jacobian(f)(X, part))
    plan = bs.sparsity(f, X, slice(0, 2))
    assert bs.jacobian(f, sparse=plan)(X, slice(0, 2)).shape == (2, 3)


class Unhashable:
    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize("argument", [{1}, bytearray(b"a"), Unhashable(), slice(X, None)])
def test_an_argument_of_no_hash_cannot_be_planned_for(argument: Any) -> None:
    with pytest.raises(StaticArgumentError, match="hashable"):
        bs.jacobian(lambda x, a: x**2, sparse=True)(X, argument)


PLAIN: Any = scipy.sparse.csr_array(np.eye(3))
USES: dict[str, Callable[[Any], Any]] = {
    "A + A": lambda A: A + A,
    "plain + A": lambda A: PLAIN + A,
    "plain - A": lambda A: PLAIN - A,
    "A * dense": lambda A: A.multiply(np.eye(3)),
    "A * number": lambda A: 2.0 * A,
    "plain * A": lambda A: PLAIN.multiply(A),
    "plain @ A": lambda A: PLAIN @ A,
    **{
        f"{kind} @ A": lambda A, kind=kind: PLAIN.asformat(kind) @ A
        for kind in ("dia", "coo", "csc", "lil")
    },
    "csr_array(A)": lambda A: scipy.sparse.csr_array(A),
    "eliminate_zeros": lambda A: A.eliminate_zeros(),
}


@pytest.mark.parametrize("within", [bs.jit, bs.grad])
@pytest.mark.parametrize("use", USES)
def test_scipys_algebra_of_varying_matrices_says_what_to_write(within: Any, use: str) -> None:
    with pytest.raises(UnsupportedError, match=r"write A\.toarray\(\)"):
        within(lambda x: (USES[use](cube(x)), x.sum())[1])(X)


def test_a_branch_that_gives_one_says_so() -> None:
    with pytest.raises(UnsupportedError, match=r"write A\.toarray\(\)"):
        bs.jit(lambda x: bs.cond(x[0] > 0, cube, cube, x).data)(X)


@pytest.mark.parametrize("of", [bs.jacobian, bs.hessian])
def test_a_method_is_of_dense_matrices(of: Any) -> None:
    f = lambda x: (x**3).sum()
    assert of(f, method="auto", sparse=True)(X).shape
    with pytest.raises(ValueError, match="method must be one of"):
        of(f, method="nonsense", sparse=True)
    with pytest.raises(ValueError, match="leave it out"):
        of(f, method="reverse", sparse=True)
    with pytest.raises(ValueError, match="an order is for"):
        of(f, order="reverse", sparse=True)
