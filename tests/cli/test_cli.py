"""The command line, in this process: what it writes, says and refuses."""

from __future__ import annotations

import csv
import importlib.util
import json
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve.cli import datasets, main
from backsolve.cli.datasets import Dataset, divided, load
from backsolve.cli.models import _between, warped
from backsolve.data import Images
from backsolve.training import read_log


def words(capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    found = capsys.readouterr()
    return found.out, found.err


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Three kinds that x and the word decide about."""
    rng = np.random.default_rng(0)
    path = tmp_path / "things.csv"
    lines = ["x,y,word,kind"]
    for _ in range(120):
        x, y = rng.normal(size=2)
        word = rng.choice(["red", "green"])
        kind = "big" if x > 0 else "small" if word == "red" else "odd"
        lines.append(f"{x:.4f},{y:.4f},{word},{kind}")
    path.write_text("\n".join(lines) + "\n")
    return path


def train(data: Path, out: Path, *more: str) -> int:
    return main(["train", "--data", str(data), "--out", str(out), "--batch-size", "16", *more])


def test_train_predict_show(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    assert train(table, out, "--epochs", "20", "--hidden", "16") == 0
    said, _ = words(capsys)
    assert said.startswith("things · mlp · 96 train · 24 test\n")
    assert "test accuracy" in said
    names = {p.name for p in out.iterdir()}
    assert {"model.safetensors", "run.json", "log.jsonl", "explore.html"} <= names
    assert f"page: {out / 'explore.html'}" in said
    accuracy = [r for r in read_log(out) if r["kind"] == "epoch"][-1]["val_accuracy"]
    assert accuracy > 0.8

    # the part that was set apart, again: the same accuracy
    assert main(["predict", str(out)]) == 0
    lines, score = words(capsys)
    rows = list(csv.DictReader(lines.splitlines()))
    assert len(rows) == 24
    assert f"accuracy {100 * accuracy:.1f} % of 24" in score
    total = sum(float(rows[0][f"probability of {c}"]) for c in ("big", "odd", "small"))
    assert total == pytest.approx(1.0, abs=1e-5)

    # new data, without the target, columns in another order
    new = tmp_path / "new.csv"
    new.write_text("word,y,x\nred,0.1,2.5\ngreen,0.1,-2.5\nred,0,-2.5\n")
    assert main(["predict", str(out), "--data", str(new), "--out", str(tmp_path / "p.csv")]) == 0
    found = list(csv.DictReader((tmp_path / "p.csv").read_text().splitlines()))
    assert [row["prediction"] for row in found] == ["big", "odd", "small"]

    assert main(["show", str(out), "--width", "30"]) == 0
    shown, _ = words(capsys)
    assert "model mlp" in shown
    assert "accuracy  • accuracy  ○ val_accuracy" in shown


def test_the_same_command_goes_on(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    settings = ("--model", "linear", "--schedule", "constant")
    assert train(table, out, "--epochs", "2", *settings) == 0
    assert train(table, out, "--epochs", "4", *settings) == 0
    assert [r["epoch"] for r in read_log(out) if r["kind"] == "epoch"] == [1, 2, 3, 4]
    whole = tmp_path / "whole"
    assert train(table, whole, "--epochs", "4", *settings) == 0
    assert (out / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    words(capsys)
    assert train(table, out, "--epochs", "4", "--model", "mlp", "--schedule", "constant") == 1
    assert "holds another run (model linear there, mlp now)" in words(capsys)[1]
    assert train(table, out, "--epochs", "1", "--model", "mlp", "--fresh") == 0
    assert [r["epoch"] for r in read_log(out) if r["kind"] == "epoch"] == [1]


def test_numbers_are_predicted_in_their_units(tmp_path: Path) -> None:
    x = np.linspace(0, 1, 80)
    path = tmp_path / "line.csv"
    rows = [f"{v},{1000 + 300 * v}" for v in x]
    path.write_text("\n".join(["x,price", *rows]) + "\n")
    assert train(path, tmp_path / "run", "--model", "linear", "--epochs", "60", "--lr", "0.1") == 0
    description = json.loads((tmp_path / "run" / "run.json").read_text())
    assert description["classes"] == []
    last = [r for r in read_log(tmp_path / "run") if r["kind"] == "epoch"][-1]
    assert last["val_mae"] < 10


def test_digits_have_their_pictures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    arguments = ["train", "--data", "digits", "--model", "linear", "--epochs", "3"]
    assert main([*arguments, "--out", str(out)]) == 0
    assert "digits · linear · 1,437 train · 360 test" in words(capsys)[0]
    last = [r for r in read_log(out) if r["kind"] == "epoch"][-1]
    assert last["val_accuracy"] > 0.85
    has_matplotlib = importlib.util.find_spec("matplotlib") is not None
    for name in ("curves.png", "predictions.png"):
        assert (out / name).is_file() == has_matplotlib


def test_a_dashboard_of_two_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "log.jsonl").write_text('{"kind": "step", "step": 1, "loss": 2.5}\n')
    out = tmp_path / "both.html"
    folders = [str(tmp_path / "a"), str(tmp_path / "b")]
    assert main(["dashboard", *folders, "--out", str(out)]) == 0
    assert words(capsys)[0] == f"page: {out}\n"
    assert out.read_text().count('"loss":2.5') == 2


def test_a_live_dashboard_ends_with_ctrl_c(tmp_path: Path) -> None:
    # Whoever runs the tests in the background has children ignore Ctrl-C.
    listen = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)"
    start = f"{listen}; from backsolve.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", start, "dashboard", str(tmp_path), "--live"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as live:
        try:
            assert live.stdout is not None
            url = live.stdout.readline().split()[0]
            with urllib.request.urlopen(url, timeout=60) as answer:
                assert b"<!doctype html>" in answer.read()
            live.send_signal(signal.SIGINT)
            _, errors = live.communicate(timeout=60)
        finally:
            live.kill()
    assert (live.returncode, errors) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "--data", "nowhere.csv", "--out", "run"], "no data 'nowhere.csv'"),
        (["train", "--data", "iris", "--out", "run", "--model", "cnn"], "a cnn takes images"),
        (["train", "--data", "TABLE", "--out", "run", "--target", "z"], "has no column 'z'"),
        (["train", "--data", "TABLE", "--out", "run", "--test-share", "2"], "share of the test"),
        (["train", "--data", "TABLE", "--out", "run", "--task", "numbers"], "holds words"),
        (["train", "--data", "TABLE", "--out", "run", "--epochs", "0"], "must be at least 1"),
        (["train", "--data", "TABLE", "--out", "run", "--lr", "0"], "--lr must be above 0"),
        (["predict", "nothing"], "is no run"),
        (["show", "nothing"], "is no run"),
        (["dashboard", "nothing"], "nothing is no folder"),
        (["train", "--data", "digts", "--out", "run"], "did you mean 'digits'?"),
        (["dashboard", "x", "--live", "--out", "y"], "leave out --out, or --live"),
    ],
)
def test_mistakes_are_explained(
    arguments: list[str],
    message: str,
    table: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([str(table) if a == "TABLE" else a for a in arguments]) == 1
    assert message in words(capsys)[1]


def test_help_teaches(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert "backsolve train --data digits" in words(capsys)[0]
    for command in ("train", "predict", "show", "dashboard"):
        with pytest.raises(SystemExit):
            main([command, "--help"])
        assert f"backsolve {command} " in words(capsys)[0]


def test_classes_are_divided_evenly() -> None:
    y = np.repeat([0, 1, 2], [50, 30, 17])
    data = Dataset("x", np.zeros((97, 1)), y, ("a", "b", "c"))
    train, test = divided(data, 0.2, 0)
    assert len(test) == 20
    assert sorted([*train, *test]) == list(range(97))
    assert [int(np.sum(y[test] == k)) for k in range(3)] == [10, 6, 4]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b,y\n1,2.5,u\n3,,v\n4,1.5,u\n", "row 2 of the column 'b' has no number but ''"),
        ("a,b,y\n1,?,u\n3,2,v\n", "row 1 of the column 'b' has no number but '?'"),
        ("a,b,y\n1,2,1.5\n3,2,NaN\n", "row 2 of the column 'y' has no number but 'NaN'"),
        ("a,y\n", "has names of columns, and no rows"),
        ("a,a,y\n1,2,3\n", "has two columns 'a'"),
        ("", "is empty"),
    ],
)
def test_tables_with_gaps_are_refused(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    for read in (lambda: load(str(path)), lambda: bs.data.table(path, "y")):
        with pytest.raises(ValueError, match=re.escape(message)):
            read()


def test_an_empty_word_among_words_is_a_word(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,y\nred,1\n,2\nblue,1\n")
    assert load(str(path)).words == {"a": ["", "blue", "red"]}


def test_whole_numbers_are_classes_and_texts_of_them_too(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,3\n2,10\n3,3.0\n")
    data = load(str(path))
    assert data.classes == ("3", "10")
    np.testing.assert_array_equal(data.y, [0, 1, 0])
    assert load(str(path), task="numbers").classes == ()


def test_images_in_folders(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    for name, level in (("black", 0), ("white", 255)):
        (tmp_path / name).mkdir()
        for k in range(6):
            pixels = np.full((9, 7, 3), level, np.uint8)
            image.fromarray(pixels).save(tmp_path / name / f"{k}.png")
    data = load(str(tmp_path), size=8)
    assert data.x.shape == (12, 3, 8, 8)
    assert data.classes == ("black", "white")
    out = tmp_path / "run"
    assert train(tmp_path, out, "--size", "8", "--model", "linear", "--epochs", "1") == 0


def test_large_folders_are_read_batch_by_batch_to_the_same_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    photos = tmp_path / "photos"
    rng = np.random.default_rng(0)
    for name, level in (("dark", 60), ("light", 160)):
        (photos / name).mkdir(parents=True)
        for k in range(20):
            pixels = (level + rng.integers(0, 90, (9, 7, 3))).astype(np.uint8)
            image.fromarray(pixels).save(photos / name / f"{k}.png")
    settings = ("--size", "8", "--model", "linear", "--schedule", "constant", "--warp")
    assert train(photos, tmp_path / "whole", "--epochs", "4", *settings) == 0

    most: list[int] = []
    take = Images.take

    def watched(self: Images, numbers: Any) -> Any:
        most.append(len(numbers))
        return take(self, numbers)

    monkeypatch.setattr(Images, "take", watched)
    monkeypatch.setattr(datasets, "MOST_BYTES", 1000)
    out = tmp_path / "lazy"
    assert isinstance(load(str(photos), size=8).x, datasets.Files)
    assert most == []
    assert train(photos, out, "--epochs", "2", *settings) == 0
    assert train(photos, out, "--epochs", "4", *settings) == 0
    assert max(most) == 16  # a batch
    weights = (out / "model.safetensors").read_bytes()
    assert weights == (tmp_path / "whole" / "model.safetensors").read_bytes()
    words(capsys)
    assert main(["predict", str(out)]) == 0
    lazy = words(capsys)
    monkeypatch.setattr(datasets, "MOST_BYTES", 1 << 20)
    assert main(["predict", str(out)]) == 0
    assert words(capsys) == lazy


def test_an_image_that_breaks_off_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    (tmp_path / "photos" / "all").mkdir(parents=True)
    path = tmp_path / "photos" / "all" / "half.png"
    image.fromarray(np.random.default_rng(0).integers(0, 255, (64, 64, 3), np.uint8)).save(path)
    path.write_bytes(path.read_bytes()[:2000])
    assert train(tmp_path / "photos", tmp_path / "run") == 1
    assert "half.png cannot be read as an image" in words(capsys)[1]


def test_warping_moves_images_a_little() -> None:
    x = np.zeros((50, 2, 9, 9), np.float32)
    x[:, 0, 3:6, 3:6] = 1
    x[:, 1] = 2 * x[:, 0]
    moved, y = warped((x, np.arange(50)), np.random.default_rng(0))
    assert moved.shape == x.shape
    assert moved.dtype == x.dtype
    np.testing.assert_allclose(moved[:, 1], 2 * moved[:, 0])  # all channels alike
    np.testing.assert_array_equal(y, np.arange(50))
    total = moved[:, 0].sum((1, 2))
    assert np.all((total > 6) & (total < 12))  # 9 / (stretch by at most 1.105 along each side)
    place = np.arange(9.0)
    centre = (moved[:, 0].sum(2) @ place) / total
    assert np.all(np.abs(centre - 4) < 1.3)
    assert centre.std() > 0.3
    again, _ = warped((x, y), np.random.default_rng(0))
    np.testing.assert_array_equal(moved, again)


def test_warped_images_are_zero_outside_and_exact_at_whole_moves() -> None:
    x = np.random.default_rng(1).normal(size=(1, 1, 5, 4)).astype(np.float32)
    down, right = np.mgrid[:5, :4]
    np.testing.assert_array_equal(_between(x, down[None], right[None]), x)
    moved = _between(x, down[None] + 1.0, right[None] - 1.0)
    np.testing.assert_array_equal(moved[0, 0, :4, 1:], x[0, 0, 1:, :3])
    np.testing.assert_array_equal(moved[0, 0, 4], 0)
    np.testing.assert_array_equal(moved[0, 0, :, 0], 0)
    half = _between(x, down[None] + 0.5, right[None] + 0.0)
    np.testing.assert_allclose(half[0, 0, :4], (x[0, 0, :4] + x[0, 0, 1:]) / 2, rtol=1e-5)
