"""Losses as modules: functions of `nn.functional` with their settings. Weights are state, not trained."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from .. import functional as F  # noqa: N812 - as everyone writes it
from .applied import Applied

# ---- of numbers


class L1Loss(Applied):
    reduction: str = "mean"
    function = F.l1_loss


class MSELoss(Applied):
    """
    >>> import numpy as np
    >>> float(MSELoss(reduction="sum")(np.array([1.0, 3.0]), np.array([0.0, 1.0])))
    5.0
    """

    reduction: str = "mean"
    function = F.mse_loss


class SmoothL1Loss(Applied):
    reduction: str = "mean"
    beta: float = 1.0
    function = F.smooth_l1_loss


class HuberLoss(Applied):
    reduction: str = "mean"
    delta: float = 1.0
    function = F.huber_loss


class KLDivLoss(Applied):
    reduction: str = "mean"
    log_target: bool = False
    function = F.kl_div


class PoissonNLLLoss(Applied):
    log_input: bool = True
    full: bool = False
    eps: float = 1e-8
    reduction: str = "mean"
    function = F.poisson_nll_loss


class GaussianNLLLoss(Applied):
    full: bool = False
    eps: float = 1e-6
    reduction: str = "mean"
    function = F.gaussian_nll_loss


class SoftMarginLoss(Applied):
    reduction: str = "mean"
    function = F.soft_margin_loss


class HingeEmbeddingLoss(Applied):
    margin: float = 1.0
    reduction: str = "mean"
    function = F.hinge_embedding_loss


class MarginRankingLoss(Applied):
    margin: float = 0.0
    reduction: str = "mean"
    function = F.margin_ranking_loss


# ---- of classes


class _Weighted(Applied):
    buffers: ClassVar[tuple[str, ...]] = ("weight", "pos_weight")


class BCELoss(_Weighted):
    weight: Any = None
    reduction: str = "mean"
    function = F.binary_cross_entropy


class BCEWithLogitsLoss(_Weighted):
    weight: Any = None
    reduction: str = "mean"
    pos_weight: Any = None
    function = F.binary_cross_entropy_with_logits


class NLLLoss(_Weighted):
    weight: Any = None
    ignore_index: int = -100
    reduction: str = "mean"
    function = F.nll_loss


class CrossEntropyLoss(_Weighted):
    weight: Any = None
    ignore_index: int = -100
    reduction: str = "mean"
    label_smoothing: float = 0.0
    function = F.cross_entropy


class MultiMarginLoss(_Weighted):
    p: int = 1
    margin: float = 1.0
    weight: Any = None
    reduction: str = "mean"
    function = F.multi_margin_loss


class MultiLabelMarginLoss(Applied):
    reduction: str = "mean"
    function = F.multilabel_margin_loss


class MultiLabelSoftMarginLoss(_Weighted):
    weight: Any = None
    reduction: str = "mean"
    function = F.multilabel_soft_margin_loss


class CTCLoss(Applied):
    blank: int = 0
    reduction: str = "mean"
    zero_infinity: bool = False
    function = F.ctc_loss


# ---- of vectors


class CosineEmbeddingLoss(Applied):
    margin: float = 0.0
    reduction: str = "mean"
    function = F.cosine_embedding_loss


class TripletMarginLoss(Applied):
    margin: float = 1.0
    p: float = 2.0
    eps: float = 1e-6
    swap: bool = False
    reduction: str = "mean"
    function = F.triplet_margin_loss


class TripletMarginWithDistanceLoss(Applied):
    distance_function: Callable[[Any, Any], Any] | None = None
    margin: float = 1.0
    swap: bool = False
    reduction: str = "mean"
    function = F.triplet_margin_with_distance_loss
