"""`save`: a function, a module or a derivative as an ONNX file."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..named import require_function_and_path
from ..safetensors import write_whole


def save(
    f: Callable[..., Any],
    path: str | os.PathLike[str],
    *args: Any,
    batch: Mapping[str, int] | bool = False,
    weights: int | Sequence[int] | None = None,
    outputs: Sequence[str] | None = None,
    **kwargs: Any,
) -> None:
    """Write a function, a module or a derivative as an ONNX model, for arguments of the types of the example's.

    Inputs are named after the function's arguments. Arrays of modules, and of the arguments at `weights`, are
    part of the file, under the names that `state_dict` has. With `batch=True` the first axis of all arrays
    that are given may have any length, with `batch={"x": 1}` an axis of some; a ShapeError says if the program
    is another for another length. Without, the graph is for the lengths of the example. `outputs` are names for
    the results. What ONNX has no operators for is an error that names the primitive and the line.

    >>> import numpy as np, backsolve as bs, tempfile
    >>> path = tempfile.mkdtemp() + "/loss.onnx"
    >>> save(bs.grad(lambda x: np.sum(np.tanh(x) ** 2)), path, np.ones(3), batch=True)
    >>> bs.interop.onnx.load(path)(np.zeros(5))
    array([0., 0., 0., 0., 0.])
    """
    require_function_and_path(f, path)
    made = proto(f, *args, batch=batch, weights=weights, outputs=outputs, **kwargs)
    write_whole(path, made.SerializeToString())


def proto(
    f: Callable[..., Any],
    *args: Any,
    batch: Mapping[str, int] | bool = False,
    weights: int | Sequence[int] | None = None,
    outputs: Sequence[str] | None = None,
    **kwargs: Any,
) -> Any:
    """What `save` writes, as an `onnx.ModelProto`."""
    try:
        import onnx  # noqa: F401
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "bs.interop.onnx needs the package onnx: pip install 'backsolve[onnx]'"
        ) from None
    from .export import proto_of

    return proto_of(f, *args, batch=batch, weights=weights, outputs=outputs, **kwargs)
