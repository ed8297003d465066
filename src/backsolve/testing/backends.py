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
    for x, y in zip(got, expected, strict=True):
        _check_same(x, y, args, what, ulps)
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


def check_together(
    samples: Sequence[Case], seed: int = 0, backend: str = "xla", ulps: float = 512
) -> set[str]:
    """Run many samples as one function, where compiling takes long; gives the rows that NumPy computed."""
    rng = np.random.default_rng(seed)
    given = [case.make(rng) for case in samples]

    def call(given: Any) -> list[Any]:
        pairs = zip(samples, given, strict=True)
        return [case.primitive(*xs, **case.params) for case, xs in pairs]

    with np.errstate(all="ignore"):
        expected, compiled = call(given), Jitted(call, (), backend)
        got = compiled(given)
    for case, args, x, y in zip(samples, given, got, expected, strict=True):
        _check_same(x, y, args, str(case), ulps)
    (special,) = compiled._known.values()
    assert special is not None
    assert special.code is not None
    return set(special.code.stats["rows_elsewhere"])


def _check_same(x: Any, y: Any, args: Sequence[Any], what: str, ulps: float) -> None:
    """Up to rounding, in the coarsest of the dtypes."""
    x, y = np.asarray(x), np.asarray(y)
    if (x.shape, x.dtype) != (y.shape, y.dtype):
        raise CheckError(f"{what}: compiled {x.dtype}{x.shape}, should be {y.dtype}{y.shape}")
    given = [a.dtype for a in (*map(np.asarray, args), y) if a.dtype.kind in "fc"]
    is_exact = y.dtype.kind not in "fc"
    eps = 0.0 if is_exact else max([float(np.finfo(dtype).eps) for dtype in given])
    scale = 0.0 if is_exact else float(np.max(np.abs(y[np.isfinite(y)]), initial=0))
    if np.allclose(x, y, rtol=ulps * eps, atol=ulps * eps * scale, equal_nan=True):
        return
    with np.errstate(all="ignore"):
        apart = np.where(np.isnan(x) & np.isnan(y), 0, np.abs(x * 1.0 - y * 1.0)) if x.size else x
    at = np.unravel_index(int(np.argmax(apart)), x.shape)
    raise CheckError(f"{what}: compiled, entry {tuple(map(int, at))} is {x[at]}, should be {y[at]}")
