"""scipy.integrate.odeint on Tensors: `bs.scipy.integrate.odeint`. The rest is SciPy's own, for plain arrays.

All derivatives are solutions of one kind of problem, *flows with restarts*. Given times t₀ … t_N and rows
r₀ … r_N, y starts as r₀; w_k is y when it arrives at t_k by y' = f(y, t), and there y starts again as
m w_k + r_k, m being 1 or 0 for every component. An initial value problem has m = 1 and r = (y₀, 0, 0 …).

With a variation v of y, v' = (∂f/∂y) v + (∂f/∂args) dargs, the pair (y, v) is such a problem: forward mode. So
is (y, λ, ā) from t_N back to t₀: λ' = −(∂f/∂y)ᵀ λ starts again as m λ + w̄_k, ā' = −(∂f/∂args)ᵀ λ adds up what
is due to the arguments, and y starts again as the known w_k, lest it drift further than between two times.
Both are written with `odeint` itself, so derivatives of derivatives need nothing more.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import tree
from ...api import jvp, vjp, vmap
from ...errors import (
    BacksolveError,
    DroppedDerivativeError,
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
from ..flat import compiled
from .plain import has_tensor as _has_tensor
from .plain import module as _module

_numbers = itertools.count(1)
_UNTIL_COMPILED_HELD = 20  # of a Program, which is not
_UNTIL_COMPILED = 1000  # evaluations of the user's function, which is fast enough in Python
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
    elif shape_of(times)[0]:  # derivatives are of what it is now
        try:
            held_slope, _ = _lifted(slope_by(hooks.rewritten(func)), (start, times[0], *given))
        except (BacksolveError, TypeError, ValueError) as error:
            held_slope = error
    else:
        held_slope = slope
    flow = Flow(slope, (True,) * shape_of(start)[0], dict(options), _UNTIL_COMPILED, held_slope)
    restarts = np.concatenate(
        [start[None], np.zeros((max(shape_of(times)[0] - 1, 0), *start.shape))]
    )
    return _Odeint.apply(flow, restarts, times, *given, *free)


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


class Flow:
    """y' = slope(y, t, *args), which components go on at a restart, and how exactly SciPy shall solve it."""

    def __init__(
        self,
        slope: Callable[..., Any],
        goes_on: tuple[bool, ...],
        options: dict[str, Any],
        until_compiled: int = _UNTIL_COMPILED_HELD,
        held_slope: Callable[..., Any] | Exception | None = None,
    ):
        # Of derivatives: a Program, for what it closes over may be another then; or why there is none.
        self._held = slope if held_slope is None else held_slope
        self.goes_on = goes_on
        self.options = options
        self._fast = slope
        self._left = until_compiled
        self._is_compiled = False
        self._number = next(_numbers)  # no two are one, in a Program's text either

    def __call__(self, y: Any, t: float, *args: Any) -> Any:
        """The slope at plain numbers, compiled as soon as that pays."""
        self._left -= 1
        if self._left == 0:
            self._fast, self._is_compiled = compiled(self._fast), True
        found = self._fast(y, t, *args)
        if isinstance(found, Tensor):
            raise DroppedDerivativeError(
                "`odeint`: the slope depends on a tensor that is not among its arguments; pass it by args=(…)"
            )
        return found

    def hold(self) -> None:
        """From here on by the slope as it was when the flow began."""
        if not self._is_compiled and callable(self._held) and self._fast is not self._held:
            self._fast, self._left = self._held, _UNTIL_COMPILED_HELD

    @property
    def slope(self) -> Callable[..., Any]:
        if isinstance(self._held, Exception):
            raise self._held
        return self._held

    def __repr__(self) -> str:
        return f"Flow({self._number})"

    @property
    def coarse(self) -> dict[str, Any]:
        """The options for a larger system, of which nothing is known component by component."""
        smallest = {k: float(np.min(v)) for k, v in self.options.items() if k in ("rtol", "atol")}
        return {**self.options, **smallest}


def _run(restarts: Any, t: Any, *args: Any, flow: Flow) -> Any:
    """The rows w, by one call of SciPy's if nothing restarts, else by one between any two times."""

    def slope(y: Any, time: float) -> Any:
        return flow(y, time, *args)

    goes_on = np.array(flow.goes_on)
    if not len(t):
        return np.zeros(restarts.shape)
    if goes_on.all() and not restarts[1:].any():
        return _solved(slope, restarts[0], t, flow.options)
    w = np.empty(restarts.shape)
    w[0] = y = restarts[0]
    for k in range(1, len(t)):
        w[k] = _solved(slope, y, t[k - 1 : k + 1], flow.options)[1]
        y = np.where(goes_on, w[k], 0) + restarts[k]
    return w


def _solved(slope: Any, y: Any, t: Any, options: dict[str, Any]) -> Any:
    if np.all(t == t[0]):
        return np.repeat(y[None], len(t), 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", _module("integrate").ODEintWarning)
        found, report = _module("integrate").odeint(slope, y, t, full_output=True, **options)
    if report["message"] != "Integration successful.":
        raise ArithmeticError(f"`odeint` did not arrive: {report['message']}")
    return found


def _one_by_one(prim: Primitive, size: int, args: Any, batched: Any, params: Any) -> Any:
    parts = [
        prim(*[a[k] if b else a for a, b in zip(args, batched, strict=True)], **params)
        for k in range(size)
    ]
    return np.stack(parts)


# Not in the table: `_Odeint` has the derivatives.
_flow = Primitive(
    "odeint", _run, type=lambda r, t, *args, flow: Type(r.shape, r.dtype), batch=_one_by_one
)


class _Odeint(Function):
    """(flow, restarts, t, *args) ↦ w."""

    @staticmethod
    def forward(ctx: Context, flow: Flow, restarts: Any, t: Any, *args: Any) -> Any:
        w = _flow(restarts, t, *args, flow=flow)
        flow.hold()
        ctx.save_for_backward(flow, w, restarts, t, *args)
        return w

    @staticmethod
    def _arrivals(ctx: Context) -> tuple[Any, ...]:
        """What was given, with w as a function of it where that is differentiated again."""
        flow, w, *given = ctx.saved_tensors
        if is_for_later(*given) or any(row_of(x) is not None for x in given):
            w = _Odeint.apply(flow, *given)
        return flow, w, *given

    @staticmethod
    def jvp(ctx: Context, *tangents: Any) -> Any:
        flow, w, restarts, t, *args = _Odeint._arrivals(ctx)
        _, dr, dt, *dargs = tangents
        n, goes_on = len(flow.goes_on), np.array(flow.goes_on)
        starts = _starts(goes_on, w, restarts)
        at_start, at_arrival = _slopes(flow, starts, t, args), _slopes(flow, w, t, args)
        moved = dt[:, None] * at_arrival  # where y goes as the clock is set forward
        moved = np.concatenate([np.zeros((1, n)), moved[1:]])
        jumps = goes_on * moved + dr - dt[:, None] * at_start

        def slope(z: Any, time: Any, *both: Any) -> Any:
            x, dx = both[: len(args)], both[len(args) :]
            y, v = z[:n], z[n:]
            return np.concatenate(jvp(lambda y, *x: flow.slope(y, time, *x), (y, *x), (v, *dx)))

        twice = Flow(slope, flow.goes_on * 2, flow.coarse)
        pair = np.concatenate([restarts, jumps], axis=1)
        varied = _Odeint.apply(twice, pair, t, *args, *dargs)[:, n:]
        return np.concatenate([dr[:1], varied[1:] + moved[1:]])

    @staticmethod
    def backward(ctx: Context, *grads: Any) -> Any:
        (g,) = grads
        flow, w, restarts, t, *args = _Odeint._arrivals(ctx)
        n, goes_on = len(flow.goes_on), np.array(flow.goes_on)
        ends = np.cumsum([0, *[int(np.prod(shape_of(a))) for a in args]])

        def slope(z: Any, time: Any, *x: Any) -> Any:
            y, adjoint = z[:n], z[n : 2 * n]
            value, pull = vjp(lambda y, *x: flow.slope(y, time, *x), y, *x)
            along, *by = pull(-adjoint)
            return np.concatenate([value, along, *[np.reshape(b, (-1,)) for b in by]])

        rows = shape_of(t)[0]
        total = int(ends[-1])
        back = Flow(slope, (False,) * n + flow.goes_on + (True,) * total, flow.coarse)
        sides = np.concatenate([w, g, np.zeros((rows, total))], axis=1)
        found = _Odeint.apply(back, sides[::-1], t[::-1], *args)[::-1]
        # λ as it arrives at t_k belongs to the start there; nothing starts at the last time.
        from_starts = np.concatenate([found[:-1, n : 2 * n], np.zeros((1, n))])
        starts = _starts(goes_on, w, restarts)
        at_start, at_arrival = _slopes(flow, starts, t, args), _slopes(flow, w, t, args)
        arriving = np.concatenate([np.zeros((1, n)), (g + goes_on * from_starts)[1:]])
        in_time = np.sum(arriving * at_arrival - from_starts * at_start, axis=1)
        in_starts = from_starts + np.concatenate([g[:1], np.zeros((rows - 1, n))])
        in_args = [
            np.reshape(found[0, 2 * n + a : 2 * n + b], shape_of(x))
            for a, b, x in zip(ends[:-1], ends[1:], args, strict=True)
        ]
        return None, in_starts, in_time, *in_args


def _starts(goes_on: Any, w: Any, restarts: Any) -> Any:
    """What y starts from at every time."""
    return np.concatenate([restarts[:1], goes_on * w[1:] + restarts[1:]])


def _slopes(flow: Flow, y: Any, t: Any, args: Sequence[Any]) -> Any:
    return vmap(lambda y, t: flow.slope(y, t, *args))(y, t)


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return getattr(_module("integrate"), name)


def __dir__() -> list[str]:
    return sorted(dir(_module("integrate")))
