"""Small ONNX models, made by onnx.helper; and a path to `onnx_values`, which is no test."""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
Make = Callable[..., Any]


@pytest.fixture
def make() -> Make:
    """make(nodes, inputs, outputs, initialisers): a ModelProto; types are float32 unless they are said."""
    onnx = pytest.importorskip("onnx")
    from onnx import TensorProto, helper, numpy_helper

    def value(name: str, type_and_shape: Any) -> Any:
        if not isinstance(type_and_shape, tuple):
            type_and_shape = TensorProto.FLOAT, type_and_shape
        return helper.make_tensor_value_info(name, *type_and_shape)

    def made(
        nodes: list[Any],
        inputs: dict[str, Any],
        outputs: dict[str, Any],
        arrays: dict[str, Any] | None = None,
        opset: int = 22,
        **more: Any,
    ) -> Any:
        graph = helper.make_graph(
            nodes,
            "net",
            [value(*item) for item in inputs.items()],
            [value(*item) for item in outputs.items()],
            [numpy_helper.from_array(np.asarray(a), name) for name, a in (arrays or {}).items()],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], **more)

    assert onnx.__version__
    return made
