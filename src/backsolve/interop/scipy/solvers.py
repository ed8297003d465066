"""SciPy's solvers with exact derivatives: `scipy.optimize.minimize(**bs.scipy.problem(f, x0))`.

Unknowns may be trees (dicts, lists, dataclasses of arrays): SciPy sees one vector, the function its own form.
Functions are compiled; those that cannot be staged run as they are written.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from ...api import hvp, jacobian, value_and_grad
from ...errors import StructureError
from ...hooks import hooks
from ..flat import Form, compiled, joined, real
from ..sparse import by_pattern, jacobian_of

_WITHOUT_GRADIENT = {"nelder-mead", "powell", "cobyla", "cobyqa"}
_WITH_HESSIAN = {"dogleg", "trust-exact"}
_WITH_PRODUCTS = {"newton-cg", "trust-ncg", "trust-krylov", "trust-constr"}


class Problem(dict[str, Any]):
    """Keyword arguments for a solver of SciPy's; `form(x)` gives its vector back in the form of the start."""

    def __init__(self, form: Form, **arguments: Any):
        super().__init__(arguments)
        self.form = form.tree


def problem(
    f: Callable[..., Any],
    x0: Any,
    args: tuple[Any, ...] = (),
    *,
    method: str | None = None,
    hess: bool = False,
    hessp: bool = False,
) -> Problem:
    """What `scipy.optimize.minimize` asks for: fun with its gradient, and second derivatives on request.

    `method`, if given here, is handed on, and decides which derivatives are.

    >>> import numpy as np, scipy.optimize, backsolve as bs
    >>> def f(p):
    ...     return (p["a"] - 1) ** 2 + ((p["b"] - np.array([2.0, 3.0])) ** 2).sum()
    >>> p = bs.scipy.problem(f, {"a": 0.0, "b": np.zeros(2)}, method="trust-ncg")
    >>> found = scipy.optimize.minimize(**p)
    >>> p.form(found.x)
    {'a': 1.0, 'b': array([2., 3.])}
    """
    form = Form(x0)
    name = (method or "").lower()
    hess, hessp = hess or name in _WITH_HESSIAN, hessp or name in _WITH_PRODUCTS

    def flat(x: Any, *rest: Any) -> Any:
        return hooks.users(f)(form.inside(x), *rest)

    if name in _WITHOUT_GRADIENT:
        value = compiled(flat)
        found = Problem(form, fun=lambda x, *rest: float(value(x, *rest)), x0=form.vector)
    else:
        both = compiled(value_and_grad(flat))

        def fun(x: Any, *rest: Any) -> tuple[float, Any]:
            value, gradient = both(x, *rest)
            return float(value), gradient

        found = Problem(form, fun=fun, jac=True, x0=form.vector)
    if hess:
        found["hess"] = jacobian_of(flat, second=True, dense=name != "trust-constr")
    elif hessp:
        along = compiled(lambda x, v, *rest: _along(flat, x, v, rest))
        found["hessp"] = along
    if args != ():
        found["args"] = _tuple(args)
    if method is not None:
        found["method"] = method
    return found


def _along(f: Callable[..., Any], x: Any, v: Any, rest: tuple[Any, ...]) -> Any:
    return hvp(f)(x, *rest, v)


def minimize(
    f: Callable[..., Any], x0: Any, args: tuple[Any, ...] = (), method: str = "BFGS", **options: Any
) -> Any:
    """`scipy.optimize.minimize` with exact derivatives; the result's `form` is x in the form of x0.

    Bounds are SciPy's, or (lower, upper), each in the form of x0.
    """
    from scipy.optimize import Bounds, minimize

    if options.get("jac") is not None:
        raise StructureError(
            "bs.scipy.minimize computes the gradient itself: leave out jac=, and let the function return its "
            "value alone; scipy.optimize.minimize takes a gradient of your own"
        )
    given = problem(f, x0, args, method=method)
    if "bounds" in options:
        options["bounds"] = _bounds(Form(x0), options["bounds"], Bounds)
    return _with_form(minimize(**{**given, **options}), given.form)


def least_squares(
    f: Callable[..., Any],
    x0: Any,
    args: tuple[Any, ...] = (),
    *,
    kwargs: dict[str, Any] | None = None,
    jac_sparsity: Any = None,
    **options: Any,
) -> Any:
    """`scipy.optimize.least_squares` with the exact Jacobian; the result's `form` is x in the form of x0.

    Bounds are (lower, upper), arrays or each in the form of x0.

    Of many unknowns and few entries the Jacobian is sparse, and its pattern found (then SciPy solves by lsmr;
    `tr_solver="exact"` keeps it dense). With `jac_sparsity`, a pattern as SciPy takes it, columns that meet in
    no row are computed together, and a pattern that leaves out an entry is refused.

    >>> import numpy as np, backsolve as bs
    >>> bs.scipy.least_squares(lambda x: np.stack([10 * (x[1] - x[0] ** 2), 1 - x[0]]), np.zeros(2)).x
    array([1., 1.])
    """
    from scipy.optimize import least_squares

    form = Form(x0)
    dense = options.get("method") == "lm" or options.get("tr_solver") == "exact"
    value, jac = _residuals(f, form, dense, kwargs or {})
    if jac_sparsity is not None:
        whole = lambda x, *rest: joined(hooks.users(f)(form.inside(x), *rest, **(kwargs or {})))
        jac = by_pattern(whole, jac_sparsity)
    given = {"fun": value, "x0": form.vector, "jac": jac, "args": _tuple(args)}
    if "bounds" in options:
        options["bounds"] = _bounds(form, options["bounds"], lambda *sides: sides)
    return _with_form(least_squares(**{**given, **options}), form.tree)


def root(
    f: Callable[..., Any], x0: Any, args: tuple[Any, ...] = (), method: str = "hybr", **options: Any
) -> Any:
    """`scipy.optimize.root` with the exact Jacobian; the result's `form` is x in the form of x0."""
    from scipy.optimize import root

    form = Form(x0)
    value, jac = _residuals(f, form, dense=True)
    given: dict[str, Any] = {
        "fun": value,
        "x0": form.vector,
        "args": _tuple(args),
        "method": method,
    }
    if method in ("hybr", "lm"):  # the others do not ask for one
        given["jac"] = jac
    return _with_form(root(**{**given, **options}), form.tree)


def solve_ivp(
    f: Callable[..., Any],
    t_span: tuple[float, float],
    y0: Any,
    method: str = "Radau",
    *,
    args: tuple[Any, ...] = (),
    events: Any = None,
    **options: Any,
) -> Any:
    """`scipy.integrate.solve_ivp` with the exact Jacobian of f(t, y, *args), which has the form of y0.

    The result's `form` is y in the form of y0, the times along the last axis of every leaf. `events` see that
    form, too.
    """
    from scipy.integrate import solve_ivp

    form = Form(y0)

    def flat(y: Any, t: Any, *rest: Any) -> Any:
        return joined(hooks.users(f)(t, form.inside(y), *rest))

    value, slope = compiled(flat), jacobian_of(flat, dense=method == "LSODA")
    given: dict[str, Any] = {"method": method, "args": _tuple(args) or None}
    if method in ("Radau", "BDF", "LSODA"):
        given["jac"] = lambda t, y, *rest: slope(y, t, *rest)
    if events is not None:
        listed = events if isinstance(events, list | tuple) else [events]
        given["events"] = [_event(e, form) for e in listed]
    result = solve_ivp(
        lambda t, y, *rest: value(y, t, *rest), t_span, form.vector, **{**given, **options}
    )
    result["form"] = form.columns(result.y)
    return result


def _event(event: Callable[..., Any], form: Form) -> Callable[..., Any]:
    def call(t: Any, y: Any, *rest: Any) -> Any:
        return float(event(t, form.tree(y), *rest))

    for name in ("terminal", "direction"):
        if hasattr(event, name):
            setattr(call, name, getattr(event, name))
    return call


def curve_fit(
    model: Callable[..., Any], xdata: Any, ydata: Any, p0: Any = None, **options: Any
) -> tuple[Any, Any]:
    """`scipy.optimize.curve_fit` with the exact Jacobian of model(x, *p): the parameters and their covariance.

    It begins at p0 or, as SciPy does, at 1 for each parameter or between its bounds.

    >>> import numpy as np, backsolve as bs
    >>> t = np.linspace(0, 1, 9)
    >>> p, cov = bs.scipy.curve_fit(lambda t, a, b: a * np.exp(-b * t), t, 2 * np.exp(-3 * t), [1.0, 1.0])
    >>> np.round(p, 6)
    array([2., 3.])
    """
    from scipy.optimize import curve_fit

    def flat(p: Any, x: Any) -> Any:
        return hooks.users(model)(x, *[p[k] for k in range(len(p))])

    value, slope = compiled(flat), compiled(jacobian(flat))

    def f(x: Any, *p: Any) -> Any:
        return real(np.asarray(value(np.array(p, float), x)))

    def jac(x: Any, *p: Any) -> Any:
        return slope(np.array(p, float), x)

    real(np.asarray(ydata))
    if p0 is None:  # SciPy counts the parameters
        vars(f)["__signature__"] = inspect.signature(model)
    return curve_fit(
        f, xdata, ydata, None if p0 is None else np.asarray(p0, float), jac=jac, **options
    )


def _residuals(
    f: Callable[..., Any], form: Form, dense: bool, named: dict[str, Any] | None = None
) -> tuple[Any, Any]:
    def flat(x: Any, *rest: Any) -> Any:
        return joined(hooks.users(f)(form.inside(x), *rest, **(named or {})))

    return compiled(flat), jacobian_of(flat, dense=dense)


def _tuple(args: Any) -> tuple[Any, ...]:
    return args if isinstance(args, tuple) else (args,)


def _bounds(form: Form, given: Any, made: Callable[[Any, Any], Any]) -> Any:
    """Bounds in the form of the start as SciPy takes them; all others as they are."""
    sides = form.bounds(given)
    if sides is not None and not form.is_vector:
        return made(*sides)
    if isinstance(given, dict):
        raise StructureError("bounds are (lower, upper), each in the form of the start; got a dict")
    return given


def _with_form(result: Any, form: Callable[[Any], Any]) -> Any:
    result["form"] = form(result.x)
    return result
