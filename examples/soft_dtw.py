"""Dynamic time warping with a soft minimum, inside PyTorch: a plain double loop as an operator.

How far two series are from each other if each may be slowed down and sped up: R[i, j] is the price of bringing
the first i entries together with the first j. The smooth minimum of three makes it differentiable (Cuturi and
Blondel, 2017). The example finds the series that several shifted and stretched ones have in common.
"""

from __future__ import annotations

import numpy as np

BORDER = 1e10  # no way leads over it


def soft_dtw(x, y, gamma):
    n, m = len(x), len(y)
    R = np.full((n + 1, m + 1), BORDER)
    R[0, 0] = 0.0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            a, b, c = R[i - 1, j - 1], R[i - 1, j], R[i, j - 1]
            low = min(a, b, c)
            terms = (
                np.exp((low - a) / gamma) + np.exp((low - b) / gamma) + np.exp((low - c) / gamma)
            )
            R[i, j] = (x[i - 1] - y[j - 1]) ** 2 + low - gamma * np.log(terms)
    return R[n, m]


def series(count: int, length: int) -> np.ndarray:
    """Two bumps, which come sooner or later, and last for a while or longer."""
    rng = np.random.default_rng(0)
    t = np.linspace(0.0, 1.0, length)
    made = []
    for first, second, width in rng.uniform([0.2, 0.6, 0.04], [0.35, 0.8, 0.08], (count, 3)):
        made.append(np.exp(-(((t - first) / width) ** 2)) - np.exp(-(((t - second) / width) ** 2)))
    return np.array(made) + rng.normal(0.0, 0.05, (count, length))


def main(steps: int = 100) -> float:
    """How much nearer the found series is to the given ones than their mean is."""
    import torch

    import backsolve as bs

    distance = bs.interop.torch.function(soft_dtw)
    given = torch.from_numpy(series(6, 50))
    mean = given.mean(0)
    centre = mean.clone().requires_grad_()
    optimizer = torch.optim.Adam([centre], lr=0.05)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = sum(distance(centre, y, 0.1) for y in given)
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        near, before = (sum(distance(c, y, 1e-4) for y in given) for c in (centre, mean))
    print(f"distance to six series: {before:.2f} of their mean, {near:.2f} of what was found")
    return float(near / before)


if __name__ == "__main__":
    main()
