"""Calls of activations and distances: at their kinks, at ties and far from 0."""

from __future__ import annotations

import numpy as np
from references import Call, Draw, combined, tied

KINKS = [0, -0.5, 0.5, -1, 1, -3, 3, 6, -6, 20, -20, 25, -1000, 1000, 1e-9, -1e-9]


def awkward(*shape: int, without: float | None = None) -> Draw:
    """Normal numbers among those where something changes."""
    kinks = [x for x in KINKS if x != without]

    def draw(rng: np.random.Generator, s: tuple[int, ...]) -> np.ndarray:
        return np.where(rng.random(s) < 0.6, rng.choice(kinks, s), rng.normal(size=s) * 3)

    return Draw(shape, draw)


PLAIN = [
    "relu relu6 silu hardswish tanhshrink softsign logsigmoid sigmoid tanh",
    "hardtanh leaky_relu hardshrink softshrink softplus gelu rrelu",
]
OPTIONS = {
    "leaky_relu": [{"negative_slope": 0.3}, {"negative_slope": -0.5}],
    "elu": [{"alpha": 0.5}],
    "celu": [{"alpha": 2.0}, {"alpha": 0.25}],
    "gelu": [{"approximate": "tanh"}],
    "hardtanh": [{"min_val": -3.0, "max_val": 0.5}],
    "hardshrink": [{"lambd": 1.0}, {"lambd": 0.0}],
    "softshrink": [{"lambd": 1.0}, {"lambd": 0.0}],
    "softplus": [{"beta": 3.0}, {"beta": 0.5, "threshold": 2.9}],
    "threshold": [{"threshold": 0.5, "value": 2.0}, {"threshold": -1.0, "value": -7.0}],
    "rrelu": [{"lower": 0.1, "upper": 0.5}],
}


def activations() -> list[Call]:
    calls = [Call(name, [awkward(7, 9)]) for name in " ".join(PLAIN).split()]
    calls.append(Call("mish", [awkward(7, 9, without=1000)]))  # there PyTorch's second is NaN
    for name in ("elu", "celu", "selu"):  # at 0 PyTorch takes the second derivative from the right
        calls.append(Call(name, [awkward(7, 9)], second=False))
        calls.append(Call(name, [awkward(8, 8, without=0)]))
    calls += [
        Call(name, [awkward(5, 8, without=0)], o) for name, rows in OPTIONS.items() for o in rows
    ]
    calls += [Call(name, [shape]) for name in ("relu", "gelu", "elu") for shape in ((0, 3), ())]
    for x in ((4, 3), (2, 3, 4), (2, 3, 2, 2), (6,), (0, 3)):
        calls.append(Call("prelu", [awkward(*x), (1,)], second=False))
    calls += [Call("prelu", [awkward(2, 3, *more, without=0), (3,)]) for more in ((), (4,), (2, 2))]
    for name in ("softmax", "softmin", "log_softmax"):
        calls += combined(name, [awkward(3, 4, 5)], dim=[0, 1, -1])
        calls += [Call(name, [x], {"dim": 0}) for x in ((), (4,), (0, 3))]
        calls.append(Call(name, [(0, 3)], {"dim": 1}))
    calls += combined("glu", [awkward(4, 6, 2)], dim=[-1, 0, 1])
    return calls


def distances() -> list[Call]:
    norms = [1.0, 2.0, 3.0, 0.7, 1.5, float("inf")]
    calls = combined("normalize", [(3, 4, 2)], p=norms, dim=[1, 0])
    calls += combined("normalize", [tied(4, 3, 2)], p=[1.0, 2.0, 3.0, float("inf")], dim=[1])
    calls += combined("normalize", [(3, 4)], p=[2.0], dim=[-1], eps=[3.0])
    calls.append(Call("normalize", [(0, 4)]))
    for shapes in ([(3, 4), (3, 4)], [(2, 1, 5), (3, 5)]):
        calls += combined("cosine_similarity", shapes, dim=[-1, 0])
        calls += combined("pairwise_distance", shapes, p=norms, keepdim=[False, True])
    calls.append(Call("pairwise_distance", [(5,), (5,)], {"eps": 0.1}))
    calls.append(Call("pairwise_distance", [tied(6, 2), tied(6, 2)], {"eps": 0.0}))
    calls.append(Call("pairwise_distance", [(0, 3), (0, 3)]))
    return calls
