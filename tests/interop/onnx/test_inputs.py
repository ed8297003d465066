"""What a model is given: arrays, lists and sequences; what does not fit is named."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve.errors import DTypeError, ShapeError

pytest.importorskip("onnx")

from onnx import TensorProto, helper

node, load = helper.make_node, bs.interop.onnx.load
Make = Any

NO_NUMBERS = ["abc", b"ab", {"a": 1}, {1}, len, [["a", "b"]], [[None, 1.0]], np.array([["a", "b"]])]
NO_NUMBERS += [np.array([[None, 1.0]]), np.array([["2020-01-01"] * 2], "M8[D]")]


@pytest.mark.parametrize("value", NO_NUMBERS, ids=repr)
@pytest.mark.parametrize("is_declared", [True, False])
def test_what_is_no_array_of_numbers_is_named(make: Make, value: Any, is_declared: bool) -> None:
    proto = make([node("Tanh", ["x"], ["y"])], {"x": ["n", 2]}, {"y": ["n", 2]}, {})
    if not is_declared:
        proto.graph.input[0].type.tensor_type.elem_type = 0
    name = r"input x float32\[n, 2\]" if is_declared else "input x"
    with pytest.raises(DTypeError, match=name + " was given .*; it takes "):
        load(proto)(value)


def test_lists_are_arrays_where_they_have_a_shape(make: Make) -> None:
    model = load(make([node("Tanh", ["x"], ["y"])], {"x": ["n", 2]}, {"y": ["n", 2]}, {}))
    for f in (model, bs.jit(model)):
        np.testing.assert_allclose(f([[1, 2], [3, 4]]), np.tanh([[1, 2], [3, 4]]), rtol=1e-6)
        with pytest.raises(ShapeError, match=r"input x float32\[n, 2\] was given a list"):
            f([[1, 2], [3]])
    slope = bs.grad(lambda t: model([[t, 1.0]]).sum())(0.5)
    assert abs(slope - (1 - np.tanh(0.5) ** 2)) < 1e-6


def test_sequences_have_arrays_of_the_declared_kind(make: Make) -> None:
    proto = make([node("SequenceAt", ["s", "k"], ["y"])], {"s": [2], "k": []}, {"y": [2]}, {})
    proto.graph.input[0].CopyFrom(
        helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, [2])
    )
    proto.graph.input[1].type.tensor_type.elem_type = TensorProto.INT64
    model = load(proto)
    np.testing.assert_array_equal(model([[1, 2], np.ones(2, np.float32)], 0), [1, 2])
    for value in (np.ones((2, 2), np.float32), "abc", 1.0):
        with pytest.raises(DTypeError, match="input s is a sequence of arrays, got"):
            model(value, 0)
    for entry in ("a", None, np.ones(2) * 1j):
        with pytest.raises(DTypeError, match=r"input s\[1\] was given"):
            model([np.ones(2), entry], 0)
    with pytest.raises(ShapeError, match=r"input s\[0\] was given an array of shape \[3\]"):
        model([np.ones(3)], 0)


def test_what_is_given_for_an_initialiser_is_looked_at(make: Make) -> None:
    arrays = {"by": np.ones(2, np.float32), "inner": np.ones(2, np.float32)}
    nodes = [node("Add", ["x", "by"], ["z"]), node("Add", ["z", "inner"], ["y"])]
    model = load(make(nodes, {"x": [2], "by": [2]}, {"y": [2]}, arrays))
    x = np.zeros(2, np.float32)
    for value in ("abc", None, x * 1j):
        with pytest.raises(DTypeError, match=r"input by float32\[2\] was given"):
            model(x, by=value)
    with pytest.raises(ShapeError, match=r"input by float32\[2\] was given an array of shape"):
        model(x, by=np.ones(5))
    with pytest.raises(DTypeError, match="input inner was given None"):
        model(x, inner=None)
    np.testing.assert_array_equal(model(x, by=[3, 4], inner=x), [3, 4])


def test_optional_inputs_are_looked_at(make: Make) -> None:
    proto = make([node("OptionalHasElement", ["o"], ["y"])], {"o": [2]}, {"y": []}, {})
    inner = helper.make_tensor_type_proto(TensorProto.FLOAT, [2])
    proto.graph.input[0].CopyFrom(
        helper.make_value_info("o", helper.make_optional_type_proto(inner))
    )
    model = load(proto)
    assert model(np.ones(2))
    assert not model(None)
    assert not model()
    with pytest.raises(DTypeError, match="input o was given 'abc'; it takes an array of numbers"):
        model("abc")
