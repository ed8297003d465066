"""Random steps on windows and on matrices: windows cut out and added back, equations. See fuzz_steps.py."""

from __future__ import annotations

from collections.abc import Callable

from ..operators.windows import Cut
from .fuzz_steps import Made, Pool


def windows(pool: Pool) -> Made:
    k = pool.array()
    if k is None:
        return None
    shape = pool.values[k].shape
    cut = _cut(pool, len(shape), [1 + pool.below(3) for _ in range(_count(pool, len(shape)))])
    return f"P.windows({{0}}, cut={cut})", (k,)


def fold(pool: Pool) -> Made:
    """Windows that overlap, touch or leave gaps, and a rest of the array that none reaches."""
    k = pool.array(least=2)
    if k is None or not pool.values[k].size:
        return None
    shape = pool.values[k].shape
    count = _count(pool, len(shape) // 2)
    cut = _cut(pool, len(shape) - count, list(shape[len(shape) - count :]))
    whole = list(shape[: len(shape) - count])
    for axis, size, step, dilation in zip(*cut, strict=True):
        whole[axis] = (whole[axis] - 1) * step + dilation * (size - 1) + 1 + pool.below(step)
    return f"P.fold({{0}}, cut={cut}, shape={tuple(whole)})", (k,)


def _count(pool: Pool, most: int) -> int:
    return 2 if most > 1 and pool.chance(0.4) else 1


def _cut(pool: Pool, rank: int, size: list[int]) -> Cut:
    axes = sorted(int(a) for a in pool.rng.permutation(rank)[: len(size)])
    step, dilation = ([1 + pool.below(most) for _ in size] for most in (3, 2))
    return Cut(tuple(axes), tuple(size), tuple(step), tuple(dilation))


def equation(pool: Pool) -> Made:
    """Systems that are far from singular, whatever the numbers."""
    k = pool.value(lambda v: v.dtype.kind in "fc" and v.ndim >= 2 and v.size > 0)
    if k is None:
        return None
    m, n = pool.values[k].shape[-2:]
    turned = "np.swapaxes({0}, -1, -2)"
    definite = f"np.tanh({{0}}) @ np.tanh(np.conjugate({turned})) * 0.2 + "
    definite += f"np.eye({m}, dtype={{0}}.dtype)"
    small = f"np.tanh({turned} @ {{0}}) * {0.5 / n:.2f} + 2 * np.eye({n}, dtype={{0}}.dtype)"
    forms = [f"P.sqrtm({definite})", f"P.sylvester({definite}, {small}, {{0}})"]
    if pool.values[k].dtype.kind == "c":  # whose tanh has poles
        forms = [f"P.sylvester({{0}} @ {turned} * 0.1 + 9 * np.eye({m}), np.eye({n}) * 9, {{0}})"]
    else:
        upper = pool.below(m)
        ones = f"np.eye({m}, 1, {-upper}, dtype={{0}}.dtype)"
        bands = f"np.tanh({{0}}) * {0.5 / m:.2f} + {ones}"
        forms += [f"P.banded_solve({bands}, {turned}, lower={m - 1 - upper}, upper={upper})"]
    return pool.pick(forms), (k,)


MAKERS: dict[Callable[[Pool], Made], float] = {windows: 0.7, fold: 0.7, equation: 0.4}
NAMES = {"Cut": Cut}
