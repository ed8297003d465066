"""Values, gradients and second derivatives of functions of networks, against PyTorch's."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import numpy as np
import pytest
from calls import GROUPS
from references import Call, flattened, load, sketch, weights_of

import backsolve as bs
from backsolve.nn import functional

CALLS = [(group, call) for group in GROUPS for call in GROUPS[group]()]
IDS = [f"{call.label}" for _, call in CALLS]
figures_of = cache(load)
find = partial(getattr, functional)


def total(call: Call) -> Any:
    def function(*arrays: Any) -> Any:
        results = flattened(call.of(find, arrays))
        smooth = [r for r in results if r.dtype.kind == "f"]
        return sum(np.sum(np.sin(r) * weights_of(r.shape, k)) for k, r in enumerate(smooth))

    return function


def compare(figure: Any, expected: Any, label: str) -> None:
    np.testing.assert_allclose(sketch(figure), expected, rtol=1e-8, atol=1e-9, err_msg=label)


@pytest.mark.parametrize(("group", "call"), CALLS, ids=IDS)
def test_like_pytorch(group: str, call: Call) -> None:
    expected = figures_of(group)[call.label]
    arrays = call.drawn()
    results = flattened(call.of(find, arrays))
    assert results[0].shape == tuple(expected["shape"].astype(int))
    for k, result in enumerate(results):
        compare(result, expected[f"value{k}"], f"result {k}")
    if not any(name.startswith("gradient") for name in expected):
        return
    gradient = bs.grad(total(call), call.varying)
    for k, g in zip(call.varying, gradient(*arrays), strict=True):
        compare(g, expected[f"gradient{k}"], f"gradient in argument {k}")
    if not any(name.startswith("second") for name in expected):
        return

    def along(*varying: Any) -> Any:
        args = list(arrays)
        for k, a in zip(call.varying, varying, strict=True):
            args[k] = a
        return sum(np.sum(g * weights_of(g.shape, 50 + k)) for k, g in enumerate(gradient(*args)))

    varying = [arrays[k] for k in call.varying]
    second = bs.grad(along, tuple(range(len(varying))))(*varying)
    for k, h in zip(call.varying, second, strict=True):
        compare(h, expected[f"second{k}"], f"second derivative in argument {k}")


@pytest.mark.parametrize(("group", "call"), CALLS[::9], ids=IDS[::9])
def test_compiled_like_pytorch(group: str, call: Call) -> None:
    expected = figures_of(group)[call.label]
    arrays = call.drawn()
    results = flattened(bs.jit(lambda *a: call.of(find, a))(*arrays))
    for k, result in enumerate(results):
        compare(result, expected[f"value{k}"], f"result {k}")
    if any(name.startswith("gradient") for name in expected):
        gradients = bs.jit(bs.grad(total(call), call.varying))(*arrays)
        for k, g in zip(call.varying, gradients, strict=True):
            compare(g, expected[f"gradient{k}"], f"gradient in argument {k}")
