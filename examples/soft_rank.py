"""Differentiable ranks, inside PyTorch: a stack of blocks that merge while they are out of order.

The ranks of numbers are the corner of a polytope, the permutahedron, that lies farthest along them. Projected
onto it instead, they move smoothly (Blondel and others, 2020). After sorting, the projection is an isotonic
regression: neighbours that are out of order are pooled, in one pass with a stack, in linear time. The example
learns to rank: weights that put the rows of a table in the order that somebody else gave.
"""

from __future__ import annotations

import numpy as np


def soft_rank(values, strength):
    """1 for the smallest, n for the largest; the larger the strength, the smoother."""
    n = len(values)
    order = np.argsort(-values)
    z = values[order] / strength
    y = z - np.arange(n, 0, -1)
    sums, counts = np.zeros(n), np.zeros(n, int)
    blocks = 0
    for i in range(n):
        total, count = y[i], 1
        while blocks > 0 and sums[blocks - 1] * count <= total * counts[blocks - 1]:
            blocks -= 1
            total = total + sums[blocks]
            count = count + counts[blocks]
        sums[blocks] = total
        counts[blocks] = count
        blocks += 1
    ranks = np.zeros(n)
    at = 0
    for b in range(blocks):
        for k in range(at, at + counts[b]):
            ranks[order[k]] = z[k] - sums[b] / counts[b]
        at += counts[b]
    return ranks


def main(steps: int = 100) -> float:
    """Spearman's correlation of the learned order with the given one."""
    import torch

    import backsolve as bs

    rank = bs.interop.torch.function(soft_rank)
    rng = np.random.default_rng(0)
    table = torch.from_numpy(rng.normal(size=(200, 5)))
    quality = torch.exp(table @ torch.tensor([1.0, -2.0, 0.5, 0.0, 1.5]).double())
    given = quality.argsort().argsort() + 1.0
    w = torch.zeros(5, dtype=torch.float64).requires_grad_()
    optimizer = torch.optim.Adam([w], lr=0.05)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = ((rank(table @ w, 0.1) - given) ** 2).mean()
        loss.backward()
        optimizer.step()
    found = (table @ w).detach().argsort().argsort() + 1.0
    correlation = torch.corrcoef(torch.stack([found, given]))[0, 1]
    print(f"rank correlation after {steps} steps: {correlation:.4f}")
    return float(correlation)


if __name__ == "__main__":
    main()
