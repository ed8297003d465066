"""Linear algebra: matrix products, and the likelihood of a Gaussian process."""

from __future__ import annotations

from typing import Any

import numpy as np

from .base import Workload, gradient, torch_gradient

rng = np.random.default_rng(0)


def product(n: int) -> Workload:
    """Σ (A B) ⊙ (A B) / n: one product forward, two back."""
    args = [(rng.normal(size=(n, n)) / np.sqrt(n)).astype(np.float32) for _ in range(2)]

    def f(lib: Any) -> Any:
        def run(a: Any, b: Any) -> Any:
            y = a @ b
            return lib.np.sum(y * y) * float(1 / n)

        return run

    def loss(torch: Any) -> Any:
        return lambda a, b: ((y := a @ b) * y).sum() * (1 / n)

    return Workload(args, gradient(f, 2), torch_gradient(loss, args), flops=6 * n**3)


def gaussian_process(n: int) -> Workload:
    """Minus the log-likelihood under an RBF kernel, by amplitude, length and noise (logarithms)."""
    X = rng.uniform(-3, 3, size=(n, 2))
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=n)
    distance = np.sum((X[:, None] - X[None]) ** 2, axis=-1)
    eye = np.eye(n)
    p = np.array([0.1, 0.2, -1.0])

    def f(lib: Any) -> Any:
        np_ = lib.np

        def run(p: Any) -> Any:
            K = np_.exp(p[0] - 0.5 * distance * np_.exp(-2 * p[1])) + np_.exp(p[2]) * eye
            L = np_.linalg.cholesky(K)
            z = lib.solve_triangular(L, y, lower=True)
            return 0.5 * np_.sum(z * z) + np_.sum(np_.log(np_.diagonal(L)))

        return run

    def loss(torch: Any) -> Any:
        D, E, t = (torch.from_numpy(a) for a in (distance, eye, y[:, None]))

        def run(p: Any) -> Any:
            K = torch.exp(p[0] - 0.5 * D * torch.exp(-2 * p[1])) + torch.exp(p[2]) * E
            L = torch.linalg.cholesky(K)
            z = torch.linalg.solve_triangular(L, t, upper=False)
            return 0.5 * (z * z).sum() + torch.log(torch.diagonal(L)).sum()

        return run

    # The factor is n³/3, the inverse that its gradient consists of another 2n³/3.
    return Workload([p], gradient(f, 1), torch_gradient(loss, [p]), flops=n**3)
