"""About how long a Program runs, told from its steps: nothing is emitted, built or timed.

What is counted are vectors and single numbers that loops read, compute and write, as the loops are emitted:
with their axes merged, and by how each view walks along the innermost one. So a sum along rows that are too
short for vectors, a transposed copy or a scatter is seen as what it is. The rates belong to one processor; what
decides between two Programs are their ratios. What a call from Python takes, some 0.4 µs for each, is no
part of it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ...ir import Program, Var
from .array_regions.branch import BranchStep
from .array_regions.loop import LoopStep
from .blas import Product
from .blocked import Blocked
from .build import vector_bytes
from .compile import scheduled, without_collections
from .elementwise import LONG
from .indexing import Write
from .kernel import Kernel
from .lattice_products import LatticeProduct
from .nests import walk
from .registers.step import Region
from .scans import ABREAST, Scan
from .share_out import Shared
from .small_products import are_small
from .steps import Step, Zero
from .sweep import Sweep
from .tiles import registers
from .tiling import Pack, Tiled
from .views import Buffer, View

# Seconds for each. Of an x86-64 with vectors of four numbers in loops and eight in products, fitted to times of
# some 2,000 steps of Jacobians, most of them of a thousand points, and rounded.
RATES = {
    "step": 4.5e-9,
    "row": 4.6e-10,  # an innermost loop that is started
    # Vectors along the innermost loop.
    "load": 1e-10,
    "store": 6.5e-10,
    "store at hand": 5.6e-10,  # in an array that never leaves the first cache
    "masked": 3.1e-10,  # more
    "operation": 9.3e-11,
    "waited": 4.5e-10,  # for one that it needs, along the longest chain of them
    "division": 1.8e-9,
    "function": 4.2e-9,
    # Single numbers: ends of rows, and rows that are shorter than a vector.
    "single load": 4.5e-11,
    "single store": 1.2e-10,
    "single store at hand": 1.2e-10,
    "single operation": 4e-11,
    "single division": 1.1e-9,
    "single function": 4e-9,
    # Numbers that do not lie side by side.
    "load apart": 2.4e-10,
    "load off pages": 1.6e-10,  # more, from an array of more pages than the processor remembers
    "load far apart": 3.3e-10,  # more, from lines of an array that leaves the cache before they are read on
    "load together": 1.25e-10,  # with those that lie between them
    "store apart": 7.8e-10,
    "store together": 3.6e-10,
    "gather": 4.2e-10,
    "gather far apart": 2.3e-9,  # more, each from another line of a large array
    "scatter": 6.2e-10,
    "in turn": 1.1e-10,  # a number that is loaded or computed in a loop with a scatter
    "same place": 4e-9,  # as the number before: it waits for it
    # Sums.
    "total": 1.25e-9,  # of a vector's entries
    "row added": 3.3e-10,  # to one in memory
    "short sum": 9e-10,  # a number added to one in memory, in rows that are no vectors
    "running": 1.8e-10,  # a number of a scan, of lines side by side
    "waiting": 6.3e-10,  # the same along lines, where a number waits for the one before it
    "waiting far": 7e-10,  # more, for what comes from memory
    "cleared": 6e-10,  # a vector of zeros
    "cleared far": 1.7e-9,  # more, in an array that leaves the cache before it is written into
    # Vectors of arrays that are together larger than the first cache, the second, or a share of the third.
    "near": 1.1e-10,
    "far": 2.2e-10,
    "farther": 1.9e-10,
    "written near": 1.2e-10,
    "written far": 4.2e-10,
    "written farther": 4.3e-10,
    # Products of matrices.
    "by tiles": 1.2e-7,  # a product; its wide vectors wait for what narrow ones have just written
    "tile": 2.5e-8,
    "term of a tile": 1.08e-9,  # its sums wait for the term before
    "multiplied": 2.25e-10,  # a vector, in registers
    "placed": 2e-9,  # a piece of an operand that is no matrix in memory, put into panels
    "by BLAS": 1.9e-7,
    "turned by BLAS": 9.5e-10,  # more, an entry of a product whose second matrix lies in columns
    "narrow by BLAS": 1.3e-10,  # more, a term of a piece of few columns or rows
    "multiplied by BLAS": 2.7e-10,
}
FIRST, SECOND, THIRD = 1 << 15, 1 << 21, 1 << 23  # bytes of caches
PAGES = 1 << 18  # bytes of the pages whose addresses are at hand
# What a function takes of an exponential's time.
FUNCTIONS = {
    **dict.fromkeys(["exp2", "expm1", "exp", "sigmoid", "tanh"], 1.0),
    **dict.fromkeys(["sin", "cos"], 1.3),
    **dict.fromkeys(["log", "log1p"], 1.5),
    **dict.fromkeys(["cosh", "log2", "log10", "sinh"], 1.9),
    **dict.fromkeys(["arccos", "softplus", "log_sigmoid", "arctan", "arcsin"], 2.4),
    **dict.fromkeys(["erf", "cbrt", "tan"], 2.7),
    **dict.fromkeys(["arctanh", "arctan2", "erfc", "arccosh", "arcsinh"], 4.2),
    **dict.fromkeys(["power", "logaddexp"], 5.5),
}
SLOW = {"divide", "sqrt", "reciprocal", "remainder", "floor_divide"}
# Views of one array that a round reads or writes: from so many on its lines are used up while they are near.
TOGETHER = 4
NARROW = 16  # columns or rows of a product, below which BLAS does not fill its vectors
ROUNDS = 32  # of a loop until something holds: a few of Newton's, some tens of a bisection or a fixed point
WHOLE = (2, 4)  # rows shorter than a vector that are shorter vectors
AT_ONCE = 320  # operations that a processor has in its view
WITHIN = {"operation": 1, "division": 4, "function": 25}  # operations, one after the other
FEW = 16  # numbers: shorter rows end in a masked vector where the processor has masks, not in single numbers
MASKS = 32  # bytes of a vector, from which on it has them


def seconds_of(program: Program) -> float:
    """Raises Unsupported if an equation has no native form."""
    return counted(program).seconds


@without_collections()
def counted(program: Program) -> Counted:
    schedule, _ = scheduled(program)
    return Counted(schedule.steps, dict(schedule.constants))


class Counted:
    """What the steps do, by the names of RATES; `known` are the constants among the buffers."""

    def __init__(self, steps: Sequence[Step], known: dict[Buffer, Any]):
        self.counts: defaultdict[str, float] = defaultdict(float)
        self.others = 0.0  # seconds of steps that are not taken apart
        self.known = known
        self.nbytes = 0  # of all arrays of the step at hand
        for step in steps:
            self.nbytes = sum(x.nbytes for x in dict.fromkeys(step.buffers()))
            self.step(step, 1)

    @property
    def seconds(self) -> float:
        return sum(RATES[what] * n for what, n in self.counts.items()) + self.others

    def add(self, what: str, n: float) -> None:
        if n:
            self.counts[what] += n

    def passed(self, vectors: float, how: str = "") -> None:
        """So many go through memory, or through the caches that hold all arrays together."""
        self.add(f"{how}near", vectors if self.nbytes > FIRST else 0)
        self.add(f"{how}far", vectors if self.nbytes > SECOND else 0)
        self.add(f"{how}farther", vectors if self.nbytes > THIRD else 0)

    def cleared(self, buffer: Buffer, times: int) -> None:
        vectors = times * buffer.size / lanes(buffer.dtype)
        self.add("cleared", vectors)
        self.add("cleared far", vectors if buffer.nbytes > SECOND else 0)
        self.passed(vectors)

    def step(self, step: Step, times: int) -> None:
        self.add("step", times)
        if isinstance(step, Kernel):
            _Loops(self, step, times)
        elif isinstance(step, Shared):
            _Loops(self, step.kernel, times)
        elif isinstance(step, Sweep):
            for inner in step.steps:
                self.step(inner, times * step.count)
            for inner in step.last:
                self.step(inner, times)
        elif isinstance(step, Product):
            self.product(step, times)
        elif isinstance(step, Pack):
            self.add("load apart", times * prod(step.source.shape))
        elif isinstance(step, Zero):
            self.cleared(step.buffer, times)
        elif isinstance(step, Scan):
            behind, size = prod(step.out.shape[step.axis + 1 :]), prod(step.out.shape)
            few = size < ABREAST * step.out.shape[step.axis]
            self.add("running" if behind > 1 else "waiting", times * size * (1 + few))
            self.add("waiting far", times * size if behind <= 1 and self.nbytes > THIRD else 0)
            self.passed(times * size / lanes(step.out.dtype))
            self.passed(times * size / lanes(step.out.dtype), "written ")
        elif isinstance(step, LoopStep):
            for inner in step.inner_steps():
                self.step(inner, times * (step.count if isinstance(step.count, int) else ROUNDS))
        elif isinstance(step, BranchStep):
            longest = max(Counted(branch.steps, self.known).seconds for branch in step.branches)
            self.others += times * longest
        elif isinstance(step, Region):
            self.others += times * step.seconds_for(ROUNDS)
        else:
            self.others += times * step.seconds

    def product(self, step: Product, times: int) -> None:
        *batch, m, n = step.c.shape
        terms, width = step.flops // max(2 * prod(step.c.shape), 1), tile_lanes(step.c.dtype)
        count = times * prod(batch)
        self.add("store", count * m * -(-n // width))
        self.passed(count * (m * terms + terms * n) / width)
        self.passed(count * m * n / width, "written ")
        if type(step) is Product and not are_small(step):
            self.add("by BLAS", count)
            self.add("multiplied by BLAS", count * m * n * terms / width)
            self.add("narrow by BLAS", count * max(m, n) * terms * _pieces(min(m, n)))
            is_turned = step.a.strides[-1] == 1 and step.b.strides[-1] != 1
            self.add("turned by BLAS", count * m * n if is_turned else 0)
            return
        if isinstance(step, Tiled | Blocked | LatticeProduct) and step.found is not None:
            self.add("by tiles", times)
            tiles = -(-m // step.found.rows) * -(-n // step.found.columns(step.c.dtype))
            self.add("tile", count * tiles)
            self.add("term of a tile", count * tiles * terms)
        if isinstance(step, LatticeProduct) and step.columns is not None:
            self.add("placed", count * terms * n / max(step.columns.piece, 1))
        if isinstance(step, Blocked) and step.sizes is not None:
            self.add("load apart", count * terms * (n + (m if step.sizes.is_packed else 0)))
        self.add("multiplied", count * m * -(-n // width) * terms)


def _pieces(few: int) -> int:
    """Into how many of 8, 4, 2 and 1 BLAS cuts few columns or rows."""
    return (few & 7).bit_count() + (few >= 8) if few < NARROW else 0


def lanes(dtype: np.dtype[Any]) -> int:
    """Numbers of a vector in a loop."""
    return max(vector_bytes() // dtype.itemsize, 1)


def tile_lanes(dtype: np.dtype[Any]) -> int:
    """Numbers of a vector in a product of matrices."""
    found = registers()
    return max((16 if found is None else found.nbytes) // dtype.itemsize, 1)


def _fresh(buffer: Buffer, times: int) -> int:
    """Numbers that come from afar in so many rounds: what is small stays near after the first one."""
    is_same = buffer.kind != "part" and buffer.nbytes <= FIRST
    return buffer.size * (1 if is_same else times)


class _Loops:
    """One kernel: `rows` innermost loops, each of so many vectors and single numbers behind them."""

    def __init__(self, to: Counted, kernel: Kernel, times: int):
        self.to, self.kernel = to, kernel
        views = kernel.views()
        domain, strides = walk(kernel, views)
        if 0 in domain:
            return
        self.strides = {id(v): s for v, s in zip(views, strides, strict=True)}
        self.length = domain[-1] if domain else 1
        self.rows = times * prod(domain[:-1])
        width = min([lanes(v.dtype) for v in views if v.buffer.kind != "ramp"], default=1)
        self.vectors, self.singles = divmod(self.length, width)
        if kernel.writes:  # of two writes to one place the last counts
            self.vectors, self.singles = 0, self.length
        elif self.length in WHOLE:
            self.vectors, self.singles = 1, 0
        elif self.vectors and self.singles and self.length < FEW and vector_bytes() >= MASKS:
            self.vectors, self.singles = self.vectors + 1, 0
            to.add("masked", self.rows * self.vectors)
        to.add("row", self.rows if len(domain) > 1 else 0)
        self._statements()
        self._memory(times)
        self._sums()
        for write in kernel.writes:
            self._write(write, times)
        for end in kernel.ends:
            to.add("single load", self.rows * len(end.loads))
            to.add("single operation", self.rows * len(end.statements))
            to.add("single store", self.rows * len(end.stores))

    def each(self, what: str, n: float = 1) -> None:
        """So many of it for every vector and every single number."""
        if self.kernel.writes and what in ("load", "operation"):
            self.to.add("in turn", n * self.rows * self.length)
            return
        self.to.add(what, n * self.rows * self.vectors)
        self.to.add(f"single {what}", n * self.rows * self.singles)

    def loads_apart(self, view: View) -> None:
        whole = self.rows * self.length
        self.to.add("load apart", whole)
        self.to.add("load off pages", whole if view.buffer.nbytes > PAGES else 0)
        self.to.add("load far apart", whole if view.buffer.nbytes > SECOND else 0)

    def along(self, view: View) -> int:
        """How far apart are two numbers that follow each other in the innermost loop."""
        strides = self.strides[id(view)]
        return abs(strides[-1]) if strides else 0

    def _statements(self) -> None:
        kernel = self.kernel
        depths = {a: 0.0 for a, view in kernel.loads.items() if self.along(view)}  # of what varies
        size = 0.0  # of a round
        turned = set()  # what a sine or a cosine is taken of: the other one of it is nearly free
        for e in kernel.statements:
            name, y = e.primitive.name, e.outputs[0]
            if y in kernel.reads:
                whole, place = self.rows * self.length, kernel.reads[y].view
                is_far = self.along(place) > 1 and 2 * place.buffer.nbytes > SECOND
                self.to.add("gather", whole)
                self.to.add("gather far apart", whole if is_far else 0)
                depths[y] = 0.0
                continue
            what = "function" if name in LONG else "division" if name in SLOW else "operation"
            share = FUNCTIONS.get(name, 1.0) if what == "function" else 1.0
            if name in ("sin", "cos"):
                share = share if e.inputs[0] not in turned else 0.3
                turned.add(e.inputs[0])
            before = [depths[a] for a in e.inputs if type(a) is Var and a in depths]
            if before:
                depths[y] = max(before) + share * WITHIN[what]
                size += share * WITHIN[what]
                self.each(what, share)
            else:  # once a row
                self.to.add(f"single {what}", share * self.rows)
        # Of a short round the processor computes several at once.
        longest = max(depths.values(), default=0.0)
        waits = longest * min(1.0, size / AT_ONCE)
        self.to.add("waited", self.rows * (self.vectors + self.singles) * waits)

    def _memory(self, times: int) -> None:
        kernel = self.kernel
        whole = self.rows * self.length
        moved = written = 0  # numbers; what is read again and again is near by then
        together = Counter([(v.buffer, self.along(v)) for v in kernel.loads.values()])
        together.update([(v.buffer, self.along(v)) for _, v in kernel.stores])
        for view in kernel.loads.values():
            apart = self.along(view)
            if view.buffer.kind == "ramp":
                continue
            if not apart:
                self.to.add("single load", self.rows)
                continue
            if view.buffer.kind != "local":
                moved += min(whole, _fresh(view.buffer, times))
            if apart == 1:
                self.each("load")
            elif together[view.buffer, apart] >= TOGETHER:
                self.to.add("load together", whole)
            else:
                self.loads_apart(view)
        for _, view in kernel.stores:
            is_local = view.buffer.kind == "local"
            written += 0 if is_local else whole
            if (apart := self.along(view)) <= 1:
                self.each("store at hand" if is_local else "store")
            elif together[view.buffer, apart] >= TOGETHER:
                self.to.add("store together", whole)
            else:
                self.to.add("store apart", whole)
        self.to.passed(moved / lanes(np.dtype(np.float64)))
        self.to.passed(written / lanes(np.dtype(np.float64)), "written ")

    def _sums(self) -> None:
        for _, _, view in self.kernel.reductions:
            apart = self.along(view)
            if apart > 1:
                self.loads_apart(view)
                self.to.add("store apart", self.rows * self.length)
                continue
            self.each("operation")
            if not apart:
                self.to.add("total", self.rows if self.vectors else 0)
                self.to.add("single store", self.rows)
                continue
            self.each("load")
            self.each("store")
            if self.vectors:
                self.to.add("row added", self.rows)
            else:
                self.to.add("short sum", self.rows * self.length)

    def _write(self, write: Write, times: int) -> None:
        buffer = write.place.view.buffer
        self.to.add("scatter", self.rows * self.length)
        if write.fresh:
            self.to.cleared(buffer, times)
        if write.how == "set" or len(write.place.axes) != 1:
            return
        places = self.kernel.loads.get(write.place.axes[0].index)
        at = None if places is None else self.to.known.get(places.buffer)
        if at is not None:
            self.to.add("same place", times * int(np.count_nonzero(np.diff(np.ravel(at)) == 0)))
