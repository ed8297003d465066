"""Calls of losses. Distinct shapes keep their labels apart."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from references import Call, Draw, combined, integers, positive, shares, signs, tied

REDUCTIONS = ["none", "mean", "sum"]


def classes(count: int, *shape: int, ignored: float = 0.0, index: int = -100) -> Draw:
    """Class indices, some of them ignored."""

    def draw(rng: np.random.Generator, s: tuple[int, ...]) -> Any:
        return np.where(rng.random(s) < ignored, index, rng.integers(0, count, s))

    return Draw(shape, draw, varies=False)


def distribution(*shape: int, keyword: str | None = None) -> Draw:
    """Probabilities along axis 1."""

    def draw(rng: np.random.Generator, s: tuple[int, ...]) -> Any:
        e = rng.uniform(0.1, 1, s)
        return e / e.sum(1, keepdims=True)

    return Draw(shape, draw, keyword=keyword)


def named(keyword: str, draw: Draw, varies: bool = True) -> Draw:
    return Draw(draw.shape, draw.of, varies, keyword)


def some_classes(*shape: int) -> Draw:
    """Rows that name different classes, up to a −1."""

    def draw(rng: np.random.Generator, s: tuple[int, ...]) -> Any:
        rows = [rng.permutation(s[-1]) for _ in range(int(np.prod(s[:-1])))]
        ends = [rng.integers(0, s[-1] + 1) for _ in rows]
        for row, end in zip(rows, ends, strict=True):
            row[end : end + 1] = -1
        return np.array(rows).reshape(s)

    return Draw(shape, draw, varies=False)


def losses() -> list[Call]:
    calls = []
    for reduction in REDUCTIONS:
        r: dict[str, Any] = {"reduction": reduction}
        for name in ("l1_loss", "mse_loss", "smooth_l1_loss", "huber_loss"):
            calls.append(Call(name, [tied(6, 5), tied(6, 5)], r))
            calls.append(Call(name, [(2, 3, 4), (2, 3, 4)], r))
        for name in ("l1_loss", "mse_loss", "huber_loss"):
            calls.append(Call(name, [(4, 5), (4, 5), named("weight", positive(4, 5))], r))
        calls += combined(
            "smooth_l1_loss", [tied(4, 3), tied(4, 3)], beta=[0.0, 2.0, 0.5], reduction=[reduction]
        )
        calls += combined(
            "huber_loss", [tied(4, 3), tied(4, 3)], delta=[2.0, 0.5], reduction=[reduction]
        )
        for full, log_input in product((False, True), (False, True)):
            o = {"full": full, "log_input": log_input, **r}
            calls.append(Call("poisson_nll_loss", [positive(5, 4), positive(5, 4)], o))
        for full in (False, True):
            o = {"full": full, **r}
            for var in ((4, 3), (4, 1), (4,)):
                calls.append(Call("gaussian_nll_loss", [(4, 3), (4, 3), positive(*var)], o))
        calls.append(Call("gaussian_nll_loss", [(4, 2), (4, 2), shares(4, 2)], {"eps": 0.5, **r}))
        calls.append(Call("binary_cross_entropy", [shares(4, 3), shares(4, 3)], r))
        weight = named("weight", positive(5), varies=False)
        calls.append(Call("binary_cross_entropy", [shares(4, 5), shares(4, 5), weight], r))
        calls.append(Call("binary_cross_entropy_with_logits", [(4, 3), shares(4, 3)], r))
        more = [weight, named("pos_weight", positive(5), varies=False)]
        calls.append(Call("binary_cross_entropy_with_logits", [(4, 5), shares(4, 5), *more], r))
        calls.append(Call("soft_margin_loss", [(4, 3), signs(4, 3)], r))
        for name in ("hinge_embedding_loss", "soft_margin_loss"):
            calls.append(Call(name, [tied(6, 4), signs(6, 4)], r))
        calls.append(Call("hinge_embedding_loss", [(4, 3), signs(4, 3)], {"margin": 0.3, **r}))
        calls.append(Call("margin_ranking_loss", [tied(6), tied(6), signs(6)], r))
        calls.append(Call("margin_ranking_loss", [(5,), (5,), signs(5)], {"margin": 0.7, **r}))
        calls.append(Call("cosine_embedding_loss", [(5, 3), (5, 3), signs(5)], r))
        calls.append(
            Call("cosine_embedding_loss", [(6, 3), (6, 3), signs(6)], {"margin": 0.4, **r})
        )
        calls.append(Call("cosine_embedding_loss", [(3,), (3,), signs()], r))
        three = [(5, 4), (5, 4), (5, 4)]
        calls += combined(
            "triplet_margin_loss",
            three,
            p=[1.0, 2.0, 3.0],
            swap=[False, True],
            reduction=[reduction],
        )
        calls.append(Call("triplet_margin_with_distance_loss", three, {"swap": True, **r}))
        calls.append(Call("multilabel_soft_margin_loss", [(5, 4), shares(5, 4)], r))
        calls.append(
            Call(
                "multilabel_soft_margin_loss",
                [(5, 3), shares(5, 3), named("weight", positive(3), varies=False)],
                r,
            )
        )
    for reduction in ("none", "batchmean", "sum"):
        calls.append(Call("kl_div", [(4, 3), distribution(4, 3)], {"reduction": reduction}))
        o = {"reduction": reduction, "log_target": True}
        calls.append(Call("kl_div", [(4, 3), (4, 3)], o))
    for name in ("mse_loss", "l1_loss", "soft_margin_loss", "binary_cross_entropy_with_logits"):
        calls.append(Call(name, [(0, 3), Draw((0, 3), varies=False)], {"reduction": "sum"}))
    return calls


def classification() -> list[Call]:
    calls = []
    for reduction in REDUCTIONS:
        r: dict[str, Any] = {"reduction": reduction}
        for name in ("nll_loss", "cross_entropy"):
            smooth = [{}, {"label_smoothing": 0.2}] if name == "cross_entropy" else [{}]
            for extra in smooth:
                o = {**extra, **r}
                weight = named("weight", positive(4), varies=False)
                calls.append(Call(name, [(5, 4), classes(4, 5)], o))
                calls.append(Call(name, [(6, 4), classes(4, 6, ignored=0.4)], o))
                calls.append(
                    Call(
                        name,
                        [(7, 4), classes(4, 7, ignored=0.4, index=2), weight],
                        {"ignore_index": 2, **o},
                    )
                )
                calls.append(Call(name, [(2, 4, 3), classes(4, 2, 3, ignored=0.3), weight], o))
                calls.append(Call(name, [(2, 4, 3, 2), classes(4, 2, 3, 2)], o))
                calls.append(Call(name, [(4,), classes(4)], o))
        calls.append(Call("cross_entropy", [(5, 4), distribution(5, 4)], r))
        calls.append(Call("cross_entropy", [(2, 4, 3), distribution(2, 4, 3)], r))
        weight = named("weight", positive(4), varies=False)
        calls.append(
            Call(
                "cross_entropy", [(5, 4), distribution(5, 4), weight], {"label_smoothing": 0.3, **r}
            )
        )
        for p in (1, 2):
            o = {"p": p, "margin": 0.8, **r}
            calls.append(Call("multi_margin_loss", [(5, 4), integers(4, 5)], o, second=False))
            calls.append(
                Call("multi_margin_loss", [(6, 4), integers(4, 6), weight], o, second=False)
            )
        calls.append(Call("multi_margin_loss", [tied(9, 4), integers(4, 9)], r, second=False))
        calls.append(Call("multi_margin_loss", [(4,), integers(4)], r, second=False))
        calls.append(Call("multilabel_margin_loss", [(6, 5), some_classes(6, 5)], r, second=False))
        calls.append(
            Call("multilabel_margin_loss", [tied(7, 5), some_classes(7, 5)], r, second=False)
        )
        calls.append(Call("multilabel_margin_loss", [(5,), some_classes(5)], r, second=False))
    for name in ("nll_loss", "cross_entropy"):
        calls.append(Call(name, [(0, 4), integers(4, 0)], {"reduction": "sum"}))
    return calls


def known(*numbers: int) -> Draw:
    return Draw((len(numbers),), lambda rng, s: np.array(numbers), varies=False)


def sequences() -> list[Call]:
    calls = []
    lengths = [known(7, 6, 5), known(3, 2, 0)]
    short = [known(3, 5), known(3, 3)]
    for reduction in REDUCTIONS:

        def add(*arrays: Any, **options: Any) -> None:
            options["reduction"] = reduction  # noqa: B023 - it is called at once
            calls.append(Call("ctc_loss", arrays, options, second=False, first="log_softmax"))

        for b in (0, 2):
            labels = Draw((3, 3), lambda rng, s, b=b: (b + rng.integers(1, 5, s)) % 5, varies=False)
            add((7, 3, 5), labels, *lengths, blank=b)
        add((7, 3, 5), integers(5, 5, low=1), *lengths)  # one long sequence
        repeated = Draw((2, 3), lambda rng, s: np.array([[1, 1, 2], [3, 3, 3]]), varies=False)
        add((6, 2, 4), repeated, *short, zero_infinity=True)
        add((5, 4), integers(4, 2, low=1), known(5), known(2))
    return calls
