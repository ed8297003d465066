"""Orthogonal polynomials at x: a derivative is one of lower degree, mostly of another family.

    P_n^(α, β)' = (n + α + β + 1)/2 P_{n−1}^(α+1, β+1)     C_n^(α)' = 2α C_{n−1}^(α+1)
    L_n^(α)' = −L_{n−1}^(α+1)     T_n' = n U_{n−1},  U_n = C_n^(1)     H_n' = 2n H_{n−1}     He_n' = n He_{n−1}

In the degree and the parameters there is no derivative here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..operators import Diagonal
from .special import binary, several, undefined


def _lower(n: Any) -> Any:
    """The degree of a derivative; of a constant any will do, for its factor is 0."""
    return np.where(np.equal(n, 0), n, n - 1)


def _unless_constant(n: Any, y: Any) -> Any:
    return np.where(np.equal(n, 0), 0.0, y)


def _in_jacobi(n: Any, a: Any, b: Any, x: Any) -> Any:
    slope = 0.5 * (n + a + b + 1) * eval_jacobi(_lower(n), a + 1, b + 1, x)
    return _unless_constant(n, slope)


def _in_gegenbauer(n: Any, a: Any, x: Any) -> Any:
    return _unless_constant(n, 2 * a * eval_gegenbauer(_lower(n), a + 1, x))


def _in_genlaguerre(n: Any, a: Any, x: Any) -> Any:
    return _unless_constant(n, -eval_genlaguerre(_lower(n), a + 1, x))


def _in_sh_jacobi(n: Any, p: Any, q: Any, x: Any) -> Any:
    """G_n^(p, q) is monic, so its derivative is n G_{n−1}^(p+2, q+1)."""
    return n * eval_sh_jacobi(_lower(n), p + 2, q + 1, x)


def _polynomial(name: str, slope: Any) -> Any:
    return binary(name, undefined(name, "n"), lambda a, b: Diagonal(slope(a, b)))


eval_jacobi: Any = several(
    "eval_jacobi",
    *[undefined("eval_jacobi", x) for x in ("n", "alpha", "beta")],
    lambda a, b, c, d: Diagonal(_in_jacobi(a, b, c, d)),
)
eval_sh_jacobi: Any = several(
    "eval_sh_jacobi",
    *[undefined("eval_sh_jacobi", x) for x in ("n", "p", "q")],
    lambda a, b, c, d: Diagonal(_in_sh_jacobi(a, b, c, d)),
)
eval_gegenbauer: Any = several(
    "eval_gegenbauer",
    *[undefined("eval_gegenbauer", x) for x in ("n", "alpha")],
    lambda a, b, c: Diagonal(_in_gegenbauer(a, b, c)),
)
eval_genlaguerre: Any = several(
    "eval_genlaguerre",
    *[undefined("eval_genlaguerre", x) for x in ("n", "alpha")],
    lambda a, b, c: Diagonal(_in_genlaguerre(a, b, c)),
)
eval_legendre = _polynomial("eval_legendre", lambda n, x: _in_jacobi(n, 0.0, 0.0, x))
eval_sh_legendre = _polynomial(
    "eval_sh_legendre", lambda n, x: 2 * _in_jacobi(n, 0.0, 0.0, 2 * x - 1)
)
eval_chebyu: Any = _polynomial("eval_chebyu", lambda n, x: _in_gegenbauer(n, 1.0, x))
eval_chebyt = _polynomial("eval_chebyt", lambda n, x: n * eval_chebyu(_lower(n), x))
eval_chebys: Any = _polynomial("eval_chebys", lambda n, x: 0.5 * _in_gegenbauer(n, 1.0, 0.5 * x))
eval_chebyc = _polynomial("eval_chebyc", lambda n, x: n * eval_chebys(_lower(n), x))
eval_sh_chebyt = _polynomial(
    "eval_sh_chebyt", lambda n, x: 2 * n * eval_chebyu(_lower(n), 2 * x - 1)
)
eval_sh_chebyu = _polynomial("eval_sh_chebyu", lambda n, x: 2 * _in_gegenbauer(n, 1.0, 2 * x - 1))
eval_laguerre = _polynomial("eval_laguerre", lambda n, x: _in_genlaguerre(n, 0.0, x))
eval_hermite: Any = _polynomial("eval_hermite", lambda n, x: 2 * n * eval_hermite(_lower(n), x))
eval_hermitenorm: Any = _polynomial(
    "eval_hermitenorm", lambda n, x: n * eval_hermitenorm(_lower(n), x)
)
