"""Stable forms: what users write, in words that neither overflow nor cancel.

    log(Σ eˣ), log(Σ eˣ / n)        logsumexp(x), logsumexp(x) − log n
    log(eᵃ + eᵇ)                    logaddexp(a, b)
    eˣ / Σ eˣ,  e^(x − logsumexp x)  softmax(x)
    log(softmax x), log(softmax(x)[i])   log_softmax(x), log_softmax(x)[i]
    log(1 + eˣ), log1p(eˣ)          softplus(x)
    a / (1 + e⁻ˣ)                   a sigmoid(x)
    log(sigmoid x)                  log_sigmoid(x)
    log(1 − sigmoid x)              log_sigmoid(−x)
    log(1 + x)                      log1p(x)

These are recognised while a function is recorded, at the call that completes one, and not in the
finished Program: so its row is that of the stable form, and derivatives of any order are stable too. A
value is looked through only if the row it carries is the one that its call made; with another row (under
a nested `grad`, after `stop_gradient`) it is a variable of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..ir import type_of
from ..primitive import P, Primitive
from ..tensor import Tensor
from ..trace import Call, Recorder


def recognise(recorder: Recorder, prim: Primitive, args: Any, params: dict[str, Any]) -> Any:
    """The value of prim(*args) by a stable form, or None."""
    rule = FORMS.get(prim.name)
    if rule is None or not all(type_of(a).dtype.kind in "fib" for a in map(_atom, args)):
        return None
    y = rule(recorder, *args, **params)
    if y is None:
        return None
    (expected,) = prim.infer([type_of(_atom(a)) for a in args], params)
    found = type_of(_atom(y))
    return y if (found.shape, found.dtype) == (expected.shape, expected.dtype) else None


def _atom(a: Any) -> Any:
    return a._v if isinstance(a, Tensor) else a


def _made(r: Recorder, a: Any, *names: str) -> Call | None:
    """The call of one of these primitives that made `a`."""
    call = r.call_of(a)
    return call if call is not None and call.primitive.name in names else None


def _same(r: Recorder, a: Any, b: Any, depth: int = 4) -> bool:
    """One value, or computed twice in the same way: users repeat themselves."""
    if not isinstance(a, Tensor) or not isinstance(b, Tensor):
        return type(a) is type(b) and type(a) in (int, float) and bool(a == b)
    if a._v is b._v and a.row is b.row:
        return True
    one, two = r.call_of(a), r.call_of(b)
    if one is None or two is None or not depth:
        return False
    if one.primitive is not two.primitive or one.params != two.params:
        return False
    pairs = zip(one.args, two.args, strict=False)
    return len(one.args) == len(two.args) and all(_same(r, x, y, depth - 1) for x, y in pairs)


def _is(a: Any, number: float) -> bool:
    return type(a) in (int, float) and a == number


def _plus_one(r: Recorder, a: Any) -> Any:
    """x, if a = 1 + x."""
    call = _made(r, a, "add")
    if call is None:
        return None
    first, second = call.args
    x = second if _is(first, 1) else first if _is(second, 1) else None
    return x if x is not None and type_of(_atom(x)).dtype.kind == "f" else None  # integers wrap


SELECTING = (
    "gather",
    "slice",
    "reshape",
    "permute",
    "broadcast_to",
)  # entries of their first argument


def _log_of_selected(r: Recorder, a: Any) -> Any:
    """log(p[i]) as log(p)[i], where p is a softmax or a sigmoid: the loss of one class."""
    path: list[Call] = []
    while (call := _made(r, a, *SELECTING)) is not None:
        path.append(call)
        a = call.args[0]
    found = _made(r, a, "softmax", "sigmoid") if path else None
    if found is None:
        return None
    x = found.args[0]
    y = P.log_softmax(x, **found.params) if found.primitive.name == "softmax" else x
    for call in reversed(path):
        y = call.primitive(y, *call.args[1:], **call.params)
    return y if found.primitive.name == "softmax" else P.log_sigmoid(y)


def _terms(r: Recorder, a: Any) -> list[Any]:
    call = _made(r, a, "add")
    return [a] if call is None else [t for part in call.args for t in _terms(r, part)]


def _log_of_powers(r: Recorder, a: Any) -> Any:
    """x, if a = eˣ; and logarithms of sums of such, also in parts (a positive multiple)."""
    call = _made(r, a, "exp", "sum", "add", "divide", "multiply")
    if call is None:
        return None
    name, x = call.primitive.name, call.args[0]
    if name == "exp":
        return x
    if name == "sum":
        power = _made(r, x, "exp")
        return None if power is None else P.logsumexp(power.args[0], **call.params)
    if name == "add":
        terms = [t for part in call.args for t in _terms(r, part)]
        if len(terms) > 2 and not any(_made(r, t, "sum") for t in terms):
            return None  # of three numbers and more: each logaddexp takes as long as two powers
        logs = [_log_of_powers(r, part) for part in call.args]
        return None if any(y is None for y in logs) else P.logaddexp(*logs)
    number = call.args[1]
    if name == "multiply" and type(number) not in (int, float):
        x, number = number, x
    if type(number) not in (int, float) or not 0 < number < math.inf or _made(r, x, "exp"):
        return None  # log(3 eˣ) needs no help
    y, factor = _log_of_powers(r, x), math.log(number)
    return None if y is None else y - factor if name == "divide" else y + factor


def _log(r: Recorder, a: Any) -> Any:
    selected = _log_of_selected(r, a)
    if selected is not None:
        return selected
    call = _made(r, a, "sum", "sigmoid", "softmax", "exp")
    if call is None:
        x = _plus_one(r, a)
        if x is None:
            powers = _log_of_powers(r, a)
            if powers is not None:
                return powers
            rest = _made(r, a, "subtract")
            part = _made(r, rest.args[1], "sigmoid") if rest and _is(rest.args[0], 1) else None
            return None if part is None else P.log_sigmoid(-part.args[0])
        power = _made(r, x, "exp")
        return P.log1p(x) if power is None else P.softplus(power.args[0])
    name, x = call.primitive.name, call.args[0]
    if name == "sum":
        power = _made(r, x, "exp")
        return None if power is None else P.logsumexp(power.args[0], **call.params)
    if name == "softmax":
        return P.log_softmax(x, **call.params)
    return P.log_sigmoid(x) if name == "sigmoid" else x


def _log1p(r: Recorder, a: Any) -> Any:
    power, minus = _made(r, a, "exp"), _made(r, a, "negative")
    if power is not None:
        return P.softplus(power.args[0])
    part = _made(r, minus.args[0], "sigmoid") if minus is not None else None
    return None if part is None else P.log_sigmoid(-part.args[0])


def _exp(r: Recorder, a: Any) -> Any:
    call = _made(r, a, "subtract", "log_sigmoid", "log_softmax")
    if call is None:
        return None
    x = call.args[0]
    if call.primitive.name == "log_sigmoid":
        return P.sigmoid(x)
    if call.primitive.name == "log_softmax":
        return P.softmax(x, **call.params)
    total = _made(r, _kept(r, call.args[1]), "logsumexp")
    if total is None or not _same(r, total.args[0], x) or not _fits(call.args[1], x, total):
        return None
    return P.softmax(x, axis=total.params["axis"])


def _divide(r: Recorder, a: Any, b: Any) -> Any:
    power = _made(r, _plus_one(r, b), "exp")
    if power is not None and _same(r, a, _plus_one(r, b)):
        return P.sigmoid(power.args[0])
    if power is not None:
        minus = _made(r, power.args[0], "negative")
        part = P.sigmoid(-power.args[0] if minus is None else minus.args[0])
        return part if _is(a, 1) else P.multiply(a, part)
    top, total = _made(r, a, "exp"), _made(r, _kept(r, b), "sum")
    if top is None or total is None or not _same(r, total.args[0], a) or not _fits(b, a, total):
        return None
    return P.softmax(_unshifted(r, top.args[0], total.params["axis"]), axis=total.params["axis"])


def _subtract(r: Recorder, a: Any, b: Any) -> Any:
    total = _made(r, _kept(r, b), "logsumexp")
    if total is None or not _same(r, total.args[0], a) or not _fits(b, a, total):
        return None
    axis = total.params["axis"]
    return P.log_softmax(_unshifted(r, a, axis), axis=axis)


def _add(r: Recorder, a: Any, b: Any) -> Any:
    """max + log(Σ e^(x − max)), as one writes logsumexp by hand."""
    for shift, rest in ((a, b), (b, a)):
        total = _made(r, rest, "logsumexp")
        less = _made(r, total.args[0], "subtract") if total is not None else None
        if total is None or less is None:
            continue
        x, top = less.args
        if not _is_largest(r, top, x, total.params["axis"]):
            continue
        if _same(r, _kept(r, shift), _kept(r, top)):
            return P.logsumexp(x, **total.params)
    return None


def _is_largest(r: Recorder, top: Any, x: Any, axis: tuple[int, ...]) -> bool:
    """Whether top = max(x) along the axes, standing under x as keepdims would have it."""
    found = _made(r, _kept(r, top), "max")
    if found is None or not _same(r, found.args[0], x) or found.params["axis"] != axis:
        return False
    return _under(x, axis) == (1,) * (x.ndim - top.ndim) + top.shape


def _kept(r: Recorder, a: Any) -> Any:
    """Behind a view that only adds or drops axes of length 1."""
    call = _made(r, a, "reshape", "slice")
    while call is not None and np.prod(call.args[0].shape) == np.prod(a.shape):
        forward = all(
            type(s) is not tuple or s[2] in (None, 1) for s in call.params.get("spec", ())
        )
        ones = [n for n in call.args[0].shape if n != 1] == [n for n in a.shape if n != 1]
        if not forward or not ones:
            break
        a = call.args[0]
        call = _made(r, a, "reshape", "slice")
    return a


def _fits(b: Any, a: Any, total: Call) -> bool:
    """Whether the reduced value stands under a's axes as keepdims would have it."""
    return _under(a, total.params["axis"]) == (1,) * (a.ndim - b.ndim) + b.shape


def _under(x: Any, axis: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of what keepdims leaves of x."""
    return tuple([1 if k in axis else n for k, n in enumerate(x.shape)])


def _unshifted(r: Recorder, z: Any, axis: tuple[int, ...]) -> Any:
    """x, if z = x − max(x) along the axes: the stable forms take the maximum off themselves."""
    less = _made(r, z, "subtract")
    if less is None or not isinstance(less.args[1], Tensor):
        return z
    x, top = less.args
    return x if _is_largest(r, top, x, axis) else z


FORMS: dict[str, Callable[..., Any]] = {
    "log": _log,
    "log1p": _log1p,
    "exp": _exp,
    "divide": _divide,
    "subtract": _subtract,
    "add": _add,
}
