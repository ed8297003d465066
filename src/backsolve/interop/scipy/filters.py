"""scipy.signal's recursive filters on Tensors: `bs.scipy.signal.lfilter` and its relatives.

With x, b and a as polynomials in a delay, a filter is  A y = B x + z,  z being what earlier samples left. B x
is a convolution; and as a matrix A is lower triangular with len(a) diagonals: y solves a banded system, in as
many operations as the recursion takes, with derivatives in the signal, the coefficients and the state.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...errors import ShapeError
from ...numpy._register import array, dtype_of, ndim_of, one_axis, shape_of
from ...primitive import P
from .plain import for_tensors

_PADS = {"odd", "even", "constant", None}


@for_tensors("signal")
def lfilter(b: Any, a: Any, x: Any, axis: int = -1, zi: Any = None) -> Any:
    """Σ a_k y[n − k] = Σ b_k x[n − k] along an axis; with `zi`, the state before, also that after."""
    b, a, x = _coefficients("b", b), _coefficients("a", a), _numbers(x)
    if not ndim_of(x):
        raise ShapeError("`lfilter` needs a signal of rank 1 or more, got a number")
    axis = one_axis(axis, ndim_of(x))
    lines = np.moveaxis(x, axis, 0)
    rest = shape_of(lines)[1:]
    order = max(shape_of(b)[0], shape_of(a)[0]) - 1
    before = None
    if zi is not None:
        before = np.moveaxis(_numbers(zi), axis, 0) if ndim_of(zi) else array(zi)
        if shape_of(before) != (order, *rest):
            raise ShapeError(
                f"`lfilter` needs zi with {order} entries along axis {axis} for a signal of shape "
                f"{shape_of(x)}, got shape {shape_of(zi)}"
            )
        before = np.reshape(before, (order, -1))
    y, after = _filtered(b / a[0], a / a[0], np.reshape(lines, (shape_of(lines)[0], -1)), before)
    y = np.moveaxis(np.reshape(y, (-1, *rest)), 0, axis)
    if zi is None:
        return y
    return y, np.moveaxis(np.reshape(after, (order, *rest)), 0, axis)


def _filtered(b: Any, a: Any, x: Any, before: Any) -> tuple[Any, Any]:
    """For every column of x, with a[0] = 1; the state after is None if there is none before."""
    n, order = shape_of(x)[0], max(shape_of(b)[0], shape_of(a)[0]) - 1
    v = _times(b, x, n + order)
    if before is not None:
        v = v + np.pad(before, ((0, n), (0, 0)))
    y = v[:n] if shape_of(a)[0] == 1 or not n else _divided(a, v[:n])
    return y, None if before is None else v[n:] - _times(a, y, n + order)[n:]


def _times(b: Any, x: Any, length: int) -> Any:
    """Σ_k b_k x[n − k] for as many n."""
    n = shape_of(x)[0]
    return sum(
        b[k] * np.pad(x, ((k, length - n - k), (0, 0))) for k in range(1, shape_of(b)[0])
    ) + b[0] * np.pad(x, ((0, length - n), (0, 0)))


def _divided(a: Any, v: Any) -> Any:
    """y with Σ_k a_k y[n − k] = v[n]."""
    count, n = shape_of(a)[0], shape_of(v)[0]
    bands = np.broadcast_to(a[:, None], (count, n))
    return P.banded_solve(bands, v, lower=count - 1, upper=0)


def _numbers(x: Any) -> Any:
    x = array(x)
    return x if dtype_of(x).kind in "fc" else x.astype(float)


def _coefficients(name: str, x: Any) -> Any:
    x = _numbers(np.atleast_1d(x))
    if ndim_of(x) != 1 or not shape_of(x)[0]:
        raise ShapeError(f"a filter needs a vector of coefficients {name}, got shape {shape_of(x)}")
    return x


@for_tensors("signal")
def lfilter_zi(b: Any, a: Any) -> Any:
    """The state of a filter that has long been given ones."""
    b, a = _coefficients("b", b), _coefficients("a", a)
    b, a = b / a[0], a / a[0]
    order = max(shape_of(b)[0], shape_of(a)[0])
    b, a = np.pad(b, (0, order - shape_of(b)[0])), np.pad(a, (0, order - shape_of(a)[0]))
    # z_k = z_{k+1} + b_{k+1} − a_{k+1} y with y = z_0 + b_0
    moved = np.eye(order - 1) - np.eye(order - 1, k=1)
    system = moved + a[1:, None] * np.eye(1, order - 1)
    return np.linalg.solve(system, b[1:] - a[1:] * b[0])


@for_tensors("signal")
def sosfilt(sos: Any, x: Any, axis: int = -1, zi: Any = None) -> Any:
    """Sections of second order, one after the other."""
    sos, x = _sections(sos), _numbers(x)
    axis = one_axis(axis, ndim_of(x))
    states = []
    for k in range(shape_of(sos)[0]):
        b, a = sos[k, :3], sos[k, 3:]
        if zi is None:
            x = lfilter(b, a, x, axis)
        else:
            x, after = lfilter(b, a, x, axis, zi[k])
            states.append(after)
    return x if zi is None else (x, np.stack(states))


@for_tensors("signal")
def sosfilt_zi(sos: Any) -> Any:
    """The states of sections of which the first has long been given ones."""
    sos = _sections(sos)
    states, scale = [], 1.0
    for k in range(shape_of(sos)[0]):
        b, a = sos[k, :3], sos[k, 3:]
        states.append(scale * lfilter_zi(b, a))
        scale = scale * np.sum(b) / np.sum(a)
    return np.stack(states)


def _sections(sos: Any) -> Any:
    sos = _numbers(sos)
    if ndim_of(sos) != 2 or shape_of(sos)[1] != 6:
        raise ShapeError(f"`sos` needs rows of 6 coefficients, got shape {shape_of(sos)}")
    return sos


# ---- there and back: no shift in time


@for_tensors("signal")
def filtfilt(
    b: Any,
    a: Any,
    x: Any,
    axis: int = -1,
    padtype: str | None = "odd",
    padlen: int | None = None,
    method: str = "pad",
    irlen: int | None = None,
) -> Any:
    """`lfilter` forward and then backward, the signal continued at its ends."""
    if method != "pad":
        raise ValueError(f"`filtfilt` on a tensor knows the method 'pad', got {method!r}")
    b, a, x = _coefficients("b", b), _coefficients("a", a), _numbers(x)
    length = 3 * max(shape_of(b)[0], shape_of(a)[0]) if padlen is None else padlen
    zi = lfilter_zi(b, a)

    def once(x: Any) -> Any:
        return lfilter(b, a, x, 0, zi[(slice(None), *[None] * (ndim_of(x) - 1))] * x[:1])[0]

    return _there_and_back(once, x, axis, padtype, length)


@for_tensors("signal")
def sosfiltfilt(
    sos: Any, x: Any, axis: int = -1, padtype: str | None = "odd", padlen: int | None = None
) -> Any:
    """`sosfilt` forward and then backward, the signal continued at its ends."""
    sos, x = _sections(sos), _numbers(x)
    taps = 2 * shape_of(sos)[0] + 1
    if padlen is None:
        spare = [int(np.sum(_known(sos)[:, k] == 0)) for k in (2, 5)]
        padlen = 3 * (taps - min(spare))
    zi = sosfilt_zi(sos)

    def once(x: Any) -> Any:
        return sosfilt(sos, x, 0, zi[(Ellipsis, *[None] * (ndim_of(x) - 1))] * x[:1])[0]

    return _there_and_back(once, x, axis, padtype, padlen)


def _known(x: Any) -> Any:
    return x._known("how far to continue the signal (padlen=)") if hasattr(x, "_known") else x


def _there_and_back(once: Any, x: Any, axis: int, padtype: str | None, length: int) -> Any:
    if padtype not in _PADS:
        raise ValueError(f"padtype is 'odd', 'even', 'constant' or None, got {padtype!r}")
    axis = one_axis(axis, ndim_of(x))
    x = np.moveaxis(x, axis, 0)
    n, length = shape_of(x)[0], 0 if padtype is None else length
    if n <= length:
        raise ValueError(f"the signal must have more than padlen = {length} entries, got {n}")
    y = once(_continued(x, length, padtype))
    y = once(y[::-1])[::-1]
    return np.moveaxis(y[length : length + n], 0, axis)


def _continued(x: Any, length: int, how: str | None) -> Any:
    if not length:
        return x
    if how == "constant":
        ends = [np.broadcast_to(e, (length, *shape_of(x)[1:])) for e in (x[:1], x[-1:])]
    else:
        ends = [x[length:0:-1], x[-2 : -length - 2 : -1]]
        if how == "odd":
            ends = [2 * x[:1] - ends[0], 2 * x[-1:] - ends[1]]
    return np.concatenate([ends[0], x, ends[1]])
