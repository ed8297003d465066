"""Bilevel optimisation: a decay for every feature, learned through the solution of the inner problem.

The inner problem fits a ridge regression on some data; the outer one asks how well that does on other data.
`bs.argmin` gives the fit as a row of the system, whose gradient is one linear solve with the Hessian: how the
fit was found is not kept.
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_diabetes

import backsolve as bs
from backsolve import optim


def inner(w, decay, x, y):
    return np.mean((x @ w - y) ** 2) + np.sum(np.exp(decay) * w * w)


def error(decay, train, held_out):
    w = bs.argmin(inner, np.zeros(train[0].shape[1]), decay, *train)
    x, y = held_out
    return np.mean((x @ w - y) ** 2)


def parts():
    """Train, held out, test."""
    data = load_diabetes()
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(len(data.target), 20))  # features that mean nothing
    x = np.concatenate([data.data / data.data.std(axis=0), noise], axis=1)
    y = (data.target - data.target.mean()) / data.target.std()
    order = rng.permutation(len(y))
    return [(x[part], y[part]) for part in (order[:80], order[80:260], order[260:])]


def learn(train, held_out, steps: int):
    decay = np.full(train[0].shape[1], -2.0)
    gradient = bs.jit(bs.value_and_grad(error))
    optimizer = optim.Adam(lr=0.1)
    state = optimizer.init(decay)
    for step in range(steps):
        value, g = gradient(decay, train, held_out)
        decay, state = optimizer.update(decay, g, state)
        if step % 20 == 0:
            print(f"step {step:3d}  held-out error {value:.4f}")
    return decay


def main(steps: int = 100) -> float:
    train, held_out, test = parts()
    decay = learn(train, held_out, steps)
    before = float(error(np.full(len(decay), -2.0), train, test))
    after = float(error(decay, train, test))
    print(f"test error {before:.4f} with one decay, {after:.4f} with one for each feature")
    return after / before


if __name__ == "__main__":
    main()
