"""What a row does to a gradient that flows back through it, in the words of circuits."""

from __future__ import annotations

from ..row import Row

# Grover's slides: an add gate distributes the gradient, a multiply gate swaps (it sends each input the gradient
# times the other), a max gate routes it to the winner, and a value that is read twice adds what comes back.
_ADD = {"add", "subtract", "negative", "sum", "cumsum"}
_MULTIPLY = {"multiply", "divide", "contract", "convolve", "power", "square", "prod"}
_MAX = {
    "maximum",
    "minimum",
    "max",
    "min",
    "where",
    "clip",
    "fmax",
    "fmin",
    "absolute",
    "first_max",
}
_MOVE = {"slice", "unslice", "gather", "reshape", "permute", "broadcast_to", "concatenate", "scatter_add",
         "slice_update", "scatter_set", "windows", "fold", "cast", "alias", "ranked"}  # fmt: skip

SAYS = {
    "add": "add distributes: the gradient goes to every input as it is",
    "multiply": "multiply swaps: each input gets the gradient times the other",
    "max": "max routes: the gradient goes to the input that won",
    "move": "a rearrangement: the gradient goes back to where the entries came from",
    "function": "a function: the gradient times the slope",
    "other": "a call with a derivative of its own",
}


def gate_of(row: Row) -> str:
    name = row.primitive.name
    for gate, names in (("add", _ADD), ("multiply", _MULTIPLY), ("max", _MAX), ("move", _MOVE)):
        if name in names:
            return gate
    return "function" if row.primitive.elementwise else "other"
