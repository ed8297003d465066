"""Gradients and directional derivatives: back and forward substitution through one run of a function."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import tree
from ..declared import plain_structure
from ..errors import DTypeError, NotScalarError, ShapeError, StructureError, check_function
from ..hooks import hooks, undisturbed
from ..ir import type_of
from ..kinds import distinct, same_kind
from ..primitive import FUNCTIONS
from ..quiet import are_large, writes_nothing
from ..results import check_differentiable
from ..solve import forward_substitute
from ..tensor import Staged, Tensor
from ..vary import ArgNums, Varied


def value_and_grad(
    f: Callable[..., Any], argnums: ArgNums = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that returns f's value (or `(value, aux)`) and its gradient, in one run.

    >>> import numpy as np
    >>> value_and_grad(lambda x: (x**2).sum())(np.array([1.0, 2.0]))
    (np.float64(5.0), array([2., 4.]))
    """

    check_function("value_and_grad", f)

    @functools.wraps(f)
    def run(*args: Any, **kwargs: Any) -> Any:
        varied, y, aux, gradient = _differentiate(f, argnums, has_aux, args, kwargs)
        value = y if varied.record else varied.released(y)
        return ((value, aux), gradient) if has_aux else (value, gradient)

    vars(run)["__backsolve_value_and_grad_of__"] = (f, argnums)
    return run


def grad(f: Callable[..., Any], argnums: ArgNums = 0, has_aux: bool = False) -> Callable[..., Any]:
    """The gradient of a function of one real result, with respect to `argnums`.

    Arguments may be floats, arrays, Tensors, or dicts, lists, tuples and dataclasses of them; the
    gradient has the same form. For complex arguments it is ∂f/∂x + i ∂f/∂y, the direction of
    steepest ascent.

    >>> import numpy as np
    >>> grad(lambda x: np.log(x[0]) + x[0] * x[1] - np.sin(x[1]))(np.array([2.0, 5.0]))
    array([5.5       , 1.71633781])
    """

    check_function("grad", f)

    @functools.wraps(f)
    def run(*args: Any, **kwargs: Any) -> Any:
        _, _, aux, gradient = _differentiate(f, argnums, has_aux, args, kwargs)
        return (gradient, aux) if has_aux else gradient

    vars(run)["__backsolve_grad_of__"] = (f, argnums)
    return run


def _differentiate(
    f: Callable[..., Any],
    argnums: ArgNums,
    has_aux: bool,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> tuple[Varied, Any, Any, Any]:
    """One run of f: what varied in it, its result as it came, what it returned besides, and the gradient."""
    if are_large(args) and not undisturbed.depth and writes_nothing(f, (*args, *kwargs.values())):
        with undisturbed:
            return _differentiate(f, argnums, has_aux, args, kwargs)
    varied = Varied("grad", args, argnums)
    y, aux = hooks.users(f)(*varied.args, **kwargs), None
    if has_aux:
        y, aux = _split_aux(y)
    _check_scalar(y)
    if has_aux:
        aux = tree.map(varied.release, aux)
    if isinstance(y, Tensor) and y.row is not None:
        adjoints = distinct(varied.pull([(y, y.dtype.type(1))]))
    else:
        adjoints = [None] * len(varied.rows)
    gradient = varied.like(varied.gradients(adjoints) if varied.points else adjoints)
    varied.finish()
    return varied, y, aux, gradient


def vjp(f: Callable[..., Any], *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """f(*primals) and the function that pulls a seed of f's form back to all arguments.

    >>> import numpy as np
    >>> y, pull = vjp(np.sin, 0.0)
    >>> pull(2.0)
    (2.0,)
    """
    varied = Varied("vjp", primals, range(len(primals)))
    result, aux = hooks.users(f)(*varied.args), None
    if has_aux:
        result, aux = _split_aux(result)
    outputs, structure = tree.flatten(result)
    check_differentiable("vjp", outputs)

    def pull(seed: Any) -> Any:
        seeds = _match(seed, outputs, structure, "the seed")
        live = [
            (y, s)
            for y, s in zip(outputs, seeds, strict=True)
            if isinstance(y, Tensor) and y.row is not None
        ]
        return varied.like(distinct(varied.pull(live)))

    value, aux = tree.map(varied.release, result), tree.map(varied.release, aux)
    varied.finish()  # what a pullback gives varies with its seed, and with what is outside
    return (value, pull, aux) if has_aux else (value, pull)


def jvp(f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """f(*primals) and its directional derivative along `tangents`.

    >>> import numpy as np
    >>> jvp(np.sin, (0.0,), (1.0,))
    (0.0, 1.0)
    """
    for what, given in (("arguments", primals), ("directions", tangents)):
        if not isinstance(given, tuple | list):
            raise StructureError(
                f"jvp takes a tuple of {what}, jvp(f, (x,), (dx,)); got {type(given).__name__}"
            )
    varied = Varied("jvp", primals, range(len(primals)))
    flat = _match(tuple(tangents), varied.originals, varied.structure, "the tangents")
    for k, point in varied.points.items():
        flat[k] = point.checked(flat[k])
    seeds = [t for t, s in zip(flat, varied.static, strict=True) if not s]
    outputs, out_structure = tree.flatten(hooks.users(f)(*varied.args))
    check_differentiable("jvp", outputs)
    live = [y for y in outputs if isinstance(y, Tensor)]
    rows, record = varied.gather(live)
    record = record or any(
        isinstance(t, Tensor) and (t.row is not None or isinstance(t, Staged)) for t in seeds
    )
    pairs = list(zip(varied.rows, seeds, strict=True))
    found = forward_substitute(rows, pairs, [y.row for y in live], record=record)
    rest = iter(found)
    values = [varied.release(y) for y in outputs]
    varied.finish()
    images = [next(rest) if isinstance(y, Tensor) else None for y in outputs]
    images = distinct(
        [same_kind(t, v) if _is_numeric(v) else None for t, v in zip(images, values, strict=True)]
    )
    return out_structure.unflatten(values), out_structure.unflatten(images)


def stop_gradient(x: Any) -> Any:
    """The same values, constant from here on.

    >>> grad(lambda x: x * stop_gradient(x))(3.0)
    3.0
    """
    return tree.map(lambda leaf: leaf.detach() if isinstance(leaf, Tensor) else leaf, x)


def _split_aux(result: Any) -> tuple[Any, Any]:
    if not (isinstance(result, tuple | list) and len(result) == 2):
        raise StructureError(
            f"with has_aux=True the function must return (value, aux), got {type(result).__name__}"
        )
    return result[0], result[1]


def _check_scalar(y: Any) -> None:
    if type(y) is Tensor and y.shape == () and y.dtype.kind in "fbiu":
        return
    if isinstance(y, tuple | list | dict):
        raise NotScalarError(
            f"grad needs a function that returns one real number, got a {type(y).__name__}; "
            "use has_aux=True for further results, or jacobian"
        )
    if y is None:
        raise NotScalarError(
            "grad needs a function that returns one real number, got None: is a `return` missing?"
        )
    t = y if isinstance(y, Tensor) else np.asarray(y)
    if t.shape == () and t.dtype.kind in "fbiu":
        return
    if t.dtype.kind not in "fbiuc":
        raise NotScalarError(
            f"grad needs a function that returns one real number, got a {type(y).__name__}"
        )
    kind = "complex " if t.dtype.kind == "c" else ""
    raise NotScalarError(
        f"grad needs a function that returns one real number, got {kind}shape {t.shape} of {t.dtype}; "
        "reduce it with .sum() or .mean(), or ask for jacobian"
    )


def _is_numeric(v: Any) -> bool:
    return isinstance(v, Tensor | np.ndarray | np.generic | float | complex)


_TYPED = (Tensor, np.ndarray, np.generic)  # they have a shape and a dtype themselves


def _match(given: Any, like: Sequence[Any], structure: tree.Structure, what: str) -> list[Any]:
    """`given` flattened, checked against the form, shapes and dtypes of what it goes with."""
    leaves, got = tree.flatten_like(given, structure)
    if got != structure and plain_structure(got) != structure:
        raise StructureError(
            f"{what} must have the form of what it goes with: {structure.unflatten(like)!r}"
            + tree.sharing_note(structure, got)
        )
    out: list[Any] = []
    for g, x in zip(leaves, like, strict=True):
        t = x if isinstance(x, _TYPED) else type_of(x)
        if not isinstance(g, Tensor):
            g = np.asarray(g)
        if g.shape != t.shape:
            raise ShapeError(f"{what} must have shape {t.shape}, got {g.shape}")
        if g.dtype.kind == "c" and t.dtype.kind != "c":
            raise DTypeError(
                f"{what} must be real where the value is real ({t.dtype}), got complex"
            )
        if t.dtype.kind not in "fc":
            out.append(g)
        elif isinstance(g, Tensor):
            g = FUNCTIONS["astype"](g, t.dtype) if g.dtype != t.dtype else g
            out.append(g if g.row is not None or isinstance(g, Staged) else g._v)
        else:
            out.append(g.astype(t.dtype)[()])
    return out
