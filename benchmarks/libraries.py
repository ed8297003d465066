"""The libraries as contestants: each turns a Workload into a function to call and its first result.

A library is imported when it is made, so that a process has only those which it measures.
"""

from __future__ import annotations

import logging
import os
import tempfile
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from workloads import Workload

Run = Callable[[], Any]


class Backsolve:
    name, title = "backsolve", "backsolve"

    def __init__(self, threads: int):
        # An empty cache: first calls compile.
        os.environ["BACKSOLVE_CACHE_DIR"] = tempfile.mkdtemp(prefix="backsolve-bench-")
        from scipy.special import expit

        import backsolve as bs
        from backsolve.numpy import linalg

        if hasattr(bs, "set_threads"):
            bs.set_threads(threads)
        self.np, self.grad, self.hvp, self._jit = np, bs.grad, bs.hvp, bs.jit
        self.logsumexp, self.solve_triangular = bs.numpy.logsumexp, linalg.solve_triangular
        self.scan, self.sigmoid = bs.scan, expit
        self._attend = bs.nn.functional.scaled_dot_product_attention

    def causal_attention(self, q: Any, k: Any, v: Any) -> Any:
        return self._attend(q, k, v, is_causal=True)

    def contestant(self, workload: Workload) -> Run:
        f = self._jit(workload.make(self))
        args = workload.args

        def first() -> Any:
            y = f(*args)
            (made,) = f.stats()["specialisations"]
            assert made["native"], made["reason"]
            first_done.append(True)
            return y

        first_done: list[bool] = []
        return lambda: f(*args) if first_done else first()


class Jax:
    name, title = "jax", "jax.jit"

    def __init__(self, threads: int):
        import jax

        jax.config.update("jax_enable_x64", True)
        self._jax, self.np, self.grad = jax, jax.numpy, jax.grad
        self.logsumexp = jax.nn.logsumexp
        self.solve_triangular = jax.scipy.linalg.solve_triangular
        self.scan, self.sigmoid = jax.lax.scan, jax.nn.sigmoid

    def hvp(self, f: Any) -> Any:
        return lambda x, v: self._jax.jvp(self._jax.grad(f), (x,), (v,))[1]

    def causal_attention(self, q: Any, k: Any, v: Any) -> Any:
        """By the formula: jax.nn.dot_product_attention, which turns the axes around, takes longer."""
        np_ = self.np
        s = np_.matmul(q, np_.swapaxes(k, -1, -2)) * float(q.shape[-1] ** -0.5)
        s = np_.where(np.tri(q.shape[-2], dtype=bool), s, -np.inf)
        e = np_.exp(s - np_.max(s, axis=-1, keepdims=True))
        return np_.matmul(e / np_.sum(e, axis=-1, keepdims=True), v)

    def contestant(self, workload: Workload) -> Run:
        f = self._jax.jit(workload.make(self))
        return lambda: self._jax.block_until_ready(f(*workload.args))


class Torch:
    name, title = "torch", "PyTorch eager"

    def __init__(self, threads: int):
        import torch

        torch.set_num_threads(threads)
        self._torch = torch

    def contestant(self, workload: Workload) -> Run:
        return workload.torch(self._torch)[0]


class TorchCompile(Torch):
    name, title = "torch.compile", "torch.compile"

    def __init__(self, threads: int):
        super().__init__(threads)
        logging.getLogger("torch").setLevel(logging.CRITICAL)
        warnings.filterwarnings("ignore", module="torch")

    def contestant(self, workload: Workload) -> Run:
        self._torch.compiler.reset()
        _, pure, tensors = workload.torch(self._torch)
        f = self._torch.compile(pure)
        return lambda: f(*tensors)


LIBRARIES: tuple[Any, ...] = (Backsolve, Jax, TorchCompile, Torch)
