"""What a job of the thread pool costs, and products in it beside products by OpenBLAS's own threads.

    python benchmarks/threads.py

Turns are interleaved; the best of each and the median, which shows what other load on the machine does.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir

import backsolve as bs
from backsolve.backends.native import blas, threads
from backsolve.backends.native.build import load
from backsolve.backends.native.pool_code import BODY, CODE, INT, POINTER, Word, loop

DOUBLE, CINT = ir.DoubleType(), ir.IntType(32)
Emit = Callable[[ir.IRBuilder, ir.Value, ir.Value, ir.Value], Any]


def compiled(emit: Emit) -> tuple[Any, Any]:
    """`go(context, n, most, times)`: the body that `emit(b, context, low, high)` makes, as a job."""
    module = ir.Module("benchmark")
    body = ir.Function(module, BODY, "body")
    b = ir.IRBuilder(body.append_basic_block("entry"))
    b.ret(emit(b, *body.args[:3]) or CODE(0))
    go = ir.Function(module, ir.FunctionType(ir.VoidType(), [POINTER, INT, INT, INT]), "go")
    b = ir.IRBuilder(go.append_basic_block("entry"))
    context, n, most, times = go.args
    with loop(b, INT(0), times):
        b.call(threads.parallel(module), [body, context, n, most])
    b.ret_void()
    engine, _ = load(str(module))
    words = [ctypes.c_void_p, *[ctypes.c_int64] * 3]
    return ctypes.CFUNCTYPE(None, *words)(engine.get_function_address("go")), engine


def chain(b: ir.IRBuilder, context: ir.Value, low: ir.Value, high: ir.Value) -> ir.Value:
    """A loop that no core can hurry: each turn waits for the last."""
    place = b.alloca(DOUBLE)
    b.store(DOUBLE(1.0), place)
    with loop(b, low, high):
        b.store(b.fadd(b.fmul(b.load(place), DOUBLE(0.99)), DOUBLE(0.1)), place)
    return b.zext(b.fcmp_ordered("<", b.load(place), DOUBLE(0.0)), CODE)


def gemm(
    b: ir.IRBuilder, context: ir.Value, size: int, rows: Any, low: ir.Value, each: int
) -> None:
    """`rows` rows of C = A B, from the entry low · each of A, C (and B, if each matrix has its own)."""
    slot = b.alloca(CINT)
    b.store(rows if isinstance(rows, ir.Value) else CINT(rows), slot)
    words = b.bitcast(context, INT.as_pointer())
    offset = b.mul(low, INT(8 * each))
    starts = [b.load(b.gep(words, [INT(k)])) for k in range(3)]
    moved = [True, each > size, True]
    A, B, C = (
        b.inttoptr(b.add(s, offset) if m else s, DOUBLE.as_pointer())
        for s, m in zip(starts, moved, strict=True)
    )
    args = ("N", "N", size, slot, size, 1.0, B, size, A, size, 0.0, C, size)
    blas.fortran(b, np.dtype(float), "gemm", *args)


def stack(size: int) -> Emit:
    def emit(b: ir.IRBuilder, context: ir.Value, low: ir.Value, high: ir.Value) -> None:
        with loop(b, low, high) as k:
            gemm(b, context, size, size, k, size * size)

    return emit


def by_rows(size: int) -> Emit:
    def emit(b: ir.IRBuilder, context: ir.Value, low: ir.Value, high: ir.Value) -> None:
        gemm(b, context, size, b.trunc(b.sub(high, low), CINT), low, size)

    return emit


def contest(title: str, turns: dict[str, Callable[[], None]], rounds: int, repeat: int = 1) -> None:
    seconds: dict[str, list[float]] = {name: [] for name in turns}
    for _ in range(rounds):
        for name, turn in turns.items():
            time.sleep(0.07)  # OpenBLAS's threads spin so long after a product
            for _ in range(3):
                start = time.perf_counter()
                turn()
                seconds[name].append((time.perf_counter() - start) / repeat)
    print(title)
    for name, found in seconds.items():
        print(f"    {name:34s}{min(found) * 1e6:10.2f} µs   median {np.median(found) * 1e6:10.2f}")


def after_rest(title: str, turn: Callable[[], None]) -> None:
    found = []
    for _ in range(200):
        time.sleep(1e-3)
        start = time.perf_counter()
        turn()
        found.append(time.perf_counter() - start)
    print(f"{title}: {min(found) * 1e6:.2f} µs, median {np.median(found) * 1e6:.2f}")


def products(title: str, emit: Emit, size: int, count: int, n: int) -> None:
    A, B = np.random.default_rng(0).random((2, count, size, size))
    C = np.empty_like(A)
    context = np.array([x.ctypes.data for x in (A, B, C)])
    go, engine = compiled(emit)
    found = threads._blas()
    if found is None:
        print(title, "left out: SciPy's BLAS is not OpenBLAS")
        return
    words, T, set_ = threads.pool().words, bs.get_threads(), found[1]
    guard = words[Word.BLAS_SET]

    def turn(most: int, own: int, guarded: bool = True) -> Callable[[], None]:
        def run() -> None:
            set_(own)
            words[Word.BLAS_SET] = guard if guarded else 0
            go(context.ctypes.data, n, most, 1)
            words[Word.BLAS_SET] = guard

        return run

    turns = {
        "OpenBLAS, 1 thread": turn(1, 1),
        f"OpenBLAS, {T} threads": turn(1, T),
        f"{T} workers, OpenBLAS {T} threads": turn(T, T, guarded=False),
        f"{T} workers, OpenBLAS 1 thread": turn(T, T),
    }
    contest(title, turns, 8)
    np.testing.assert_allclose(C, A @ B)
    del engine


def main() -> None:
    T = bs.get_threads()
    go, engine = compiled(chain)

    def job(n: int, most: int, times: int) -> Callable[[], None]:
        return lambda: go(None, n, most, times)

    for n, times in ((2, 1000), (3000, 300), (30000, 30), (300000, 3)):
        jobs = {f"{k} threads": job(n, k, times) for k in dict.fromkeys((1, T))}
        contest(f"a job of {n} turns, back to back", jobs, 10, times)
    for n in (3000, 30000):
        after_rest(f"a job of {n} turns, after a millisecond of rest", job(n, T, 1))
    del engine
    for size in (64, 128, 256):
        products(f"8 products of {size} × {size}", stack(size), size, 8, 8)
    for size in (128, 256, 512):
        products(f"one product of {size} × {size}, by rows", by_rows(size), size, 1, size)


if __name__ == "__main__":
    main()
