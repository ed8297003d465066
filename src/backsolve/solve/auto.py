"""The chooser: the cheapest way to a dense Jacobian, by the prices of tariff.py.

It is decided once for each structure: what rows there are, and who reads whom. Elimination is planned where a
solve takes long enough to pay for the plan. Inside `jit`, where all is planned once, every way is priced, and
those that come near the cheapest are recorded aside and priced again by the steps that the native backend makes
of them (backends/native/pricing.py, through a hook). Where these leave a doubt which plain way is quicker, or
whether the chosen one is, they are timed; what is `measured` is timed wherever there is one, and eagerly too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import count
from math import inf, prod
from operator import attrgetter
from typing import Any

from ..errors import UnsupportedError
from ..hooks import hooks
from ..ir import Program, Var
from ..row import Row
from ..system import WAYS, System
from ..trace import Recorder
from .aside import recorded_aside
from .eliminate import Graph, why_not
from .in_turns import seconds_in_turns
from .tariff import (
    CHEAP,
    COMPILED,
    Known,
    Price,
    colour_price,
    elimination_prices,
    plain_prices,
    scan_price,
)

# Seconds of a plain solve for each row, from which on two orders, or all of them, are worth pricing.
_WORTH_TWO, _WORTH_ALL = 1.5e-4, 6e-4
_TWO = ("forward", "reverse")
_WORTH_LOOKING = 64  # rows, from which on rounds of a loop are looked for
_LONG = 400  # rows, above which planning takes too long even for compiled code
_BETTER = 0.8  # of the price of a plain solve: what another way must promise
_BETTER_AT_ONCE = 0.75  # the same of elimination where it is not recorded aside
_BETTER_AS_SCAN = 0.65  # and of a scan: a third is how far its prices are off
_SURE = 0.85  # the same, where steps are priced
_SURE_OF_MANY = 0.7  # the same inside of `vmap`, where rows are short and prices less exact
_TRIED = 2  # ways beside the plain ones that may be recorded: of near prices the steps decide
_FAR = 20  # times the cheapest price, beyond which a way is not recorded to price it again
# Numbers of a stack, up to which ways are recorded for their prices: as many as the Jacobian has, or so many.
_RECORDED, _LARGEST = 1 << 22, 1 << 26
_AS_CHEAP = 0.99  # of reverse's price: what forward must be below
_AS_CHEAP_EAGERLY = (
    1.03  # the same on numbers, where forward has less to look after beside small arrays
)
_SMALL = 10_000  # entries of a Jacobian
_AS_CHEAP_BY_STEPS = 0.995  # the same, where steps are priced
# Times the cheapest price, up to which plain ways are timed, or all if that is asked for; and a plain way
# beside one that is not: ratios of their prices are off by two and more.
_CLOSE, _UNLIKE = 2, 3
_LOOSE = 4  # the same of calls without blocks: of a few numbers, loops take up to three times their price
_LONG_RUN = 2  # seconds, from which on a run tells less than it takes
_AS_QUICK = 1.02  # of the best time: there, prices decide
_TELLING = 1e-8  # seconds of compiled code, below which prices tell nothing
_MANY = 256  # structures that are kept
_FEW_LOOKS = 16  # that are kept of one function
_KIND, _SHAPE, _PARENTS = map(attrgetter, ("primitive.name", "shape", "parents"))
_TURNED = 1 << 16  # entries, from which on moving axes takes longer than a tape


class Prices:
    """Of one system; each is found when it is first asked for."""

    def __init__(self, rows: Sequence[Row], parameters: Sequence[Row], outputs: Sequence[Row]):
        own = set(parameters)
        self.steps = [r for r in rows if r not in own]
        self._all = rows, parameters, outputs
        self._graph: Graph | None = None
        self._known: Known = {}

    @cached_property
    def plain(self) -> tuple[Price, Price]:
        return plain_prices(*self._all)

    @cached_property
    def scan(self) -> Price:
        _, parameters, outputs = self._all
        return scan_price(self.steps, parameters, outputs, self.plain)

    def graph(self, system: System) -> Graph:
        """Of the system itself, which its user may not have yet."""
        self._graph = self._graph or Graph(system)
        return self._graph

    def eliminations(self, system: System, orders: Sequence[str]) -> list[Price]:
        return elimination_prices(self.graph(system), orders, known=self._known)


def choose(
    rows: Sequence[Row],
    parameters: Sequence[Row],
    outputs: Sequence[Row],
    *,
    record: bool,
    is_staged: bool,
    system: Callable[[], System],
    prices: Prices | None = None,
    measured: bool = False,
    chosen: dict[Any, Price] | None = None,
) -> Price:
    """The way to take; `system` makes the system of these rows, if it is needed, `prices` are its.

    `chosen` is what was chosen for this function before, by rows that look alike. A choice for others costs
    time alone, so who reads whom is not compared there.
    """
    if is_staged:
        return _for_compiled(rows, parameters, outputs, system, measured)
    if record:
        return by_sizes(parameters, outputs, True)
    if not measured and (way := _of_one(parameters, outputs)):
        return _PLAIN[way]
    looks = _looks(rows, parameters, outputs) if chosen is not None else None
    if chosen is not None and (found := chosen.get(looks)):
        return found
    found = _by_structure(rows, parameters, outputs, system, prices, measured)
    if chosen is not None:
        if len(chosen) >= _FEW_LOOKS:
            chosen.clear()
        chosen[looks] = found
    return found


def _by_structure(
    rows: Sequence[Row],
    parameters: Sequence[Row],
    outputs: Sequence[Row],
    system: Callable[[], System],
    prices: Prices | None,
    measured: bool,
) -> Price:
    key = (measured, *_structure(rows, parameters, outputs))
    found = _decided.get(key)
    if found is None:
        while len(_decided) >= _MANY:
            _decided.pop(next(iter(_decided)), None)
        prices = prices or Prices(rows, parameters, outputs)
        found = _for_eager(rows, parameters, outputs, system, prices)
        if measured and not is_opaque(rows):
            found = _quickest_run(prices.plain, found, system())
        _decided[key] = found
    return found


_decided: dict[Any, Price] = {}
_PLAIN = {way: Price(way) for way in ("forward", "reverse")}


def _of_one(parameters: Sequence[Row], outputs: Sequence[Row]) -> str | None:
    """The way that needs but one right-hand side: no other is cheaper."""
    if len(parameters) == 1 and parameters[0].size == 1:
        return "forward"
    return "reverse" if len(outputs) == 1 and outputs[0].size == 1 else None


def _for_eager(
    rows: Sequence[Row],
    parameters: Sequence[Row],
    outputs: Sequence[Row],
    system: Callable[[], System],
    prices: Prices,
) -> Price:
    if is_opaque(rows):
        return by_sizes(parameters, outputs, True)
    way = _of_one(parameters, outputs)
    is_small = prod(sizes(parameters, outputs)) <= _SMALL
    best = next((p for p in prices.plain if p.way == way), None) or cheaper(
        prices.plain, _AS_CHEAP_EAGERLY if is_small else _AS_CHEAP
    )
    if len(prices.steps) >= _WORTH_LOOKING:
        best = _or_better(best, [prices.scan], _BETTER_AS_SCAN)
    each = best.seconds / max(len(prices.steps), 1)
    if each < _WORTH_TWO or why_not(whole := system()):
        return best
    orders = CHEAP if each > _WORTH_ALL else _TWO
    return _or_better(best, prices.eliminations(whole, orders), _BETTER_AT_ONCE)


def _quickest_run(plain: Sequence[Price], best: Price, system: System) -> Price:
    near = _in_doubt(dict.fromkeys([*plain, best]), _CLOSE)
    runs = [partial(WAYS["chosen"], system, p) for p in near]
    return _quickest(near, seconds_in_turns(runs), best) if len(near) > 1 else near[0]


def _in_doubt(ways: Iterable[Price], factor: float) -> list[Price]:
    ways = list(ways)
    least = min(map(_seconds, ways))
    return [p for p in ways if p.seconds <= factor * least]


def _quickest(ways: Sequence[Price], seconds: Sequence[float], best: Price) -> Price:
    """The one with the best price, if it is as quick as any."""
    told = dict(zip(ways, seconds, strict=True))
    quickest = min(told, key=lambda p: told[p])
    return best if told[best] <= _AS_QUICK * told[quickest] else quickest


def _for_compiled(
    rows: Sequence[Row],
    parameters: Sequence[Row],
    outputs: Sequence[Row],
    system: Callable[[], System],
    measured: bool,
) -> Price:
    """No number is at hand to say that a zero met an infinity: where masks may make one, solves are safe.

    Nor is one to say that a function is holomorphic: elimination sees that by its rows.
    """
    if any(p.dtype.kind == "c" for p in parameters) and not why_not(system(), "matrix"):
        return Price("eliminate")
    others: list[Price] = []
    whole = system()
    if is_opaque(rows):
        plain = _by_counts(parameters, outputs)
        return _by_steps(plain, others, whole, measured, cheaper(plain))
    plain = plain_prices(rows, parameters, outputs, COMPILED, record=True)
    if len(rows) <= _LONG and not (why_not(whole) or (graph := Graph(whole)).is_mixed):
        orders = elimination_prices(graph, CHEAP, COMPILED)
        others = sorted([*orders, colour_price(graph, plain, COMPILED)], key=_seconds)[:_TRIED]
    return _by_steps(plain, others, whole, measured)


def _by_steps(
    plain: tuple[Price, Price],
    others: Sequence[Price],
    system: System,
    measured: bool,
    counted: Price | None = None,
) -> Price:
    """The best by what the ways would take as they are compiled, if that is found without large arrays.

    What comes near the cheaper plain way by its price is recorded. `counted` is the way through a call without
    blocks, if it cannot be timed.
    """
    best = cheaper(plain)
    recorder = next(v.recorder for v in system._raw_outputs if type(v) is Var)
    widest = max([r.size for r in system.rows], default=1)
    entries = prod(sizes(system.parameters, system.outputs))
    most = max(_RECORDED, min(entries, _LARGEST))
    near = [p for p in (*plain, *others) if p is best or p.seconds < _FAR * best.seconds]
    small = [p for p in near if (p.passes or 1) * widest <= most]
    seconds = [_seconds_by_steps(system, p, recorder) for p in small]
    found = {p: replace(p, seconds=s) for p, s in zip(small, seconds, strict=True) if s is not None}
    if best not in found:
        return _or_better(best, others)
    none = replace(best, seconds=inf)
    back, ahead = (found.get(p, none) for p in plain)
    surest = cheaper((back, ahead), _AS_CHEAP_BY_STEPS)
    others = [found[p] for p in others if p in found]
    told = [p for p in others if p.seconds < surest.seconds - _TELLING]
    best = _or_better(surest, told, _SURE if recorder.batch < 2 else _SURE_OF_MANY)
    asked = found.values() if measured else (back, ahead)
    doubtful = _in_doubt(asked, _LOOSE if counted else _CLOSE)
    if surest.seconds < _UNLIKE * best.seconds:
        doubtful = list(dict.fromkeys([*doubtful, surest, best]))
    elif not measured:
        return best
    if len(doubtful) == 1 or best.seconds > _LONG_RUN:
        return best
    times = hooks.timed([_recorded(system, p, recorder) for p in doubtful])
    return (counted or best) if times is None else _quickest(doubtful, times, best)


def _seconds_by_steps(system: System, price: Price, recorder: Recorder) -> float | None:
    """None if there is no such Program. It is not held: the constants of two may be too many."""
    try:
        program = _recorded(system, price, recorder)
    except UnsupportedError:
        return None
    return None if program is None else hooks.seconds_of(program)


def _recorded(system: System, price: Price, recorder: Recorder) -> Program | None:
    return recorded_aside(lambda: _blocks(system, price), recorder)


def _blocks(system: System, price: Price) -> list[Any]:
    return [b for line in WAYS["jacobian"](system, price.way, price.plan) for b in line]


def _or_better(best: Price, others: Sequence[Price], share: float = _BETTER) -> Price:
    return min([best, *[p for p in others if p.seconds < share * best.seconds]], key=_seconds)


def cheaper(plain: tuple[Price, Price], share: float = _AS_CHEAP) -> Price:
    """Of back and forward substitution: the latter where it is below that share of the former's price."""
    reverse, forward = plain
    return forward if forward.seconds < share * reverse.seconds else reverse


def _seconds(price: Price) -> float:
    return price.seconds


def _looks(
    rows: Sequence[Row], parameters: Sequence[Row], outputs: Sequence[Row]
) -> tuple[Any, ...]:
    return (
        tuple(map(_SHAPE, parameters)),
        tuple([(r.primitive, r.shape) for r in rows]),
        tuple(map(_SHAPE, outputs)),
    )


def _structure(
    rows: Sequence[Row], parameters: Sequence[Row], outputs: Sequence[Row]
) -> tuple[Any, ...]:
    """What a decision rests on: kinds of rows, and who reads whom. This is all that a repeated call takes."""
    number = dict(zip(rows, count()))
    number.update(zip(parameters, count(-1, -1)))
    read = [*map(_PARENTS, rows)]
    return (
        tuple(map(_SHAPE, parameters)),
        tuple(map(_KIND, rows)),
        tuple(map(_SHAPE, rows)),
        tuple(map(len, read)),
        tuple([number.get(p) if p.__class__ is Row else None for ps in read for p in ps]),
        tuple(map(number.get, outputs)),
    )


# ---- where sizes alone decide


def is_opaque(rows: Sequence[Row]) -> bool:
    """Whether a call inside has no blocks to price."""
    return any(r.primitive.is_joint or r.primitive.is_component for r in rows)


def is_staged(system: System) -> bool:
    return any(type(v) is Var for v in system._raw_outputs)


def by_sizes(parameters: Sequence[Row], outputs: Sequence[Row], ahead: bool) -> Price:
    n_in, n_out = sizes(parameters, outputs)
    return Price("forward" if n_in < n_out or (n_in == n_out and ahead) else "reverse")


def _by_counts(parameters: Sequence[Row], outputs: Sequence[Row]) -> tuple[Price, Price]:
    """Of plain ways through a call without blocks, before their steps are known: by right-hand sides alone."""
    n_in, n_out = sizes(parameters, outputs)
    share = 0.98 if n_in * n_out < _TURNED else 1.0
    return (
        Price("reverse", passes=n_out, seconds=n_out),
        Price("forward", passes=n_in, seconds=share * n_in),
    )


def sizes(parameters: Sequence[Row], outputs: Sequence[Row | None]) -> tuple[int, int]:
    """Entries of the parameters and of the outputs."""
    live = dict.fromkeys(y for y in outputs if y is not None)
    return sum(p.size for p in parameters), sum(y.size for y in live)


def reason(price: Price, n_in: int, n_out: int) -> str:
    if price.way == "eliminate":
        return f"in the order {price.order}: each entry is computed once"
    if price.way == "colour":
        return "few colours: few solves"
    if price.way == "scan":
        return "all rounds of a loop at once"
    if price.way == "forward":
        if n_in == 1:
            return "one input: forward substitution is optimal"
        return "fewer inputs" if n_in < n_out else "its blocks are no dearer ahead than back"
    if n_out == 1:
        return "one output: back substitution is optimal"
    if n_out < n_in:
        return "fewer outputs"
    return (
        "as cheap as forward, and no axes to move"
        if n_in == n_out
        else "its blocks are cheaper back than ahead"
    )
