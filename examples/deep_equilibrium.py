"""A deep equilibrium model: a layer that is the solution z of z = tanh(W z + U x + b).

`bs.fixed_point` finds z and gives it as one row of the system, whose differential is a linear system of its
own, dz = J dz + du. So the gradient is one more solve, with (I − J)ᵀ: nothing of the way to z is kept.
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_wine

import backsolve as bs
from backsolve import optim


def layer(z, W, u):
    return np.tanh(z @ W.T + u)


def scores(p, x):
    W = 0.9 * p["W"] / np.maximum(np.linalg.norm(p["W"], ord="fro"), 0.9)  # a contraction
    u = x @ p["U"].T + p["b"]
    z = bs.fixed_point(layer, np.zeros(u.shape), W, u, tol=1e-8)
    return z @ p["V"].T + p["c"]


def loss(p, x, y):
    return bs.nn.functional.cross_entropy(scores(p, x), y)


def main(steps: int = 400) -> float:
    wine = load_wine()
    x = (wine.data - wine.data.mean(axis=0)) / wine.data.std(axis=0)
    order = np.random.default_rng(0).permutation(len(x))
    train, test = order[:120], order[120:]
    rng, hidden = np.random.default_rng(1), 32
    p = {
        "W": rng.normal(size=(hidden, hidden)) / hidden,
        "U": rng.normal(size=(hidden, x.shape[1])) / np.sqrt(x.shape[1]),
        "b": np.zeros(hidden),
        "V": rng.normal(size=(3, hidden)) / np.sqrt(hidden),
        "c": np.zeros(3),
    }
    gradient = bs.jit(bs.value_and_grad(loss))
    optimizer = optim.Adam(lr=0.01)
    state = optimizer.init(p)
    for step in range(steps):
        value, g = gradient(p, x[train], wine.target[train])
        p, state = optimizer.update(p, g, state)
        if step % 100 == 0:
            print(f"step {step:4d}  loss {value:.4f}")
    accuracy = float(np.mean(np.argmax(scores(p, x[test]), axis=1) == wine.target[test]))
    print(f"test accuracy {accuracy:.1%}")
    return accuracy


if __name__ == "__main__":
    main()
