"""NumPy's two protocols: what `numpy.f(tensor)` does when it is not a plain ufunc call."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from .. import tree
from ..errors import DTypeError, UnsupportedError
from ..links import VIEWS, views
from ..primitive import ARRAY_FUNCTIONS, FUNCTIONS, UFUNCS, P
from ..primitives.special import load_if_imported
from ..taken_away import check_sought
from ..tensor import Staged, Tensor
from ._register import dtype_of, named, ndim_of, shape_of
from .running import ASSOCIATIVE, accumulated, reduced, running_extremum
from .writing import check_target, ufunc_at

_REDUCE = {
    np.add: "sum",
    np.multiply: "prod",
    np.maximum: "max",
    np.minimum: "min",
    np.logical_and: "all",
    np.logical_or: "any",
    np.logaddexp: "logsumexp",
}
_ACCUMULATE = {np.add: "cumsum", np.multiply: "cumprod"}
_WITH_AXIS = {np.vecdot}  # generalised ufuncs whose implementation takes axis=


def _isnan(x: Any) -> Any:
    if isinstance(x, Tensor):
        check_sought(x)
    return P.isnan(x)


UFUNCS[np.isnan] = _isnan


def _varies(x: Any) -> bool:
    return isinstance(x, Tensor) and (x.row is not None or isinstance(x, Staged))


@named("array_ufunc")
def array_ufunc(
    ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    if ufunc not in UFUNCS:
        load_if_imported()
    options = {k: v for k, v in kwargs.items() if v is not None and v is not np._NoValue}
    out = options.pop("out", None)
    if out is not None:
        return _into(ufunc, method, inputs, options, out)
    if method == "__call__":
        return _call(ufunc, inputs, options)
    if method == "reduce" and ufunc in _REDUCE:
        axis = kwargs.get("axis", 0)  # None means all, absent means the first
        options.pop("axis", None)
        return FUNCTIONS[_REDUCE[ufunc]](inputs[0], axis=axis, **options)
    if method == "accumulate" and ufunc in _ACCUMULATE:
        return FUNCTIONS[_ACCUMULATE[ufunc]](inputs[0], **{"axis": 0, **options})
    if method == "accumulate" and ufunc in (np.maximum, np.minimum):
        return running_extremum(ufunc, inputs[0], options.get("axis", 0))
    if method == "accumulate" and ufunc in ASSOCIATIVE and not {*options} - {"axis"}:
        return accumulated(ufunc, inputs[0], options.get("axis", 0))
    if method == "reduce" and ufunc in ASSOCIATIVE and not {*options} - {"axis", "keepdims"}:
        return reduced(ufunc, inputs[0], kwargs.get("axis", 0), options.get("keepdims", False))
    if method == "outer" and ufunc in UFUNCS:
        a, b = inputs
        expanded = FUNCTIONS["reshape"](a, (*shape_of(a), *[1] * ndim_of(b)))
        return _call(ufunc, (expanded, b), options)
    if method == "at" and ufunc in UFUNCS:
        return ufunc_at(ufunc, *inputs)
    name = f"{_full_name(ufunc)}.{method}"
    return _fallback(name, lambda a, o: getattr(ufunc, method)(*a, **o), (list(inputs), kwargs))


def _full_name(ufunc: np.ufunc) -> str:
    """A ufunc does not know where it comes from."""
    for module in ("numpy", "scipy.special"):
        if getattr(sys.modules.get(module), ufunc.__name__, None) is ufunc:
            return f"{module}.{ufunc.__name__}"
    return ufunc.__name__


def _call(ufunc: np.ufunc, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
    name = _full_name(ufunc)
    dtype = options.pop("dtype", None)
    casting = options.pop("casting", "same_kind")
    options = {k: v for k, v in options.items() if k not in ("order", "subok")}
    impl = UFUNCS.get(ufunc) or FUNCTIONS.get(ufunc.__name__)
    if impl is None:
        if dtype is not None:
            options["dtype"] = dtype
        return _fallback(name, lambda a, o: ufunc(*a, **o), (list(inputs), options))
    if options.pop("where", True) is not True:
        raise UnsupportedError(
            f"`{name}` on a tensor does not take where=; use np.where on the result"
        )
    if options and ufunc not in _WITH_AXIS:
        raise UnsupportedError(f"`{name}` on a tensor does not take {', '.join(sorted(options))}")
    if dtype is not None:
        for a in inputs:
            if not np.can_cast(dtype_of(a), dtype, casting):
                raise DTypeError(
                    f"`{name}` cannot cast {dtype_of(a)} to {np.dtype(dtype)} ({casting!r})"
                )
        inputs = tuple(FUNCTIONS["astype"](a, dtype) for a in inputs)
    return impl(*inputs, **options)


def _into(ufunc: np.ufunc, method: str, inputs: Any, options: Any, out: tuple[Any, ...]) -> Any:
    """numpy.f(a, b, out=t): a tensor becomes the result; an ndarray cannot hold a derivative."""
    for target in out:
        if target is not None:
            check_target(target, ufunc.__name__)
    result = array_ufunc(ufunc, method, inputs, options)
    results = result if isinstance(result, tuple) else (result,)
    become = [r if o is None else o._become(r, "out=") for o, r in zip(out, results, strict=True)]
    return tuple(become) if isinstance(result, tuple) else become[0]


def _plain(x: Any) -> Any:
    return x.value if isinstance(x, Tensor) else x


def _fallback(name: str, run: Any, inputs: tuple[Any, ...]) -> Any:
    """NumPy itself, on the values, if nothing in them varies; else an error, never a lost derivative."""
    leaves, structure = tree.flatten(list(inputs))
    if any(isinstance(x, Staged) for x in leaves):
        raise UnsupportedError(
            f"`{name}` can neither be compiled nor differentiated here yet. Compose it from supported "
            "functions; or call it outside of the function that is compiled, and pass its result as an argument"
        )
    if any(_varies(x) for x in leaves):
        raise UnsupportedError(
            f"`{name}` has no derivative here yet. Compose it from supported functions, write it as a "
            "bs.Function, or take bs.stop_gradient(x) if it shall count as constant"
        )
    result = run(*structure.unflatten([_plain(x) for x in leaves]))
    return tree.map(_as_tensor, result)


def _as_tensor(y: Any) -> Any:
    numeric = isinstance(y, np.ndarray | np.generic) and y.dtype.kind in "biufc"
    return Tensor(y) if numeric else y


@named("array_function")
def array_function(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    impl = ARRAY_FUNCTIONS.get(func)
    if impl is None:
        module = (getattr(func, "__module__", "") or "").removeprefix("numpy").lstrip(".")
        prefix = f"{module}." if module in ("linalg", "fft") else ""
        impl = FUNCTIONS.get(prefix + func.__name__)
        if impl is None:
            name = f"numpy.{prefix}{func.__name__}"
            return _fallback(name, lambda a, k: func(*a, **k), (list(args), kwargs))
        impl = ARRAY_FUNCTIONS[func] = views(impl) if func.__name__ in VIEWS else impl
    out = kwargs.get("out")
    if out is None:
        return impl(*args, **kwargs)
    check_target(out, func.__name__)
    return out._become(impl(*args, **{k: v for k, v in kwargs.items() if k != "out"}), "out=")
