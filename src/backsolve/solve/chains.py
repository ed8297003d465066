"""Chains: a product of many matrices in the order of brackets that multiplies fewest numbers.

Dynamic programming over stretches: the cheapest product from a to b is, for the best k between, that of the two
cheapest from a to k and from k to b. What two factors cost, operators say (`by_products`), or sizes alone.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from .skeleton import Skeleton, bits

_LONG = 400  # rows, from which on only the two directions are compared: brackets take n² steps of NumPy's
_MOST_PRODUCTS = 3000  # of operators, in one chain


def stretch_of(left: Skeleton, v: int) -> list[int]:
    """The rows around v that read one vertex and are read by one each, in order; none, if v is no such row."""

    def is_link(v: int) -> bool:
        return v < left.rows and left.reads[v].bit_count() == 1 and left.read_by[v].bit_count() == 1

    if not is_link(v):
        return []
    found = [v]
    while is_link(before := next(bits(left.reads[found[0]]))):
        found.insert(0, before)
    while is_link(after := next(bits(left.read_by[found[-1]]))):
        found.append(after)
    return found


def bracketed(left: Skeleton, stretch: list[int]) -> list[int]:
    """The rows of a stretch as they should go; the one between the two outermost brackets last."""
    if len(stretch) < 2:
        return stretch
    if len(stretch) > _LONG:
        return min(stretch, stretch[::-1], key=lambda o: left.cost(o, "multiplications"))
    first, last = next(bits(left.reads[stretch[0]])), next(bits(left.read_by[stretch[-1]]))
    path = [first, *stretch, last]
    m = len(path) - 1  # matrices: number t leads from path[t] to path[t + 1]
    size = np.array([float(left.sizes[v]) for v in path])
    unit = np.array([left.unit[i] >> j & 1 for j, i in zip(path, path[1:], strict=False)])
    full = np.array([left.full[i] >> j & 1 for j, i in zip(path, path[1:], strict=False)])
    units, fulls = np.append(0, np.cumsum(unit)), np.append(0, np.cumsum(full))

    cost = np.zeros((m + 1, m + 1))  # of the product from path[a] to path[b]
    cut = np.zeros((m + 1, m + 1), int)
    for length in range(2, m + 1):
        for a in range(m - length + 1):
            b = a + length
            k = np.arange(a + 1, b)
            active = (units[k] - units[a] < k - a) & (units[b] - units[k] < b - k)
            width = np.where(fulls[k] > fulls[a], size[a], 1.0)
            height = np.where(fulls[b] > fulls[k], size[b], 1.0)
            total = cost[a, k] + cost[k, b] + active * size[k] * width * height
            best = int(np.argmin(total))
            cost[a, b], cut[a, b] = total[best], k[best]
    return [path[k] for k in _innermost_first(m, lambda a, b: int(cut[a, b]))]


def _innermost_first(m: int, cut: Callable[[int, int], int]) -> list[int]:
    """The places between the factors, as they go; `cut(a, b)` is the last of them between a and b."""
    order, open_ = [], [(0, m)]
    while open_:
        a, b = open_.pop()
        if b - a > 1:
            middle = cut(a, b)
            order.append(middle)
            open_ += [(a, middle), (middle, b)]
    return order[::-1]


def by_products(
    factors: Sequence[Any],
    product: Callable[[Any, Any], tuple[Any, int]],
    form: Callable[[Any], Hashable],
) -> list[int] | None:
    """The places 1 … m − 1 between m factors, each of which leads from place t to t + 1, as they should go.

    `product(b, a)` is b after a and what that multiplies. Of factors of one `form` it is asked for once; None,
    if there are too many forms to be asked for.
    """
    numbers: dict[Hashable, int] = {}  # of forms
    alike: list[Any] = []  # one of each form
    asked: dict[tuple[int, int], tuple[int, int]] = {}

    def known(factor: Any) -> int:
        number = numbers.setdefault(form(factor), len(alike))
        if number == len(alike):
            alike.append(factor)
        return number

    m = len(factors)
    best = {(t, t + 1): (0, t, known(f)) for t, f in enumerate(factors)}
    for length in range(2, m + 1):
        for a in range(m - length + 1):
            b = a + length
            ways = []
            for k in range(a + 1, b):
                (before, _, first), (after, _, then) = best[a, k], best[k, b]
                if (then, first) not in asked:
                    if len(asked) == _MOST_PRODUCTS:
                        return None
                    made, price = product(alike[then], alike[first])
                    asked[then, first] = known(made), price
                made_form, price = asked[then, first]
                ways.append((before + after + price, k, made_form))
            best[a, b] = min(ways, key=lambda way: way[0])
    return _innermost_first(m, lambda a, b: best[a, b][1])
