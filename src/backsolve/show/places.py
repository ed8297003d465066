"""Where each row comes from: the functions, modules and rounds of loops that were running when it was made.

A program of thousands of rows is read by folding it, and what one wants to fold is what one wrote: a
layer, a function, a round of a loop. `Places` watches a run and keeps, for every row, the innermost
Group around it. Rounds are told from the stack alone: an instruction that a frame comes back to, or a place
before the last one, begins a new round of the innermost loop that holds both; so does a function of the user's
that one call of the library's (`bs.scan`, a loop that was rewritten) calls once more.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

from ..errors import is_users
from ..hooks import Watcher
from ..nn.module import Module
from ..primitive import Primitive
from ..row import Row
from .loops import loops_at

_REWRITTEN = "_bs_"  # how the frontend names the bodies of loops and branches
_LOOPS = {"scan", "while_loop", "fori_loop", "map"}  # of the library's
_READABLE = {
    "<lambda>": "lambda", "<genexpr>": "generator", "<listcomp>": "list", "<dictcomp>": "dict",
    "<setcomp>": "set",
}  # fmt: skip


@dataclass(eq=False)
class Group:
    """A stretch of the run that folds into one box."""

    kind: str  # "function", "module", "loop", "round" or "rows"
    name: str
    parent: Group | None
    line: int = 0


@dataclass(eq=False)
class _Rounds:
    """A loop that is running."""

    of: Any  # the Loop, or the code that the library calls again and again
    whole: Group
    round: Group
    count: int = 1

    def next(self, line: int) -> None:
        self.count += 1
        self.round = Group("round", f"round {self.count}", self.whole, line)


def _first(of: Any, whole: Group, line: int) -> _Rounds:
    return _Rounds(of, whole, Group("round", "round 1", whole, line))


class _Level:
    """One frame of the user's on the stack, and the loops that it is in."""

    def __init__(self, frame: FrameType, group: Group | None):
        self.frame, self.group = frame, group
        self.loops: list[_Rounds] = []
        self.calls: dict[CodeType, _Rounds] = {}  # that one call of the library's has made so far
        self.place = -1
        self.callee: FrameType | None = None

    @property
    def innermost(self) -> Group | None:
        return self.loops[-1].round if self.loops else self.group

    def move(self, callee: FrameType | None) -> None:
        """The frame has called something: begin rounds, enter and leave loops."""
        place, line = self.frame.f_lasti, self.frame.f_lineno
        is_another_call = callee is not self.callee
        came_back = place < self.place or (place == self.place and is_another_call)
        if is_another_call:
            self.calls = {}
        is_own = is_users(self.frame.f_code.co_filename)
        around = loops_at(self.frame.f_code, place) if is_own else []
        kept = 0
        for running, loop in zip(self.loops, around, strict=False):
            if running.of != loop:
                break
            kept += 1
        del self.loops[kept:]
        if came_back and self.loops:
            self.loops[-1].next(line)
        for loop in around[kept:]:
            whole = Group("loop", f"loop at line {loop.line}", self.innermost, loop.line)
            self.loops.append(_first(loop, whole, line))
        self.place, self.callee = place, callee

    def repeated(self, frame: FrameType, whole: Group) -> Group:
        """The round of a function that a call of the library's makes, perhaps again and again."""
        running = self.calls.get(frame.f_code)
        if running is None:
            running = self.calls[frame.f_code] = _first(frame.f_code, whole, whole.line)
        else:
            running.next(whole.line)
        return running.round


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
                self._levels.append(_Level(frame, self._group(frame)))
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

    def _group(self, frame: FrameType) -> Group | None:
        """Of a frame that is new. The function itself is the page; only what it calls is a group."""
        if not self._levels:
            return None
        caller = self._levels[-1]
        is_called_by_library = caller.callee is not frame
        if frame.f_code.co_name.startswith(_REWRITTEN):
            line = caller.frame.f_lineno
            whole = Group("loop", f"loop at line {line}", caller.innermost, line)
        else:
            whole = self._named(frame, caller.innermost)
            by = caller.callee.f_code.co_name if caller.callee is not None else ""
            whole.name = f"{by} · {whole.name}" if by in _LOOPS else whole.name
        return caller.repeated(frame, whole) if is_called_by_library else whole

    def _named(self, frame: FrameType, outer: Group | None) -> Group:
        module = _module_at(frame)
        if module is not None:
            for name, inner in module.modules():
                self._names.setdefault(id(inner), name)
            name = self._names.get(id(module), "")
            kind = type(module).__name__
            return Group("module", f"{name} · {kind}" if name else kind, outer)
        name = frame.f_code.co_name
        if name == "__call__":
            name = type(frame.f_locals.get("self")).__name__
        return Group("function", _READABLE.get(name, name), outer, frame.f_code.co_firstlineno)


def _module_at(frame: FrameType) -> Module | None:
    """The module whose call a frame is."""
    if frame.f_code.co_name not in ("__call__", "forward"):
        return None
    found = frame.f_locals.get("self")
    return found if isinstance(found, Module) else None
