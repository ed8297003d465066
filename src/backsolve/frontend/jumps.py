"""`return`, `break` and `continue` inside branches and loops, as flags.

    for …:                          for …:                        stops = (brk,)
        if c: break         →           if c: brk = True
        rest                            else: rest

What follows an `if` that always jumps moves into its other branch, so that most early returns need no flag
at all: both branches of the `if` then compute the result. Where only some paths jump, the rest is
guarded by `if none_of(flags)`. Loops get their stop flags in `stops`; their `else` becomes a guarded
block behind them.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

from .marks import marks
from .walking import children, walk

RUNTIME = "_bs_"
RESULT, RETURNED = "_bs_result", "_bs_returned"
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_LOOPS = (ast.While, ast.For, ast.AsyncFor)


class CannotRewriteError(Exception):
    """Why a function is left as it is."""


@dataclass(slots=True)
class _Loop:
    stop: str
    skip: str


def has_jumps(node: ast.FunctionDef) -> bool:
    """Whether `lower_jumps` has anything to do."""
    return bool(_escapes(node)) or any(map(_has_loop_jump, node.body))


def _escapes(node: ast.FunctionDef) -> list[ast.stmt]:
    """The statements of its body out of which it returns."""
    escapes = [s for s in node.body if "return" in _jumps(s)]
    last = node.body[-1]
    return [] if escapes == [last] and isinstance(last, ast.Return) else escapes  # it may stay


def lower_jumps(node: ast.FunctionDef) -> None:
    """Rewrite the body of `node` in place; nested functions are left for their own turn."""
    for s in node.body:
        _move_binding_tests(s)
    escapes, last = _escapes(node), node.body[-1]
    lowering = _Lowering(bool(escapes))
    if escapes and not _always(node.body):  # say what Python does at the end
        node.body.append(_at(ast.Return(None), last))
    swallows = not _always(node.body, False)
    body = lowering.block(node.body, None)
    lowering.drop_unused()
    if escapes:
        first: list[ast.stmt] = []
        if RETURNED in lowering.used:
            first.append(_at(_set(RETURNED, False), node.body[0]))
        if swallows:  # a `with` may do that to an exception
            first.append(_at(_set(RESULT, None), node.body[0]))
        body = [*first, *body, _at(ast.Return(_name(RESULT)), last)]
    node.body = body


def _move_binding_tests(s: ast.stmt) -> None:
    """`while (n := f()) > 0`, which binds a name even if no round follows, as `while True: if not …: break`."""
    if isinstance(s, _SCOPES):
        return
    for child in _children(s):
        _move_binding_tests(child)
    if _binds_in_test(s):
        if any(_jumps(x) & {"break", "continue"} for x in s.orelse):
            raise CannotRewriteError(
                "a `while` with `:=` and a jump in its `else` cannot be rewritten"
            )
        over = _at(ast.UnaryOp(ast.Not(), s.test), s.test)
        leave = _at(ast.If(over, [*s.orelse, _at(ast.Break(), s.test)], []), s.test)
        s.test = ast.copy_location(ast.Constant(True), s.test)
        s.body, s.orelse = [leave, *s.body], []


def _binds_in_test(s: ast.stmt) -> TypeGuard[ast.While]:
    return isinstance(s, ast.While) and any(isinstance(n, ast.NamedExpr) for n in walk(s.test))


class _Lowering:
    def __init__(self, returns: bool):
        self.returns = returns
        self.count = 0
        self.used: set[str] = set()
        self.marks: list[tuple[str, ast.Assign]] = []

    def block(self, stmts: Sequence[ast.stmt], loop: _Loop | None) -> list[ast.stmt]:
        out: list[ast.stmt] = []
        for k, s in enumerate(stmts):
            rest = list(stmts[k + 1 :])
            if isinstance(s, ast.Return) and self.returns:
                value = s.value if s.value is not None else ast.Constant(None)
                result = ast.Assign([_name(RESULT, store=True)], value)
                return [*out, _at(result, s), self.mark(RETURNED, s)]
            if isinstance(s, ast.Break | ast.Continue):
                assert loop is not None
                return [*out, self.mark(loop.stop if isinstance(s, ast.Break) else loop.skip, s)]
            kinds = _jumps(s) if self.returns else _jumps(s) - {"return"}
            if kinds and isinstance(s, ast.If) and rest:
                if _always(s.body):
                    s.orelse, rest = [*s.orelse, *rest], []
                elif _always(s.orelse):
                    s.body, rest = [*s.body, *rest], []
                kinds = _jumps(s) if self.returns else _jumps(s) - {"return"}
                if not rest:
                    return [*out, *self.inside(s, loop)]
            out.extend(self.inside(s, loop))
            if kinds and rest:
                guarded = self.block(rest, loop)
                flags = self.flags(kinds, loop)
                rest_of_block = ast.If(self.guard(flags), guarded, [])
                marks(rest_of_block).is_until_return = flags == [RETURNED]
                return [*out, _at(rest_of_block, rest[0])]
        return out

    def inside(self, s: ast.stmt, loop: _Loop | None) -> list[ast.stmt]:
        if isinstance(s, ast.If):
            s.body, s.orelse = self.block(s.body, loop), self.block(s.orelse, loop)
            s.body = s.body or [_at(ast.Pass(), s)]
        elif isinstance(s, ast.With | ast.AsyncWith):
            s.body = self.block(s.body, loop)
        elif isinstance(s, ast.Try | ast.TryStar):
            if any(_jumps(x) for x in s.finalbody):
                raise CannotRewriteError("a jump out of `finally` cannot be rewritten")
            kinds = set().union(*[_jumps(x) for x in s.body])
            s.body = self.block(s.body, loop)
            for h in s.handlers:
                h.body = self.block(h.body, loop)
            if s.orelse and kinds:
                inner = self.block(s.orelse, loop)
                s.orelse = [_at(ast.If(self.guard(self.flags(kinds, loop)), inner, []), inner[0])]
            else:
                s.orelse = self.block(s.orelse, loop)
            s.finalbody = self.block(s.finalbody, loop)
        elif isinstance(s, ast.Match):
            for case in s.cases:
                case.body = self.block(case.body, loop)
        elif isinstance(s, _LOOPS):
            return self.loop(s, loop)
        return [s]

    def loop(self, s: Any, outer: _Loop | None) -> list[ast.stmt]:
        self.count += 1
        own = _Loop(f"_bs_break{self.count}", f"_bs_continue{self.count}")
        kinds = set().union(*[_jumps(x) for x in s.body])
        s.stops = [own.stop] if "break" in kinds else []
        if "return" in kinds and self.returns:
            s.stops.append(RETURNED)
        self.used.update(s.stops)
        orelse, s.orelse = s.orelse, []
        s.body = self.block(s.body, own)
        if own.skip in self.used:
            s.body.insert(0, _at(_set(own.skip, False), s))
        before = [_at(_set(own.stop, False), s)] if "break" in kinds else []
        behind = self.block(orelse, outer)
        if behind and s.stops:
            behind = [_at(ast.If(self.guard(s.stops), behind, []), behind[0])]
        return [*before, s, *behind]

    def flags(self, kinds: set[str], loop: _Loop | None) -> list[str]:
        flags = [RETURNED] if "return" in kinds else []
        if loop is not None:
            flags += [loop.stop] if "break" in kinds else []
            flags += [loop.skip] if "continue" in kinds else []
        return flags

    def guard(self, flags: Sequence[str]) -> ast.expr:
        self.used.update(flags)
        return none_of(flags)

    def mark(self, flag: str, where: ast.stmt) -> ast.stmt:
        made = _at(_set(flag, True), where)
        self.marks.append((flag, made))
        return made

    def drop_unused(self) -> None:
        for flag, assign in self.marks:
            if flag not in self.used:
                object.__setattr__(assign, "__class__", ast.Pass)  # in place, wherever it stands


def none_of(flags: Sequence[str]) -> ast.expr:
    function = ast.Attribute(_name(RUNTIME), "none_of", ast.Load())
    return ast.Call(function, [_name(f) for f in flags], [])


def _children(s: ast.AST) -> list[ast.stmt]:
    below = children(s)
    return [c for c in below if isinstance(c, ast.stmt)] + [
        x for c in below if isinstance(c, ast.ExceptHandler | ast.match_case) for x in c.body
    ]


def _jumps(s: ast.stmt) -> set[str]:
    """The kinds of jumps that leave a statement: "return", "break", "continue"."""
    if isinstance(s, ast.Return):
        return {"return"}
    if isinstance(s, ast.Break):
        return {"break"}
    if isinstance(s, ast.Continue):
        return {"continue"}
    if isinstance(s, _SCOPES):
        return set()
    if isinstance(s, _LOOPS):
        inner = set().union(*[_jumps(c) for c in s.body]) & {"return"}
        return inner.union(*[_jumps(c) for c in s.orelse])
    return set().union(*[_jumps(c) for c in _children(s)])


def _has_loop_jump(s: ast.stmt) -> bool:
    """Whether a loop in `s` is left, has an else, or a test that binds a name."""
    if isinstance(s, _SCOPES):
        return False
    if isinstance(s, _LOOPS) and (s.orelse or _binds_in_test(s)):
        return True
    return isinstance(s, ast.Break | ast.Continue) or any(_has_loop_jump(c) for c in _children(s))


def _always(stmts: Sequence[ast.stmt], with_hands_on: bool = True) -> bool:
    """Whether a block never reaches its end, if a `with` hands exceptions on."""
    for s in stmts:
        if isinstance(s, ast.Return | ast.Break | ast.Continue | ast.Raise):
            return True
        if isinstance(s, _LOOPS) and not any("break" in _jumps(c) for c in s.body):
            endless = isinstance(s, ast.While) and isinstance(s.test, ast.Constant) and s.test.value
            if endless or _always(s.orelse, with_hands_on):
                return True
        if isinstance(s, ast.Match) and _takes_all(s.cases[-1]):
            bodies = [case.body for case in s.cases]
        else:
            bodies = [s.body, s.orelse] if isinstance(s, ast.If) else [[]]
        if all(_always(body, with_hands_on) for body in bodies):
            return True
        if isinstance(s, ast.With) and with_hands_on and _always(s.body):
            return True
    return False


def _takes_all(case: ast.match_case) -> bool:
    wild = isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None
    return wild and case.guard is None


def _name(name: str, store: bool = False) -> ast.Name:
    return ast.Name(name, ast.Store() if store else ast.Load())


def _set(name: str, value: Any) -> ast.Assign:
    return ast.Assign([_name(name, store=True)], ast.Constant(value))


def _at(node: Any, where: ast.stmt | ast.expr) -> Any:
    """`node` and all in it that has no place yet, placed at the start of `where`."""
    line, column = where.lineno, where.col_offset
    for n in ast.walk(node):
        if isinstance(n, ast.expr | ast.stmt) and not hasattr(n, "lineno"):
            n.lineno, n.end_lineno = line, getattr(where, "end_lineno", line)
            n.col_offset, n.end_col_offset = column, getattr(where, "end_col_offset", column)
    return node
