"""The folder of a run of the command line: what describes it, its model, its history."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from ..interop import safetensors
from ..training import Checkpoints, History, read_log
from ..training.checkpoints import read
from .datasets import Dataset
from .models import build


def write_description(folder: Path, description: dict[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(description, indent=2, ensure_ascii=False) + "\n"
    safetensors.write_whole(folder / "run.json", text.encode())


def read_description(folder: Path) -> dict[str, Any]:
    path = folder / "run.json"
    if not path.is_file():
        what = (
            "has no run.json, which `backsolve train` writes" if folder.is_dir() else "is no folder"
        )
        raise FileNotFoundError(f"{folder} is no run: it {what}")
    return dict(json.loads(path.read_text(encoding="utf-8")))


def describe(data: Dataset, columns: list[str], settings: dict[str, Any]) -> dict[str, Any]:
    return {
        "shape": list(data.x.shape[1:]),
        "classes": list(data.classes),
        "target": data.target,
        "columns": columns,
        "words": data.words,
        "settings": settings,
    }


def read_model(folder: Path, description: dict[str, Any]) -> Any:
    """The trained model; of a run under way, that of its newest checkpoint."""
    settings = description["settings"]
    x = np.zeros((2, *description["shape"]), np.float32)
    y = np.zeros(2, np.float32)
    model = build(
        settings["model"], x, y, len(description["classes"]), tuple(settings["hidden"]),
        settings["dropout"],
    )  # fmt: skip
    path = folder / "model.safetensors"
    if path.is_file():
        arrays = safetensors.load(path)
    else:
        files = Checkpoints(folder).files()
        if not files:
            raise FileNotFoundError(f"{folder} has neither a model nor a checkpoint yet")
        found, _ = read(files[0])
        heads = ("parameters.", "buffers.")
        arrays = {name.split(".", 1)[1]: a for name, a in found.items() if name.startswith(heads)}
    model.load_state_dict(arrays)
    return model.eval()


def read_history(folder: Path) -> History:
    rows = [row for row in read_log(folder) if row["kind"] == "epoch"]
    return History([{k: v for k, v in row.items() if k != "kind"} for row in rows])
