"""A function for one set of types: recorded, rewritten, and compiled if all of it has a native form."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import tree
from ..backends.target import NATIVE, Placed, Target
from ..changes import Changes
from ..declared import plain_structure
from ..ir import Program, Type, type_of
from ..module_state import Cells
from ..primitive import wrap
from ..rewrite import rewrite, rewrite_for_machines, rewrite_for_xla
from ..rewrite.stable import recognise
from ..row import ancestors, next_index
from ..solve.budget import Report
from ..tensor import Staged, Tensor
from ..trace import evaluate, recorder_of, stage
from .arguments import plain
from .defaults import settle
from .state import taken_back

if TYPE_CHECKING:
    from ..backends.native.compile import Native
    from ..backends.xla import Compiled as Xla


class Rewritten:
    """A Program that is rewritten when it is first asked for: code that was found again needs none."""

    def __init__(self, recorded: Program):
        self._recorded: Program | None = recorded
        self._made: Program | None = None
        self._lock = threading.Lock()

    def __call__(self) -> Program:
        with self._lock:
            if self._recorded is not None:
                self._made, self._recorded = rewrite(self._recorded), None
            assert self._made is not None
            return self._made


@dataclass(eq=False)
class Specialised:
    """A function for one set of types: its Program, and the native code if all of it has some."""

    recorded: Program  # to be shown: its constants hold nothing
    rewritten: Rewritten
    out_structure: tree.Structure
    code: Native | Xla | None
    reason: str = ""  # why there is no compiled code
    donated: tuple[int, ...] = ()  # leaves whose memory results may take
    freedoms: tuple[bool, bool] = (False, False)  # fastmath, unsafe
    target: Target = NATIVE
    runs: int = 0  # of the native code, by us
    has_own_derivative: bool = False  # a stop_gradient or a Function stands in it
    changed: Cells = ()  # state that it closes over, which its Program leaves as it was
    derivatives: dict[str, Specialised] = field(default_factory=dict)
    report: Report = field(default_factory=Report)  # of adjoints within a budget: what was planned
    # by the numbers of the inputs that vary, which outputs vary with them
    varying: dict[tuple[int, ...], list[bool]] = field(default_factory=dict)

    @property
    def program(self) -> Program:
        return self.rewritten()

    @functools.cached_property
    def outputs(self) -> list[Type]:
        return [type_of(a) for a in self.recorded.outputs]

    def run(self, leaves: Sequence[Any]) -> list[Any]:
        """Raw results for raw leaves of the compiled types; those of XLA stay on its device."""
        if self.code is not None:
            self.runs += 1
            result = self.code.call(*leaves)
            if result is NotImplemented:  # strided, unaligned, unpickled, or a NumPy scalar
                suited = [a if _suits(a) else _copied(a) for a in leaves]
                result = self.code.call(*suited)
            if result is NotImplemented and self.donated:  # read-only, or shared
                own = [np.array(a) if k in self.donated else a for k, a in enumerate(suited)]
                result = self.code.call(*own)
            if result is not NotImplemented:
                return [result] if len(self.outputs) == 1 else list(result)
        raw = [y._v if isinstance(y, Tensor) else y for y in evaluate(self.program, leaves)]
        return _own([*leaves, *[c for _, c in self.program.constants]], raw)

    @property
    def direct_calls(self) -> int:
        """Calls that went into native code by themselves, without us."""
        return 0 if self.code is None else max(self.code.calls - self.runs, 0)

    def run_on_copies(self, leaves: Sequence[Any]) -> list[Any]:
        """The same for a caller who goes on using donated leaves."""
        own = [
            x.copy() if k in self.donated and isinstance(x, np.ndarray) else x
            for k, x in enumerate(leaves)
        ]
        return self.run_here(own)

    def run_here(self, leaves: Sequence[Any]) -> list[Any]:
        """Results as NumPy's, wherever they were computed."""
        results = self.run(leaves)
        if self.target.backend != "xla":
            return results
        settle()
        arrays = [np.asarray(y) for y in results]
        return [y[()] if y.ndim == 0 else y for y in arrays]


def _suits(a: Any) -> bool:
    """Whether native code takes an argument as it is, whatever the others are."""
    if type(a) is not np.ndarray:
        return not isinstance(a, np.ndarray | np.generic)
    return bool(a.flags.c_contiguous and a.flags.aligned and a.dtype is plain(a.dtype))


def _copied(a: Any) -> Any:
    return np.asarray(a).astype(plain(a.dtype), order="C")


def _own(others: Sequence[Any], results: Sequence[Any]) -> list[Any]:
    """Results that share no memory with arguments, constants or each other, as those of native code."""
    taken = {id(x._v if isinstance(x, Tensor) else x) for x in others}
    own: list[Any] = []
    for y in results:
        if isinstance(y, np.ndarray) and y.ndim == 0:
            y = y[()]
        elif isinstance(y, np.ndarray):
            if y.base is not None or id(y) in taken:
                y = y.copy()
            taken.add(id(y))
        own.append(y)
    return own


def specialise(
    f: Any,
    rebuild: Any,
    types: Sequence[Type],
    target: Target,
    donated: tuple[int, ...] = (),
    freedoms: tuple[bool, bool] = (False, False),
    names: Sequence[str] | None = None,
) -> Specialised | None:
    """`names` are those of the numbers among the arguments, where many devices ask for them."""
    structures: list[tree.Structure] = []
    recorders: list[Any] = []

    def flat(*staged: Any) -> list[Any]:
        recorders.extend(x._v.recorder for x in staged[:1])
        args, kwargs = rebuild(staged)
        leaves, structure = tree.flatten(f(*args, **kwargs))
        outputs, structure = tree.without_fixed(structure, leaves)
        structures.append(structure)
        return outputs

    with Changes() as changes, _compiling_for(target.backend):
        recorded = record(flat, types)
    changed = taken_back(changes, recorders)
    if recorded is None:
        return None
    program = Rewritten(recorded)
    shown = without_constants(recorded)
    code: Native | Xla | None = None
    reason = ""
    if changed:
        reason = "it changes state that it closes over"
    elif target.backend == "xla":
        from ..backends.xla import compile_program as compile_xla

        placed = _placed(target, names, recorded, structures[0])
        code = compile_xla(rewrite_for_xla(program()), target, donated, freedoms[1], placed)
    elif target.backend == "native":
        code, reason = native_code(recorded, program, donated, freedoms)
    else:
        reason = 'backend="numpy"'
    own = any(x.has_own_derivative for x in recorders)
    return Specialised(
        shown,
        program,
        structures[0],
        code,
        reason,
        donated,
        freedoms,
        target,
        has_own_derivative=own,
        changed=changed,
    )


def without_constants(program: Program) -> Program:
    """The same with zeros in their place, which take no memory."""
    nothing = [(v, np.broadcast_to(np.zeros((), v.dtype), v.shape)) for v, _ in program.constants]
    return Program(program.inputs, tuple(nothing), program.equations, program.outputs)


@contextlib.contextmanager
def _compiling_for(backend: str) -> Iterator[None]:
    before = _backend.set(backend)
    try:
        yield
    finally:
        _backend.reset(before)


_backend = ContextVar("_backend", default="")  # that what is being recorded is for, if any is


def is_for_native_code() -> bool:
    """Whether what is being recorded will be compiled as such."""
    return _backend.get() == "native"


@contextlib.contextmanager
def recognising(staged: Sequence[Any]) -> Iterator[None]:
    """Stable forms of a compiled function where others record it (an eager `vmap`), as in its own Program."""
    recorder = recorder_of("jit", staged)
    before, recorder.recognise = recorder.recognise, recognise
    try:
        yield
    finally:
        recorder.recognise = before


def record(flat: Any, types: Sequence[Type]) -> Program | None:
    """The Program of a function of numbers; None if it closes over something that varies outside."""
    start = next_index()
    made, _ = stage(flat, types, recognise=recognise)
    if any(isinstance(c, Tensor) and _varies(c, start) for _, c in made.constants):
        return None
    # A constant may still carry a row of the function itself, which differentiated at a plain array.
    constants = tuple(
        [(v, wrap(c._v, None) if isinstance(c, Tensor) else c) for v, c in made.constants]
    )
    return Program(made.inputs, constants, made.equations, made.outputs)


def _placed(
    target: Target, names: Sequence[str] | None, program: Program, results: tree.Structure
) -> Placed | None:
    """Where arguments and results lie, if there are many devices."""
    if target.placement is None or names is None:
        return None if target.placement is None else target.placement.nowhere()
    shapes = [v.type.shape for v in program.inputs]
    arguments = list(zip(names, shapes, strict=True))
    made = (
        list(tree.dotted_names(plain_structure(results)))
        if results.kind is not tree.LEAF
        else ["result"]
    )
    shapes = [type_of(a).shape for a in program.outputs]
    return target.placement.of(arguments, list(zip(made, shapes, strict=True)))


def native_code(
    recorded: Program, program: Rewritten, donated: tuple[int, ...], freedoms: tuple[bool, bool]
) -> tuple[Native | None, str]:
    """Native code, found on disk or made; or why there is none."""
    from ..backends.native.compile import compile_program, recall_program
    from ..backends.native.disk import disk
    from ..backends.native.recipes import key_of
    from ..backends.native.support import Unsupported

    machine = lambda: rewrite_for_machines(program())
    key = None if disk() is None else key_of(recorded, donated, freedoms)
    found = recall_program(key, machine, donated, *freedoms) if key is not None else None
    try:
        return found or compile_program(machine(), donated, *freedoms, key), ""
    except Unsupported as missing:
        return None, f"`{missing}` has no native form yet"


def seconds_of(program: Program) -> float | None:
    """About how long native code of a Program would run, told without making any; None if there is none."""
    try:
        from ..backends.native import pricing
        from ..backends.native.support import Unsupported
    except ModuleNotFoundError:  # XLA runs without LLVM
        return None
    try:
        return pricing.seconds_of(rewrite_for_machines(program))
    except Unsupported:
        return None


def _varies(c: Tensor, start: int) -> bool:
    """Whether somebody outside of the staging that began at index `start` varies this value."""
    if isinstance(c, Staged):
        return True
    return c.row is not None and ancestors([c.row], start)[1]
