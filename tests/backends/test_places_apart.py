"""Loads from many places by the processor's own instruction or one by one, and functions along whole loops."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from llvmlite import binding

import backsolve as bs
from backsolve.backends.native import build
from backsolve.backends.native.compile import scheduled
from backsolve.backends.native.kernel import Kernel
from backsolve.backends.native.nests import walk
from backsolve.ir import Type
from backsolve.rewrite import rewrite_for_machines
from backsolve.trace import stage


@pytest.mark.parametrize(
    ("has", "one_by_one", "nbytes"),
    [
        ({"avx", "avx2", "avx512f"}, True, 32),  # Skylake
        ({"avx", "avx2", "avx512f", "avx512vbmi2"}, True, 64),  # Ice Lake
        ({"avx", "avx2", "avx512f", "avx512vbmi2", "avxvnni"}, False, 64),  # Sapphire Rapids
        ({"neon"}, False, 16),
    ],
)
def test_loads_of_many_places_are_single_ones_where_that_is_faster(
    has: set[str], one_by_one: bool, nbytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = binding.FeatureMap(dict.fromkeys(has, True))
    monkeypatch.setattr(binding, "get_host_cpu_features", lambda: found)
    monkeypatch.setattr(build, "vector_bytes", build.vector_bytes.__wrapped__)
    told = build.features.__wrapped__()
    assert ("prefer-no-gather" in told) == ("prefer-no-scatter" in told) == one_by_one
    assert build.vector_bytes() == nbytes


@pytest.mark.parametrize(("width", "rank"), [(6, 1), (8, 2), (100, 2)])
def test_functions_run_along_whole_loops_where_rows_are_short(width: int, rank: int) -> None:
    """Written in place into longer rows, they would run along six numbers at a time."""

    def padded(x: np.ndarray) -> np.ndarray:
        return np.concatenate([np.sin(x), np.zeros((50, 1))], axis=1)

    program = stage(lambda x: [padded(x)], [Type((50, width), np.dtype(float))])[0]
    steps = scheduled(rewrite_for_machines(program))[0].steps
    (kernel,) = [s for s in steps if isinstance(s, Kernel) and s.statements]
    assert len(walk(kernel, kernel.views())[0]) == rank


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.tanh(x.T * 3.0 + 1.0),
        lambda x: (x.T * x[:47, :47, None][..., 0].sum() + 1.0) * 2.0,
        lambda x: x[:, ::5] * 2.0 - 1.0,
        lambda x: np.stack([x[:, 0] * 3.0, np.sin(x[:, 1]), x[:, 2]], axis=1),
        lambda x: np.concatenate([x.T * 2.0, x.T[:, ::7]], axis=1),
    ],
)
def test_entries_of_a_vector_are_found_without_multiplying_indices(f: Any) -> None:
    x = np.random.default_rng(0).normal(size=(300, 47))
    compiled = bs.jit(f)
    np.testing.assert_allclose(compiled(x), f(x), rtol=1e-13)
    assert not re.search(r" mul [a-z ]*<\d+ x i64>", compiled.lower(x).stages["llvm"])
