"""lstm: the gradient of a character model's loss, through a recurrent network with diagonal weights.

The parameters of a layer are two rows, weights and biases, each of four gates; its state is two rows too,
hidden and cell. `extra` scales what goes in and what comes out.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import backsolve as bs

from .base import Function


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def step(weight: Any, bias: Any, hidden: Any, cell: Any, signal: Any) -> Any:
    """The hidden and the cell state of a layer after `signal` came in."""
    forget = sigmoid(signal * weight[0] + bias[0])
    ingate = sigmoid(hidden * weight[1] + bias[1])
    outgate = sigmoid(signal * weight[2] + bias[2])
    change = np.tanh(hidden * weight[3] + bias[3])
    cell = cell * forget + ingate * change
    return outgate * np.tanh(cell), cell


def objective(parameters: Any, state: Any, sequence: Any) -> Any:
    main, extra = parameters
    layers, bits = len(main) // 2, sequence.shape[1]
    gates = main.reshape(layers, 2, 4, bits)
    state = bs.tensor(state)  # a copy to write into
    total = 0.0
    for t in range(len(sequence) - 1):
        signal = sequence[t] * extra[0]
        for i in range(layers):
            hidden, cell = step(gates[i, 0], gates[i, 1], state[2 * i], state[2 * i + 1], signal)
            state[2 * i] = hidden
            state[2 * i + 1] = cell
            signal = hidden
        predicted = signal * extra[1] + extra[2]
        normalised = predicted - np.log(2 + np.sum(np.exp(predicted)))
        total = total + np.sum(sequence[t + 1] * normalised)
    return -total / ((len(sequence) - 1) * bits)


def prepare(message: dict[str, Any]) -> tuple[Any, ...]:
    names = ("main_params", "extra_params", "state", "sequence")
    main, extra, state, sequence = (np.array(message[name], dtype=float) for name in names)
    return (main, extra), state, sequence


functions = {
    "objective": Function(bs.jit(objective), float),
    "jacobian": Function(
        bs.jit(bs.grad(objective)), lambda g: np.concatenate([part.ravel() for part in g]).tolist()
    ),
}
derivative = ("jacobian",)
sizes = {"small": {"l": 2, "c": 64}, "middle": {"l": 4, "c": 1024}, "large": {"l": 6, "c": 8192}}


def generate(rng: Any, l: int, c: int, bits: int = 14) -> dict[str, Any]:
    return {
        "main_params": rng.random((2 * l, 4 * bits)).tolist(),
        "extra_params": rng.random((3, bits)).tolist(),
        "state": rng.random((2 * l, bits)).tolist(),
        "sequence": rng.integers(0, 2, (c, bits)).astype(float).tolist(),
    }
