"""A convolutional network on handwritten digits, 8 × 8 pixels each; shifts of a pixel make more of them."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits

import backsolve as bs
from backsolve import nn, optim

digits = load_digits()
x = (digits.images[:, None] / 16).astype(np.float32)


def network() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Dropout(0.3), nn.Linear(256, 10),
    )  # fmt: skip


def shifted(batch, rng):
    """Each image moved by up to one pixel."""
    images, y = batch
    wide = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)))
    moves = rng.integers(0, 3, (len(y), 2))
    return np.stack([w[:, i : i + 8, j : j + 8] for w, (i, j) in zip(wide, moves, strict=True)]), y


def parts():
    """Which images are learned from, and which are not."""
    order = np.random.default_rng(0).permutation(len(x))
    return order[:1437], order[1437:]


def train(steps: int):
    seen, test = parts()
    nn.manual_seed(0)
    batches = bs.data.Batches((x[seen], digits.target[seen]), 64, seed=0, transform=shifted)
    count = steps * (len(seen) // 64 + 1)
    return bs.fit(
        network(),
        nn.functional.cross_entropy,
        batches,
        optimizer=optim.AdamW(lr=optim.schedules.one_cycle(1e-2, count)),
        epochs=steps,
        metrics=["accuracy"],
        validation=(x[test], digits.target[test]),
    )


def main(steps: int = 15) -> float:
    fitted, (_, test) = train(steps), parts()
    guess = np.argmax(fitted.predict(x[test]), axis=1)
    for k in test[guess != digits.target[test]][:3]:
        print(f"digit {k}, a {digits.target[k]}, read as {guess[test == k][0]}:")
        print(
            "\n".join(
                "".join(" .:-=+*#%@"[int(v * 9 / 16)] * 2 for v in r) for r in digits.images[k]
            )
        )
    print(f"test accuracy {fitted.metrics['val_accuracy']:.1%}")
    return float(fitted.metrics["val_accuracy"])


if __name__ == "__main__":
    main()
