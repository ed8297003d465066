"""scipy.integrate.odeint on Tensors: `bs.scipy.integrate.odeint`. The rest is SciPy's own, for plain arrays.

All derivatives are solutions of one kind of problem, *flows*: levels z₁ … z_L of differential equations,
each with a direction. Given times t₀ … t_N and rows r₀ … r_N, a level starts as its first row (r₀, or r_N
going back); w_k is z when it arrives at t_k by z_l' = f_l(z₁ … z_l, t), and there it starts again as w_k + r_k.
An initial value problem is one level with r = (y₀, 0, 0 …).

With a variation v of z, v' = (∂f/∂z) v + (∂f/∂args) dargs, the pairs (z_l, v_l) are such a problem: forward
mode. So are z₁ … z_L and then μ_L … μ₁, each against the direction of its z: μ_l' = −Σ_m (∂f_m/∂z_l)ᵀ μ_m
starts again as μ_l + s_l w̄_k, with s_l = 1 for a level going on and −1 for one going back. What z_l starts from
is due s_l μ_l, and what is due to the arguments adds up by ā' = −Σ_m (∂f_m/∂args)ᵀ μ_m. No z has to be solved
against its direction, in which a dissipative equation is unstable. Both are written with `odeint` itself, so
derivatives of derivatives need nothing more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import tree
from ...api import jvp, vjp, vmap
from ...errors import (
    BacksolveError,
    NotDifferentiableError,
    ShapeError,
    UnsupportedError,
)
from ...function import Context, Function
from ...hooks import hooks
from ...ir import Program, Type
from ...joint import held
from ...numpy._register import array, dtype_of, ndim_of, shape_of
from ...primitive import Primitive
from ...solve.reversal import row_of
from ...tensor import Staged, Tensor
from ...trace import evaluate, is_for_later, stage
from .flows import UNTIL_COMPILED, Flow, Level, solve
from .plain import has_tensor as _has_tensor
from .plain import module as _module

_OPTIONS = ("rtol", "atol", "h0", "hmax", "hmin", "mxstep", "mxordn", "mxords")


def odeint(
    func: Callable[..., Any],
    y0: Any,
    t: Any,
    args: tuple[Any, ...] = (),
    *rest: Any,
    tfirst: bool = False,
    **options: Any,
) -> Any:
    """y at the times t, with y' = func(y, t, *args) and y = y0 at the first: SciPy's, by LSODA.

    Differentiable in y0, t and args (numbers, arrays, containers of them), in both modes and to every order, as
    exactly as rtol and atol ask for, and in the tensors that `func` closes over.

    >>> import numpy as np, backsolve as bs
    >>> t = np.array([0.0, 1.0])
    >>> def final(rate):
    ...     return bs.scipy.integrate.odeint(lambda y, t, k: -k * y, np.ones(1), t, (rate,))[-1, 0]
    >>> round(bs.grad(final)(2.0), 6)  # of exp(−rate)
    -0.135335
    """
    if not isinstance(args, tuple):
        args = (args,)
    if not _has_tensor(y0, t, args) and not _is_varied(func, y0, t, args, tfirst):
        return _module("integrate").odeint(func, y0, t, args, *rest, tfirst=tfirst, **options)
    unknown = [name for name in options if name not in _OPTIONS]
    if rest or unknown:
        raise UnsupportedError(
            f"`odeint` on a tensor takes the options {', '.join(_OPTIONS)} and tfirst by name, "
            f"got {', '.join(unknown) or 'others'}"
        )
    start, times = _floats("y0", y0), _floats("t", t)
    if ndim_of(start) > 1 or ndim_of(times) != 1:
        raise ShapeError(
            f"`odeint` needs a number or vector y0 and a vector t, got {shape_of(start)}, {shape_of(times)}"
        )
    start = np.reshape(start, (-1,))
    if not shape_of(times)[0]:
        return np.zeros((0, *shape_of(start)))
    leaves, structure = tree.flatten(args)
    leaves = held(leaves)
    places = [k for k, x in enumerate(leaves) if isinstance(x, Tensor) and dtype_of(x).kind == "f"]

    def slope_by(written: Callable[..., Any]) -> Callable[..., Any]:
        def slope(y: Any, time: Any, *varying: Any) -> Any:
            full = list(leaves)
            for k, x in zip(places, varying, strict=True):
                full[k] = x
            inner = structure.unflatten(full)
            found = written(time, y, *inner) if tfirst else written(y, time, *inner)
            found = np.stack(found) if isinstance(found, list | tuple) else array(found)
            return np.reshape(found, (-1,))

        return slope

    given = [leaves[k] for k in places]
    slope = slope_by(hooks.users(func))
    held_slope: Callable[..., Any] | Exception
    free: list[Any] = []
    if _closes_over_tensors(slope, (start, times[:1], *given)):
        slope, free = _lifted(slope_by(hooks.rewritten(func)), (start, times[0], *given))
        held_slope = slope
    else:  # derivatives are of what it is now
        try:
            held_slope, _ = _lifted(slope_by(hooks.rewritten(func)), (start, times[0], *given))
        except (BacksolveError, TypeError, ValueError) as error:
            held_slope = error
    level = Level(slope, shape_of(start)[0], 1, UNTIL_COMPILED, held_slope)
    flow = Flow([level], dict(options))
    restarts = np.concatenate([start[None], np.zeros((shape_of(times)[0] - 1, *start.shape))])
    return _Odeint.apply(flow, restarts, times, _nothing(times), *given, *free)


def _is_varied(func: Any, y0: Any, t: Any, args: tuple[Any, ...], tfirst: bool) -> bool:
    """Whether a function of plain numbers gives tensors all the same."""
    if ndim_of(t) != 1 or not shape_of(t)[0]:
        return False
    y, time = np.array(np.atleast_1d(y0), float), float(t[0])
    return _has_tensor(func(time, y, *args) if tfirst else func(y, time, *args))


def _closes_over_tensors(slope: Callable[..., Any], given: tuple[Any, ...]) -> bool:
    """Whether its result varies though nothing that it is given does. Staged, it may."""
    start, times, *rest = given
    if any(isinstance(x, Staged) for x in (start, times, *rest)):
        return True
    if not shape_of(times)[0]:
        return False
    y, time, *plain = (np.asarray(_plain_value(x)) for x in (start, times[0], *rest))
    return isinstance(slope(y, float(time), *[x[()] for x in plain]), Tensor)


def _plain_value(x: Any) -> Any:
    return x.value if isinstance(x, Tensor) else x


def _lifted(
    slope: Callable[..., Any], given: Sequence[Any]
) -> tuple[Callable[..., Any], list[Any]]:
    """The slope with the tensors that it closes over as further arguments, and these."""
    types = [Type(shape_of(x), dtype_of(x)) for x in given]
    program, _ = stage(slope, types, lasting=True)
    free: list[Any] = []
    constants: list[Any] = []
    for variable, value in program.constants:
        varies = isinstance(value, Tensor) and (value.row is not None or isinstance(value, Staged))
        (free if varies and dtype_of(value).kind == "f" else constants).append((variable, value))
    inputs = (*program.inputs, *[variable for variable, _ in free])
    whole = Program(inputs, tuple(constants), program.equations, program.outputs)
    return lambda *x: evaluate(whole, x)[0], [value for _, value in free]


def _floats(name: str, x: Any) -> Any:
    x = array(x)
    if dtype_of(x).kind == "c":
        raise NotDifferentiableError(
            f"`odeint` is about real numbers, got a complex {name}; split it into real and imaginary part"
        )
    return x.astype(float) if isinstance(x, Tensor) else np.asarray(x, float)


def _one_by_one(prim: Primitive, size: int, args: Any, batched: Any, params: Any) -> Any:
    parts = [
        prim(*[a[k] if b else a for a, b in zip(args, batched, strict=True)], **params)
        for k in range(size)
    ]
    return np.stack(parts)


# Not in the table: `_Odeint` has the derivatives.
_flow = Primitive(
    "odeint", solve, type=lambda r, t, *rest, flow: Type(r.shape, r.dtype), batch=_one_by_one
)


class _Odeint(Function):
    """(flow, restarts, t, known, *args) ↦ w. Of its first columns, w is what is known already, if any is."""

    @staticmethod
    def forward(ctx: Context, flow: Flow, restarts: Any, t: Any, known: Any, *args: Any) -> Any:
        w = _flow(restarts, t, known, *args, flow=flow)
        flow.hold()
        ctx.save_for_backward(flow, w, restarts, t, known, *args)
        return w

    @staticmethod
    def jvp(ctx: Context, *tangents: Any) -> Any:
        flow, w, restarts, t, known, *args = ctx.saved_tensors
        if is_for_later(restarts, t, *args) or any(
            row_of(x) is not None for x in (restarts, t, *args)
        ):
            w = _Odeint.apply(flow, restarts, t, known, *args)
        _, dr, dt, _, *dargs = tangents
        first, _ = flow.ends(shape_of(t)[0])
        at_start, at_arrival = _slopes(flow, w, restarts, t, args)
        moved = (1 - first) * dt[:, None] * at_arrival  # where z goes as the clock is set forward
        jumps = moved + dr - dt[:, None] * at_start
        pair = flow.derived([_paired(flow, k) for k in range(len(flow.levels))])
        both = flow.woven(restarts, jumps)
        varied = flow.unwoven(_Odeint.apply(pair, both, t, _nothing(t), *args, *dargs))[1]
        return first * dr + (1 - first) * varied + moved

    @staticmethod
    def backward(ctx: Context, *grads: Any) -> Any:
        (g,) = grads
        flow, w, restarts, t, _, *args = ctx.saved_tensors
        n, rows, signs = flow.size, shape_of(t)[0], flow.signs
        ends = np.cumsum([0, *[int(np.prod(shape_of(a))) for a in args]])
        last_first = range(len(flow.levels) - 1, -1, -1)
        adjoints = [_adjoint(flow, k, int(ends[-1])) for k in last_first]
        whole = flow.derived([*flow.levels, *adjoints])
        due = [(signs * g)[:, slice(*flow.columns[k])] for k in last_first]
        sides = np.concatenate([restarts, *due, np.zeros((rows, int(ends[-1])))], axis=1)
        found = _Odeint.apply(whole, sides, t, w, *args)
        arrived = [found[:, slice(*c)] for c in whole.columns[: len(flow.levels) - 1 : -1]]
        mu = np.concatenate(
            [m[:, : level.size] for m, level in zip(arrived, flow.levels, strict=True)], axis=1
        )
        first, last = flow.ends(rows)
        from_starts = (1 - last) * signs * mu  # nothing starts at the last time
        at_start, at_arrival = _slopes(flow, found[:, :n], restarts, t, args)
        arriving = (1 - first) * (g + from_starts)
        in_time = np.sum(arriving * at_arrival - from_starts * at_start, axis=1)
        in_args = [
            np.reshape(
                arrived[0][0, flow.levels[0].size + a : flow.levels[0].size + b], shape_of(x)
            )
            for a, b, x in zip(ends[:-1], ends[1:], args, strict=True)
        ]
        return None, from_starts + first * g, in_time, None, *in_args


def _nothing(t: Any) -> Any:
    return np.zeros((shape_of(t)[0], 0))


def _paired(flow: Flow, k: int) -> Level:
    """Level k with its variation beside it."""
    level, end = flow.levels[k], flow.columns[k][1]

    def slope(both: Any, time: Any, *args: Any) -> Any:
        x, dx = args[: len(args) // 2], args[len(args) // 2 :]
        z, v = flow.unwoven(both, end)
        return np.concatenate(jvp(lambda z, *x: level.slope(z, time, *x), (z, *x), (v, *dx)))

    return Level(slope, 2 * level.size, level.sign)


def _adjoint(flow: Flow, k: int, total: int) -> Level:
    """μ of level k, after those of all later ones; with that of level 0, what is due to the arguments."""
    level, (a, b), n = flow.levels[k], flow.columns[k], flow.size

    def slope(z: Any, time: Any, *args: Any) -> Any:
        def onwards(own: Any, *x: Any) -> Any:
            full = np.concatenate([z[:a], own, z[b:n]])
            return np.concatenate(
                [
                    later.slope(full[:end], time, *x)
                    for later, (_, end) in zip(flow.levels[k:], flow.columns[k:], strict=True)
                ]
            )

        mu: list[Any] = []
        rest = z[n:]
        for later in flow.levels[:k:-1]:
            mu.insert(0, rest[: later.size])
            rest = rest[later.size :]
        mu.insert(0, rest[: level.size])
        if k:
            return vjp(lambda own: onwards(own, *args), z[a:b])[1](-np.concatenate(mu))[0]
        pulled = vjp(onwards, z[a:b], *args)[1](-np.concatenate(mu))
        return np.concatenate([np.reshape(x, (-1,)) for x in pulled])

    return Level(slope, level.size + (0 if k else total), -level.sign)


def _slopes(flow: Flow, w: Any, restarts: Any, t: Any, args: Sequence[Any]) -> tuple[Any, Any]:
    """Those at which every level starts, and those at which it arrives."""
    before, after = flow.sides(w, restarts)
    slopes = vmap(lambda z, t: flow.slope(z, t, *args))
    on, back = flow.signs > 0, flow.signs < 0
    before, after = slopes(before, t), slopes(after, t)
    return on * after + back * before, on * before + back * after


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return getattr(_module("integrate"), name)


def __dir__() -> list[str]:
    return sorted(dir(_module("integrate")))
