"""What one sees of a run in a notebook and in a terminal."""

from __future__ import annotations

import io
import re
import sys
import types
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import backsolve as bs
from backsolve import nn
from backsolve.errors import NaNError
from backsolve.training import progress
from backsolve.working import Working

X = np.linspace(-1, 1, 64)[:, None]


class Outputs:
    """IPython's display: outputs by number, each as it was shown last, and how often it was drawn."""

    def __init__(self) -> None:
        self.shown: list[dict[str, str]] = []
        self.drawn = 0

    def display(self, bundle: dict[str, str], raw: bool, display_id: bool) -> Any:
        assert raw
        assert display_id
        place = len(self.shown)
        self.shown.append(bundle)
        self.drawn += 1

        def update(new: dict[str, str], raw: bool) -> None:
            assert raw
            self.shown[place] = new
            self.drawn += 1

        return types.SimpleNamespace(update=update)


@pytest.fixture
def outputs(monkeypatch: pytest.MonkeyPatch) -> Outputs:
    found = Outputs()
    module: Any = types.ModuleType("IPython.display")
    module.display = found.display
    monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    monkeypatch.setattr(progress.Cell, "refresh", 0.0)
    return found


def fit(loss: Any = nn.functional.mse_loss, **settings: Any) -> Any:
    settings = {"compile": False, **settings}
    return bs.fit(nn.Linear(1, 1), loss, (X, 3 * X), batch_size=16, **settings)


def test_a_notebook_has_one_output_that_is_replaced(
    outputs: Outputs, capsys: pytest.CaptureFixture[str]
) -> None:
    fit(epochs=3, validation=0.25, metrics=["mae"])
    assert len(outputs.shown) == 1
    assert outputs.drawn > 6
    text, page = outputs.shown[0]["text/plain"], outputs.shown[0]["text/html"]
    assert text.startswith("epoch 3/3  loss ")
    assert all(name in text for name in ("mae", "val_loss", "val_mae", "examples/s"))
    assert re.search(r"\d:\d\d:\d\d", text)
    assert '<progress max="1" value="1.000"' in page
    assert "\x1b" not in text + page
    assert capsys.readouterr().out == ""


def test_a_run_that_goes_on_says_so_in_a_notebook(
    outputs: Outputs, tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    fit(epochs=1, checkpoint=tmp_path)
    fit(epochs=2, checkpoint=tmp_path)
    assert capsys.readouterr().out.startswith("the run goes on from ")
    assert len(outputs.shown) == 2


def test_no_bar_stays_in_motion_after_an_error(outputs: Outputs) -> None:
    with pytest.raises(NaNError):
        fit(lambda output, target: np.mean(np.log(output - output - 1.0)), compile=True)
    assert outputs.shown[0]["text/plain"] == "epoch 1/1  stopped"
    assert 'value="0.000"' in outputs.shown[0]["text/html"]


@pytest.mark.parametrize("width", [80, 160])
def test_a_terminal_has_one_line(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.StringIO()
    bar = progress.Bar()
    bar.console = Console(
        file=file, width=width, force_terminal=True, force_jupyter=False, legacy_windows=False
    )
    bar.refresh = 0.0
    monkeypatch.setattr("backsolve.training.loop.display", lambda wish: bar)
    fit(epochs=2, validation=0.25, metrics=["mae"])
    assert file.getvalue().count("\n") == 1  # all else is drawn over
    last = file.getvalue().split("\r")[-1]
    assert "epoch 2/2" in last
    assert "100%" in last
    assert ("val_loss" in last) == (width == 160)


def test_other_long_work_has_a_bar_in_a_notebook_too_and_leaves_nothing(
    outputs: Outputs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backsolve.working._PATIENCE", 0.0)
    monkeypatch.setattr("backsolve.working._REFRESH", 0.0)
    with Working("thinking") as bar:
        assert bar.timer is not None
        bar.timer.join()
        assert "<div>thinking <progress" in outputs.shown[0]["text/html"]
        bar.show(1, 4, "still thinking")
        assert 'still thinking <progress max="1" value="0.250"' in outputs.shown[0]["text/html"]
    assert outputs.shown == [{"text/plain": "", "text/html": ""}]


def test_speed_is_that_of_steps_not_of_what_comes_between(
    outputs: Outputs, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    clock = types.SimpleNamespace(perf_counter=lambda: now[0])
    monkeypatch.setattr(progress, "time", clock)

    def passing(seconds: float) -> Any:
        return lambda run: now.__setitem__(0, now[0] + seconds)

    fit(epochs=3, callbacks=[types.SimpleNamespace(on_step=passing(0.01), on_epoch=passing(100.0))])
    assert "1,600 examples/s" in outputs.shown[0]["text/plain"]  # 16 in 0.01 s
