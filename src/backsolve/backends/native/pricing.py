"""About how long a Program runs, told from its steps: nothing is emitted, built or timed.

What is counted are vectors and single numbers that loops read, compute and write, as the loops are emitted:
with their axes merged, and by how each view walks along the innermost one. So a sum along rows that are too
short for vectors, a transposed copy or a scatter is seen as what it is. The rates belong to one processor; what
decides between two Programs are their ratios. What a call from Python takes, some 0.4 µs for each, is no
part of it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from math import gcd, prod
from typing import Any

import numpy as np

from ...ir import Program, Shape, Var
from .array_regions.branch import BranchStep
from .array_regions.loop import LoopStep
from .blas import Product
from .blocked import Blocked
from .compile import scheduled, without_collections
from .guard import condition_of_sums
from .indexing import Write
from .instructions import WITHIN, dropped_sums, fused_products, instructions_of
from .kernel import Kernel
from .lattice_products import LatticeProduct
from .nests import TINY, common_lanes, has_masks, lanes, rounds_together, walk, written_out
from .rates import FIRST, IS_ARM, OWN, PAGES, RATES, SECOND, SPREAD, THIRD, TURNED, WAY, WAYS
from .registers.step import Region
from .scans import ABREAST, Scan
from .share_out import Shared
from .small_products import are_small
from .steps import Step, Zero
from .sweep import Sweep
from .tiles import registers
from .tiling import Pack, Tiled
from .under_way import left_waiting
from .views import Buffer, View

# Views of one array that a round reads: from so many on its lines are used up while they are near.
TOGETHER = 4
LINE = 64  # bytes
WIDEST = 8  # vectors that LLVM turns into rows in registers
NARROW = 16  # columns or rows of a product, below which BLAS does not fill its vectors
ROUNDS = 32  # of a loop until something holds: a few of Newton's, some tens of a bisection or a fixed point
WHOLE = (2, 4)  # rows shorter than a vector that are shorter vectors
AT_ONCE = 320  # operations that a processor has in its view


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
            self.add("packed", times * prod(step.source.shape))
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
            is_whole = step.found.masks or n % width == 0
            self.add("tile in part", 0 if is_whole else count * -(-m // step.found.rows))
            self.add("term of a tile", count * tiles * terms)
        if isinstance(step, LatticeProduct) and step.columns is not None:
            self.add("placed", count * terms * n / max(step.columns.piece, 1))
        if isinstance(step, Blocked) and step.sizes is not None:
            self.add("load apart", count * terms * (n + (m if step.sizes.is_packed else 0)))
        self.add("multiplied", count * m * -(-n // width) * terms)


def _pieces(few: int) -> int:
    """Into how many of 8, 4, 2 and 1 BLAS cuts few columns or rows."""
    return (few & 7).bit_count() + (few >= 8) if few < NARROW else 0


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
        first = written_out(kernel, domain)
        self.copies = domain[first:]  # rounds of inner loops that are written out
        self.moves = {id(v): s[first:] for v, s in zip(views, strides, strict=True)}  # along those
        self.strides = {id(v): s[:first] for v, s in zip(views, strides, strict=True)}
        ends = times * prod(domain[:-1])
        domain = domain[:first]
        self.length = domain[-1] if domain else 1
        self.rows = times * prod(domain[:-1])
        self.vectors, self.singles = divmod(self.length, common_lanes(views))
        if kernel.writes:  # of two writes to one place the last counts
            self.vectors, self.singles = 0, self.length
        elif not self.vectors and self.length in WHOLE:
            self.vectors, self.singles = 1, 0
        elif self.vectors and self.singles and self.length < TINY and has_masks():
            self.vectors, self.singles = self.vectors + 1, 0
            to.add("masked", self.rows * self.vectors)
        self.together = self._rounds_together(domain)
        to.add("row", self.rows / self.together if len(domain) > 1 else 0)
        self._statements()
        self._memory(times)
        self._sums()
        for write in kernel.writes:
            self._write(write, times)
        for end in kernel.ends:
            to.add("single load", ends * len(end.loads))
            to.add("single operation", ends * len(end.statements))
            to.add("single store", ends * len(end.stores))

    def _rounds_together(self, domain: Shape) -> int:
        if len(domain) < 2 or self.copies or not IS_ARM:  # x86-64's rates were fitted without it
            return 1
        if condition_of_sums(self.kernel, self.length, self.along) is not None:
            return 1
        return rounds_together(self.kernel, domain, self.strides)

    def once(self, view: View) -> float:
        """The share of rounds in which a view is read or written, for some share it."""
        is_shared = self.together > 1 and not self.strides[id(view)][-2]
        return 1 / self.together if is_shared else 1.0

    def each(self, what: str, n: float = 1) -> None:
        """So many of it for every vector and every single number."""
        if self.kernel.writes and what in ("load", "mask", "operation", "factor"):
            self.to.add("in turn", n * self.rows * self.length)
            return
        self.to.add(what, n * self.rows * self.vectors)
        self.to.add(f"single {what}", n * self.rows * self.singles)

    def loads_apart(self, buffer: Buffer, apart: int, numbers: int) -> None:
        self.to.add("load apart", numbers)
        if (step := apart * buffer.dtype.itemsize) >= LINE:
            lines = WAYS * (WAY // max(gcd(step, WAY), LINE))  # that such steps find again
            self.to.add("load from few sets", numbers if self.length > lines else 0)
            # Of loads alone many are under way at once, and none is waited for.
            if self.length * step > SPREAD and self.kernel.statements:
                too_much = (self.to.nbytes - OWN) / OWN  # the more, the fewer lines are still there
                self.to.add("load across pages", numbers * min(max(too_much, 0.0), 1.0))
        self.to.add("load off pages", numbers if buffer.nbytes > PAGES else 0)
        self.to.add("load far apart", numbers if buffer.nbytes > SECOND else 0)

    def along(self, view: View) -> int:
        """How far apart are two numbers that follow each other in the innermost loop."""
        strides = self.strides[id(view)]
        return abs(strides[-1]) if strides else 0

    def moving(self, view: View) -> frozenset[int]:
        """The loops among those that are written out, along which a view moves."""
        return frozenset([k for k, s in enumerate(self.moves[id(view)]) if s])

    def times(self, moving: Iterable[int]) -> int:
        """How often something stands there that moves along these loops."""
        return prod([self.copies[k] for k in moving])

    def views(self, view: View) -> int:
        return self.times(self.moving(view))

    def _statements(self) -> None:
        kernel = self.kernel
        depths = {a: 0.0 for a, view in kernel.loads.items() if self.along(view)}  # of what varies
        moving = {a: self.moving(view) for a, view in kernel.loads.items()}
        size = 0.0  # of a round
        turned = set()  # what a sine or a cosine is taken of: the other one of it is nearly free
        fused, dropped = fused_products(kernel), dropped_sums(kernel)
        for e in kernel.statements:
            name, y = e.primitive.name, e.outputs[0]
            moving[y] = frozenset().union(*[moving[a] for a in e.inputs if a in moving])
            if y in kernel.reads:
                moving[y] = frozenset(range(len(self.copies)))
                whole, place = self.rows * self.length * prod(self.copies), kernel.reads[y].view
                is_far = self.along(place) > 1 and 2 * place.buffer.nbytes > SECOND
                self.to.add("gather", whole)
                self.to.add("gather far apart", whole if is_far else 0)
                depths[y] = 0.0
                continue
            what, share = ("factor", 1.0) if y in fused else instructions_of(e)
            if name in ("sin", "cos"):
                share = share if e.inputs[0] not in turned else TURNED
                turned.add(e.inputs[0])
            before = [depths[a] for a in e.inputs if type(a) is Var and a in depths]
            if y in dropped:
                depths[y] = max(before, default=0.0)
            elif before:
                depths[y] = max(before) + share * WITHIN[what]
                size += share * WITHIN[what] * self.times(moving[y])
                self.each(what, share * self.times(moving[y]))
            else:  # once a row
                self.to.add(f"single {what}", share * self.rows)
        # Of a short round the processor computes several at once.
        longest = max(depths.values(), default=0.0)
        waits = longest * min(1.0, size / AT_ONCE) * left_waiting(kernel, self.length)
        self.to.add("waited", self.rows * (self.vectors + self.singles) * waits)

    def _memory(self, times: int) -> None:
        kernel, whole = self.kernel, self.rows * self.length
        loads = [v for v in kernel.loads.values() if v.buffer.kind != "ramp"]
        stores = [v for _, v in kernel.stores]
        for view in loads:
            if not (apart := self.along(view)):
                self.to.add("single load", self.rows * self.views(view))
            elif apart == 1:
                what = "load" if view.dtype.kind != "b" else "mask"
                self.each(what, self.views(view) * self.once(view))
        for view in stores:
            if self.along(view) <= 1:
                what = "store at hand" if view.buffer.kind == "local" else "store"
                self.each(what, self.views(view))
        self._apart(loads, stores)
        # Numbers; what is read again and again is near by then.
        far = [v for v in loads if self.along(v) and v.buffer.kind != "local"]
        moved = sum(min(whole * self.views(v), _fresh(v.buffer, times)) for v in far)
        written = whole * sum(self.views(v) for v in stores if v.buffer.kind != "local")
        self.to.passed(moved / lanes(np.dtype(np.float64)))
        self.to.passed(written / lanes(np.dtype(np.float64)), "written ")

    def _apart(self, loads: Sequence[View], stores: Sequence[View]) -> None:
        """Numbers that do not lie side by side, and the lines of the first cache that they come through."""
        whole = self.rows * self.length
        read, written = Counter[tuple[Buffer, int]](), Counter[tuple[Buffer, int]]()
        for counter, views in ((read, loads), (written, stores)):
            for v in views:
                counter[v.buffer, self.along(v)] += self.views(v)
        beside = sum(n for (_, apart), n in (*read.items(), *written.items()) if apart == 1)
        for (buffer, apart), n in read.items():
            if apart > 1 and n < TOGETHER:
                self.loads_apart(buffer, apart, whole * n)
            elif apart > 1:
                self.to.add("load together", whole * n)
            if apart > 1:
                self._lines("loaded", buffer, apart, n)
        for (buffer, apart), n in written.items():
            if apart > 1:
                has_gaps = n < apart <= WIDEST
                self.to.add("store with gaps" if has_gaps else "store apart", whole * n)
                is_mixed = apart > WIDEST and min(n, beside) >= TOGETHER
                self.to.add("store from columns", whole * n if is_mixed else 0)
                self._lines("stored", buffer, apart, n)

    def _lines(self, how: str, buffer: Buffer, apart: int, n: int) -> None:
        """Lines that `n` views of an array come to in each round."""
        lines = self.rows * self.length * min(n, apart * buffer.dtype.itemsize / LINE)
        self.to.add(f"line {how}", lines if self.to.nbytes > FIRST else 0)

    def _sums(self) -> None:
        for _, _, view in self.kernel.reductions:
            apart = self.along(view)
            if apart > 1:
                self._apart([view], [view])
                self.each("operation", prod(self.copies))
                continue
            self.each("operation", prod(self.copies))
            if not apart:
                self.to.add("total", self.rows if self.vectors else 0)
                self.to.add("single store", self.rows)
                continue
            self.each("load", self.once(view))
            self.each("store", self.once(view))
            if self.copies:
                continue
            if self.vectors:
                self.to.add("row added", self.rows * self.once(view))
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
