"""What transforms rest on: lengths and their factors, and roots of unity right to the last digit."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

WRITTEN_OUT = 13  # the largest radix that is; larger ones are loops (primes.py)
LARGEST = 100  # prime factors of these, together; a length with more of them is made a convolution
_PI = np.pi, 1.2246467991473532e-16  # and what is missing of it
_SPLIT = 2.0**27 + 1


def roots(powers: Any, n: int) -> Any:
    """e^{-2πi k/n} for whole numbers k, as pairs of real numbers (…, 2).

    Angles are counted from the nearest quarter of a turn, and computed to twice the digits of a double: errors
    are those of one sine or cosine.
    """
    k = np.asarray(powers, np.int64) % n
    quarter = (4 * k + n // 2) // n
    high, low = _quarters((4 * k - quarter * n).astype(np.float64), float(n))
    c, s = np.cos(high), np.sin(high)
    c, s = c - low * s, s + low * c
    for turn in (1, 2, 3):
        here = quarter % 4 == turn
        c, s = [np.where(here, *pair) for pair in zip(_turned(c, s, turn), (c, s), strict=True)]
    return np.stack([c, -s], axis=-1)


def _turned(c: Any, s: Any, turn: int) -> tuple[Any, Any]:
    return [(c, s), (-s, c), (-c, -s), (s, -c)][turn]


def _quarters(x: Any, n: float) -> tuple[Any, Any]:
    """π/2 · x / n, as a sum of two doubles."""
    q = x / n
    product, error = _product(q, n)
    tail = ((x - product) - error) / n
    high, error = _product(q, _PI[0] / 2)
    return high, error + q * (_PI[1] / 2) + tail * (_PI[0] / 2)


def _product(x: Any, y: float) -> tuple[Any, Any]:
    """x y, and what rounding took from it (Dekker)."""
    product = x * y
    t = _SPLIT * x
    xh = t - (t - x)
    t = _SPLIT * y
    yh = t - (t - y)
    xl, yl = x - xh, y - yh
    return product, ((xh * yh - product) + xh * yl + xl * yh) + xl * yl


def factors(n: int) -> tuple[int, ...] | None:
    """Radices of which n is the product, the even ones first; None if its prime factors are too large."""
    twos = (n & -n).bit_length() - 1
    found = [8] * (twos // 3)
    if twos % 3 == 2:
        found.append(4)
    elif twos % 3 == 1:
        found = [*found[:-1], 4, 4] if found else [2]
    n >>= twos
    p = 3
    while n > 1 and p < LARGEST:
        while n % p == 0:
            found.append(p)
            n //= p
        p += 2
    large = sum(r for r in found if r > WRITTEN_OUT)
    return tuple(found) if n == 1 and large < LARGEST else None


@lru_cache(maxsize=256)
def smooth(n: int) -> int:
    """A length of at least n that is fast to transform: a multiple of 8 with factors up to 5."""
    best = 1 << max(3, (n - 1).bit_length())
    five = 1
    while five < best:
        three = five
        while three < best:
            rest = -(-n // three)
            best = min(best, three << max(3, (rest - 1).bit_length()))
            three *= 3
        five *= 5
    return best


def near_root(radices: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The radices in two groups of about the same product."""
    total = np.prod(radices, dtype=float)
    best, chosen = np.inf, 0
    for mask in range(1 << len(radices)):
        size = np.prod([r for k, r in enumerate(radices) if mask >> k & 1], dtype=float)
        if abs(np.log(size * size / total)) < best:
            best, chosen = abs(np.log(size * size / total)), mask
    inside = [chosen >> k & 1 for k in range(len(radices))]
    groups = [tuple(r for r, i in zip(radices, inside, strict=True) if i == g) for g in (1, 0)]
    return groups[0], groups[1]
