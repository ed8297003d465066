"""Gradients that the memory decides, for gpu.py: of float32, as one writes them for us, in JAX and in PyTorch.

Each entry of KERNELS takes the number of entries and gives what makes each contestant, and the bytes that
must be read and written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

WIDTH = 1024
Makers = dict[str, Callable[[], Any]]


def _matrix(n: int) -> Any:
    return np.random.default_rng(0).normal(size=(n // WIDTH, WIDTH)).astype(np.float32)


def _labels(n: int) -> Any:
    return np.random.default_rng(1).integers(0, WIDTH, n // WIDTH).astype(np.int32)


def _on_device(*arrays: Any) -> list[Any]:
    import jax

    return [jax.device_put(a) for a in arrays]


def _makers(ours: Any, jaxs: Any, torchs: Any, *arrays: Any) -> Makers:
    """Gradients with respect to the first array of losses, ours(numpy, F), jaxs(jnp, jax), torchs(torch)."""

    def of_ours() -> Any:
        import backsolve as bs

        f = bs.jit(bs.grad(ours(np, bs.nn.functional)), backend="xla")
        given = _on_device(*arrays)
        return lambda: f(*given)

    def of_jax() -> Any:
        import jax

        f = jax.jit(jax.grad(jaxs(jax.numpy, jax)))
        given = _on_device(*arrays)
        return lambda: f(*given)

    def of_torch() -> Any:
        import torch

        torch.compiler.reset()
        device = "cuda" if torch.cuda.is_available() else "cpu"
        given = [torch.from_numpy(a).to(device) for a in arrays]
        given = [t if t.is_floating_point() else t.long() for t in given]
        f = torch.compile(torch.func.grad(torchs(torch)))
        return lambda: f(*given)

    return {"backsolve": of_ours, "jax.jit": of_jax, "torch.compile": of_torch}


def gelu_sigmoid(n: int) -> tuple[Makers, float]:
    def written(np_: Any, *_: Any) -> Any:
        return lambda x: np_.sum(
            0.5 * x * (1 + np_.tanh(0.7978845608 * (x + 0.044715 * x * x * x))) / (1 + np_.exp(-x))
        )

    return _makers(written, written, written, _matrix(n).ravel()), 8.0 * n


def softmax(n: int) -> tuple[Makers, float]:
    w = np.random.default_rng(2).normal(size=(1, WIDTH)).astype(np.float32)
    return _makers(
        lambda np_, F: lambda x, w: np_.sum(F.softmax(x, -1) * w),
        lambda np_, jax: lambda x, w: np_.sum(jax.nn.softmax(x, -1) * w),
        lambda torch: lambda x, w: (torch.softmax(x, -1) * w).sum(),
        _matrix(n),
        w,
    ), 8.0 * n


def layer_norm(n: int) -> tuple[Makers, float]:
    w = np.random.default_rng(2).normal(size=WIDTH).astype(np.float32)

    def in_jax(np_: Any, jax: Any) -> Any:
        def loss(x: Any, w: Any) -> Any:
            c = x - x.mean(-1, keepdims=True)
            y = c * jax.lax.rsqrt((c * c).mean(-1, keepdims=True) + 1e-5)
            return np_.sum(np_.sin(y * w))

        return loss

    return _makers(
        lambda np_, F: lambda x, w: np_.sum(np_.sin(F.layer_norm(x, (WIDTH,), w))),
        in_jax,
        lambda torch: lambda x, w: torch.sin(torch.nn.functional.layer_norm(x, (WIDTH,), w)).sum(),
        _matrix(n),
        w,
    ), 8.0 * n


def cross_entropy(n: int) -> tuple[Makers, float]:
    def in_jax(np_: Any, jax: Any) -> Any:
        def loss(x: Any, labels: Any) -> Any:
            logs = jax.nn.log_softmax(x, axis=-1)
            return -np_.take_along_axis(logs, labels[:, None], axis=-1).mean()

        return loss

    return _makers(
        lambda np_, F: F.cross_entropy,
        in_jax,
        lambda torch: torch.nn.functional.cross_entropy,
        _matrix(n),
        _labels(n),
    ), 8.0 * n


KERNELS: dict[str, Callable[[int], tuple[Makers, float]]] = {
    "gelu·sigmoid gradient": gelu_sigmoid,
    "softmax gradient": softmax,
    "layer norm gradient": layer_norm,
    "cross-entropy gradient": cross_entropy,
}
