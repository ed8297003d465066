"""Matrix products by the BLAS that SciPy ships, through the function pointers it exports."""

from __future__ import annotations

import ctypes
import hashlib
import os
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from importlib.machinery import ExtensionFileLoader, PathFinder
from importlib.util import module_from_spec
from math import prod
from typing import Any

import numpy as np
from llvmlite import binding, ir

from ...ir import Shape
from . import threads
from .cutting import Put, slice_view
from .failure import FINE, call_step
from .functions import keep_apart
from .nests import nest, offset
from .numbers.registers import memory_type, number, store
from .pool_code import BODY, loop
from .small_products import are_small, small_products
from .steps import Site, Step
from .tiles import fits_panels
from .views import Buffer, View

INT, CINT, POINTER = ir.IntType(64), ir.IntType(32), ir.IntType(8).as_pointer()
SMALL = 1 << 12  # multiplications below which a call of BLAS costs more than loops
THIN = 32  # rows or columns of a product that memory decides on, not arithmetic
SHARE = 1 << 17  # multiplications worth a thread of their own
LINES = 32  # rows or columns that a thread takes at least
SUMMED = 1 << 12  # entries of a product summed up slice by slice
TALL = 512  # rows of a product that is done slice by slice with what follows


@dataclass(eq=False)
class Product(Step):
    """C = A B, a stack of them: views of shape (…, m, k), (…, k, n), (…, m, n)."""

    a: View
    b: View
    c: View
    adds: bool = False  # into C

    def buffers(self) -> list[Buffer]:
        return [self.a.buffer, self.b.buffer, self.c.buffer]

    @property
    def flops(self) -> int:
        return 2 * prod(self.c.shape) * self.a.shape[-1]

    def leads(self) -> list[Shape]:
        """The axes of the stack; or, for thin products, the rows or the inner axis; or many rows."""
        *batch, m, n = self.c.shape
        if batch:
            return [tuple(batch[:d]) for d in range(1, len(batch) + 1)]
        k = self.a.shape[-1]
        if m == k:
            return []
        if min(m, n) > THIN:
            # Slices of rows that lie in lines go through tiles; BLAS would copy B again for each slice.
            in_tiles = self.a.strides[-1] == 1 and fits_panels(self.c.dtype, k, n)
            return [(m,)] if m >= TALL and in_tiles else []
        thin: list[Shape] = [(m,)] if n <= THIN else []
        return [*thin, (k,)] if m * n <= SUMMED else thin

    def cut(self, lead: Shape, chunk: int, put: Put) -> Product:
        views = (self.a, self.b, self.c)
        depth = len(lead)
        if len(self.c.shape) > 2:
            x, y, z = (slice_view(v, depth, chunk) for v in views)
            return Product(put(*x, "read"), put(*y, "read"), put(*z, "write"))
        if lead == self.c.shape[:1]:  # rows of A and C
            x, z = (slice_view(v, 1, chunk) for v in (self.a, self.c))
            return Product(put(*x, "read"), put(self.b, (0,), "read"), put(*z, "write"))
        turned, moves = slice_view(self.a.permute((1, 0)), 1, chunk)
        a = put(turned.permute((1, 0)), moves, "read")
        b = put(*slice_view(self.b, 1, chunk), "read")
        return Product(a, b, put(self.c, (0,), "add"), adds=True)

    def emit(self, site: Site) -> None:
        emit_product(site, self)

    def describe(self) -> str:
        return f"product {self.a.shape} × {self.b.shape}"


@cache
def pointer(name: str) -> int:
    """The address of a routine of BLAS or LAPACK, e.g. dgemm."""
    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype = ctypes.c_char_p
    api.PyCapsule_GetName.argtypes = [ctypes.py_object]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    for part in ("cython_blas", "cython_lapack"):
        module = _part_of_scipy(part)
        if name in module.__pyx_capi__:
            capsule = module.__pyx_capi__[name]
            threads.limit_blas(module.__file__)
            return int(api.PyCapsule_GetPointer(capsule, api.PyCapsule_GetName(capsule)))
    raise LookupError(f"SciPy exports no {name}")


_loading = (
    threading.Lock()
)  # an extension module that two threads begin to load fails in one of them


@cache
def _part_of_scipy(part: str) -> Any:
    """An extension module of scipy.linalg, which exports functions.

    It is loaded by itself where that works: the package around it takes ten times as long.
    """
    with _loading:
        return _load(part)


def _load(part: str) -> Any:
    name = f"scipy.linalg.{part}"
    if "scipy.linalg" not in sys.modules:
        import scipy  # sets up the search for its libraries

        spec = PathFinder.find_spec(name, [os.path.join(p, "linalg") for p in scipy.__path__])
        if spec is not None and isinstance(spec.loader, ExtensionFileLoader):
            try:
                module = module_from_spec(spec)
                spec.loader.exec_module(module)
                if hasattr(module, "__pyx_capi__"):
                    return module
            except (ImportError, RuntimeError):  # the latter: somebody imports the package just now
                pass
            finally:  # a later import of the package finds it by itself, and makes it known there
                sys.modules.pop(name, None)
    return import_module(name)


def letter(dtype: np.dtype[Any]) -> str:
    """With which the names of routines begin: d of dgemm."""
    return {"f4": "s", "f8": "d", "c8": "c", "c16": "z"}[dtype.str[1:]]


def provide(name: str) -> str:
    """Have code find a routine; its symbol there."""
    symbol = f"backsolve_{name}"
    binding.add_symbol(symbol, pointer(name))
    return symbol


def fortran(b: ir.IRBuilder, dtype: np.dtype[Any], name: str, *args: Any) -> None:
    """Call a routine, which takes everything by address: letters, ints and floats are put on the stack.

    `name` comes without the letter of its type: "gemm" is dgemm for double precision.
    """
    symbol = provide(letter(dtype) + name)

    def place(a: Any) -> ir.Value:
        if isinstance(a, ir.Value):
            return a
        t = {str: ir.IntType(8), int: CINT, float: memory_type(dtype)}[type(a)]
        with b.goto_entry_block():
            slot = b.alloca(t)
        if isinstance(a, float):
            store(b, number(a, dtype), slot, dtype)
        else:
            b.store(ir.Constant(t, ord(a) if isinstance(a, str) else a), slot)
        return slot

    places = [place(a) for a in args]
    signature = ir.FunctionType(ir.VoidType(), [x.type for x in places])
    routine = b.module.globals.get(symbol) or ir.Function(b.module, signature, symbol)
    b.call(routine, places)


def emit_product(site: Site, step: Product) -> None:
    """C = A B (or C += A B) for every matrix of the stack, by all threads if that is worth it.

    They are our own threads, each with a share of all rows (or columns) of the stack. OpenBLAS's own wait
    for each other inside a product, awake, and stay awake afterwards: on a machine that is busy otherwise
    they take many times as long as a single thread.
    """
    b = site.b
    m, n = step.c.shape[-2:]
    count = prod(step.c.shape[:-2])
    views = (step.a, step.b, step.c)
    stacks = [x for v in views if (x := v.reshape((count, *v.shape[-2:]))) is not None]
    lines = max(m, n)  # rows if those are more, else columns
    most = min(step.flops // (2 * SHARE), -(-count * lines // LINES))
    starts = [site.address(v) for v in views]
    if are_small(step) and len(stacks) == 3:
        products = small_products(site.module, f"{site.name}_small", stacks)

        def small(b: ir.IRBuilder, starts: list[ir.Value], low: ir.Value, high: ir.Value) -> None:
            b.call(products, [*starts, low, high])

        if most < 2:
            small(b, starts, INT(0), INT(count))
        else:
            spread(b, site.name, starts, small, count, most)
        return
    pointer("dgemm")
    if most < 2 or len(stacks) < 3 or not threads.limits_blas():

        def each(b: ir.IRBuilder, place: list[ir.Value]) -> None:
            offsets = [offset(b, 0, v.strides[:-2], place) for v in views]
            _gemm(b, step, [b.gep(p, [o]) for p, o in zip(starts, offsets, strict=True)], m, n)

        nest(b, step.c.shape[:-2], each)
        return
    A, B, C = (v.strides for v in stacks)
    strides = [(A[0], A[1]), (B[0], 0), (C[0], C[1])]
    if m < n:
        strides = [(A[0], 0), (B[0], B[2]), (C[0], C[2])]

    def some(b: ir.IRBuilder, pointers: list[ir.Value], length: ir.Value) -> None:
        _gemm(b, step, pointers, *((length, n) if m >= n else (m, length)))

    # All that the function of the threads rests on: products that differ in their operands alone share it.
    key = (step.c.dtype.str, [(v.shape, v.strides) for v in stacks], step.adds)
    name = f"product_{hashlib.sha256(repr(key).encode()).hexdigest()}"
    share_lines(replace(site, name=name), starts, strides, (count, lines), most, some)


def share_lines(
    site: Site,
    starts: list[ir.Value],
    strides: Sequence[tuple[int, int]],
    sizes: tuple[int, int],
    most: int,
    some: Callable[[ir.IRBuilder, list[ir.Value], ir.Value], None],
) -> None:
    """`some(b, pointers, length)` for ranges of lines of a stack, on up to `most` threads.

    `sizes` are those of the stack and of the lines of each matrix; `strides` those of each pointer along
    both. A range that ends in another matrix than it begins in is cut where matrices end.
    """
    count, lines = sizes

    def share(b: ir.IRBuilder, starts: list[ir.Value], low: ir.Value, high: ir.Value) -> None:
        end = b.add(b.sdiv(b.sub(high, INT(1)), INT(lines)), INT(1))
        with loop(b, b.sdiv(low, INT(lines)), end) as k:
            before = b.mul(k, INT(lines))
            start, stop = b.sub(low, before), b.sub(high, before)
            start = b.select(b.icmp_signed(">", start, INT(0)), start, INT(0))
            stop = b.select(b.icmp_signed("<", stop, INT(lines)), stop, INT(lines))
            offsets = [offset(b, 0, s, (k, start)) for s in strides]
            length = b.trunc(b.sub(stop, start), CINT)
            some(b, [b.gep(p, [o]) for p, o in zip(starts, offsets, strict=True)], length)

    spread(site.b, site.name, starts, share, count * lines, most, as_it_is=True)


def spread(
    b: ir.IRBuilder,
    name: str,
    values: list[ir.Value],
    body: Callable[[ir.IRBuilder, list[ir.Value], ir.Value, ir.Value], None],
    size: int | ir.Value,
    most: int,
    as_it_is: bool = False,
) -> None:
    """Run `body(b, values, low, high)` over `size` indices on up to `most` threads.

    What has that name already does the same.
    """
    table = ir.LiteralStructType([v.type for v in values])
    function = b.module.globals.get(name)
    if function is None:
        function = ir.Function(b.module, BODY, name)
        function.linkage = "internal"
        keep_apart(function, as_it_is)
        context, low, high, _ = function.args
        inside = ir.IRBuilder(function.append_basic_block("entry"))
        found = inside.load(inside.bitcast(context, table.as_pointer()))
        body(inside, [inside.extract_value(found, k) for k in range(len(values))], low, high)
        inside.ret(FINE)
    with b.goto_entry_block():
        place = b.alloca(table)
    for k, value in enumerate(values):
        b.store(value, b.gep(place, [CINT(0), CINT(k)]))
    count = INT(size) if isinstance(size, int) else size
    given = [function, b.bitcast(place, POINTER), count, INT(most)]
    call_step(b, threads.spread(b.module), given)


def _gemm(
    b: ir.IRBuilder,
    step: Product,
    pointers: Sequence[ir.Value],
    m: int | ir.Value,
    n: int | ir.Value,
) -> None:
    """m rows and n columns of C.

    BLAS counts columns first; in its eyes our row-major C = A B is Cᵀ = Bᵀ Aᵀ.
    """
    a, x, c = pointers
    flip_a, lda = layout(step.a)
    flip_b, ldb = layout(step.b)
    flips = ["T" if flip else "N" for flip in (flip_b, flip_a)]
    sizes = [by_address(b, size) for size in (n, m)]
    k, ldc = step.a.shape[-1], max(step.c.shape[-1], 1)
    start = 1.0 if step.adds else 0.0
    fortran(b, step.c.dtype, "gemm", *flips, *sizes, k, 1.0, x, ldb, a, lda, start, c, ldc)


def by_address(b: ir.IRBuilder, size: int | ir.Value) -> int | ir.Value:
    if isinstance(size, int):
        return size
    with b.goto_entry_block():
        slot = b.alloca(CINT)
    b.store(size, slot)
    return slot


def layout(view: View) -> tuple[bool, int]:
    """Whether a matrix is stored by columns, and the distance of its rows (or columns)."""
    m, n = view.shape[-2:]
    rows, columns = view.strides[-2:]
    if (columns == 1 or n == 1) and (rows >= n or m == 1):
        return False, max(rows, n, 1)
    return True, max(columns, m, 1)
