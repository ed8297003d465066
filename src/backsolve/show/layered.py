"""Boxes in layers from left to right, wires between them: where everything goes.

The usual four steps (Sugiyama): each box a layer behind the last that it reads; long wires through a bend in
every layer between; the order inside of a layer by the middle of the neighbours, swept back and forth; and
heights as close to the neighbours' as the order and the gaps allow, a least-squares fit of monotone numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_SWEEPS = 8
_BEND = 14.0  # the room that a wire takes


@dataclass(frozen=True)
class Layout:
    width: float
    height: float
    centres: list[tuple[float, float]]  # of the boxes
    bends: list[list[tuple[float, float]]]  # of the wires, from left to right


def layered(
    sizes: Sequence[tuple[float, float]],
    wires: Sequence[tuple[int, int]],
    *,
    gap: float = 34.0,
    space: float = 24.0,
) -> Layout:
    """Boxes come in an order in which wires go from earlier to later ones.

    >>> layered([(40, 20), (40, 20)], [(0, 1)]).centres
    [(20.0, 10.0), (94.0, 10.0)]
    """
    if not sizes:
        return Layout(0.0, 0.0, [], [])
    layer_of = _layers(len(sizes), wires)
    heights = [h for _, h in sizes]
    links: list[tuple[int, int]] = []  # between neighbouring layers
    chains: list[list[int]] = []  # the bends of each wire
    for a, b in wires:
        chain = []
        for layer in range(layer_of[a] + 1, layer_of[b]):
            layer_of.append(layer)
            heights.append(_BEND)
            chain.append(len(heights) - 1)
        chains.append(chain)
        stops = [a, *chain, b]
        links += list(zip(stops, stops[1:], strict=False))
    layers: list[list[int]] = [[] for _ in range(max(layer_of) + 1)]
    for k, layer in enumerate(layer_of):
        layers[layer].append(k)
    before: list[list[int]] = [[] for _ in heights]
    behind: list[list[int]] = [[] for _ in heights]
    for a, b in links:
        before[b].append(a)
        behind[a].append(b)
    _order(layers, before, behind)
    ys = _heights(layers, before, behind, heights, space)
    xs = _columns(layers, sizes, gap)
    lefts = [
        x - w / 2
        for x, (w, _) in zip((xs[layer_of[k]] for k in range(len(sizes))), sizes, strict=True)
    ]
    return Layout(
        max(left + w for left, (w, _) in zip(lefts, sizes, strict=True)),
        max(y + h / 2 for y, h in zip(ys, heights, strict=True)),
        [(xs[layer_of[k]], ys[k]) for k in range(len(sizes))],
        [[(xs[layer_of[k]], ys[k]) for k in chain] for chain in chains],
    )


def _layers(count: int, wires: Sequence[tuple[int, int]]) -> list[int]:
    found = [0] * count
    for a, b in sorted(wires, key=lambda w: w[1]):
        found[b] = max(found[b], found[a] + 1)
    first = [0] * count
    for a, b in wires:
        first[a] = found[b] if not first[a] else min(first[a], found[b])
    read = {b for _, b in wires}
    # What reads nothing stands right before its first reader.
    return [max(first[k] - 1, 0) if k not in read else found[k] for k in range(count)]


def _order(layers: list[list[int]], before: list[list[int]], behind: list[list[int]]) -> None:
    place = {k: float(i) for layer in layers for i, k in enumerate(layer)}
    for sweep in range(_SWEEPS):
        ahead = sweep % 2 == 0
        for layer in layers if ahead else reversed(layers):
            beside = before if ahead else behind
            middle = {
                k: sum(place[j] for j in beside[k]) / len(beside[k]) if beside[k] else place[k]
                for k in layer
            }
            layer.sort(key=lambda k: (middle[k], place[k]))
            for i, k in enumerate(layer):
                place[k] = float(i)


def _heights(
    layers: list[list[int]],
    before: list[list[int]],
    behind: list[list[int]],
    heights: list[float],
    space: float,
) -> list[float]:
    ys = [0.0] * len(heights)
    for layer in layers:
        y = 0.0
        for k in layer:
            ys[k] = y + heights[k] / 2
            y += heights[k] + space
    for sweep in range(_SWEEPS):
        for layer in layers if sweep % 2 == 0 else reversed(layers):
            wish = []
            for k in layer:
                beside = (before if sweep % 2 == 0 else behind)[k] or [*before[k], *behind[k]]
                wish.append(sum(ys[j] for j in beside) / len(beside) if beside else ys[k])
            offsets = [0.0]
            for a, b in zip(layer, layer[1:], strict=False):
                offsets.append(offsets[-1] + (heights[a] + heights[b]) / 2 + space)
            fitted = _monotone([w - o for w, o in zip(wish, offsets, strict=True)])
            for k, y, offset in zip(layer, fitted, offsets, strict=True):
                ys[k] = y + offset
    top = min(y - h / 2 for y, h in zip(ys, heights, strict=True))
    return [y - top for y in ys]


def _monotone(wish: list[float]) -> list[float]:
    """The nearest numbers that do not decrease: neighbours that do are pooled into their mean."""
    pools: list[tuple[float, int]] = []
    for w in wish:
        pools.append((w, 1))
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            (b, m), (a, n) = pools.pop(), pools.pop()
            pools.append(((a * n + b * m) / (n + m), n + m))
    return [mean for mean, n in pools for _ in range(n)]


def _columns(
    layers: list[list[int]], sizes: Sequence[tuple[float, float]], gap: float
) -> list[float]:
    xs, left = [], 0.0
    for layer in layers:
        width = max([sizes[k][0] for k in layer if k < len(sizes)], default=0.0)
        xs.append(left + width / 2)
        left += width + gap
    return xs
