"""Functions of ours on PyTorch's tensors, and its weights in modules of ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .weights import load_state_dict as load_state_dict

if TYPE_CHECKING:
    from .operator import function as function

__all__ = ["function", "load_state_dict"]


def __getattr__(name: str) -> Any:
    if name != "function":
        raise AttributeError(f"module 'backsolve.interop.torch' has no attribute {name!r}")
    try:
        import torch as _torch  # noqa: F401
    except ModuleNotFoundError as missing:
        raise ModuleNotFoundError(
            "bs.interop.torch.function needs PyTorch: pip install 'backsolve[torch]'"
        ) from missing
    from .operator import function

    globals()["function"] = function
    return function
