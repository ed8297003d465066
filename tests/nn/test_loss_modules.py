"""Losses as modules: each is its function with its settings, under PyTorch's names."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve import nn

F = nn.functional
_rng = np.random.default_rng(0)
X, Y = _rng.uniform(0.1, 0.9, (4, 5)), _rng.uniform(0.1, 0.9, (4, 5))
V, LABELS, SIGNS = _rng.uniform(0.5, 1, (4, 5)), np.array([1, 0, 4, 2]), np.array([1, -1, 1, -1])
WEIGHT = _rng.uniform(0.5, 2, 5)
CASES: list[tuple[str, str, dict[str, Any], tuple[Any, ...]]] = [
    ("L1Loss", "l1_loss", {"reduction": "sum"}, (X, Y)),
    ("MSELoss", "mse_loss", {"reduction": "none"}, (X, Y)),
    ("SmoothL1Loss", "smooth_l1_loss", {"beta": 0.3}, (X, Y)),
    ("HuberLoss", "huber_loss", {"delta": 0.3}, (X, Y)),
    ("KLDivLoss", "kl_div", {"log_target": True, "reduction": "sum"}, (X, Y)),
    ("PoissonNLLLoss", "poisson_nll_loss", {"full": True}, (X, Y)),
    ("GaussianNLLLoss", "gaussian_nll_loss", {"full": True}, (X, Y, V)),
    ("SoftMarginLoss", "soft_margin_loss", {}, (X, np.sign(Y - 0.5))),
    ("HingeEmbeddingLoss", "hinge_embedding_loss", {"margin": 2.0}, (X, np.sign(Y - 0.5))),
    ("MarginRankingLoss", "margin_ranking_loss", {"margin": 0.5}, (X[0], Y[0], np.ones(5))),
    ("BCELoss", "binary_cross_entropy", {"weight": WEIGHT}, (X, Y)),
    ("BCEWithLogitsLoss", "binary_cross_entropy_with_logits", {"pos_weight": WEIGHT}, (X, Y)),
    ("NLLLoss", "nll_loss", {"weight": WEIGHT, "ignore_index": 4}, (X, LABELS)),
    ("CrossEntropyLoss", "cross_entropy", {"weight": WEIGHT, "label_smoothing": 0.1}, (X, LABELS)),
    ("MultiMarginLoss", "multi_margin_loss", {"p": 2, "weight": WEIGHT}, (X, LABELS)),
    ("MultiLabelMarginLoss", "multilabel_margin_loss", {}, (X, np.full((4, 5), -1))),
    ("MultiLabelSoftMarginLoss", "multilabel_soft_margin_loss", {"weight": WEIGHT}, (X, Y)),
    ("CTCLoss", "ctc_loss", {"blank": 1}, (np.log(X), np.array([2, 3]), np.array(4), np.array(2))),
    ("CosineEmbeddingLoss", "cosine_embedding_loss", {"margin": 0.2}, (X, Y, SIGNS)),
    ("TripletMarginLoss", "triplet_margin_loss", {"p": 1.0, "swap": True}, (X, Y, V)),
    ("TripletMarginWithDistanceLoss", "triplet_margin_with_distance_loss", {"margin": 3.0}, (X, Y, V)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "function", "settings", "arguments"), CASES)
def test_a_module_is_its_function(name: str, function: str, settings: Any, arguments: Any) -> None:
    module = getattr(nn, name)(**settings)
    expected = getattr(F, function)(*arguments, **settings)
    np.testing.assert_allclose(module(*arguments), expected)
    np.testing.assert_allclose(bs.jit(lambda m, a: m(*a))(module, arguments), expected)
    assert module.named_parameters() == {}


def test_every_loss_has_its_case_and_its_settings() -> None:
    losses = {n for n in dir(nn) if n.endswith("Loss")}
    assert losses == {case[0] for case in CASES}
    for name, function, _, arguments in CASES:
        parameters = list(inspect.signature(getattr(F, function)).parameters)[len(arguments) :]
        own = set(inspect.signature(getattr(nn, name)).parameters)
        # PyTorch's modules of these three have no `weight`, though their functions do
        extra = {"weight"} if name in ("L1Loss", "MSELoss", "HuberLoss") else set()
        assert own == set(parameters) - extra, name
