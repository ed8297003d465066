"""Functions for the chooser that are not small and straight: with loops, or with millions of entries."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

RNG = np.random.default_rng(0)
Case = tuple[str, Callable[[Any], Any], Any]


def _weights(n: int, m: int) -> Any:
    return RNG.normal(size=(n, m)) / np.sqrt(m)


def recurrent(n_in: int, n_hidden: int, n_out: int, steps: int) -> Case:
    a, b, c = _weights(n_hidden, n_hidden), _weights(n_hidden, n_in), _weights(n_out, n_hidden)

    def f(x: Any) -> Any:
        h, u = np.zeros(n_hidden), b @ x
        for _ in range(steps):
            h = np.tanh(a @ h + u)
        return c @ h

    return f"recurrent {n_in}-{n_hidden}-{n_out}", f, RNG.normal(size=n_in)


def advected(n: int, n_out: int, steps: int) -> Case:
    def f(u: Any) -> Any:
        for _ in range(steps):
            u = u + 0.01 * (np.roll(u, 1) - u) * np.sin(u)
        return u[:n_out]

    return f"advected {n}→{n_out}", f, RNG.normal(size=n)


def oscillators(n: int, steps: int) -> Case:
    coupled = _weights(n, n)

    def slope(p: Any) -> Any:
        return 1 + 0.1 * np.sin(coupled @ p) * np.cos(p)

    def f(p: Any) -> Any:
        for _ in range(steps):
            k = slope(p)
            p = p + 0.1 * slope(p + 0.05 * k)
        return p

    return f"oscillators {n}", f, RNG.normal(size=n)


def until_small(n: int, n_out: int) -> Case:
    a = 0.5 * _weights(n, n)

    def f(x: Any) -> Any:
        y = x
        while np.sum(y * y) > 1e-6:
            y = 0.8 * np.tanh(a @ y)
        return y[:n_out] + x[:n_out]

    return f"until small {n}→{n_out}", f, RNG.normal(size=n)


def shrinking(n: int) -> Case:
    def f(x: Any) -> Any:
        y = x
        while np.sum(y * y) > 1e-6:
            y = 0.7 * np.sin(y)
        return y + x

    return f"shrinking {n}", f, np.linspace(0.5, 1, n)


def roots(n: int) -> Case:
    def f(x: Any) -> Any:
        y = x
        while np.max(np.abs(y * y - x)) > 1e-9:
            y = 0.5 * (y + x / y)
        return y

    return f"roots {n}", f, np.linspace(1, 5, n)


def growing(n: int) -> Case:
    def f(x: Any) -> Any:
        y, total = x, 0.0
        while total < 2:
            y = y + 0.1 * np.sin(y) * x
            total = total + np.mean(x) * 0.2
        return y

    return f"growing {n}", f, np.linspace(0.1, 1, n)


def settled_again(n: int) -> Case:
    def f(x: Any) -> Any:
        y = x
        for _ in range(5):
            while np.sum(y * y) > 1e-3:
                y = 0.5 * np.tanh(y)
            y = y + 0.1 * x
        return y

    return f"settled again {n}", f, np.linspace(0.1, 1, n)


def summed(n: int, m: int) -> Case:
    def f(x: Any) -> Any:
        s = np.zeros(m)
        for k in range(30):
            s = s + np.sin(k * x[:m]) * x.sum()
        return s

    return f"summed {n}→{m}", f, RNG.normal(size=n)


def loops() -> Iterator[Case]:
    for widths in ((20, 16, 20), (24, 16, 20), (40, 16, 20), (20, 16, 24)):
        yield recurrent(*widths, 50)
    for widths in ((10, 64, 12), (12, 64, 10), (60, 64, 10), (10, 64, 60)):
        yield recurrent(*widths, 30)
    for n, n_out in ((30, 30), (30, 20), (30, 3), (300, 250)):
        yield advected(n, n_out, 40)
    for n in (3, 12, 50):
        yield oscillators(n, 60)
    for n, n_out in ((8, 8), (8, 6), (40, 30)):
        yield until_small(n, n_out)
    for n in (2, 5, 20):
        yield shrinking(n)
    for n in (3, 30):
        yield roots(n)
    for n in (4, 12):
        yield growing(n)
    yield settled_again(6)
    for n, m in ((20, 15), (20, 5)):
        yield summed(n, m)


def large() -> Iterator[Case]:
    """Each has a Jacobian of more than four million entries."""
    w = _weights(2200, 2500)
    at = RNG.integers(0, 2400, 2400)

    def line(n: int) -> Any:
        return np.linspace(0, 1, n)

    yield "softmax 2500", lambda x: np.exp(x) / np.exp(x).sum(), line(2500)
    yield "running sum 3000", lambda x: np.cumsum(np.sin(x)) * x, line(3000)
    yield "layer 2500-2200", lambda x: np.tanh(w @ np.sin(x)), line(2500)
    yield "centred 2300", lambda x: (x - x.mean()) / np.sqrt(x.var() + 1), line(2300)
    yield "gather 2400", lambda x: np.sin(x[at]) * np.cos(x), line(2400)
    yield "by a sum 2100", lambda x: np.sin(x) * np.exp(-x).sum() + x**2, line(2100)
    yield "outer 2500", lambda x: np.outer(x[:50], np.sin(x[-50:])).ravel() * x.sum(), line(2500)
    yield "repeated 300→21000", lambda x: np.tile(np.sin(x), 70) * line(21000), line(300)
