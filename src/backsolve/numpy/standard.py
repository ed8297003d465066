"""What the array API standard asks of a namespace besides functions of arrays: dtypes, devices, memory."""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..ownership import shared
from ..tensor import Tensor
from ._register import OWN, dtype_of, named
from .making import on_cpu

VERSION = "2025.12"
_DTYPES = {
    "bool": (np.bool_,),
    "signed integer": (np.int8, np.int16, np.int32, np.int64),
    "unsigned integer": (np.uint8, np.uint16, np.uint32, np.uint64),
    "real floating": (np.float32, np.float64),
    "complex floating": (np.complex64, np.complex128),
}
_KINDS: dict[str | None, tuple[str, ...]] = {
    **{kind: (kind,) for kind in _DTYPES},
    "integral": ("signed integer", "unsigned integer"),
    "numeric": ("signed integer", "unsigned integer", "real floating", "complex floating"),
    None: tuple(_DTYPES),
}


@named("array_namespace")
def array_namespace(version: str | None) -> Any:
    if version not in (None, "2021.12", "2022.12", "2023.12", "2024.12", VERSION):
        raise ValueError(f"the array API standard of {version!r} is not known here; {VERSION} is")
    return importlib.import_module(__package__)


class Inspection:
    """The namespace's answers about itself: `__array_namespace_info__()`."""

    def capabilities(self) -> dict[str, Any]:
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> str:
        return "cpu"

    def devices(self) -> tuple[str, ...]:
        return ("cpu",)

    def default_dtypes(self, *, device: Any = None) -> dict[str, Any]:
        on_cpu(device)
        return {
            "real floating": np.dtype(np.float64),
            "complex floating": np.dtype(np.complex128),
            "integral": np.dtype(np.int64),
            "indexing": np.dtype(np.intp),
        }

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, Any]:
        on_cpu(device)
        names = kind if isinstance(kind, tuple) else (kind,)
        unknown = [k for k in names if k not in _KINDS]
        if unknown:
            raise ValueError(
                f"kind is None or one of {sorted(k for k in _KINDS if k)}; got {unknown[0]!r}"
            )
        found = [d for k in names for base in _KINDS[k] for d in _DTYPES[base]]
        return {np.dtype(d).name: np.dtype(d) for d in found}


def _limits(of: Any, names: tuple[str, ...]) -> Any:
    """np.finfo or np.iinfo of a dtype or an array, with Python's numbers."""

    def info(type: Any, /) -> Any:
        dtype = dtype_of(type) if isinstance(type, Tensor | np.ndarray) else np.dtype(type)
        found = of(dtype)
        python = float if of is np.finfo else int
        numbers = {n: python(getattr(found, n)) for n in names}
        return SimpleNamespace(bits=found.bits, dtype=found.dtype, **numbers)

    info.__name__ = info.__qualname__ = of.__name__
    info.__doc__ = f"`numpy.{of.__name__}` of a dtype or an array."
    return info


OWN["__array_namespace_info__"] = Inspection
OWN["finfo"] = _limits(np.finfo, ("eps", "max", "min", "smallest_normal"))
OWN["iinfo"] = _limits(np.iinfo, ("max", "min"))


@named("to_dlpack")
def to_dlpack(x: Any, stream: Any, max_version: Any, device: Any, copy: Any) -> Any:
    """x's memory; a copy of it where a derivative may rest on it, since others do not heed read-only."""
    value = np.asarray(x._plain("handing its memory over by DLPack"))
    if not value.flags.writeable:
        if copy is False:
            raise BufferError(
                "`__dlpack__` cannot hand memory over without a copy that others, or derivatives, rely on"
            )
        value, copy = value.copy(), None
    elif not copy:
        x._v = shared(x._v)  # from here on, others can write into it
    return value.__dlpack__(stream=stream, max_version=max_version, dl_device=device, copy=copy)
