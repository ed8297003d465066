"""The models of several nodes that the onnx package has, of opset 6 on, held against its results."""

from __future__ import annotations

import glob
from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve.errors import UnsupportedError

onnx = pytest.importorskip("onnx")

from onnx import numpy_helper  # noqa: E402
from onnx.backend.test.loader import load_model_tests  # noqa: E402


def test_models() -> None:
    """All but those of strings and of `Gradient`."""

    def read(path: str) -> Any:
        return numpy_helper.to_array(onnx.load_tensor(path))

    names, refused = [], []
    for case in load_model_tests(kind="pytorch-converted") + load_model_tests(kind="simple"):
        try:
            model = bs.interop.onnx.load(case.model or f"{case.model_dir}/model.onnx")
        except UnsupportedError as error:
            refused.append(str(error))
            continue
        folders = [] if case.model_dir is None else glob.glob(f"{case.model_dir}/test_data_set_*")
        data = case.data_sets or [
            [
                [read(p) for p in sorted(glob.glob(f"{f}/{kind}_*.pb"))]
                for kind in ("input", "output")
            ]
            for f in folders
        ]
        for inputs, outputs in data:
            results = model(*[tuple(x) if isinstance(x, list) else x for x in inputs])
            results = results if len(outputs) > 1 else (results,)
            for found, expected in zip(results, outputs, strict=True):
                pairs = (
                    zip(found, expected, strict=True)
                    if isinstance(expected, list)
                    else [(found, expected)]
                )
                for f, e in pairs:
                    np.testing.assert_allclose(f, e, rtol=1e-3, atol=1e-6)
        names.append(case.name)
    assert all("StringNormalizer" in text or "Gradient" in text for text in refused)
    assert len(names) >= 97
