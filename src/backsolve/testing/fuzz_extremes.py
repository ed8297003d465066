"""Random programs on extreme numbers: compiled code is finite where eager NumPy is finite and right.

The programs are those of fuzz_sketch.py; their floats become zeros of both signs, numbers near 1 and ones of
up to 1e±30 (1e±300 in float64), mixed by array, row or entry. On such inputs most digits may be rounding, so
values are not compared: an entry is at fault if

- eager is finite, and within 1 % of what the next wider precision gives (so it is right, not lucky), and
- compiled is NaN or infinite there; or it is 0, and the number beyond 1e-6. (Of smaller ones a stable form may
  say rightly that they are 0: x − log(Σ eˣ) of a single x is, and not x, as NumPy has it for one of 1e-30.)

Compiled code may be finite, and right, where eager is not: stable forms are. Numbers within a factor 1000 of
the largest one are left out, for sums are taken in another order.
`python -m backsolve.testing.fuzz_extremes 1000` checks a thousand.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..compiled import Jitted
from .fuzz import pulled
from .fuzz_shrink import shrink
from .fuzz_sketch import Sketch, sketch
from .grads import CheckError

DRAWS = 6
LARGE = {"e": 3e2, "f": 1e30, "d": 1e300}
WIDER = {"e": np.float64, "f": np.float64, "d": np.longdouble}


def check(s: Sketch) -> None:
    """Raises CheckError where compiled values or gradients are at fault."""
    rng = np.random.default_rng(s.seed + 2)
    f = s.function()
    both, seeds = pulled(f, s.inputs, rng)
    compiled = Jitted(both, (), "native")
    for _ in range(DRAWS):
        # Seeds stay as they are: of 0 times infinity NumPy's BLAS makes 0 or NaN, as it happens to loop.
        args = [*[extreme(rng, x) for x in s.inputs], *seeds]
        found = _run(both, args)
        truths = _run(both, [_wider(a) for a in args])
        if found is None or truths is None:
            continue  # no program of these numbers
        got = _run(compiled, args)
        if got is None:
            raise CheckError(f"compiled fails on\n{args}")
        for k, (x, y, t) in enumerate(zip(got, found, truths, strict=True)):
            wrong = faults(x, y, t)
            if wrong.any():
                at = tuple(int(i) for i in np.argwhere(wrong)[0])
                raise CheckError(f"result {k} at {at} is {x[at]}, should be {y[at]}, on\n{args}")


def extreme(rng: np.random.Generator, x: Any) -> Any:
    """Other numbers of this dtype and shape; integers as they are."""
    if x.dtype.char not in LARGE:
        return x
    large = LARGE[x.dtype.char]
    sizes = [1.0, large, 1 / large, large**0.5, large**-0.5, 0.0]
    spread = [(), (*x.shape[:1], *[1] * (x.ndim - 1)), x.shape][int(rng.integers(3))]
    size = rng.choice(sizes, size=spread)
    sign = rng.choice([-1.0, 1.0], size=x.shape)
    return np.asarray(rng.uniform(0.1, 1.0, x.shape) * sign * size).astype(x.dtype)


def _wider(a: Any) -> Any:
    return a.astype(WIDER[a.dtype.char]) if a.dtype.char in WIDER else a


def _run(f: Any, args: Sequence[Any]) -> list[Any] | None:
    """What it gives; None if it fails."""
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return [np.asarray(y) for y in f(*args)]
    except Exception:
        return None


def faults(x: Any, y: Any, truth: Any) -> Any:
    """Where compiled x is at fault beside eager y."""
    if y.dtype.char not in LARGE:
        return np.zeros(y.shape, bool)
    limits = np.finfo(y.dtype)
    with np.errstate(all="ignore"):
        is_right = np.abs(y - truth) <= 0.01 * np.abs(truth)  # of two zeros, too
        is_right &= np.abs(truth) < float(limits.max) / 1000
        vanishes = (x == 0) & (np.abs(truth) > 1e-6)
    return np.isfinite(y) & is_right & (~np.isfinite(x) | vanishes)


def failure(s: Sketch) -> str | None:
    """Why the check fails, or None. What eager NumPy itself cannot run is no program."""
    if _run(s.function(), s.inputs) is None:
        return None
    try:
        check(s)
    except CheckError as error:
        return str(error)
    return None


def explain(seed: int, longest: int = 6) -> str | None:
    """The failure of a seed, made small and printed; None if there is none."""
    s = sketch(seed, longest)
    if failure(s) is None:
        return None
    small = shrink(s, failure)
    return f"# seed {seed}: {failure(small)}\n{small.source()}"


def main(count: int, first: int = 0) -> int:
    os.environ["BACKSOLVE_CACHE_DIR"] = ""  # nobody will run these programs again
    for k in range(count):
        found = explain(first + k, longest=8)
        if found is not None:
            print(f"\n{found}")
            return 1
        if (k + 1) % 100 == 0:
            print(f"\r{k + 1} of {count} programs on extreme numbers", end="", flush=True)
    print()
    return 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
