"""Jacobians for SciPy's solvers: sparse where the pattern is known or found to be, and dense elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..api import hessian, jacobian
from ..errors import BacksolveError
from ..sparse import Sparsity, plan_at_most, sparsity
from .flat import compiled

_FEW = 200  # unknowns, below which a dense matrix costs nothing
_FULL = 0.05  # the part of the entries from which on a sparse matrix does not pay


def by_pattern(f: Callable[..., Any], pattern: Any) -> Callable[..., Any]:
    """The Jacobian of f by a pattern that the user knows; one that leaves out an entry is refused."""
    plans: list[Callable[..., Any]] = []

    def call(x: Any, *rest: Any) -> Any:
        if not plans:
            plans.append(jacobian(f, sparse=sparsity(f, x, *rest, pattern=pattern)))
        return plans[0](x, *rest)

    return call


def jacobian_of(
    f: Callable[..., Any], *, second: bool = False, dense: bool = False
) -> Callable[..., Any]:
    """The Jacobian (or Hessian) of a function of a vector, as is cheapest: decided at the first call.

    It is eliminated, and sparse, if there are many unknowns and few entries. `dense` asks for an array in any
    case: for solvers that take no other, though one that is computed sparse if that pays.
    """
    chosen: list[Callable[..., Any]] = []

    def call(x: Any, *rest: Any) -> Any:
        if not chosen:
            plan = _plan(f, x, rest, second)
            if plan is None:
                chosen.append(compiled((hessian if second else jacobian)(f)))
            else:
                entries = (hessian if second else jacobian)(f, sparse=plan)
                chosen.append((lambda *a: entries(*a).toarray()) if dense else entries)
        return chosen[0](x, *rest)

    return call


def _plan(f: Callable[..., Any], x: Any, rest: tuple[Any, ...], second: bool) -> Sparsity | None:
    """A plan of elimination, if the function has one that pays."""
    if x.size < _FEW or x.dtype != float:
        return None
    try:
        return plan_at_most(_FULL, f, (x, *rest), second)
    except BacksolveError:  # what is wrong with the function itself, the dense way says
        return None
