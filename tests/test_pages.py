"""Freed memory is used again."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

FAULTS = """
import resource
import numpy as np
import backsolve as bs

x = np.ones(100_000)
gradient = bs.grad(lambda x: np.sum(np.sqrt(x) / x))
for _ in range(5):
    gradient(x)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    gradient(x)
print((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / 20)
"""


@pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="other C libraries have other ways to keep memory"
)
def test_gradients_take_no_fresh_pages():
    """Each array of the gradient has 196 pages."""
    done = subprocess.run(
        [sys.executable, "-c", FAULTS], capture_output=True, text=True, check=True
    )
    assert float(done.stdout) < 100
