"""A two-layer softmax network with a regularised loss: its gradient by hand, and by the library.

    f = W₂ max(W₁ x + b₁, 0) + b₂,   L = mean(−log softmax(f)_y) + λ (‖W₁‖² + ‖W₂‖²)

The points are three spiral arms in the plane, which no straight line tells apart.
"""

from __future__ import annotations

import numpy as np

import backsolve as bs

REGULARISATION = 1e-3


def spirals(count: int = 100, arms: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    radius = np.tile(np.linspace(0.05, 1, count), arms)
    label = np.repeat(np.arange(arms), count)
    angle = 4 * radius + 4 * label + rng.normal(scale=0.2, size=len(radius))
    return np.stack([radius * np.sin(angle), radius * np.cos(angle)], axis=1), label


def first_weights(hidden: int, classes: int = 3) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    W1, W2 = rng.normal(size=(2, hidden)) / 2, rng.normal(size=(hidden, classes)) / np.sqrt(hidden)
    return {"W1": W1, "b1": np.zeros(hidden), "W2": W2, "b2": np.zeros(classes)}


def scores(p, x):
    return np.maximum(x @ p["W1"] + p["b1"], 0) @ p["W2"] + p["b2"]


def loss(p, x, y):
    s = scores(p, x)
    s = s - np.max(s, axis=1, keepdims=True)
    log_probability = s - np.log(np.sum(np.exp(s), axis=1, keepdims=True))
    size = np.sum(p["W1"] ** 2) + np.sum(p["W2"] ** 2)
    return -np.mean(log_probability[np.arange(len(y)), y]) + REGULARISATION * size


def gradient_by_hand(p, x, y):
    """Back substitution, row by row, as one writes it on paper."""
    h = np.maximum(x @ p["W1"] + p["b1"], 0)
    s = h @ p["W2"] + p["b2"]
    e = np.exp(s - s.max(axis=1, keepdims=True))
    ds = e / e.sum(axis=1, keepdims=True)  # the softmax …
    ds[np.arange(len(y)), y] -= 1  # … less one at the right class
    ds /= len(y)
    dh = (ds @ p["W2"].T) * (h > 0)  # the gate of max(·, 0)
    return {
        "W1": x.T @ dh + 2 * REGULARISATION * p["W1"],
        "b1": dh.sum(axis=0),
        "W2": h.T @ ds + 2 * REGULARISATION * p["W2"],
        "b2": ds.sum(axis=0),
    }


def main(steps: int = 3000) -> float:
    x, y = spirals()
    p = first_weights(hidden=64)
    by_hand, by_library = gradient_by_hand(p, x, y), bs.grad(loss)(p, x, y)
    worst = max(np.abs(by_hand[k] - by_library[k]).max() for k in p)
    print(f"largest difference between the two gradients: {worst:.1e}")
    assert worst < 1e-12
    gradient = bs.jit(bs.value_and_grad(loss))
    for step in range(steps):
        value, g = gradient(p, x, y)
        p = {k: p[k] - 1.0 * g[k] for k in p}
        if step % 500 == 0:
            print(f"step {step:5d}  loss {value:.4f}")
    accuracy = float(np.mean(np.argmax(scores(p, x), axis=1) == y))
    print(f"accuracy {accuracy:.1%}")
    return accuracy


if __name__ == "__main__":
    main()
