"""Recurrent networks over many steps: each library's own loop, PyTorch's own layer."""

from __future__ import annotations

from typing import Any

import numpy as np

from .base import Workload, gradient

rng = np.random.default_rng(0)


def recurrent(kind: str, steps: int, batch: int, width: int, hidden: int) -> Workload:
    """The gradient of mean(h²) of all outputs with respect to the data and all weights."""
    gates = {"LSTM": 4, "GRU": 3}[kind]
    draw = lambda *shape: (rng.normal(size=shape) / np.sqrt(hidden)).astype(np.float32)
    x = rng.normal(size=(steps, batch, width)).astype(np.float32)
    args = [x, draw(width, gates * hidden), draw(hidden, gates * hidden), draw(gates * hidden)]
    args.append(draw(gates * hidden))  # PyTorch has two biases, of which a GRU needs both

    def f(lib: Any) -> Any:
        np_ = lib.np

        def lstm(state: Any, row: Any, U: Any, b: Any, d: Any) -> Any:
            h, c = state
            z = row + h @ U + d
            i, f, g, o = (z[:, k * hidden : (k + 1) * hidden] for k in range(4))
            c = lib.sigmoid(f) * c + lib.sigmoid(i) * np_.tanh(g)
            h = lib.sigmoid(o) * np_.tanh(c)
            return (h, c), h

        def gru(state: Any, row: Any, U: Any, b: Any, d: Any) -> Any:
            (h,) = state
            y = h @ U + d
            r = lib.sigmoid(row[:, :hidden] + y[:, :hidden])
            z = lib.sigmoid(row[:, hidden : 2 * hidden] + y[:, hidden : 2 * hidden])
            n = np_.tanh(row[:, 2 * hidden :] + r * y[:, 2 * hidden :])
            h = (1 - z) * n + z * h
            return (h,), h

        cell = lstm if kind == "LSTM" else gru

        def run(x: Any, W: Any, U: Any, b: Any, d: Any) -> Any:
            h = np_.zeros((batch, hidden), np.float32)
            start = (h, h) if kind == "LSTM" else (h,)
            _, hs = lib.scan(lambda state, row: cell(state, row @ W + b, U, b, d), start, x)
            return np_.mean(hs * hs)

        return run

    def in_torch(torch: Any) -> Any:
        layer = getattr(torch.nn, kind)(width, hidden)
        names = ["weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"]
        weights = [args[1].T.copy(), args[2].T.copy(), args[3], args[4]]
        tensors = [torch.from_numpy(a) for a in (x, *weights)]

        def loss(x: Any, *weights: Any) -> Any:
            given = dict(zip(names, weights, strict=True))
            hs, _ = torch.func.functional_call(layer, given, (x,))
            return (hs * hs).mean()

        def eager() -> Any:
            leaves = [t.detach().requires_grad_() for t in tensors]
            loss(*leaves).backward()
            return [leaf.grad for leaf in leaves]

        return eager, torch.func.grad(loss, tuple(range(5))), tensors

    flops = 3 * 2 * steps * batch * gates * hidden * (width + hidden)
    return Workload(args, gradient(f, 5), in_torch, flops=flops, nbytes=2 * x.nbytes)
