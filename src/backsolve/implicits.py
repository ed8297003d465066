"""Functions given by equations: `bs.implicit`, `root`, `fixed_point`, `argmin`, `linear_solve`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from . import control as control  # the loops of what is staged
from . import tree
from .api import grad
from .api.systems import solved_by_structure
from .declared import points_in
from .errors import (
    ShapeError,
    StructureError,
    TracedValueError,
    UnsupportedError,
    check_function,
)
from .hooks import hooks
from .ir import Type, type_of
from .operators import Custom, Operator, as_operator
from .operators.inverse import is_solved_by_structure
from .ownership import LARGE, own, shared
from .results import is_number
from .solve.arguments import check_numbers, check_preconditioner
from .solve.implicit import at_solution
from .solve.iterate import check_solution, fixed, newton, solved
from .solve.minimum import minimum
from .solve.outside import OUTSIDE, Outside
from .solve.packing import Packing, plain
from .solve.square import How
from .tensor import Staged, Tensor, lent
from .trace import example_of

CONTRACTION = 32  # unknowns up to which compiled code forms the matrix of a fixed point at once


def implicit(
    F: Callable[..., Any],
    solver: Callable[..., Any],
    method: str = "auto",
    preconditioner: Any = None,
    *,
    tol: float | None = None,
    maxiter: int | None = None,
    restart: int = 30,
    check: bool | float = True,
    like: Any = None,
) -> Callable[..., Any]:
    """The function p ↦ x with F(x, *p) = 0, found by `solver(*p)`; its derivatives are those of the equation.

    The solver may be anything that gives x (SciPy's, a loop): no step of it is recorded. x, p and F's result
    are numbers, arrays or containers; F has as many values as x has entries. Varying Tensors that F closes over
    count as parameters, too. A derivative solves one linear system with ∂F/∂x: by `method` "direct" (the matrix
    is formed), "cg", "minres" (both for symmetric ones), "gmres", or "auto": direct up to 128 unknowns, then
    gmres. `preconditioner(x, *p)` gives M ≈ (∂F/∂x)⁻¹ as a function v ↦ M v on what has x's form, or as an
    operator. `tol` and `maxiter` are those of the linear solver; gmres keeps `restart` vectors of x's size and
    then starts again: fewer take less memory and more rounds.

    An x that does not solve the equations is an error: |F(x, p)| is compared with what a relative change of x
    by `check` would do to F (by default the cube root of the precision; False looks at nothing). Inside `jit`
    and `vmap` the solver is staged with the rest; one that cannot be, such as SciPy's, is called back into
    Python if `like` shows the form of x: an x of its shapes and dtypes. Outside of `jit`, `vmap` and `jet` find
    that form by themselves: they call the solver once more, on the first example.

    >>> import numpy as np
    >>> cube_root = implicit(lambda x, p: x**3 - p, np.cbrt)
    >>> grad(cube_root)(8.0), grad(grad(cube_root))(8.0)
    (0.08333333333333333, -0.006944444444444444)
    """
    for what, f in (("F", F), ("solver", solver)):
        if not callable(f):
            raise StructureError(
                f"`implicit` needs functions F(x, *p) and solver(*p); {what} is {f!r}"
            )
    how = How(method, preconditioner, tol, maxiter, restart)
    is_wish = isinstance(check, bool | np.bool)
    if not is_wish and not (
        isinstance(check, float | int | np.floating | np.integer) and check > 0
    ):
        raise StructureError(f"check is True, False or a number above 0, got {check!r}")

    @functools.wraps(solver)
    def run(*p: Any) -> Any:
        x = _solved(solver, p, like)
        problem, leaves = _Problem(F, x, p, how), tree.flatten(x)[0]
        if check:
            check_solution(
                problem.frozen, [_floats(v) for v in leaves], None if is_wish else float(check)
            )
        return problem.solution(leaves)

    return run


def root(
    F: Callable[..., Any],
    x0: Any,
    *p: Any,
    method: str = "auto",
    preconditioner: Any = None,
    tol: float | None = None,
    restart: int = 30,
    maxiter: int = 50,
) -> Any:
    """A solution x of F(x, *p) = 0 near x0, by Newton's method with a line search; it varies with p alone.

    Each of its steps, and each derivative, solves a linear system with ∂F/∂x by `method` (see `implicit`).

    >>> round(float(grad(lambda a: root(lambda x: x * x - a, 1.0))(4.0)), 12)
    0.25
    """
    check_function("root", F)
    problem = _Problem(F, x0, p, How(method, preconditioner, restart=restart))
    return problem.solution(newton(problem.frozen, problem.start, problem.how, tol, maxiter))


def fixed_point(
    f: Callable[..., Any],
    x0: Any,
    *p: Any,
    method: str = "auto",
    preconditioner: Any = None,
    tol: float | None = None,
    restart: int = 30,
    maxiter: int = 1000,
    memory: int = 0,
) -> Any:
    """x with x = f(x, *p), from x0 on, by x ← f(x); with `memory`, so many steps are combined (Anderson).

    Derivatives solve with I − ∂f/∂x by `method` (see `implicit`); "auto" iterates, too, where there are many
    unknowns, and takes direct or gmres if that is slow. The rounds are not recorded.

    >>> import numpy as np
    >>> round(float(grad(lambda a: fixed_point(lambda x: a * np.cos(x), 0.5))(1.0)), 6)
    0.441611
    """

    check_function("fixed_point", f)

    def F(x: Any, *p: Any) -> Any:
        after = hooks.users(f)(tree.map(lent, x), *p)
        check_numbers("f(x)", after)
        return _minus(x, after, "f(x)", "x", x)

    large = "contraction" if preconditioner is None else "gmres"
    how = How(method, preconditioner, restart=restart, large=large, most_compiled=CONTRACTION)
    problem = _Problem(F, x0, p, how)
    return problem.solution(fixed(problem.frozen, problem.start, tol, maxiter, memory))


def argmin(
    f: Callable[..., Any],
    x0: Any,
    *p: Any,
    method: str = "auto",
    preconditioner: Any = None,
    tol: float | None = None,
    restart: int = 30,
    maxiter: int = 200,
) -> Any:
    """The x near x0 for which f(x, *p) is least, by Newton's method with CG and a line search.

    Derivatives solve with the Hessian by `method` (see `implicit`); "auto" takes cg if there are many unknowns.

    >>> import numpy as np
    >>> nearest = lambda c: argmin(lambda x: np.sum((x - c) ** 2) + np.sum(x) ** 2, np.zeros(2))
    >>> np.round(nearest(np.array([3.0, 0.0])), 6)
    array([ 2., -1.])
    """
    check_function("argmin", f)
    problem = _Problem(grad(f), x0, p, How(method, preconditioner, restart=restart, large="cg"))
    value = _Problem(f, x0, p, problem.how).frozen
    return problem.solution(minimum(value, problem.frozen, problem.start, tol, maxiter))


def linear_solve(
    A: Any,
    b: Any,
    method: str = "auto",
    preconditioner: Any = None,
    *,
    tol: float | None = None,
    maxiter: int | None = None,
    restart: int = 30,
) -> Any:
    """x with A x = b; A is an operator, a matrix, or a linear function v ↦ A v of what has b's form.

    The matrix may be one of SciPy's sparse ones, or a sparse Jacobian that varies.

    It varies with b, and with all that A holds or closes over. Methods and preconditioner are as in `implicit`
    (M itself: an operator or a function v ↦ M v).

    >>> import numpy as np
    >>> d = np.array([1.0, 2.0])
    >>> linear_solve(lambda v: d * v + np.sum(v), np.array([3.0, 4.0]))
    array([1., 1.])
    """
    check_numbers("b", b)
    product: Callable[..., Any]
    kind: Any = np.bool_  # a complex matrix has complex solutions
    if hasattr(A, "tocoo"):  # sparse
        _check_square(A.shape, b)
        product, kind = (lambda v: A @ v), A.dtype
    elif isinstance(A, Operator) or not callable(A):
        if not isinstance(A, Operator):
            check_numbers("A, which is no operator and no function,", A)
            if np.ndim(A) == 2:
                _check_square(np.shape(A), b)
        A = as_operator(own(A))
        if method == "auto" and preconditioner is None and is_solved_by_structure(A):
            return solved_by_structure(A, b)
        product, kind = A.apply, getattr(A.out_type, "dtype", kind)
    else:
        product = hooks.users(A)

    def F(x: Any, b: Any) -> Any:
        image = product(x)
        check_numbers("A v", image)
        return _minus(image, b, "A v", "b", x)

    if preconditioner is not None:
        check_preconditioner(preconditioner)
    M = None if preconditioner is None else lambda x, b: preconditioner
    zeros = tree.map(lambda v: np.zeros(np.shape(v), np.result_type(_floating(v), kind)), b)
    problem = _Problem(F, zeros, (b,), How(method, M, tol, maxiter, restart))
    return problem.solution(solved(problem.frozen, problem.start, problem.how))


def _check_square(shape: tuple[int, ...], b: Any) -> None:
    if len(set(shape)) > 1 or np.shape(b)[:1] != shape[:1]:
        raise ShapeError(
            f"`linear_solve` needs a square matrix and as many rows of b: got {shape} and {np.shape(b)}"
        )


class _Problem:
    """F(x, *p) = 0 on flat lists of leaves."""

    def __init__(self, F: Callable[..., Any], x: Any, p: tuple[Any, ...], how: How):
        check_numbers("x", x)
        leaves, self.x_form = tree.flatten(x)
        for point in points_in(self.x_form, leaves).values():
            raise UnsupportedError(
                f"x is declared to lie on {point.manifold}, and the equations would move it off: "
                "bs.optim.RiemannianCG().minimize(f, x) stays on it; here, give the array itself"
            )
        self.start = [_floats(v) for v in leaves]
        self.p, self.p_form = tree.flatten(p)
        self.F, given = F, how.preconditioner
        self.how = how if given is None else replace(how, preconditioner=self._flat(given))

    def equations(self, x: Sequence[Any], p: Sequence[Any]) -> list[Any]:
        x, p = [*map(lent, x)], [*map(_lent_or_read, p)]
        result = hooks.users(self.F)(self.x_form.unflatten(x), *self.p_form.unflatten(p))
        check_numbers("F(x, *p)", result)
        return tree.flatten_like(result, self.x_form)[0]  # equation k is that of unknown k

    def frozen(self, x: Sequence[Any], p: Sequence[Any] = ()) -> list[Any]:
        """The same at the values that p has, which do not vary here."""
        return self.equations(x, [v.detach() if isinstance(v, Tensor) else v for v in self.p])

    def solution(self, x: Sequence[Any]) -> Any:
        found = at_solution(self.equations, [_floats(v) for v in x], self.p, self.how)
        return self.x_form.unflatten(found)

    def _flat(self, given: Any) -> Any:
        def made(x: Sequence[Any], p: Sequence[Any]) -> Any:
            p = p if len(p) == len(self.p) else [plain(v) for v in self.p]
            M = given
            if not isinstance(M, Operator):
                M = given(self.x_form.unflatten(x), *self.p_form.unflatten(p))
            if isinstance(M, Operator):
                return Custom(on_leaves(M.apply), on_leaves(M.T.apply))
            check_preconditioner(M)
            return on_leaves(M)

        def on_leaves(M: Callable[[Any], Any]) -> Callable[[Any], Any]:
            form = self.x_form
            return lambda v: tree.flatten_like(M(form.unflatten([*map(lent, v)])), form)[0]

        return made


def _lent_or_read(v: Any) -> Any:
    """A large array is not copied for each evaluation: it is there to be read."""
    return shared(v) if type(v) is np.ndarray and v.size > LARGE else lent(v)


def _floats(v: Any) -> Any:
    check_numbers("x", v)
    found = plain(v)
    return found if found.dtype.kind in "fc" else found.astype(float)


def _floating(v: Any) -> Any:
    dtype = _floats(v).dtype
    return dtype


def _minus(a: Any, b: Any, what: str, like: str, unknowns: Any) -> Any:
    """In the order of the unknowns, so that equation k is that of unknown k."""
    order = tree.flatten(unknowns)[1]
    left, form = tree.flatten_like(a, order)
    right, other = tree.flatten_like(b, order)
    if form != other or any(np.shape(x) != np.shape(y) for x, y in zip(left, right, strict=True)):
        raise StructureError(f"{what} must have the form and the shapes of {like}: {a!r} and {b!r}")
    return form.unflatten([x - y for x, y in zip(left, right, strict=True)])


def _solved(solver: Callable[..., Any], p: Sequence[Any], like: Any) -> Any:
    """What the solver gives for values that do not vary."""
    frozen = tree.map(lambda v: v.detach() if isinstance(v, Tensor) else v, tuple(p))
    staged = any(isinstance(v, Staged) for v in tree.flatten(frozen)[0])
    if staged and like is not None:
        return _called_back(solver, frozen, like)
    try:
        x = hooks.users(solver)(*frozen)
    except TracedValueError as error:
        if not staged:
            raise
        leaves, form = tree.flatten(frozen)
        shown = [example_of(v) if isinstance(v, Staged) else v for v in leaves]
        if all(v is not None for v in shown):
            example = solver(*form.unflatten(shown))
            return _called_back(solver, frozen, tree.map(plain, example))
        raise TracedValueError(
            "the solver of `implicit` needs the numbers of its arguments, which inside `jit`, loops and "
            "branches are not there yet. Give `like`, an x of the form of its result: then it is called back "
            "into Python. Or write it with NumPy, `while` or bs.while_loop; or take bs.root, bs.fixed_point "
            "or bs.argmin. "
            f"({str(error).splitlines()[0]})"
        ) from error
    return tree.map(functools.partial(_copied, kind=type(x).__name__), x)


def _copied(v: Any, kind: str) -> Any:
    """A value that the solver returned, and in whose memory it may return the next one."""
    if not is_number(v):
        raise StructureError(
            f"the solver of `implicit` gave {v!r}, in what it returned ({kind}): it must return x alone, in "
            "numbers. Of SciPy's results that is result.x, or result.root"
        )
    found = plain(v)
    return found if isinstance(found, Staged) else found.copy()


def _called_back(solver: Callable[..., Any], p: Any, like: Any) -> Any:
    """x of the form of `like`, by a row that calls the solver when the program runs."""
    examples, form = tree.flatten(like)
    packing = Packing([type_of(_floats(v)) for v in examples], "the `like` of `implicit`")
    leaves, p_form = tree.flatten(p)
    places = [k for k, v in enumerate(leaves) if isinstance(v, Staged)]
    fixed = [None if isinstance(v, Staged) else v for v in leaves]

    def solved(*values: Any) -> Any:
        full = list(fixed)
        for k, v in zip(places, values, strict=True):
            full[k] = v
        x = solver(*p_form.unflatten(full))
        found, given = tree.flatten(x)
        shapes = [np.shape(v) for v in found]
        if given != form or shapes != [np.shape(v) for v in examples]:
            raise StructureError(
                f"the solver of `implicit` gave {x!r}, and not the form of {like!r}"
            )
        return packing.pack([_floats(v) for v in found]).copy()  # the solver may use its own again

    call = Outside(solved, Type((packing.size,), packing.dtype))
    vector = OUTSIDE(*[leaves[k] for k in places], call=call)
    return form.unflatten(packing.unpack(vector))
