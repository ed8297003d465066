"""The ways to solve, entered for `System`: thin doors to forward, reverse and many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import UnsupportedError
from ..operators import Operator
from ..row import Row
from ..system import System, way
from .auto import by_sizes, choose, is_staged
from .compressed import compressed_blocks
from .eliminate import Graph, jacobian_entries
from .forward import forward_substitute
from .many import diagonals, has_nan, plain_jacobian, solved_jacobian
from .orders import planned, search
from .prices import cost as of_operators
from .reverse import back_substitute
from .scanned import NOT_COMPILED, Scan
from .tariff import Price


@way("forward")
def forward(system: System, seeds: Sequence[Any]) -> list[Any]:
    pairs = list(zip(system.parameters, seeds, strict=True))
    return forward_substitute(system.rows, pairs, system.outputs, record=system.record)


@way("reverse")
def reverse(system: System, seeds: Sequence[tuple[Row, Any]]) -> list[Any]:
    found: list[Any] = back_substitute(
        seeds, system.parameters, oldest=_oldest(system), record=system.record
    )
    return found


def _oldest(system: System) -> int:
    return min((p.index for p in system.parameters), default=-1)


@way("scan")
def scan(system: System, seeds: Sequence[tuple[Row, Any]]) -> list[Any]:
    """Back substitution in which loops are solved at once."""
    if is_staged(system):
        raise UnsupportedError(NOT_COMPILED)
    by = Scan(system.rows, system.parameters, system.outputs, system.record)
    found = by.back(seeds, system.parameters)
    # A zero met an infinity, or may. Solves know which zeros are structural.
    return reverse(system, seeds) if any(g is not None and has_nan(g) for g in found) else found


@way("adjoints")
def adjoints(system: System, seeds: Sequence[tuple[Row, Any]]) -> dict[Row, Any]:
    """v̄ of every row and parameter that the seeds reach, by one back substitution."""
    found: dict[Row, Any] = back_substitute(
        seeds, None, oldest=_oldest(system), record=system.record, keep=True
    )
    return {row: g for row, g in found.items() if row in system}


METHODS = ("auto", "measured", "forward", "reverse", "eliminate", "colour", "scan")


def check_method(method: str, order: Any) -> None:
    if method not in METHODS:
        names = ", ".join(f'"{m}"' for m in METHODS)
        raise ValueError(f"method must be one of {names}; got {method!r}")
    if order is not None and method != "eliminate":
        raise ValueError(f'an order is for method="eliminate"; got method={method!r}')


@way("jacobian")
def jacobian(system: System, method: str, order: Any = None) -> list[list[Any]]:
    """[output][parameter] -> dense array of shape output.shape + parameter.shape."""
    check_method(method, order)
    live = [y for y in system.outputs if y is not None]
    if method in ("auto", "measured"):
        best = choose(
            system.rows,
            system.parameters,
            live,
            record=system.record,
            is_staged=is_staged(system),
            system=lambda: system,
            measured=method == "measured",
        )
        return chosen(system, best)
    if method in ("forward", "reverse"):
        found = plain_jacobian(method, system.rows, live, system.parameters, system.record)
        return _with_zeros(system, found)
    if method == "scan":
        blocks, is_mixed = _with_zeros(system, _scanned(system, live)), False
    else:
        blocks = _by_entries(system, method, "markowitz" if order is None else order)
        is_mixed = is_staged(system) and Graph(system, "matrix").is_mixed
    if not is_mixed and not any(has_nan(b) for line in blocks for b in line):
        return blocks
    # A zero met an infinity, or may. Solves know which zeros are structural.
    solved = jacobian(system, by_sizes(system.parameters, live, False).way)
    return [
        [np.where(np.isnan(a), b, a) for a, b in zip(*lines, strict=True)]
        for lines in zip(blocks, solved, strict=True)
    ]


def _with_zeros(system: System, found: list[list[Any]]) -> list[list[Any]]:
    """The blocks of the outputs that vary, and zeros for the others."""
    rest = iter(found)
    return [
        _zeros(system, v) if row is None else next(rest)
        for row, v in zip(system.outputs, system._raw_outputs, strict=True)
    ]


@way("chosen")
def chosen(system: System, best: Price) -> list[list[Any]]:
    """The Jacobian by the way that was chosen, which was priced for a system of the same structure.

    That structure tells neither all that rounds of a loop must have in common nor at which places entries are
    read: where they differ too much after all, a plain way is taken.
    """
    try:
        return jacobian(system, best.way, best.plan)
    except UnsupportedError:
        if is_staged(system):
            raise
        live = [y for y in system.outputs if y is not None]
        return jacobian(system, by_sizes(system.parameters, live, False).way)


def _scanned(system: System, live: Sequence[Row]) -> list[list[Any]]:
    if is_staged(system):
        raise UnsupportedError(NOT_COMPILED)
    by = Scan(system.rows, system.parameters, live, system.record)
    found = {p: diagonals(by, p, live) for p in system.parameters if by.is_entrywise(p)}
    found = {p: line for p, line in found.items() if not any(map(has_nan, line))}
    rest = [p for p in system.parameters if p not in found]
    if rest:
        columns = zip(
            *solved_jacobian(by_sizes(rest, live, False).way, by, live, rest), strict=True
        )
        found.update(zip(rest, map(list, columns), strict=True))
    return [[found[p][k] for p in system.parameters] for k in range(len(live))]


def _zeros(system: System, v: Any) -> list[Any]:
    return [np.zeros((*np.shape(v), *p.shape), p.dtype) for p in system.parameters]


def _by_entries(system: System, method: str, order: Any) -> list[list[Any]]:
    """The same by elimination, or by one solve for each colour of the pattern."""
    with np.errstate(all="ignore"):
        if method == "eliminate":
            lines = jacobian_entries(system, order, Graph(system, "matrix"))
        else:
            lines = compressed_blocks(system)
        return [
            [
                np.reshape(e.dense(), (*y.shape, *p.shape))
                for e, p in zip(line, system.parameters, strict=True)
            ]
            for line, y in zip(lines, system.out_types, strict=True)
        ]


@way("order")
def order_of(system: System, name: str, **bounds: Any) -> list[int]:
    """The rows' numbers, from 1, in the order that a name stands for."""
    graph = Graph(system, "matrix")
    rows = search(graph, **bounds) if name == "search" and bounds else planned(graph, name)
    return [k + 1 for k in rows]


@way("cost")
def cost(system: System, order: Any, rule: str | None = None) -> int:
    """Multiplications for the whole Jacobian, by one of three rules (see `System.cost`)."""
    if rule is None:
        rule = "solves" if isinstance(order, str) and order in _SOLVES else "operators"
    if rule == "solves":
        return _of_solves(system, order)
    if rule not in ("operators", "pairs"):
        raise ValueError(f'rule must be "solves", "operators" or "pairs", got {rule!r}')
    graph = Graph(system, "matrix")
    rows = planned(graph, order)
    return graph.skeleton().cost(rows, "pairs") if rule == "pairs" else of_operators(graph, rows)


_SOLVES = ("forward", "reverse")
Edges = tuple[Row, list[tuple[Row, Operator]]]  # of one row


def _of_solves(system: System, order: str) -> int:
    """One solve per output (parameter) entry.

    Identities and signs cost nothing, nor does the first factor of a path: it multiplies the seed, 1.
    """
    if any(row.primitive.is_joint for row in system.rows):
        raise UnsupportedError(
            "the cost of a checkpointed, compiled or hand-written call inside a system is not known"
        )
    edges = [(row, system.edges(row)) for row in system.rows]
    if order == "reverse":
        return sum(y.size * _reverse_pass(edges, y) for y in system.outputs if y is not None)
    if order == "forward":
        return sum(_forward_pass(edges, p, k) for p in system.parameters for k in range(p.size))
    raise ValueError(f'by solves, order must be "forward" or "reverse", got {order!r}')


def _price(block: Operator, source: Row, seeded: Row) -> int:
    return 0 if source is seeded and source.size == 1 else block.cost.multiplications


def _reverse_pass(edges: Sequence[Edges], output: Row) -> int:
    present = {output}
    total = 0
    for row, blocks in reversed(edges):
        if row in present:
            for parent, block in blocks:
                total += _price(block, row, output)
                present.add(parent)
    return total


def _forward_pass(edges: Sequence[Edges], parameter: Row, k: int) -> int:
    seed = np.zeros(parameter.size)
    seed[k] = 1
    present = {parameter}
    total = 0
    for row, blocks in edges:
        for parent, block in blocks:
            if parent not in present:
                continue
            # Reading entries of the seed: the one that is 1, or nothing.
            reads = parent is parameter and parameter.size > 1 and "selection" in block.structure
            if reads and not np.any(block.apply(seed.reshape(parameter.shape))):
                continue
            total += _price(block, parent, parameter)
            present.add(row)
    return total
