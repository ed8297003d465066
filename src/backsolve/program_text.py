"""Programs as text: a line for each equation, loops and branches below theirs, what is called at the end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from .ir import Program, Var
from .regions import Branches, Callee, Loop

INDENT, TITLE = "    ", "program"


def program_text(program: Program) -> str:
    called: dict[Callee, str] = {}
    lines = list(_lines(TITLE, program, called))
    shown = 0
    while shown < len(called):  # they may call others
        callee, name = list(called.items())[shown]
        shown += 1
        if callee.program is not None:
            lines += ["", *_lines(name, callee.program, called, _of_derivative(callee))]
    return "\n".join(lines)


def _lines(
    title: str, program: Program, called: dict[Callee, str], more: Sequence[str] = ()
) -> Iterator[str]:
    names = program.names()

    def atom(a: Any) -> str:
        return names[a] if isinstance(a, Var) else repr(a)

    def typed(variables: Sequence[Var]) -> str:
        return ", ".join(f"{names[v]}:{v.type}" for v in variables)

    yield ", ".join([f"{title}({typed(program.inputs)})", *more]) + ":"
    if program.constants:
        yield f"  constants {typed([v for v, _ in program.constants])}"
    for e in program.equations:
        parts = [atom(a) for a in e.inputs]
        parts += [f"{k}={v!r}" for k, v in e.params.items() if k != "region"]
        region = e.params.get("region")
        name = e.primitive.name
        if isinstance(region, Callee):
            name = f"call {_name_of(region, called)}"
        elif isinstance(region, Loop):
            parts += _ways(region)
        yield f"  {typed(e.outputs)} = {name}({', '.join(parts)})"
        for part, inner in _programs(region):
            yield from (INDENT + line for line in _lines(part, inner, called))
    yield f"  return {', '.join(atom(a) for a in program.outputs)}"


def _programs(region: Any) -> list[tuple[str, Program]]:
    if isinstance(region, Branches):
        return [(f"if {k}", p) for k, p in enumerate(region.branches)]
    if isinstance(region, Loop):
        test = [] if region.goes_on is None else [("goes on", region.goes_on)]
        return [*test, ("round", region.body)]
    return []


def _ways(loop: Loop) -> list[str]:
    count = [] if loop.count is None else [f"count={loop.count}"]
    said = [word for word in ("counted", "reverse") if getattr(loop, word)]
    return [*count, *said, *_of_derivative(loop)]


def _of_derivative(region: Loop | Callee) -> list[str]:
    """What is done for a derivative of it: that is no equation, but part of what the Program means."""
    said = [] if region.memory is None else [f"memory={region.memory}"]
    if isinstance(region, Loop):
        said += [f"pieces={region.pieces}"] if region.pieces else []
    else:
        said += ["a derivative of its own"] if region.own is not None else []
        said += ["implicit"] if region.equations is not None else []
    return [*said, *(["recomputed"] if region.recompute else [])]


def _name_of(callee: Callee, called: dict[Callee, str]) -> str:
    if callee not in called:
        same = sum(name == callee.name for name in [TITLE, *[c.name for c in called]])
        called[callee] = f"{callee.name} {same + 1}" if same else callee.name
    return called[callee]
