"""Losses as modules: functions of `nn.functional` with their settings. Weights are state, not trained."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from .. import functional as F  # noqa: N812 - as everyone writes it
from .applied import Applied

# ---- of numbers


class L1Loss(Applied):
    """|x − t|; the mean of it, the sum, or each entry (`reduction="none"`)."""

    reduction: str = "mean"
    function = F.l1_loss


class MSELoss(Applied):
    """(x − t)²; the mean of it, the sum, or each entry (`reduction="none"`).

    >>> import numpy as np
    >>> float(MSELoss(reduction="sum")(np.array([1.0, 3.0]), np.array([0.0, 1.0])))
    5.0
    """

    reduction: str = "mean"
    function = F.mse_loss


class SmoothL1Loss(Applied):
    """(x − t)² / 2 beta where |x − t| < beta, else |x − t| − beta / 2."""

    reduction: str = "mean"
    beta: float = 1.0
    function = F.smooth_l1_loss


class HuberLoss(Applied):
    """(x − t)² / 2 where |x − t| < delta, else delta (|x − t| − delta / 2).

    >>> import numpy as np
    >>> HuberLoss(reduction="none")(np.array([0.5, 3.0]), np.zeros(2))
    array([0.125, 2.5  ])
    """

    reduction: str = "mean"
    delta: float = 1.0
    function = F.huber_loss


class KLDivLoss(Applied):
    """t (log t − x), with logarithms of probabilities x.

    The divergence of two distributions is reduction="batchmean". With log_target t, too, is a logarithm.
    """

    reduction: str = "mean"
    log_target: bool = False
    function = F.kl_div


class PoissonNLLLoss(Applied):
    """λ − t log λ, with x = log λ or, if not log_input, x = λ; `full` adds Stirling's log t! where t > 1."""

    log_input: bool = True
    full: bool = False
    eps: float = 1e-8
    reduction: str = "mean"
    function = F.poisson_nll_loss


class GaussianNLLLoss(Applied):
    """(log v + (x − t)² / v) / 2 of means x, targets t and variances v ≥ eps; `full` adds log(2π) / 2.

    >>> import numpy as np
    >>> float(GaussianNLLLoss()(np.array([1.0]), np.array([3.0]), np.array([4.0])).round(4))
    1.1931
    """

    full: bool = False
    eps: float = 1e-6
    reduction: str = "mean"
    function = F.gaussian_nll_loss


class SoftMarginLoss(Applied):
    """log(1 + e^(−t x)), with t = ±1."""

    reduction: str = "mean"
    function = F.soft_margin_loss


class HingeEmbeddingLoss(Applied):
    """x where t = 1, max(0, margin − x) where t = −1."""

    margin: float = 1.0
    reduction: str = "mean"
    function = F.hinge_embedding_loss


class MarginRankingLoss(Applied):
    """max(0, margin − t (x1 − x2)): x1 shall be the larger one where t = 1, x2 where t = −1."""

    margin: float = 0.0
    reduction: str = "mean"
    function = F.margin_ranking_loss


# ---- of classes


class _Weighted(Applied):
    buffers: ClassVar[tuple[str, ...]] = ("weight", "pos_weight")


class BCELoss(_Weighted):
    """−t log x − (1 − t) log(1 − x), with probabilities x; logarithms count as −100 at least."""

    weight: Any = None
    reduction: str = "mean"
    function = F.binary_cross_entropy


class BCEWithLogitsLoss(_Weighted):
    """BCELoss of sigmoid(x), exact for large |x|; pos_weight multiplies the term of t.

    >>> import numpy as np
    >>> BCEWithLogitsLoss(reduction="none")(np.array([1000.0, -1000.0]), np.array([1.0, 1.0]))
    array([   0., 1000.])
    """

    weight: Any = None
    reduction: str = "mean"
    pos_weight: Any = None
    function = F.binary_cross_entropy_with_logits


class NLLLoss(_Weighted):
    """−weight[t] x[t], with logarithms of probabilities x (N, C, …) and classes t (N, …).

    The mean is the weighted one; entries with t = ignore_index count for nothing.
    """

    weight: Any = None
    ignore_index: int = -100
    reduction: str = "mean"
    function = F.nll_loss


class CrossEntropyLoss(_Weighted):
    """log Σ eˣ − x[t] of scores x (N, C, …) and classes t (N, …): NLLLoss of log_softmax(x).

    The target may also be probabilities, of the input's shape;
    `label_smoothing` mixes that share of equal ones into it.

    >>> import numpy as np
    >>> scores = np.array([[2.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    >>> CrossEntropyLoss(reduction="none")(scores, np.array([0, 1])).round(4)
    array([0.2395, 1.0986])
    """

    weight: Any = None
    ignore_index: int = -100
    reduction: str = "mean"
    label_smoothing: float = 0.0
    function = F.cross_entropy


class MultiMarginLoss(_Weighted):
    """Σ_{i ≠ t} max(0, margin − x[t] + x[i])ᵖ weight[t] / C, for x (N, C) and classes t (N,)."""

    p: int = 1
    margin: float = 1.0
    weight: Any = None
    reduction: str = "mean"
    function = F.multi_margin_loss


class MultiLabelMarginLoss(Applied):
    """Σ max(0, 1 − x[t] + x[i]) / C over classes t that a row names before its first −1, and all other i."""

    reduction: str = "mean"
    function = F.multilabel_margin_loss


class MultiLabelSoftMarginLoss(_Weighted):
    """The mean over classes of −t log sigmoid(x) − (1 − t) log sigmoid(−x), with t = 0 or 1."""

    weight: Any = None
    reduction: str = "mean"
    function = F.multilabel_soft_margin_loss


class CTCLoss(Applied):
    """−log of the probability of the targets (N, S), summed over all alignments with log_probs (T, N, C).

    Called with log_probs, targets and the lengths of both. A target too long for its input costs ∞,
    or 0 with zero_infinity.

    >>> import numpy as np
    >>> even = np.log(np.full((2, 1, 2), 0.5))                 # two steps, one example, blank and one letter
    >>> float(CTCLoss()(even, np.array([[1]]), np.array([2]), np.array([1])).round(4))    # −log ¾: a-, -a, aa
    0.2877
    """

    blank: int = 0
    reduction: str = "mean"
    zero_infinity: bool = False
    function = F.ctc_loss


# ---- of vectors


class CosineEmbeddingLoss(Applied):
    """1 − cos(x1, x2) where t = 1, max(0, cos(x1, x2) − margin) where t = −1; (N, D), (N, D) and (N,)."""

    margin: float = 0.0
    reduction: str = "mean"
    function = F.cosine_embedding_loss


class TripletMarginLoss(Applied):
    """max(0, margin + d(anchor, positive) − d(anchor, negative)), d the p-norm of differences.

    With `swap` the smaller of d(anchor, negative) and d(positive, negative) counts.
    """

    margin: float = 1.0
    p: float = 2.0
    eps: float = 1e-6
    swap: bool = False
    reduction: str = "mean"
    function = F.triplet_margin_loss


class TripletMarginWithDistanceLoss(Applied):
    """TripletMarginLoss with a distance of one's own: a function of two arrays (N, D) with result (N,)."""

    distance_function: Callable[[Any, Any], Any] | None = None
    margin: float = 1.0
    swap: bool = False
    reduction: str = "mean"
    function = F.triplet_margin_with_distance_loss
