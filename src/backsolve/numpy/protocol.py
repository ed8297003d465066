"""NumPy's two protocols: what `numpy.f(tensor)` does when it is not a plain ufunc call."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import tree
from ..errors import InPlaceError, UnsupportedError
from ..primitive import FUNCTIONS, UFUNCS
from ..tensor import Tensor
from ._register import named

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
_AT = {np.add: 1.0, np.subtract: -1.0}


def _varies(x: Any) -> bool:
    return isinstance(x, Tensor) and (x.row is not None or type(x).__name__ == "Staged")


def _plain(x: Any) -> Any:
    return x._known("its value") if isinstance(x, Tensor) else x


@named("array_ufunc")
def array_ufunc(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    out = kwargs.pop("out", None)
    if out is not None:
        return _into(ufunc, method, inputs, kwargs, out)
    if method == "__call__":
        result = _call(ufunc, inputs, kwargs)
    elif method == "reduce" and ufunc in _REDUCE:
        axis = kwargs.pop("axis", inputs[1] if len(inputs) > 1 else 0)
        result = FUNCTIONS[_REDUCE[ufunc]](inputs[0], axis=axis, **kwargs)
    elif method == "accumulate" and ufunc in _ACCUMULATE:
        result = FUNCTIONS[_ACCUMULATE[ufunc]](inputs[0], **{"axis": 0, **kwargs})
    elif method == "outer" and ufunc in UFUNCS:
        a, b = inputs
        expanded = FUNCTIONS["reshape"](a, (*np.shape(a), *[1] * np.ndim(b)))
        result = UFUNCS[ufunc](expanded, b)
    elif method == "at" and ufunc in _AT:
        return _add_at(ufunc, *inputs)
    else:
        result = _fallback(f"numpy.{ufunc.__name__}.{method}", lambda *a: getattr(ufunc, method)(*a, **kwargs), inputs)
    return result


def _call(ufunc: np.ufunc, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    dtype = kwargs.pop("dtype", None)
    kwargs.pop("casting", None)
    kwargs.pop("order", None)
    kwargs.pop("subok", None)
    name = f"numpy.{ufunc.__name__}"
    impl = UFUNCS.get(ufunc, FUNCTIONS["matmul"] if ufunc is np.matmul else FUNCTIONS.get(ufunc.__name__))
    if impl is None:
        return _fallback(name, lambda *a: ufunc(*a, dtype=dtype, **kwargs), inputs)
    if kwargs.get("where", True) is not True:
        raise UnsupportedError(f"`{name}` on a tensor does not take where=; use np.where on the result")
    if dtype is not None:
        inputs = tuple(FUNCTIONS["astype"](a, dtype) for a in inputs)
    return impl(*inputs)


def _into(ufunc: np.ufunc, method: str, inputs: Any, kwargs: Any, out: tuple[Any, ...]) -> Any:
    """numpy.f(a, b, out=t): a tensor becomes the result; an ndarray cannot hold a derivative."""
    for target in out:
        if target is not None and not isinstance(target, Tensor):
            raise InPlaceError(
                f"`{ufunc.__name__}` was to write a Tensor into an ndarray (out=, or `a += t` with an "
                "array a), which would drop its derivative. Write a = a + t, or make the array a "
                "tensor first: a = bs.tensor(a)"
            )
    result = array_ufunc(ufunc, method, inputs, kwargs)
    if len(out) != 1:
        raise UnsupportedError(f"out= with several results (`{ufunc.__name__}`)")
    return out[0]._become(result, "out=")


def _add_at(ufunc: np.ufunc, target: Any, key: Any, values: Any) -> None:
    """numpy.add.at(x, key, v): unbuffered, so repeated places add up."""
    if not isinstance(target, Tensor):
        raise InPlaceError("np.add.at into an ndarray would drop the derivative; make it a tensor first")
    zero = Tensor(np.zeros(target.shape, target.dtype))
    numbers = np.arange(target.size).reshape(target.shape)[_plain(key)]
    flat = FUNCTIONS["ravel"](FUNCTIONS["broadcast_to"](values, numbers.shape))
    from ..primitive import P

    added = P.scatter_add(flat * _AT[ufunc] + zero.reshape(-1)[:1] * 0, numbers.reshape(-1), shape=(target.size,))
    target._become(target + added.reshape(target.shape), "np.add.at")


def _fallback(name: str, run: Any, inputs: tuple[Any, ...]) -> Any:
    """NumPy itself, on the values, if nothing in them varies; else an error, never a lost derivative."""
    leaves, structure = tree.flatten(list(inputs))
    if any(_varies(x) for x in leaves):
        raise UnsupportedError(
            f"`{name}` has no derivative here yet. Compose it from supported functions, write it as a "
            "bs.Function, or take bs.stop_gradient(x) if it shall count as constant"
        )
    result = run(*structure.unflatten([_plain(x) for x in leaves]))
    return tree.map(lambda y: Tensor(y) if isinstance(y, np.ndarray | np.generic) and y.dtype.kind in "biufc" else y, result)


_IMPLEMENTATIONS: dict[Any, Any] = {}


@named("array_function")
def array_function(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    impl = _IMPLEMENTATIONS.get(func)
    if impl is None:
        module = (getattr(func, "__module__", "") or "").removeprefix("numpy").lstrip(".")
        prefix = f"{module}." if module in ("linalg", "fft") else ""
        impl = FUNCTIONS.get(prefix + func.__name__)
        if impl is None:
            name = f"numpy.{prefix}{func.__name__}"
            return _fallback(name, lambda a, k: func(*a, **k), (list(args), kwargs))
        _IMPLEMENTATIONS[func] = impl
    out = kwargs.pop("out", None)
    if out is not None:
        if not isinstance(out, Tensor):
            raise InPlaceError(f"`{func.__name__}` was to write a Tensor into an ndarray (out=)")
        return out._become(impl(*args, **kwargs), "out=")
    return impl(*args, **kwargs)
