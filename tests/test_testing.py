"""The checks of backsolve.testing find what is wrong, and say where."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve.ir import Type
from backsolve.operators import Cost, Custom, Diagonal, Identity, Mask, Operator, Scale
from backsolve.primitive import PRIMITIVES, P, primitive
from backsolve.primitives.elementwise import unary
from backsolve.testing import Case, CheckError, cases, check_grads, check_operator, check_primitive

X = np.array([0.5, -1.5, 2.0])


# ---- check_grads


class Bent(bs.Function):
    """sin, with a wrong derivative in reverse mode and the right one in forward mode."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return np.sin(x)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 1.01 * np.cos(x) * g

    @staticmethod
    def jvp(ctx: Any, t: Any) -> Any:
        (x,) = ctx.saved_tensors
        return np.cos(x) * t


class Flat(Bent):
    """sin, with the derivative of the derivative lost."""

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return bs.stop_gradient(np.cos(x)) * g

    @staticmethod
    def jvp(ctx: Any, t: Any) -> Any:
        (x,) = ctx.saved_tensors
        return bs.stop_gradient(np.cos(x)) * t


Pair = namedtuple("Pair", "left right")


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_right_derivatives_pass(dtype: str) -> None:
    x = X.astype(dtype)
    check_grads(lambda x: np.sin(x) * x, [x])
    check_grads(lambda x: np.sum(np.conj(x) * x), [x])


def test_third_order_passes() -> None:
    check_grads(lambda x, y: np.tanh(x) * y**3, [X, 2.0], order=3)


def test_containers_and_several_results() -> None:
    args = [{"w": X, "n": 3, "name": "layer"}, Pair(2.0, [X, None])]

    def f(p: Any, q: Any) -> Any:
        return {"a": p["w"] ** p["n"] * q.left, "b": [np.sum(q.right[0]), 7, p["name"]]}

    check_grads(f, args)


def test_single_precision_inside() -> None:
    check_grads(lambda x: np.sin(x.astype(np.float32)), [X], order=1)
    hidden = lambda x: np.sin(x.astype(np.float32)).astype(float)
    with pytest.raises(CheckError, match="the central difference"):
        check_grads(hidden, [X])
    check_grads(hidden, [X], order=1, eps=5e-3, rtol=1e-2)


def test_a_wrong_reverse_mode_is_found() -> None:
    with pytest.raises(CheckError, match=r"order 1, reverse mode, argument 0: expected .* got"):
        check_grads(Bent.apply, [X])
    check_grads(Bent.apply, [X], order=1, modes=["forward"])
    with pytest.raises(CheckError, match="order 1, reverse mode"):
        check_grads(Bent.apply, [X], modes=["reverse"])


def test_a_wrong_second_order_is_found() -> None:
    check_grads(Flat.apply, [X], order=1)
    with pytest.raises(CheckError, match=r"order 2, forward over forward, argument 0: expected"):
        check_grads(Flat.apply, [X], order=2)
    with pytest.raises(CheckError, match=r"order 2, reverse over reverse, argument 0: expected"):
        check_grads(Flat.apply, [X], order=2, modes=["reverse"])


def test_the_argument_is_named() -> None:
    with pytest.raises(CheckError, match=r"argument 1\['w'\]\[0\]"):
        check_grads(lambda x, p: x * bs.stop_gradient(p["w"][0]), [X, {"w": (X,)}])


def test_a_lost_derivative_is_found_in_single_precision() -> None:
    with pytest.raises(CheckError, match="forward mode"):
        check_grads(lambda x: bs.stop_gradient(x) * x, [X.astype(np.float32)])


def test_a_small_error_is_found() -> None:
    with pytest.raises(CheckError, match="forward mode"):
        check_grads(lambda x: x + 1e-4 * bs.stop_gradient(x), [X])
    check_grads(lambda x: x + 1e-4 * bs.stop_gradient(x), [X], order=1, rtol=1e-2)


def test_wrong_calls() -> None:
    with pytest.raises(ValueError, match="nothing varies"):
        check_grads(lambda n: n, [3])
    with pytest.raises(ValueError, match="modes are"):
        check_grads(np.sin, [1.0], modes=["sideways"])


# ---- check_operator

V = Type((3,), np.dtype(float))


def broken(apply: Any = lambda t: 2 * t, adjoint: Any = lambda t: 2 * t, **fields: Any) -> Operator:
    """An operator on vectors of length 3 that lies about one thing."""
    kind = type("Broken", (Custom,), {"__slots__": (), **fields})
    return kind(apply, adjoint, V, V, "Broken")


@pytest.mark.parametrize(
    ("op", "message"),
    [
        (broken(adjoint=lambda t: 3 * t), r"⟨A u, v⟩"),
        (broken(lambda t: t * t), "linearity"),
        (broken(lambda t: t + 1), "linearity"),
        (broken(lambda t: np.sum(t)), "out_type says"),
        (broken(lambda t: t.astype(np.float32)), "out_type says"),
        (broken(structure=frozenset(["identity"])), "claims to be identity"),
        (broken(structure=frozenset(["permutation"])), "claims to be permutation"),
        (broken(structure=frozenset(["orthogonal"])), "claims to be orthogonal"),
        (broken(structure=frozenset(["selection"])), "claims to be selection"),
        (broken(structure=frozenset(["zero"])), "claims to be zero"),
        (broken(structure=frozenset(["shiny"])), "unknown facts"),
        (broken(np.cumsum, lambda t: np.cumsum(t[::-1])[::-1],
                structure=frozenset(["diagonal"])), "claims to be diagonal"),
        (broken(np.cumsum, lambda t: np.cumsum(t[::-1])[::-1],
                structure=frozenset(["symmetric"])), "claims to be symmetric"),
        (broken(cost=Cost(-1)), "negative cost"),
        (broken(dense=lambda self: np.eye(3)), r"dense\(\)"),
        (broken(dense=lambda self: np.eye(2)), r"dense\(\) has shape"),
        (broken(pull=lambda self, t: t), "pull"),
        (broken(apply_add=lambda self, y, t: y), "apply_add"),
        (broken(support=lambda self, mask: np.zeros(3, bool)), "support"),
        (broken(__repr__=lambda self: ""), "repr"),
        (Scale(2.0), "does not know its types"),
        (Identity(), "does not know its types"),
    ],
)  # fmt: skip
def test_a_broken_operator_is_found(op: Operator, message: str) -> None:
    with pytest.raises(CheckError, match=message):
        check_operator(op)


def test_a_missing_conjugation_is_found() -> None:
    d = np.array([1 + 2j, 3j])
    t = Type((2,), np.dtype(complex))
    check_operator(Custom(lambda x: d * x, lambda x: d.conj() * x, t, t))
    with pytest.raises(CheckError, match="⟨A u, v⟩"):
        check_operator(Custom(lambda x: d * x, lambda x: d * x, t, t))


def test_right_operators_pass() -> None:
    check_operator(broken())
    check_operator(Mask(np.array([True, False, True]), V))


# ---- check_primitive


@pytest.fixture
def table() -> Iterator[None]:
    """A registry that forgets what a test adds."""
    before, names = dict(PRIMITIVES), dict(vars(P))
    yield
    for name in set(PRIMITIVES) - set(before):
        del PRIMITIVES[name]
    for name in set(vars(P)) - set(names):
        delattr(P, name)


def sample(prim: Any, reference: Any, *args: Any, **params: Any) -> Case:
    return Case(prim, "float64", "", lambda rng: list(args), params, reference)


@pytest.mark.usefixtures("table")
def test_a_row_with_a_wrong_block_is_found() -> None:
    cube = unary("bent_cube", lambda a: Diagonal(2 * a * a), lambda a: a * a * a)
    with pytest.raises(CheckError, match=r"bent_cube float64 .*order 1, forward mode"):
        check_primitive(cube, [sample(cube, lambda a: a**3, X)])
    right = unary("right_cube", lambda a: Diagonal(3 * a * a), lambda a: a * a * a)
    check_primitive(right, [sample(right, lambda a: a**3, X)])


@pytest.mark.usefixtures("table")
def test_a_row_with_a_wrong_value_is_found() -> None:
    cube = unary("bent_cube", lambda a: Diagonal(3 * a * a), lambda a: a * a * a)
    with pytest.raises(CheckError, match="the reference"):
        check_primitive(cube, [sample(cube, lambda a: a**2, X)])


@pytest.mark.usefixtures("table")
def test_a_row_with_a_wrong_type_is_found() -> None:
    half = primitive(
        "short_half", lambda a: a[::2], blocks=(None,), type=lambda a: Type((1,), a.dtype)
    )
    with pytest.raises(CheckError, match=r"the type rule says float64\[1\]"):
        check_primitive(half, [sample(half, lambda a: a[::2], X)])


@pytest.mark.usefixtures("table")
def test_a_row_with_a_wrong_batching_rule_is_found() -> None:
    def batch(prim: Any, size: int, args: Any, batched: Any, params: Any) -> Any:
        return np.flip(prim(*args), 0)

    double = primitive(
        "flipped_double", lambda a: 2 * a, blocks=(Scale(2.0),), type=lambda a: a, batch=batch
    )
    case = Case(double, "float64", "", lambda rng: [rng.standard_normal(3)], {}, lambda a: a + a)
    with pytest.raises(CheckError, match="batched over arguments"):
        check_primitive(double, [case])


@pytest.mark.usefixtures("table")
def test_a_row_without_samples_fails_loudly() -> None:
    unary("unknown_row", lambda a: Diagonal(a), lambda a: a)
    with pytest.raises(LookupError, match="no reference for the row 'unknown_row'"):
        check_primitive("unknown_row")
    primitive("hanning", lambda a: a, blocks=(Identity(),))
    with pytest.raises(LookupError, match="no samples for the row 'hanning'"):
        check_primitive("hanning")


def test_a_row_outside_its_domain_is_found() -> None:
    case = sample(P.log, np.log, np.array([-1.0]))
    with pytest.raises((CheckError, FloatingPointError), match=r"domain|invalid"):
        check_primitive(P.log, [case])


def test_every_sample_has_its_own_name() -> None:
    names = [str(case) for case in cases("multiply")]
    assert len(names) == len(set(names))
    assert any("(2, 1)×(3,)" in name for name in names)


class Twin:
    def __init__(self, a: Any, b: Any):
        self.a, self.b = a, b


bs.tree.register(
    Twin, lambda p: (("a", "pair", "of", "names"), (p.a, p.b)), lambda _, xs: Twin(*xs)
)


def test_containers_of_ones_own_are_checked() -> None:
    """What such a one says about itself need not be names of its entries."""
    check_grads(lambda p: np.sin(p.a) * p.b, [Twin(1.0, 2.0)])


@pytest.mark.parametrize("check", [check_grads, bs.testing.grad_report])
def test_points_are_refused(check: Any) -> None:
    x = bs.on(bs.manifolds.Sphere(), np.array([1.0, 0.0]))
    with pytest.raises(TypeError, match="at the array itself"):
        check(lambda x: np.sum(x), [x])
