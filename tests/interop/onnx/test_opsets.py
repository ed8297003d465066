"""Operators as their opsets have them: inputs that were attributes, defaults that changed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import backsolve as bs

pytest.importorskip("onnx")

from onnx import helper

node, load = helper.make_node, bs.interop.onnx.load
Make = Any


@pytest.mark.parametrize(
    ("operator", "opset", "inputs", "attributes", "expected"),
    [
        ("Squeeze", 11, [], {"axes": [0]}, (2, 3)),
        ("Squeeze", 13, [np.array([0])], {}, (2, 3)),
        ("Unsqueeze", 11, [], {"axes": [0]}, (1, 1, 2, 3)),
        ("Unsqueeze", 13, [np.array([0])], {}, (1, 1, 2, 3)),
        ("ReduceMean", 13, [], {"axes": [1], "keepdims": 0}, (1, 3)),
        ("ReduceMean", 18, [np.array([1])], {"keepdims": 0}, (1, 3)),
        ("Slice", 9, [], {"starts": [1], "ends": [3], "axes": [2]}, (1, 2, 2)),
        ("Slice", 13, [np.array([1]), np.array([3]), np.array([2])], {}, (1, 2, 2)),
        ("Upsample", 7, [], {"scales": [1.0, 1.0, 2.0]}, (1, 2, 6)),
        ("Upsample", 9, [np.array([1, 1, 2], np.float32)], {}, (1, 2, 6)),
        ("Resize", 10, [np.array([1, 1, 2], np.float32)], {}, (1, 2, 6)),
        ("Pad", 2, [], {"pads": [0, 0, 1, 0, 0, 0]}, (1, 2, 4)),
        ("Pad", 13, [np.array([0, 0, 1, 0, 0, 0])], {}, (1, 2, 4)),
        ("Reshape", 1, [], {"shape": [0, -1]}, (1, 6)),
        ("Reshape", 5, [np.array([0, -1])], {}, (1, 6)),
        ("TopK", 1, [], {"k": 2}, (1, 2, 2)),
        ("TopK", 11, [np.array([2])], {}, (1, 2, 2)),
    ],
)
def test_shapes_by_opset(
    make: Make, operator: str, opset: int, inputs: Any, attributes: Any, expected: Any
) -> None:
    names = [f"i{k}" for k in range(len(inputs))]
    outputs = ["y", "places"] if operator == "TopK" else ["y"]
    proto = make(
        [node(operator, ["x", *names], outputs, **attributes)],
        {"x": [1, 2, 3]},
        {"y": None},
        dict(zip(names, inputs, strict=True)),
        opset,
    )
    assert load(proto)(np.ones((1, 2, 3), np.float32)).shape == expected


def test_softmax_took_all_later_axes_as_one(make: Make) -> None:
    x = np.arange(6, dtype=np.float32).reshape(1, 2, 3)
    run = lambda opset: load(
        make([node("Softmax", ["x"], ["y"])], {"x": None}, {"y": None}, {}, opset)
    )(x)
    np.testing.assert_allclose(run(12).sum(), 1, rtol=1e-6)
    np.testing.assert_allclose(run(13).sum(-1), np.ones((1, 2)), rtol=1e-6)


def test_clip_and_broadcasting_of_old(make: Make) -> None:
    x = np.array([[-2.0, 0.5], [2.0, 3.0]], np.float32)
    old = make([node("Clip", ["x"], ["y"], min=0.0, max=1.0)], {"x": None}, {"y": None}, {}, 6)
    new = make(
        [node("Clip", ["x", "", "high"], ["y"])],
        {"x": None},
        {"y": None},
        {"high": np.float32(1)},
        13,
    )
    np.testing.assert_array_equal(load(old)(x), np.clip(x, 0, 1))
    np.testing.assert_array_equal(load(new)(x), np.minimum(x, 1))
    b = np.array([1.0, 10.0], np.float32)
    add = make(
        [node("Add", ["x", "b"], ["y"], broadcast=1, axis=0)], {"x": None}, {"y": None}, {"b": b}, 6
    )
    np.testing.assert_array_equal(load(add)(x), x + b[:, None])
