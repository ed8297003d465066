"""bs.fit over processes: the curve of one process, a death, and going on in four, two and one of them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from backsolve.training import read_log

SCRIPT = str(Path(__file__).parent / "trained.py")
LONGEST = 600  # seconds, on the slowest machine
KILLED = 10  # the step in which the last process dies


def run(folder: Path, count: int, kill_at: int = 0) -> subprocess.CompletedProcess[str]:
    folder.mkdir(exist_ok=True)
    alone = [SCRIPT] if count == 1 else ["-m", "backsolve", "launch", "-n", str(count), SCRIPT]
    return subprocess.run(
        [sys.executable, *alone, str(folder), str(kill_at)],
        capture_output=True,
        text=True,
        timeout=LONGEST,
        env={**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": ""},
        check=False,
    )


def finished(folder: Path, count: int) -> dict[str, Any]:
    ended = run(folder, count)
    assert ended.returncode == 0, ended.stderr
    told: dict[str, Any] = json.loads((folder / "told.json").read_text())
    told["losses"] = {int(k): float.fromhex(v) for k, v in told["losses"].items()}
    told["stderr"] = ended.stderr
    return told


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return finished(tmp_path_factory.mktemp("alone"), 1)


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is left of a run of four processes, the last of which died."""
    folder = tmp_path_factory.mktemp("killed")
    ended = run(folder, 4, kill_at=KILLED)
    lines = ended.stderr.splitlines()
    assert ended.returncode == 137, ended.stderr
    assert lines[-1].startswith("backsolve launch: process 3 of 4 was ended by SIGKILL")
    for k in range(3):
        message = f"[{k}] backsolve: process 3 died; process {k} of 4 ends with it."
        assert any(line.startswith(message) for line in lines), ended.stderr
    assert not (folder / "told.json").exists()
    return folder


def close(a: dict[str, Any], b: dict[str, Any]) -> None:
    """Curves, histories and arrays, to the rounding of sums in another order."""
    for step, loss in b["losses"].items():
        np.testing.assert_allclose(loss, a["losses"][step], rtol=1e-11)
    for x, y in zip(a["history"], b["history"], strict=True):
        assert (x["epoch"], x["step"]) == (y["epoch"], y["step"])
        np.testing.assert_allclose(
            [x["loss"], x["val_loss"]], [y["loss"], y["val_loss"]], rtol=1e-11
        )
    for name in a["arrays"]:
        np.testing.assert_allclose(a["arrays"][name], b["arrays"][name], rtol=1e-9, atol=1e-12)


def test_four_processes_are_one_and_go_on_to_the_last_bit(
    alone: dict[str, Any], killed: Path, tmp_path: Path
) -> None:
    whole = finished(tmp_path / "whole", 4)
    assert list(whole["losses"]) == list(alone["losses"])
    close(alone, whole)
    (newest,) = sorted((tmp_path / "whole" / "run").glob("step-*"))[-1:]
    assert len(list(newest.glob("*.safetensors"))) == 4  # each wrote its part
    resumed = tmp_path / "resumed"
    shutil.copytree(killed, resumed)
    again = finished(resumed, 4)
    assert list(again["losses"]) == [k for k in whole["losses"] if k >= KILLED]
    assert again["losses"] == {k: v for k, v in whole["losses"].items() if k >= KILLED}
    assert again["arrays"] == whole["arrays"]
    rows = [
        [r["loss"] for r in read_log(f / "log") if r["kind"] == "epoch"]
        for f in (tmp_path / "whole", resumed)
    ]
    assert rows[0] == rows[1] == [row["loss"] for row in whole["history"]]


@pytest.mark.parametrize("count", [2, 1])
def test_fewer_processes_go_on(
    alone: dict[str, Any], killed: Path, tmp_path: Path, count: int
) -> None:
    folder = tmp_path / "fewer"
    shutil.copytree(killed, folder)
    again = finished(folder, count)
    assert min(again["losses"]) == KILLED
    close(alone, again)
    assert "mesh <Mesh data=4: 4 × cpu> there" in again["stderr"]
