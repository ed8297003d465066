"""RNN, GRU and LSTM along a sequence.

What enters from outside is one product for all steps; the steps are a scan.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy import special

from ....control import scan
from ....errors import UnsupportedError
from ....numpy._register import dtype_of, shape_of
from . import elementwise
from .table import operator

Function = Callable[[Any], Any]

# name: function, and the keywords that it takes from activation_alpha and activation_beta, with defaults
_ACTIVATIONS: dict[str, tuple[Callable[..., Any], dict[str, float]]] = {
    "relu": (elementwise.relu, {}),
    "tanh": (np.tanh, {}),
    "sigmoid": (special.expit, {}),
    "softsign": (elementwise.softsign, {}),
    "softplus": (elementwise.softplus, {}),
    "leakyrelu": (elementwise.leaky_relu, {"alpha": 0.01}),
    "thresholdedrelu": (elementwise.thresholded_relu, {"alpha": 1.0}),
    "elu": (elementwise.elu, {"alpha": 1.0}),
    "hardsigmoid": (elementwise.hard_sigmoid, {"alpha": 0.2, "beta": 0.5}),
    "scaledtanh": (elementwise.scaled_tanh, {"alpha": 1.0, "beta": 1.0}),
    "affine": (lambda x, alpha, beta: alpha * x + beta, {"alpha": 1.0, "beta": 0.0}),
}


def _functions(names: Any, alphas: Any, betas: Any) -> list[Function]:
    left = {"alpha": list(alphas or ()), "beta": list(betas or ())}
    found: list[Function] = []
    for name in names:
        if name.lower() not in _ACTIVATIONS:
            raise UnsupportedError(f"activation {name!r}; known: {', '.join(sorted(_ACTIVATIONS))}")
        f, defaults = _ACTIVATIONS[name.lower()]
        taken = {k: left[k].pop(0) if left[k] else default for k, default in defaults.items()}
        found.append(partial(f, **taken) if taken else f)
    return found


class _Layer:
    """The attributes that the three share, and the walk along the sequence in each direction."""

    def __init__(
        self, step: Callable[..., Any], gates: int, states: int, default: tuple[str, ...],
        activations: Any, activation_alpha: Any, activation_beta: Any, clip: float | None,
        direction: str, layout: int,
    ):  # fmt: skip
        self.step, self.gates, self.states, self.bound = step, gates, states, clip
        self.directions = 2 if direction == "bidirectional" else 1
        self.is_reverse = [direction == "reverse", True][: self.directions]
        names = activations or default * self.directions
        functions = _functions(names, activation_alpha, activation_beta)
        n = len(default)
        self.functions = [functions[k * n : (k + 1) * n] for k in range(self.directions)]
        self.layout = layout

    def clipped(self, a: Any) -> Any:
        return a if self.bound is None else np.clip(a, -self.bound, self.bound)

    def run(
        self, x: Any, w: Any, r: Any, b: Any, lengths: Any, initial: list[Any], *more: Any
    ) -> Any:
        """Y, and the last states."""
        if self.layout:
            x = np.swapaxes(x, 0, 1)
            initial = [s if s is None else np.swapaxes(s, 0, 1) for s in initial]
        steps, batch, _ = shape_of(x)
        hidden = shape_of(r)[-1]
        mask = None
        if lengths is not None:
            mask = np.less(np.arange(steps)[:, None, None], np.reshape(lengths, (1, -1, 1)))
        results = []
        for k in range(self.directions):
            bias = None if b is None else (b[k, : self.gates * hidden], b[k, self.gates * hidden :])
            start = tuple(
                np.zeros((batch, hidden), dtype_of(x)) if s is None else s[k] for s in initial
            )
            extra = [None if m is None else m[k] for m in more]
            results.append(self._walk(k, x @ w[k].T, r[k], bias, mask, start, extra))
        y = np.stack([ys for _, ys in results], 1)
        last = [np.stack([state[s] for state, _ in results]) for s in range(self.states)]
        if self.layout:
            y, last = np.transpose(y, (2, 0, 1, 3)), [np.swapaxes(s, 0, 1) for s in last]
        return (y, *last)

    def _walk(
        self, k: int, entering: Any, r: Any, bias: Any, mask: Any, start: Any, extra: Any
    ) -> Any:
        step = partial(self.step, self, self.functions[k], r, bias, extra)
        if mask is None:
            return scan(
                lambda state, e: ((new := step(e, state)), new[0]), start, entering,
                reverse=self.is_reverse[k],
            )  # fmt: skip

        def masked(state: Any, given: Any) -> Any:
            e, is_inside = given
            new = step(e, state)
            kept = tuple(np.where(is_inside, n, s) for n, s in zip(new, state, strict=True))
            return kept, np.where(is_inside, new[0], 0)

        return scan(masked, start, (entering, mask), reverse=self.is_reverse[k])


def _parts(a: Any, count: int) -> list[Any]:
    size = shape_of(a)[-1] // count
    return [a[..., k * size : (k + 1) * size] for k in range(count)]


def _rnn_step(
    layer: _Layer, fs: list[Function], r: Any, bias: Any, extra: Any, entering: Any, state: Any
) -> Any:
    total = entering + state[0] @ r.T
    return (fs[0](layer.clipped(total if bias is None else total + bias[0] + bias[1])),)


def _gru_step(
    layer: _Layer, fs: list[Function], r: Any, bias: Any, extra: Any, entering: Any, state: Any
) -> Any:
    (h,), (is_linear_first,) = state, extra
    if bias is not None:
        entering = entering + bias[0]
    size = shape_of(h)[-1]
    own = bias[1] if bias is not None else np.zeros(3 * size, dtype_of(h))
    z, s, n = _parts(entering, 3)
    both = h @ r[: 2 * size].T + own[: 2 * size]
    update = fs[0](layer.clipped(z + both[..., :size]))
    reset = fs[0](layer.clipped(s + both[..., size:]))
    if is_linear_first:
        sent = reset * (h @ r[2 * size :].T + own[2 * size :])
    else:
        sent = (reset * h) @ r[2 * size :].T + own[2 * size :]
    new = fs[1](layer.clipped(n + sent))
    return (new + update * (h - new),)


def _lstm_step(
    layer: _Layer, fs: list[Function], r: Any, bias: Any, extra: Any, entering: Any, state: Any
) -> Any:
    (h, c), (peepholes, is_coupled) = state, extra
    total = entering + h @ r.T
    i, o, f, g = _parts(total if bias is None else total + bias[0] + bias[1], 4)
    if peepholes is not None:
        to_i, to_o, to_f = _parts(peepholes, 3)
        i, f = i + to_i * c, f + to_f * c
    i = fs[0](layer.clipped(i))
    f = 1 - i if is_coupled else fs[0](layer.clipped(f))
    new = f * c + i * fs[1](layer.clipped(g))
    if peepholes is not None:
        o = o + to_o * new
    return fs[0](layer.clipped(o)) * fs[2](new), new


@operator("RNN")
def rnn(
    x: Any, w: Any, r: Any, b: Any = None, lengths: Any = None, h: Any = None, *, activations: Any = None,
    activation_alpha: Any = None, activation_beta: Any = None, clip: float | None = None,
    direction: str = "forward", hidden_size: int | None = None, layout: int = 0, output_sequence: int = 0,
) -> Any:  # fmt: skip
    layer = _Layer(
        _rnn_step, 1, 1, ("Tanh",), activations, activation_alpha, activation_beta, clip, direction, layout
    )  # fmt: skip
    return layer.run(x, w, r, b, lengths, [h])


@operator("GRU")
def gru(
    x: Any, w: Any, r: Any, b: Any = None, lengths: Any = None, h: Any = None, *, activations: Any = None,
    activation_alpha: Any = None, activation_beta: Any = None, clip: float | None = None,
    direction: str = "forward", hidden_size: int | None = None, layout: int = 0,
    linear_before_reset: int = 0, output_sequence: int = 0,
) -> Any:  # fmt: skip
    layer = _Layer(
        _gru_step, 3, 1, ("Sigmoid", "Tanh"), activations, activation_alpha, activation_beta, clip,
        direction, layout,
    )  # fmt: skip
    return layer.run(x, w, r, b, lengths, [h], [linear_before_reset] * 2)


@operator("LSTM")
def lstm(
    x: Any, w: Any, r: Any, b: Any = None, lengths: Any = None, h: Any = None, c: Any = None,
    peepholes: Any = None, *, activations: Any = None, activation_alpha: Any = None,
    activation_beta: Any = None, clip: float | None = None, direction: str = "forward",
    hidden_size: int | None = None, input_forget: int = 0, layout: int = 0, output_sequence: int = 0,
) -> Any:  # fmt: skip
    layer = _Layer(
        _lstm_step, 4, 2, ("Sigmoid", "Tanh", "Tanh"), activations, activation_alpha, activation_beta, clip,
        direction, layout,
    )  # fmt: skip
    return layer.run(x, w, r, b, lengths, [h, c], peepholes, [input_forget] * 2)
