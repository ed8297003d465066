"""Convolutions and other products whose operands are read where they lie, in compiled code."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve import nn
from backsolve.backends.native import lattice_products, tiling
from backsolve.backends.native.tiles import Large, Registers

F = nn.functional
rng = np.random.default_rng(0)
LARGE = Large(1 << 8, 1 << 15, 2, in_lines=True)  # all is done in many blocks
MACHINES = {
    "by lanes": Registers(16, 4, 4, by_lane=True, cache=1 << 16, near=1 << 16, large=LARGE),
    "of 256 bits": Registers(32, 6, 2, by_lane=False, cache=1 << 15, near=1 << 17, large=LARGE),
    "of 512 bits": Registers(64, 8, 3, by_lane=False, cache=1 << 15, near=1 << 15, large=LARGE),
    "with masks": Registers(
        64, 8, 3, by_lane=False, cache=1 << 15, near=1 << 15, large=LARGE, masks=True
    ),
}
HERE = "where they lie"


@pytest.fixture(params=MACHINES)
def machine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Registers:
    found = MACHINES[request.param]
    for module in (lattice_products, tiling):
        monkeypatch.setattr(module, "registers", lambda: found)
    return found


def normal(*shape: int, dtype: Any = np.float64) -> Any:
    return rng.normal(size=shape).astype(dtype)


def check(f: Any, *args: Any) -> str:
    """Compiled as computed by NumPy, on one thread and on three; what was compiled."""
    compiled, chosen = bs.jit(f), bs.get_threads()
    tolerance = 2e-4 if args[0].dtype == np.float32 else 1e-11
    try:
        for threads in (1, 3):
            bs.set_threads(threads)
            pairs = zip(compiled(*args), f(*args), strict=True)
            for found, expected in pairs:
                np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)
    finally:
        bs.set_threads(chosen)
    return str(compiled.lower(*args).stages["steps"])


def with_gradients(convolve: Any) -> Any:
    """Of a convolution: its value, and the adjoints of both arguments."""

    def f(x: Any, w: Any) -> Any:
        loss = lambda x, w: np.sum(np.sin(convolve(x, w)))
        return convolve(x, w), *bs.grad(loss, (0, 1))(x, w)

    return f


# Rows of 16, 4 and 3 neighbours; margins that differ; more padding than the kernel reaches.
SETTINGS: list[tuple[Any, Any, dict[str, Any]]] = [
    ((3, 8, 16, 16), (12, 8, 3, 3), {"padding": 1}),
    ((4, 16, 4, 4), (24, 16, 3, 3), {"padding": 1}),
    ((2, 6, 13, 20), (9, 6, 5, 3), {"padding": (2, 1)}),
    ((2, 6, 17, 21), (9, 6, 3, 3), {"padding": 2, "dilation": 2}),
    ((2, 6, 20, 20), (9, 6, 4, 4), {"padding": 2}),
    ((2, 6, 30, 31), (9, 6, 2, 3), {}),
    ((2, 7, 12, 11), (10, 7, 3, 3), {"padding": 4}),
]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("shape", "kernel", "settings"), SETTINGS, ids=str)
def test_convolutions_hold_no_windows(
    shape: Any, kernel: Any, settings: Any, dtype: Any, machine: Any
) -> None:
    x, w = normal(*shape, dtype=dtype), normal(*kernel, dtype=dtype)
    steps = check(with_gradients(lambda x, w: F.conv2d(x, w, **settings)), x, w)
    assert steps.count(HERE) == 3
    assert "fold" not in steps


def test_steps_between_windows(machine: Any) -> None:
    """The adjoint of windows that are several steps apart is a fold."""
    x, w = normal(3, 8, 17, 17), normal(12, 8, 3, 3)
    steps = check(with_gradients(lambda x, w: F.conv2d(x, w, stride=2)), x, w)
    assert steps.count(HERE) >= 2
    assert steps.count("fold") == 1


def test_large_margins_are_left_to_fold(machine: Any) -> None:
    x, w = normal(3, 8, 8, 8), normal(24, 8, 5, 5)
    steps = check(with_gradients(F.conv2d), x, w)
    assert steps.count("fold") == 1


@pytest.mark.parametrize("rank", [1, 3])
def test_other_ranks(rank: int, machine: Any) -> None:
    convolve = {1: F.conv1d, 3: F.conv3d}[rank]
    size = {1: (300,), 3: (6, 7, 8)}[rank]
    x, w = normal(3, 6, *size), normal(10, 6, *(3,) * rank)
    steps = check(with_gradients(lambda x, w: convolve(x, w, padding=1)), x, w)
    assert steps.count(HERE) == 3


def test_transposed_convolutions_read_all_of_their_fold(machine: Any) -> None:
    x, w = normal(3, 8, 20, 20), normal(8, 12, 3, 3)
    steps = check(with_gradients(F.conv_transpose2d), x, w)
    assert steps.count(HERE) == 3
    assert "fold" not in steps


def test_a_fold_with_several_readers(machine: Any) -> None:
    def f(x: Any, w: Any) -> Any:
        y = F.conv_transpose2d(x, w)
        return y[:, :, 1:-1, 1:-1] * 2, y[:, :, ::2, 3], y

    check(f, normal(3, 8, 20, 20), normal(8, 12, 3, 3))


def test_second_derivatives(machine: Any) -> None:
    x, w = normal(2, 5, 12, 12), normal(8, 5, 3, 3)
    loss = lambda x, w: np.sum(np.sin(F.conv2d(x, w, padding=1)))
    turn = lambda x, w: np.sum(bs.grad(loss, 1)(x, w) ** 2)
    check(lambda x, w: bs.grad(turn, (0, 1))(x, w), x, w)


def test_operands_with_axes_in_any_order(machine: Any) -> None:
    a, b = normal(7, 12, 5, 16), normal(16, 24, 7)
    f = lambda a, b: (np.einsum("tikc,cjt->kij", a, b), np.einsum("tikc,cjt->jki", a, b))
    steps = check(f, a, b)
    assert steps.count(HERE) == 2


def test_infinities_stay_where_they_belong(machine: Any) -> None:
    """Lines that fill up the last panel are read, but not seen."""
    x, w = normal(3, 8, 9, 11), normal(12, 8, 3, 3)
    x[0, 0, 0, 0] = np.inf
    steps = check(lambda x, w: (F.conv2d(x, np.abs(w)),), x, w)
    assert HERE in steps


def test_where_blas_is_faster_it_does_convolutions(monkeypatch: pytest.MonkeyPatch) -> None:
    found = replace(MACHINES["by lanes"], large=replace(LARGE, in_lines=False))
    for module in (lattice_products, tiling):
        monkeypatch.setattr(module, "registers", lambda: found)
    x, w = normal(3, 8, 16, 16), normal(12, 8, 3, 3)
    steps = check(with_gradients(lambda x, w: F.conv2d(x, w, padding=1)), x, w)
    assert HERE not in steps
    assert "fold" in steps
