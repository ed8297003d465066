"""Products block by block, both operands in panels: all layouts, sums that are added to others."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from llvmlite import ir

import backsolve as bs
from backsolve.backends.native import blocks, library, tiling
from backsolve.backends.native.tiles import Large, Registers, tile_of

rng = np.random.default_rng(0)
MACHINES = {
    "by lanes": Registers(16, 4, 4, by_lane=True, cache=1 << 16, near=1 << 16),
    "of 256 bits": Registers(32, 6, 2, by_lane=False, cache=1 << 15, near=1 << 17),
    "of 512 bits": Registers(64, 8, 3, by_lane=False, cache=1 << 15, near=1 << 18),
    "with masks": Registers(64, 8, 3, by_lane=False, cache=1 << 15, near=1 << 18, masks=True),
}
SMALL = Large(1 << 10, 1 << 17, 3, in_lines=True)
SIZES = [(5, 7, 9), (33, 70, 101), (64, 64, 96), (1, 300, 50), (130, 257, 31)]


def multiply(
    a: Any, b: Any, c: Any, adds: bool, found: Registers, sizes: list[int], packed: bool
) -> None:
    """C (+)= A B by the function itself; `sizes` are terms, columns, rows of a block and its group."""
    dtype, (m, terms), n = c.dtype, a.shape, b.shape[1]
    height, width = found.rows, found.columns(dtype)
    steps = [x // dtype.itemsize for x in (*a.strides, *b.strides, c.strides[0])]
    unit = "panel" if packed else "terms" if steps[1] == 1 else "rows" if steps[0] == 1 else ""
    module = ir.Module()
    called = blocks.functions(module, dtype, found, steps[:2], steps[2:4])
    called += [
        tile_of(dtype, rows, columns, unit, found, later).function(module)
        for later in (adds, True)
        for rows in (min(m, height), m % height or height)
        for columns in (min(n, width), n % width or width)
    ]
    called.append(blocks.blocks_function(module, dtype, found))
    library.build_wanted()
    *others, address = (library.address(x.name.removeprefix("backsolve_")) for x in called)
    rooms = [np.empty(sizes[0] * size, dtype).ctypes for size in (sizes[2], sizes[1])]
    data = [x.ctypes.data for x in (a, b, c)]
    words = [*steps, adds, m, n, terms, *sizes, packed]
    given = [*data, *[room.data for room in rooms], *words, *others]
    ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * len(given))(address)(*given)


@pytest.mark.parametrize("found", MACHINES.values(), ids=MACHINES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_layouts_and_blocks(size: tuple[int, int, int], dtype: Any, found: Registers) -> None:
    m, terms, n = size
    tolerance = 1e-4 if dtype == np.float32 else 1e-12
    a, b = rng.normal(size=(m, terms)).astype(dtype), rng.normal(size=(terms, n)).astype(dtype)
    height, width = found.rows, found.columns(np.dtype(dtype))
    settings = [[64, width, 2 * height, 1], [300, 6 * width, 40 * height, 3]]
    for x in (a, a.T.copy().T):
        for y in (b, b.T.copy().T):
            for sizes in settings:
                for adds in (False, True):
                    for packed in (False, True):
                        c = normal(m, n, dtype=dtype) if adds else np.full((m, n), np.nan, dtype)
                        expected = a @ b + (c if adds else 0)
                        multiply(x, y, c, adds, found, sizes, packed)
                        np.testing.assert_allclose(c, expected, rtol=tolerance, atol=tolerance)


@pytest.fixture(params=[x for x in MACHINES if x != "by lanes"])
def machine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Registers:
    """One that keeps nothing for BLAS, with caches so small that all is done in many blocks."""
    found = replace(MACHINES[request.param], cache=1 << 14, near=0, large=SMALL)
    monkeypatch.setattr(tiling, "registers", lambda: found)
    return found


def normal(*shape: int, dtype: Any = np.float64) -> Any:
    return rng.normal(size=shape).astype(dtype)


def steps(f: Any, *args: Any) -> str:
    return str(f.lower(*args).stages["steps"])


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [(37, 1030, 61), (40, 1100, 300), (301, 1300, 33), (35, 1025, 49)])
def test_large_products_of_programs(
    size: tuple[int, int, int], dtype: Any, threads: int, machine: Any
) -> None:
    m, k, n = size
    a, b = normal(m, k, dtype=dtype), normal(k, n, dtype=dtype)
    products = {
        "A B": (lambda a, b: a @ b, a, b),
        "A Bᵀ": (lambda a, b: a @ b.T, a, b.T.copy()),
        "Aᵀ B": (lambda a, b: a.T @ b, a.T.copy(), b),
        "Aᵀ Bᵀ": (lambda a, b: a.T @ b.T, a.T.copy(), b.T.copy()),
        "every second": (lambda a, b: a[::2] @ b[:, ::-1], a, b),
    }
    chosen, tolerance = bs.get_threads(), 1e-3 if dtype == np.float32 else 1e-11
    try:
        bs.set_threads(threads)
        for name, (f, x, y) in products.items():
            compiled = bs.jit(f)
            if name != "every second":  # which may be part of a sweep
                assert "in blocks of tiles" in steps(compiled, x, y)
            np.testing.assert_allclose(compiled(x, y), f(x, y), rtol=tolerance, atol=tolerance)
    finally:
        bs.set_threads(chosen)


def test_gradients_of_a_layer(machine: Any) -> None:
    x, w, bias = normal(50, 1200), normal(1200, 70) / 35, normal(70)
    f = bs.grad(lambda x, w, bias: np.mean(np.tanh(x @ w + bias) ** 2), (0, 1, 2))
    compiled = bs.jit(f)
    assert "in blocks of tiles" in steps(compiled, x, w, bias)
    for got, expected in zip(compiled(x, w, bias), f(x, w, bias), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-12)


def test_blocks_in_a_loop(machine: Any) -> None:
    h, u = normal(40, 1100), normal(1100, 1100) / 40

    def f(h: Any, u: Any) -> Any:
        return bs.scan(lambda h, _: (np.tanh(h @ u), None), h, np.ones(3))[0]

    compiled = bs.jit(f)
    assert "in blocks of tiles" in steps(compiled, h, u)
    np.testing.assert_allclose(compiled(h, u), f(h, u), rtol=1e-10, atol=1e-10)


def test_only_what_a_nan_enters_is_spoiled(machine: Any) -> None:
    a, b = normal(30, 1040), normal(1040, 53)
    a[3, 5], b[1039, 52] = np.nan, np.nan
    got = bs.jit(lambda a, b: a @ b)(a, b)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(a @ b))


def test_complex_and_stacked_products_stay_with_blas(machine: Any) -> None:
    f = bs.jit(lambda a, b: a @ b)
    for a, b in (
        (normal(32, 1100) + 1j, normal(1100, 32) + 1j),
        (normal(3, 32, 1100), normal(3, 1100, 32)),
    ):
        assert "tiles" not in steps(f, a, b)
        np.testing.assert_allclose(f(a, b), a @ b, rtol=1e-11, atol=1e-11)


def test_where_blas_is_as_fast_it_keeps_rows_in_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    large = replace(SMALL, in_lines=False)
    monkeypatch.setattr(tiling, "registers", lambda: replace(MACHINES["by lanes"], large=large))
    x, d, w = normal(100, 800), normal(100, 200), normal(200, 700)
    turned, in_lines = bs.jit(lambda x, d: x.T @ d), bs.jit(lambda d, w: d @ w)
    assert "in blocks of tiles" in steps(turned, x, d)
    assert "tiles" not in steps(in_lines, d, w)
    np.testing.assert_allclose(turned(x, d), x.T @ d, rtol=1e-12, atol=1e-12)
