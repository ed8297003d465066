"""Diffusion on points in the plane: a network learns to take noise away, then makes points out of noise.

The data are two moons. A point is mixed with noise, x_t = √(1 − β) x + √β ε, at a random strength; the network
guesses ε. To draw, one begins with noise alone and goes back step by step.
"""

from __future__ import annotations

import numpy as np

import backsolve as bs
from backsolve import nn, optim

LEVELS = 50
KEPT = np.cumprod(1 - np.linspace(1e-4, 0.2, LEVELS)).astype(np.float32)  # share of the point left


def moons(count: int, rng: np.random.Generator) -> np.ndarray:
    angle = rng.uniform(0, np.pi, count)
    upper = rng.random(count) < 0.5
    x = np.where(upper, np.cos(angle), 1 - np.cos(angle))
    y = np.where(upper, np.sin(angle), 0.5 - np.sin(angle))
    points = np.stack([x - 0.5, y - 0.25], axis=1)
    return (points + rng.normal(scale=0.05, size=points.shape)).astype(np.float32)


class Denoiser(nn.Module):
    def __init__(self, hidden: int):
        self.level, self.first = nn.Embedding(LEVELS, hidden), nn.Linear(2, hidden)
        middle = [(nn.SiLU(), nn.Linear(hidden, hidden)) for _ in range(2)]
        self.rest = nn.Sequential(*sum(middle, ()), nn.SiLU(), nn.Linear(hidden, 2))

    def __call__(self, x, level):
        return self.rest(self.first(4 * x) + self.level(level))


def loss(model, x, level, noise):
    kept = KEPT[level][:, None]
    return np.mean((model(np.sqrt(kept) * x + np.sqrt(1 - kept) * noise, level) - noise) ** 2)


def stages(model, count: int, rng: np.random.Generator):
    """Noise, and what is left after each step back."""
    guess = bs.jit(lambda x, level: model(x, level))
    x = rng.normal(size=(count, 2)).astype(np.float32)
    yield x
    for k in reversed(range(LEVELS)):
        before = KEPT[k - 1] if k else np.float32(1)
        alpha = KEPT[k] / before
        x = (x - (1 - alpha) / np.sqrt(1 - KEPT[k]) * guess(x, np.full(count, k))) / np.sqrt(alpha)
        if k:
            x = x + np.sqrt(1 - alpha) * rng.normal(size=x.shape).astype(np.float32)
        yield x


def train(steps: int, rng: np.random.Generator):
    nn.manual_seed(0)
    model = Denoiser(hidden=128)
    optimizer = optim.Adam(lr=optim.schedules.cosine(3e-3, steps))
    state = optimizer.init(model)

    @bs.jit
    def advance(model, state, *batch):
        value, g = bs.value_and_grad(loss)(model, *batch)
        return value, *optimizer.update(model, g, state)

    for step in range(steps):
        noise = rng.normal(size=(256, 2)).astype(np.float32)
        batch = moons(256, rng), rng.integers(0, LEVELS, 256), noise
        value, model, state = advance(model, state, *batch)
        if step % 500 == 0:
            print(f"step {step:5d}  loss {value:.4f}")
    return model


def main(steps: int = 4000) -> float:
    rng = np.random.default_rng(0)
    model = train(steps, rng)
    *_, drawn = stages(model, 1000, rng)
    real = moons(1000, rng)
    distance = float(np.median(np.linalg.norm(drawn[:, None] - real, axis=-1).min(axis=1)))
    print(f"drawn points lie {distance:.3f} from the nearest real one (median)")
    return distance


if __name__ == "__main__":
    main()
