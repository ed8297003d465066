"""Products in tiles of our own, block by block, beside SciPy's BLAS, on one thread.

    python benchmarks/products.py                          # the tiles of this processor
    python benchmarks/products.py 8x3 12x2                 # 8 rows and 3 vectors, 12 rows and 2
    python benchmarks/products.py 8x3 256,1024,32,4,1      # and terms, columns, rows of a block,
                                                           # tiles in a group, whether A is packed
Each round runs all of them in turn, for the clock of a processor changes with what its neighbours do: given
are BLAS's best GFlop/s, and the medians of the speeds beside BLAS in the same round.
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
from backsolve.backends.native import blas, blocks, build, library, tiles
from backsolve.backends.native.repeat import loop_between

SHAPES = {  # m, terms, n, whether A and B lie transposed
    (512, 512, 512): (False, False),
    (1024, 1024, 1024): (False, False),
    (128, 784, 512): (False, False),
    (784, 128, 512): (True, False),
    (128, 512, 784): (False, True),
    (128, 512, 256): (False, False),
    (32, 128, 128): (False, False),
    (16, 192, 512): (False, False),
}
ROUNDS = 25
TURN = 0.003  # seconds
INT = ir.IntType(64)


def main() -> None:
    bs.set_threads(1)
    found = tiles.registers()
    assert found is not None, "this processor has no tiles"
    sizes = [tuple(map(int, x.split("x"))) for x in sys.argv[1:] if "x" in x]
    kinds = [replace(found, rows=rows, vectors=vectors) for rows, vectors in sizes] or [found]
    settings = [tuple(map(int, x.split(","))) for x in sys.argv[1:] if "," in x]
    for (m, terms, n), flips in SHAPES.items():
        rng = np.random.default_rng(0)
        shapes = (m, terms)[:: 1 - 2 * flips[0]], (terms, n)[:: 1 - 2 * flips[1]]
        lying = [rng.normal(size=shape).astype(np.float32) for shape in shapes]
        a, b = (x.T if flip else x for x, flip in zip(lying, flips, strict=True))
        product = bs.jit(lambda a, b, f=flips: (a.T if f[0] else a) @ (b.T if f[1] else b))
        runs = {"jit": lambda times, f=product, x=lying: [f(*x) for _ in range(times)]}
        for kind in kinds:
            for setting in settings or [(256, 1024, 32, 4, 1)]:
                name = f"{kind.rows}x{kind.vectors} {','.join(map(str, setting))}"
                c = np.empty((m, n), np.float32)
                runs[name] = in_blocks(a, b, c, kind, *setting)
                runs[name](1)
                np.testing.assert_allclose(c, a @ b, atol=1e-2)
        best, ratios = compared(by_blas(a, b), list(runs.values()))
        letters = "".join(x for x, flip in zip(("Aᵀ", "Bᵀ"), flips, strict=True) if flip)
        line = [f"{name}: {ratio:.2f}" for name, ratio in zip(runs, ratios, strict=True)]
        print((m, terms, n), letters, f"BLAS {2e-9 * m * terms * n / best:.0f};", *line, flush=True)


def compared(first: Any, others: list[Any]) -> tuple[float, list[float]]:
    """The best time of the first, and how much faster each other one is in the same round."""
    runs = [first, *others]
    turns = []
    for run in runs:
        run(1)
        turns.append(max(1, round(TURN / max(timed(run, 2), 1e-7))))
    times = [[timed(run, n) for run, n in zip(runs, turns, strict=True)] for _ in range(ROUNDS)]
    ratios = [float(np.median([t[0] / t[k] for t in times])) for k in range(1, len(runs))]
    return min(t[0] for t in times), ratios


def timed(run: Any, turns: int) -> float:
    started = time.thread_time()
    run(turns)
    return (time.thread_time() - started) / turns


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
) -> Callable[[int], None]:
    dtype, (m, all_terms), n = a.dtype, a.shape, b.shape[1]
    height, width = found.rows, found.columns(dtype)
    terms = -(-all_terms // -(-all_terms // terms))
    columns = -(-min(columns, n) // width) * width
    rows = -(-min(rows or m, m) // height) * height
    steps = [x // dtype.itemsize for x in (*a.strides, *b.strides, c.strides[0])]
    unit = "panel" if packed else "terms" if steps[1] == 1 else "rows" if steps[0] == 1 else ""
    module = ir.Module()
    functions = blocks.functions(module, dtype, found, steps[:2], steps[2:4])
    functions += [
        tiles.tile_of(dtype, p, q, unit, found, adds).function(module)
        for adds in (False, True)
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
    given = [*data, *[x.ctypes.data for x in rooms], *steps, 0, *sizes, *others]
    return repeated(address, given, (rooms, a, b, c))


def repeated(address: int, given: list[int], keep: Any) -> Callable[[int], None]:
    """`run(times)`: so many calls of a function with these words, without Python in between."""
    module = ir.Module()
    go = ir.Function(module, ir.FunctionType(ir.VoidType(), [INT]), "go")
    b = ir.IRBuilder(go.append_basic_block("entry"))
    called = ir.FunctionType(ir.VoidType(), [INT] * len(given)).as_pointer()
    function, words = b.inttoptr(INT(address), called), [INT(x) for x in given]
    loop_between(b, INT(0), go.args[0], lambda b, i: b.call(function, words))
    b.ret_void()
    engine, _ = build.load(str(module), in_vectors=True)
    call = ctypes.CFUNCTYPE(None, ctypes.c_int64)(engine.get_function_address("go"))
    return lambda times, keep=(keep, engine): call(times)


def aligned(size: int) -> Any:
    room = np.empty(size + 64, np.uint8)
    return room[-room.ctypes.data % 64 :][:size]


def by_blas(a: Any, b: Any) -> Callable[[int], None]:
    """C = A B as Cᵀ = Bᵀ Aᵀ, for BLAS counts columns first."""
    m, terms = a.shape
    n = b.shape[1]
    c = np.empty((m, n), a.dtype)
    flips = [x.strides[0] == x.itemsize for x in (b, a)]
    leading = [max(x.strides) // x.itemsize for x in (b, a)]
    letters = [ctypes.c_char(b"T" if flip else b"N") for flip in flips]
    sizes = [ctypes.c_int(x) for x in (n, m, terms, *leading, n)]
    numbers = [np.array([x], a.dtype) for x in (1.0, 0.0)]
    one, zero = (x.ctypes.data for x in numbers)
    n_, m_, terms_, ldb, lda, ldc = map(ctypes.addressof, sizes)
    given = [*map(ctypes.addressof, letters), n_, m_, terms_, one, b.ctypes.data, ldb]
    given += [a.ctypes.data, lda, zero, c.ctypes.data, ldc]
    return repeated(blas.pointer("sgemm"), given, (letters, sizes, numbers, a, b, c))


if __name__ == "__main__":
    main()
