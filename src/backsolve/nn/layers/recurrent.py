"""Recurrent networks: cells, and layers of them along a sequence.

Names, order and form of weights are PyTorch's: (gates · hidden, inputs), with gates i, f, g, o of an LSTM and
r, z, n of a GRU. What enters from outside is one product for all steps; the steps are a scan.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from ... import random
from ...control import scan
from ...errors import ShapeError
from ...numpy._register import array, ndim_of, shape_of
from ...primitive import P
from ..functional.activations import relu
from ..functional.dropout import dropout
from ..init import next_key, uniform
from ..module import Module

# ---- one step: from what enters (already multiplied), the state and what it sends to the next


def _rnn_step(nonlinearity: str) -> Callable[[Any, Any, Any], Any]:
    function: Any = np.tanh if nonlinearity == "tanh" else relu
    return lambda entering, sent, state: (function(entering + sent),)


def _lstm_step(entering: Any, sent: Any, state: Any) -> Any:
    i, f, g, o = _gates(entering + sent, 4)
    c = P.sigmoid(f) * state[1] + P.sigmoid(i) * np.tanh(g)
    return P.sigmoid(o) * np.tanh(c), c


def _gru_step(entering: Any, sent: Any, state: Any) -> Any:
    r, z, n = _gates(entering, 3)
    r_, z_, n_ = _gates(sent, 3)
    update = P.sigmoid(z + z_)
    new = np.tanh(n + P.sigmoid(r + r_) * n_)
    return (new + update * (state[0] - new),)


def _gates(a: Any, count: int) -> list[Any]:
    size = shape_of(a)[-1] // count
    return [a[..., k * size : (k + 1) * size] for k in range(count)]


# ---- cells


class _Cell(Module):
    gates: ClassVar[int]
    states: ClassVar[int] = 1

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        *,
        key: Any = None,
        dtype: Any = np.float32,
    ):
        self.hidden_size = hidden_size
        keys = random.split(next_key(key), 4)
        bound = 1 / math.sqrt(max(hidden_size, 1))
        rows = self.gates * hidden_size

        def draw(k: int, *shape: int) -> Any:
            return uniform(shape, -bound, bound, key=keys[k], dtype=dtype)

        self.weight_ih, self.weight_hh = draw(0, rows, input_size), draw(1, rows, hidden_size)
        self.bias_ih = draw(2, rows) if bias else None
        self.bias_hh = draw(3, rows) if bias else None

    def _step(self, entering: Any, sent: Any, state: Any) -> Any:
        raise NotImplementedError

    def __call__(self, input: Any, hx: Any = None) -> Any:
        x = array(input)
        _check_features(self, x, self.weight_ih)
        if hx is None:
            state: Any = (np.zeros((*shape_of(x)[:-1], self.hidden_size), x.dtype),) * self.states
        else:
            state = _given(self, hx, [(*shape_of(x)[:-1], self.hidden_size)] * self.states)
        entering = _affine(x, self.weight_ih, self.bias_ih)
        sent = _affine(state[0], self.weight_hh, self.bias_hh)
        new = self._step(entering, sent, state)
        return new if self.states > 1 else new[0]


class RNNCell(_Cell):
    """tanh (or relu) of W x + b + W′ h + b′."""

    gates = 1

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        *,
        key: Any = None,
        dtype: Any = np.float32,
    ):
        super().__init__(input_size, hidden_size, bias, key=key, dtype=dtype)
        self.nonlinearity = nonlinearity

    def _step(self, entering: Any, sent: Any, state: Any) -> Any:
        return _rnn_step(self.nonlinearity)(entering, sent, state)


class LSTMCell(_Cell):
    """(h, c) after one step."""

    gates, states = 4, 2

    def _step(self, entering: Any, sent: Any, state: Any) -> Any:
        return _lstm_step(entering, sent, state)


class GRUCell(_Cell):
    """h after one step."""

    gates = 3

    def _step(self, entering: Any, sent: Any, state: Any) -> Any:
        return _gru_step(entering, sent, state)


# ---- along sequences


class _Recurrent(Module):
    """Layers one above the other, in one or both directions; dropout between layers while training."""

    buffers: ClassVar[tuple[str, ...]] = ("key",)
    gates: ClassVar[int]
    states: ClassVar[int] = 1

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        *,
        key: Any = None,
        dtype: Any = np.float32,
    ):
        if proj_size and self.states == 1:
            raise ValueError(f"proj_size is for LSTM only, not for {type(self).__name__}")
        if not 0 <= proj_size < max(hidden_size, 1):
            raise ValueError(f"proj_size={proj_size} must be less than hidden_size={hidden_size}")
        self.hidden_size, self.num_layers, self.proj_size = hidden_size, num_layers, proj_size
        self.batch_first, self.dropout, self.bidirectional = batch_first, dropout, bidirectional
        key, self.key = random.split(next_key(key))
        bound = 1 / math.sqrt(max(hidden_size, 1))
        rows, sent = self.gates * hidden_size, proj_size or hidden_size
        for layer in range(num_layers):
            inputs = input_size if layer == 0 else sent * (1 + bidirectional)
            for end in ("", "_reverse")[: 1 + bidirectional]:
                shapes: dict[str, tuple[int, ...]] = {
                    "weight_ih": (rows, inputs),
                    "weight_hh": (rows, sent),
                }
                if bias:
                    shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)}
                if proj_size:
                    shapes["weight_hr"] = (proj_size, hidden_size)
                for name, shape in shapes.items():
                    key, own = random.split(key)
                    drawn = uniform(shape, -bound, bound, key=own, dtype=dtype)
                    self.__dict__[f"{name}_l{layer}{end}"] = drawn

    def _step(self, entering: Any, sent: Any, state: Any) -> Any:
        raise NotImplementedError

    def __call__(self, input: Any, hx: Any = None) -> Any:
        """(steps, batch, features), or batch first, or without batch ↦ all outputs, and the last state."""
        x = array(input)
        if ndim_of(x) not in (2, 3):
            raise ShapeError(
                f"{type(self).__name__} takes (steps, batch, features) or (steps, features), "
                f"got shape {shape_of(x)}"
            )
        _check_features(self, x, self.__dict__["weight_ih_l0"])
        alone = ndim_of(x) == 2
        if alone:
            x = x[:, None]
        elif self.batch_first:
            x = P.permute(x, axes=(1, 0, 2))
        directions = 1 + self.bidirectional
        chains = self.num_layers * directions
        batch = () if alone else (shape_of(x)[1],)
        sizes = (self.proj_size or self.hidden_size, self.hidden_size)[: self.states]
        shapes = [(chains, *batch, size) for size in sizes]
        if hx is None:
            given: Any = tuple(np.zeros(shape, x.dtype) for shape in shapes)
        else:
            given = _given(self, hx, shapes)
        given = tuple(s[:, None] if alone else s for s in given)
        states = [tuple(s[k] for s in given) for k in range(chains)]
        last = []
        for layer in range(self.num_layers):
            if layer and self.dropout and self.training:
                self.key, own = random.split(self.key)
                x = dropout(x, self.dropout, generator=own)
            outputs = []
            for way in range(directions):
                y, state = self._along(x, states[layer * directions + way], layer, way == 1)
                outputs.append(y)
                last.append(state)
            x = outputs[0] if directions == 1 else np.concatenate(outputs, axis=-1)
        ends = [np.stack([state[k] for state in last]) for k in range(self.states)]
        if alone:
            x, ends = x[:, 0], [e[:, 0] for e in ends]
        elif self.batch_first:
            x = P.permute(x, axes=(1, 0, 2))
        return x, (tuple(ends) if self.states > 1 else ends[0])

    def _along(self, x: Any, state: Any, layer: int, backwards: bool) -> tuple[Any, Any]:
        end = f"_l{layer}{'_reverse' if backwards else ''}"
        own = {
            n: getattr(self, n + end, None)
            for n in ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")
        }
        entering = _affine(x, own["weight_ih"], own["bias_ih"])

        def step(state: Any, row: Any) -> Any:
            sent = _affine(state[0], own["weight_hh"], own["bias_hh"])
            new = self._step(row, sent, state)
            if own["weight_hr"] is not None:
                new = (new[0] @ own["weight_hr"].T, *new[1:])
            return new, new[0]

        state, y = scan(step, state, entering, reverse=backwards)
        return y, state


class RNN(_Recurrent):
    """Elman's network, with tanh or relu."""

    gates = 1

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        *,
        key: Any = None,
        dtype: Any = np.float32,
    ):
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f'nonlinearity must be "tanh" or "relu", got {nonlinearity!r}')
        super().__init__(
            input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional,
            key=key, dtype=dtype,
        )  # fmt: skip
        self.nonlinearity = nonlinearity

    def _step(self, entering: Any, sent: Any, state: Any) -> Any:
        return _rnn_step(self.nonlinearity)(entering, sent, state)


class LSTM(_Recurrent):
    """Long short-term memory: outputs, (h, c). With `proj_size`, h is mapped to that many features.

    >>> import numpy as np
    >>> y, (h, c) = LSTM(3, 5)(np.zeros((7, 2, 3), np.float32))
    >>> y.shape, h.shape
    ((7, 2, 5), (1, 2, 5))
    """

    gates, states = 4, 2

    def _step(self, entering: Any, sent: Any, state: Any) -> Any:
        return _lstm_step(entering, sent, state)


class GRU(_Recurrent):
    """Gated recurrent units: outputs, h."""

    gates = 3

    def _step(self, entering: Any, sent: Any, state: Any) -> Any:
        return _gru_step(entering, sent, state)


def _check_features(layer: Module, x: Any, weight: Any) -> None:
    if shape_of(x)[-1:] != shape_of(weight)[1:]:
        raise ShapeError(
            f"{type(layer).__name__}: input must have {shape_of(weight)[1]} features along its last axis, "
            f"got shape {shape_of(x)}"
        )


def _given(layer: Any, hx: Any, shapes: list[Any]) -> tuple[Any, ...]:
    """The state as it was given, if it fits."""
    wanted = shapes[0] if layer.states == 1 else tuple(shapes)
    if layer.states > 1 and not (isinstance(hx, tuple | list) and len(hx) == layer.states):
        raise ShapeError(f"{type(layer).__name__}: hx must be a pair (h, c) of shapes {wanted}")
    state = tuple([array(s) for s in (hx if layer.states > 1 else (hx,))])
    if [shape_of(s) for s in state] != shapes:
        found = shape_of(state[0]) if layer.states == 1 else tuple([shape_of(s) for s in state])
        raise ShapeError(f"{type(layer).__name__}: hx must be of shape {wanted}, got {found}")
    return state


def _affine(x: Any, weight: Any, bias: Any) -> Any:
    y = x @ weight.T
    return y if bias is None else y + bias
