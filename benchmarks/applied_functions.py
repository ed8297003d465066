"""Functions for the chooser as they are met in practice: linear algebra, transforms, fits, physics, layers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.special

import backsolve as bs
from backsolve import nn

RNG = np.random.default_rng(0)
Case = tuple[str, Callable[[Any], Any], Any]


def _positive(n: int) -> Any:
    a = RNG.normal(size=(n, n))
    return a @ a.T + n * np.eye(n)


def _layers(*widths: int) -> list[Any]:
    return [RNG.normal(size=(b, a)) / np.sqrt(a) for a, b in zip(widths, widths[1:], strict=False)]


def _normal(*shape: int) -> Any:
    return RNG.normal(size=shape)


def linear_algebra() -> Iterator[Case]:
    s6, s8, s30, data = _positive(6), _positive(8), _positive(30), _normal(40, 5)
    yield "solve 8", lambda b: np.linalg.solve(s8 + np.diag(b), b), _normal(8)
    yield "solve 30", lambda b: np.linalg.solve(s30 + np.diag(b), b), _normal(30)
    yield "inverse 8", lambda b: np.linalg.inv(s8 + np.outer(b, b)), _normal(8)
    yield "inverse of 6 × 6", lambda m: np.linalg.inv(m @ m.T + 6 * np.eye(6)), _normal(6, 6)
    yield "Cholesky 8", lambda b: np.linalg.cholesky(s8 + np.diag(b * b)), _normal(8)
    yield "eigenvalues 8", lambda b: np.linalg.eigvalsh(s8 + np.outer(b, b)), _normal(8)
    yield "eigenvectors 6", lambda b: np.linalg.eigh(s6 + np.outer(b, b))[1] ** 2, _normal(6)
    yield (
        "singular values 5 × 7",
        lambda m: np.linalg.svd(m, compute_uv=False),
        _normal(5, 7),
    )
    yield "log det 6 × 6", lambda m: np.linalg.slogdet(m)[1] * m, _normal(6, 6)
    yield "R of 5 × 3", lambda m: np.linalg.qr(m)[1], _normal(5, 3)
    yield "pseudo-inverse 5 × 3", np.linalg.pinv, _normal(5, 3)
    yield "power of 5 × 5", lambda m: np.linalg.matrix_power(m, 5), _normal(5, 5)
    yield (
        "least squares 40",
        lambda b: np.linalg.lstsq(data, np.sin(b), rcond=None)[0],
        _normal(40),
    )
    yield "Kronecker 4 × 4", lambda m: np.kron(m, m) @ np.ones(16), _normal(4, 4)
    yield "covariance 12 × 4", lambda x: np.cov(x.T), _normal(12, 4)


def signals() -> Iterator[Case]:
    half, taps = np.linspace(1, 0, 33), np.array([0.2, 0.5, 0.3])
    knots, tail = np.linspace(0, 1, 12), _normal(50)
    yield "spectrum 32", lambda x: np.abs(np.fft.rfft(x)), _normal(32)
    yield "filter 64", lambda x: np.fft.irfft(np.fft.rfft(np.sin(x)) * half), _normal(64)
    yield "convolution 60", lambda x: np.convolve(np.sin(x), taps, "same"), _normal(60)
    yield "convolution of two", lambda x: np.convolve(x[:20], x[20:]), _normal(30)
    yield "taps 8", lambda h: np.convolve(tail, h, "valid"), _normal(8)
    yield "sorted 40", lambda x: np.sort(np.sin(x)) * x, _normal(40)
    yield "medians", lambda x: np.median(x.reshape(5, 7), 1) * x[:5], _normal(35)
    yield (
        "interpolated 12",
        lambda y: np.interp(np.linspace(0, 1, 30), knots, np.sin(y)),
        _normal(12),
    )
    yield "running product 20", lambda x: np.cumprod(1 + 0.1 * x), _normal(20)
    yield "second differences 40", lambda x: np.diff(np.sin(x), 2), _normal(40)


def _pendulum(p: Any) -> Any:
    s = np.array([1.0, 0.0])
    path = []
    for _ in range(12):
        slope = np.stack([s[1], -p[0] * np.sin(s[0]) - p[1] * s[1]])
        middle = s + 0.025 * slope
        s = s + 0.05 * np.stack([middle[1], -p[0] * np.sin(middle[0]) - p[1] * middle[1]])
        path.append(s)
    return np.stack(path)


def _filtered(q: Any) -> Any:
    """The covariance of a Kalman filter after six steps."""
    p, f, h = np.eye(3), np.eye(3) + 0.1 * np.diag(np.ones(2), 1), np.array([[1.0, 0, 0]])
    for _ in range(6):
        p = f @ p @ f.T + np.diag(np.exp(q))
        gain = p @ h.T / (h @ p @ h.T + 0.1)
        p = p - gain @ h @ p
    return p


def _rotation(q: Any) -> Any:
    w, x, y, z = q / np.sqrt((q * q).sum())
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
    ]
    return np.stack([np.stack(row) for row in rows])


def _forces(p: Any) -> Any:
    apart = p[:, None] - p
    return (apart / ((apart**2).sum(-1) + 0.1)[..., None] ** 1.5).sum(1)


def physics() -> Iterator[Case]:
    times = np.linspace(0, 1, 50)
    seen = np.exp(-times)
    yield "exponential fit", lambda p: p[0] * np.exp(-p[1] * times) + p[2] - seen, _normal(3)
    yield (
        "three peaks",
        lambda p: (p[:3, None] * np.exp(-(((times - p[3:6, None]) / p[6:, None]) ** 2))).sum(0),
        np.abs(_normal(9)) + 0.5,
    )
    yield "pendulum", _pendulum, np.array([9.0, 0.1])
    yield "Kalman filter", _filtered, _normal(3)
    yield "rotation", _rotation, _normal(4)
    yield "forces 15 × 3", _forces, _normal(15, 3)
    yield (
        "distances 20 × 3",
        lambda p: np.sqrt(((p[:, None] - p) ** 2).sum(-1) + 1e-3),
        _normal(20, 3),
    )
    yield "larger of pairs 30", lambda x: np.maximum(x[:, None], x).sum(1), _normal(30)
    yield (
        "kinematics 7",
        lambda q: np.stack([np.cos(np.cumsum(q)).sum(), np.sin(np.cumsum(q)).sum(), q.sum()]),
        _normal(7),
    )
    yield "log gamma 25", lambda x: scipy.special.gammaln(x * x + 1) * x, _normal(25)
    yield (
        "Hessian of Rosenbrock 10",
        bs.grad(lambda x: (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()),
        _normal(10),
    )
    yield (
        "Hessian of log-sum-exp 40",
        bs.grad(lambda x: np.log(np.exp(x).sum())),
        _normal(40),
    )
    yield (
        "Hessian of an energy 8 × 3",
        bs.grad(lambda p: (1 / np.sqrt(((p[:, None] - p) ** 2).sum(-1) + 1)).sum()),
        _normal(8, 3),
    )


def networks() -> Iterator[Case]:
    a, b, c = _layers(16, 32, 32, 10)
    a32, b32, c32 = (w.astype(np.float32) for w in (a, b, c))
    data, labels, image = _normal(40, 5), RNG.integers(0, 3, 40), _normal(1, 1, 8, 8)

    def attended(x: Any) -> Any:
        weights = np.exp(x @ x.T / 2)
        return weights / weights.sum(-1, keepdims=True) @ x

    def losses(w: Any) -> Any:
        scores = np.exp(data @ w)
        return -np.log(scores / scores.sum(1, keepdims=True))[np.arange(40), labels]

    yield "layers 16-32-32-10", lambda x: c @ np.tanh(b @ np.tanh(a @ x)), _normal(16)
    yield (
        "in single precision",
        lambda x: c32 @ np.tanh(b32 @ np.tanh(a32 @ x)),
        _normal(16).astype(np.float32),
    )
    yield "six examples", lambda x: np.tanh(x @ a.T) @ b.T, _normal(6, 16)
    yield "a layer's weights", lambda w: np.tanh(w @ np.ones(16)), a
    yield "attention 6 × 4", attended, _normal(6, 4)
    yield "losses by weights", losses, _normal(5, 3)
    yield "layer norm 3 × 6", lambda x: nn.functional.layer_norm(x, (6,)), _normal(3, 6)
    yield "largest of windows", lambda x: nn.functional.max_pool2d(np.sin(x), 2), image
    yield "kernels", lambda k: nn.functional.conv2d(image, k), _normal(4, 1, 3, 3)


def applied() -> Iterator[Case]:
    for kind in (linear_algebra, signals, physics, networks):
        yield from kind()
