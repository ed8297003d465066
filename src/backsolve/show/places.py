"""Where each row comes from: the functions, modules and rounds of loops that were running when it was made.

A program of thousands of rows is read by folding it, and what one wants to fold is what one wrote: a
layer, a function, a round of a loop. `Places` watches a run and keeps, for every row, the innermost
Group around it. Rounds are told from the stack alone: an instruction that a frame comes back to, or a place
before the last one, begins a new round of the innermost loop that holds both.
"""

from __future__ import annotations

import ast
import functools
import inspect
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

from ..errors import is_users
from ..hooks import Watcher
from ..nn.module import Module
from ..primitive import Primitive
from ..row import Row


@dataclass(eq=False)
class Group:
    """A stretch of the run that folds into one box."""

    kind: str  # "function", "module", "loop", "round" or "rows"
    name: str
    parent: Group | None
    line: int = 0


@dataclass(eq=False)
class _Loop:
    lines: tuple[int, int]
    loop: Group
    round: Group
    count: int = 1


class _Level:
    """One frame of the user's on the stack, and the loops that it is in."""

    def __init__(self, frame: FrameType, group: Group | None):
        self.frame, self.group = frame, group
        self.loops: list[_Loop] = []
        self.place = -1
        self.callee: FrameType | None = None

    @property
    def innermost(self) -> Group | None:
        return self.loops[-1].round if self.loops else self.group

    def move(self, callee: FrameType | None) -> None:
        """The frame has called something: begin rounds, enter and leave loops."""
        place, line = self.frame.f_lasti, self.frame.f_lineno
        came_back = place < self.place or (place == self.place and callee is not self.callee)
        is_own = is_users(self.frame.f_code.co_filename)
        loops = _loops_of(self.frame.f_code) if is_own else ()
        around = [(a, b) for a, b in loops if a <= line <= b]
        kept = 0
        for loop, lines in zip(self.loops, around, strict=False):
            if loop.lines != lines:
                break
            kept += 1
        del self.loops[kept:]
        if came_back and self.loops:
            last = self.loops[-1]
            last.count += 1
            last.round = Group("round", f"round {last.count}", last.loop, line)
        for lines in around[kept:]:
            whole = Group("loop", f"loop at line {lines[0]}", self.innermost, lines[0])
            self.loops.append(_Loop(lines, whole, Group("round", "round 1", whole, line)))
        self.place, self.callee = place, callee


class Places(Watcher):
    """Watches one run of a function, below the frame `base`."""

    def __init__(self, base: FrameType):
        super().__init__()
        self.base = base
        self.group_of: dict[Row, Group | None] = {}
        self.line_of: dict[Row, tuple[str, int]] = {}
        self._levels: list[_Level] = []
        self._names: dict[int, str] = {}

    def on_call(self, prim: Primitive, row: Row | None, y: Any, inputs: Sequence[Any]) -> None:
        if row is None:
            return
        frames = self._users_frames()
        kept = 0
        for level, (frame, _) in zip(self._levels, frames, strict=False):
            if level.frame is not frame:
                break
            kept += 1
        del self._levels[kept:]
        for k, (frame, callee) in enumerate(frames):
            if k >= len(self._levels):
                outer = self._levels[-1].innermost if self._levels else None
                # The function itself is the page; only what it calls is a group.
                self._levels.append(_Level(frame, self._named(frame, outer) if k else None))
            self._levels[k].move(callee)
        self.group_of[row] = self._levels[-1].innermost if self._levels else None
        users = [frame for frame, _ in frames if is_users(frame.f_code.co_filename)]
        if users:
            self.line_of[row] = (users[-1].f_code.co_filename, users[-1].f_lineno)

    def finish(self) -> None:
        """Let go of the frames."""
        self._levels.clear()
        del self.base

    def _users_frames(self) -> list[tuple[FrameType, FrameType | None]]:
        """Frames of the user's and calls of modules, outermost first, each with the frame it called."""
        found: list[tuple[FrameType, FrameType | None]] = []
        frame: FrameType | None = sys._getframe(2)
        callee: FrameType | None = None
        while frame is not None and frame is not self.base:
            if is_users(frame.f_code.co_filename) or _module_at(frame) is not None:
                found.append((frame, callee))
            callee, frame = frame, frame.f_back
        return found[::-1]

    def _named(self, frame: FrameType, outer: Group | None) -> Group:
        module = _module_at(frame)
        if module is not None:
            for name, inner in module.modules():
                self._names.setdefault(id(inner), name)
            name = self._names.get(id(module), "")
            kind = type(module).__name__
            return Group("module", f"{name} · {kind}" if name else kind, outer)
        name = frame.f_code.co_name
        readable = {"<lambda>": "lambda", "<listcomp>": "list", "<genexpr>": "generator"}
        return Group("function", readable.get(name, name), outer, frame.f_code.co_firstlineno)


def _module_at(frame: FrameType) -> Module | None:
    """The module whose call a frame is."""
    if frame.f_code.co_name not in ("__call__", "forward"):
        return None
    found = frame.f_locals.get("self")
    return found if isinstance(found, Module) else None


@functools.lru_cache(1024)
def _loops_of(code: CodeType) -> tuple[tuple[int, int], ...]:
    """First and last lines of the loops in a function's text, outer ones first."""
    try:
        lines, first = inspect.getsourcelines(code)
        root = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, SyntaxError, ValueError, TypeError):
        return ()  # no text (typed at a prompt), or a lambda inside of an expression
    kinds = (ast.For, ast.While, ast.ListComp, ast.GeneratorExp, ast.DictComp)
    shift = max(first, 1) - 1
    found = [
        (n.lineno + shift, (n.end_lineno or n.lineno) + shift)
        for n in ast.walk(root)
        if isinstance(n, kinds)
    ]
    return tuple(sorted(set(found), key=lambda r: (r[0], -r[1])))
