"""Attention in tiles: some lines of q against the keys they look at, by BLAS, softmax in between.

The two rows (primitives/attention.py) are one kind of step. Adjoints of several inputs share one pass over
the tiles, in which the weights are computed again. Matrices of a stack are slices of a sweep, so that each
worker has one tile (two for adjoints) of TILE × m numbers, and what stands around the attention joins in.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir

from ...ir import Equation, Shape
from ...primitives.attention import TILE, K, Q, V
from . import functions
from .attention_products import Columns, Matrix, Products, panels_shape, tiles_for
from .blas import CINT, INT, by_address, fortran, layout
from .contraction import has_unit_stride, same_dtype
from .cutting import Put, slice_view
from .elementwise import combine, start_of
from .nests import loop, nest, offset
from .numbers.registers import memory_type, number
from .repeat import loop_with
from .steps import FUNCTION_FLOPS, POINTER, Site, Step, Zero
from .under_way import INTERLEAVE
from .views import Buffer, View

if TYPE_CHECKING:
    from .schedule import Schedule

Y = 3  # beside Q, K and V: the result, and where its adjoint stands among the inputs


@dataclass(eq=False)
class Attention(Step):
    """From q, k, v the result Y; from q, k, v and its adjoint the adjoints of Q, K, V that are asked for."""

    reads: list[View]  # q, k, v, and the adjoint of y
    writes: dict[int, View]
    tiles: list[View]
    panels: dict[int, View]  # room for those of Kᵀ and Vᵀ, where products are made of tiles
    scale: float
    causal: bool

    def buffers(self) -> list[Buffer]:
        views = [*self.reads, *self.writes.values(), *self.tiles, *self.panels.values()]
        return list(dict.fromkeys(v.buffer for v in views))

    @property
    def flops(self) -> int:
        (*batch, n, d), (m, e) = self.reads[Q].shape, self.reads[V].shape[-2:]
        products = {Q: d, K: d, V: e, Y: e}
        each = 2 * d + sum(2 * products[i] for i in self.writes) + FUNCTION_FLOPS
        if not {Q, K}.isdisjoint(self.writes):
            each += 2 * e
        return prod(batch) * n * m * each // (2 if self.causal else 1)

    def leads(self) -> list[Shape]:
        batch = self.reads[Q].shape[:-2]
        return [batch] if batch else []

    def cut(self, lead: Shape, chunk: int, put: Put) -> Attention:
        def part(view: View, role: str) -> View:
            return put(*slice_view(view, len(lead), chunk), role)

        return Attention(
            [part(v, "read") for v in self.reads],
            {i: part(v, "write") for i, v in self.writes.items()},
            [part(v, "write") for v in self.tiles],
            {i: part(v, "write") for i, v in self.panels.items()},
            self.scale,
            self.causal,
        )

    def describe(self) -> str:
        what = "".join("qkvy"[i] for i in self.writes)
        kind = "causal attention" if self.causal else "attention"
        return f"{kind} → {what} {' × '.join(str(v.shape) for v in self.reads)}"

    def emit(self, site: Site) -> None:
        site.in_function(self.buffers(), self._emit, as_it_is=True)

    def _emit(self, b: ir.IRBuilder, pointers: dict[Buffer, Any]) -> None:
        *batch, n, _ = self.reads[Q].shape

        def one(b: ir.IRBuilder, place: list[ir.Value]) -> None:
            def start(view: View) -> ir.Value:
                at = offset(b, view.offset, view.strides[:-2], place)
                return b.gep(pointers[view.buffer], [at])

            reads, tiles = ([start(v) for v in views] for views in (self.reads, self.tiles))
            results = {i: start(v) for i, v in self.writes.items()}
            for i in results.keys() & {K, V}:
                _clear(b, results[i], INT(prod(self.writes[i].shape[-2:])), self.writes[i].dtype)
            panels = {
                i: self._products.panels(b, self.reads[i], reads[i], start(room))
                for i, room in self.panels.items()
            }
            loop(b, -(-n // TILE), lambda b, t: self._tile(b, t, reads, tiles, panels, results))

        nest(b, tuple(batch), one)

    @property
    def _products(self) -> Products:
        found = tiles_for(self.reads)
        assert found is not None
        q, k = self.reads[Q], self.reads[K]
        return Products(found, q.dtype, q.shape[-2], k.shape[-2])

    def _tile(
        self,
        b: ir.IRBuilder,
        t: ir.Value,
        reads: list[ir.Value],
        tiles: list[ir.Value],
        panels: dict[int, Columns],
        results: dict[int, ir.Value],
    ) -> None:
        (n, d), (m, e) = self.reads[Q].shape[-2:], self.reads[V].shape[-2:]
        dtype = self.reads[Q].dtype
        low = b.mul(t, INT(TILE))
        lines = _least(b, INT(TILE), b.sub(INT(n), low))
        keys = _least(b, b.add(low, lines), INT(m)) if self.causal else INT(m)
        first = low if self.causal else INT(m)

        def whole(view: View, start: ir.Value) -> Matrix:
            return Matrix(start, *layout(view))

        def part(view: View, start: ir.Value) -> Matrix:
            return whole(view, b.gep(start, [b.mul(low, INT(view.strides[-2]))]))

        def product(
            A: Matrix,
            B: Matrix,
            C: Matrix,
            *sizes: Any,
            of: int = -1,
            by: float = 1.0,
            on: float = 0.0,
        ) -> None:
            """C = by · A B + on · C; by tiles, `of` what B is the transposed, and without `by`."""
            if panels:
                columns = panels[of] if B.by_columns else self._products.in_lines(B)
                self._products.multiply(b, A, columns, C, sizes, adds=on != 0)
                return
            # BLAS counts columns first: in its eyes Cᵀ = Bᵀ Aᵀ.
            flips = ["T" if x.by_columns else "N" for x in (B, A)]
            r, c, inner = (
                x if isinstance(x, int) else by_address(b, b.trunc(x, CINT)) for x in sizes
            )
            places = (B.start, B.leading, A.start, A.leading, on, C.start, C.leading)
            fortran(b, dtype, "gemm", *flips, c, r, inner, by, *places)

        q = part(self.reads[Q], reads[Q])
        k, v = whole(self.reads[K], reads[K]), whole(self.reads[V], reads[V])
        W = Matrix(tiles[0], False, m)
        out = {i: whole(self.writes[i], start) for i, start in results.items()}
        product(q, k.T, W, lines, keys, d, of=K, by=self.scale)
        scale = number(self.scale, dtype)
        left = [scale] if panels else []  # of what BLAS has done
        b.call(_softmax(b.module, dtype, m, len(left)), [W.start, lines, keys, first, *left])
        if Y in out:
            product(W, v, part(self.writes[Y], results[Y]), lines, e, keys)
            return
        u = part(self.reads[Y], reads[Y])
        if V in out:
            product(W.T, u, out[V], keys, e, lines, on=1.0)
        if Q not in out and K not in out:
            return
        S = Matrix(tiles[1], False, m)
        product(u, v.T, S, lines, keys, e, of=V)
        b.call(_less_mean(b.module, dtype, m), [W.start, S.start, lines, keys, first, scale])
        if Q in out:
            product(S, k, part(self.writes[Q], results[Q]), lines, d, keys)
        if K in out:
            product(S.T, q, out[K], keys, d, lines, on=1.0)


def _least(b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    return b.select(b.icmp_signed("<", x, y), x, y)


def _clear(b: ir.IRBuilder, start: ir.Value, count: ir.Value, dtype: np.dtype[Any]) -> None:
    memset = b.module.declare_intrinsic("llvm.memset", [POINTER, INT])
    size = b.mul(count, INT(dtype.itemsize))
    b.call(memset, [b.bitcast(start, POINTER), ir.IntType(8)(0), size, ir.IntType(1)(0)])


# ---- what is done to the lines of a tile, each a function of its own


def _over_lines(
    module: ir.Module, name: str, dtype: np.dtype[Any], m: int, tiles: int, numbers: int, line: Any
) -> ir.Function:
    """`line(b, starts, seen, *numbers)` for every line of tiles that have m columns.

    It is a function of the tiles, of how many lines and keys there are, and of which line of all the first
    one is: line i sees the keys 0 … i. What it does not see becomes 0 in the last tile.
    """
    name = f"{name}.{dtype.name}.{m}"
    if name in module.globals:
        return module.globals[name]
    entry = memory_type(dtype)
    kind = [*[entry.as_pointer()] * tiles, INT, INT, INT, *[entry] * numbers]
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), kind), name)
    function.linkage = "internal"
    functions.keep_apart(function)
    places, (lines, keys, first, *rest) = function.args[:tiles], function.args[tiles:]
    for place in places:
        place.add_attribute("noalias")
    b = ir.IRBuilder(function.append_basic_block("entry"))

    def body(b: ir.IRBuilder, i: ir.Value, _: Any) -> list[Any]:
        starts = [b.gep(x, [b.mul(i, INT(m))]) for x in places]
        seen = _least(b, b.add(b.add(first, i), INT(1)), keys)
        line(b, starts, seen, *rest)
        _clear(b, b.gep(starts[-1], [seen]), b.sub(keys, seen), dtype)
        return []

    loop_with(b, lines, [], body)
    b.ret_void()
    return function


def _softmax(module: ir.Module, dtype: np.dtype[Any], m: int, factors: int) -> ir.Function:
    """Of lines, or of lines times a number."""

    def line(b: ir.IRBuilder, starts: list[ir.Value], seen: ir.Value, *scale: ir.Value) -> None:
        (s,) = starts

        def entry(b: ir.IRBuilder, at: ir.Value) -> ir.Value:
            x = b.load(at)
            return b.fmul(x, scale[0]) if scale else x

        def largest(b: ir.IRBuilder, j: ir.Value, state: list[Any]) -> list[Any]:
            return [combine(b, "max", state[0], entry(b, b.gep(s, [j])), dtype)]

        (top,) = loop_with(b, seen, [start_of("max", dtype)], largest, INTERLEAVE)

        def power(b: ir.IRBuilder, j: ir.Value, state: list[Any]) -> list[Any]:
            at = b.gep(s, [j])
            e = functions.call(b, "exp", [b.fsub(entry(b, at), top)], inline=True)
            b.store(e, at)
            return [combine(b, "add", state[0], e, dtype)]

        (total,) = loop_with(b, seen, [start_of("add", dtype)], power, INTERLEAVE)
        share = b.fdiv(number(1, dtype), total)

        def divide(b: ir.IRBuilder, j: ir.Value, _: list[Any]) -> list[Any]:
            at = b.gep(s, [j])
            b.store(b.fmul(b.load(at), share), at)
            return []

        loop_with(b, seen, [], divide)

    return _over_lines(module, f"softmax{factors}", dtype, m, 1, factors, line)


def _less_mean(module: ir.Module, dtype: np.dtype[Any], m: int) -> ir.Function:
    """s := scale · w (s − Σ w s)."""

    def line(b: ir.IRBuilder, starts: list[ir.Value], seen: ir.Value, scale: ir.Value) -> None:
        w, s = starts

        def weighted(b: ir.IRBuilder, j: ir.Value, state: list[Any]) -> list[Any]:
            x, y = (b.load(b.gep(p, [j])) for p in (w, s))
            return [combine(b, "add", state[0], b.fmul(x, y, flags=("contract",)), dtype)]

        (mean,) = loop_with(b, seen, [start_of("add", dtype)], weighted, INTERLEAVE)

        def less(b: ir.IRBuilder, j: ir.Value, _: list[Any]) -> list[Any]:
            at = b.gep(s, [j])
            x = b.fmul(b.load(b.gep(w, [j])), scale)
            b.store(b.fmul(x, b.fsub(b.load(at), mean)), at)
            return []

        loop_with(b, seen, [], less)

    return _over_lines(module, "less_mean", dtype, m, 2, 1, line)


# ---- lowering


def lower_attention(schedule: Schedule, e: Equation) -> None:
    if e.outputs[0] in schedule.views:
        return  # an adjoint that came with another one
    wanted = {e.params.get("which", Y): e}
    if "which" in e.params:
        wanted = {x.params["which"]: x for x in schedule.program.equations if _is_beside(x, e)}
    dtype = e.outputs[0].dtype
    writes = {i: schedule.new_buffer(x.outputs[0].shape, dtype) for i, x in wanted.items()}
    for i, x in wanted.items():
        schedule.views[x.outputs[0]] = writes[i]
    reads = [_matrix(schedule, a, dtype) for a in e.inputs]
    *batch, n, _ = reads[Q].shape
    m = reads[K].shape[-2]
    if not (prod(batch) and n and m):
        for view in writes.values():
            _append(schedule, Zero(view.buffer), view)
        return
    shape = (*batch, min(TILE, n), m)
    tiles = [schedule.new_buffer(shape, dtype) for _ in range(1 if Y in writes else 2)]
    panels = {}
    found = tiles_for(reads)
    if found is not None:
        for i in (K,) if Y in writes else (K, V):
            room = (*batch, *panels_shape(found, reads[i]))
            panels[i] = schedule.new_buffer(room, dtype)
    params = e.params["scale"], e.params["causal"]
    _append(schedule, Attention(reads, writes, tiles, panels, *params), *writes.values())


def _is_beside(x: Equation, e: Equation) -> bool:
    """Whether x is an adjoint of the same attention."""
    if x.primitive is not e.primitive or {**x.params, "which": 0} != {**e.params, "which": 0}:
        return False
    return all(a is b for a, b in zip(x.inputs, e.inputs, strict=True))


def _matrix(schedule: Schedule, a: Any, dtype: np.dtype[Any]) -> View:
    view = same_dtype(schedule, schedule.in_memory(a), dtype)
    return view if has_unit_stride(view) else schedule.contiguous(view)


def _append(schedule: Schedule, step: Step, *written: View) -> None:
    schedule.steps.append(step)
    for view in written:
        schedule.ready[view.buffer] = len(schedule.steps) - 1


LOWER = dict.fromkeys(("attention", "attention_adjoint"), lower_attention)
