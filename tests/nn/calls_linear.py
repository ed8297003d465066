"""Calls of linear maps and tables of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from references import Call, Draw, integers, positive, tied


def known(*numbers: int, keyword: str | None = None) -> Draw:
    return Draw((len(numbers),), lambda rng, s: np.array(numbers), False, keyword)


def linear_maps() -> list[Call]:
    calls = [Call("linear", [x, (4, 3)]) for x in ((3,), (5, 3), (2, 5, 3), (0, 3))]
    calls += [Call("linear", [(5, 3), (4, 3), (4,)]), Call("linear", [(5, 3), (3,)])]
    for lead in ((), (5,), (2, 3), (0,)):
        calls.append(Call("bilinear", [(*lead, 3), (*lead, 2), (4, 3, 2)]))
    calls.append(Call("bilinear", [(5, 3), (5, 2), (4, 3, 2), (4,)]))
    calls += [Call("one_hot", [integers(4, *s)], {"num_classes": 5}) for s in ((3,), (2, 3), ())]
    calls.append(Call("one_hot", [known(0, 3, 1)]))
    return calls


def tables() -> list[Call]:
    calls = []
    options: list[dict[str, Any]] = [
        {},
        {"padding_idx": 2},
        {"padding_idx": -1},
        {"scale_grad_by_freq": True},
        {"scale_grad_by_freq": True, "padding_idx": 1},
    ]
    for o in options:
        for shape in ((7,), (3, 4), (), (0,)):
            calls.append(
                Call(
                    "embedding",
                    [integers(5, *shape), (5, 3)],
                    o,
                    second="scale_grad_by_freq" not in o and shape != (0,),
                )
            )

    def add(*arrays: Any, **options: Any) -> None:
        calls.append(Call("embedding_bag", arrays, options, second=False))

    for mode in ("sum", "mean", "max"):
        for o in options[:3]:  # PyTorch takes other frequencies than those of the indices
            add(integers(5, 4, 6), (5, 3), mode=mode, **o)
            add(integers(5, 9), tied(5, 3), known(0, 2, 2, 7), mode=mode, **o)
            add(known(1, 1, 2, 2, 0), (5, 3), known(0, 2, 4), mode=mode, **o)
            all_ends = known(0, 4, 4, 4, 9)
            add(integers(5, 9), (5, 2), all_ends, mode=mode, include_last_offset=True, **o)
    for o in ({}, {"padding_idx": 2}):
        weights = Draw((9,), positive(9).of, keyword="per_sample_weights")
        add(integers(5, 9), (5, 3), known(0, 2, 2, 7), weights, mode="sum", **o)
        weights = Draw((4, 6), positive(4, 6).of, keyword="per_sample_weights")
        add(integers(5, 4, 6), (5, 3), weights, mode="sum", **o)
    return calls
