"""A neural differential equation: the law of motion of a spiral, learnt from noisy places on its way.

dx/dt = f(x) with a small network f, by Runge–Kutta steps in a loop that is compiled and differentiated as
a loop. From each place the way to the next few is computed, all places at once. The truth is x' = A x³.
"""

from __future__ import annotations

import numpy as np

import backsolve as bs
from backsolve import nn, optim

A = np.array([[-0.1, 2.0], [-2.0, -0.1]])
START = np.array([[2.0, 0.0]])
EVERY, AHEAD, dt = 5, 4, 0.02  # places are 5 steps apart; 4 of them are looked ahead


def solve(f, x, steps):
    """All places on the way, by the classical method of fourth order."""

    def step(x, _):
        k1 = f(x)
        k2 = f(x + dt / 2 * k1)
        k3 = f(x + dt / 2 * k2)
        k4 = f(x + dt * k3)
        x = x + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return x, x

    return bs.scan(step, x, None, steps)[1]


class Law(nn.Module):
    """The cube is given, as one who has looked at the data would; the rest is learnt."""

    def __init__(self, hidden: int):
        self.inner, self.outer = nn.Linear(2, hidden), nn.Linear(hidden, 2)

    def __call__(self, x):
        return self.outer(np.tanh(self.inner(x**3)))


def measured():
    """The true way, and what was seen of it."""
    truth = np.concatenate([START[None], solve(lambda x: x**3 @ A.T, START, 500)])[:, 0]
    way = truth[::EVERY]
    return truth, way + 0.01 * np.random.default_rng(0).normal(size=way.shape)


def train(seen, steps: int):
    nn.manual_seed(0)
    later = np.stack([seen[k : len(seen) - AHEAD + k] for k in range(1, AHEAD + 1)])
    model = bs.tree.map(np.float64, Law(hidden=32))
    optimizer = optim.Adam(lr=optim.schedules.cosine(0.02, steps))
    state = optimizer.init(model)

    @bs.jit
    def advance(model, state):
        def loss(model):
            reached = solve(model, seen[:-AHEAD], EVERY * AHEAD)[EVERY - 1 :: EVERY]
            return np.mean((reached - later) ** 2)

        value, g = bs.value_and_grad(loss)(model)
        return value, *optimizer.update(model, g, state)

    for step in range(steps):
        value, model, state = advance(model, state)
        if step % 100 == 0:
            print(f"step {step:4d}  distance {np.sqrt(value):.4f}")
    return model


def main(steps: int = 600) -> float:
    truth, seen = measured()
    model = train(seen, steps)
    error = float(np.abs(solve(model, START, 500)[:, 0] - truth[1:]).mean())
    print(f"mean distance from the true way, from its start alone: {error:.4f}")
    return error


if __name__ == "__main__":
    main()
