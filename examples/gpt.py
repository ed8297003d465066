"""A small GPT that reads the manual of Python, the text of help("topics"), and then writes like it."""

from __future__ import annotations

from pydoc_data.topics import topics

import numpy as np

import backsolve as bs
from backsolve import nn, optim

LENGTH = 64
TEXT = "\n".join(topics[name] for name in sorted(topics))
LETTERS = sorted(set(TEXT))
NUMBERS = np.searchsorted(LETTERS, list(TEXT))


class Block(nn.Module):
    def __init__(self, width: int, heads: int):
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.enter, self.leave = nn.Linear(width, 3 * width), nn.Linear(width, width)
        up, down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.think = nn.Sequential(up, nn.GELU(), down)

    def __call__(self, x):
        b, n, d = x.shape
        parts = self.enter(self.norm1(x)).reshape(b, n, 3, self.heads, d // self.heads)
        q, k, v = parts.transpose(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.leave(y.swapaxes(1, 2).reshape(b, n, d))
        return x + self.think(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, width: int, depth: int, heads: int):
        self.letter, self.place = nn.Embedding(len(LETTERS), width), nn.Embedding(LENGTH, width)
        self.blocks = nn.Sequential(*[Block(width, heads) for _ in range(depth)])
        self.norm, self.output = nn.LayerNorm(width), nn.Linear(width, len(LETTERS))

    def __call__(self, letters):
        x = self.letter(letters) + self.place.weight[: letters.shape[1]]
        return self.output(self.norm(self.blocks(x)))


def loss(model, batch):
    return nn.functional.cross_entropy(model(batch[:, :-1]).swapaxes(1, 2), batch[:, 1:])


def write(model, text: str, count: int, heat: float = 0.7) -> str:
    rng, known = np.random.default_rng(0), list(np.searchsorted(LETTERS, list(text)))
    scores = bs.jit(lambda letters: model(letters))
    for _ in range(count):
        seen = np.zeros((1, LENGTH), int)  # what stands behind the last letter is not looked at
        seen[0, : len(known[-LENGTH:])] = known[-LENGTH:]
        s = scores(seen)[0, min(len(known), LENGTH) - 1].astype(float) / heat
        p = np.exp(s - s.max())
        known.append(rng.choice(len(LETTERS), p=p / p.sum()))
    return "".join(LETTERS[k] for k in known)


def pieces(count: int) -> np.ndarray:
    places = np.random.default_rng(0).integers(0, len(NUMBERS) - LENGTH, count)
    return np.stack([NUMBERS[k : k + LENGTH + 1] for k in places])


def train(steps: int, **options):
    nn.manual_seed(0)
    model = GPT(width=128, depth=3, heads=4)
    optimizer = optim.AdamW(lr=optim.schedules.one_cycle(5e-3, steps), weight_decay=0.01)
    batches = bs.data.Batches(pieces(24 * steps), 24)
    return bs.fit(model, loss, batches, optimizer=optimizer, epochs=1, clip=1.0, **options).model


def main(steps: int = 600) -> float:
    model = train(steps)
    nats = float(loss(model, pieces(200)))
    print(f"{nats / np.log(2):.2f} bits a letter\n")
    print(write(model, "The statement ", 300))
    return nats


if __name__ == "__main__":
    main()
