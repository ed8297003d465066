"""Activations as modules: functions of one array, entry by entry or along an axis."""

from __future__ import annotations

from .. import functional as F  # noqa: N812 - as everyone writes it
from .applied import Applied


class ReLU(Applied):
    """max(x, 0), entry by entry, with derivative 0 at 0.

    >>> import numpy as np
    >>> ReLU()(np.array([-1.0, 0.0, 2.0]))
    array([0., 0., 2.])
    """

    function = F.relu


class ReLU6(Applied):
    """min(max(x, 0), 6), entry by entry."""

    function = F.relu6


class LeakyReLU(Applied):
    """x where it is positive, else negative_slope · x.

    >>> import numpy as np
    >>> LeakyReLU(0.1)(np.array([-1.0, 2.0]))
    array([-0.1,  2. ])
    """

    negative_slope: float = 0.01
    function = F.leaky_relu


class ELU(Applied):
    """x where it is positive, else alpha (eˣ − 1)."""

    alpha: float = 1.0
    function = F.elu


class SELU(Applied):
    """1.0507 · ELU with alpha = 1.6733: normal numbers keep mean 0 and variance 1 through a linear layer."""

    function = F.selu


class CELU(Applied):
    """x where it is positive, else alpha (e^(x / alpha) − 1)."""

    alpha: float = 1.0
    function = F.celu


class GELU(Applied):
    """x Φ(x) with the normal distribution's Φ; approximate="tanh": x/2 (1 + tanh(√(2/π) (x + 0.044715 x³))).

    >>> import numpy as np
    >>> GELU()(np.array([-1.0, 0.0, 1.0])).round(4)
    array([-0.1587,  0.    ,  0.8413])
    """

    approximate: str = "none"
    function = F.gelu


class SiLU(Applied):
    """x · sigmoid(x), also called swish."""

    function = F.silu


class Mish(Applied):
    """x · tanh(log(1 + eˣ))."""

    function = F.mish


class Hardtanh(Applied):
    """x, held between min_val and max_val; derivative 0 from there on."""

    min_val: float = -1.0
    max_val: float = 1.0
    function = F.hardtanh


class Hardsigmoid(Applied):
    """x / 6 + ½, held between 0 and 1."""

    function = F.hardsigmoid


class Hardswish(Applied):
    """x · hardsigmoid(x)."""

    function = F.hardswish


class Hardshrink(Applied):
    """x, but 0 from −lambd to lambd."""

    lambd: float = 0.5
    function = F.hardshrink


class Softshrink(Applied):
    """x moved towards 0 by lambd, and 0 from −lambd to lambd.

    >>> import numpy as np
    >>> Softshrink()(np.array([-2.0, 0.3, 2.0]))
    array([-1.5,  0. ,  1.5])
    """

    lambd: float = 0.5
    function = F.softshrink


class Tanhshrink(Applied):
    """x − tanh(x)."""

    function = F.tanhshrink


class Softplus(Applied):
    """log(1 + e^(beta x)) / beta: a smooth ReLU; x itself where beta x is above the threshold."""

    beta: float = 1.0
    threshold: float = 20.0
    function = F.softplus


class Softsign(Applied):
    """x / (1 + |x|)."""

    function = F.softsign


class Threshold(Applied):
    """x where it is above the threshold, else value."""

    threshold: float
    value: float
    function = F.threshold


class LogSigmoid(Applied):
    """log sigmoid(x) = −log(1 + e⁻ˣ), without overflow."""

    function = F.logsigmoid


class Sigmoid(Applied):
    """1 / (1 + e⁻ˣ), entry by entry."""

    function = F.sigmoid


class Tanh(Applied):
    """tanh(x), entry by entry."""

    function = F.tanh


class Softmax(Applied):
    """eˣ / Σ eˣ along the axis dim: positive, with sum 1.

    >>> import numpy as np
    >>> Softmax(dim=-1)(np.array([[0.0, 0.0], [0.0, 1000.0]]))
    array([[0.5, 0.5],
           [0. , 1. ]])
    """

    dim: int | None = None
    function = F.softmax


class Softmin(Applied):
    """softmax(−x) along the axis dim."""

    dim: int | None = None
    function = F.softmin


class LogSoftmax(Applied):
    """x − log Σ eˣ along the axis dim, without overflow."""

    dim: int | None = None
    function = F.log_softmax


class GLU(Applied):
    """a · sigmoid(b), with a and b the two halves of x along the axis dim.

    >>> import numpy as np
    >>> GLU()(np.array([3.0, 4.0, 0.0, 1000.0]))
    array([1.5, 4. ])
    """

    dim: int = -1
    function = F.glu
