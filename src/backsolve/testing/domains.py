"""Element-wise rows: what each argument may be in samples, where it is not ±(0.3 … 2), and their metadata."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .draws import ANY, POSITIVE

FLOATS = ("float32", "float64", "complex64", "complex128")
INSIDE = (-0.9, 0.9)
SHAPES = [np.array(2), np.array(3)]
DOMAINS: dict[str, Sequence[Any]] = {
    "arccos": [INSIDE],
    "arccosh": [(1.2, 3.0)],
    "arcsin": [INSIDE],
    "arctanh": [INSIDE],
    "beta": [(0.5, 3.0), (0.5, 3.0)],
    "betainc": [*SHAPES, (0.1, 0.9)],
    "betaincc": [*SHAPES, (0.1, 0.9)],
    "betaincinv": [*SHAPES, (0.1, 0.9)],
    "betaln": [(0.5, 3.0), (0.5, 3.0)],
    "binom": [(2.5, 4.0), (0.5, 2.0)],
    "boxcox": [POSITIVE, ANY],
    "boxcox1p": [(-0.5, 2.0), ANY],
    "clip": [ANY, (-1.2, -0.7), (0.7, 1.2)],
    "digamma": [(0.5, 3.0)],
    "ellipe": [INSIDE],
    "ellipk": [INSIDE],
    "entr": [POSITIVE],
    "erfcinv": [(0.1, 1.9)],
    "erfinv": [INSIDE],
    "exp1": [POSITIVE],
    "expn": ["integer", POSITIVE],
    "float_power": [POSITIVE, ANY],
    "gamma": [(0.5, 3.0)],
    "gamma_tail": [(0.5, 3.0), (0.5, 3.0)],
    "gammainc": [(0.5, 3.0), (0.5, 3.0)],
    "gammaincc": [(0.5, 3.0), (0.5, 3.0)],
    "gammainccinv": [(0.5, 3.0), (0.1, 0.9)],
    "gammaincinv": [(0.5, 3.0), (0.1, 0.9)],
    "gammaln": [(0.5, 3.0)],
    "huber": [(0.7, 1.2), (-0.6, 0.6)],
    "hyp1f1": [*SHAPES, ANY],
    "hyp2f1": [*SHAPES, np.array(4), INSIDE],
    "inv_boxcox": [POSITIVE, POSITIVE],
    "inv_boxcox1p": [POSITIVE, POSITIVE],
    "iv": ["integer", ANY],
    "ive": ["integer", ANY],
    "jv": ["integer", ANY],
    "k0": [POSITIVE],
    "k0e": [POSITIVE],
    "k1": [POSITIVE],
    "k1e": [POSITIVE],
    "kl_div": [POSITIVE, POSITIVE],
    "kn": ["integer", POSITIVE],
    "kv": ["integer", POSITIVE],
    "kve": ["integer", POSITIVE],
    "ldexp": [ANY, "integer"],
    "left_shift": [ANY, "small"],
    "log": [POSITIVE],
    "log10": [POSITIVE],
    "log1p": [(-0.5, 2.0)],
    "log2": [POSITIVE],
    "loggamma": [(0.5, 3.0)],
    "logit": [(0.1, 0.9)],
    "ndtri": [(0.1, 0.9)],
    "ndtri_exp": [(-2.0, -0.1)],
    "poch": [(0.5, 3.0), (0.5, 3.0)],
    "polygamma": [(0.5, 3.0)],
    "power": [POSITIVE, ANY],
    "powm1": [POSITIVE, ANY],
    "pseudo_huber": [POSITIVE, ANY],
    "rel_entr": [POSITIVE, POSITIVE],
    "right_shift": [ANY, "small"],
    "scaled_bessel": ["integer", POSITIVE],
    "spence": [POSITIVE],
    "sqrt": [POSITIVE],
    "stdtr": [np.array(3), ANY],
    "stdtrit": [np.array(3), (0.1, 0.9)],
    "tan": [(-1.0, 1.0)],
    "where": ["bool", ANY, ANY],
    "xlog1py": [ANY, (-0.5, 2.0)],
    "xlogy": [ANY, POSITIVE],
    "y0": [POSITIVE],
    "y1": [POSITIVE],
    "yn": ["integer", POSITIVE],
    "yv": ["integer", POSITIVE],
    "zeta": [np.array(3), POSITIVE],
}
_DEGREE, _OTHER = "integer", np.array(2)  # of floating point, they would vary
DOMAINS |= {
    "ellipeinc": [(-1.2, 1.2), INSIDE],
    "ellipkinc": [(-1.2, 1.2), INSIDE],
    "ellipkm1": [POSITIVE],
    "elliptic_moment": [(-1.2, 1.2), INSIDE],
    **{f"eval_{name}": [_DEGREE, INSIDE] for name in ("chebyc", "chebys", "chebyt", "chebyu")},
    **{f"eval_{name}": [_DEGREE, INSIDE] for name in ("hermite", "hermitenorm", "legendre")},
    **{f"eval_sh_{name}": [_DEGREE, (0.1, 0.9)] for name in ("chebyt", "chebyu", "legendre")},
    "eval_gegenbauer": [_DEGREE, _OTHER, INSIDE],
    "eval_genlaguerre": [_DEGREE, _OTHER, POSITIVE],
    "eval_jacobi": [_DEGREE, _OTHER, _OTHER, INSIDE],
    "eval_laguerre": [_DEGREE, POSITIVE],
    "eval_sh_jacobi": [_DEGREE, np.array(3), _OTHER, (0.1, 0.9)],
    "hankel1": ["integer", POSITIVE],
    "hankel1e": ["integer", POSITIVE],
    "hankel2": ["integer", POSITIVE],
    "hankel2e": ["integer", POSITIVE],
    "hyp0f1": [_OTHER, ANY],
    "hyperu": [_OTHER, np.array(1), POSITIVE],
    "iti0k0_part": [POSITIVE],
    "itj0y0_part": [POSITIVE],
    "itmodstruve0": [POSITIVE],
    "itstruve0": [POSITIVE],
    "jacobi_amplitude": [ANY, (0.1, 0.9)],
    "jve": ["integer", POSITIVE],
    "modstruve": ["integer", POSITIVE],
    "shichi_part": [POSITIVE],
    "sici_part": [POSITIVE],
    "struve": ["integer", POSITIVE],
    "wright_bessel": [_OTHER, _OTHER, POSITIVE],
    "yve": ["integer", POSITIVE],
}
# SciPy has them for complex numbers, but not the polygamma functions that are their derivatives.
REAL = ("digamma", "gamma", "loggamma", "rgamma", "ive", "jve", "yve")
PARAMS: dict[str, list[dict[str, Any]]] = {
    "cast": [{"dtype": np.dtype(d)} for d in FLOATS],
    "cast_discrete": [{"dtype": np.dtype(d)} for d in ("int64", "bool")],
    "airy_part": [{"k": k} for k in range(4)],
    "dawsn_derivative": [{"n": 1}, {"n": 2}],
    "elliptic_moment": [{"p": 1, "q": 3}],
    "erfcx_moment": [{"n": 1}, {"n": 2}],
    "fresnel_part": [{"k": 0}, {"k": 1}],
    "gamma_tail": [{"n": 1, "m": 0, "upper": u} for u in (False, True)],
    "itairy_part": [{"k": k} for k in range(4)],
    "iti0k0_part": [{"k": 0}, {"k": 1}],
    "itj0y0_part": [{"k": 0}, {"k": 1}],
    "polygamma": [{"n": 1}, {"n": 2}],
    "scaled_bessel": [{"n": 1, "second": s} for s in (False, True)],
    "shichi_part": [{"k": 0}, {"k": 1}],
    "sici_part": [{"k": 0}, {"k": 1}],
    "wofz": [{"n": 0}, {"n": 1}],
}


def orders(name: str) -> tuple[Any, ...]:
    """Values for the leading arguments of an element-wise row in which it has no derivative."""
    fixed: list[Any] = []
    for kind in DOMAINS.get(name, [])[:-1]:
        if isinstance(kind, np.ndarray):
            fixed.append(float(kind))
        elif kind == "integer":
            fixed.append(2)
        else:
            return ()
    return tuple(fixed)
