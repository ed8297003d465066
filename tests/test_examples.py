"""The examples run, at small size, and learn what they should; each is short enough to be read."""

from __future__ import annotations

import importlib.util
import pathlib
from typing import Any

import pytest

FOLDER = pathlib.Path(__file__).parent.parent / "examples"
LINES = 90

# name: steps, and the bounds of what main returns then
SMALL: dict[str, tuple[int, float, float]] = {
    "bilevel": (30, 0.0, 0.95),  # test error with learned decays over that without
    "cnn": (2, 0.85, 1.0),  # accuracy
    "deep_equilibrium": (60, 0.9, 1.0),  # accuracy
    "diffusion": (400, 0.0, 0.2),  # distance from the data
    "gaussian_process": (100, 0.0, 0.6),  # ppm
    "gpt": (15, 0.0, 3.6),  # nats a letter; 4.6 at first
    "kfac": (30, 0.0, 0.95),  # cross-entropy over that of Adam
    "lstm_text": (15, 0.0, 3.6),
    "mlp": (5, 0.9, 1.0),  # accuracy
    "neural_ode": (40, 0.0, 0.9),  # distance from the way; 1.3 at first
    "orthogonal_rnn": (30, 0.5, 1.0),  # accuracy; 0.125 by guessing
    "ray_marcher": (30, 0.0, 0.1),  # distance of the centres; 0.35 at first
    "soft_dtw": (15, 0.0, 0.5),  # distance to the series over that of their mean
    "soft_rank": (30, 0.85, 1.0),  # rank correlation
    "softmax_net": (200, 0.9, 1.0),  # accuracy
    "vae": (5, 0.0, 30.0),  # nats an image; 44 at first
}


def load(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"example_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", SMALL)
def test_an_example_learns(name: str) -> None:
    steps, low, high = SMALL[name]
    assert low <= load(name).main(steps) <= high


def test_every_example_is_run_and_short() -> None:
    found = {path.stem: path for path in FOLDER.glob("*.py")}
    assert set(found) == {*SMALL, "first"}  # `make run` is the test of first.py
    for path in found.values():
        assert len(path.read_text(encoding="utf-8").splitlines()) < LINES, path.name
