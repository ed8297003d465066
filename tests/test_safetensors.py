"""Files of arrays: what goes in comes out, damage is noticed, and no half-written file is ever seen."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from backsolve.interop import safetensors

DTYPES = ["bool", "int8", "uint8", "int16", "uint16", "int32", "int64", "uint64"]
DTYPES += ["float16", "float32", "float64", "complex64"]


def test_arrays_come_back(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    arrays: dict[str, Any] = {
        f"{d}.{shape}": np.asarray(rng.uniform(0, 9, shape)).astype(d)
        for d in DTYPES
        for shape in [(), (3,), (2, 0), (2, 3, 4)]
    }
    arrays["ä b"] = np.arange(6.0).reshape(2, 3).T  # not contiguous
    path = tmp_path / "all.safetensors"
    safetensors.save(arrays, path, {"epoch": "3"})
    found = safetensors.load(path)
    assert set(found) == set(arrays)
    for name, a in arrays.items():
        assert found[name].dtype == a.dtype
        np.testing.assert_array_equal(found[name], a)
        assert found[name].flags.writeable
    assert safetensors.metadata(path) == {"epoch": "3"}
    assert [p.name for p in tmp_path.iterdir()] == ["all.safetensors"]


def test_damage_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    safetensors.save({"w": np.arange(100.0)}, path)
    whole = path.read_bytes()
    for broken in (
        b"",
        whole[:4],
        whole[:40],
        whole[:-8],
        b"\xff" * 8 + whole[8:],
        whole[:8] + b"x" * 200,
    ):
        path.write_bytes(broken)
        with pytest.raises(ValueError, match="no whole safetensors file"):
            safetensors.load(path)


def test_a_failure_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "w.safetensors"
    safetensors.save({"w": np.zeros(3)}, path)

    def full(*_: Any) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="no space"):
        safetensors.save({"w": np.ones(3)}, path)
    np.testing.assert_array_equal(safetensors.load(path)["w"], 0)
    assert len(list(tmp_path.iterdir())) == 1
    with pytest.raises(TypeError, match="holds numbers"):
        safetensors.save({"w": np.array(["text"])}, path)


@pytest.mark.parametrize(("dtype", "numbers"), [("BF16", [1.5, -2.0]), ("F8_E4M3", None)])
def test_numbers_that_numpy_does_not_have(tmp_path: Path, dtype: str, numbers: Any) -> None:
    size = 4 if dtype == "BF16" else 2
    data = (np.array([1.5, -2.0], "<f4").view("<u4") >> 16).astype("<u2").tobytes()[:size]
    head = {"w": {"dtype": dtype, "shape": [2], "data_offsets": [0, size]}}
    text = json.dumps(head).encode()
    path = tmp_path / "w.safetensors"
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    if numbers is None:
        with pytest.raises(ValueError, match=r"no dtype for: w \(F8_E4M3\)"):
            safetensors.load(path)
        return
    found = safetensors.load(path)["w"]
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, numbers)
