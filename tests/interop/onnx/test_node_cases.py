"""Every single-node case of the onnx package, held against the results that it has for them.

Within scope: float32, float64, int32, int64 and bool, and NumPy's other integers and float16. What is left out
is named, with its reason.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import backsolve as bs

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, numpy_helper  # noqa: E402

NAMED = {
    getattr(TensorProto, name) for name in ("FLOAT", "DOUBLE", "INT32", "INT64", "BOOL")
}  # those that were asked for
SCOPE = NAMED | {
    getattr(TensorProto, name)
    for name in ("FLOAT16", "INT8", "INT16", "UINT8", "UINT16", "UINT32", "UINT64")
}
RANDOM = {"Bernoulli", "RandomUniformLike"}
LEAST = (
    1447,
    1065,
    183,
)  # cases of the named types that must pass, those of one node, their operators


@pytest.fixture(scope="module")
def cases() -> list[Any]:
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the cases divide by zero on purpose
        return load_model_tests(kind="node")


def _element_types(proto: Any) -> Iterator[int]:
    kind = proto.WhichOneof("value")
    if kind == "tensor_type":
        yield proto.tensor_type.elem_type
    elif kind in ("sequence_type", "optional_type"):
        yield from _element_types(getattr(proto, kind).elem_type)


def _types(model: Any) -> set[int]:
    values = [*model.graph.input, *model.graph.output]
    return {t for v in values for t in _element_types(v.type)}


def _reason_to_leave_out(model: Any) -> str:
    types = _types(model) - SCOPE
    if types:
        return f"arrays of {', '.join(sorted(TensorProto.DataType.Name(t) for t in types))}"
    if any(node.op_type in RANDOM for node in model.graph.node):
        return "draws random numbers, which are no one's to repeat"
    if model.graph.node[0].op_type == "ImageDecoder":
        return "reads the bytes of an image file"
    if model.graph.name.startswith("test_training_dropout") and "zero" not in model.graph.name:
        return "dropout that trains: the result is what NumPy's generator drew"
    return ""


def _value(x: Any) -> Any:
    if isinstance(x, TensorProto):
        return numpy_helper.to_array(x)
    return tuple(x) if isinstance(x, list) else x


def _check(found: Any, expected: Any, case: Any) -> None:
    if expected is None or isinstance(expected, tuple):
        assert type(found) is type(expected)
        for f, e in zip(found or (), expected or (), strict=True):
            _check(f, e, case)
        return
    expected = np.asarray(expected)
    assert isinstance(found, np.ndarray)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    np.testing.assert_allclose(found, expected, rtol=case.rtol, atol=case.atol)


def _run(case: Any) -> None:
    model = bs.interop.onnx.load(case.model)
    for inputs, outputs in case.data_sets:
        results = model(*[_value(x) for x in inputs])
        results = results if len(outputs) > 1 else (results,)
        for found, expected in zip(results, outputs, strict=True):
            _check(found, _value(expected), case)


def test_node_cases(cases: list[Any]) -> None:
    left_out: dict[str, list[str]] = {}
    failures, passed, named, operators = [], 0, 0, Counter[str]()
    for case in cases:
        reason = _reason_to_leave_out(case.model)
        if reason:
            left_out.setdefault(reason, []).append(case.name)
            continue
        try:
            _run(case)
        except Exception as error:
            failures.append(f"{case.name}: {type(error).__name__}: {error}")
            continue
        passed += 1
        is_named = _types(case.model) <= NAMED
        named += is_named
        if is_named and len(case.model.graph.node) == 1:
            operators[case.model.graph.node[0].op_type] += 1
    single = sum(operators.values())
    print(
        f"{passed} cases pass; of the named types {named}, {single} of one node, {len(operators)} operators"
    )
    for reason, names in sorted(left_out.items()):
        print(f"left out, {reason}: {', '.join(names)}")
    assert not failures, "\n".join(failures)
    assert all(n >= least for n, least in zip((named, single, len(operators)), LEAST, strict=True))
