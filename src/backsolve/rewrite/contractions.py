"""Rules for products: what can be said by other labels needs no equation of its own."""

from __future__ import annotations

from math import prod
from typing import Any

from ..ir import Equation, Var, type_of
from ..operators.nests import split_subscripts
from ..primitive import P
from .engine import Rule, Walk, instead, is_real

# What may be summed before it is multiplied: of float16 a sum of some dozens overflows already.
SUMMED = "fdFD"


def _again(e: Equation, inputs: Any, labels: Any, output: str, sizes: Any = None) -> Any:
    params = {
        "subscripts": f"{','.join(labels)}->{output}",
        "sizes": e.params["sizes"] if sizes is None else sizes,
    }
    return instead(e, P.contract, *inputs, **params)


def _of_permuted(w: Walk, e: Equation) -> Any:
    """A transposed operand is the operand with its labels reordered."""
    labels, output = split_subscripts(e.params["subscripts"])
    inputs = list(e.inputs)
    for k, a in enumerate(inputs):
        inner = w.producer(a, "permute")
        if inner is not None:
            axes = inner.params["axes"]
            order = [""] * len(axes)
            for place, axis in enumerate(axes):
                order[axis] = labels[k][place]
            labels[k] = "".join(order)
            inputs[k] = inner.inputs[0]
    return None if inputs == list(e.inputs) else _again(e, inputs, labels, output)


def _permuted(w: Walk, e: Equation) -> Any:
    """A transposed product is the product with its output's labels reordered."""
    inner = w.sole(e.inputs[0], "contract")
    if inner is None:
        return None
    labels, output = split_subscripts(inner.params["subscripts"])
    turned = "".join(output[k] for k in e.params["axes"])
    params = {**inner.params, "subscripts": f"{','.join(labels)}->{turned}"}
    return instead(e, P.contract, *inner.inputs, **params)


def _of_broadcast(w: Walk, e: Equation) -> Any:
    """An axis that a broadcast made needs no label if another operand gives its length; one that
    nobody else has is made after the product, not before."""
    labels, output = split_subscripts(e.params["subscripts"])
    for k, a in enumerate(e.inputs):
        inner = w.producer(a, "broadcast_to")
        if (
            inner is None
            or type(inner.inputs[0]) is not Var
            or len(set(labels[k])) < len(labels[k])
        ):
            continue
        source, mine = inner.inputs[0], labels[k]
        shape = (*(1,) * (len(mine) - len(source.shape)), *source.shape)
        others = "".join(x for n, x in enumerate(labels) if n != k)
        made = [c for c, n, m in zip(mine, shape, type_of(a).shape, strict=True) if n != m]
        alone = [c for c in made if c not in others]
        if not made or any(output.count(c) != 1 for c in alone):
            continue
        kept = tuple(n for c, n in zip(mine, shape, strict=True) if c not in made)
        inputs = list(e.inputs)
        inputs[k] = source if source.shape == kept else w.emit(e, P.reshape, source, shape=kept)
        labels[k] = "".join(c for c in mine if c not in made)
        if not alone:
            return _again(e, inputs, labels, output)
        rest = "".join(c for c in output if c not in alone)
        params = {"subscripts": f"{','.join(labels)}->{rest}", "sizes": e.params["sizes"]}
        y = w.emit(e, P.contract, *inputs, **params)
        full = e.outputs[0].shape
        spaced = tuple(1 if c in alone else n for c, n in zip(output, full, strict=True))
        return instead(e, P.broadcast_to, w.emit(e, P.reshape, y, shape=spaced), shape=full)
    return None


def _of_ones(w: Walk, e: Equation) -> Any:
    """A factor of 1 goes; a label that it alone has counts, or repeats what the others give."""
    labels, output = split_subscripts(e.params["subscripts"])
    for k, a in enumerate(e.inputs):
        if len(e.inputs) < 2 or not w.is_number(a, 1):
            continue
        rest = [x for n, x in enumerate(e.inputs) if n != k]
        left = [x for n, x in enumerate(labels) if n != k]
        sizes = dict(zip(labels[k], type_of(a).shape, strict=True))
        alone = [c for c in sizes if c not in "".join(left)]
        if not alone:
            return _again(e, rest, left, output)
        if len(set(output)) < len(output) or not is_real(e.outputs[0].type):
            continue
        params = {
            "subscripts": f"{','.join(left)}->{''.join(c for c in output if c not in alone)}",
            "sizes": e.params["sizes"],
        }
        y = w.emit(e, P.contract, *rest, **params)
        count = prod(sizes[c] for c in alone if c not in output)
        y = w.emit(e, P.multiply, y, float(count)) if count != 1 else y
        full = e.outputs[0].shape
        spaced = tuple(1 if c in alone else n for c, n in zip(output, full, strict=True))
        return instead(e, P.broadcast_to, w.emit(e, P.reshape, y, shape=spaced), shape=full)
    return None


def _of_lonely(w: Walk, e: Equation) -> Any:
    """A label that one operand alone has, and not the output: that operand is summed before."""
    labels, output = split_subscripts(e.params["subscripts"])
    if len(e.inputs) < 2:
        return None
    for k, a in enumerate(e.inputs):
        others = output + "".join(x for n, x in enumerate(labels) if n != k)
        axes = tuple(n for n, c in enumerate(labels[k]) if c not in others)
        if axes and len(set(labels[k])) == len(labels[k]) and type_of(a).dtype.char in SUMMED:
            inputs = list(e.inputs)
            inputs[k] = w.emit(e, P.sum, a, axis=axes, keepdims=False)
            labels[k] = "".join(c for c in labels[k] if c in others)
            return _again(e, inputs, labels, output)
    return None


def _of_one(w: Walk, e: Equation) -> Any:
    """With one operand it is a sum, a transposition, or nothing."""
    labels, output = split_subscripts(e.params["subscripts"])
    if len(e.inputs) != 1 or len(set(labels[0])) < len(labels[0]):
        return None
    if len(set(output)) < len(output) or not set(output) <= set(labels[0]):
        return None
    (a,), (mine,) = e.inputs, labels
    left = "".join(c for c in mine if c in output)
    if left != mine:
        if a.dtype.kind not in "fc":
            return None  # a sum widens whole numbers
        axes = tuple(k for k, c in enumerate(mine) if c not in output)
        if left == output:
            return instead(e, P.sum, a, axis=axes, keepdims=False)
        a = w.emit(e, P.sum, a, axis=axes, keepdims=False)
    return instead(e, P.permute, a, axes=tuple(left.index(c) for c in output))


def _in_order(w: Walk, e: Equation) -> Any:
    """The operand whose own labels come first in the output stands first: a product as BLAS writes it."""
    labels, output = split_subscripts(e.params["subscripts"])
    if len(labels) != 2:
        return None
    owned = [c for c in output if (c in labels[0]) != (c in labels[1])]
    if not owned or owned[0] in labels[0] or not set(owned) & set(labels[0]):
        return None
    return _again(e, e.inputs[::-1], labels[::-1], output)


def _of_negative(w: Walk, e: Equation) -> Any:
    for k, a in enumerate(e.inputs):
        minus = w.sole(a, "negative")
        same = minus is not None and type_of(minus.inputs[0]).dtype == e.outputs[0].dtype
        if minus is not None and same and is_real(e.outputs[0].type):
            inputs = [minus.inputs[0] if n == k else x for n, x in enumerate(e.inputs)]
            return instead(e, P.negative, w.emit(e, P.contract, *inputs, **e.params))
    return None


RULES: dict[str, list[Rule]] = {
    "contract": [
        *(_of_permuted, _of_ones, _of_broadcast, _of_lonely, _of_one, _of_negative, _in_order)
    ],
}
PERMUTED: Rule = _permuted
