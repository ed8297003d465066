"""SciPy's special functions that are others in new clothes: distributions, degrees, several results at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..primitive import UFUNCS, P
from ..primitives.special import load, undefined, when_loaded
from ..tensor import Staged, Tensor
from ._register import array, function

_DEGREE = float(np.pi / 180)


def _composed(f: Any) -> Any:
    """What Tensors get for SciPy's ufunc of that name."""

    def call(*args: Any) -> Any:
        return f(*[array(a) for a in args])

    call.__name__, call.__doc__ = f.__name__, f.__doc__
    when_loaded(f.__name__, lambda found: UFUNCS.setdefault(found, call))
    return f


# ---- several results


@_composed
def fresnel(z: Any) -> Any:
    return P.fresnel_part(z, k=0), P.fresnel_part(z, k=1)


@_composed
def sici(x: Any) -> Any:
    return P.sici_part(x, k=0), P.sici_part(x, k=1)


@_composed
def shichi(x: Any) -> Any:
    return P.shichi_part(x, k=0), P.shichi_part(x, k=1)


@_composed
def airy(z: Any) -> Any:
    return tuple(P.airy_part(z, k=k) for k in range(4))


@_composed
def itj0y0(x: Any) -> Any:
    return P.itj0y0_part(x, k=0), P.itj0y0_part(x, k=1)


@_composed
def iti0k0(x: Any) -> Any:
    return P.iti0k0_part(x, k=0), P.iti0k0_part(x, k=1)


@_composed
def itairy(x: Any) -> Any:
    return tuple(P.itairy_part(x, k=k) for k in range(4))


@_composed
def ellipj(u: Any, m: Any) -> Any:
    """sn, cn, dn and the amplitude."""
    phi = P.jacobi_amplitude(u, m)
    sn = np.sin(phi)
    return sn, np.cos(phi), np.sqrt(1 - m * sn * sn), phi


# ---- Kelvin's functions: ber + i bei = J₀(x e^(3πi/4)), ker + i kei = K₀(x e^(πi/4))

_FIRST, _SECOND = np.exp(0.75j * np.pi), np.exp(0.25j * np.pi)


def _kelvin(x: Any, which: str) -> Any:
    first, slope = which.startswith("b"), which.endswith("p")
    turn, bessel = (_FIRST, load().jv) if first else (_SECOND, load().kv)
    return -turn * bessel(1, turn * x) if slope else bessel(0, turn * x)


def _kelvin_part(name: str) -> None:
    part = np.imag if "ei" in name else np.real

    def call(x: Any) -> Any:
        return part(_kelvin(x, name))

    call.__name__, call.__doc__ = name, "Kelvin's function, by Bessel's of complex numbers."
    _composed(call)


for _name in ("ber", "bei", "berp", "beip", "ker", "kei", "kerp", "keip"):
    _kelvin_part(_name)


@_composed
def kelvin(x: Any) -> Any:
    return tuple(_kelvin(x, name) for name in ("be", "ke", "bep", "kep"))


# ---- spectral lines


@_composed
def wofz(z: Any) -> Any:
    return P.wofz(z, n=0)


@_composed
def voigt_profile(x: Any, sigma: Any, gamma: Any) -> Any:
    """A normal density (sigma > 0) convolved with Cauchy's (gamma)."""
    width = sigma * float(np.sqrt(2))
    return np.real(P.wofz((x + 1j * gamma) / width, n=0)) / (width * float(np.sqrt(np.pi)))


# ---- distributions


@_composed
def chdtr(v: Any, x: Any) -> Any:
    return load().gammainc(0.5 * v, 0.5 * x)


@_composed
def chdtrc(v: Any, x: Any) -> Any:
    return load().gammaincc(0.5 * v, 0.5 * x)


@_composed
def chdtri(v: Any, p: Any) -> Any:
    return 2 * load().gammainccinv(0.5 * v, p)


@_composed
def gdtr(a: Any, b: Any, x: Any) -> Any:
    return load().gammainc(b, a * x)


@_composed
def gdtrc(a: Any, b: Any, x: Any) -> Any:
    return load().gammaincc(b, a * x)


@_composed
def gdtrix(a: Any, b: Any, p: Any) -> Any:
    return load().gammaincinv(b, p) / a


@_composed
def gdtria(p: Any, b: Any, x: Any) -> Any:
    return load().gammaincinv(b, p) / x


@_composed
def pdtr(k: Any, m: Any) -> Any:
    return load().gammaincc(np.floor(k) + 1.0, m)


@_composed
def pdtrc(k: Any, m: Any) -> Any:
    return load().gammainc(np.floor(k) + 1.0, m)


@_composed
def pdtri(k: Any, y: Any) -> Any:
    return load().gammainccinv(np.floor(k) + 1.0, y)


@_composed
def bdtr(k: Any, n: Any, p: Any) -> Any:
    return load().betaincc(np.floor(k) + 1.0, n - np.floor(k), p)


@_composed
def bdtrc(k: Any, n: Any, p: Any) -> Any:
    return load().betainc(np.floor(k) + 1.0, n - np.floor(k), p)


@_composed
def bdtri(k: Any, n: Any, y: Any) -> Any:
    return 1 - load().betaincinv(n - np.floor(k), np.floor(k) + 1.0, y)


@_composed
def nbdtri(k: Any, n: Any, y: Any) -> Any:
    return load().betaincinv(n, np.floor(k) + 1.0, y)


@_composed
def nbdtr(k: Any, n: Any, p: Any) -> Any:
    return load().betainc(n, np.floor(k) + 1.0, p)


@_composed
def nbdtrc(k: Any, n: Any, p: Any) -> Any:
    return load().betaincc(n, np.floor(k) + 1.0, p)


@_composed
def fdtr(dfn: Any, dfd: Any, x: Any) -> Any:
    return load().betainc(0.5 * dfn, 0.5 * dfd, dfn * x / (dfd + dfn * x))


@_composed
def fdtrc(dfn: Any, dfd: Any, x: Any) -> Any:
    return load().betainc(0.5 * dfd, 0.5 * dfn, dfd / (dfd + dfn * x))


@_composed
def fdtri(dfn: Any, dfd: Any, p: Any) -> Any:
    y = load().betaincinv(0.5 * dfn, 0.5 * dfd, p)
    return dfd * y / (dfn * (1 - y))


@_composed
def betainccinv(a: Any, b: Any, y: Any) -> Any:
    return 1 - load().betaincinv(b, a, y)


@_composed
def nrdtrimn(p: Any, std: Any, x: Any) -> Any:
    return x - std * load().ndtri(p)


@_composed
def nrdtrisd(mn: Any, p: Any, x: Any) -> Any:
    return (x - mn) / load().ndtri(p)


# ---- angles in degrees, and the mean of Gauss


@_composed
def radian(d: Any, m: Any, s: Any) -> Any:
    return (d + m / 60 + s / 3600) * _DEGREE


@_composed
def agm(a: Any, b: Any) -> Any:
    """By the complete elliptic integral: π/4 (a + b) / K."""
    total = a + b
    return float(np.pi / 4) * total / load().ellipkm1(4 * a * b / (total * total))


# ---- zeta functions


@function
def zeta(x: Any, q: Any = None) -> Any:
    """Hurwitz' zeta function Σ (k + q)^−x, differentiable in q; without q Riemann's, of constants.

    Inside `jit` Riemann's is NaN below 1, where that sum has no limit.
    """
    if not isinstance(x, Tensor) and not isinstance(q, Tensor):
        return load().zeta(x, q)
    return _riemann(array(x)) if q is None else P.zeta(array(x), array(q))


def _riemann(x: Any) -> Any:
    if isinstance(x, Staged):
        return P.zeta(x, 1.0)
    if x.row is not None:
        undefined("zeta", "x")(x)
    return Tensor(load().zeta(x.value))


def _by_scipy(ufuncs: Any) -> None:
    """scipy.special.zeta is a function, which calls one of these."""
    UFUNCS[ufuncs._zeta] = UFUNCS[ufuncs._riemann_zeta] = zeta


when_loaded("_ufuncs", _by_scipy)
