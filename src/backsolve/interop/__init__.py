"""Where other libraries are met: SciPy's solvers, PyTorch's weights, JAX, ONNX models, others' arrays."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import jax as jax
    from . import onnx as onnx
    from . import safetensors as safetensors
    from . import scipy as scipy
    from . import stablehlo as stablehlo
    from . import torch as torch


def __getattr__(name: str) -> Any:
    if name not in ("jax", "onnx", "safetensors", "scipy", "stablehlo", "torch"):
        raise AttributeError(f"module 'backsolve.interop' has no attribute {name!r}")
    return importlib.import_module(f".{name}", __name__)
