"""Limits of implicit functions: residuals of compiled code, GMRES' memory, solvers that need numbers."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import brentq, minimize, root_scalar

import backsolve as bs
from backsolve.errors import ConvergenceError, SingularError, StructureError, TracedValueError
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


@pytest.mark.parametrize("way", [lambda f: f, bs.jit], ids=["eager", "jit"])
def test_minima_where_f_falls_by_less_than_its_rounding(way: Any) -> None:
    """Near its minimum cosh x − 1 falls by less than the rounding of 1, which its own size does not tell."""
    rng = np.random.default_rng(0)
    functions = [
        lambda r: np.sum(np.cosh(r) - 1),
        lambda r: np.sum(np.log(np.cosh(r))),
        lambda r: np.sum(np.sqrt(1 + r**2) - 1),
        lambda r: 1e6 + np.sum(r**2) - 1e6,
    ]
    for f in functions:
        for _ in range(3 if way is bs.jit else 20):
            B = 2 * np.eye(3) + 0.3 * rng.normal(size=(3, 3))
            p = rng.normal(size=3) * 10 ** rng.uniform(-3, 0.3)
            x0 = rng.normal(size=3)
            solve = lambda p, f=f, B=B, x0=x0: bs.argmin(lambda x, p: f(B @ x - p), x0, p)
            with np.errstate(over="ignore"):  # of steps that lead too far
                np.testing.assert_allclose(B @ way(solve)(p), p, rtol=1e-6, atol=1e-8)


def test_precisions_are_mixed() -> None:
    """What is left of the finer equations is the rounding of the coarser unknowns."""
    for a, b in ((np.float32, np.float64), (np.float64, np.float32), (np.float16, np.float64)):
        F = lambda x, p, b=b: {"a": x["a"] ** 3 - p, "b": x["b"] ** 2 - x["a"].astype(b) - 2}
        p = np.array([1.3, 2.0, 3.0], a)
        solve = lambda p, a=a, b=b, F=F: bs.root(F, {"a": np.ones(3, a), "b": np.ones(3, b)}, p)
        exact = np.cbrt(p.astype(float))
        close = 20 * max(float(np.finfo(a).eps), float(np.finfo(b).eps))
        for way in (lambda f: f, bs.jit):
            x = way(solve)(p)
            assert x["a"].dtype == a
            assert x["b"].dtype == b
            np.testing.assert_allclose(x["a"], exact, rtol=close)
            np.testing.assert_allclose(x["b"], np.sqrt(exact + 2), rtol=close)
        slope = bs.grad(lambda p, solve=solve: np.sum(solve(p)["b"]))(p)
        want = 1 / (6 * exact**2 * np.sqrt(exact + 2))
        np.testing.assert_allclose(slope, want, rtol=10 * close)


def test_a_least_value_is_no_root() -> None:
    for x0 in (1.0, 1e3, 1e5):
        with pytest.raises((ConvergenceError, SingularError)):
            bs.root(lambda x: x**2 + 1e-9, x0)
        with pytest.raises(ArithmeticError, match=r"did not converge|singular"):
            bs.jit(lambda c, x0=x0: bs.root(lambda x: x**2 + c, x0))(1e-9)


@pytest.mark.parametrize("way", [lambda f: f, bs.jit], ids=["eager", "jit"])
def test_units_make_no_matrix_singular(way: Any) -> None:
    rows, columns = np.array([1e16, 1.0]), np.array([1.0, 1e-17])
    C = np.array([[2.0, 1.0], [0.5, 1.0]])
    f = lambda p: bs.root(lambda x, p: rows * (C @ (x / columns)) - p, columns, p)
    want = columns[:, None] * np.linalg.inv(C) / rows
    np.testing.assert_allclose(way(bs.jacobian(f))(rows), want, rtol=1e-9)
    for k in (0.0, 1e-17):
        alike = lambda p, k=k: bs.linear_solve(np.array([[1.0, 1.0], [1.0, 1.0 + k]]), p)
        with pytest.raises((ArithmeticError, np.linalg.LinAlgError), match=r"[Ss]ingular"):
            way(alike)(np.ones(2))


@pytest.mark.parametrize("way", [lambda f: f, bs.jit], ids=["eager", "jit"])
def test_arguments_that_are_no_numbers(way: Any) -> None:
    """A text, a function, a count and a sparse matrix are handed to F as they are."""
    for kind in (sp.csr_array, sp.dok_array, sp.dok_matrix, sp.lil_matrix):
        S = kind(np.diag([1.0, 2.0]))

        def F(x: Any, mode: str, g: Any, n: int, S: Any, p: Any) -> Any:
            assert mode == "sum"
            assert isinstance(n, int)
            return S @ x + sum(g(x) for _ in range(n)) - p

        f = lambda p, S=S, F=F: np.sum(bs.root(F, np.ones(2), "sum", np.sinh, 2, S, p))
        x = bs.root(F, np.ones(2), "sum", np.sinh, 2, S, np.ones(2))
        want = 1 / (np.array([1.0, 2.0]) + 2 * np.cosh(x))
        np.testing.assert_allclose(way(bs.grad(f))(np.ones(2)), want, rtol=1e-12)


@pytest.mark.parametrize("method", ["cg", "minres", "gmres", "direct"])
def test_equations_come_in_another_order_than_unknowns(method: str) -> None:
    """By their names they are symmetric."""

    def F(x: Any, p: Any) -> Any:
        return {"b": 3 * x["b"] + x["a"] - p, "a": 5 * x["a"] + x["b"] - 2 * p}

    x0 = {"a": 1.0, "b": 1.0}
    found = bs.grad(lambda p: bs.root(F, x0, p, method=method)["a"])(1.0)
    np.testing.assert_allclose(found, 5 / 14, rtol=1e-12)


def test_a_solver_returns_more_than_x() -> None:
    F = lambda x, p: x**3 - p
    for solver in (
        lambda p: minimize(lambda x: (x**3 - p) ** 2, 1.0),
        lambda p: root_scalar(lambda x: x**3 - p, bracket=(0, 3)),
    ):
        with pytest.raises(StructureError, match=r"must return x alone.*result\.x"):
            bs.grad(bs.implicit(F, solver))(2.0)


def test_an_x0_that_is_no_number() -> None:
    for x0 in ("a", np.array(["a"]), {"x": "a"}, [None, "a"]):
        for find in (bs.root, bs.argmin, bs.fixed_point):
            with pytest.raises(StructureError, match="x must be numbers"):
                find(lambda x: x, x0)


@pytest.mark.parametrize("method", ["direct", "cg", "gmres", "minres", "auto"])
@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
def test_a_matrix_in_single_precision_is_solved_in_it(method: str, dtype: Any) -> None:
    A, b = np.array([[3, 1], [1, 2]], dtype), np.ones(2, dtype)
    for solve in (bs.linear_solve, bs.backslash):
        found = solve(A, b, method)
        assert found.dtype == dtype
        np.testing.assert_allclose(found, [0.2, 0.4], rtol=1e-4)
    counts = np.array([[3, 1], [1, 2]])
    assert bs.linear_solve(counts, np.ones(2, int), method).dtype == np.float64


@pytest.mark.parametrize("way", [lambda f: f, bs.grad, bs.jit])
def test_what_a_users_solver_raises_is_theirs(way: Any) -> None:
    class BracketError(ValueError):
        pass

    def solver(p: Any) -> Any:
        if float(p) > 2:
            raise BracketError("no change of sign")
        return np.cbrt(float(p))

    cube_root = way(bs.implicit(lambda x, p: x**3 - p, solver, like=1.0))
    for f, p in ((cube_root, 8.0), (bs.vmap(cube_root), np.array([0.5, 8.0]))):
        with pytest.raises(BracketError, match=r"^no change of sign$"):
            f(p)


@pytest.mark.parametrize("wrap", [lambda f: f, bs.jit])
def test_a_failed_check_says_no_more_than_what_failed(wrap: Any) -> None:
    solve = wrap(bs.vmap(lambda b: bs.linear_solve(lambda v: v**2 + v, b)))
    with pytest.raises(ValueError, match=r"^A x differs from b at the solution"):
        solve(np.ones((2, 3)))


WAYS: dict[str, Callable[..., Any]] = {
    "root": lambda **how: bs.root(lambda x: x * x - 2, np.ones(3), **how),
    "fixed_point": lambda **how: bs.fixed_point(lambda x: 0.5 * x + 1, np.ones(3), **how),
    "argmin": lambda **how: bs.argmin(lambda x: np.sum((x - 1) ** 2), np.zeros(3), **how),
    "implicit": lambda **how: bs.implicit(lambda x, p: x**3 - p, np.cbrt, **how)(np.ones(3)),
    "linear_solve": lambda **how: bs.linear_solve(lambda v: 2 * v, np.ones(3), **how),
}
NUMBER, INTEGER = "must be a number between 0 and 1", "must be an integer, at least"


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("name", "values", "said"),
    [
        ("tol", ("1e-3", True, 1e-3j, 2.0, 0, np.nan, [1e-3], np.array([1e-3])), NUMBER),
        ("maxiter", ("10", 10.5, True, 0, -1, np.ones(2)), INTEGER),
        ("restart", ("3", 2.5, None, False, 0), INTEGER),
        ("method", (None, "jacobi", np.ones(2)), "is one of auto"),
        ("preconditioner", (3, "x", np.eye(3)), "is an operator or a function"),
        ("memory", (1.5, "2", -1, True), INTEGER),
        ("check", ("x", None, -1.0, 1j), "is True, False or a number above 0"),
    ],
)
def test_an_argument_of_another_kind_is_named(way: str, name: str, values: Any, said: str) -> None:
    if {"memory": "fixed_point", "check": "implicit"}.get(name, way) != way:
        return
    for value in values:
        with pytest.raises(StructureError, match=f"^{name} {said}.*got"):
            WAYS[way](**{name: value})


@pytest.mark.parametrize("way", WAYS)
def test_numpys_numbers_are_numbers(way: str) -> None:
    found = WAYS[way]()
    for tol in (np.float32(1e-6), np.float64(1e-6)):
        for rounds in (np.int8(100), np.uint64(100)):
            given = WAYS[way](tol=tol, maxiter=rounds, restart=rounds)
            np.testing.assert_allclose(given, found, rtol=1e-5)
    if way == "implicit":
        np.testing.assert_allclose(WAYS[way](check=np.True_), found)


def test_a_tolerance_has_no_precision_of_its_own() -> None:
    b = np.ones(3, np.float32)
    f = lambda b: bs.linear_solve(lambda v: 2 * v, b, "gmres", tol=np.float64(1e-4))
    assert bs.jit(f)(b).dtype == np.float32


@pytest.mark.parametrize("y", [None, "a", ["a", "b", "c"], np.sin, np.array(["a", "b", "c"]), []])
@pytest.mark.parametrize("x0", [1.0, np.ones(3)])
def test_equations_are_numbers(x0: Any, y: Any) -> None:
    """Not nothing, and no texts."""
    f = lambda *_: y
    for what, find in {
        "F": lambda x0: bs.root(f, x0),
        "f": lambda x0: bs.fixed_point(f, x0),
        "F ": lambda x0: bs.implicit(f, np.cbrt)(x0),
        "A v": lambda x0: bs.linear_solve(f, x0),
        "b": lambda x0: bs.linear_solve(np.eye(3), y),
    }.items():
        for run in (find, bs.jit(find)):
            with pytest.raises(StructureError, match=f"^{what.strip()}.* must be numbers"):
                run(x0)
    if not callable(y):
        with pytest.raises(StructureError, match=r"^A, which is no operator.*must be numbers"):
            bs.linear_solve(y, x0)
