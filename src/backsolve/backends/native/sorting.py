"""argsort, sort and searchsorted.

argsort maps numbers of all dtypes to unsigned integers of the same order (−0 is 0, NaN comes last) and
sorts these together with their places (radix.py): in one word, if the key has 32 bits or less. That is
stable, so complex numbers are sorted by one key after the other, the least significant first. Where the
places are only used to read the array in its order, keys are sorted alone; where only some ranks are asked
for, few entries are sorted (selection.py). searchsorted is a statement of a
kernel: it halves.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir

from ...ir import Equation, Var, type_of
from .indexing import Axis
from .nests import loop, nest, offset
from .numbers.registers import (
    BOOL,
    CINT,
    Complex,
    Register,
    clear,
    convert,
    load,
    real_dtype,
    register_type,
    store,
)
from .radix import Words
from .repeat import loop_with, range_loop
from .selection import LONG, buckets, emit_filter, emit_keys
from .steps import Site, Step
from .views import Buffer, View

if TYPE_CHECKING:
    from .entries import Entries
    from .schedule import Schedule

INT = ir.IntType(64)
PLACE_BITS = 32  # of a word that holds a key and a place


@dataclass(eq=False)
class Sort(Step):
    """The order of a line's entries, or some `ranks` of it, or (`values`) the entries in that order."""

    axis: int
    source: View
    out: View
    words: Words
    scratch: list[View]  # columns of words, twice; counts of digits
    values: bool = False
    ranks: tuple[int, ...] | None = None

    def buffers(self) -> list[Buffer]:
        return [v.buffer for v in (self.source, self.out, *self.scratch)]

    @property
    def flops(self) -> int:
        return 40 * prod(self.source.shape)

    def describe(self) -> str:
        name = "sort" if self.values else "argsort" if self.ranks is None else "select"
        return f"{name} {list(self.source.shape)} along {self.axis}"

    @property
    def is_selected(self) -> bool:
        """Whether few entries have to be sorted."""
        return self.ranks is not None and self.words.with_places and self.words.size >= LONG

    def emit(self, site: Site) -> None:
        if 0 not in self.out.shape:
            sort = None if self.words.is_counted else self.words.function(site.module)
            site.in_function(self.buffers(), lambda b, p: self._emit(b, p, sort))

    def _emit(self, b: ir.IRBuilder, pointers: dict[Buffer, Any], sort: Any) -> None:
        k, shape = self.axis, self.source.shape
        scratch = [pointers[v.buffer] for v in self.scratch]
        dtype, n = self.source.dtype, INT(shape[k])

        def line(b: ir.IRBuilder, place: list[Any]) -> None:
            def address(b: ir.IRBuilder, view: View, j: Any) -> Any:
                at = offset(b, view.offset, view.strides, [*place[:k], j, *place[k:]])
                return b.gep(pointers[view.buffer], [at])

            def entry(b: ir.IRBuilder, j: Any) -> Register:
                return load(b, address(b, self.source, j), dtype)

            if self.values:
                self._emit_values(b, sort, scratch, entry, address)
                return

            def begin(b: ir.IRBuilder, j: Any, which: int, places: Any) -> None:
                place = j if places is None else b.load(b.gep(places, [j]))
                key = keys_of(b, entry(b, place), dtype)[which]
                if not self.words.with_places:
                    key = b.or_(b.shl(key, INT(PLACE_BITS)), place)
                else:
                    b.store(place, b.gep(scratch[1], [j]))
                b.store(key, b.gep(scratch[0], [j]))

            places, moved = None, [INT(0) for _ in self.ranks or ()]
            if self.is_selected and self.ranks is not None:
                key_of = lambda b, j: keys_of(b, entry(b, j), dtype)[0]
                bounds = emit_keys(b, scratch[2], shape[k], key_of)
                given = (scratch[2], bounds, scratch[:2], scratch[4], shape[k], self.ranks)
                kept, moved = emit_filter(b, *given)
                places = b.call(sort, [*scratch, kept])
            else:
                for which in reversed(range(_count_of_keys(dtype))):
                    loop(b, shape[k], partial(begin, which=which, places=places))
                    places = b.call(sort, [*scratch, n])

            def put(b: ir.IRBuilder, j: Any, rank: Any) -> None:
                place = b.load(b.gep(places, [rank]))
                if not self.words.with_places:
                    place = b.and_(place, INT((1 << PLACE_BITS) - 1))
                b.store(place, address(b, self.out, j))

            if self.ranks is None:
                loop(b, shape[k], lambda b, j: put(b, j, j))
            for j, rank in enumerate(self.ranks or ()):
                put(b, INT(j), b.add(INT(rank), moved[j]))

        nest(b, (*shape[:k], *shape[k + 1 :]), line)

    def _emit_values(
        self, b: ir.IRBuilder, sort: Any, scratch: list[Any], entry: Any, address: Any
    ) -> None:
        """Keys are sorted and made numbers again. Zeros, whose signs they lack, are then put as they came."""
        dtype, n = self.source.dtype, self.source.shape[self.axis]
        word = ir.IntType(self.words.bits)

        def begin(b: ir.IRBuilder, j: Any, state: list[Any]) -> list[Any]:
            x = entry(b, j)
            (key,) = keys_of(b, x, dtype)
            if self.words.is_counted:
                at = b.gep(scratch[-1], [key])
                b.store(b.add(b.load(at), CINT(1)), at)
            else:
                b.store(key if word == INT else b.trunc(key, word), b.gep(scratch[0], [j]))
            if dtype.kind != "f":
                return state
            negative, below = _signs(b, x, dtype)
            return [b.or_(state[0], negative), b.add(state[1], b.zext(below, INT))]

        def put(b: ir.IRBuilder, j: Any, key: Any) -> None:
            store(b, _number_of(b, key, dtype), address(b, self.out, j), dtype)

        if self.words.is_counted:
            clear(b, scratch[-1], 4 * self.words.counts)
        turned, first = loop_with(b, n, [BOOL(0), INT(0)], begin)
        if self.words.is_counted:

            def repeat(b: ir.IRBuilder, value: Any, state: list[Any]) -> list[Any]:
                """As often as there are such keys."""
                end = b.add(state[0], b.zext(b.load(b.gep(scratch[-1], [value])), INT))
                range_loop(b, state[0], end, lambda b, j: put(b, j, b.trunc(value, word)))
                return [end]

            loop_with(b, self.words.counts, [INT(0)], repeat)
        else:
            found = b.call(sort, [*scratch, INT(n)])
            loop(b, n, lambda b, j: put(b, j, b.load(b.gep(found, [j]))))
        if dtype.kind != "f":
            return
        with b.if_then(turned, likely=False):

            def zeros(b: ir.IRBuilder, j: Any, state: list[Any]) -> list[Any]:
                x = entry(b, j)
                zero = b.icmp_unsigned("==", b.shl(bits_of(b, x, dtype), word(1)), word(0))
                with b.if_then(zero):
                    store(b, x, address(b, self.out, state[0]), dtype)
                return [b.add(state[0], b.zext(zero, INT))]

            loop_with(b, n, [first], zeros)


def _count_of_keys(dtype: np.dtype[Any]) -> int:
    return 3 if dtype.kind == "c" else 1


def keys_of(b: ir.IRBuilder, x: Register, dtype: np.dtype[Any]) -> list[ir.Value]:
    """Unsigned integers of the same order, the most significant first.

    Complex numbers go by their real, then by their imaginary parts; behind all of them those with a NaN.
    """
    if not isinstance(x, Complex):
        return [_key(b, x, dtype)]
    is_nan = b.zext(b.fcmp_unordered("uno", x.re, x.im), INT)
    return [is_nan, *(_key(b, part, real_dtype(dtype)) for part in x)]


def bits_of(b: ir.IRBuilder, x: ir.Value, dtype: np.dtype[Any]) -> ir.Value:
    """A float16 is its bits already."""
    return x if dtype == np.float16 else b.bitcast(x, ir.IntType(8 * dtype.itemsize))


def _size_and_limit(b: ir.IRBuilder, x: ir.Value, dtype: np.dtype[Any]) -> list[ir.Value]:
    """The bits of |x|, and those of infinity."""
    bits = ir.IntType(8 * dtype.itemsize)
    infinity = int(np.array(np.inf, dtype).view(f"u{dtype.itemsize}"))
    return [b.and_(bits_of(b, x, dtype), bits((1 << (bits.width - 1)) - 1)), bits(infinity)]


def _signs(b: ir.IRBuilder, x: ir.Value, dtype: np.dtype[Any]) -> list[ir.Value]:
    """Whether a number is −0, and whether it is below 0."""
    size, infinity = _size_and_limit(b, x, dtype)
    negative = b.icmp_signed("<", bits_of(b, x, dtype), size.type(0))
    zero = b.icmp_unsigned("==", size, size.type(0))
    is_nan = b.icmp_unsigned(">", size, infinity)
    return [b.and_(negative, zero), b.and_(negative, b.not_(b.or_(zero, is_nan)))]


def _key(b: ir.IRBuilder, x: ir.Value, dtype: np.dtype[Any]) -> ir.Value:
    """An unsigned integer of the same order."""
    if dtype.kind in "bu":
        return x if x.type == INT else b.zext(x, INT)
    bits = ir.IntType(8 * dtype.itemsize)
    top = bits(1 << (bits.width - 1))
    if dtype.kind == "f":
        size, infinity = _size_and_limit(b, x, dtype)
        x = b.select(b.icmp_unsigned("==", size, bits(0)), bits(0), bits_of(b, x, dtype))
        # A negative number has all bits turned, another the sign.
        key = b.xor(x, b.or_(b.ashr(x, bits(bits.width - 1)), top))
        key = b.select(b.icmp_unsigned(">", size, infinity), bits(-1), key)
    else:
        key = b.xor(x, top)
    return key if bits == INT else b.zext(key, INT)


def _number_of(b: ir.IRBuilder, key: ir.Value, dtype: np.dtype[Any]) -> ir.Value:
    """The number that has this key."""
    if dtype.kind == "b":
        return b.trunc(key, BOOL)
    if dtype.kind == "u":
        return key
    bits = key.type
    top = bits(1 << (bits.width - 1))
    if dtype.kind == "i":
        return b.xor(key, top)
    turned = b.xor(b.ashr(key, bits(bits.width - 1)), bits(-1))
    x = b.xor(key, b.or_(turned, top))
    return x if dtype == np.float16 else b.bitcast(x, register_type(dtype))


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

    def read(self, emitter: Entries, b: ir.IRBuilder, values: Any, place: list[Any]) -> ir.Value:
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
            for p, q in zip(*[reversed(keys_of(b, z, self.dtype)) for z in (x, y)], strict=True):
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
    n, dtype = out.shape[axis], source.dtype
    readers = schedule.readers.get(out, [])
    values = dtype.kind != "c" and out not in schedule.program.outputs and bool(readers)
    values = values and all(_reads_in_order(schedule, r, a, out, axis) for r in readers)
    bits = 8 * dtype.itemsize
    words = Words(bits, 0, bits, False, n) if values else _with_places(dtype, n)
    view = schedule.new_buffer(out.shape, dtype if values else out.dtype)
    scratch = _scratch(schedule, words, words.counts)
    schedule.steps.append(Sort(axis, source, view, words, scratch, values))
    schedule.ready[view.buffer] = len(schedule.steps) - 1
    if not values:
        schedule.views[out] = view
        schedule.ranges[out] = (0.0, n - 1.0)
        return
    for r in readers:
        schedule.views[r.outputs[0]] = view


def lower_ranked(schedule: Schedule, e: Equation) -> None:
    out, axis, ranks = e.outputs[0], e.params["axis"], e.params["ranks"]
    source = schedule.in_memory(e.inputs[0])
    n = source.shape[axis]
    selects = source.dtype.kind != "c" and n >= LONG
    words = Words(64, 0, 64, True, n) if selects else _with_places(source.dtype, n)
    counts = max(words.counts, 1 << buckets(n)) if selects else words.counts
    view = schedule.new_buffer(out.shape, out.dtype)
    scratch = _scratch(schedule, words, counts)
    schedule.steps.append(Sort(axis, source, view, words, scratch, ranks=ranks))
    schedule.ready[view.buffer] = len(schedule.steps) - 1
    schedule.views[out] = view
    schedule.ranges[out] = (0.0, n - 1.0)


def _with_places(dtype: np.dtype[Any], n: int) -> Words:
    bits = 8 * dtype.itemsize
    if dtype.kind != "c" and bits <= PLACE_BITS and n < 1 << PLACE_BITS:
        return Words(64, PLACE_BITS, PLACE_BITS + bits, False, n)
    return Words(64, 0, 64, True, n)


def _scratch(schedule: Schedule, words: Words, counts: int) -> list[View]:
    columns = [] if words.is_counted else words.columns * 2
    made = [schedule.new_buffer((words.size,), t) for t in columns]
    return [*made, schedule.new_buffer((counts,), np.dtype(np.int32))]


def _reads_in_order(schedule: Schedule, e: Equation, a: Any, order: Var, axis: int) -> bool:
    """Whether all that an equation does is to read `a` in its order, so that nobody needs the order."""
    if e.primitive.name != "gather" or e.inputs[0] is not a or e.outputs[0].shape != order.shape:
        return False
    indices = e.inputs[1:]
    if len(indices) != len(order.shape) or indices[axis] is not order:
        return False
    known = {v: c for v, c in schedule.program.constants}
    for k, i in enumerate(indices):
        if k == axis:
            continue
        if i not in known:
            return False
        shape = tuple(n if m == k else 1 for m, n in enumerate(order.shape))
        value = np.asarray(getattr(known[i], "_v", known[i]))
        if value.shape != shape or not np.array_equal(value.ravel(), np.arange(order.shape[k])):
            return False
    return True


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


LOWER = {"argsort": lower_argsort, "ranked": lower_ranked, "searchsorted": lower_searchsorted}
