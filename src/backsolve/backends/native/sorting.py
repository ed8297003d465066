"""argsort and searchsorted.

argsort maps numbers of all dtypes to unsigned integers of the same order (−0 is 0, NaN comes last) and
sorts these together with their places: a few by counting smaller ones, more by their bytes, the lowest
first. Both are stable, so complex numbers are sorted by one key after the other, the least significant first.
One function serves a whole program. searchsorted is a statement of a kernel: it halves.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir

from ...ir import Equation, type_of
from .indexing import Axis
from .loops import load, loop, loop_with, nest, offset
from .numbers.registers import BOOL, Complex, Register, convert, real_dtype
from .repeat import range_loop
from .steps import Site, Step
from .views import Buffer, View

if TYPE_CHECKING:
    from .loops import Emitter
    from .schedule import Schedule

INT = ir.IntType(64)
FEW = 32  # so many are sorted by rank
DIGITS, WIDTH = 8, 8  # digits of a key, bits of a digit


@dataclass(eq=False)
class Argsort(Step):
    axis: int
    source: View
    out: View
    scratch: list[View]  # keys and places, twice; counts of digits

    def buffers(self) -> list[Buffer]:
        return [v.buffer for v in (self.source, self.out, *self.scratch)]

    @property
    def flops(self) -> int:
        return 40 * self.out.buffer.size

    def describe(self) -> str:
        return f"argsort {list(self.out.shape)} along {self.axis}"

    def emit(self, site: Site) -> None:
        if 0 not in self.out.shape:
            sort = site.module.globals.get("sort") or _emit_sort(site.module)
            site.in_function(self.buffers(), lambda b, p: self._emit(b, p, sort))

    def _emit(self, b: ir.IRBuilder, pointers: dict[Buffer, Any], sort: Any) -> None:
        k, shape = self.axis, self.out.shape
        scratch = [pointers[v.buffer] for v in self.scratch]

        def line(b: ir.IRBuilder, place: list[Any]) -> None:
            def address(b: ir.IRBuilder, view: View, j: Any) -> Any:
                at = offset(b, view.offset, view.strides, [*place[:k], j, *place[k:]])
                return b.gep(pointers[view.buffer], [at])

            def begin(b: ir.IRBuilder, j: Any, which: int, places: Any) -> None:
                place = j if places is None else b.load(b.gep(places, [j]))
                x = load(b, address(b, self.source, place), self.source.dtype)
                b.store(_keys(b, x, self.source.dtype)[which], b.gep(scratch[0], [j]))
                b.store(place, b.gep(scratch[1], [j]))

            places = None
            for which in reversed(range(_count_of_keys(self.source.dtype))):
                loop(b, shape[k], partial(begin, which=which, places=places))
                places = b.call(sort, [*scratch, INT(shape[k])])
            loop(
                b,
                shape[k],
                lambda b, j: b.store(b.load(b.gep(places, [j])), address(b, self.out, j)),
            )

        nest(b, (*shape[:k], *shape[k + 1 :]), line)


def _count_of_keys(dtype: np.dtype[Any]) -> int:
    return 3 if dtype.kind == "c" else 1


def _keys(b: ir.IRBuilder, x: Register, dtype: np.dtype[Any]) -> list[ir.Value]:
    """Unsigned integers of the same order, the most significant first.

    Complex numbers go by their real, then by their imaginary parts; behind all of them those with a NaN.
    """
    if not isinstance(x, Complex):
        return [_key(b, x, dtype)]
    is_nan = b.zext(b.fcmp_unordered("uno", x.re, x.im), INT)
    return [is_nan, *(_key(b, part, real_dtype(dtype)) for part in x)]


def _key(b: ir.IRBuilder, x: ir.Value, dtype: np.dtype[Any]) -> ir.Value:
    """An unsigned integer of the same order."""
    if dtype.kind in "bu":
        return x if x.type == INT else b.zext(x, INT)
    bits = ir.IntType(8 * dtype.itemsize)
    top = bits(1 << (bits.width - 1))
    if dtype.kind == "f":
        is_nan = b.fcmp_unordered("uno", x, x)
        x = b.bitcast(b.fadd(x, ir.Constant(x.type, 0.0)), bits)  # −0 + 0 is 0
        # A negative number has all bits turned, another the sign.
        key = b.xor(x, b.or_(b.ashr(x, bits(bits.width - 1)), top))
        key = b.select(is_nan, bits(-1), key)
    else:
        key = b.xor(x, top)
    return key if bits == INT else b.zext(key, INT)


def _emit_sort(module: ir.Module) -> Any:
    """sort(keys, places, other keys, other places, counts, n): by keys; returns the sorted places."""
    pointer = INT.as_pointer()
    function = ir.Function(module, ir.FunctionType(pointer, [pointer] * 5 + [INT]), "sort")
    function.linkage = "internal"
    function.attributes.add("noinline")
    for argument in function.args[:5]:
        argument.add_attribute("noalias")
    *arrays, counts, n = function.args
    b = ir.IRBuilder(function.append_basic_block("entry"))
    with b.if_then(b.icmp_unsigned("<=", n, INT(FEW))):
        _emit_by_rank(b, arrays, n)
        b.ret(arrays[3])
    b.ret(_emit_by_digits(b, arrays, counts, n))
    return function


def _emit_by_rank(b: ir.IRBuilder, arrays: list[Any], n: Any) -> None:
    """A key's place is the number of keys before it: n² comparisons, but no branch that may surprise."""
    keys, places, _, new_places = arrays

    def rank(b: ir.IRBuilder, i: Any) -> None:
        key = b.load(b.gep(keys, [i]))

        def before(test: str) -> Any:
            return lambda b, j, state: [
                b.add(state[0], b.zext(b.icmp_unsigned(test, b.load(b.gep(keys, [j])), key), INT))
            ]

        (count,) = range_loop(b, INT(0), i, before("<="), [INT(0)])
        (count,) = range_loop(b, i, n, before("<"), [count])
        b.store(b.load(b.gep(places, [i])), b.gep(new_places, [count]))

    range_loop(b, INT(0), n, rank)


def _emit_by_digits(b: ir.IRBuilder, arrays: list[Any], counts: Any, n: Any) -> Any:
    """Radix sort: counts of all digits in one pass, then one pass per digit that is not always the same."""
    size = 1 << WIDTH
    loop(b, DIGITS * size, lambda b, i: b.store(INT(0), b.gep(counts, [i])))

    def slot(b: ir.IRBuilder, key: Any, digit: Any) -> Any:
        """Where the count of a key's digit stands."""
        value = b.and_(b.lshr(key, b.mul(digit, INT(WIDTH))), INT(size - 1))
        return b.gep(counts, [b.add(b.mul(digit, INT(size)), value)])

    def count(b: ir.IRBuilder, i: Any) -> None:
        key = b.load(b.gep(arrays[0], [i]))
        for digit in range(DIGITS):
            at = slot(b, key, INT(digit))
            b.store(b.add(b.load(at), INT(1)), at)

    range_loop(b, INT(0), n, count)

    def one_pass(b: ir.IRBuilder, digit: Any, state: list[Any]) -> list[Any]:
        keys, places, new_keys, new_places = state
        same = b.icmp_unsigned("==", b.load(slot(b, b.load(keys), digit)), n)
        before = b.block
        with b.if_then(b.not_(same)):
            _emit_starts(b, b.gep(counts, [b.mul(digit, INT(size))]), size)

            def move(b: ir.IRBuilder, i: Any) -> None:
                key = b.load(b.gep(keys, [i]))
                at = slot(b, key, digit)
                target = b.load(at)
                b.store(b.add(target, INT(1)), at)
                b.store(key, b.gep(new_keys, [target]))
                b.store(b.load(b.gep(places, [i])), b.gep(new_places, [target]))

            range_loop(b, INT(0), n, move)
            moved = b.block
        after = []
        for stays, goes in zip(state, [new_keys, new_places, keys, places], strict=True):
            phi = b.phi(stays.type)
            phi.add_incoming(stays, before)
            phi.add_incoming(goes, moved)
            after.append(phi)
        return after

    return range_loop(b, INT(0), INT(DIGITS), one_pass, arrays)[1]


def _emit_starts(b: ir.IRBuilder, counts: Any, size: int) -> None:
    """Counts as the places at which each value begins."""

    def add(b: ir.IRBuilder, i: Any, state: list[Any]) -> list[Any]:
        at = b.gep(counts, [i])
        count = b.load(at)
        b.store(state[0], at)
        return [b.add(state[0], count)]

    range_loop(b, INT(0), INT(size), add, [INT(0)])


@dataclass(eq=False)
class Search:
    """The place in a sorted line (its first entry spread over the domain) where `value` belongs."""

    view: View
    size: int
    stride: int
    value: Any
    dtype: np.dtype[Any]  # in which entries are compared
    right: bool
    axes: list[Axis] = field(default_factory=list)  # it cannot fail

    def read(self, emitter: Emitter, b: ir.IRBuilder, values: Any, place: list[Any]) -> ir.Value:
        v = convert(b, *emitter.value(b, self.value, values, self.dtype), self.dtype)
        origin = emitter.offset(b, self.view, place)

        def narrow(b: ir.IRBuilder, i: Any, state: list[Any]) -> list[Any]:
            """`low` entries belong before v: perhaps also the next 2ᵏ, of which the last tells."""
            (low,) = state
            more = b.add(low, b.lshr(INT(1 << (levels - 1)), i))
            inside = b.icmp_unsigned("<=", more, INT(self.size))
            last = b.sub(b.select(inside, more, INT(1)), INT(1))
            at = b.add(origin, b.mul(last, INT(self.stride)))
            entry = convert(b, emitter.entry(b, self.view.buffer, at), self.view.dtype, self.dtype)
            before = b.not_(self._less(b, v, entry)) if self.right else self._less(b, entry, v)
            return [b.select(b.and_(inside, before), more, low)]

        levels = self.size.bit_length()
        return loop_with(b, levels, [INT(0)], narrow)[0]

    def _less(self, b: ir.IRBuilder, x: Register, y: Register) -> ir.Value:
        if self.dtype.kind == "c":
            less = BOOL(0)
            for p, q in zip(*[reversed(_keys(b, z, self.dtype)) for z in (x, y)], strict=True):
                same = b.and_(b.icmp_unsigned("==", p, q), less)
                less = b.or_(b.icmp_unsigned("<", p, q), same)
            return less
        if self.dtype.kind == "f":  # NaN is larger than all others
            last = b.and_(b.fcmp_unordered("uno", y, y), b.fcmp_ordered("ord", x, x))
            return b.or_(b.fcmp_ordered("<", x, y), last)
        signed = self.dtype.kind == "i"
        return b.icmp_signed("<", x, y) if signed else b.icmp_unsigned("<", x, y)


def lower_argsort(schedule: Schedule, e: Equation) -> None:
    a, out, axis = e.inputs[0], e.outputs[0], e.params["axis"]
    source = schedule.in_memory(a)
    n = out.shape[axis]
    sizes = (n, n, n, n, DIGITS << WIDTH if n > FEW else 1)
    scratch = [schedule.new_buffer((size,), np.dtype(np.int64)) for size in sizes]
    view = schedule.new_buffer(out.shape, out.dtype)
    schedule.steps.append(Argsort(axis, source, view, scratch))
    schedule.views[out] = view
    schedule.ready[view.buffer] = len(schedule.steps) - 1
    schedule.ranges[out] = (0.0, n - 1.0)


def lower_searchsorted(schedule: Schedule, e: Equation) -> None:
    (a, v), out = e.inputs, e.outputs[0]
    line = schedule.view_of(a)
    (size,) = line.shape
    if not size:
        schedule.numbers[out] = np.int64(0)
        return
    at = schedule.join(out.shape, [v], after=schedule.ready[line.buffer])
    kernel = schedule.kernel(at)
    first = line.with_(line.imaginary[:1].reshape(())).broadcast(out.shape)
    dtype = np.result_type(type_of(a).dtype, type_of(v).dtype)
    right = e.params["side"] == "right"
    kernel.reads[out] = Search(first, size, line.strides[0], v, dtype, right)
    kernel.statements.append(e)
    kernel.made.add(out)
    schedule.home[out] = at
    schedule.ranges[out] = (0.0, float(size))


LOWER = {"argsort": lower_argsort, "searchsorted": lower_searchsorted}
