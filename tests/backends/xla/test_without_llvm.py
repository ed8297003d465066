"""Programs run through XLA where llvmlite is not installed."""

import subprocess
import sys

import pytest

pytest.importorskip("jax")

CODE = """
import sys

sys.modules["llvmlite"] = None  # an import of it fails
import numpy as np
import backsolve as bs

F = bs.nn.functional
model = bs.nn.Sequential(bs.nn.Conv2d(1, 2, 3), bs.nn.BatchNorm2d(2), bs.nn.Flatten(), bs.nn.Linear(8, 2))
x, y = np.ones((4, 1, 4, 4), np.float32), np.array([0, 1, 0, 1])
fitted = bs.fit(model, F.cross_entropy, (x, y), precision="bfloat16", progress=False)
print(np.isfinite(fitted.history.last["loss"]), "llvmlite.binding" in sys.modules)
"""


def test_without_llvm():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "True False", done.stderr[-2000:]
