"""What `import backsolve` loads, and that what it leaves for later comes when it is needed."""

from __future__ import annotations

import subprocess
import sys

import pytest

CASES = {
    "a row of its own": "bs.grad(bs.numpy.erf)(0.0)",
    "a plain array": "bs.numpy.expit(np.zeros(2))",
    "scipy's ufunc": "__import__('scipy.special').special.log_expit(bs.tensor([0.0]))",
    "its methods": "__import__('scipy.special').special.xlogy.outer(bs.tensor([0.0]), np.ones(1))",
    "two inputs": "bs.grad(bs.numpy.xlogy, (0, 1))(np.float64(1.0), np.float64(2.0))",
    "a block alone": "bs.grad(bs.numpy.softplus)(0.5)",
    "flat code": "str(bs.source(bs.numpy.gammaln, 2.0))",
}


def run(code: str) -> str:
    start = "import sys, numpy as np, backsolve as bs\nloaded = lambda: 'scipy' in sys.modules\n"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", start + code], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_scipy_and_llvm_are_left_for_later() -> None:
    heavy = "sorted({'scipy', 'llvmlite', 'rich', 'safetensors'} & set(sys.modules))"
    assert run(f"bs.grad(np.tanh)(0.3); bs.numpy.linalg.norm([1.0])\nprint({heavy})") == "[]\n"


def test_parts_that_only_some_need_are_left_for_later() -> None:
    parts = ["control", "rewrite", "nests", "frontend", "compiled", "source.function"]
    names = [*[f"backsolve.{part}" for part in parts], "numpy.ma", "numpy.fft"]
    assert run(f"bs.grad(np.tanh)(0.3)\nprint(sorted(set({names}) & set(sys.modules)))") == "[]\n"


@pytest.mark.parametrize("code", CASES.values(), ids=CASES)
def test_scipy_comes_when_needed(code: str) -> None:
    assert run(f"print(loaded()); {code}; print(loaded())") == "False\nTrue\n"


def test_masked_arrays_are_left_for_later_by_compiled_functions_too() -> None:
    code = "bs.jit(bs.grad(lambda x: np.sum(np.tanh(x) ** 2)))(np.ones(3))"
    assert run(f"{code}; print('numpy.ma' in sys.modules)") == "False\n"


@pytest.mark.parametrize("name", ["erf", "sigmoid", "softplus", "log_sigmoid"])
def test_compiled_functions_do_without(name: str) -> None:
    code = f"bs.jit(bs.hvp(lambda x: np.sum(bs.numpy.{name}(x))))(np.ones(2), np.ones(2))"
    assert run(f"{code}; print(loaded())") == "False\n"


def test_products_need_only_the_part_of_scipy_that_exports_them() -> None:
    """And a later import of the whole package is none the worse for it."""
    lines = [
        "a = np.ones((40, 40))",
        "y = bs.jit(lambda a: np.linalg.solve(a @ a + np.eye(40), a))(a)",
        "print('scipy.linalg' in sys.modules)",
        "import scipy.linalg",
        "print(callable(scipy.linalg.cython_blas.__pyx_capi__.get))",
        "print(np.allclose(y, scipy.linalg.solve(a @ a + np.eye(40), a)))",
    ]
    assert run("\n".join(lines)).split() == ["False", "True", "True"]


def test_threads_that_load_the_part_of_scipy_at_once() -> None:
    lines = [
        "import threading, time",
        "from backsolve.backends.native import blas",
        "make = blas.module_from_spec",
        "def slowly(spec):",
        "    module = make(spec)",
        "    time.sleep(0.2)",
        "    return module",
        "blas.module_from_spec = slowly",
        "found = []",
        "look = lambda: found.append(blas.pointer('dgemm'))",
        "threads = [threading.Thread(target=look) for _ in range(4)]",
        "[t.start() for t in threads]",
        "[t.join() for t in threads]",
        "print(len(found), len(set(found)))",
    ]
    assert run("\n".join(lines)) == "4 1\n"


BARE = """
import importlib.abc, importlib.util
ABSENT = "IPython PIL flatbuffers jax jaxlib matplotlib ml_dtypes onnx pandas sklearn torch".split()
class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ABSENT:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
importlib.util.find_spec = lambda name, find=importlib.util.find_spec: None if name in ABSENT else find(name)
sys.meta_path.insert(0, Absent())
"""


def test_a_base_install_trains_shows_and_has_a_command_line() -> None:
    """Without what only extras bring."""
    lines = [
        "from backsolve import nn",
        "x = np.linspace(-1, 1, 32, dtype=np.float32)[:, None]",
        "fitted = bs.fit(nn.Linear(1, 1), nn.functional.mse_loss, (x, 2 * x), epochs=2, progress=False)",
        "print(len(fitted.history), bs.show(np.sin, 1.0).html[:15].lower())",
        "from backsolve.cli import main",
        "main(['--help'])",
    ]
    shown = run(BARE + "\n".join(lines))
    assert shown.startswith("2 <!doctype html>\n")
    assert "backsolve train" in shown


@pytest.mark.parametrize(
    ("code", "extra"),
    [
        ("bs.jit(np.sin, backend='xla')(1.0)", "xla"),
        ("bs.mesh(data=-1)", "xla"),
        ("bs.interop.stablehlo.text(np.sin, 1.0)", "xla"),
        ("bs.interop.jax.function(np.sin)", "xla"),
        ("bs.interop.torch.function(np.sin)", "torch"),
        ("bs.interop.onnx.load('model.onnx')", "onnx"),
        ("bs.interop.onnx.save(np.sin, 'model.onnx', 1.0)", "onnx"),
        ("import backsolve.sklearn", "train"),
        ("bs.data.Images('images')", "train"),
    ],
)
def test_what_an_extra_brings_is_asked_for_by_its_name(code: str, extra: str) -> None:
    wrapped = f"try:\n    {code}\nexcept ModuleNotFoundError as error:\n    print(error)"
    assert f"backsolve[{extra}]" in run(BARE + wrapped)
