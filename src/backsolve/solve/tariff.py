"""What each way to a dense Jacobian would take: work, and by rates seconds. No number is computed for it.

forward, reverse   what the blocks of every row take (work.py), for the seeds that reach it
eliminate          what products of stand-ins for the blocks would multiply (prices.py), in each order
colour             one plain solve for each colour of the pattern, once the pattern is found
scan               the rows of one round a few times, however many rounds there are, and finding them
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any, NamedTuple

from ..errors import UnsupportedError
from ..operators import Operator
from ..operators.entries import Entries, entries_of
from ..operators.entries.limit import Limits, within
from ..operators.entries.outline import Outline
from ..operators.entries.terms import Listed
from ..row import Row
from .colouring import coloured
from .compressed import Whole
from .eliminate import Graph, Vertex
from .orders import ORDERS
from .outlined import outlined
from .prices import Priced
from .scanned import Scan
from .sparse import laid_out
from .sweeps import substitution_works
from .work import Work, row_work


class Rates(NamedTuple):
    """Seconds. Pairs are of stacks in the cache and beyond."""

    call: float  # of a primitive, on a stack
    stepped: float  # the same in a scan, where it is staged first
    number: tuple[float, float]  # that is handled
    moved: tuple[float, float]  # of these, by what is not entry by entry
    inner: float  # multiplication in a product of matrices
    seed: float  # number of all right-hand sides
    entry: tuple[float, float]  # of the Jacobian
    turned: tuple[float, float]  # of these, where axes are moved in the end
    turning: float  # in any case, where they are
    # Of elimination: what it takes in any case, and for each row, each pair of terms that meet, each product
    # inside of a block, each contraction or matrix that is written by its entries, and each entry of a product
    # that stands nowhere regular; an entry put into its place.
    fixed: float
    row: float
    met: float
    inside: float
    nest: float
    listed: float
    placed: float
    looked: float  # of a scan: at a row, to find rounds and to stack what blocks captured


EAGER = Rates(
    call=2.2e-5,
    stepped=3.5e-5,
    number=(1.4e-9, 1.8e-9),
    moved=(0, 0),
    inner=6e-11,
    seed=2e-9,
    entry=(3e-10, 5e-10),
    turned=(0, 0),
    turning=1e-6,
    fixed=8.5e-5,
    row=6.2e-5,
    met=2.7e-5,
    inside=2.1e-4,
    nest=1.6e-4,
    listed=2.9e-8,
    placed=5e-9,
    looked=8e-6,
)
COMPILED = Rates(
    call=0,
    stepped=0,
    number=(1e-11, 1e-11),
    moved=(1.2e-10, 4e-10),
    inner=2.5e-11,
    seed=0,
    entry=(4e-10, 8e-10),
    turned=(1e-9, 2e-9),
    turning=0,
    fixed=0,
    row=0,
    met=2e-9,
    inside=0,
    nest=0,
    listed=0,
    placed=1e-9,
    looked=inf,  # its steps are taken in order
)
_CACHE = 1 << 18  # numbers of a stack

CHEAP = ("forward", "reverse", "markowitz", "greedy", "chain")  # orders that are planned quickly
_SPARSE = 0.2  # of all entries, above which a pattern is not worth colouring


@dataclass(frozen=True)
class Price:
    """Of one way; where it does not apply, `seconds` is infinite and `note` says why."""

    way: str  # as `method` of jacobian
    order: str | None = None
    multiplications: int | None = None
    bytes: int | None = None  # written in all
    passes: int | None = None
    seconds: float = inf
    note: str = ""
    plan: tuple[int, ...] | None = None  # of elimination: the rows' numbers, from 1
    is_bound: bool = False  # whether it costs at most that, if each entry of a block is stored once


# ---- substitution


def plain_prices(
    rows: Sequence[Row],
    parameters: Sequence[Row],
    outputs: Sequence[Row],
    rates: Rates = EAGER,
    record: bool = False,
) -> tuple[Price, Price]:
    """Of back and of forward substitution: one batch for each output, or for each parameter."""
    own = set(parameters)
    steps = [r for r in rows if r not in own]
    back, ahead = substitution_works(steps, parameters, outputs, record)
    n_in, n_out = _entries(parameters), _entries(outputs)
    widest = max([r.size for r in (*steps, *parameters)], default=1)

    def price(way: str, work: Work, at: Sequence[Row], turned: int) -> Price:
        seeds = _entries(at)
        far = widest * seeds > _CACHE
        seconds = _seconds(work, rates, far) + n_in * n_out * rates.entry[far]
        seconds += rates.seed * sum(r.size**2 for r in dict.fromkeys(at))
        if turned:
            seconds += turned * rates.turned[far] + rates.turning
        return Price(way, None, work.multiplications, 8 * work.numbers, seeds, seconds)

    turned = n_in * n_out if n_in > 1 else 0
    return price("reverse", back, outputs, 0), price("forward", ahead, parameters, turned)


def _seconds(work: Work, rates: Rates, far: bool) -> float:
    return (
        rates.call * work.calls
        + rates.number[far] * work.handled
        + rates.moved[far] * work.moved
        + rates.inner * work.inner
    )


# ---- a scan

_THROUGH = 3  # times through a round: its factors, its terms, and all that others read
_AROUND = 30  # calls for each recurrence
_LEVELS = 8  # times as long as in one large product: neighbours are multiplied level by level, in small ones


def scan_price(
    rows: Sequence[Row],
    parameters: Sequence[Row],
    outputs: Sequence[Row],
    plain: tuple[Price, Price],
    rates: Rates = EAGER,
) -> Price:
    """Of a scan over the loops in these rows."""
    try:
        by = Scan(rows, parameters, outputs, False)
    except UnsupportedError as why:
        return Price("scan", note=str(why))
    back, ahead = plain
    n_in, n_out = _entries(parameters), _entries(outputs)
    if all(map(by.is_entrywise, parameters)):
        like, seeds = ahead, len(parameters)
    else:
        like, seeds = (ahead, n_in) if n_in < n_out else (back, n_out)
    direction = 0 if like is ahead else 1
    share = seeds / max(like.passes or 1, 1)
    work = Work()
    for row in by.singles():
        work = work.plus(row_work(row)[direction])
    calls, blocks, products = work.calls, 0, 0
    for loop in by.loops:
        rounds = [row_work(loop.by_position[i][0])[0] for i in loop.inside]
        calls += _THROUGH * sum(w.calls for w in rounds)
        for c in loop.components:
            calls += _AROUND
            blocks += loop.count * c.width * sum(w.numbers for w in rounds)
            products += loop.count * c.lanes * c.width**3
    numbers = int(2 * share * (like.bytes or 0) / 8) + blocks
    whole = Work(
        calls,
        numbers,
        numbers,
        multiplications=int(share * (like.multiplications or 0)) + products,
        inner=_LEVELS * products,
    )
    far = by.widest * seeds > _CACHE
    seconds = rates.looked * len(rows) + n_in * n_out * rates.entry[far]
    seconds += _seconds(whole, rates._replace(call=rates.stepped), far)
    return Price("scan", None, whole.multiplications, 8 * whole.numbers, seeds, seconds)


def _entries(rows: Iterable[Row]) -> int:
    return sum(r.size for r in dict.fromkeys(rows))


# ---- elimination and colours


Known = dict[str, tuple[Any, Price]]  # of orders: the plan and its price


def elimination_prices(
    graph: Graph,
    orders: Sequence[str] = CHEAP,
    rates: Rates = EAGER,
    known: Known | None = None,
) -> list[Price]:
    """One for each order that is not the same as another; where products would be too many, with the reason.

    Where neither of the first two orders can be priced, the others are not planned. `known` has those that
    were priced before, and gets the others.
    """
    known = {} if known is None else known
    found: dict[Any, Price] = {}
    for k, name in enumerate(orders):
        if k == 2 and all(p.seconds == inf for p in found.values()):
            break
        if name not in known:
            try:
                with within(LIMITS):
                    plan = tuple(ORDERS[name](graph))
                    known[name] = plan, found.get(plan) or _elimination(graph, name, plan, rates)
            except UnsupportedError as e:
                known[name] = name, Price("eliminate", name, note=_not_priced(e))
        key, price = known[name]
        found.setdefault(key, price)
    return list(found.values())


LIMITS = Limits(entries=1 << 21, products=4_000)


def elimination_bounds(
    graph: Graph, orders: Sequence[str] = CHEAP, rates: Rates = EAGER
) -> list[Price]:
    """The same by outlines, which tell how many entries meet at most: of systems of any size."""
    outlines = outlined(graph)
    found: dict[Any, Price] = {}
    for name in orders:
        plan = tuple(ORDERS[name](outlines))
        if plan not in found:
            price = _elimination(outlines, name, plan, rates)
            found[plan] = replace(price, bytes=None, is_bound=True, note=_AT_MOST)
    return list(found.values())


_AT_MOST = "at most: by counts of entries"


def _not_priced(why: UnsupportedError) -> str:
    return f"not priced: {str(why).splitlines()[0]}"


def _elimination(graph: Graph, name: str, plan: Sequence[int], rates: Rates) -> Price:
    priced = Priced(graph)
    multiplications = sum(priced.eliminate(graph.rows[k]) for k in plan)
    work = priced.work()
    places = nnz = 0
    for block in priced.left():
        e = block if isinstance(block, Outline) else entries_of(block)
        size = e.in_type.size * e.out_type.size
        is_whole = e.nnz == size and (isinstance(e, Outline) or len(e.terms) == 1)
        if not is_whole:  # else it stands as it should
            places += size
            nnz += e.nnz
    operators = priced.operators
    seconds = (
        rates.fixed
        + rates.row * len(graph.rows)
        + rates.met * priced.met
        + rates.inside * priced.inside
        + rates.nest * priced.nests
        + rates.listed * sum(map(_listed, operators))
        + _seconds(work._replace(calls=0), rates, False)
        + rates.placed * nnz
        + rates.entry[places > _CACHE] * places
    )
    numbers = tuple([k + 1 for k in plan])
    size = 8 * (work.numbers + places)
    return Price("eliminate", name, multiplications, size, None, seconds, plan=numbers)


def _listed(a: Operator) -> int:
    if not isinstance(a, Entries):
        return 0
    return sum(t.size for t in a.terms if isinstance(t, Listed))


def colour_price(
    graph: Graph, plain: tuple[Price, Price], rates: Rates = EAGER, found: float = 0.0
) -> Price:
    """One solve for each colour; `plain` are back and forward substitution, `found` what the pattern takes."""
    try:
        with within(LIMITS):
            return _colours(graph, plain, rates, found)
    except UnsupportedError as e:
        return Price("colour", note=_not_priced(e))


def _colours(graph: Graph, plain: tuple[Price, Price], rates: Rates, found: float) -> Price:
    if _blocks(graph) > 1:
        return Price("colour", note="several blocks")
    priced = Priced(graph)
    for row in priced.rows:
        priced.eliminate(row)
    left = [entries_of(block) for block in priced.left()]
    places, nnz = sum(e.in_type.size * e.out_type.size for e in left), sum(e.nnz for e in left)
    if nnz > _SPARSE * places or len(left) != 1:
        why = f"{min(nnz / max(places, 1), 1):.0%} of the entries can differ from zero"
        return Price("colour", note=why)
    colours = coloured(Whole.of([[laid_out(left[0])[0]]]).pattern, "auto")
    shares = [
        (p, count / max(p.passes or 1, 1))
        for p, count in zip(reversed(plain), colours.counts, strict=True)
        if count
    ]
    seconds = found + rates.fixed + rates.placed * nnz + rates.entry[places > _CACHE] * places
    return Price(
        "colour",
        None,
        int(sum((p.multiplications or 0) * share for p, share in shares)),
        int(sum((p.bytes or 0) * share for p, share in shares)) + 8 * places,
        colours.count,
        seconds + sum(p.seconds * share for p, share in shares),
    )


def _blocks(graph: Graph) -> int:
    """How many pairs of an output and a parameter depend on each other."""
    reached: dict[Vertex, int] = {p: 1 << k for k, p in enumerate(graph.parameters)}
    outputs = dict.fromkeys([k for k in graph.outputs if k is not None])
    vertices: list[Vertex] = [*graph.rows, *outputs]
    for v in vertices:
        bits = 0
        for read in graph.reads.get(v, ()):
            bits |= reached.get(read, 0)
        reached[v] = bits
    return sum([reached[k].bit_count() for k in outputs])
