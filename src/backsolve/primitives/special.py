"""Special functions, through SciPy's ufuncs."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special

from ..operators import Diagonal
from ..primitive import UFUNCS
from .elementwise import binary, elementwise, exp_, unary

TWO_OVER_ROOT_PI = float(2 / np.sqrt(np.pi))
ROOT_TWO_PI = float(np.sqrt(2 * np.pi))

erf = unary(
    "erf", lambda a: Diagonal(TWO_OVER_ROOT_PI * exp_(-a * a)), special.erf, ufunc=special.erf
)
erfc = unary(
    "erfc", lambda a: Diagonal(-TWO_OVER_ROOT_PI * exp_(-a * a)), special.erfc, ufunc=special.erfc
)
erfinv = unary(
    "erfinv",
    lambda y: Diagonal(np.exp(y * y) / TWO_OVER_ROOT_PI),
    special.erfinv,
    ufunc=special.erfinv,
)
ndtr = unary(
    "ndtr", lambda a: Diagonal(exp_(-0.5 * a * a) / ROOT_TWO_PI), special.ndtr, ufunc=special.ndtr
)
gammaln = unary(
    "gammaln", lambda a: Diagonal(special.psi(a)), special.gammaln, ufunc=special.gammaln
)
gamma = unary(
    "gamma", lambda y, a: Diagonal(y * special.psi(a)), special.gamma, ufunc=special.gamma
)
digamma = unary(
    "digamma",
    lambda a: Diagonal(polygamma(a, n=1)),
    special.psi,
    ufunc=special.psi,
    code="special.digamma({0})",
)
sigmoid = unary(
    "sigmoid",
    lambda y: Diagonal(y * (1 - y)),
    special.expit,
    ufunc=special.expit,
    code="sigmoid({0})",
)
log_sigmoid = unary(
    "log_sigmoid", lambda a: Diagonal(special.expit(-a)), special.log_expit, ufunc=special.log_expit
)
softplus = unary(
    "softplus",
    lambda a: Diagonal(special.expit(a)),
    lambda a: np.logaddexp(a, 0),
    code="np.logaddexp({0}, 0)",
)
logit = unary(
    "logit", lambda a: Diagonal(np.divide(1, a * (1 - a))), special.logit, ufunc=special.logit
)


def _run_polygamma(a: Any, *, n: int) -> Any:
    y = special.polygamma(n, a)  # in double precision, whatever it gets
    return y.astype(np.float32) if getattr(a, "dtype", None) == np.float32 else y


polygamma: Any = elementwise(
    "polygamma", _run_polygamma, (lambda a, *, n: Diagonal(polygamma(a, n=n + 1)),)
)


# x log y and x log(1 + y). Where x = 0 meets log 0 the value is 0, and so are both derivatives: there
# alone, lest the mixed second derivative be lost where only x is 0.


def _log(a: Any, c: Any, log: Any) -> Any:
    both = np.equal(a, 0) & np.equal(c, 0)
    return Diagonal(np.where(both, 0, log))


def _over(a: Any, c: Any) -> Any:
    both = np.equal(a, 0) & np.equal(c, 0)
    return Diagonal(np.where(both, 0, a / np.where(both, 1, c)))


xlogy = binary(
    "xlogy",
    lambda a, b: _log(a, b, np.log(b)),
    lambda a, b: _over(a, b),
    special.xlogy,
    ufunc=special.xlogy,
)
xlog1py = binary(
    "xlog1py",
    lambda a, b: _log(a, 1 + b, np.log1p(b)),
    lambda a, b: _over(a, 1 + b),
    special.xlog1py,
    ufunc=special.xlog1py,
)
UFUNCS[special.digamma] = digamma
