"""A bounded search for an order of elimination: simulated annealing on the skeleton of a system.

A step takes one row out of the order and puts it in elsewhere. What is left after a set of rows is eliminated
does not depend on their order, so that only the stretch between the two places is counted anew.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from math import exp

from .skeleton import Skeleton


def anneal(
    skeleton: Skeleton,
    start: Sequence[int],
    rule: str = "multiplications",
    *,
    steps: int = 10_000,
    seconds: float | None = None,
    seed: int = 0,
    heat: float = 3.0,
) -> list[int]:
    """The best order met in so many steps from `start`; `heat`, in multiplications, falls to nothing.

    With `seconds` it ends there too; without, the same seed gives the same order.
    """
    chance = random.Random(seed)
    walk = _Walk(skeleton, list(start), rule)
    best, best_cost = walk.order[:], sum(walk.costs)
    cost, n = best_cost, len(best)
    if n < 2:
        return best
    end = None if seconds is None else time.monotonic() + seconds
    for step in range(steps):
        if end is not None and step % 64 == 0 and time.monotonic() > end:
            break
        temperature = heat * (1 - step / steps) ** 2
        a = chance.randrange(n)
        # Mostly short ways: these are counted quickly and are accepted more often.
        reach = max(1, min(n - 1, int(chance.expovariate(1 / 8))))
        b = min(n - 1, max(0, a + (reach if chance.random() < 0.5 else -reach)))
        if a == b:
            continue
        change, stretch = walk.moved(a, b)
        if change <= 0 or (temperature > 0 and chance.random() < exp(-change / temperature)):
            walk.accept(min(a, b), stretch)
            cost += change
            if cost < best_cost:
                best, best_cost = walk.order[:], cost
    return best


class _Walk:
    """An order with what is left before each of its rows goes, and what each one costs."""

    def __init__(self, skeleton: Skeleton, order: list[int], rule: str):
        self.order, self.rule = order, rule
        self.left: list[Skeleton] = []
        self.costs: list[int] = []
        now = skeleton.copy()
        for v in order:
            self.left.append(now)
            self.costs.append(self._price(now, v))
            now = now.copy()
            now.eliminate(v)

    def _price(self, left: Skeleton, v: int) -> int:
        return left.pairs(v) if self.rule == "pairs" else left.multiplications(v)

    def moved(self, a: int, b: int) -> tuple[int, list[tuple[int, int, Skeleton]]]:
        """What the order would cost more with place a's row at place b; and the new stretch."""
        low, high = min(a, b), max(a, b)
        part = self.order[low : high + 1]
        part.insert(b - low, part.pop(a - low))
        now, stretch, total = self.left[low], [], 0
        for v in part:
            price = self._price(now, v)
            total += price
            stretch.append((v, price, now))
            if len(stretch) < len(part):
                now = now.copy()
                now.eliminate(v)
        return total - sum(self.costs[low : high + 1]), stretch

    def accept(self, low: int, stretch: list[tuple[int, int, Skeleton]]) -> None:
        for k, (v, price, left) in enumerate(stretch, low):
            self.order[k], self.costs[k], self.left[k] = v, price, left
