"""JAX and PyTorch in float64 on one thread; None where they are not installed: they are left out then."""

from __future__ import annotations

from typing import Any

jax: Any
jnp: Any
torch: Any
try:
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
except ImportError:
    jax = jnp = None
try:
    import torch

    torch.set_num_threads(1)
except ImportError:
    torch = None
