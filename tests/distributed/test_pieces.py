"""Checkpoints in pieces, in one process: whole or not there, and read by slices."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from backsolve.distributed import load, newest, save
from backsolve.distributed.pieces import INDEX, Pieces, whole
from backsolve.interop import safetensors


def arrays() -> dict[str, Any]:
    import jax

    rng = np.random.default_rng(0)
    return {
        "w": rng.normal(size=(6, 4)),
        "device": jax.numpy.arange(5, dtype=np.int32),
        "half": jax.numpy.linspace(0, 1, 4, dtype=jax.numpy.bfloat16),
        "count": np.array(7),
        "empty": np.zeros((0, 3), np.float32),
    }


def test_round_trip(tmp_path: Path) -> None:
    given = arrays()
    save(tmp_path / "a", given, {"step": 3})
    found, about = load(tmp_path / "a")
    assert about == {"step": 3}
    assert set(found) == set(given)
    for name, a in given.items():
        assert found[name].dtype == a.dtype
        assert found[name].shape == a.shape
        assert found[name].tobytes() == np.asarray(a).tobytes()


def test_onto_a_device(tmp_path: Path) -> None:
    import jax

    save(tmp_path, arrays())
    there = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    found, _ = load(tmp_path, {"w": there})
    assert isinstance(found["w"], jax.Array)
    assert found["w"].dtype == np.float64
    np.testing.assert_array_equal(np.asarray(found["w"]), arrays()["w"])


def in_pieces(folder: Path) -> Any:
    """An array of shape (6, 4) as three processes would write it: two tops of columns, one bottom."""
    a = np.arange(24.0).reshape(6, 4)
    cuts = [((0, 4), (0, 2)), ((0, 4), (2, 4)), ((4, 6), (0, 4))]
    pieces = []
    for k, cut in enumerate(cuts):
        part = a[tuple(slice(*c) for c in cut)]
        save(folder / f"{k}", {"a": part})
        (file,) = (folder / f"{k}").glob("*.safetensors")
        file.rename(folder / f"{k}.safetensors")
        pieces.append({"slices": cut, "file": f"{k}.safetensors", "key": "a@0"})
    about = {"shape": [6, 4], "dtype": "float64", "pieces": pieces}
    index = {"format": 1, "processes": 3, "about": None, "arrays": {"a": about}}
    (folder / INDEX).write_text(json.dumps(index))
    return a


def test_slices_come_from_the_pieces_that_hold_them(tmp_path: Path) -> None:
    a = in_pieces(tmp_path)
    read = Pieces(tmp_path)
    for rows in ((0, 6), (0, 4), (3, 5), (4, 6), (2, 2)):
        for columns in ((0, 4), (0, 2), (1, 3), (3, 4)):
            part = read.part("a", (rows, columns))
            np.testing.assert_array_equal(part, a[slice(*rows), slice(*columns)])
    (tmp_path / "2.safetensors").write_bytes(b"nonsense")  # what is not asked for is not read
    np.testing.assert_array_equal(Pieces(tmp_path).part("a", ((0, 4), (0, 4))), a[:4])
    with pytest.raises(ValueError, match="damaged"):
        Pieces(tmp_path).part("a", ((3, 5), (0, 4)))


def test_a_gap_is_noticed(tmp_path: Path) -> None:
    in_pieces(tmp_path)
    index = json.loads((tmp_path / INDEX).read_text())
    index["arrays"]["a"]["pieces"].pop()
    (tmp_path / INDEX).write_text(json.dumps(index))
    with pytest.raises(ValueError, match="pieces of a are missing"):
        Pieces(tmp_path).part("a", ((0, 6), (0, 4)))


def test_an_interrupted_save_leaves_the_last_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path / "step-1", {"a": np.ones(3)}, 1)
    write = safetensors.write_whole

    def stops_before_the_index(path: Any, content: bytes) -> None:
        if Path(path).name == INDEX:
            raise OSError("no power")
        write(path, content)

    monkeypatch.setattr(safetensors, "write_whole", stops_before_the_index)
    for folder in ("step-1", "step-2"):  # over the old one, and beside it
        with pytest.raises(OSError, match="no power"):
            save(tmp_path / folder, {"a": np.zeros(3)}, 2)
    monkeypatch.undo()
    assert newest(tmp_path) == tmp_path / "step-1"
    found, about = load(tmp_path / "step-1")
    assert about == 1
    assert found["a"].tolist() == [1, 1, 1]
    save(tmp_path / "step-1", {"a": np.full(3, 5.0)}, 3)
    assert load(tmp_path / "step-1")[0]["a"].tolist() == [5, 5, 5]
    assert len(list((tmp_path / "step-1").glob("*.safetensors"))) == 1


def test_what_is_damaged_is_no_checkpoint(tmp_path: Path) -> None:
    for k in range(3):
        save(tmp_path / f"step-{k}", {"a": np.full(3, k)})
    (tmp_path / "step-2" / INDEX).write_text("{")
    (file,) = (tmp_path / "step-1").glob("*.safetensors")
    content = bytearray(file.read_bytes())
    file.unlink()
    assert [p.name for p in whole(tmp_path)] == ["step-0"]
    content[-1] ^= 1
    file.write_bytes(content)
    assert newest(tmp_path) == tmp_path / "step-1"
    with pytest.raises(ValueError, match="checksum of a@0 does not fit"):
        load(tmp_path / "step-1")


def test_numbers_are_saved_and_containers_are_named(tmp_path):
    assert load(save(tmp_path / "a", {"rate": 0.1}))[0] == {"rate": 0.1}
    with pytest.raises(TypeError, match="'layer' is a dict"):
        save(tmp_path / "b", {"layer": {"w": np.ones(2)}})
