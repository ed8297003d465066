"""check_grads: derivatives against numerical differences, never against a formula.

With J the differential of f at x, and random u, v:

    forward   J u  =  (f(x + h u) − f(x − h u)) / 2h  +  O(h²)
    reverse   ⟨J u, v⟩ = ⟨u, Jᵀ v⟩,   ⟨a, b⟩ = Re Σ ā b

for one argument at a time. Then both sides' functions (x, u) ↦ J u and (x, v) ↦ Jᵀ v are checked in
the same way, and so on to the order asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import tree
from ..api import jvp, vjp
from ..declared import points_in
from ..errors import UnsupportedError
from ..hooks import hooks
from ..tensor import Tensor, lent
from ..working import Working

Leaves = list[Any]


class CheckError(AssertionError):
    """A check of `backsolve.testing` found that two things differ which must agree."""


@dataclass(frozen=True, slots=True)
class _Tolerance:
    rtol: float | None
    atol: float | None
    eps: float | None

    def numeric(self, eps: float, step: float) -> tuple[float, float]:
        """For a comparison with a central difference; `eps` is the precision of the derivative.

        The difference itself is off by about h² for doubles, more if f rounds to single precision.
        """
        default = max(1e-6, 1e4 * eps if eps > 1e-10 else 0, 2 * step if step > 1e-4 else 0)
        return self._or(default)

    def exact(self, eps: float) -> tuple[float, float]:
        """For two derivatives computed in precision `eps`."""
        return self._or(1e4 * eps if eps > 1e-10 else 1e-9)

    def _or(self, default: float) -> tuple[float, float]:
        rtol = default if self.rtol is None else self.rtol
        return rtol, rtol if self.atol is None else self.atol


def check_grads(
    f: Callable[..., Any],
    args: Sequence[Any],
    order: int = 2,
    modes: Sequence[str] = ("forward", "reverse"),
    *,
    rtol: float | None = None,
    atol: float | None = None,
    eps: float | None = None,
    seed: int = 0,
) -> None:
    """Check the derivatives of `f` at `args` up to `order`, in the given modes.

    `args` are f's arguments: floats, arrays, Tensors and nested containers of them; all real and
    complex floating-point ones vary. Differences are taken in double precision with the step `eps`;
    tolerances follow the dtypes unless given. `f` must be smooth at `args`.

    >>> check_grads(lambda p: np.tanh(p["w"] @ p["w"]) * p["b"], [{"w": np.eye(2), "b": 0.5}])
    >>> check_grads(np.abs, [0.0])
    Traceback (most recent call last):
    ...
    backsolve.testing.grads.CheckError: order 2, forward over forward, argument 0: expected ...
    """
    for mode in modes:
        if mode not in ("forward", "reverse"):
            raise ValueError(f'modes are "forward" and "reverse", got {mode!r}')
    leaves, structure = tree.flatten(tuple(args))
    refuse_points(structure, leaves)
    leaves = [x.value[()] if isinstance(x, Tensor) else x for x in leaves]
    places = [k for k, x in enumerate(leaves) if varies(x)]
    if not places:
        raise ValueError("check_grads needs a floating-point or complex argument: nothing varies")

    def flat(*xs: Any) -> Leaves:
        inner = [*map(lent, leaves)]
        for k, x in zip(places, xs, strict=True):
            inner[k] = lent(x)
        outputs, _ = tree.flatten(hooks.users(f)(*structure.unflatten(inner)))
        return [y for y in outputs if varies(y)]

    paths = list(leaf_paths(structure))
    xs, names = [leaves[k] for k in places], [paths[k] for k in places]
    rng = np.random.default_rng(seed)
    with Working("checking"):
        _check(flat, xs, names, [], order, tuple(modes), _Tolerance(rtol, atol, eps), rng)


def _check(
    f: Callable[..., Leaves],
    xs: Leaves,
    names: list[str],
    above: list[str],  # what was differentiated already, the first derivative last
    order: int,
    modes: tuple[str, ...],
    tolerance: _Tolerance,
    rng: np.random.Generator,
) -> None:
    ys = [_value(y) for y in f(*xs)]
    us = [random_like(x, rng) for x in xs]
    vs = [random_like(y, rng) for y in ys]
    precision = max([_eps(z) for z in (*xs, *ys)])

    def place(mode: str, name: str) -> str:
        chain = " over ".join([mode, *above])
        return f"order {len(above) + 1}, {chain}{' mode' if not above else ''}, argument {name}"

    pushed = []
    for k, name in enumerate(names):
        direction = [u if j == k else np.zeros_like(u)[()] for j, u in enumerate(us)]
        difference, step = central_difference(f, xs, direction, tolerance.eps)
        if "forward" not in modes:
            pushed.append(difference)
            continue
        images = [_value(t) for t in jvp(f, xs, direction)[1]]
        tol = tolerance.numeric(precision, step)
        for n, (t, y, expected) in enumerate(zip(images, ys, difference, strict=True)):
            where = place("forward", name) + (f", output {n}" if len(ys) > 1 else "")
            same_type(t, y, where)
            close(t, expected, tol, where, "the central difference")
        pushed.append(images)
    if "reverse" in modes:
        _, pull = vjp(f, *xs)
        grads = [_value(g) for g in pull(list(vs))]
        step = tolerance.eps or 0.0
        tol = (
            tolerance.exact(precision) if "forward" in modes else tolerance.numeric(precision, step)
        )
        for name, x, u, g, image in zip(names, xs, us, grads, pushed, strict=True):
            same_type(g, x, place("reverse", name))
            expected, got = inner(image, vs), inner([u], [g])
            rtol, atol = tol
            size = sum(float(np.sum(np.abs(a) * np.abs(b))) for a, b in zip(image, vs, strict=True))
            if not abs(expected - got) <= atol + rtol * size:
                raise CheckError(
                    f"{place('reverse', name)}: expected {expected!r} (⟨J u, v⟩), "
                    f"got {got!r} (⟨u, Jᵀ v⟩)"
                )
    if order > 1:
        for mode in modes:
            further = us if mode == "forward" else vs
            more = [f"{'u' if mode == 'forward' else 'v'}{k}" for k in range(len(further))]
            derived = _derivative(f, len(xs), mode)
            _check(
                derived,
                [*xs, *further],
                names + more,
                [mode, *above],
                order - 1,
                modes,
                tolerance,
                rng,
            )


def _derivative(f: Callable[..., Leaves], n: int, mode: str) -> Callable[..., Leaves]:
    """(x, u) ↦ J u, or (x, v) ↦ Jᵀ v, as a function of flat lists."""

    def forward(*args: Any) -> Leaves:
        return list(jvp(f, args[:n], args[n:])[1])

    def reverse(*args: Any) -> Leaves:
        return list(vjp(f, *args[:n])[1](list(args[n:])))

    return forward if mode == "forward" else reverse


def central_difference(
    f: Callable[..., Leaves], xs: Leaves, us: Leaves, eps: float | None = None
) -> tuple[Leaves, float]:
    """(f(x + h u) − f(x − h u)) / 2h in double precision, and h."""
    wide = [_double(x) for x in xs]
    worst = max((_eps(_value(y)) for y in f(*wide)), default=0.0)
    h = eps or (1e-5 if worst < 1e-10 else worst ** (1 / 3))
    ahead = [_value(y) for y in f(*[x + h * u for x, u in zip(wide, us, strict=True)])]
    behind = [_value(y) for y in f(*[x - h * u for x, u in zip(wide, us, strict=True)])]
    with np.errstate(invalid="ignore"):
        return [(_double(a) - _double(b)) / (2 * h) for a, b in zip(ahead, behind, strict=True)], h


# ---- comparing


def close(got: Any, expected: Any, tol: tuple[float, float], where: str, what: str) -> None:
    """Entries agree to atol + rtol · (the largest entry)."""
    got, expected = np.asarray(got), np.asarray(expected)
    if "b" in got.dtype.kind + expected.dtype.kind:  # truth values have no difference
        got, expected = got.astype(int), expected.astype(int)
    rtol, atol = tol
    if got.shape != expected.shape:
        raise CheckError(f"{where}: expected shape {expected.shape} of {what}, got {got.shape}")
    if not got.size:
        return
    with np.errstate(invalid="ignore"):
        equal = (got == expected) | (np.isnan(got) & np.isnan(expected))
        apart = np.where(equal, 0.0, np.abs(got - expected))
        finite = np.abs(expected[np.isfinite(expected)])
        good = apart <= atol + rtol * np.max(finite, initial=0.0)
    if not np.all(good):
        worst = tuple(int(k) for k in np.argwhere(~good)[0])
        at = f" at index {worst}" if worst else ""
        raise CheckError(
            f"{where}: expected {expected[worst]!r} ({what}), got {got[worst]!r}{at}; "
            f"they may differ by {atol:.1g} + {rtol:.1g} · max|expected|"
        )


def same_type(got: Any, like: Any, where: str) -> None:
    found, expected = _shape_and_dtype(got), _shape_and_dtype(like)
    if type(got) in (float, complex):  # Python numbers in, Python numbers out: only the kind counts
        found = (found[0], expected[1] if found[1].kind == expected[1].kind else found[1])
    if expected != found:
        raise CheckError(
            f"{where}: expected a derivative of type {expected[1]}{list(expected[0])}, "
            f"got {found[1]}{list(found[0])}"
        )


def _shape_and_dtype(x: Any) -> tuple[Any, np.dtype[Any]]:
    return np.shape(x), np.asarray(x).dtype


def inner(a: Sequence[Any], b: Sequence[Any]) -> float:
    """⟨a, b⟩ = Re Σ ā b over all leaves."""
    return float(sum(np.sum(np.real(np.conjugate(x) * y)) for x, y in zip(a, b, strict=True)))


def random_like(x: Any, rng: np.random.Generator) -> Any:
    """Normally distributed entries of the shape and dtype of x."""
    dtype = np.asarray(x).dtype
    u = rng.standard_normal(np.shape(x))
    if dtype.kind == "c":
        u = u + 1j * rng.standard_normal(np.shape(x))
    return np.asarray(u).astype(dtype)[()]


def varies(x: Any) -> bool:
    if isinstance(x, float | complex):
        return True
    return isinstance(x, Tensor | np.ndarray | np.generic) and x.dtype.kind in "fc"


def _value(y: Any) -> Any:
    return y.value[()] if isinstance(y, Tensor) else y


def _double(x: Any) -> Any:
    dtype = np.asarray(x).dtype
    return np.asarray(x).astype(np.complex128 if dtype.kind == "c" else np.float64)[()]


def _eps(x: Any) -> float:
    return float(np.finfo(np.asarray(x).dtype).eps)


def refuse_points(structure: tree.Structure, leaves: Leaves) -> None:
    for point in points_in(structure, leaves).values():
        raise UnsupportedError(
            f"differences leave {point.manifold}: check the function at the array itself, whose derivative "
            "bs.on projects"
        )


def leaf_paths(structure: tree.Structure, prefix: str = "") -> Iterator[str]:
    """The names of the leaves: 0['w'][1] is the second entry of 'w' in the first argument."""
    if structure.kind is tree.LEAF:
        yield prefix
        return
    meta, count = structure.meta, len(structure.children)
    keys = meta if isinstance(meta, tuple) and len(meta) == count else range(count)
    for key, child in zip(keys, structure.children, strict=True):
        yield from leaf_paths(child, f"{prefix}[{key!r}]" if prefix else f"{key}")
