"""The console script itself, in a process of its own."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import backsolve
from backsolve.working import Working

SCRIPT = Path(sys.executable).with_name("backsolve")
SLOW = "import time\ndef f(x):\n    time.sleep(0.1)\n    return x * x\n"


def console(*arguments: str) -> subprocess.CompletedProcess[str]:
    if not SCRIPT.exists():
        pytest.skip(f"backsolve is not installed beside {sys.executable}")
    source = str(Path(backsolve.__file__).parents[1])
    env = {**os.environ, "PYTHONPATH": source, "PYTHONIOENCODING": "utf-8"}
    return subprocess.run(
        [str(SCRIPT), *arguments], capture_output=True, text=True, encoding="utf-8", env=env, check=False
    )  # fmt: skip


def test_a_right_function(folder: Path) -> None:
    done = console("check", "model:loss", "--args", "np.ones(2)", "np.eye(2)", "np.zeros(2)")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(
        "loss(w: float64[2], x: float64[2,2], y: float64[2])\n\n✓ order 1"
    )


def test_a_wrong_one(folder: Path) -> None:
    done = console("check", "model.py:wave", "--args", "np.ones(3)")
    assert (done.returncode, done.stderr) == (1, "")
    assert "x[0]" in done.stdout


def test_help_teaches() -> None:
    done = console("bench", "--help")
    assert done.returncode == 0
    assert "--args 'np.random.default_rng(0).normal(size=(3, 4))'" in done.stdout


def test_a_bar_shows_what_takes_longer_than_a_second(folder: Path) -> None:
    pty = pytest.importorskip("pty")
    (folder / "slow.py").write_text(SLOW)
    terminal, errors = pty.openpty()
    source = str(Path(backsolve.__file__).parents[1])
    run = subprocess.Popen(
        [sys.executable, "-m", "backsolve", "check", "slow.py:f", "--args", "2.0"],
        stdout=subprocess.PIPE, stderr=errors, env={**os.environ, "PYTHONPATH": source, "TERM": "xterm"},
    )  # fmt: skip
    os.close(errors)
    shown = b""
    while part := _read(terminal):  # a terminal that nobody reads holds its writer up
        shown += part
    out, _ = run.communicate()
    os.close(terminal)
    assert run.returncode == 0
    assert b"checking" in shown
    assert "1 of 1 agree" in out.decode()


def test_the_library_shows_one_too(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    monkeypatch.setattr(shown, "isatty", lambda: True)
    monkeypatch.setattr("sys.stderr", shown)
    monkeypatch.setattr("backsolve.working._PATIENCE", 0.0)

    awaited = "drawing"

    def f(x: float) -> float:
        until = time.monotonic() + 60
        while awaited not in shown.getvalue() and time.monotonic() < until:
            time.sleep(0.01)
        return x * x

    backsolve.show(f, 2.0)
    assert awaited in shown.getvalue()
    awaited = "planning"
    backsolve.sparsity(f, np.ones(3))
    assert awaited in shown.getvalue()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 12)
    except OSError:  # how a terminal ends on Linux
        return b""


def test_nothing_is_shown_where_nobody_watches(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backsolve.working._PATIENCE", 0.0)
    with Working("thinking") as bar:
        time.sleep(0.05)
        bar.show(1, 2)
    assert capsys.readouterr() == ("", "")
