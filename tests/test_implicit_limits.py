"""Limits of implicit functions: residuals of compiled code, GMRES' memory, solvers that need numbers."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq

import backsolve as bs
from backsolve.errors import TracedValueError
from backsolve.ir import Type
from backsolve.trace import stage

RNG = np.random.default_rng(0)
A = RNG.normal(size=(40, 40)) * 0.1 + 3 * np.eye(40)
b = RNG.normal(size=40)


@pytest.mark.parametrize("rounds", [2, 5, 9])
@pytest.mark.parametrize("method", ["gmres", "cg"])
def test_compiled_code_tells_the_last_residual(method: str, rounds: int) -> None:
    """Within a power of ten of what eager code says."""
    S = A @ A.T if method == "cg" else A
    f = lambda b: bs.linear_solve(lambda v: S @ v, b, method, maxiter=rounds)
    with pytest.raises(bs.errors.ConvergenceError) as eager:
        f(b)
    first, *_, last = eager.value.history
    said = re.escape(f"is below 1e{int(np.ceil(np.log10(last / first))):+03d} of the first")
    for compiled in (
        bs.jit(f),
        lambda b: bs.vmap(f)(b[None]),
        bs.jit(bs.grad(lambda b: f(b).sum())),
    ):
        with pytest.raises(ArithmeticError, match=said):
            compiled(b)


def test_a_residual_that_grows_or_is_no_number() -> None:
    f = bs.jit(lambda a, b: bs.fixed_point(lambda x: a * x + b, np.zeros(40), maxiter=20))
    with pytest.raises(ArithmeticError, match="is not below the first"):
        f(2.0, b)
    with pytest.raises(ArithmeticError, match="is not a number"):
        bs.jit(lambda b: bs.linear_solve(lambda v: A @ v, b, "gmres"))(b * np.nan)
    np.testing.assert_allclose(f(0.1, b), b / 0.9, rtol=1e-10)


@pytest.mark.parametrize("restart", [3, 7])
def test_gmres_keeps_as_many_vectors_as_it_is_told(restart: int) -> None:
    F = lambda x, p: x**3 + A @ x - p
    calls = {
        "root": lambda p: bs.root(F, np.zeros(40), p, method="gmres", restart=restart),
        "fixed": lambda p: bs.fixed_point(
            lambda x, p: np.tanh(p + 0.1 * (A @ x)),
            np.zeros(40),
            p,
            method="gmres",
            restart=restart,
        ),
        "argmin": lambda p: bs.argmin(
            lambda x, p: np.sum((x - p) ** 2 + x**4),
            np.zeros(40),
            p,
            method="gmres",
            restart=restart,
        ),
    }
    for name, f in calls.items():
        loss = lambda p, f=f: np.sum(f(p) ** 2)
        program, _ = stage(bs.grad(loss), [Type((40,), np.dtype(float))])
        held = [t.shape for t in _types(program) if t.ndim == 2 and t.shape[1] == 40]
        kept = {s[0] for s in held if s != (40, 40)}
        assert kept <= {1, restart, restart + 1}, name
        assert restart + 1 in kept, name
        expected = bs.grad(loss)(b * 0.1)
        np.testing.assert_allclose(bs.jit(bs.grad(loss))(b * 0.1), expected, rtol=1e-6, atol=1e-9)


def _types(program: Any) -> Any:
    for e in program.equations:
        for v in e.outputs:
            yield v.type
        region = e.params.get("region")
        for inner in region.programs() if region is not None else ():
            yield from _types(inner)


def test_the_form_of_a_solution_is_found_on_an_example() -> None:
    calls = []

    def solver(p: Any, q: Any) -> Any:
        calls.append(float(p))
        x = brentq(lambda x: x**3 + x - float(p) * q[0], -10, 10)
        return {"x": x, "y": np.asarray(q) * x}

    def F(u: Any, p: Any, q: Any) -> Any:
        return {"x": u["x"] ** 3 + u["x"] - p * q[0], "y": u["y"] - q * u["x"]}

    f = bs.implicit(F, solver)
    g = lambda p: f(np.sin(p) + 2, np.array([1.0, 2.0]))["y"].sum()
    ps = np.array([0.1, 0.4, 0.9])
    expected = [bs.grad(g)(p) for p in ps]
    calls.clear()
    np.testing.assert_allclose(bs.vmap(bs.grad(g))(ps), expected, rtol=1e-9)
    numbers = [p for p in calls if isinstance(p, float)]
    assert len(numbers) == 4  # the first of them twice
    np.testing.assert_allclose(bs.grad(lambda p: bs.vmap(g)(p).sum())(ps), expected, rtol=1e-9)
    second = bs.jet(g, (0.4,), [[1.0, 0.0]])[1][1]
    np.testing.assert_allclose(second, bs.grad(bs.grad(g))(0.4), rtol=1e-8)
    table = np.stack([ps, ps + 0.5])
    twice = bs.vmap(bs.vmap(lambda p: (g(p), bs.grad(g)(p))))(table)
    np.testing.assert_allclose(twice[0], [[g(p) for p in row] for row in table], rtol=1e-9)
    np.testing.assert_allclose(twice[1], [[bs.grad(g)(p) for p in row] for row in table], rtol=1e-9)
    with pytest.raises(TracedValueError, match="like"):
        bs.jit(g)(0.4)
