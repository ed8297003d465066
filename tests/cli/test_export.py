"""backsolve export: files that other programs run."""

from pathlib import Path

import numpy as np
import pytest

from backsolve.cli import main

MODEL = """
import numpy as np
from scipy import special
from backsolve import nn

nn.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))

def loss(w, n=2):
    return np.sum(np.tanh(w) ** n)

def odd(x):
    return special.jv(1.5, x)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    pytest.importorskip("onnx")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "exported_model.py").write_text(MODEL)
    return tmp_path


def test_a_function_its_gradient_and_a_module(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from backsolve.interop import onnx

    x = ["--args", "np.ones((2, 3), np.float32)"]
    assert main(["export", "exported_model.py:net", *x, "--onnx", "net.onnx", "--batch"]) == 0
    assert onnx.load(folder / "net.onnx")(np.ones((5, 3), np.float32)).shape == (5, 2)
    w = ["--args", "np.array([0.1, 0.2])"]
    assert main(["export", "exported_model.py:loss", *w, "--grad", "--onnx", "g.onnx"]) == 0
    assert "the gradient of loss(w: float64[2]" in capsys.readouterr().out
    t = np.tanh([0.1, 0.2])
    got = onnx.load(folder / "g.onnx")(np.array([0.1, 0.2]))
    np.testing.assert_allclose(got, 2 * t * (1 - t * t), rtol=1e-12)


def test_the_model_of_a_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from backsolve.cli.folder import read_description, read_model
    from backsolve.interop import onnx

    x = np.random.default_rng(0).normal(size=(40, 2))
    lines = [f"{a},{b},{'up' if a > b else 'down'}" for a, b in x]
    (folder / "points.csv").write_text("\n".join(["a,b,way", *lines]) + "\n")
    assert (
        main(["train", "--data", "points.csv", "--model", "mlp", "--epochs", "1", "--out", "run"])
        == 0
    )
    assert main(["export", "run", "--onnx", "run.onnx", "--batch"]) == 0
    assert "the model of run: run.onnx" in capsys.readouterr().out
    given, model = x[:5].astype(np.float32), read_model(Path("run"), read_description(Path("run")))
    np.testing.assert_allclose(onnx.load("run.onnx")(given), model(given), atol=1e-5)
    assert main(["export", "run", "--onnx", "run.onnx", "--grad"]) != 0
    assert "no --grad" in capsys.readouterr().err


def test_text_of_stablehlo(folder: Path) -> None:
    pytest.importorskip("jax")
    assert main(["export", "exported_model.py:loss", "--args", "2.0", "--stablehlo", "l.mlir"]) == 0
    assert "stablehlo.tanh" in (folder / "l.mlir").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["exported_model.py:loss", "--args", "1.0"], "name a file to write"),
        (
            ["exported_model.py:loss", "--args", "1.0", "--stablehlo", "x", "--batch"],
            "--batch is for",
        ),
        (
            ["exported_model.py:odd", "--args", "1.0", "--onnx", "x.onnx"],
            "ONNX has no form for `jv`",
        ),
    ],
)
def test_mistakes_are_explained(
    words: list[str], message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", *words]) == 1
    assert message in capsys.readouterr().err
    assert not (folder / "x.onnx").exists()
