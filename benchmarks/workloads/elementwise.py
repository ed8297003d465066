"""Element by element, and along rows: gradients that memory and functions decide."""

from __future__ import annotations

from typing import Any

import numpy as np

from .base import Workload, gradient, torch_gradient

rng = np.random.default_rng(0)


def gelu_sigmoid(n: int) -> Workload:
    x = rng.normal(size=n)

    def f(lib: Any) -> Any:
        np_ = lib.np
        return lambda x: np_.sum(
            0.5 * x * (1 + np_.tanh(0.7978845608 * (x + 0.044715 * x * x * x))) / (1 + np_.exp(-x))
        )

    def loss(torch: Any) -> Any:
        return lambda t: (
            0.5
            * t
            * (1 + torch.tanh(0.7978845608 * (t + 0.044715 * t * t * t)))
            / (1 + torch.exp(-t))
        ).sum()

    nbytes = 2 * x.nbytes if n > 1000 else 0
    return Workload([x], gradient(f, 1), torch_gradient(loss, [x]), nbytes=nbytes)


def scalar_expression() -> Workload:
    p = np.array([0.3, 0.5, 0.7])

    def f(lib: Any) -> Any:
        def run(p: Any) -> Any:
            x, y, z = p[0], p[1], p[2]
            for _ in range(16):
                x = x * y + lib.np.sin(z)
                y = y / (1.0 + x * x) + z
                z = lib.np.exp(-z * z) * x - y
            return x + y * z

        return run

    def loss(torch: Any) -> Any:
        return f(type("lib", (), {"np": torch}))

    return Workload([p], gradient(f, 1), torch_gradient(loss, [p]))


def rows(kind: str, n: int, width: int = 256) -> Workload:
    x = rng.normal(size=(n // width, width)).astype(np.float32)
    weight = rng.normal(size=width).astype(np.float32)

    def f(lib: Any) -> Any:
        np_ = lib.np

        def softmax(x: Any) -> Any:
            e = np_.exp(x - np_.max(x, axis=-1, keepdims=True))
            return e / np_.sum(e, axis=-1, keepdims=True)

        def norm(x: Any) -> Any:
            c = x - np_.mean(x, axis=-1, keepdims=True)
            return c / np_.sqrt(np_.mean(c * c, axis=-1, keepdims=True) + 1e-5)

        def gelu(x: Any) -> Any:
            return 0.5 * x * (1 + np_.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))

        chosen = {"softmax": softmax, "layer norm": norm, "gelu": gelu}[kind]
        return lambda x: np_.sum(chosen(x) * weight)

    def loss(torch: Any) -> Any:
        functions = torch.nn.functional
        chosen = {
            "softmax": lambda t: torch.softmax(t, -1),
            "layer norm": lambda t: functions.layer_norm(t, (width,)),
            "gelu": lambda t: functions.gelu(t, approximate="tanh"),
        }[kind]
        w = torch.from_numpy(weight)
        return lambda t: (chosen(t) * w).sum()

    return Workload([x], gradient(f, 1), torch_gradient(loss, [x]), nbytes=2 * x.nbytes)


def cross_entropy(n: int, width: int = 256) -> Workload:
    x = rng.normal(size=(n // width, width)).astype(np.float32)
    labels = rng.integers(0, width, n // width)
    places = np.arange(len(labels))

    def f(lib: Any) -> Any:
        return lambda x: lib.np.mean(lib.logsumexp(x, axis=-1) - x[places, labels])

    def loss(torch: Any) -> Any:
        target = torch.from_numpy(labels)
        return lambda t: torch.nn.functional.cross_entropy(t, target)

    return Workload([x], gradient(f, 1), torch_gradient(loss, [x]), nbytes=2 * x.nbytes)
