"""check_backend: compiled code against the NumPy backend, which defines what a Program means."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import tree
from ..compiled import Jitted
from .grads import CheckError
from .samples import Case


def check_compiled(
    f: Callable[..., Any],
    args: Sequence[Any],
    what: str = "",
    ulps: float = 64,
    backend: str = "native",
) -> bool:
    """Whether all of `f` compiled to the backend's code; raises if it computes something else than f itself."""
    with np.errstate(all="ignore"):
        expected, form = tree.flatten(f(*args))
        compiled = Jitted(f, (), backend)
        got, got_form = tree.flatten(compiled(*args))
    if form != got_form:
        raise CheckError(f"{what}: compiled, the result has the form {got_form}, not {form}")
    coarsest = max(
        [float(np.finfo(a.dtype).eps) for a in map(np.asarray, args) if a.dtype.kind in "fc"],
        default=0.0,
    )
    for x, y in zip(got, expected, strict=True):
        x, y = np.asarray(x), np.asarray(y)
        if (x.shape, x.dtype) != (y.shape, y.dtype):
            raise CheckError(f"{what}: compiled {x.dtype}{x.shape}, should be {y.dtype}{y.shape}")
        scale = float(np.max(np.abs(y[np.isfinite(y)]), initial=0)) if y.dtype.kind in "fc" else 0
        eps = max(float(np.finfo(y.dtype).eps), coarsest) if y.dtype.kind in "fc" else 0.0
        if not np.allclose(x, y, rtol=ulps * eps, atol=ulps * eps * scale, equal_nan=True):
            with np.errstate(all="ignore"):
                apart = (
                    np.where(np.isnan(x) & np.isnan(y), 0, np.abs(x * 1.0 - y * 1.0))
                    if x.size
                    else x
                )
            at = np.unravel_index(int(np.argmax(apart)), x.shape)
            raise CheckError(
                f"{what}: compiled, entry {tuple(map(int, at))} is {x[at]}, should be {y[at]}"
            )
    (special,) = compiled._known.values()
    if special is None or special.code is None:
        return False
    return not special.code.stats["elsewhere"]


def check_backend(case: Case, seed: int = 0, backend: str = "native", ulps: float = 64) -> bool:
    """Run one sample of a row on a backend; tells whether it has a form of its own there."""
    args = case.make(np.random.default_rng(seed))

    def call(*xs: Any) -> Any:
        return case.primitive(*xs, **case.params)

    return check_compiled(call, args, str(case), ulps, backend)
