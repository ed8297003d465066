"""Gaussian process regression: a kernel's parameters by the gradient of the marginal likelihood.

The data are monthly means of carbon dioxide at Mauna Loa, 1966 to 1971 (parts per million; Keeling and
Whorf 2004), a trend with a season; the kernel has a part for each, and noise.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

import backsolve as bs

PPM = np.array(
    [
        320.54, 321.57, 322.38, 323.66, 324.02, 323.70, 322.85, 320.20, 318.70, 318.18, 319.90, 321.06,
        322.40, 322.43, 323.00, 324.28, 324.95, 324.07, 322.48, 320.85, 319.30, 319.45, 320.68, 321.92,
        322.55, 323.05, 323.92, 324.98, 325.48, 325.26, 324.02, 321.94, 320.25, 320.27, 321.32, 322.93,
        323.93, 324.27, 325.60, 326.57, 327.28, 326.55, 325.80, 323.54, 322.40, 321.80, 322.82, 324.12,
        325.08, 326.02, 327.00, 328.07, 327.92, 327.55, 326.30, 324.66, 323.15, 323.14, 324.05, 325.10,
        326.14, 326.65, 327.20, 327.68, 328.82, 328.48, 327.22, 325.25, 323.40, 323.54, 324.82, 325.93,
    ]
)  # fmt: skip
YEARS = np.arange(len(PPM)) / 12
NAMES = ("trend: scale", "trend: length", "season: scale", "season: length", "noise")


def kernel(p, s, t):
    """p: logarithms of scale and length of a slow part, of a periodic one, and of the noise."""
    d = s[:, None] - t[None, :]
    slow = np.exp(2 * p[0] - 0.5 * (d / np.exp(p[1])) ** 2)
    season = np.exp(2 * p[2] - 2 * (np.sin(np.pi * d) / np.exp(p[3])) ** 2)
    return slow + season


def negative_log_likelihood(p, t, y):
    K = kernel(p, t, t) + (np.exp(2 * p[4]) + 1e-8) * np.eye(len(t))
    L = np.linalg.cholesky(K)
    z = np.linalg.solve(L, y)
    return 0.5 * z @ z + np.sum(np.log(np.diagonal(L))) + 0.5 * len(y) * np.log(2 * np.pi)


def predict(p, t, y, new):
    K = kernel(p, t, t) + np.exp(2 * p[4]) * np.eye(len(t))
    across = kernel(p, new, t)
    mean = across @ np.linalg.solve(K, y)
    rest = kernel(p, new, new) - across @ np.linalg.solve(K, across.T)
    return mean, np.sqrt(np.maximum(np.diagonal(rest), 0) + np.exp(2 * p[4]))


def main(steps: int = 200) -> float:
    known = 60  # the last year is left to be foretold
    t, level = YEARS[:known], PPM[:known].mean()
    y = PPM[:known] - level
    value_and_gradient = bs.jit(bs.value_and_grad(negative_log_likelihood))
    first = np.log([2.0, 3.0, 2.0, 1.0, 0.3])
    found = minimize(
        value_and_gradient, first, args=(t, y), jac=True, method="BFGS", options={"maxiter": steps}
    )
    for name, before, after in zip(NAMES, first, found.x, strict=True):
        print(f"{name:15s} {np.exp(before):6.2f} → {np.exp(after):6.2f}")
    print(f"−log likelihood {negative_log_likelihood(first, t, y):.2f} → {found.fun:.2f}")
    mean, deviation = predict(found.x, t, y, YEARS[known:])
    for k, (m, d) in enumerate(zip(mean + level, deviation, strict=True), 1):
        print(f"1971-{k:02d}: {m:.2f} ± {d:.2f}, measured {PPM[known + k - 1]:.2f}")
    return float(np.abs(mean + level - PPM[known:]).mean())


if __name__ == "__main__":
    main()
