"""Special functions that XLA has; the others run on the host."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import jax.scipy.special as special

from .base import as_output, row

# Of real numbers in single and double precision, held against SciPy's by the tests of the table.
_REAL = "erf erfc erfinv gammaln i0 i1 i0e i1e ndtri xlogy xlog1py entr rel_entr kl_div logit ndtr"


def _enter(name: str) -> None:
    function = getattr(special, name)

    @row(name)
    def rule(m: Any, e: Any, inputs: Any) -> Any:
        given = as_output(m, e, inputs)
        if any(a.dtype.kind != "f" or a.dtype.itemsize == 2 for a in given):
            return NotImplemented
        return function(*given)


for _name in _REAL.split():
    _enter(_name)


@row("digamma")
def digamma(m: Any, e: Any, inputs: Any) -> Any:
    (a,) = as_output(m, e, inputs)
    if a.dtype.kind != "f" or a.dtype.itemsize == 2:
        return NotImplemented
    return jnp.where(a == 0, jnp.copysign(jnp.full_like(a, jnp.inf), -a), special.digamma(a))
