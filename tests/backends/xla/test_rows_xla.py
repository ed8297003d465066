"""Every row through XLA, against NumPy; many samples as one function, for XLA compiles slowly."""

import itertools
import warnings

import numpy as np
import pytest

from backsolve.primitive import PRIMITIVES
from backsolve.testing.backends import check_together
from backsolve.testing.samples import cases

pytest.importorskip("jax")

PARTS = 10
ROWS = sorted(PRIMITIVES)  # before tests of users' rows add theirs
REAL, COMPLEX = ("float32", "float64", "int64", "bool"), ("complex64", "complex128")
# What NumPy and SciPy compute on the host, of real numbers: no words of XLA's, and no formula of ours.
ON_HOST = """
    airy_part banded_solve beta betainc betaincc betaincinv betaln binom complement cotdg dawsn eig
    eigvals ellipe ellipeinc ellipk ellipkinc ellipkm1 elliptic_moment erfcx erfi eval_chebyc
    eval_chebys eval_chebyt eval_chebyu eval_gegenbauer eval_genlaguerre eval_hermite
    eval_hermitenorm eval_jacobi eval_laguerre eval_legendre eval_sh_chebyt eval_sh_chebyu
    eval_sh_jacobi eval_sh_legendre expi expn fresnel_part gamma gammainc gammaincc gammainccinv
    gammaincinv hankel1 hankel1e hankel2 hankel2e hyp0f1 hyp1f1 hyp2f1 hyperu itairy_part
    iti0k0_part itj0y0_part itmodstruve0 itstruve0 iv ive j0 j1 jacobi_amplitude jv jve k0 k0e k1
    k1e kn kv kve log_ndtr loggamma modstruve ndtri_exp owens_t poch polygamma powm1 rgamma
    shichi_part sici_part spacing sqrtm stdtr stdtrit struve sylvester tandg wofz wright_bessel
    wrightomega y0 y1 yn yv yve zeta
"""
# And of complex ones.
ON_HOST_COMPLEX = """
    airy_part banded_solve clip complement dawsn eig eigvals erf erfc erfcx erfi eval_chebyc
    eval_chebys eval_chebyt eval_chebyu eval_gegenbauer eval_genlaguerre eval_jacobi eval_laguerre
    eval_legendre eval_sh_chebyt eval_sh_chebyu eval_sh_jacobi eval_sh_legendre exp1 expi
    fresnel_part hankel1 hankel1e hankel2 hankel2e hyp0f1 hyp1f1 hyp2f1 iv jv kv kve log_ndtr ndtr
    shichi_part sici_part spence sqrtm sylvester wofz wrightomega yv
"""


def chosen(name, dtypes):
    """One sample per dtype and metadata, with the shapes in turn."""
    found = [c for c in cases(name) if c.dtype in dtypes]
    found.sort(key=lambda c: (c.dtype, str(c.params)))
    groups = itertools.groupby(found, key=lambda c: (c.dtype, str(c.params)))
    for k, (_, group) in enumerate(groups):
        shapes = list(group)
        yield shapes[k % len(shapes)]


@pytest.mark.parametrize("dtypes", [REAL, COMPLEX], ids=["real", "complex"])
@pytest.mark.parametrize("part", range(PARTS))
def test_rows(part, dtypes):
    names = ROWS[part::PARTS]
    samples = [case for name in names for case in chosen(name, dtypes)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", np.exceptions.ComplexWarning)
        found = check_together(samples)
    assert found <= set((ON_HOST if dtypes is REAL else ON_HOST_COMPLEX).split())
