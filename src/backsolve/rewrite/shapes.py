"""Rules for views and reductions."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import Equation, Shape, Var, type_of
from ..operators.broadcast import reduced_shape
from ..operators.nests import split_subscripts
from ..primitive import P
from .engine import Rule, Walk, instead

# ---- views


def _reshape(w: Walk, e: Equation) -> Any:
    inner = w.producer(e.inputs[0], "reshape")
    if inner is not None:
        return instead(e, P.reshape, inner.inputs[0], shape=e.params["shape"])
    return e.inputs[0]  # taken if the shape is the same


def _broadcast_to(w: Walk, e: Equation) -> Any:
    a, shape = e.inputs[0], e.params["shape"]
    inner = w.producer(a, "broadcast_to")
    if inner is not None:
        return instead(e, P.broadcast_to, inner.inputs[0], shape=shape)
    inner = w.producer(a, "permute")
    if inner is not None and len(shape) == type_of(a).ndim:  # so that two turns may meet
        axes = inner.params["axes"]
        lengths = tuple(shape[axes.index(k)] for k in range(len(axes)))
        spread = w.emit(e, P.broadcast_to, inner.inputs[0], shape=lengths)
        return instead(e, P.permute, spread, axes=axes)
    inner = w.producer(a, "reshape")
    if inner is not None and _without_front(inner.outputs[0].shape) == _without_front(
        type_of(inner.inputs[0]).shape
    ):
        found = instead(e, P.broadcast_to, inner.inputs[0], shape=shape)
        if found is not None:
            return found
    if type_of(a).size == e.outputs[0].type.size and type_of(a).shape != shape:
        return instead(e, P.reshape, a, shape=shape)
    return a  # taken if the shape is the same


def _without_front(shape: Shape) -> Shape:
    """Broadcasting adds axes of length 1 in front by itself."""
    k = 0
    while k < len(shape) and shape[k] == 1:
        k += 1
    return shape[k:]


def _permute(w: Walk, e: Equation) -> Any:
    a, axes = e.inputs[0], e.params["axes"]
    inner = w.producer(a, "permute")
    if inner is not None:
        merged = tuple(inner.params["axes"][k] for k in axes)
        return instead(e, P.permute, inner.inputs[0], axes=merged)
    return a if axes == tuple(range(len(axes))) else None


def _slice(w: Walk, e: Equation) -> Any:
    a, spec = e.inputs[0], e.params["spec"]
    inner = w.producer(a, "unslice")
    if inner is not None and inner.params["spec"] == spec:
        return inner.inputs[0]
    forward = all(type(part) is not tuple or part[2] in (None, 1) for part in spec)
    if forward and type_of(a).size == e.outputs[0].type.size:  # nothing was cut
        return instead(e, P.reshape, a, shape=e.outputs[0].shape)
    return None


def _concatenate(w: Walk, e: Equation) -> Any:
    return e.inputs[0] if len(e.inputs) == 1 else None


def _cast_of_parts(w: Walk, e: Equation) -> Any:
    """The parts of an array are converted on their way into it, not in a second pass over all of it."""
    shaped = w.sole(e.inputs[0], "reshape", "concatenate")
    if shaped is None or any(type_of(a).dtype != e.inputs[0].dtype for a in shaped.inputs):
        return None
    if any(type(a) is not Var for a in shaped.inputs):
        return None
    parts = [w.emit(e, e.primitive, a, **e.params) for a in shaped.inputs]
    return instead(e, shaped.primitive, *parts, **shaped.params)


# ---- reductions


def _over_ones(w: Walk, e: Equation) -> Any:
    """Over axes of length 1 there is nothing to combine."""
    a, axes = e.inputs[0], e.params["axis"]
    shape = type_of(a).shape
    if type(a) is not Var or any(shape[k] != 1 for k in axes):
        return None
    if type_of(a) == e.outputs[0].type:
        return a
    return instead(e, P.reshape, a, shape=e.outputs[0].shape)


def _of_broadcast(w: Walk, e: Equation) -> Any:
    """Along an axis that a broadcast made, all entries are one: a sum is a multiple of it."""
    a, axes = e.inputs[0], e.params["axis"]
    inner = w.producer(a, "broadcast_to")
    if inner is None or e.outputs[0].dtype != type_of(a).dtype or a.dtype.char in "eg":
        return None
    source, shape = inner.inputs[0], type_of(a).shape
    if type(source) is not Var or not type_of(a).size:
        return None
    padded = (*(1,) * (len(shape) - len(source.shape)), *source.shape)
    made = [k for k in axes if padded[k] == 1 and shape[k] > 1]
    if not made:
        return None
    count = 1
    for k in made:
        count *= shape[k]
    small = source
    if e.primitive.name == "sum":
        small = w.emit(e, P.multiply, small, float(count) if small.dtype.kind in "fc" else count)
    rest = tuple(1 if k in made else n for k, n in enumerate(shape))
    if small.shape != rest:
        small = w.emit(e, P.broadcast_to, small, shape=rest)
    return instead(e, e.primitive, small, **e.params)


def _beside_broadcast(w: Walk, e: Equation) -> Any:
    """Along an axis that a broadcast made and that stays, all results are one: it is made once."""
    a, axes = e.inputs[0], e.params["axis"]
    inner = w.producer(a, "broadcast_to")
    if inner is None or type(inner.inputs[0]) is not Var:
        return None
    source, shape = inner.inputs[0], type_of(a).shape
    padded = (*(1,) * (len(shape) - len(source.shape)), *source.shape)
    kept = [k for k, n in enumerate(shape) if k not in axes and padded[k] == 1 and n > 1]
    if not kept or not type_of(a).size:
        return None
    rest = tuple(1 if k in kept else n for k, n in enumerate(shape))
    small = source if source.shape == rest else w.emit(e, P.broadcast_to, source, shape=rest)
    y = w.emit(e, e.primitive, small, **e.params)
    return instead(e, P.broadcast_to, y, shape=e.outputs[0].shape)


def _sum_of_sum(w: Walk, e: Equation) -> Any:
    inner = w.sole(e.inputs[0], "sum")
    if inner is None or e.params["keepdims"] != inner.params["keepdims"]:
        return None
    axes, first = e.params["axis"], inner.params["axis"]
    if not e.params["keepdims"]:  # the axes that the first sum left, by their old numbers
        left = [k for k in range(type_of(inner.inputs[0]).ndim) if k not in first]
        axes = tuple(left[k] for k in axes)
    both = tuple(sorted({*axes, *first}))
    return instead(e, P.sum, inner.inputs[0], axis=both, keepdims=e.params["keepdims"])


def _sum_of_products(w: Walk, e: Equation) -> Any:
    """Σ_k a[i,k,1] b[1,k,j] is a matrix product: no array of all its terms, and BLAS."""
    product = w.sole(e.inputs[0], "multiply")
    if product is None or e.outputs[0].dtype.kind != "f":
        return None
    a, b = product.inputs
    domain, axes = product.outputs[0].shape, e.params["axis"]
    if type(a) is not Var or type(b) is not Var or a.dtype != b.dtype:
        return None
    if not product.outputs[0].type.size or len(domain) > 20:
        return None
    labels = "".join(chr(ord("a") + k) for k in range(len(domain)))
    mine = [_labels(x.shape, domain, labels) for x in (a, b)]
    summed = {labels[k] for k in axes if domain[k] > 1}
    own = [set(mine[0]) - set(mine[1]), set(mine[1]) - set(mine[0])]
    shared = set(mine[0]) & set(mine[1])
    # Worth it if it is one: each operand has an axis of its own, and a shared one is summed.
    if not (own[0] - summed and own[1] - summed and shared & summed) or own[0] & summed:
        return None
    if own[1] & summed:
        return None
    output = "".join(c for k, c in enumerate(labels) if domain[k] > 1 and c not in summed)
    parts = [
        x if len(x.shape) == len(m) else w.emit(e, P.reshape, x, shape=_squeezed(x.shape))
        for x, m in zip((a, b), mine, strict=True)
    ]
    y = w.emit(e, P.contract, *parts, subscripts=f"{mine[0]},{mine[1]}->{output}", sizes=())
    shape = reduced_shape(domain, axes, e.params["keepdims"])
    return y if y.shape == shape else instead(e, P.reshape, y, shape=shape)


def _sum_of_chosen(w: Walk, e: Equation) -> Any:
    """Σ_k I_ik p_k is p_i: all seeds of a softmax, whose shares are finite beside zeros, or NaN together."""
    product = w.sole(e.inputs[0], "multiply")
    if product is None or e.params["axis"] != (1,) or product.outputs[0].type.ndim != 2:
        return None
    for chosen, shares in (product.inputs, product.inputs[::-1]):
        made = w.producer(shares, "softmax")
        if made is None or type(chosen) is not Var or type_of(shares).shape != chosen.shape[1:]:
            continue
        choices = w.array(chosen)
        if choices is not None and np.array_equal(choices, np.eye(len(choices))):
            return instead(e, P.reshape, shares, shape=e.outputs[0].shape)
    return None


def _sum_of_contraction(w: Walk, e: Equation) -> Any:
    """Σ_n a[n,k] b[k,j] is (Σ_n a[n,k]) b[k,j]: what only one operand counts is summed before the product."""
    product = w.sole(e.inputs[0], "contract")
    if product is None or product.params["sizes"] or e.outputs[0].dtype.char not in "fd":
        return None  # of float16 such a sum may overflow where no product does
    labels, output = split_subscripts(product.params["subscripts"])
    gone = {output[k] for k in e.params["axis"]}
    owners = [[k for k, x in enumerate(labels) if c in x] for c in gone]
    plain = all(len(set(x)) == len(x) for x in (*labels, output))
    if not plain or len(labels) != 2 or any(len(owner) != 1 for owner in owners):
        return None
    if any(type_of(a).dtype != e.outputs[0].dtype for a in product.inputs):
        return None
    parts = list(product.inputs)
    for k, x in enumerate(labels):
        axes = tuple(at for at, c in enumerate(x) if c in gone)
        if axes:
            parts[k] = w.emit(e, P.sum, parts[k], axis=axes, keepdims=False)
            labels[k] = "".join(c for c in x if c not in gone)
    left = "".join(c for c in output if c not in gone)
    y = w.emit(e, P.contract, *parts, subscripts=f"{','.join(labels)}->{left}", sizes=())
    shape = e.outputs[0].shape
    return y if y.shape == shape else instead(e, P.reshape, y, shape=shape)


def _sum_of_negative(w: Walk, e: Equation) -> Any:
    minus = w.sole(e.inputs[0], "negative")
    if minus is None or e.outputs[0].dtype.kind != "f" or type(minus.inputs[0]) is not Var:
        return None
    return instead(e, P.negative, w.emit(e, P.sum, minus.inputs[0], **e.params))


def _labels(shape: Shape, domain: Shape, labels: str) -> str:
    skip = len(domain) - len(shape)
    return "".join(labels[skip + k] for k, n in enumerate(shape) if n > 1)


def _squeezed(shape: Shape) -> Shape:
    return tuple(n for n in shape if n > 1)


def _along_one(w: Walk, e: Equation) -> Any:
    a = e.inputs[0]
    return a if type_of(a).shape[e.params["axis"]] == 1 else None


_ANY_REDUCTION: list[Rule] = [_over_ones, _of_broadcast, _beside_broadcast]
CAST_OF_PARTS: Rule = _cast_of_parts
RULES: dict[str, list[Rule]] = {
    "reshape": [_reshape],
    "broadcast_to": [_broadcast_to],
    "permute": [_permute],
    "slice": [_slice],
    "concatenate": [_concatenate],
    "sum": [
        *_ANY_REDUCTION,
        _sum_of_sum,
        _sum_of_negative,
        _sum_of_chosen,
        _sum_of_products,
        _sum_of_contraction,
    ],
    "prod": [_over_ones, _beside_broadcast],
    "max": _ANY_REDUCTION,
    "min": _ANY_REDUCTION,
    "any": _ANY_REDUCTION,
    "all": _ANY_REDUCTION,
    "cumsum": [_along_one],
    "cumprod": [_along_one],
}
