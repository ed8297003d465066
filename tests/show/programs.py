"""Functions that the page recomputes, with a point for each, and functions that it cannot, with the reason."""

from __future__ import annotations

import numpy as np
from scipy.special import expit, gammaln

import backsolve as bs
from backsolve import nn

RNG = np.random.default_rng(7)


def draw(*shape):
    return RNG.normal(size=shape)


# ---- the documents


def path_weights(x, y):
    return (x * 2.0 + y * 3.0) * 5.0 * 7.0


def scalar_mlp(w, b):
    x = 0.3
    for k in range(4):
        x = np.tanh(w[k] * x + b[k])
    return x


def matrix_mlp(Ws, Bs):
    X = np.linspace(-1, 1, 18).reshape(3, 6)
    for W, B in zip(Ws, Bs, strict=True):
        X = np.tanh(W @ X + B)
    return ((X - 0.1) ** 2).sum() / 2


def gates(w0, x0, w1, x1, w2):
    return 1 / (1 + np.exp(-1.0 * (w0 * x0 + w1 * x1 + w2)))


def one_gate(w0, x0, w1, x1, w2):
    return expit(w0 * x0 + w1 * x1 + w2)


def routes(a, b):
    return 9.0 * np.maximum(a, b) + 4.0 * a + a * b


def notes(x):
    return np.log(x[0]) + x[0] * x[1] - np.sin(x[1])


def swap(A, B):
    return np.sin(np.einsum("hik,hjk->hij", A, B))


def recursive(x, n=3):
    return x if n == 0 else np.sin(recursive(x, n - 1))


def branch(a, b):
    return a * b if a > 0 else a + 2 * b


def constant(x):
    return np.ones(2) * np.floor(x)


def cube_root(a):
    x = a
    while abs(x**3 - a) > 1e-12:
        x = (2 * x + a / x**2) / 3
    return x


# ---- learning

LABELS = np.array([0, 2, 1, 1])
POINTS = draw(4, 3)


def softmax_regression(W, b):
    return -np.mean(bs.scipy.special.log_softmax(POINTS @ W + b, axis=1)[np.arange(4), LABELS])


def cross_entropy(p, x):
    h = np.maximum(x @ p["W1"] + p["b1"], 0)
    return nn.functional.cross_entropy(h @ p["W2"] + p["b2"], LABELS)


def layer_norm(x, scale, shift):
    y = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    return np.sum(np.tanh(y * scale + shift))


def attention(q, k, v):
    s = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    s = np.where(np.tri(3, dtype=bool), s, -np.inf)
    w = np.exp(s - s.max(-1, keepdims=True))
    return np.sum((w / w.sum(-1, keepdims=True)) @ v)


def attention_of_library(q, k, v):
    return np.sum(nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True) ** 2)


def rnn(W, U, h):
    for x in POINTS:
        h = np.tanh(W @ x + U @ h)
    return h @ h


def convolution(image, kernel):
    return np.sum(np.maximum(nn.functional.conv2d(image, kernel, padding=1), 0) ** 2)


def pooling(image):
    return np.sum(nn.functional.max_pool2d(image, 2) ** 2)


def embedding(table):
    return np.sum(np.sin(table[np.array([0, 2, 2])]) * table[1])


nn.manual_seed(0)
MODEL = nn.Sequential(
    nn.Linear(3, 4), nn.Dropout(0.5), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 3)
)


def model_with_state(model, x):
    return nn.functional.cross_entropy(model(x), LABELS)


def gelu(x):
    return np.sum(nn.functional.gelu(x) + nn.functional.softplus(x))


@bs.jit
def compiled(x):
    return np.sin(x) * x


# ---- numerics


def robot_arm(angles):
    reach = np.cumsum(angles)
    x, y = np.sum(np.cos(reach)), np.sum(np.sin(reach))
    return (x - 1.0) ** 2 + (y - 0.5) ** 2 + np.arctan2(y, x)


def sorted_and_ranked(x):
    return np.sort(x)[1] * np.median(x) + np.max(x) - np.argmax(x) * np.min(x)


def likelihood(rate, shape):
    x = np.array([0.5, 1.0, 2.5])
    return np.sum(shape * np.log(rate) + (shape - 1) * np.log(x) - rate * x - gammaln(shape))


def writes(x):
    y = bs.tensor(np.zeros(4))
    y[1:3] = x[::-1]
    y[0] += x[0] * x[1]
    return np.prod(y + 1.5) + np.linalg.norm(x)


def discounted(r, g):
    total = 0.0
    for x in r:
        total = x + g * total
    return total + np.sum(np.cumprod(r)) + np.convolve(r, r)[2]


def interpolated(x):
    return np.sum(np.interp(x, np.linspace(-3, 3, 7), np.arange(7.0) ** 2))


def stacked(x, y):
    return np.prod(np.stack([x, y * x]).sum(axis=1)) + np.vstack([x, y]).max()


def rosenbrock(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def single(x, w):
    return np.sum(np.exp(-0.1 * x) * w)


def number_and_single(x, w):
    return np.sum(x * w / 3)


WEIGHTS = {"W1": draw(3, 5), "b1": draw(5), "W2": draw(5, 3), "b2": draw(3)}
RUNS = [
    (path_weights, (1.0, 1.0)),
    (scalar_mlp, (draw(4), draw(4))),
    (matrix_mlp, ([draw(5, 3), draw(2, 5)], [draw(5, 6), draw(2, 6)])),
    (gates, (2.0, -1.0, -3.0, -2.0, -3.0)),
    (one_gate, (2.0, -1.0, -3.0, -2.0, -3.0)),
    (routes, (3.0, 4.0)),
    (notes, (np.array([2.0, 5.0]),)),
    (swap, (draw(2, 3, 4), draw(2, 5, 4))),
    (recursive, (0.5,)),
    (branch, (1.0, 2.0)),
    (compiled, (0.7,)),
    (constant, (1.5,)),
    (softmax_regression, (draw(3, 3), draw(3))),
    (cross_entropy, (WEIGHTS, draw(4, 3))),
    (layer_norm, (draw(3, 4), draw(4), draw(4))),
    (attention, (draw(3, 2), draw(3, 2), draw(3, 2))),
    (attention_of_library, (draw(2, 3, 2), draw(2, 3, 2), draw(2, 3, 2))),
    (rnn, (draw(2, 3), draw(2, 2), draw(2))),
    (convolution, (draw(1, 2, 5, 5), draw(3, 2, 3, 3))),
    (pooling, (draw(1, 2, 4, 4),)),
    (embedding, (draw(3, 2),)),
    (model_with_state, (MODEL, draw(4, 3))),
    (gelu, (draw(5),)),
    (robot_arm, (draw(3),)),
    (sorted_and_ranked, (draw(5),)),
    (likelihood, (1.5, 2.5)),
    (writes, (np.array([0.3, 0.8]),)),
    (discounted, (draw(4), 0.9)),
    (interpolated, (draw(3),)),
    (stacked, (draw(3), draw(3))),
    (rosenbrock, (draw(4),)),
    (single, (draw(3).astype(np.float32), draw(3).astype(np.float32))),
    (number_and_single, (0.1, draw(3).astype(np.float32))),
]


# ---- what the page cannot do, and what it says


def gaussian_process(length):
    x = np.linspace(0, 1, 4)
    K = np.exp(-((x[:, None] - x) ** 2) / length) + np.eye(4)
    L = np.linalg.cholesky(K)
    return np.sum(np.log(np.diag(L))) + x @ np.linalg.solve(K, x)


def middle(x):
    return np.nanmedian(x) * 2.0


def leaves_the_world(x):
    return float(x.value) * x


def spectrum(x):
    return np.sum(np.abs(np.fft.fft(x)))


def half(x):
    return np.sum(x * x)


def on_sphere(x):
    return np.sum(x * np.arange(3.0))


REFUSED = [
    (on_sphere, (bs.on(bs.manifolds.Sphere(), np.array([0.6, 0.0, 0.8])),), "on a manifold"),
    (gaussian_process, (0.3,), "`cholesky`"),
    (middle, (draw(4),), "in line"),
    (leaves_the_world, (1.0,), "Python asked for its value"),
    (spectrum, (draw(4),), "`fft`"),
    (half, (draw(3).astype(np.float16),), "float16"),
    (rosenbrock, (draw(60_000),), "large"),
]
