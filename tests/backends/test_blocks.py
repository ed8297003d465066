"""Products block by block, both operands in panels: all layouts, and sums that start with something."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest
from llvmlite import ir

from backsolve.backends.native import blocks, library
from backsolve.backends.native.tiles import Registers, Tile

rng = np.random.default_rng(0)
MACHINES = {
    "by lanes": Registers(16, 4, 4, by_lane=True, cache=1 << 16, near=1 << 16),
    "of 256 bits": Registers(32, 6, 2, by_lane=False, cache=1 << 15, near=1 << 17),
    "of 512 bits": Registers(64, 8, 3, by_lane=False, cache=1 << 15, near=1 << 18),
}
SIZES = [(5, 7, 9), (33, 70, 101), (64, 64, 96), (1, 300, 50), (130, 257, 31)]


def multiply(
    a: Any, b: Any, c: Any, start: Any, found: Registers, sizes: list[int], packed: bool
) -> None:
    """C = start + A B by the function itself; `sizes` are terms, columns, rows of a block and its group."""
    dtype, (m, terms), n = c.dtype, a.shape, b.shape[1]
    height, width, lanes = found.rows, found.columns(dtype), found.lanes(dtype)
    steps = [x // dtype.itemsize for x in (*a.strides, *b.strides, c.strides[0])]
    start_step = 0 if start is None or start.ndim == 1 else start.strides[0] // dtype.itemsize
    unit = "panel" if packed else "terms" if steps[1] == 1 else "rows" if steps[0] == 1 else ""
    module = ir.Module()
    called = blocks.functions(module, dtype, found)
    called += [
        Tile(dtype, rows, -(-columns // lanes), unit, found).function(module)
        for rows in (min(m, height), m % height or height)
        for columns in (min(n, width), n % width or width)
    ]
    called.append(blocks.blocks_function(module, dtype, found))
    library.build_wanted()
    *others, address = (library.address(x.name.removeprefix("backsolve_")) for x in called)
    rooms = [np.empty(sizes[0] * size, dtype).ctypes for size in (sizes[2], sizes[1])]
    data = [
        a.ctypes.data,
        b.ctypes.data,
        c.ctypes.data,
        start.ctypes.data if start is not None else 0,
    ]
    words = [*steps, start_step, m, n, terms, *sizes, packed]
    given = [*data, *[room.data for room in rooms], *words, *others]
    ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * len(given))(address)(*given)


@pytest.mark.parametrize("found", MACHINES.values(), ids=MACHINES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_layouts_blocks_and_starts(
    size: tuple[int, int, int], dtype: Any, found: Registers
) -> None:
    m, terms, n = size
    tolerance = 1e-4 if dtype == np.float32 else 1e-12
    a, b = rng.normal(size=(m, terms)).astype(dtype), rng.normal(size=(terms, n)).astype(dtype)
    height, width = found.rows, found.columns(np.dtype(dtype))
    settings = [[64, width, 2 * height, 1], [300, 6 * width, 40 * height, 3]]
    starts = [None, rng.normal(size=n).astype(dtype), rng.normal(size=(m, n)).astype(dtype)]
    for x in (a, a.T.copy().T):
        for y in (b, b.T.copy().T):
            for sizes in settings:
                for start in starts:
                    for packed in (False, True):
                        c = np.full((m, n), np.nan, dtype)
                        multiply(x, y, c, start, found, sizes, packed)
                        expected = a @ b + (0 if start is None else start)
                        np.testing.assert_allclose(c, expected, rtol=tolerance, atol=tolerance)
