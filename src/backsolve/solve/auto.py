"""The chooser: what each way to a dense Jacobian would cost, and the cheapest.

Prices come from sizes and from the blocks' own costs; nothing is applied. How many entries products of blocks
have is estimated by a substitution on single numbers:

    a_i = Σ_j n(L_ij) a_j / size_j        entries of the Jacobian of row i, if blocks have n entries

The seconds per number were measured once (benchmarks/chooser.py compares what is chosen with every way); only
their order matters, and small systems are not priced at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from ..operators import Operator
from ..operators.contraction import Contraction
from ..operators.entries import Entries
from ..operators.product import Product
from ..operators.sum import OperatorSum
from ..row import Row
from ..system import System

# Seconds: of a row in a solve and in an elimination; of an entry of a stack, in the cache and beyond; of a
# multiplication inside a product of matrices; of an entry that elimination multiplies, or puts in its place.
_ROW, _ELIMINATED = 6e-5, 2.5e-4
_NEAR, _FAR, _CACHE = 1.5e-9, 8e-9, 1 << 18
_PRODUCT, _ENTRY, _PLACED = 3e-10, 8e-9, 1.2e-8
# Numbers in the stacks of a plain solve, in all and for each row, from which on prices are asked for: asking
# builds the blocks, some tenths of a millisecond for each row.
WORTH, WORTH_A_ROW = 1_000_000, 300_000


@dataclass(frozen=True)
class Price:
    way: str  # as `method` of jacobian
    order: str | None
    multiplications: int
    bytes: int  # written in all
    passes: int | None
    seconds: float


def work(rows: Sequence[Row], seeds: int) -> int:
    """Numbers in all stacks of a plain solve."""
    return seeds * sum(row.size for row in rows)


def prices(system: System) -> list[Price]:
    """Of all ways, the cheapest first."""
    n_in, n_out = sizes(system)
    edges = {row: system.edges(row) for row in system.rows}
    found = [_solves("reverse", n_out, edges), _solves("forward", n_in, edges, n_in * n_out)]
    if not any(r.dtype.kind == "c" for r in (*system.rows, *system.parameters)):
        found.append(_elimination(system, edges, n_in * n_out))
    return sorted(found, key=lambda p: p.seconds)


_Edges = dict[Row, list[tuple[Row, Operator]]]


def _solves(way: str, seeds: int, edges: _Edges, turned: int = 0) -> Price:
    """One batched solve; `turned` entries have their axes moved in the end."""
    blocks = [block for line in edges.values() for _, block in line]
    once = sum(block.cost.multiplications for block in blocks)
    heavy = sum(block.cost.multiplications for block in blocks if _is_dense(block))
    entries = work(list(edges), seeds)
    widest = max([row.size for row in edges], default=1)
    each = _NEAR if widest * seeds <= _CACHE else _FAR
    seconds = _ROW * len(edges) + each * (entries + turned) + _PRODUCT * seeds * heavy
    return Price(way, None, seeds * once, 8 * entries, seeds, seconds)


def _elimination(system: System, edges: _Edges, places: int) -> Price:
    """From the first row to the last, by entries."""
    n_in = sum(p.size for p in system.parameters)
    entries: dict[Row, float] = {p: float(p.size) for p in system.parameters}
    multiplications, written = 0.0, 0.0
    for row, line in edges.items():
        total = 0.0
        for parent, block in line:
            made = entry_count(block) * entries[parent] / max(parent.size, 1)
            if block.cost.multiplications:
                multiplications += made
            total += made
        entries[row] = min(total, float(row.size * n_in))
        written += total
    seconds = _ELIMINATED * len(edges) + _ENTRY * written + _PLACED * places
    size = 8 * (int(written) + places)
    return Price("eliminate", "forward", int(multiplications), size, None, seconds)


def entry_count(a: Operator) -> float:
    """How many entries a block has, about."""
    if isinstance(a, Entries):
        return float(a.nnz)
    if isinstance(a, Product):
        found = float(a.in_type.size)
        for factor in reversed(a.factors):
            found *= entry_count(factor) / max(factor.in_type.size, 1)
        return found
    if isinstance(a, OperatorSum):
        return sum(entry_count(t) for t in a.terms)
    if isinstance(a, Contraction):
        return float(prod(a.label_sizes().values()))
    size_in, size_out = a.in_type.size, a.out_type.size
    if a.moves_entries or "sparse" in a.structure:
        return float(max(size_in, size_out))
    return float(size_in) * size_out


def _is_dense(a: Operator) -> bool:
    return isinstance(a, Contraction) or (isinstance(a, Product) and any(map(_is_dense, a.factors)))


def is_opaque(system: System) -> bool:
    """Whether a call inside has no blocks to price."""
    return any(r.primitive.is_joint or r.primitive.is_component for r in system.rows)


def choice(system: System) -> Price | None:
    """The cheapest way; None where sizes alone decide: fewer seeds (`plain_is_forward`)."""
    n_in, n_out = sizes(system)
    least = max(WORTH, WORTH_A_ROW * len(system.rows))
    if system.record or is_opaque(system) or work(system.rows, min(n_in, n_out)) < least:
        return None
    return prices(system)[0]


def sizes(system: System) -> tuple[int, int]:
    """Entries of the parameters and of the outputs."""
    return (
        sum(p.size for p in system.parameters),
        sum(y.size for y in dict.fromkeys(y for y in system.outputs if y is not None)),
    )


def plain_is_forward(n_in: int, n_out: int) -> bool:
    """As many of both go in reverse: forward, axes are moved in the end."""
    return n_in < n_out


def reason(way: str, n_in: int, n_out: int) -> str:
    if way == "eliminate":
        return "few entries: each is computed once"
    if way == "forward":
        return "one input: forward substitution is optimal" if n_in == 1 else "fewer inputs"
    if n_out == 1:
        return "one output: back substitution is optimal"
    return "fewer outputs" if n_out < n_in else "as cheap as forward, and no axes to move"
