"""Natural gradients by Kronecker factors: an autoencoder of handwritten digits, beside Adam.

Fisher's matrix of a layer is nearly a product of two small ones, of what the layer reads and of what comes back
to it (`bs.fisher(model)(p, x).kfac()`); `optim.NaturalGradient(loss, method="kfac")` solves with them.
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits

import backsolve as bs
from backsolve import optim

SIZES = [64, 32, 16, 6, 16, 32, 64]


def decode(p, x):
    """Logits of the pixels, through six numbers."""
    for k, (w, b) in enumerate(p):
        x = x @ w.T + b
        if k < len(p) - 1:
            x = np.tanh(x)
    return x


def error(z, x):
    """Cross-entropy of pixels between 0 and 1, for each image."""
    return np.sum(np.logaddexp(0.0, z) - x * z) / len(x)


def start():
    rng = np.random.default_rng(0)
    pairs = zip(SIZES, SIZES[1:], strict=False)
    return [(rng.normal(size=(n, m)) / np.sqrt(m), np.zeros(n)) for m, n in pairs]


def main(steps: int = 60) -> float:
    x = load_digits().data[:500] / 16

    @bs.jit
    def natural(p):
        rule = optim.NaturalGradient(lambda z: error(z, x), method="kfac", lr=0.2, damping=0.03)
        f = lambda p: decode(p, x)
        return rule.update(f, p, rule.init(f, p))[0]

    p = start()
    for _ in range(steps):
        p = natural(p)
    by_factors = float(error(decode(p, x), x))

    q, adam = start(), optim.Adam(lr=0.02)
    state = adam.init(q)
    gradient = bs.jit(bs.grad(lambda q: error(decode(q, x), x)))
    for _ in range(steps):
        q, state = adam.update(q, gradient(q), state)
    by_adam = float(error(decode(q, x), x))
    print(
        f"{steps} steps: cross-entropy {by_factors:.2f} by Kronecker factors, {by_adam:.2f} by Adam"
    )
    return by_factors / by_adam


if __name__ == "__main__":
    main()
