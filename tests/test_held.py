"""What changes between a run and its derivative: the derivative is that of what was."""
# ruff: noqa: B023 (closing over a loop variable is what is tested)

from typing import Any

import numpy as np
import pytest
import scipy.sparse

import backsolve as bs
from backsolve.errors import RecomputeError, TracedValueError

TIMES = (1.0, 2.0, 3.0)
B = np.array([0.7, 1.3])


def central(f: Any, x: Any, h: float = 1e-6) -> Any:
    units = np.eye(x.size).reshape(x.size, *x.shape)
    return np.array([(f(x + h * e) - f(x - h * e)) / (2 * h) for e in units]).reshape(x.shape)


# ---- what F closes over


def roots(b: Any) -> Any:
    return sum(bs.root(lambda x, b: x**3 + x - b * t, np.ones(2), b).sum() for t in TIMES)


def closed_roots(b: Any) -> Any:
    return sum(bs.root(lambda x: x**3 + x - b * t, np.ones(2)).sum() for t in TIMES)


def implicit_euler(b: Any) -> Any:
    u: Any = np.ones(2)
    for k in range(5):
        c = np.cos(3 * k)
        u = bs.root(lambda v, u, b: v - u + 0.1 * b * (1 + c) * v**3, u, u, b)
    return u.sum()


def fixed_points(b: Any) -> Any:
    return sum(
        bs.fixed_point(lambda x, b: 0.2 * np.cos(x * b) * t, np.ones(2), b).sum() for t in TIMES
    )


def least(b: Any) -> Any:
    return sum(
        bs.argmin(lambda x, b: np.sum((x - b * t) ** 2 + x**4), np.ones(2), b).sum() for t in TIMES
    )


def by_hand(b: Any) -> Any:
    return sum(
        bs.implicit(lambda x, b: x**3 - b * t, lambda b: np.cbrt(b * t))(b).sum() for t in TIMES
    )


def systems(b: Any) -> Any:
    return sum(
        bs.linear_solve(lambda v: v * (1 + b * t) + v.sum(), b, "gmres").sum() for t in TIMES
    )


IMPLICIT = [roots, closed_roots, implicit_euler, fixed_points, least, by_hand, systems]


@pytest.mark.parametrize("f", IMPLICIT)
def test_equations_are_those_that_were_solved(f: Any) -> None:
    expected = central(f, B)
    found = [
        bs.grad(f)(B),
        bs.jit(bs.grad(f))(B),
        bs.grad(bs.jit(f))(B),
        bs.jacobian(f, method="forward")(B),
        *bs.vmap(bs.grad(f))(np.stack([B, B])),
    ]
    for g in found:
        np.testing.assert_allclose(g, expected, rtol=1e-5)


@pytest.mark.parametrize("f", IMPLICIT)
def test_so_are_those_of_second_derivatives_if_staged_else_it_is_said(f: Any) -> None:
    expected = np.diag(central(lambda x: bs.grad(f)(x).sum(), B))
    if f is systems:  # entries meet
        expected = np.array([central(lambda x, k=k: bs.grad(f)(x)[k], B) for k in range(2)])
    np.testing.assert_allclose(bs.jit(bs.hessian(f))(B), expected, rtol=1e-4, atol=1e-6)
    with pytest.raises(RecomputeError, match="other values"):
        bs.hessian(f)(B)


def test_so_it_is_where_the_loop_variable_varies() -> None:
    """The first derivative has the y of each round; run again, F would read the last."""

    def f(x: Any) -> Any:
        y = x
        for _ in range(3):
            y = bs.root(lambda z: z**3 + z - y, 1.0)
        return y

    x = np.array(0.7)
    np.testing.assert_allclose(bs.grad(f)(x), central(f, x), rtol=1e-7)
    for second in (lambda f: bs.grad(bs.grad(f)), bs.hessian):
        with pytest.raises(RecomputeError, match=r"read other values.*loop variable"):
            second(f)(x)
        expected = central(bs.grad(f), x)
        np.testing.assert_allclose(bs.jit(second(f))(x), expected, rtol=1e-6)


def test_an_attribute_that_changes_is_noticed() -> None:
    """By the second derivative; the first has what was."""

    class Spring:
        stiffness = 1.0

    spring = Spring()

    def f(b: Any) -> Any:
        spring.stiffness = 2.0
        x = bs.root(lambda x, b: spring.stiffness * x**3 - b, 1.0, b)
        spring.stiffness = 5.0
        return x

    np.testing.assert_allclose(bs.grad(f)(2.0), 1 / 6)
    with pytest.raises(RecomputeError, match="other values"):
        bs.grad(bs.grad(f))(2.0)


def test_a_slope_is_the_one_that_was_followed() -> None:
    t = np.linspace(0, 1, 3)

    def f(b: Any) -> Any:
        return sum(
            bs.scipy.integrate.odeint(lambda y, t, b: -c * b * y, 1.0, t, (b,)).sum() for c in TIMES
        )

    by_argument = lambda b: sum(
        bs.scipy.integrate.odeint(lambda y, t, b, c: -c * b * y, 1.0, t, (b, c)).sum()
        for c in TIMES
    )
    h = 1e-5
    expected = (by_argument(0.7 + h) - by_argument(0.7 - h)) / (2 * h)
    np.testing.assert_allclose(bs.grad(by_argument)(0.7), expected, rtol=1e-5)
    np.testing.assert_allclose(bs.grad(f)(0.7), expected, rtol=1e-5)
    np.testing.assert_allclose(
        bs.grad(bs.grad(f))(0.7), bs.grad(bs.grad(by_argument))(0.7), rtol=1e-5
    )


def test_so_is_one_of_a_buffer_between_the_times() -> None:
    def final(k: Any, is_reused: bool) -> Any:
        amplitude = np.array([0.0, 1.0, 1.0, 0.0])
        slope = lambda y, t, k: -k * y * (1 + np.interp(t, [0, 0.3, 0.6, 1.0], amplitude))
        y = bs.scipy.integrate.odeint(slope, np.ones(1), np.array([0.0, 1.0]), (k,))[-1, 0]
        amplitude *= 5 if is_reused else 1
        return y

    np.testing.assert_allclose(bs.grad(final)(2.0, True), bs.grad(final)(2.0, False), rtol=1e-12)


def test_a_slope_that_cannot_be_staged_says_why() -> None:
    """Of a derivative, which needs it as a Program: what it closes over may change until then."""

    def final(k: Any) -> Any:
        slope = lambda y, t, k: -k * y * np.array([{0.0: 1.0}.get(y[0], 2.0)])
        return bs.scipy.integrate.odeint(slope, np.ones(1), np.array([0.0, 1.0]), (k,))[-1, 0]

    with pytest.raises(TracedValueError):
        bs.grad(final)(1.0)


# ---- what is run again, where its value does not tell that it is another


def checkpointed(x: Any) -> Any:
    c = 2.0
    y = bs.checkpoint(lambda t: t * c + 1e9)(x)
    c = 5.0
    return y


def turned(x: Any) -> Any:
    c = np.pi / 2
    y = bs.checkpoint(lambda t: np.cos(t + c))(x)
    c = -np.pi / 2
    return y


def entry_of_equal_ones(x: Any) -> Any:
    return sum(bs.checkpoint(lambda p: p[i] ** 2)(np.stack([x, x])) for i in range(2))


def written_into(x: Any) -> Any:
    places = np.array([1, 1])
    y = bs.checkpoint(lambda p: p[places] * 2)(np.stack([x, x]))
    places[0] = 0
    return y.sum()


def power_of_one(x: Any) -> Any:
    n = 2
    y = bs.checkpoint(lambda t: (t + 1) ** n)(x)
    n = 3
    return y


def scanned(x: Any) -> Any:
    c = 2.0
    step = lambda s, _: (s * c, None)
    y = bs.checkpoint(lambda t: bs.scan(step, t, length=6)[0], slots=2)(x)
    c = 3.0
    return y


def another_tensor_of_equal_value(x: Any) -> Any:
    read = [x]
    y = bs.checkpoint([lambda s: np.tanh((read[0] + 1) * s)] * 8, slots=2)(x + 1)
    read[0] = 1 * x
    return y


def no_tensor_any_more(x: Any) -> Any:
    read = [x]
    y = bs.checkpoint([lambda s: np.tanh((read[0] + 1) * s)] * 8, memory=120)(x + 1)
    read[0] = 0.0
    return y


@pytest.mark.parametrize(
    "f",
    [
        checkpointed,
        turned,
        entry_of_equal_ones,
        written_into,
        power_of_one,
        scanned,
        another_tensor_of_equal_value,
        no_tensor_any_more,
    ],
)
def test_another_function_of_the_same_value_is_noticed(f: Any) -> None:
    with pytest.raises(RecomputeError, match="another result"):
        bs.grad(f)(0.0)


def first_power(b: Any) -> Any:
    return sum(bs.root(lambda x: x**3 - b[i], 1.0) for i in range(2))


def bent(b: Any) -> Any:
    return sum(bs.root(lambda x: x - b[0] - t * (b[0] - 1) ** 2, 0.5) for t in TIMES)


@pytest.mark.parametrize(("f", "curvature"), [(first_power, (-2 / 9, -2 / 9)), (bent, (12.0, 0.0))])
def test_other_equations_of_the_same_first_derivatives_are_noticed(f: Any, curvature: Any) -> None:
    b = np.ones(2)
    np.testing.assert_allclose(bs.jit(bs.hessian(f))(b), np.diag(curvature), atol=1e-9)
    with pytest.raises(RecomputeError, match="other values"):
        bs.hessian(f)(b)


# ---- buffers that are reused


class Scaled(bs.Function):
    @staticmethod
    def forward(ctx: Any, b: Any, a: Any) -> Any:
        ctx.save_for_backward(b, a)
        return a * b**2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        b, a = ctx.saved_tensors
        return 2 * a * b * g, None


def looped(b: Any, a: Any) -> Any:
    return bs.fori_loop(0, 3, lambda k, y: y * a, b)


def solved(b: Any, a: Any) -> Any:
    return bs.linear_solve(np.eye(2) + np.outer(a, a), b, "gmres")


compiled = bs.jit(lambda b, a: np.sin(a) * b**2)
compiled_with = bs.jit(lambda b, *, a: np.sin(a) * b**2)
checkpointed = bs.checkpoint(lambda b, a: np.sin(a) * b**2)
compiled_loop = bs.jit(looped)

WITH_BUFFERS = {
    "root": lambda b, a: bs.root(lambda x, b, a: x**3 - a * b, np.ones(2), b, a),
    "fixed point": lambda b, a: bs.fixed_point(
        lambda x, b, a: 0.2 * np.cos(x * b) * a, np.ones(2), b, a
    ),
    "closed over": lambda b, a: bs.root(lambda x, b: x**3 - a * b, np.ones(2), b),
    "compiled": lambda b, a: compiled(b, a),
    "by keyword": lambda b, a: compiled_with(b, a=a),
    "compiled loop": lambda b, a: compiled_loop(b, a),
    "loop": looped,
    "Function": lambda b, a: Scaled.apply(b, a),
    "checkpoint": lambda b, a: checkpointed(b, a),
    "Newton in time": lambda b, a: bs.recurrence(
        lambda h, x: 0.3 * np.tanh(h) * x + b, a, a * np.ones((20, 2)), method="newton"
    ),
    "scan": lambda b, a: bs.recurrence(
        lambda h, x: 0.3 * h * x + b, a, a * np.ones((20, 2)), method="scan"
    ),
    "odeint": lambda b, a: bs.scipy.integrate.odeint(
        lambda y, t, b, a: -b * y * a, np.ones(2), np.linspace(0, 1, 3), (b, a)
    ),
    "solve": solved,
    "backslash": lambda b, a: bs.backslash(np.diag(a), b, method="gmres"),
}


@pytest.mark.parametrize("name", WITH_BUFFERS)
def test_a_buffer_may_be_reused(name: str) -> None:
    f = WITH_BUFFERS[name]

    def reusing(b: Any) -> Any:
        a, total = np.ones(2), 0.0
        for t in TIMES:
            a[:] = t
            total = total + np.sum(f(b, a))
        return total

    fresh = lambda b: sum(np.sum(f(b, np.full(2, t))) for t in TIMES)
    for of in (bs.grad, lambda f: bs.jit(bs.grad(f)), lambda f: bs.jacobian(f, method="forward")):
        np.testing.assert_allclose(of(reusing)(B), of(fresh)(B), rtol=1e-9)
    np.testing.assert_allclose(bs.grad(reusing)(B), central(fresh, B), rtol=1e-5)


def test_a_matrix_may_be_written_into() -> None:
    def f(b: Any, kind: Any) -> Any:
        A, total = np.eye(2), 0.0
        for t in TIMES:
            A[0, 0] = A[0, 1] = t
            total = total + bs.linear_solve(kind(A), b, method="gmres").sum()
        return total

    for kind in (np.asarray, np.array, scipy.sparse.csr_array):
        f_kind = lambda b, kind=kind: f(b, kind)
        np.testing.assert_allclose(bs.grad(f_kind)(B), central(f_kind, B), rtol=1e-5, atol=1e-8)


def test_tensors_that_do_not_vary_may_be_written_into() -> None:
    def f(b: Any) -> Any:
        a, total = bs.tensor(np.ones(2)), 0.0
        for t in TIMES:
            a[:] = t
            total = total + compiled(b, a).sum() + Scaled.apply(b, a).sum()
        return total

    np.testing.assert_allclose(bs.grad(f)(B), central(f, B), rtol=1e-6)
