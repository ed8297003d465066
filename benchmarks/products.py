"""Products in tiles of our own, block by block, beside SciPy's BLAS: GFlop/s on one thread.

    python benchmarks/products.py                  # the tiles of this processor
    python benchmarks/products.py 8x3 12x2         # tiles of 8 rows and 3 vectors, of 12 rows and 2

Time is the thread's own, so that other load on the machine counts little.
"""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from llvmlite import ir

import backsolve as bs
from backsolve.backends.native import blas, blocks, library, tiles

SHAPES = {  # m, terms, n, whether A and B lie transposed
    (512, 512, 512): (False, False),
    (1024, 1024, 1024): (False, False),
    (128, 784, 512): (False, False),
    (784, 128, 512): (True, False),
    (128, 512, 784): (False, True),
    (32, 128, 128): (False, False),
    (16, 192, 512): (False, False),
}
SETTINGS = [  # terms, columns and rows of a block, tiles of rows that meet a panel, whether A is packed
    (128, 1024, 0, 0, 1),
    (256, 1024, 0, 0, 1),
    (256, 1024, 32, 4, 1),
    (384, 1024, 0, 1, 1),
    (384, 1024, 16, 2, 1),
    (256, 1024, 0, 4, 0),
    (128, 1024, 0, 0, 0),
]


def main() -> None:
    bs.set_threads(1)
    found = tiles.registers()
    assert found is not None, "this processor has no tiles"
    kinds = [found]
    if sizes := sys.argv[1:]:
        kinds = [
            replace(found, rows=rows, vectors=vectors)
            for rows, vectors in (map(int, size.split("x")) for size in sizes)
        ]
    print("processor:", library.build.machine().triple, library.binding.get_host_cpu_name())
    for (m, terms, n), (flip_a, flip_b) in SHAPES.items():
        rng = np.random.default_rng(0)
        shapes = ((terms, m) if flip_a else (m, terms)), ((n, terms) if flip_b else (terms, n))
        a, b = (rng.normal(size=shape).astype(np.float32) for shape in shapes)
        a, b = a.T if flip_a else a, b.T if flip_b else b
        billions = 2e-9 * m * terms * n
        product = bs.jit(lambda a, b, f=flip_a, g=flip_b: (a.T if f else a) @ (b.T if g else b))
        args = a.T if flip_a else a, b.T if flip_b else b
        speeds = {
            "BLAS": by_blas(a, b),
            "NumPy": lambda a=a, b=b: a @ b,
            "jit": lambda args=args, f=product: f(*args),
        }
        line = [f"{name} {billions / best(run):.0f}" for name, run in speeds.items()]
        print((m, terms, n), "AT" if flip_a else "", "BT" if flip_b else "", "; ".join(line))
        for kind in kinds:
            line = []
            for setting in SETTINGS:
                c = np.empty((m, n), np.float32)
                run = in_blocks(a, b, c, kind, *setting)
                run()
                np.testing.assert_allclose(c, a @ b, atol=1e-2)
                line.append(f"{setting} {billions / best(run):.0f}")
            print(f"   {kind.rows} x {kind.columns(c.dtype)}:", ", ".join(line), flush=True)


def in_blocks(
    a: Any,
    b: Any,
    c: Any,
    found: tiles.Registers,
    terms: int,
    columns: int,
    rows: int,
    group: int,
    packed: int,
) -> Callable[[], None]:
    dtype, (m, all_terms), n = a.dtype, a.shape, b.shape[1]
    height, width, lanes = found.rows, found.columns(dtype), found.lanes(dtype)
    terms = -(-all_terms // -(-all_terms // terms))
    columns = -(-min(columns, n) // width) * width
    rows = -(-min(rows or m, m) // height) * height
    steps = [x // dtype.itemsize for x in (*a.strides, *b.strides, c.strides[0])]
    unit = "panel" if packed else "terms" if steps[1] == 1 else "rows" if steps[0] == 1 else ""
    module = ir.Module()
    functions = blocks.functions(module, dtype, found)
    functions += [
        tiles.Tile(dtype, p, -(-q // lanes), unit, found).function(module)
        for p in (min(m, height), m % height or height)
        for q in (min(n, width), n % width or width)
    ]
    whole = blocks.blocks_function(module, dtype, found)
    library.build_wanted()
    address, *others = (
        library.address(x.name.removeprefix("backsolve_")) for x in (whole, *functions)
    )
    rooms = [aligned(size * terms * dtype.itemsize) for size in (rows, columns)]
    sizes = [m, n, all_terms, terms, columns, rows, group or rows // height, packed]
    data = [x.ctypes.data for x in (a, b, c)]
    given = [*data, 0, *[x.ctypes.data for x in rooms], *steps, 0, *sizes, *others]
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * len(given))(address)
    return lambda keep=rooms: call(*given)


def aligned(size: int) -> Any:
    room = np.empty(size + 64, np.uint8)
    return room[-room.ctypes.data % 64 :][:size]


def by_blas(a: Any, b: Any) -> Callable[[], None]:
    """C = A B as Cᵀ = Bᵀ Aᵀ, for BLAS counts columns first."""
    m, terms = a.shape
    n = b.shape[1]
    c = np.empty((m, n), a.dtype)
    flips = [x.strides[0] == x.itemsize for x in (b, a)]
    leading = [max(x.strides) // x.itemsize for x in (b, a)]
    letters = [ctypes.c_char(b"T" if flip else b"N") for flip in flips]
    sizes = [ctypes.c_int(x) for x in (n, m, terms, *leading, n)]
    numbers = [np.array([x], a.dtype) for x in (1.0, 0.0)]
    n_, m_, terms_, ldb, lda, ldc = map(ctypes.addressof, sizes)
    data = [x.ctypes.data for x in (numbers[0], b, a, numbers[1], c)]
    given = [*map(ctypes.addressof, letters), n_, m_, terms_, *data[:2], ldb, data[2], lda]
    given += [data[3], data[4], ldc]
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 13)(blas.pointer("sgemm"))
    return lambda keep=(letters, sizes, numbers, c): call(*given)


def best(run: Callable[[], Any], seconds: float = 0.15) -> float:
    started = time.thread_time()
    run()
    turns = max(1, int(0.003 / max(time.thread_time() - started, 1e-6)))
    times = []
    while sum(times) * turns < seconds or len(times) < 5:
        started = time.thread_time()
        for _ in range(turns):
            run()
        times.append((time.thread_time() - started) / turns)
    return min(times)


if __name__ == "__main__":
    main()
