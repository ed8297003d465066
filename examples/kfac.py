"""Natural gradients by Kronecker factors: an autoencoder of handwritten digits, beside Adam.

Fisher's matrix of a layer is nearly a product of two small ones, of what the layer reads and of what comes back
to it (`bs.fisher(model)(p, x).kfac()`); `optim.NaturalGradient(loss, method="kfac")` solves with them.
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits

import backsolve as bs
from backsolve import optim

IMAGES = load_digits().data[:500] / 16
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


def by_factors(steps: int):
    """Weights after each step with Fisher's matrix."""

    @bs.jit
    def natural(p):
        rule = optim.NaturalGradient(
            lambda z: error(z, IMAGES), method="kfac", lr=0.2, damping=0.03
        )
        f = lambda p: decode(p, IMAGES)
        return rule.update(f, p, rule.init(f, p))[0]

    p = start()
    for _ in range(steps):
        yield (p := natural(p))


def by_adam(steps: int):
    """Weights after each step of Adam."""
    p, adam = start(), optim.Adam(lr=0.02)
    state = adam.init(p)
    gradient = bs.jit(bs.grad(lambda p: error(decode(p, IMAGES), IMAGES)))
    for _ in range(steps):
        p, state = adam.update(p, gradient(p), state)
        yield p


def main(steps: int = 60) -> float:
    natural, adam = (
        [float(error(decode(p, IMAGES), IMAGES)) for p in way(steps)][-1]
        for way in (by_factors, by_adam)
    )
    print(f"{steps} steps: cross-entropy {natural:.2f} by Kronecker factors, {adam:.2f} by Adam")
    return natural / adam


if __name__ == "__main__":
    main()
