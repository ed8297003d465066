"""Fourier transforms of arrays: along one axis after the other, for all lines, on all threads."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from math import log2, prod
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir

from ....ir import Equation, type_of
from .. import elsewhere
from ..contraction import same_dtype
from ..numbers.registers import real_dtype, register_type
from ..repeat import loop_between
from ..share_out import most_workers
from ..steps import Site, Step, Zero
from ..views import Buffer, View
from .convolution import Convolution
from .lines import INT, PAIRS, REAL, Lines
from .matrix import COLUMNS, Matrix, share
from .odd import OddFromReal, OddToReal, radix_of
from .real import FromReal, ToReal
from .roots import WRITTEN_OUT, factors, near_root, smooth
from .together import Together
from .transform import Memory, Plain, Transform

if TYPE_CHECKING:
    from ..schedule import Schedule

LONG = 1 << 14  # numbers of a line that is made a matrix
NEAR = 1 << 12  # numbers of lines side by side that are worked on at a time
FEWEST = 8  # of them
SHORT, TOGETHER = 12, 16  # lines of so many complex numbers are done so many at a time
SHARE = 1 << 18  # flops that repay a thread


@dataclass(frozen=True)
class Kind:
    """What is transformed: n numbers, real or complex, so many lines side by side, on so many workers."""

    what: str  # "complex", "from real", "to half", "to real"
    n: int
    width: int
    dtype: np.dtype[Any]  # of the parts
    is_inverse: bool
    workers: int  # that share one line
    is_turned: bool  # lines side by side lie one behind the other

    @lru_cache(maxsize=64)  # noqa: B019 - keeps tables, which cost more than they weigh
    def transform(self) -> Transform:
        made, half = self._of_columns(), 2 * (self.n // 2 + 1)
        if not self.is_turned:
            return made
        x, y = {
            "complex": (2 * self.n, 2 * self.n),
            "from real": (self.n, 2 * self.n),
            "to half": (self.n, half),
            "to real": (half, self.n),
        }[self.what]
        return Together(made, x, y)

    def _of_columns(self) -> Transform:
        n, make = self.n, self._complex
        if self.what == "complex":
            return make(n)
        r, ways = radix_of(n) if n % 2 else None, (self.what == "from real", self.is_inverse)
        if self.what == "to real":
            return ToReal(n, make) if r is None else OddToReal(n, r, make)
        return FromReal(n, make, *ways) if r is None else OddFromReal(n, r, make, *ways)

    def count(self, outer: int, inner: int) -> int:
        """Of transforms that do all lines."""
        return -(-outer // self.width) if self.is_turned else outer * -(-inner // self.width)

    def _complex(self, n: int) -> Transform:
        radices = factors(n)
        if radices is None:
            return Convolution(n, self._complex(smooth(2 * n - 1)))
        if self.width == 1 and n >= LONG and min(map(prod, near_root(radices))) >= COLUMNS:
            return Matrix(radices, self.dtype, self.workers)
        return Plain(radices, self.width, self.dtype)


@dataclass(eq=False)
class Along(Step):
    """Transforms along one axis: x and y are (outer, n, inner), contiguous."""

    x: View
    y: View
    kind: Kind
    room: View  # (workers, numbers)
    table: View

    def buffers(self) -> list[Buffer]:
        return [v.buffer for v in (self.x, self.y, self.room, self.table)]

    @property
    def flops(self) -> int:
        return flops(self.x, self.y, self.kind.n)

    @property
    def is_shared(self) -> bool:
        return max(self.room.shape[0], self.kind.workers) > 1

    def describe(self) -> str:
        return f"fourier {self.x.shape} → {self.y.shape}"

    def emit(self, site: Site) -> None:
        real = register_type(self.kind.dtype).as_pointer()
        views = (self.x, self.y, self.room, self.table)
        starts = [site.b.bitcast(site.address(v), real) for v in views]
        outer, _, inner = self.x.shape
        share(site.b, starts, self.kind.count(outer, inner), self.room.shape[0], self._some)

    def _some(
        self, b: ir.IRBuilder, starts: list[ir.Value], low: Any, high: Any, worker: Any
    ) -> None:
        x, y, room, table = starts
        at = Memory(b.gep(room, [b.mul(worker, INT(self.room.shape[1]))]), table)
        outer, _, inner = self.x.shape
        chunks, width = -(-inner // self.kind.width), INT(self.kind.width)

        def one(b: ir.IRBuilder, i: ir.Value) -> None:
            if self.kind.is_turned:
                matrix, column = _least(b, b.mul(i, width), outer - self.kind.width), INT(0)
            else:
                matrix, column = b.udiv(i, INT(chunks)), b.mul(b.urem(i, INT(chunks)), width)
                column = _least(b, column, inner - self.kind.width)

            def lines(view: View, start: ir.Value) -> Lines:
                _, rows, inner = view.shape
                whole = Lines(PAIRS if view.dtype.kind == "c" else REAL, start, start, inner)
                return whole.at(b, b.mul(matrix, INT(rows)), column)

            source, target = lines(self.x, x), lines(self.y, y)
            if self.kind.what == "complex" and self.kind.is_inverse:
                source, target = source.swapped(), target.swapped()
            self.kind.transform().emit(b, source, target, at)

        loop_between(b, low, high, one)


def flops(x: View, y: View, n: int) -> int:
    return int(2.5 * (prod(x.shape) + prod(y.shape)) * max(1.0, log2(n)))


def _least(b: ir.IRBuilder, x: ir.Value, most: int) -> ir.Value:
    return b.select(b.icmp_signed("<", x, INT(most)), x, INT(most))


def _kind(
    what: str, n: int, dtype: Any, is_inverse: bool, outer: int, inner: int, most: int
) -> Kind:
    """How transforms of (outer, n, inner) are done, on up to so many workers."""
    numbers = n if what == "complex" or n % 2 else n // 2
    first = (factors(numbers) or (1,))[:1]
    fills_no_vectors = numbers <= SHORT or first > (WRITTEN_OUT,)
    is_turned = inner == 1 and outer >= TOGETHER and fills_no_vectors
    width = TOGETHER if is_turned else min(inner, max(FEWEST, NEAR // n))
    kind = Kind(what, n, width, real_dtype(np.dtype(dtype)), is_inverse, 1, is_turned)
    # A line of its own for each worker; if there are too few lines, they share each.
    return kind if kind.count(outer, inner) >= most else replace(kind, workers=most)


def append(
    schedule: Schedule, x: View, axis: int, n: int, dtype: Any, what: str, is_inverse: bool
) -> View:
    """Transforms of x along an axis, so that it has n numbers there; as a new array of that dtype."""
    rows = n // 2 + 1 if what == "to half" else n
    y = schedule.new_buffer((*x.shape[:axis], rows, *x.shape[axis + 1 :]), dtype)
    if not prod(y.shape):
        return y
    outer, inner = prod(x.shape[:axis]), prod(x.shape[axis + 1 :])
    views = [v.reshape((outer, v.shape[axis], inner)) for v in (schedule.contiguous(x), y)]
    x3, y3 = (v for v in views if v is not None)
    most = min(most_workers(), max(1, flops(x3, y3, n) // SHARE))
    kind = _kind(what, n, dtype, is_inverse, outer, inner, most)
    made = kind.transform()
    room = schedule.new_buffer((most if kind.workers == 1 else 1, max(1, made.room)), kind.dtype)
    table = made.table if made.table.size else np.zeros(1, kind.dtype)
    step = Along(x3, y3, kind, room, schedule.constant(table))
    schedule.steps.append(step)
    schedule.ready[y.buffer] = len(schedule.steps) - 1
    return y


# ---- lowering


def lower_fft(schedule: Schedule, e: Equation) -> None:
    (a,), (out,) = e.inputs, e.outputs
    axes = sorted(e.params["axes"], reverse=True)
    if not all(out.shape[k] for k in axes):
        elsewhere.lower(schedule, e)  # which NumPy refuses
        return
    is_complex = type_of(a).dtype.kind == "c" or not axes
    dtype = out.dtype if is_complex else real_dtype(out.dtype)
    y = same_dtype(schedule, schedule.in_memory(a), dtype)
    for k in axes:
        what = "complex" if y.dtype.kind == "c" else "from real"
        y = append(schedule, y, k, out.shape[k], out.dtype, what, e.params["inverse"])
    schedule.views[out] = y


def lower_rfft(schedule: Schedule, e: Equation) -> None:
    (a,), (out,), axis = e.inputs, e.outputs, e.params["axis"]
    n = type_of(a).shape[axis]
    if not n:
        elsewhere.lower(schedule, e)
        return
    x = same_dtype(schedule, schedule.in_memory(a), real_dtype(out.dtype))
    schedule.views[out] = append(schedule, x, axis, n, out.dtype, "to half", False)


def lower_irfft(schedule: Schedule, e: Equation) -> None:
    (a,), (out,), axis = e.inputs, e.outputs, e.params["axis"]
    n, have = e.params["n"], type_of(a).shape[axis]
    needed = n // 2 + 1
    if not n:
        elsewhere.lower(schedule, e)
        return
    x = same_dtype(schedule, schedule.in_memory(a), np.result_type(out.dtype, np.complex64))
    if have >= needed:
        x = x.with_(x.imaginary[(*[slice(None)] * axis, slice(0, needed))])
    else:
        x = _filled_up(schedule, x, axis, needed)
    schedule.views[out] = append(schedule, x, axis, n, out.dtype, "to real", False)


def _filled_up(schedule: Schedule, x: View, axis: int, rows: int) -> View:
    """With zeros behind what there is."""
    whole = schedule.new_buffer((*x.shape[:axis], rows, *x.shape[axis + 1 :]), x.dtype)
    schedule.steps.append(Zero(whole.buffer))
    part = whole.with_(whole.imaginary[(*[slice(None)] * axis, slice(0, x.shape[axis]))])
    schedule.copy(x, part)
    return whole


LOWER = {"fft": lower_fft, "rfft": lower_rfft, "irfft": lower_irfft}
