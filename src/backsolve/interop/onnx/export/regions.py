"""Branches, loops and calls: If and Loop, and the called program in its place.

A stack, whose length is known when the graph runs, is an array of a free length. Values from outside are read
by their names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from onnx import helper

from ....errors import BackendError
from ....ir import Equation, Program, Type, type_of
from ....regions import Branches, Callee, Loop
from .graph import Graph, value_info
from .walk import Walk

_INDEX = Type((), np.dtype(np.int64))
_TRUTH = Type((), np.dtype(bool))


def _body(g: Graph, program: Program, inputs: Sequence[Any], types: Sequence[Type]) -> list[Any]:
    """The outputs of a region's program, in the dtypes that the outside expects."""
    found = Walk(g, program, inputs).run()
    made = [type_of(a) for a in program.outputs]
    return [g.cast(y, t.dtype, u.dtype) for y, t, u in zip(found, made, types, strict=True)]


def _own(g: Graph, values: Sequence[str]) -> list[str]:
    """As outputs of a graph must be: made inside of it, each once."""
    return [g.Identity(v) for v in values]


# ---- branches


def branch(g: Graph, e: Equation, inputs: list[Any]) -> list[Any]:
    region: Branches = e.params["region"]
    which, *given = inputs
    _no_boxes(e, [*[type_of(a) for a in e.inputs], *region.outputs()])
    t = type_of(e.inputs[0])
    if t.dtype == bool:
        return _if(g, which, region.branches[1], region.branches[0], given, region.outputs())
    which = g.cast(which, t.dtype, np.int64)
    return _chain(g, which, 0, region.branches, given, region.outputs())


def _chain(g: Graph, which: str, k: int, programs: Any, given: Any, types: Any) -> list[Any]:
    """branches[which], asked one after another."""
    if k == len(programs) - 1:
        return _body(g, programs[k], given, types)
    is_it = g.Equal(which, g.number(k, np.int64))
    rest = lambda: _chain(g, which, k + 1, programs, given, types)
    return _if(g, is_it, programs[k], rest, given, types)


def _if(g: Graph, condition: str, yes: Any, no: Any, given: Any, types: Any) -> list[Any]:
    if not types:
        return []

    def graph(program: Any, name: str) -> Any:
        with g.scope() as nodes:
            made = program() if callable(program) else _body(g, program, given, types)
            outputs = _own(g, made)
        infos = [value_info(y, t) for y, t in zip(outputs, types, strict=True)]
        return helper.make_graph(nodes, name, [], infos)

    found = g.node(
        "If",
        [condition],
        outputs=len(types),
        then_branch=graph(yes, "then"),
        else_branch=graph(no, "else"),
    )
    return [found] if len(types) == 1 else found


# ---- loops


def loop(g: Graph, e: Equation, inputs: list[Any]) -> list[Any]:
    region: Loop = e.params["region"]
    _no_boxes(e, [type_of(a) for a in e.inputs])
    limit, carried, fixed, sequences = region.split(inputs)
    types = [v.type for v in region.body.inputs[1:]]
    outside = region.split([type_of(a) for a in e.inputs])[1]
    carried = [
        g.cast(x, t.dtype, u.dtype)
        for x, t, u in zip(carried, outside, types[: region.carried], strict=True)
    ]
    made = [type_of(a) for a in region.body.outputs[region.carried :]]
    if any(t.is_stack for t in made):
        raise _ragged(e)
    if region.count == 0:
        nothing = [g.zeros((0, *t.shape), t.dtype) for t in made]
        return [*carried, *nothing, g.number(0, np.int64)]
    last = None if limit is None else limit if isinstance(limit, str) else g.length(limit)
    found, rounds = _run(g, region, last, carried, fixed, sequences, made)
    ends, entries = found[: region.carried], found[region.carried :]
    entries = [_settled(g, region, s, t, rounds) for s, t in zip(entries, made, strict=True)]
    return [*ends, *entries, rounds]


def _run(
    g: Graph, region: Loop, last: str | None, carried: Any, fixed: Any, sequences: Any, made: Any
) -> tuple[list[str], str]:
    """What is carried out of the loop, what the rounds have made one after another, and how many there were."""
    types = [v.type for v in region.body.inputs[1 : 1 + region.carried]]
    one = g.number(1, np.int64)

    def at(done: str) -> str:
        if not region.reverse:
            return done
        assert last is not None
        return g.Sub(g.Sub(last, one), done)

    def goes_on(done: str, values: Any) -> str:
        assert region.goes_on is not None
        return _body(g, region.goes_on, [at(done), *values, *fixed], [_TRUTH])[0]

    start = (
        g.number(True, bool) if region.goes_on is None else goes_on(g.number(0, np.int64), carried)
    )
    done, going = g.name("round"), g.name("going")
    inside = [g.name("carried") for _ in carried]
    count = g.name("rounds")
    body_types = [*types, *made]
    with g.scope() as nodes:
        k = at(done)
        entries = [g.Gather(s, k, axis=0) for s in sequences]
        results = _body(g, region.body, [k, *inside, *fixed, *entries], body_types)
        now = results[: region.carried]
        next_round = g.Add(done, one)
        more = going if region.goes_on is None else goes_on(next_round, now)
        lines = [
            g.reshape(y, [t.size]) for y, t in zip(results[region.carried :], made, strict=True)
        ]
        outputs = _own(g, [more, *now, g.Add(count, one), *lines])
    given = [(done, _INDEX), (going, _TRUTH), *zip(inside, types, strict=True), (count, _INDEX)]
    taken = [_TRUTH, *types, _INDEX, *[Type((t.size,), t.dtype) for t in made]]
    graph = helper.make_graph(
        nodes,
        "rounds",
        [value_info(name, t) for name, t in given],
        [value_info(name, t) for name, t in zip(outputs, taken, strict=True)],
    )
    zero = g.number(0, np.int64)
    found = g.node("Loop", [last or "", start, *carried, zero], outputs=len(taken) - 1, body=graph)
    found = [found] if isinstance(found, str) else list(found)
    rounds = found.pop(len(carried))
    return found, rounds


def _settled(g: Graph, region: Loop, made: str, t: Type, rounds: str) -> str:
    """A sequence as the loop's type says: in the order of k; behind the last round, zeros.

    Rounds make vectors: what else they could make, not all that run graphs put together alike.
    """
    shape = g.Concat(g.unsqueeze(rounds, [0]), g.sizes(t.shape), axis=0)
    made = g.Reshape(made, shape, allowzero=1)
    if region.reverse:
        made = g.slice(made, [-1], [-(2**62)], [0], [-1])
    if region.count is None or (region.goes_on is None and not region.counted):
        return made
    dtype = np.dtype(np.int32) if t.dtype == bool else t.dtype
    missing = g.Sub(g.length(region.count), rounds)
    rest = g.Concat(g.unsqueeze(missing, [0]), g.sizes(t.shape), axis=0)
    zeros = g.Expand(g.number(0, dtype), rest)
    return g.Concat(made, g.cast(zeros, dtype, t.dtype), axis=0)


# ---- calls and stacks


def call(g: Graph, e: Equation, inputs: list[Any]) -> list[Any]:
    callee: Callee = e.params["region"]
    if callee.is_recursive or callee.program is None:
        raise BackendError(
            f"ONNX has no calls that return to where they came from: `{callee.name}` calls itself. Write it "
            "as a loop",
            at=callee.where or e.where,
        )
    given = [
        g.cast(x, type_of(a).dtype, v.type.dtype)
        for x, a, v in zip(inputs, e.inputs, callee.program.inputs, strict=True)
    ]
    return _body(g, callee.program, given, callee.outputs())


def _no_entries(g: Graph, e: Equation, inputs: list[Any]) -> list[Any]:
    t = e.params["region"].type
    _no_boxes(e, [t])
    return [g.zeros((0, *t.shape[1:]), t.dtype)]


def _length(g: Graph, e: Equation, inputs: list[Any]) -> list[Any]:
    return [g.squeeze(g.Shape(inputs[0], start=0, end=1), [0])]


def _no_boxes(e: Equation, types: Sequence[Type]) -> None:
    if any(t.is_box or (t.is_stack and any(n < 0 for n in t.shape[1:])) for t in types):
        raise _ragged(e)


def _ragged(e: Equation) -> BackendError:
    return BackendError(
        "ONNX has no arrays of arrays of several lengths: a derivative stores what each round of a `while` "
        "inside of a loop has computed. Give the inner loop a known number of rounds",
        at=e.where or "",
    )


REGIONS: dict[str, Callable[..., list[Any]]] = {
    "branch": branch,
    "loop": loop,
    "call": call,
    "no_entries": _no_entries,
    "length": _length,
}
