"""What became of a Program, for the next process: its code is then found before anything is rewritten.

A recipe lies on disk under a key of the Program as it was recorded, of the files of this package, and of all
else that decides what is emitted. It holds the key of the code (build.py) and what stands around it. Programs
with large constants, and those that hold something which has no name in a key, have no recipe: they are
rewritten and emitted, and their code is found by its text.
"""

from __future__ import annotations

import functools
import hashlib
import pickle
import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np
from llvmlite import ir

from ...ir import STACK, Program, Type, Var, without_repeats
from ...regions import Callee, Layout
from . import blas, build, interpreter, library, machine_stack, special, threads
from .disk import disk
from .entry import Frame
from .failure import Failures
from .objects import knows_layout
from .sweep import most_workers

LARGE = 1 << 20  # bytes of constants
SUFFIX = ".recipe"
PREFIX = "backsolve_"
_NAMED = (type(None), type(Ellipsis), bool, int, float, complex, str)


@dataclass(frozen=True)
class Recipe:
    code: str  # its key
    inputs: list[tuple[Any, ...]]  # types in words: the entry knows dtypes as NumPy's own objects
    outputs: list[tuple[Any, ...]]
    frame: dict[str, Any]
    failures: list[tuple[type[Exception], str]]
    symbols: dict[str, str | None]  # functions that the code calls; with a key if they are ours
    stats: dict[str, Any]

    def frame_here(self) -> Frame:
        failures = Failures()
        failures.known = self.failures
        inputs, outputs = (
            [Type(shape, np.dtype(dtype), weak) for shape, dtype, weak in types]
            for types in (self.inputs, self.outputs)
        )
        return Frame(inputs, outputs, failures=failures, **self.frame)


def write(key: str, code: str, frame: Frame, module: ir.Module, stats: dict[str, Any]) -> None:
    files, outside = disk(), _outside(module)
    known = all(name.startswith(PREFIX) for name in outside)
    if files is None or not known or sum(c.nbytes for c in frame.constants) > LARGE:
        return
    inputs, outputs = (
        [(t.shape, t.dtype.str, t.weak) for t in types] for types in (frame.inputs, frame.outputs)
    )
    apart = ("inputs", "outputs", "failures")
    around = {f.name: getattr(frame, f.name) for f in fields(frame) if f.name not in apart}
    symbols = {symbol: library.keys.get(symbol) for symbol in outside}
    recipe = Recipe(code, inputs, outputs, around, frame.failures.known, symbols, stats)
    files.write(key, pickle.dumps(recipe), SUFFIX)


def _outside(module: ir.Module) -> list[str]:
    """What a module only names: LLVM's own functions apart, somebody must provide it."""
    found = [f.name for f in module.functions if not f.blocks and not f.name.startswith("llvm.")]
    variables = [x for x in module.global_values if isinstance(x, ir.GlobalVariable)]
    return found + [x.name for x in variables if x.initializer is None]


def read(key: str) -> Recipe | None:
    """The recipe under a key, with all functions that its code calls at hand."""
    files = disk()
    content = files.read(key, SUFFIX) if files is not None else None
    if content is None:
        return None
    recipe: Recipe = pickle.loads(content)  # under our own seal: nobody else has written it
    try:
        for symbol, its_key in recipe.symbols.items():
            _provide(symbol, its_key)
    except LookupError:
        return None
    return recipe


def _provide(symbol: str, key: str | None) -> None:
    """Have code find a function outside of it by its name, as emitting a call of it does."""
    name = symbol.removeprefix(PREFIX)
    if key is not None:
        library.provide(symbol, key)
    elif symbol in threads.SYMBOLS:
        threads.pool()
    elif symbol in machine_stack.SYMBOLS:
        machine_stack.provide()
    elif name.startswith("Py"):
        interpreter.provide(name)
    elif name.startswith("special_"):
        special.provide(symbol)
    else:
        blas.provide(name)


# ---- keys


class _NoNameError(Exception):
    """Something in a Program that a key cannot tell from others."""


def key_of(program: Program, *settings: Any) -> str | None:
    """All that decides what becomes of a Program, in a word; None if that cannot be told."""
    try:
        words = _Words().write_program(program)
    except _NoNameError:
        return None
    workers = (most_workers(), threads.get_threads())
    around = (build.here(), build.package(), knows_layout(), workers, settings)
    return hashlib.sha256("\n".join([repr(around), *words]).encode()).hexdigest()


@functools.cache
def _function(run: Any) -> str | None:
    """The name of a primitive's function, if it is this package's, Python's, NumPy's or SciPy's."""
    if isinstance(run, np.ufunc):
        owners = [np, sys.modules.get("scipy.special")]
        known = any(getattr(owner, run.__name__, None) is run for owner in owners)
        return run.__name__ if known else None
    if isinstance(getattr(run, "__self__", None), np.ufunc):  # np.add.reduce
        whole = _function(run.__self__)
        return f"{whole}.{run.__name__}" if whole else None
    owner, name = getattr(run, "__module__", None) or "", getattr(run, "__qualname__", None)
    known = owner.split(".")[0] in ("backsolve", "numpy", "_operator", "builtins")
    return f"{owner}.{name}" if known and name else None


class _Words:
    """A Program in words; what occurs in it twice is written once, and told apart from what equals it."""

    def __init__(self) -> None:
        self.written: list[str] = []
        self.seen: dict[int, tuple[int, Any]] = {}
        self.vars: dict[Var, int] = {}
        self.marks: dict[int, str] = {}  # of boxes, in the order in which they are met
        self.bytes = 0

    def write_program(self, program: Program) -> list[str]:
        self.define("program", program.inputs)
        for var, constant in program.constants:
            self.define("constant", [var])
            self.write(getattr(constant, "_v", constant))
        for e in program.equations:
            function = _function(e.primitive.run)  # which folding calls
            if function is None:
                raise _NoNameError
            self.written.append(f"{e.primitive.name} by {function} at {e.where}")
            self.write(e.inputs)
            self.write(e.params)
            self.define("makes", e.outputs)
        self.write(program.outputs)
        return self.written

    def define(self, how: str, variables: Sequence[Var]) -> None:
        self.written.append(f"{how} {len(variables)}")
        for v in variables:
            self.vars[v] = len(self.vars)
            self.write(v.type)

    def mark(self, n: int) -> str:
        return self.marks.setdefault(n, f"box {len(self.marks)}")

    def write(self, x: Any) -> None:
        written = self.written
        if type(x) is Var:
            written.append(f"v{self.vars[x]}")
        elif type(x) in _NAMED:
            written.append(f"{type(x).__name__} {x!r}")
        elif isinstance(x, tuple | list):
            written.append(f"{type(x).__name__} of {len(x)}")
            for part in x:
                self.write(part)
        elif isinstance(x, dict):
            self.write(list(x.items()))
        elif isinstance(x, Type):
            shape = [self.mark(n) if n < STACK else n for n in x.shape]
            written.append(f"{x.dtype.str}{shape}{x.weak}")
        elif isinstance(x, np.dtype | type):
            written.append(f"dtype {np.dtype(x).str}")
        elif isinstance(x, slice):
            self.write(("slice", x.start, x.stop, x.step))
        elif isinstance(x, np.ndarray | np.generic):
            self.write_array(x)
        elif id(x) in self.seen:
            written.append(f"again {self.seen[id(x)][0]}")
        elif isinstance(x, Layout):
            self.seen[id(x)] = len(self.seen), x
            written.append(f"layout {self.mark(x.mark)}")
            self.write(x.types)
        elif is_dataclass(x):
            self.seen[id(x)] = len(self.seen), x  # kept, or its id might be another's
            written.append(type(x).__name__)
            if isinstance(x, Program):
                self.write_program(x)
            elif isinstance(x, Callee):
                apart = ("own", "derivatives", "seen")  # of no account any more, but for the passes
                self.write([f.__name__ for f in x.seen])
                self.write(
                    [getattr(x, f.name) for f in fields(x) if f.compare and f.name not in apart]
                )
            else:
                self.write([getattr(x, f.name) for f in fields(x) if f.compare])
        else:
            raise _NoNameError

    def write_array(self, a: Any) -> None:
        once = without_repeats(a)
        self.bytes += once.nbytes
        if a.dtype.hasobject or self.bytes > LARGE:
            raise _NoNameError
        content = hashlib.sha256(once.tobytes()).hexdigest()
        self.written.append(f"{a.dtype.str}{a.shape} {once.shape} {content}")
