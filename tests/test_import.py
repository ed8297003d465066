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
