"""A recurrent network whose matrix stays orthogonal: it neither forgets nor explodes over long times.

The task is the copy problem: read 5 signs, wait, then say them again. The recurrent matrix W walks on the
Stiefel manifold (Wᵀ W = 1), all else in plain space; the state h' = modReLU(W h + U x) keeps its length.
"""

from __future__ import annotations

import numpy as np

import backsolve as bs
from backsolve import nn, optim
from backsolve.optim import RiemannianAdam, Stiefel

SIGNS, COUNT, BLANK, GO = 8, 5, 8, 9  # signs 0 to 7, then blank and go


def task(batch: int, wait: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    signs = rng.integers(0, SIGNS, (batch, COUNT))
    blanks = lambda n: np.full((batch, n), BLANK)
    go = np.full((batch, 1), GO)
    x = np.concatenate([signs, blanks(wait), go, blanks(COUNT - 1)], axis=1)
    return x, signs


class OrthogonalRNN(nn.Module):
    def __init__(self, hidden: int):
        rng = np.random.default_rng(0)
        self.recurrent = Stiefel().nearest(rng.normal(size=(hidden, hidden)).astype(np.float32))
        self.enter = nn.Embedding(SIGNS + 2, hidden)
        self.bias = np.full(hidden, -0.01, np.float32)
        self.leave = nn.Linear(hidden, SIGNS)

    def __call__(self, x):
        def step(h, entering):
            a = h @ self.recurrent + entering
            h = np.sign(a) * np.maximum(np.abs(a) + self.bias, 0)
            return h, h

        entering = self.enter(x).swapaxes(0, 1)
        _, states = bs.scan(step, np.zeros_like(entering[0]), entering)
        return self.leave(states[-COUNT:]).transpose(1, 2, 0)


def main(steps: int = 500, wait: int = 40) -> float:
    rng = np.random.default_rng(0)
    nn.manual_seed(0)
    model = OrthogonalRNN(hidden=128)
    rules = {"recurrent": RiemannianAdam(Stiefel(), lr=1e-2), "*": optim.Adam(lr=2e-3)}
    optimizer = optim.Groups(rules)
    parameters = model.named_parameters()
    state = optimizer.init(parameters)

    @bs.jit
    def advance(parameters, state, x, y):
        def loss(parameters):
            return nn.functional.cross_entropy(model.replace(parameters)(x), y)

        value, g = bs.value_and_grad(loss)(parameters)
        return value, *optimizer.update(parameters, g, state)

    for step in range(steps):
        value, parameters, state = advance(parameters, state, *task(32, wait, rng))
        if step % 100 == 0:
            print(f"step {step:5d}  loss {value:.4f}  (by guessing {np.log(SIGNS):.4f})")
    W = parameters["recurrent"]
    off = float(np.abs(W.T @ W - np.eye(len(W))).max())
    x, y = task(500, wait, rng)
    right = float(np.mean(np.argmax(model.replace(parameters)(x), axis=1) == y))
    print(f"{right:.1%} of the signs after {wait} steps; |WᵀW − 1| at most {off:.1e}")
    return right


if __name__ == "__main__":
    main()
