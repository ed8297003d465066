"""Random steps for random programs: each is one line of NumPy code on values that exist already.

A maker looks at the concrete values made so far and writes a line, or gives up (None). It keeps away
from jumps and kinks (two numbers that are compared are apart, what is rounded is not near an integer),
so that rounding alone cannot change which side is taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..primitive import PRIMITIVES, P
from ..primitives.special import NAMES as SCIPYS
from .domains import DOMAINS, PARAMS, REAL
from .draws import ANY
from .samples import arity_of

GAP = 1e-3
Made = tuple[str, tuple[int, ...]] | None  # code with {0}, {1} … for values, and which values


def inside(a: Any, low: float, high: float) -> Any:
    """Any real number, brought smoothly between two."""
    return low + (high - low) * (0.5 + 0.5 * np.tanh(a))


class Pool:
    """What a maker sees: the values so far, and chance."""

    def __init__(self, rng: np.random.Generator, values: Sequence[Any]):
        self.rng, self.values = rng, values

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def below(self, n: int) -> int:
        return int(self.rng.integers(n))

    def pick(self, options: Sequence[Any]) -> Any:
        return options[self.below(len(options))]

    def value(self, suits: Callable[[Any], bool] = lambda v: True) -> int | None:
        """The place of a value that suits; later ones more often, so that programs grow deep."""
        places = [k for k, v in enumerate(self.values) if suits(v)]
        if not places:
            return None
        return places[-1 - int(len(places) * self.rng.random() ** 2)]

    def array(self, kinds: str = "fiubc", least: int = 1) -> int | None:
        return self.value(lambda v: v.dtype.kind in kinds and v.ndim >= least)

    def partner(self, k: int, kinds: str = "fiubc") -> int | None:
        """A value that broadcasts against value k."""
        return self.value(lambda v: v.dtype.kind in kinds and fits(self.values[k].shape, v.shape))

    def axis(self, k: int) -> int:
        return self.below(self.values[k].ndim)

    def axes(self, k: int) -> Any:
        n = self.values[k].ndim
        if not n or self.chance(0.3):
            return None
        if n == 1 or self.chance(0.6):
            return self.below(n) - (n if self.chance(0.3) else 0)
        return tuple(sorted(int(a) for a in self.rng.permutation(n)[:2]))


def fits(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    try:
        np.broadcast_shapes(a, b)
    except ValueError:
        return False
    return True


def apart(a: Any, b: Any) -> bool:
    """No two entries that meet are close; whole numbers may be equal."""
    a, b = np.asarray(a), np.asarray(b)
    if "c" in a.dtype.kind + b.dtype.kind:
        return False
    if "f" not in a.dtype.kind + b.dtype.kind:
        return True
    gaps = np.abs(a.astype(float) - b.astype(float))
    return bool((gaps > GAP).all())


def distinct(a: Any, axis: Any) -> bool:
    """No two entries along the axes are close."""
    if a.dtype.kind != "f":
        return a.dtype.kind != "c"
    axes = range(a.ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    moved = np.moveaxis(a, tuple(axes), tuple(range(-len(axes), 0)))
    rows = moved.reshape(*moved.shape[: a.ndim - len(axes)], -1) if a.size else moved
    return not a.size or bool((np.diff(np.sort(rows, axis=-1), axis=-1) > GAP).all())


# ---- element-wise rows

AT_ZERO = {"absolute", "sign", "fabs", "cbrt", "copysign", "signbit", "heaviside", "logical_not"}
AT_ZERO |= {"logical_and", "logical_or", "logical_xor", "sqrt", "hypot", "angle", "reciprocal"}
AT_EQUAL = {"maximum", "minimum", "fmax", "fmin", "equal", "not_equal", "less", "less_equal"}
AT_EQUAL |= {"greater", "greater_equal"}
AT_INTEGERS = {"floor", "ceil", "trunc", "rint"}
DIVIDES = {"divide", "floor_divide", "remainder", "fmod", "arctan2"}
LEFT_OUT = {"nextafter", "spacing", "alias", "detach", "cast", "cast_discrete", "where", "clip"}
# Of SciPy's functions those that are smooth in all arguments; test_special.py has the others.
SMOOTH = {"erf", "erfc", "erfinv", "ndtr", "gammaln", "gamma", "digamma", "sigmoid", "log_sigmoid"}
SMOOTH |= {"eval_hermite", "eval_hermitenorm", "wofz"}
LEFT_OUT |= set(SCIPYS) - SMOOTH - {"logit", "xlogy", "xlog1py"}
LEFT_OUT |= {"dawsn_derivative", "erfcx_moment", "gamma_tail", "over_gaps", "scaled_bessel", "zeta"}
ELEMENTWISE = sorted(n for n, p in PRIMITIVES.items() if p.elementwise and n not in LEFT_OUT)


def row(pool: Pool) -> Made:
    """A row of the table, its arguments brought into its domain."""
    name = pool.pick(ELEMENTWISE)
    prim = PRIMITIVES[name]
    arity = arity_of(prim)
    domain = DOMAINS.get(name, [ANY] * arity)
    first = pool.array(least=0)
    places, words, seen = [first], [], []
    while len(places) < arity:
        places.append(pool.partner(places[0]) if places[0] is not None else None)
    used: list[int] = []
    for k, kind in zip(places, domain, strict=True):
        if k is None:
            return None
        v = pool.values[k]
        if v.dtype.kind == "c" and name in (*REAL, "polygamma"):
            return None
        if kind in ("integer", "small"):
            words.append(str(pool.below(4)))
            seen.append(np.asarray(1))
            continue
        if len(places) == 2 and used and pool.chance(0.2):  # a Python number
            number = round(float(pool.rng.uniform(0.4, 1.9)), 2)
            words.append(repr(number))
            seen.append(np.asarray(number))
            continue
        word = f"{{{len(used)}}}"
        used.append(k)
        if isinstance(kind, tuple) and v.dtype.kind == "f":
            low, high = kind
            word, v = f"inside({word}, {low}, {high})", inside(v, low, high)
        elif isinstance(kind, tuple) and v.dtype.kind != "c":
            return None
        words.append(word)
        seen.append(v)
    if not _is_safe(name, seen):
        return None
    params = pool.pick(PARAMS.get(name, [{}]))
    extra = "".join(f", {n}={v!r}" for n, v in params.items())
    return f"P.{name}({', '.join(words)}{extra})", tuple(used)


def _is_safe(name: str, seen: Sequence[Any]) -> bool:
    if name in AT_EQUAL or (name in DIVIDES and name != "divide"):
        real = all(np.asarray(v).dtype.kind != "c" for v in seen)
        if not real or (name in AT_EQUAL and not apart(*seen)):
            return False
    if name in DIVIDES:
        if not bool((np.abs(seen[1]) > 0.2).all()):
            return False
        if name in ("floor_divide", "remainder", "fmod"):
            return _off_integers(np.divide(*[np.asarray(v, float) for v in seen]), seen)
    if name in AT_ZERO and not all(bool((np.abs(v) > 0.02).all()) for v in seen):
        return all(np.asarray(v).dtype.kind in "ibu" for v in seen) and name != "reciprocal"
    return name not in AT_INTEGERS or _off_integers(seen[0], seen)


def _off_integers(q: Any, seen: Sequence[Any]) -> bool:
    kinds = "".join(np.asarray(v).dtype.kind for v in seen)
    if "c" in kinds:
        return False
    return "f" not in kinds or bool((np.abs(q - np.rint(q)) > GAP).all())


def arithmetic(pool: Pool) -> Made:
    """What most programs consist of."""
    k = pool.array(least=0)
    m = pool.partner(k) if k is not None else None
    if k is None or m is None:
        return None
    number = round(float(pool.rng.uniform(-1.5, 1.5)), 2)
    forms = ["{0} + {1}", "{0} - {1}", "{0} * {1}", "{0} * {0} - {1}", "-{0}", "{0} ** 2"]
    forms += [f"{{0}} * {number}", f"{number} - {{0}}", "{0} / (1.5 + {1} * {1})", "{0} * 1"]
    forms += ["{0} + 0", "1.0 * {0}", "{0} ** 3", "np.tanh({0}) * {1}", "np.exp(-{0} * {0})"]
    form = pool.pick(forms)
    if "**" in form and pool.values[k].dtype == bool:
        return None  # NumPy's operator and its function np.power give different dtypes
    return form, (k, m)


def stable(pool: Pool) -> Made:
    """Expressions that passes know: their rewritten forms must compute the same."""
    k = pool.array("f", 0)
    if k is None:
        return None
    axis = pool.axes(k)
    forms = ["np.log(1 + np.exp({0}))", "np.log(P.sigmoid({0}))", "np.log1p(np.exp({0}))"]
    forms += ["1 / (1 + np.exp(-{0}))", "np.log(1 / (1 + np.exp(-{0})))"]
    forms += ["-np.log(1 - P.sigmoid({0}))", "np.sqrt(np.square({0}) + 1)", "-(-{0})"]
    forms += ["np.exp(np.log(1.2 + {0} * {0}))", "np.where({0} > 9e9, {0}, {0})"]
    if pool.values[k].size:
        total = f"np.sum(np.exp({{0}}), axis={axis}, keepdims=True)"
        top = f"np.max({{0}}, axis={axis}, keepdims=True)"
        forms += [
            f"np.log({total})",
            f"np.exp({{0}}) / {total}",
            f"np.log(np.exp({{0}}) / {total})",
        ]
        forms += [f"{{0}} - np.log({total})", f"np.exp({{0}} - np.log({total}))"]
        if distinct(pool.values[k], axis):
            forms += [f"np.exp({{0}} - {top})"]
    return pool.pick(forms), (k,)


# ---- reductions, scans, orders


def reduction(pool: Pool) -> Made:
    k = pool.array(least=0)
    if k is None:
        return None
    v, axis, keep = pool.values[k], pool.axes(k), pool.chance(0.4)
    kind = v.dtype.kind
    names = ["np.sum", "np.sum", "np.mean", "np.prod"]
    names += ["np.any", "np.all"] if kind == "b" else []
    if kind in "fiu" and v.size and distinct(v, axis):
        names += ["np.max", "np.min"]
    if kind == "f" and v.size > 1:
        names += ["np.var", "np.std", "P.logsumexp"] if distinct(v, axis) else ["np.var"]
    name = pool.pick(names)
    if name == "P.logsumexp":
        axis = tuple(
            int(a) % v.ndim for a in np.atleast_1d(range(v.ndim) if axis is None else axis)
        )
    if name == "np.std":
        return f"np.sqrt(np.var({{0}}, axis={axis}, keepdims={keep}) + 0.1)", (k,)
    return f"{name}({{0}}, axis={axis}, keepdims={keep})", (k,)


def running(pool: Pool) -> Made:
    k = pool.array()
    if k is None:
        return None
    axis = pool.axis(k)
    same = pool.value(lambda v: v.shape == pool.values[k].shape and v.dtype.kind == "f")
    if same is not None and pool.values[k].dtype.kind == "f" and pool.chance(0.3):
        return f"P.recurrence({{0}}, {{1}}, axis={axis}, reverse={pool.chance(0.5)})", (k, same)
    return f"{pool.pick(['np.cumsum', 'np.cumprod'])}({{0}}, axis={axis})", (k,)


def order(pool: Pool) -> Made:
    k = pool.array("fi")
    if k is None:
        return None
    axis = pool.axis(k)
    v = pool.values[k]
    if not distinct(v, axis):
        return None
    names = ["np.sort", "np.argsort"] + (["np.argmax", "np.argmin"] if v.shape[axis] else [])
    name = pool.pick(names)
    how = ", stable=True" if name == "np.argsort" else ""
    return f"{name}({{0}}, axis={axis}{how})", (k,)


# ---- choices, dtypes, constants


def choice(pool: Pool) -> Made:
    k = pool.array("fi", 0)
    m = pool.partner(k, "fi") if k is not None else None
    if k is None or m is None:
        return None
    a, b = pool.values[k], pool.values[m]
    third = pool.value(lambda w: fits(np.broadcast_shapes(a.shape, b.shape), w.shape))
    assert third is not None
    if apart(a, b) and pool.chance(0.5):
        test = pool.pick(["{0} > {1}", "{0} <= {1}", "({0} < {1}) & ({0} < 0.5)"])
        if "0.5" in test and not apart(a, 0.5):
            return None
        return f"np.where({test}, {{2}}, {{0}})", (k, m, third)
    if apart(a, 0.25) and apart(a, -0.75) and pool.chance(0.5):
        return "np.clip({0}, -0.75, 0.25)", (k,)
    mask = pool.value(lambda w: w.dtype == bool and fits(w.shape, a.shape))
    return None if mask is None else ("np.where({0}, {1}, 0.5)", (mask, k))


def conversion(pool: Pool) -> Made:
    k = pool.array("fib", 0)
    if k is None:
        return None
    v = pool.values[k]
    names = ["float32", "float64"]
    if v.dtype.kind != "f" or _off_integers(v, [v]):
        names += ["int64", "int32"]
    return f"{{0}}.astype(np.{pool.pick(names)})", (k,)


def constant(pool: Pool) -> Made:
    k = pool.array("f", 0)
    if k is None:
        return None
    v = pool.values[k]
    shape = v.shape if pool.chance(0.6) else v.shape[-1:]
    numbers = np.round(pool.rng.uniform(-1, 1, shape), 2)
    dtype = pool.pick(["float32", "float64"])
    if math.prod(shape) > 12 or pool.chance(0.5):
        made = pool.pick(["ones", "zeros"])
        words = f"np.{made}({shape}, np.{dtype})"
    else:
        words = f"np.reshape(np.array({numbers.ravel().tolist()}, np.{dtype}), {shape})"
    return pool.pick([f"{{0}} * {words}", f"{words} + {{0}}"]), (k,)


MAKERS: dict[Callable[[Pool], Made], float] = {
    row: 3,
    arithmetic: 4,
    stable: 1,
    reduction: 2.5,
    running: 0.6,
    order: 0.5,
    choice: 1.2,
    conversion: 0.5,
    constant: 0.8,
}
NAMES = {"P": P, "inside": inside}
