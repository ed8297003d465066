"""Random programs: compiled against eager, forward against reverse; failures are made small.

Programs come from fuzz_sketch.py, by seed; their lines from fuzz_steps.py, fuzz_shapes.py and
fuzz_matrices.py. `check` compares, fuzz_shrink.py makes a failure small. `python -m backsolve.testing.fuzz
1000` checks a thousand.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..api import jvp, vjp, vmap
from ..compiled import Jitted
from .fuzz_shrink import shrink
from .fuzz_sketch import Sketch, sketch, value
from .grads import CheckError

HALF, SINGLE, DOUBLE = 0.1, 2e-4, 1e-9  # what rounding may do, relative to the largest number


# ---- checking


def check(s: Sketch, backend: str = "native") -> None:
    check_function(s.function(), s.inputs, s.seed, _precision(s), backend)


def _precision(s: Sketch) -> float:
    """By the coarsest dtype on the way."""
    values = list(s.inputs)
    for step in s.steps:
        y = value(step, values)
        values.append(np.zeros(()) if y is None else y)
    dtypes = {v.dtype.name for v in values}
    single = not dtypes.isdisjoint(("float32", "complex64"))
    return HALF if "float16" in dtypes else SINGLE if single else DOUBLE


def check_function(
    f: Callable[..., tuple[Any, ...]],
    args: Sequence[Any],
    seed: int = 0,
    unit: float = 2e-4,
    backend: str = "native",
) -> None:
    """Raises CheckError where compiled values, gradients or batches are not the eager ones."""
    rng = np.random.default_rng(seed + 1)
    with np.errstate(all="ignore"):
        plain = [np.asarray(y) for y in f(*args)]
        places = _places(args)
        both, seeds = _with_seeds(f, places, plain, rng)
        expected = [np.asarray(y) for y in both(*args, *seeds)]
        kinds = ["value"] * len(plain) + ["gradient"] * (len(expected) - len(plain))
        _compare(expected[: len(plain)], plain, kinds[: len(plain)], "eager on Tensors", unit)
        compiled = Jitted(both, (), backend)
        got = compiled(*args, *seeds)
        try:
            _compare(got, expected, kinds, "compiled", unit)
        except CheckError:
            if not _is_more_exact(got, expected, both, (*args, *seeds)):
                raise
        if all(np.isrealobj(v) for v in (*args, *plain)) and seeds:
            _check_forward(f, args, places, seeds, expected[len(plain) :], rng, unit)
        if seed % 10 == 0:
            _check_batched(f, args, plain, unit)


def pulled(f: Any, args: Sequence[Any], rng: np.random.Generator) -> tuple[Any, list[Any]]:
    """A function of arguments and seeds to values and gradients, and such seeds."""
    with np.errstate(all="ignore"):
        plain = [np.asarray(y) for y in f(*args)]
    return _with_seeds(f, _places(args), plain, rng)


def _places(args: Sequence[Any]) -> list[int]:
    return [k for k, x in enumerate(args) if x.dtype.kind in "fc"]


def _with_seeds(f: Any, places: Any, plain: Any, rng: Any) -> tuple[Any, list[Any]]:
    smooth = [y.dtype.kind in "fc" for y in plain]
    seeds = [_seed(rng, y) for y, s in zip(plain, smooth, strict=True) if s]
    return _value_and_pull(f, places, smooth), seeds


def _seed(rng: np.random.Generator, y: Any) -> Any:
    u = rng.uniform(0.5, 1.0, y.shape) * rng.choice([-1.0, 1.0], y.shape)
    return np.asarray(u).astype(y.dtype)


def _value_and_pull(f: Any, places: Sequence[int], smooth: Sequence[bool]) -> Any:
    """(arguments, seeds of the smooth outputs) ↦ (outputs, adjoints of the arguments at `places`)."""

    def both(*everything: Any) -> tuple[Any, ...]:
        count = len(everything) - sum(smooth)
        args, seeds = list(everything[:count]), list(everything[count:])
        discrete: list[Any] = []

        def restricted(*varying: Any) -> list[Any]:
            inner = list(args)
            for k, x in zip(places, varying, strict=True):
                inner[k] = x
            outputs = f(*inner)
            discrete[:] = [y for y, s in zip(outputs, smooth, strict=True) if not s]
            return [y for y, s in zip(outputs, smooth, strict=True) if s]

        ys, pull = vjp(restricted, *[args[k] for k in places])
        rest, varied = iter(discrete), iter(ys)
        outputs = [next(varied) if s else next(rest) for s in smooth]
        return (*outputs, *(pull(seeds) if seeds else ()))

    return both


def _compare(got: Any, expected: Any, kinds: Sequence[str], what: str, unit: float) -> None:
    got = got if isinstance(got, tuple | list) else [got]
    for k, (x, y, kind) in enumerate(zip(got, expected, kinds, strict=True)):
        where = f"{what}: {kind} {k}"
        x, y = np.asarray(x), np.asarray(y)
        if (x.shape, x.dtype) != (y.shape, y.dtype):
            raise CheckError(f"{where} is a {x.dtype}{x.shape}, should be {y.dtype}{y.shape}")
        if y.dtype.kind not in "fc":
            close = np.array_equal(x, y)
        else:
            scale = unit * max(1.0, float(np.max(np.abs(y[np.isfinite(y)]), initial=0)))
            close = np.allclose(x, y, rtol=unit, atol=scale, equal_nan=True)
        if not close:
            raise CheckError(f"{where} is\n{x}\nshould be\n{y}")


def _is_more_exact(got: Any, expected: Any, both: Any, args: Sequence[Any]) -> bool:
    """Whether the compiled results, by stable forms, are nearer to what double precision gives."""
    wide = [a.astype(_WIDE.get(a.dtype.char, a.dtype)) for a in args]
    truths = [np.asarray(y) for y in both(*wide)]
    got = got if isinstance(got, tuple | list) else [got]
    for x, y, truth in zip(got, expected, truths, strict=True):
        x, y = np.asarray(x), np.asarray(y)
        if x.dtype.kind not in "fc":
            if not np.array_equal(x, y):
                return False
            continue
        finite = np.isfinite(truth)
        if not np.array_equal(np.isfinite(x), finite):
            return False
        gap, other = (np.max(np.abs(z[finite] - truth[finite]), initial=0) for z in (x, y))
        if gap > other and gap > SINGLE * np.max(np.abs(truth[finite]), initial=1.0):
            return False
    return True


_WIDE = {"e": np.dtype(np.float64), "f": np.dtype(np.float64), "F": np.dtype(np.complex128)}


def _check_forward(
    f: Any, args: Any, places: Any, seeds: Any, gradients: Any, rng: Any, unit: float
) -> None:
    """⟨J v, u⟩ = ⟨v, Jᵀ u⟩."""

    def restricted(*varying: Any) -> list[Any]:
        inner = list(args)
        for k, x in zip(places, varying, strict=True):
            inner[k] = x
        return [y for y in f(*inner) if y.dtype.kind in "fc"]

    directions = [_seed(rng, args[k]) for k in places]
    tangents = jvp(restricted, [args[k] for k in places], directions)[1]
    terms = [_products(t, u) for t, u in zip(tangents, seeds, strict=True)]
    mirror = [_products(v, g) for v, g in zip(directions, gradients, strict=True)]
    left, right = sum(t for t, _ in terms), sum(t for t, _ in mirror)
    size = max(1.0, sum(s for _, s in terms), sum(s for _, s in mirror))
    if not abs(left - right) <= unit * size:
        raise CheckError(f"forward against reverse: ⟨Jv, u⟩ = {left}, ⟨v, Jᵀu⟩ = {right}")


def _products(a: Any, b: Any) -> tuple[float, float]:
    terms = np.asarray(a, float) * np.asarray(b, float)
    return float(terms.sum()), float(np.abs(terms).sum())


def _check_batched(f: Any, args: Sequence[Any], plain: Sequence[Any], unit: float) -> None:
    """Two examples at once: this one and one that lies so near that no branch changes."""
    near = [x * (1 - 1e-5) if x.dtype.kind in "fc" else x for x in args]
    near = [np.asarray(n, x.dtype) for n, x in zip(near, args, strict=True)]
    other = [np.asarray(y) for y in f(*near)]
    expected = [np.stack(pair) for pair in zip(plain, other, strict=True)]
    stacked = [np.stack(pair) for pair in zip(args, near, strict=True)]
    got = vmap(Jitted(f, (), "native"))(*stacked)
    _compare(got, expected, ["value"] * len(plain), "vmap of compiled", unit)


def failure(s: Sketch) -> str | None:
    """Why the check fails, or None. What eager NumPy itself cannot run is no program."""
    try:
        with np.errstate(all="ignore"):
            s.function()(*s.inputs)
    except Exception:
        return None
    try:
        check(s)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


# ---- from the command line


def explain(seed: int, longest: int = 6) -> str | None:
    """The failure of a seed, made small and printed to be run; None if there is none."""
    s = sketch(seed, longest)
    found = failure(s)
    if found is None:
        return None
    kind = found.split(":")[0]  # a smaller program must fail in the same way
    small = shrink(s, lambda s: (failure(s) or "").startswith(kind))
    return f"# seed {seed}: {failure(small)}\n{small}"


def search(explain: Callable[[int], str | None], count: int, first: int, what: str) -> int:
    """The exit status: 1 at the first of `count` seeds that fails."""
    os.environ["BACKSOLVE_CACHE_DIR"] = ""  # nobody will run these programs again
    started = time.perf_counter()
    for k in range(count):
        found = explain(first + k)
        if found is not None:
            print(f"\n{found}")
            return 1
        if (k + 1) % 10 == 0:
            rate = (k + 1) / (time.perf_counter() - started)
            print(f"\r{k + 1} of {count} {what}, {rate:.1f} a second", end="", flush=True)
    print()
    return 0


def main(count: int, first: int = 0) -> int:
    return search(lambda seed: explain(seed, longest=12), count, first, "programs")


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
