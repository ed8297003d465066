"""Dense and sparse Jacobians and Hessians, and the product of a Hessian with a vector."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import tree
from ..errors import StructureError, UnsupportedError, check_function
from ..hooks import hooks
from ..ir import Var
from ..primitive import wrap
from ..results import check_differentiable
from ..solve.auto import choose
from ..solve.many import plain_jacobian
from ..solve.ways import check_method
from ..system import WAYS, System, in_dtype
from ..tensor import Tensor
from ..vary import ArgNums, Varied, numbers_of
from .curved import curved_hessian, curved_hvp, points_of
from .gradients import grad, jvp
from .systems import system_of


def jacobian(
    f: Callable[..., Any],
    argnums: ArgNums = 0,
    method: str = "auto",
    order: Any = None,
    *,
    sparse: Any = False,
) -> Callable[..., Any]:
    """The dense Jacobian: for an output of shape S and an argument of shape T, an array S + T.

    `method` is "forward" (a column a solve), "reverse" (a row a solve), "colour" (one solve for all columns or
    rows that have no entry in common), "scan" (the rounds of a loop that Python ran, all at once), "auto" (the
    cheapest by its price, see `explain_cost`; inside `jit`, plain ways of nearly the same price are timed),
    "measured" (so are all ways, eager ones when a structure is first met), or "eliminate": rows of the system
    are removed one after the other, in an `order` as `System.jacobian` takes it. With `sparse=True`, or a plan
    by `bs.sparsity`, matrices of scipy.sparse instead, whose pattern is found once per type.

    >>> import numpy as np
    >>> jacobian(lambda x: x**2)(np.array([1.0, 2.0]))
    array([[2., 0.],
           [0., 4.]])
    >>> by_hand = jacobian(lambda x: np.sin(x[0] * x[1]), method="eliminate", order=[4, 1, 3, 2])
    >>> by_hand(np.array([0.0, 2.0]))
    array([2., 0.])
    """
    check_function("jacobian", f)
    check_method(method, order)
    if not _is_false(sparse):
        _check_no_way(method, "auto")
        return _sparse(f, argnums, sparse)

    chosen: dict[Any, Any] = {}

    @functools.wraps(f)
    def run(*args: Any, **kwargs: Any) -> Any:
        if method in ("eliminate", "colour"):
            system, varied = system_of("jacobian", f, args, kwargs, argnums)
            structure = system._out_form
            columns = WAYS["jacobian"](system, method, order)
        else:
            varied = Varied("jacobian", args, argnums)
            outputs, structure = tree.flatten(hooks.users(f)(*varied.args, **kwargs))
            check_differentiable("jacobian", outputs)
            columns = _jacobian_blocks(varied, outputs, method, chosen)
        # A `Function` or a compiled one gives Tensors, whose rows may be our own.
        dtypes = [r.dtype for r in varied.rows]
        columns = [[varied.release(g) for g in map(in_dtype, row, dtypes)] for row in columns]
        varied.finish()
        return structure.unflatten([varied.like(row, _as_jacobian) for row in columns])

    return run


def _is_false(sparse: Any) -> bool:
    return isinstance(sparse, bool | np.bool) and not sparse


def _check_no_way(method: str, default: str) -> None:
    if method not in ("auto", default):
        raise ValueError(
            f"method={method!r} is of dense matrices: leave it out, or choose a way of sparse ones, "
            'sparse=bs.sparsity(f, *args, method="colour")'
        )


def _sparse(f: Callable[..., Any], argnums: ArgNums, plan: Any, hessian: bool = False) -> Any:
    way = importlib.import_module("..sparse", __package__)
    return way.sparse_jacobian(f, argnums, plan, hessian)


def _jacobian_blocks(
    varied: Varied, outputs: Sequence[Any], method: str, chosen: dict[Any, Any]
) -> list[list[Any]]:
    """[output][input] -> array of shape output.shape + input.shape; `chosen` is what was chosen before."""
    live = [y for y in outputs if isinstance(y, Tensor) and y.row is not None]
    out_rows: list[Any] = [y.row for y in live]
    rows, record = varied.gather(live)
    if method in ("auto", "measured"):
        is_staged = any([type(y._v) is Var for y in live])
        made: list[System] = []

        def system() -> System:
            if not made:
                made.append(_system(varied, live, rows, record))
            return made[0]

        best = choose(
            rows,
            varied.rows,
            out_rows,
            record=record,
            is_staged=is_staged,
            system=system,
            measured=method == "measured",
            chosen=chosen,
        )
        method = best.way
        if method not in ("forward", "reverse"):
            return _in_place(WAYS["chosen"](system(), best), varied, outputs, live)
    if method == "scan":
        whole = _system(varied, live, rows, record)
        return _in_place(WAYS["jacobian"](whole, method), varied, outputs, live)
    found = plain_jacobian(method, rows, out_rows, varied.rows, record)
    return _in_place(found, varied, outputs, live)


def _in_place(
    blocks: Sequence[list[Any]], varied: Varied, outputs: Sequence[Any], live: Sequence[Tensor]
) -> list[list[Any]]:
    """The blocks of live outputs, and zeros for the others."""
    numbers = {id(y): k for k, y in enumerate(live)}
    return [blocks[numbers[id(y)]] if id(y) in numbers else _no_blocks(varied, y) for y in outputs]


def _no_blocks(varied: Varied, y: Any) -> list[Any]:
    shape = y.shape if hasattr(y, "shape") else np.shape(y)
    return [np.zeros((*shape, *r.shape), r.dtype) for r in varied.rows]


def _system(varied: Varied, live: Sequence[Tensor], rows: Sequence[Any], record: bool) -> System:
    return System(
        rows=rows,
        parameters=varied.rows,
        outputs=live,
        record=record,
        names=[],
        in_form=varied.like,
        in_structure=varied.structure,
        out_form=varied.structure,
        values={},
        constants={},
        lines={},
        merge=False,  # what is constant in a row is not known here
    )


def _as_jacobian(g: Any, like: Any) -> Any:
    if isinstance(g, Tensor) or isinstance(like, Tensor):
        return g if isinstance(g, Tensor) else wrap(np.asarray(g), None)
    g = np.array(g)
    return g.item() if g.ndim == 0 and type(like) in (float, complex) else g


def hessian(
    f: Callable[..., Any],
    argnums: ArgNums = 0,
    method: str = "forward",
    order: Any = None,
    *,
    sparse: Any = False,
) -> Callable[..., Any]:
    """The matrix of second derivatives: the Jacobian of the gradient, forward over reverse.

    `method`, `order` and `sparse` are those of `jacobian`, and say how the system of the gradient is solved.

    >>> import numpy as np
    >>> hessian(lambda x: x[0] ** 2 * x[1])(np.array([1.0, 3.0]))
    array([[6., 2.],
           [2., 0.]])
    """
    if not _is_false(sparse):
        check_method(method, order)
        _check_no_way(method, "forward")
        whole: Callable[..., Any] = _sparse(f, argnums, sparse, hessian=True)
    else:
        whole = jacobian(grad(f, argnums), argnums, method, order)

    @functools.wraps(whole)
    def run(*args: Any, **kwargs: Any) -> Any:
        if points_of(args):
            if not _is_false(sparse) or method != "forward":
                raise UnsupportedError(
                    "the Riemannian Hessian is a projected one: leave out sparse= and method="
                )
            return curved_hessian(f, argnums, args, kwargs)
        return whole(*args, **kwargs)

    return run


def hvp(f: Callable[..., Any], argnums: ArgNums = 0) -> Callable[..., Any]:
    """Hessian times a vector, without the Hessian: `hvp(f)(*args, v)`, v of the form of `argnums`.

    >>> import numpy as np
    >>> hvp(lambda x: (x**3).sum())(np.array([1.0, 2.0]), np.array([1.0, 0.0]))
    array([6., 0.])
    """

    @functools.wraps(f)
    def run(*args: Any, **kwargs: Any) -> Any:
        if len(args) < 2:
            raise StructureError(
                "hvp(f) is called with f's arguments and then the vector: hvp(f)(x, v)"
            )
        *primals, v = args
        single, numbers = numbers_of(argnums)
        chosen = [primals[n] for n in numbers]
        if points_of(chosen):
            return curved_hvp(f, argnums, primals, v, kwargs)

        def gradient(*parts: Any) -> Any:
            inner = list(primals)
            for n, part in zip(numbers, parts, strict=True):
                inner[n] = part
            return grad(f, argnums)(*inner, **kwargs)

        return jvp(gradient, chosen, [v] if single else v)[1]

    return run
