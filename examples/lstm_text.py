"""An LSTM that reads the manual of Python letter by letter, and then writes like it.

The text is the one behind help("topics"), which ships with Python.
"""

from __future__ import annotations

from pydoc_data.topics import topics

import numpy as np

import backsolve as bs
from backsolve import nn, optim

LENGTH = 100
TEXT = "\n".join(topics[name] for name in sorted(topics))
LETTERS = sorted(set(TEXT))
NUMBER = {letter: k for k, letter in enumerate(LETTERS)}


class Reader(nn.Module):
    def __init__(self, hidden: int):
        self.embedding = nn.Embedding(len(LETTERS), 64)
        self.lstm = nn.LSTM(64, hidden, batch_first=True)
        self.output = nn.Linear(hidden, len(LETTERS))

    def __call__(self, letters, state=None):
        h, state = self.lstm(self.embedding(letters), state)
        return self.output(h), state


def loss(model, batch):
    """Nats a letter."""
    scores, _ = model(batch[:, :-1])
    return nn.functional.cross_entropy(scores.swapaxes(1, 2), batch[:, 1:])


def write(model, start: str, count: int, heat: float = 0.7) -> str:
    """Go on from a few words, one letter at a time; the state is handed on."""
    rng = np.random.default_rng(0)
    step = bs.jit(lambda letters, state: model(letters, state))
    scores, state = model(np.array([[NUMBER[c] for c in start]]))
    for _ in range(count):
        s = scores[0, -1].astype(float) / heat
        p = np.exp(s - s.max())
        start += LETTERS[rng.choice(len(LETTERS), p=p / p.sum())]
        scores, state = step(np.array([[NUMBER[start[-1]]]]), state)
    return start


def pieces(count: int) -> np.ndarray:
    numbers = np.array([NUMBER[c] for c in TEXT])
    places = np.random.default_rng(0).integers(0, len(numbers) - LENGTH, count)
    return np.stack([numbers[k : k + LENGTH + 1] for k in places])


def train(steps: int, **options):
    nn.manual_seed(0)
    optimizer = optim.Adam(lr=optim.schedules.one_cycle(1e-2, steps))
    batches, model = bs.data.Batches(pieces(32 * steps), 32, seed=0), Reader(hidden=192)
    return bs.fit(model, loss, batches, optimizer=optimizer, epochs=1, clip=1.0, **options).model


def main(steps: int = 300) -> float:
    model = train(steps)
    nats = float(loss(model, pieces(200)))
    print(f"{nats / np.log(2):.2f} bits a letter\n")
    print(write(model, "The statement ", 300))
    return nats


if __name__ == "__main__":
    main()
