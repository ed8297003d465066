"""Laplacian, diagonal and trace of a Hessian, by one pass ahead (solve/second.py)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import random, tree
from ..api import jvp, value_and_grad, vmap
from ..api.curved import (
    curved_diagonal,
    curved_hvp,
    curved_laplacian,
    points_of,
    tangents_like,
)
from ..errors import (
    NotDifferentiableError,
    NotScalarError,
    StructureError,
    UnsupportedError,
    check_function,
)
from ..kinds import same_kind
from ..replay import is_numeric, number, replay
from ..solve.partials import Partials, seeds
from ..solve.rows import type_of_value
from ..solve.second import Rows, Second
from ..tensor import Tensor
from ..vary import ArgNums, Varied, numbers_of
from .arguments import no_complex, of_chosen


def laplacian(
    f: Callable[..., Any], argnums: ArgNums = 0, *, with_gradient: bool = False
) -> Callable[..., Any]:
    """Δf = Σ_k ∂²f/∂x_k² of each number that f gives, over all entries of `argnums`, in one pass ahead.

    With `with_gradient`, (f, ∇f, Δf): the pass has the first two anyway. Of what `bs.on` declared it is the
    trace of the Riemannian Hessian, by as many products with it as a tangent has entries.

    >>> import numpy as np
    >>> laplacian(lambda x: np.sum(x**3))(np.array([1.0, 2.0]))
    np.float64(18.0)
    """

    check_function("laplacian", f)

    @functools.wraps(f)
    def run(*args: Any, **kwargs: Any) -> Any:
        if points_of(args):
            bent = curved_laplacian(f, argnums, args, kwargs)
            first = value_and_grad(f, argnums)(*args, **kwargs) if with_gradient else ()
            return (*first, bent) if with_gradient else bent
        values, found, structure, varied = _passed("laplacian", f, args, kwargs, argnums, False)
        result = structure.unflatten(
            [same_kind(_second(s), v) for s, v in zip(found, values, strict=True)]
        )
        if not with_gradient:
            return result
        gradient = structure.unflatten(
            [
                _by_argument(varied, s.first if isinstance(s, Second) else None, v)
                for s, v in zip(found, values, strict=True)
            ]
        )
        return structure.unflatten(values), gradient, result

    return run


def hessian_diagonal(f: Callable[..., Any], argnums: ArgNums = 0) -> Callable[..., Any]:
    """∂²f/∂x_k² for every entry of `argnums`, in their form; of an f of shape S, arrays of shape S + theirs.

    >>> import numpy as np
    >>> hessian_diagonal(lambda x: np.sum(x**3) * x[0])(np.array([1.0, 2.0]))
    array([12., 12.])
    """

    check_function("hessian_diagonal", f)

    @functools.wraps(f)
    def run(*args: Any, **kwargs: Any) -> Any:
        points = points_of(args)
        if not all(p.is_in_coordinates for p in points.values()):
            raise UnsupportedError(
                "hessian_diagonal is by entries, which are no coordinates of a manifold: declare "
                "bs.on(manifold, x, coordinates=True), or take bs.laplacian"
            )
        if points:
            return curved_diagonal("hessian_diagonal", f, argnums, args, kwargs)
        values, found, structure, varied = _passed(
            "hessian_diagonal", f, args, kwargs, argnums, True
        )
        return structure.unflatten(
            [_by_argument(varied, _second(s), v) for s, v in zip(found, values, strict=True)]
        )

    return run


def hessian_trace(
    f: Callable[..., Any],
    argnums: ArgNums = 0,
    *,
    samples: int | None = None,
    state: random.State | None = None,
) -> Callable[..., Any]:
    """The trace of the Hessian of a function of one result: exact, or a mean over `samples` of vᵀ H v.

    The estimate (Hutchinson's) draws the signs of v from `state`, made by `bs.random.key`; each sample costs
    two forward substitutions, whatever the number of parameters; on manifolds one product with the Hessian.

    >>> import backsolve as bs
    >>> f = lambda x: np.sum(x**2) + x[0] * x[1]
    >>> hessian_trace(f)(np.ones(3))
    np.float64(6.0)
    >>> abs(hessian_trace(f, samples=64, state=bs.random.key(0))(np.ones(3)) - 6.0) < 1
    np.True_
    """
    check_function("hessian_trace", f)
    if samples is None:
        if state is not None:
            raise StructureError("hessian_trace draws nothing without samples=…: leave out `state`")
        exact = laplacian(f, argnums)

        @functools.wraps(f)
        def whole(*args: Any, **kwargs: Any) -> Any:
            found = exact(*args, **kwargs)
            _check_one("hessian_trace", found)
            return found

        return whole
    if not isinstance(samples, int | np.integer) or samples < 1:
        raise ValueError(f"hessian_trace needs a number of samples of at least 1, got {samples!r}")
    if not isinstance(state, random.State):
        raise StructureError(
            "hessian_trace with samples=… needs a random state: state=bs.random.key(0)"
        )

    @functools.wraps(f)
    def estimate(*args: Any, **kwargs: Any) -> Any:
        g, chosen = of_chosen("hessian_trace", f, args, kwargs, argnums)
        points = points_of(tuple(chosen))
        leaves, structure = tree.flatten(tangents_like(tuple(chosen)))
        states = [random.fold_in(state, k) for k in range(len(leaves))]
        signs = [_signs(s, samples, x) for s, x in zip(states, leaves, strict=True)]

        def bend(*vs: Any) -> Any:
            v = structure.unflatten(vs)

            def slope(*xs: Any) -> Any:
                y, t = jvp(g, xs, v)
                _check_one("hessian_trace", y)
                return 0.0 if t is None else t

            return jvp(slope, tuple(chosen), v)[1]

        def curved(*vs: Any) -> Any:
            """vᵀ H P v: the curvature of the manifold, too, which second derivatives ahead do not see."""
            ways = [points[k].projected(v) if k in points else v for k, v in enumerate(vs)]
            bent = curved_hvp(g, range(len(chosen)), chosen, structure.unflatten(ways), {})
            products = zip(vs, tree.flatten(bent)[0], strict=True)
            return sum([np.sum(v * h) for v, h in products])

        return np.mean(vmap(curved if points else bend)(*signs), axis=0)

    return estimate


def _signs(state: random.State, samples: int, like: Any) -> Any:
    shape, dtype = (samples, *np.shape(like)), getattr(like, "dtype", np.dtype(float))
    no_complex([like], "hessian_trace")
    draws = random.bernoulli(state, 0.5, shape)
    return np.where(draws, 1.0, -1.0).astype(dtype)


def _passed(
    what: str,
    f: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    argnums: ArgNums,
    apart: bool,
) -> tuple[list[Any], list[Any], tree.Structure, Varied]:
    """f's values, what the pass made of them, their form, and the arguments that varied."""
    g, chosen = of_chosen(what, f, args, kwargs, argnums)
    varied = Varied(what, chosen, range(len(chosen)))
    varied.single = numbers_of(argnums)[0]
    numbers = [number(x) for x, s in zip(varied.originals, varied.static, strict=True) if not s]
    no_complex(varied.rows, what)
    first = seeds([r.shape for r in varied.rows], [r.dtype for r in varied.rows])
    given = [Second(x, p) for x, p in zip(numbers, first, strict=True)]
    types = [type_of_value(x) for x in numbers]
    with np.errstate(all="ignore"):
        values, found, structure = replay(g, varied, given, types, Rows(apart))
        odd = [type(y).__name__ for y in values if not is_numeric(y)]
        if odd or not values:
            got = f"a result of type {odd[0]}" if odd else "none: is a `return` missing?"
            raise NotDifferentiableError(
                f"{what} needs a function whose results are numbers, got {got}"
            )
        for s in found:
            _second(s)
    varied.finish()
    return values, found, structure, varied


def _second(s: Any) -> Any:
    return s.second if isinstance(s, Second) else None


def _by_argument(varied: Varied, found: Partials | None, value: Any) -> Any:
    """Partials of one result, cut into the arguments' form."""
    shape = np.shape(value)
    sizes = [r.size for r in varied.rows]
    ends = np.cumsum([0, *sizes]).tolist()
    pieces: list[Any] = []
    flat = None if found is None else np.moveaxis(found.dense(), 0, -1)
    for r, start, end in zip(varied.rows, ends, ends[1:], strict=False):
        if flat is None:
            pieces.append(np.zeros((*shape, *r.shape), r.dtype))
        else:
            pieces.append(np.reshape(flat[..., start:end], (*shape, *r.shape)))
    return varied.like(pieces, None if not shape else _kept)


def _kept(g: Any, like: Any) -> Any:
    return g if isinstance(g, Tensor) else np.array(g)


def _check_one(what: str, y: Any) -> None:
    if isinstance(y, list | tuple | dict) or not is_numeric(y) or np.shape(y) != ():
        raise NotScalarError(f"`{what}` needs a function of one real number; use bs.laplacian")
