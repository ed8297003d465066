"""Philox 4×64 with ten rounds, exactly NumPy's stream, as a function of an explicit state."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import ShapeError

_U = np.uint64
_MASK, _HALF = _U(0xFFFFFFFF), _U(32)
_MULTIPLIERS = _U(0xD2E7470EE14C6C93), _U(0xCA5A826395121157)
_STEPS = 0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B
# Counters that drawing does not reach, for the keys of other streams.
_SPLIT, _FOLD = _U(1 << 63), _U(1 << 62)


@dataclass(frozen=True)
class State:
    """Where a stream stands: a key (two uint64) and a counter (four), or a stack of such."""

    key: Any
    counter: Any

    def __len__(self) -> int:
        return 1 if len(self.key.shape) == 1 else int(self.key.shape[0])

    def __iter__(self) -> Iterator[State]:
        """The states of a stack: `a, b = split(state)`."""
        return iter([self] if len(self.key.shape) == 1 else [self[k] for k in range(len(self))])

    def __getitem__(self, k: Any) -> State:
        return State(self.key[k], self.counter[k])


def key(seed: int) -> State:
    """The state in which `numpy.random.Philox(seed)` begins."""
    state = np.random.Philox(seed).state["state"]
    return State(np.array(state["key"]), np.array(state["counter"]))


def products(x: Any, y: Any) -> tuple[Any, Any]:
    """The upper and the lower 64 bits of x · y, by halves of 32."""
    x0, x1, y0, y1 = x & _MASK, x >> _HALF, y & _MASK, y >> _HALF
    mixed, other = x0 * y1, x1 * y0
    middle = (x0 * y0 >> _HALF) + (mixed & _MASK) + (other & _MASK)
    return x1 * y1 + (mixed >> _HALF) + (other >> _HALF) + (middle >> _HALF), x * y


def _blocks(key: Any, counter: list[Any]) -> list[Any]:
    """Four numbers for each counter, whose four words are arrays, as those of the key."""
    a, b, c, d = counter
    for k in range(10):
        k0, k1 = (key[j : j + 1] + _U(_STEPS[j] * k % 2**64) for j in (0, 1))
        high0, low0 = products(_MULTIPLIERS[0], a)
        high1, low1 = products(_MULTIPLIERS[1], c)
        a, b, c, d = high1 ^ b ^ k0, low1, high0 ^ d ^ k1, low0
    return [a, b, c, d]


def _words(state: State) -> list[Any]:
    if not isinstance(state, State):
        raise TypeError(f"expected a `state`, as bs.random.key(seed) gives it, got {state!r}")
    if state.key.shape != (2,):
        raise ShapeError(
            f"expected one `state`, got a stack of shape {state.key.shape[:-1]}; take one, state[k], or bs.vmap"
        )
    return [state.counter[k : k + 1] for k in range(4)]


def _shape(shape: Any) -> tuple[int, ...]:
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    if any(n < 0 for n in map(operator.index, shape)):
        raise ShapeError(f"`shape` must not be negative, got {shape}")
    return shape


def bits(state: State, shape: Any = ()) -> Any:
    """Random uint64s: those that NumPy's Philox with this key and counter gives."""
    shape = _shape(shape)
    size = math.prod(shape)
    a, b, c, d = _words(state)
    if type(state.key) is type(state.counter) is np.ndarray:  # known numbers: by NumPy's own loop
        numbers = np.random.Philox(counter=state.counter, key=state.key).random_raw(size)
        return np.reshape(numbers, shape)
    first = a + np.arange(1, -(-size // 4) + 1, dtype=_U)
    carried = [first, b, c, d]
    over = first < a
    for k in (1, 2, 3):
        carried[k] = carried[k] + over.astype(_U)
        over = over & (carried[k] == _U(0))
    numbers = np.stack(_blocks(state.key, carried), axis=-1)
    return np.reshape(np.reshape(numbers, (-1,))[:size], shape)


def halves(state: State, shape: Any = ()) -> Any:
    """Random uint32s, the lower half of each of the `bits` first: NumPy's `next_uint32`."""
    shape = _shape(shape)
    size = math.prod(shape)
    whole = bits(state, -(-size // 2))
    pairs = np.stack([whole & _MASK, whole >> _HALF], axis=-1)
    return np.reshape(np.reshape(pairs, (-1,))[:size], shape).astype(np.uint32)


def split(state: State, n: int = 2) -> State:
    """A stack of n states with streams of their own, apart from that of `state`."""
    a, b, c, d = _words(state)
    first = a + np.arange(n, dtype=_U)
    return _fresh(_blocks(state.key, [first, b + (first < a).astype(_U), c, d ^ _SPLIT]))


def fold_in(state: State, data: Any) -> State:
    """The state that belongs to `state` and a number, such as the index of a step."""
    a, b, c, d = _words(state)
    number = np.reshape(np.asarray(data).astype(_U) if isinstance(data, int) else data, (1,))
    return _fresh(_blocks(state.key, [a, b, c ^ number.astype(_U), d ^ _FOLD]))[0]


def _fresh(blocks: list[Any]) -> State:
    keys = np.stack(blocks[:2], axis=-1)
    return State(keys, np.zeros((keys.shape[0], 4), _U))
