"""Which names may have no value where they are read.

A forward walk with the set of names that are surely assigned. It is made twice. Before jumps become flags it
tells where Python itself can find no value: only there is the flag of a value looked at. Afterwards it tells
where a staged branch or loop may have left a value with a flag (`places.Perhaps`), which a read takes apart.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from .jumps import RUNTIME
from .names import Names, uses
from .walking import children

State = set[str] | None  # None: this place is never reached
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, ast.GeneratorExp)
_BLOCKS = (ast.If, ast.While, ast.For, ast.With, ast.Try, ast.TryStar, ast.Match)


class Assigned:
    def __init__(self, names: Names, given: Iterable[str], *marks: str):
        self.marks = marks  # the attributes that a Name gets if it may have no value
        self.own = {name for name in names.own if not name.startswith(RUNTIME)}
        self.given = set(given)
        self.breaks: list[list[State]] = []

    def function(self, stmts: Sequence[ast.stmt]) -> None:
        inside = [s for s in stmts if isinstance(s, _BLOCKS)]
        # What nested functions read, and when, is not known.
        self.captured = (uses(inside).assigned & self.own) - self.given
        self.block(stmts, set(self.given))

    def block(self, stmts: Sequence[ast.stmt], state: State) -> State:
        for s in stmts:
            state = self.statement(s, state)
        return state

    def statement(self, s: ast.stmt, state: State) -> State:
        if isinstance(s, ast.If):
            self.read([s.test], state)
            return _either(self.block(s.body, state), self.block(s.orelse, state))
        if isinstance(s, ast.While | ast.For | ast.AsyncFor):
            return self.loop(s, state)
        if isinstance(s, ast.With | ast.AsyncWith):
            self.read(s.items, state)
            state = _more(state, s.items)
            self.block(s.body, state)
            return _less(state, s.body)  # it may swallow an exception
        if isinstance(s, ast.Try | ast.TryStar):
            start = _less(state, s.body)
            ends = [self.block(s.orelse, self.block(s.body, state))]
            for h in s.handlers:
                self.read([h.type], start)
                own = set() if h.name is None else {h.name}
                end = self.block(h.body, None if start is None else start | own)
                ends.append(None if end is None else end - own)
            final = self.block(s.finalbody, _less(start, [*s.handlers, *s.orelse]))
            end = _less(_either(*ends), s.finalbody)
            return None if end is None or final is None else end | final
        if isinstance(s, ast.Match):
            self.read([s.subject], state)
            ends = [state]
            for case in s.cases:
                self.read([case.pattern, case.guard], state)
                ends.append(self.block(case.body, _more(state, [case.pattern])))
            return _either(*ends)
        self.read([s], state)
        if isinstance(s, ast.Return | ast.Raise | ast.Break | ast.Continue):
            if isinstance(s, ast.Break):
                self.breaks[-1].append(state)
            return None
        return _less(_more(state, [s]), [s])

    def loop(self, s: ast.While | ast.For | ast.AsyncFor, state: State) -> State:
        self.read([s.iter if not isinstance(s, ast.While) else None], state)
        state = _less(state, s.body)  # a later round begins with what an earlier one has deleted
        self.breaks.append([])
        if isinstance(s, ast.While):
            self.read([s.test], state)
            self.block(s.body, state)
        else:
            self.block(s.body, _more(state, [s.target]))
        endless = isinstance(s, ast.While) and isinstance(s.test, ast.Constant) and s.test.value
        stops = getattr(s, "stops", [])  # its jumps are flags by now
        end = None if endless and not stops else self.block(s.orelse, state)
        return _either(end, *self.breaks.pop())

    def read(self, nodes: Iterable[ast.AST | None], state: State) -> None:
        if state is None:
            return
        missing = self.own - state
        for node in nodes:
            if node is not None:
                use = uses(node)
                if not (missing.isdisjoint(use.reads) and self.captured.isdisjoint(use.captured)):
                    self.look(node, missing, missing)

    def look(self, node: ast.AST, missing: set[str], at_all: set[str]) -> None:
        if isinstance(node, _SCOPES):
            missing = at_all | self.captured
        if isinstance(node, ast.Name) and node.id in missing:
            for mark in self.marks:
                setattr(node, mark, True)  # a target, too: x += 1 reads it
        for child in children(node):
            self.look(child, missing, at_all)


def _either(*ends: State) -> State:
    reached = [end for end in ends if end is not None]
    return set.intersection(*reached) if reached else None


def _more(state: State, nodes: Sequence[ast.AST]) -> State:
    """With what a statement binds, but for `:=`, which may stand where it is not reached."""
    if state is None:
        return None
    use = uses(nodes)
    return state | (use.bound - use.perhaps)


def _less(state: State, nodes: Sequence[ast.AST]) -> State:
    """Without what is deleted in a piece of code."""
    return state if state is None else state - uses(nodes).deleted
