"""A kernel: one loop nest that many equations share."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any

from ...ir import Equation, Shape, Var
from .cutting import Put, slice_view
from .elementwise import FUNCTIONS
from .failure import call_step
from .indexing import Place, Write
from .sharing import kernel_function
from .steps import FUNCTION_FLOPS, Site, Step
from .totals import wide_dtype
from .views import Buffer, View

if TYPE_CHECKING:
    from .sorting import Search


@dataclass(eq=False)
class Kernel(Step):
    """A loop nest over `domain`: statements on entries, stores, and reductions of some axes."""

    domain: Shape
    statements: list[Equation] = field(default_factory=list)
    made: set[Var] = field(default_factory=set)
    loads: dict[Var, View] = field(default_factory=dict)
    stores: list[tuple[Any, View]] = field(default_factory=list)
    reductions: list[tuple[str, Any, View]] = field(
        default_factory=list
    )  # output spread over domain
    axes: tuple[int, ...] | None = None  # reduced by all reductions alike
    reads: dict[Var, Place | Search] = field(default_factory=dict)  # statements that read memory
    writes: list[Write] = field(default_factory=list)  # in the order of the domain: of two the last
    refusals: dict[Var, int] = field(default_factory=dict)  # failures of statements (integers.py)
    adds: bool = False  # into reductions that somebody else has set up
    ends: list[Kernel] = field(default_factory=list)  # done at the end of each row (row_ends.py)

    def views(self) -> list[View]:
        stores = [*[v for _, v in self.stores], *[v for _, _, v in self.reductions]]
        places = [*self.reads.values(), *[w.place for w in self.writes]]
        return [*self.loads.values(), *stores, *[p.view for p in places], *self.end_views()]

    def end_views(self) -> list[View]:
        return [view for end in self.ends for view in end.views()]

    def buffers(self) -> list[Buffer]:
        return list(dict.fromkeys(v.buffer for v in self.views() if v.buffer.kind != "ramp"))

    @property
    def only_numbers(self) -> bool:
        """Whether it writes known numbers, and does nothing else."""
        rest = (self.statements, self.loads, self.reductions, self.reads, self.writes, self.ends)
        return not any(rest)

    @property
    def can_fail(self) -> bool:
        places = [*self.reads.values(), *[w.place for w in self.writes]]
        return bool(self.refusals) or any(x.code is not None for p in places for x in p.axes)

    @property
    def flops(self) -> int:
        each = [FUNCTION_FLOPS if e.primitive.name in FUNCTIONS else 1 for e in self.statements]
        return prod(self.domain) * (sum(each) + len(self.reductions))

    def leads(self) -> list[Shape]:
        if (
            self.reads
            or self.writes
            or self.refusals
            or any(v.buffer.kind == "ramp" for v in self.views())
        ):
            return []
        return [self.domain[:d] for d in range(1, len(self.domain) + 1)]

    def cut(self, lead: Shape, chunk: int, put: Put) -> Kernel:
        depth = len(lead)

        def part(view: View, role: str) -> View:
            return put(*slice_view(view, depth, chunk), role)

        spread = [all(s == 0 for s in v.strides[:depth]) for _, _, v in self.reductions]
        summed = bool(spread) and all(spread) and prod(lead) > 1
        axes = self.axes and tuple(k - depth + 1 for k in self.axes if k >= depth - 1)
        return Kernel(
            (chunk, *self.domain[depth:]),
            self.statements,
            self.made,
            {a: part(v, "read") for a, v in self.loads.items()},
            [(a, part(v, "write")) for a, v in self.stores],
            [
                (how, a, part(v, _role(how, v) if summed else "write"))
                for how, a, v in self.reductions
            ],
            axes,
            adds=summed,
        )

    def emit(self, site: Site) -> None:
        call_step(site.b, *kernel_function(self, site))

    @property
    def names(self) -> str:
        return " ".join(e.primitive.name for e in self.statements)

    def describe(self) -> str:
        sums = " ".join(how for how, _, _ in self.reductions)
        return (
            f"for {list(self.domain)}: {self.names}"
            + (f" → {sums} over {list(self.axes or ())}" if sums else "")
            + "".join(f" → {w.how} at indices" for w in self.writes)
            + "".join(f"; for each row: {e.names}" for e in self.ends)
            + f"   ({len(self.loads)} loads, {len(self.stores)} stores)"
        )


def _role(how: str, total: View) -> str:
    """How slices are put together; a single number in double precision."""
    is_wider = total.buffer.size == 1 and wide_dtype(how, total.dtype) != total.dtype
    return "total" if is_wider else how
