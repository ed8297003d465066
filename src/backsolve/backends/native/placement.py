"""Where the values of a Program live: in buffers, and in views of them.

A value gets memory only if somebody outside its kernel reads it; inputs, constants and outputs have theirs.
Slices, permutations, reshapes and broadcasts are views and cost nothing.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ...ir import Program, Shape, Type, Var, is_uniform, type_of
from .constants import same_bits, without_copies
from .instructions import is_function
from .kernel import Kernel
from .nests import LONG_LOOP, merge_axes
from .steps import Step
from .support import Unsupported
from .views import Buffer, View, size_of

if TYPE_CHECKING:
    from .array_regions.inside import Inside

EVEN = 8  # numbers: rows of as many have no ends behind their vectors


class Placement:
    """The memory of one Program, filled by its steps."""

    def __init__(self, program: Program, inside: Inside | None):
        self.program = program
        self.inside = inside  # what a region knows of its surroundings
        self.root: Any = inside.root if inside is not None else self
        self.steps: list[Step] = []
        self.barrier = -1  # a step that kernels behind it are not joined with those before
        self.views: dict[Var, View] = {}
        self.ready: dict[Buffer, int] = {}  # the step after which a buffer holds its value
        self.home: dict[Var, int] = {}  # the kernel (step) that computes a variable in a register
        self.numbers: dict[Var, Any] = {}  # variables that are one known number everywhere
        self.ranges: dict[Var, tuple[float, float]] = {}  # of integers: what they may be
        self.arena: list[Buffer] = []
        self.outputs: list[Buffer] = []
        self.constants: list[tuple[Buffer, Any]] = []
        self.read_inside: set[Buffer] = set()  # of the root's constants, those that regions read
        self.lifted: list[tuple[Buffer, View]] = []  # memory of the outer schedule, by other names
        self.now = 0  # the equation that is being lowered
        self.last_use: dict[Var, int] = {}
        for k, e in enumerate(program.equations):
            self.last_use.update({a: k for a in e.inputs if type(a) is Var})
        end = len(program.equations)
        self.last_use.update({a: end for a in program.outputs if type(a) is Var})
        self.overwritten: set[Buffer] = set()  # by a later value in its place

    def place_inputs(self) -> None:
        for k, var in enumerate(self.program.inputs):
            if self.inside is not None:
                self.inside.give(self, k, var)
                continue
            buffer = Buffer("input", var.type.size, var.dtype, k)
            self.ready[buffer] = -1
            self.views[var] = View.whole(buffer, var.shape)
        for var, value in self.program.constants:
            # An array was captured by value: nobody writes into it. What a Tensor holds may change.
            raw = np.asarray(value, order="C") if type(value) is np.ndarray else _copied(value)
            if is_uniform(raw):
                self.numbers[var] = raw.flat[0]  # the same number everywhere needs no memory
                continue
            self.ranges[var] = _bounds(raw)
            ramp = View.ramp(raw)
            if ramp is not None:
                self.ready[ramp.buffer] = -1
                self.views[var] = ramp
                continue
            self.views[var] = self.constant(raw)

    def constant(self, raw: Any) -> View:
        if self.root is not self:  # all constants are the root's, found through its table
            view = self.root.constant(raw)
            self.root.read_inside.add(view.buffer)
            self.ready[view.buffer] = -1
            return view
        kept = without_copies(raw)
        for buffer, known in self.constants:
            if same_bits(known, kept):
                return View.whole(buffer, kept.shape).broadcast(raw.shape)
        buffer = Buffer("constant", kept.size, kept.dtype, len(self.constants))
        self.constants.append((buffer, kept))
        self.ready[buffer] = -1
        return View.whole(buffer, kept.shape).broadcast(raw.shape)

    def lift(self, view: View) -> View:
        """Memory of the outer schedule that stays as it is while this region runs."""
        if view.buffer.kind in ("ramp", "constant"):
            self.root.read_inside.add(view.buffer)
            self.ready[view.buffer] = -1
            return view
        for inner, known in self.lifted:
            if known.buffer is view.buffer:
                return View(inner, view.imaginary)
        inner = Buffer("lifted", view.buffer.size, view.dtype, len(self.lifted))
        self.lifted.append((inner, view))
        self.ready[inner] = -1
        return View(inner, view.imaginary)

    def new_buffer(self, shape: Shape, dtype: np.dtype[Any]) -> View:
        buffer = Buffer("arena", size_of(shape), dtype, len(self.arena))
        self.arena.append(buffer)
        if not buffer.size:
            self.ready[buffer] = -1  # there is nothing to wait for
        return View.whole(buffer, shape)

    def place_outputs(self) -> None:
        """Every output gets memory of its own, written by a last copy unless its buffer can be it."""
        taken: set[Buffer] = set()
        for k, a in enumerate(self.program.outputs):
            t = type_of(a) if self.inside is None else self.inside.types[k]
            if type(a) is int and not -(2**63) <= a < 2**63:
                raise Unsupported("a Python integer of more than 64 bits")
            view = self.view_of(a) if type(a) is Var and a not in self.numbers else None
            buffer = view.buffer if view is not None else None
            if (
                view is not None
                and buffer is not None
                and (buffer.kind == "arena" or self._is_in_place(k, buffer))
                and buffer not in taken
                and view.is_contiguous
                and buffer.size == t.size
                and buffer.dtype == t.dtype
            ):
                if buffer.kind == "arena":
                    buffer.kind, buffer.index = "output", k
                taken.add(buffer)
                self.outputs.append(buffer)
                continue
            fresh = Buffer("output", t.size, np.dtype(t.dtype), k)
            self.outputs.append(fresh)
            self.put(a, View.whole(fresh, t.shape))

    def _is_in_place(self, k: int, buffer: Buffer) -> bool:
        """Whether output k of a region is due in the memory that it is in."""
        if self.inside is None or buffer.kind != "input":
            return False
        return self.inside.pairs.get(k) == buffer.index

    def may_overwrite(self, buffer: Buffer) -> bool:
        """Memory that belongs to nobody else, once its last reader has passed."""
        if buffer.kind == "input" and self.inside is not None:
            return buffer.index in self.inside.pairs.values()
        return buffer.kind == "arena"

    def view_of(self, a: Any) -> View:
        """The memory of a variable; one that lives in a kernel's register is stored there."""
        if a in self.views:
            return self.views[a]
        if type(a) is not Var or a in self.numbers:
            t = type_of(a)
            view = self.new_buffer((), t.dtype)  # one entry, wherever it is read
            self.copy(a, view)
            view = view.broadcast(t.shape)
        else:
            at = self.home[a]
            kernel = self.kernel(at)
            view = self.new_buffer(a.shape, a.dtype)
            kernel.stores.append((a, view))
            self.ready[view.buffer] = at
        if type(a) is Var:
            self.views[a] = view
        return view

    def copy(self, source: Any, target: View) -> None:
        """A kernel of its own that writes `source` into `target`."""
        kernel = Kernel(target.shape)
        self.steps.append(kernel)
        if isinstance(source, View):
            stand_in = Var(Type(target.shape, source.dtype))
            kernel.loads[stand_in] = source.broadcast(target.shape)
            source = stand_in
        elif type(source) is Var and source not in self.numbers:
            kernel.loads[source] = self.view_of(source).broadcast(target.shape)
        kernel.stores.append((source, target))
        self.ready[target.buffer] = len(self.steps) - 1

    def put(self, a: Any, target: View) -> None:
        """Write `a` into (a part of) new memory: by a kernel that has it in a register, if there is one."""
        at = self._beside_numbers(a, target.shape)
        if at is None:
            at = self._in_register(a, target.shape)
        if at is None or _cuts_functions(self.kernel(at), target):
            self.copy(a, target)
            return
        self.kernel(at).stores.append((a, target))
        self.ready[target.buffer] = max(self.ready.get(target.buffer, -1), at)

    def _beside_numbers(self, a: Any, shape: Shape) -> int | None:
        """For a number: the last kernel that writes nothing but numbers."""
        if type(a) is Var and a not in self.numbers:
            return None
        for at in range(len(self.steps) - 1, self.barrier, -1):
            step = self.steps[at]
            if isinstance(step, Kernel) and step.domain == shape and step.only_numbers:
                return at
        return None

    def _in_register(self, a: Any, shape: Shape) -> int | None:
        if type(a) is not Var or a in self.numbers:
            return None
        if a in self.home:
            return self.home[a] if self.kernel(self.home[a]).domain == shape else None
        for at, step in enumerate(self.steps):
            if isinstance(step, Kernel) and a in step.loads and step.domain == shape:
                return at
        return None

    def own(self, a: Any, others: Any = ()) -> View:
        """Memory that holds `a` and may be overwritten: its own if nobody reads that again."""
        t = type_of(a)
        view = self.ownable(a, others) if type(a) is Var and a not in self.numbers else None
        if view is not None:
            self.overwritten.add(view.buffer)
            return view
        view = self.new_buffer(t.shape, t.dtype)
        self.copy(a, view)
        return view

    def ownable(self, a: Var, others: Any) -> View | None:
        """The memory of `a` if it may be overwritten, and `others` do not lie there.

        Small parts of it that are still to be read are copied out first.
        """
        if a in self.numbers:
            return None
        view = self.view_of(a)
        busy = [v for v, w in self.views.items() if w.buffer is view.buffer]
        read = [v for v in busy if self.last_use.get(v, -1) > self.now or v in others]
        if (
            not self.may_overwrite(view.buffer)
            or not view.is_contiguous
            or view.buffer.size != prod(view.shape)
            or a in read
            or sum(2 * v.type.size for v in read) > view.buffer.size
        ):
            return None
        for v in read:
            part = self.new_buffer(v.shape, v.dtype)
            self.copy(v, part)
            self.views[v] = part
        return view

    def last_touch(self, buffer: Buffer) -> int:
        for at in range(len(self.steps) - 1, -1, -1):
            if buffer in self.steps[at].buffers():
                return at
        return -1

    def range_of(self, a: Any) -> tuple[float, float]:
        """Bounds of what an atom may hold, as far as they are known."""
        if type(a) is not Var or a in self.numbers:
            value = self.numbers[a] if type(a) is Var else a
            if not np.iscomplexobj(value):
                return float(value), float(value)
        return self.ranges.get(a, (-np.inf, np.inf))

    def in_memory(self, a: Any) -> View:
        """As view_of, but never a ramp."""
        view = self.view_of(a)
        if view.buffer.kind != "ramp":
            return view
        fresh = self.new_buffer(view.shape, view.dtype)
        self.copy(view, fresh)
        return fresh

    def kernel(self, at: int) -> Kernel:
        found = self.steps[at]
        assert isinstance(found, Kernel)
        return found

    def contiguous(self, view: View) -> View:
        if view.is_contiguous:
            return view
        fresh = self.new_buffer(view.shape, view.dtype)
        self.copy(view, fresh)
        return fresh


def _cuts_functions(kernel: Kernel, target: View) -> bool:
    """Whether loops that compute functions in one go would run along short rows for this store."""
    if len(kernel.domain) < 2 or not any(map(is_function, kernel.statements)):
        return False
    strides = [v.strides for v in kernel.views()]
    if len(merge_axes(kernel.domain, strides)[0]) != 1:
        return False
    rows = merge_axes(kernel.domain, [*strides, target.strides])[0]
    return len(rows) > 1 and rows[-1] < LONG_LOOP and rows[-1] % EVEN != 0


def _copied(value: Any) -> Any:
    return np.array(getattr(value, "_v", value), order="C")


def _bounds(raw: Any) -> tuple[float, float]:
    if raw.dtype.kind not in "iu":
        return -np.inf, np.inf
    return (float(raw.min()), float(raw.max())) if raw.size else (0.0, 0.0)
