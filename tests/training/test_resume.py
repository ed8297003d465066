"""A run that was killed, interrupted or damaged goes on to the very bits of one that was not."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import killed_run
import numpy as np
import pytest

import backsolve as bs
from backsolve import nn, optim
from backsolve.errors import StructureError
from backsolve.interop import safetensors
from backsolve.training import Checkpoints, Interrupted, read_log
from backsolve.training.checkpoints import read


def without_time(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    times = ("seconds", "step_seconds", "examples_per_second")
    kept = [row for row in rows if row.get("kind") != "start"]
    return [{k: v for k, v in row.items() if k not in times} for row in kept]


def latest(folder: Path) -> int:
    found = sorted(folder.glob("step-*.safetensors"))
    return int(found[-1].stem.removeprefix("step-")) if found else 0


def same_arrays(a: dict[str, Any], b: dict[str, Any]) -> None:
    assert set(a) == set(b)
    for name in a:
        assert a[name].dtype == b[name].dtype
        assert a[name].tobytes() == b[name].tobytes(), name


def start(folder: Path, cache: Path, last: int = 1000) -> subprocess.Popen[str]:
    script = Path(killed_run.__file__)
    environment = {**os.environ, "BACKSOLVE_CACHE_DIR": str(cache), "BACKSOLVE_VERIFY": "0"}
    return subprocess.Popen(
        [sys.executable, "-W", "error", str(script), str(folder), str(last)],
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def finish(process: subprocess.Popen[str]) -> None:
    _, errors = process.communicate()
    assert process.returncode == 0, errors


def test_killed_at_any_instant(tmp_path: Path) -> None:
    """All arrays, the history and the log are those of a run that nobody killed."""
    cache, whole, killed = (tmp_path / name for name in ("cache", "whole", "killed"))
    process = start(whole, cache)
    finish(process)
    draw = random.Random(0)
    kills = []
    for _ in range(5):
        aim = latest(killed) + draw.randint(1, 9)
        process = start(killed, cache, aim + 5)
        while process.poll() is None and latest(killed) < aim:
            time.sleep(0.001)
        time.sleep(draw.random() * 0.02)
        process.kill()
        process.communicate()
        kills.append(latest(killed))
    assert 0 < kills[0] < latest(whole)
    process = start(killed, cache)
    finish(process)
    there, about_there = read(sorted(whole.glob("step-*"))[-1])
    here, about_here = read(sorted(killed.glob("step-*"))[-1])
    same_arrays(there, here)
    for name in ("model", "best"):
        same_arrays(
            safetensors.load(whole / f"{name}.safetensors"),
            safetensors.load(killed / f"{name}.safetensors"),
        )
    assert without_time(about_there["history"]) == without_time(about_here["history"]), kills
    for rest in ("epoch", "step", "rate_factor", "best_value", "batches", "callbacks", "stopped"):
        assert about_there[rest] == about_here[rest], rest
    assert without_time(read_log(whole)) == without_time(read_log(killed))


def linear_run(folder: Any, epochs: int = 3, **more: Any) -> Any:
    x = np.linspace(-1, 1, 40, dtype=np.float32)[:, None]
    settings = {"optimizer": optim.Adam(0.05), "batch_size": 8, "progress": False, **more}
    model = nn.Linear(1, 1, key=bs.random.key(0))
    return bs.fit(
        model, nn.functional.mse_loss, (x, 2 * x), epochs=epochs, checkpoint=folder, **settings
    )


def test_an_epoch_that_was_logged_but_not_saved_is_logged_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(name: str) -> list[dict[str, Any]]:
        folder = tmp_path / name
        linear_run(Checkpoints(folder, every_steps=1), log=folder)
        return without_time(read_log(folder))

    whole = run("whole")
    save = Checkpoints.save

    def killed(self: Checkpoints, state: Any) -> Any:
        if state.epoch == 2:
            raise RuntimeError("killed")
        return save(self, state)

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoints, "save", killed)
        with pytest.raises(RuntimeError, match="killed"):
            run("killed")
    assert run("killed") == whole


def test_more_epochs_go_on_from_where_fewer_ended(tmp_path: Path) -> None:
    linear_run(tmp_path, 2)
    again = linear_run(tmp_path, 5)
    whole = linear_run(None, 5)
    same_arrays(again.model.state_dict(), whole.model.state_dict())
    assert without_time(again.history.rows) == without_time(whole.history.rows)
    assert linear_run(tmp_path, 5).step == 25  # done already


@pytest.mark.parametrize("damage", ["half", "empty", "bit", "text"])
def test_a_damaged_checkpoint_is_passed_over(tmp_path: Path, damage: str) -> None:
    whole = linear_run(tmp_path, 3)
    newest = Checkpoints(tmp_path).files()[0]
    content = bytearray(newest.read_bytes())
    if damage == "half":
        content = content[: len(content) // 2]
    elif damage == "empty":
        content = bytearray()
    elif damage == "bit":
        content[-3] ^= 1
    else:
        at = content.index(b"rate_factor")
        content[at : at + 4] = b"RATE"
    newest.write_bytes(content)
    with pytest.warns(RuntimeWarning, match="is damaged and passed over"):
        again = linear_run(tmp_path, 3)
    same_arrays(again.model.state_dict(), whole.model.state_dict())
    assert without_time(again.history.rows) == without_time(whole.history.rows)


def test_what_a_cut_off_write_left_is_removed(tmp_path: Path) -> None:
    linear_run(tmp_path, 1)
    (tmp_path / ".step-000000007.safetensors.123").write_bytes(b"half")
    linear_run(tmp_path, 2)
    assert not list(tmp_path.glob(".step*"))
    assert len(Checkpoints(tmp_path).files()) == 2


def test_resume_false_begins_anew(tmp_path: Path) -> None:
    linear_run(tmp_path, 4)
    assert len(linear_run(tmp_path, 1, resume=False).history) == 1
    assert latest(tmp_path) == 5


def test_another_model_or_other_batches_are_refused(tmp_path: Path) -> None:
    linear_run(tmp_path, 1)
    with pytest.raises(StructureError, match="another model or optimiser"):
        linear_run(tmp_path, 2, optimizer=optim.SGD(0.1))
    with pytest.raises(StructureError, match="batches would be others"):
        linear_run(tmp_path, 2, batch_size=10)


def test_another_number_of_threads_is_told(tmp_path: Path) -> None:
    before = bs.get_threads()
    linear_run(tmp_path, 1)
    try:
        bs.set_threads(before + 1)
        with pytest.warns(RuntimeWarning, match=f"threads {before} there, {before + 1} here"):
            linear_run(tmp_path, 2)
    finally:
        bs.set_threads(before)


def test_ctrl_c_saves_and_raises(tmp_path: Path) -> None:
    import signal

    def press(run: Any) -> None:
        if run.step == 7:
            signal.raise_signal(signal.SIGINT)

    class Press:
        on_step = staticmethod(press)

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(Interrupted, match="epoch 2, step 7") as caught:
        linear_run(tmp_path, 3, callbacks=[Press()])
    assert signal.getsignal(signal.SIGINT) is before
    assert caught.value.fitted.step == 7
    assert latest(tmp_path) == 7
    same_arrays(linear_run(tmp_path, 3).model.state_dict(), linear_run(None, 3).model.state_dict())


def test_iterables_of_batches_are_passed_over(tmp_path: Path) -> None:
    class Stream:
        def __iter__(self) -> Any:
            rng = np.random.default_rng(0)
            for _ in range(6):
                x = rng.normal(size=(4, 1)).astype(np.float32)
                yield x, 2 * x

    def run(folder: Any, stop: int = 0) -> Any:
        class Stop:
            @staticmethod
            def on_step(run: Any) -> None:
                if run.step == stop:
                    raise RuntimeError("a crash")

        model = nn.Linear(1, 1, key=bs.random.key(0))
        return bs.fit(
            *(model, nn.functional.mse_loss, Stream()), epochs=2, progress=False,
            checkpoint=folder and Checkpoints(folder, every_steps=2), callbacks=[Stop()],
        )  # fmt: skip

    with pytest.raises(RuntimeError, match="a crash"):
        run(tmp_path, 9)
    assert latest(tmp_path) == 8
    same_arrays(run(tmp_path).model.state_dict(), run(None).model.state_dict())
