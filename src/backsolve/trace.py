"""Staging: run a function once on types and write down a Program.

A staged value is a Tensor whose `_v` is a Var. Calling a primitive on one appends an Equation to the
innermost Recorder among its arguments; everything else the function touches (arrays, eager Tensors,
values of an outer recording) becomes a constant of the Program and keeps its own history. Rows are
made exactly as in eager mode, so differentiation inside a staged function needs nothing new.

While a region (the body of a loop, a branch) is recorded, all staged calls go into it, even those on values
of outer recordings: what stands in a branch must run only if the branch is taken.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .errors import DTypeError, TracedValueError, location, tells_place
from .hooks import hooks
from .ir import Equation, Program, Type, Var, type_of
from .ownership import LARGE, is_shared, own
from .primitive import Primitive, coerce, wrap
from .row import next_index

_level = itertools.count().__next__
BARE = frozenset([float, int, bool, complex])  # written into a Program as they are


class _Active(threading.local):
    """The regions that this thread is recording, the innermost last."""

    def __init__(self) -> None:
        self.regions: list[Recorder] = []
        self.stages = 0  # how many calls of `stage` are under way
        self.recognise: Callable[..., Any] | None = None  # of the innermost of them
        self.where = ""  # the line that the equation being evaluated stands for


def where(depth: int = 1) -> str:
    """The user's line for what is recorded now: that of the equation which is evaluated, or where we are."""
    return _active.where or location(depth + 1)


_active = _Active()


class Call(NamedTuple):
    """What made a recorded value: to be looked through by `Recorder.recognise`."""

    primitive: Primitive
    inputs: list[Any]  # of a Tensor, what it held then and its row: it may be written into later
    params: dict[str, Any]
    row: Any

    @property
    def args(self) -> list[Any]:
        return [wrap(*a) if type(a) is tuple else a for a in self.inputs]


class Recorder:
    """`recognise(recorder, primitive, args, params)` may give another way to compute a call, or None."""

    def __init__(self, recognise: Callable[..., Any] | None = None) -> None:
        self.level = _level()
        self.has_own_derivative = False  # stop_gradient or a Function was met
        self.is_done = False  # the Program is finished: nothing can be added
        self.recognise = recognise
        self.begin = next_index()  # rows before it are not of this Program
        self.calls: dict[Var, Call] = {}
        self.equations: list[Equation] = []
        self.constants: dict[tuple[int, Any], tuple[Any, ...]] = {}  # what was captured last, by id
        self.order: list[tuple[Var, Any]] = []
        self.is_region = False
        self.is_lasting = False  # differentiated later: what has a derivative of its own stays
        self.is_checked = False  # its results will be looked at for NaN
        # Of a loop's body: inputs that are the same in both passes of a derivative, or None.
        self.at_hand: set[Var] | None = None
        self.examples: dict[Var, Any] = {}  # of its inputs, where numbers are at hand
        self.batch = 0  # for how many examples at once it will run, if for more than one
        self.checks: list[Any] = []  # of a region: numbers that should be 0, and what they mean

    def at_once(self, prim: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """What a call gives, where calls run as they are met (at_once.py); None: it becomes an equation."""
        return None

    def atom(self, a: Any) -> Any:
        """An argument as the Program writes it: its Var, a Python scalar, or a constant's Var."""
        if isinstance(a, hooks.Tensor):
            v = a._v
            if type(v) is Var and v.recorder is self:
                return v
        elif type(a) in BARE:
            return a
        # A constant is captured as it is now: a Tensor may be written into later, a small array too.
        raw, row = (a._v, a.row) if isinstance(a, hooks.Tensor) else (coerce(a), None)
        found = self.constants.get((id(raw), row))
        if found is not None and (found[2] is raw or _same_bytes(found[2], raw)):
            return found[0]
        is_tensor = isinstance(a, hooks.Tensor)
        kept = own(raw) if is_shared(raw) or not is_tensor else raw
        value = wrap(kept, row) if is_tensor else kept
        t = raw.type if type(raw) is Var else type_of(value)
        var = Var(t if type(raw) is Var else Type(t.shape, t.dtype), self)
        captured = getattr(value, "_v", value)
        self.constants[id(raw), row] = (var, value, captured, raw)  # `raw` keeps its id from reuse
        self.constants[id(captured), row] = (var, value, captured, captured)
        self.order.append((var, value))
        return var

    def captured(self, a: Any) -> Any:
        """What a block may keep of a bare argument that `atom` has seen: no second copy of it."""
        found = self.constants.get((id(a), None))
        return a if found is None else found[2]

    def call_of(self, a: Any) -> Call | None:
        """The call that made `a`, unless `a` varies by itself since (it carries another row)."""
        staged = isinstance(a, hooks.Tensor) and type(a._v) is Var
        call = self.calls.get(a._v) if staged else None
        return call if call is not None and call.row is a.row else None

    def program(self, inputs: Sequence[Var], outputs: Sequence[Any]) -> Program:
        atoms = tuple(self.atom(y) for y in outputs)
        made = Program(tuple(inputs), tuple(self.order), tuple(self.equations), atoms)
        # The variables refer to us: leave no cycle.
        self.equations, self.constants, self.order, self.calls = [], {}, [], {}
        self.examples = {}
        self.is_done = True
        return made


def _same_bytes(a: Any, b: Any) -> bool:
    """Whether an array still holds what was captured of it."""
    if a.size > LARGE and a.flags.c_contiguous and b.flags.c_contiguous:
        return np.array_equal(a.reshape(-1).view(np.uint8), b.reshape(-1).view(np.uint8))
    return bool(a.tobytes() == b.tobytes())


def recorder_of(name: str, args: Sequence[Any]) -> Recorder:
    """Where a call with these arguments, one of them staged, is recorded: the innermost place."""
    Tensor, regions = hooks.Tensor, _active.regions
    found: Any = regions[-1] if regions else None
    for a in args:
        if isinstance(a, Tensor) and type(a._v) is Var:
            recorder = a._v.recorder
            if recorder.is_done:
                raise TracedValueError(
                    f"`{name}` got a value that was kept from an earlier staging (of `jit`, or of a loop or "
                    "branch), which has no number; return it from the function instead of storing it outside"
                )
            if found is None or recorder.level > found.level:
                found = recorder
    return found


def stage_call(prim: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
    """`prim(*args)` where an argument is staged: append an equation, return a staged value."""
    recorder = recorder_of(prim.name, args)
    result = recorder.at_once(prim, args, params)
    if result is not None:
        return result
    if prim.has_effect and recorder.is_region:
        recorder.checks.append((args[0], params["messages"]))
        return args[0]
    Tensor = hooks.Tensor
    args = [a if isinstance(a, Tensor) or type(a) in BARE else _array(prim, a) for a in args]
    if recorder.recognise is not None:
        better = recorder.recognise(recorder, prim, args, params)
        if better is not None:
            return better
    atoms, types, values, rows, inputs = [], [], [], [], []
    for a in args:
        if isinstance(a, Tensor):
            atom = value = a._v
            row = a.row
            if type(atom) is not Var or atom.recorder is not recorder:
                atom = recorder.atom(a)
            inputs.append((value, row))
        else:
            atom, row = recorder.atom(a), None
            value = recorder.captured(a)
            inputs.append(a)
        atoms.append(atom)
        types.append(type_of(atom))
        values.append(value)
        rows.append(row)
    try:
        (out,) = prim.infer(types, params)
    except Exception as error:
        from .primitive import translate

        raise translate(error, prim, [np.empty(t.shape, bool) for t in types], params) from error
    var = Var(out, recorder)
    recorder.equations.append(Equation((var,), prim, tuple(atoms), params, where(2)))
    row = prim.record(var, rows, values, params)
    if recorder.recognise is not None:
        recorder.calls[var] = Call(prim, inputs, params, row)
    if hooks.observe is not None:
        hooks.observe(prim, row, var, args)
    return hooks.wrap_var(var, row)


def _array(prim: Primitive, a: Any) -> Any:
    if a is None:
        raise DTypeError(f"`{prim.name}` needs numbers, got None")
    return coerce(a)


hooks.stage = stage_call


def stage(
    f: Callable[..., Any],
    types: Sequence[Type],
    names: Sequence[str | None] = (),
    recognise: Callable[..., Any] | None = None,
    lasting: bool = False,
    examples: Sequence[Any] = (),
    batch: int = 0,
    checked: bool = False,
) -> tuple[Program, Any]:
    """Record `f` on values of the given types; also give back what it returned, staged.

    `lasting`: the Program takes the place of `f` where it is differentiated, so `stop_gradient` and `Function`
    must stand in it; what is recognised around it is recognised in it. `examples` are numbers that the inputs
    may be, or values staged around that have examples, too (see `example_of`). `batch`: it will run for so
    many examples at once. `checked`: who runs it looks for NaN, so that zeros beside infinities need no care.
    """
    around = _active.recognise
    recorder = Recorder(around if lasting and recognise is None else recognise)
    recorder.is_lasting, recorder.batch, recorder.is_checked = lasting, batch, checked
    padded = [*names, *[None] * (len(types) - len(names))]
    inputs = [Var(t, recorder, name) for t, name in zip(types, padded, strict=True)]
    recorder.examples = dict(zip(inputs, examples, strict=False))
    _active.stages += 1
    _active.recognise = recorder.recognise
    try:
        result = f(*[wrap(v, None) for v in inputs])
    finally:
        _active.stages -= 1
        _active.recognise = around
    flat = result if isinstance(result, list | tuple) else [result]
    return recorder.program(inputs, flat), result


def example_of(x: Any) -> Any:
    """A number, or array, that a staged value may be; None if there are no examples of what it is made from."""
    var = x._v
    recorder = var.recorder
    if not recorder.examples:
        return None
    needed, taken = {var}, []
    for e in reversed(recorder.equations):
        if not needed.isdisjoint(e.outputs):
            taken.append(e)
            needed.update(a for a in e.inputs if type(a) is Var)
    constants = tuple((v, c) for v, c in recorder.order if v in needed)
    program = Program(tuple(recorder.examples), constants, tuple(reversed(taken)), (var,))
    examples = [
        example_of(v) if isinstance(v, hooks.Tensor) else v for v in recorder.examples.values()
    ]
    if any(v is None for v in examples):
        return None
    (found,) = evaluate(program, examples)
    found = getattr(found, "_v", found)
    return None if type(found) is Var else found


def stage_region(
    f: Callable[..., Sequence[Any]], types: Sequence[Type], outer: Recorder | None
) -> Program:
    """Record `f`, which gives a list of values, as a region inside what `outer` records."""
    recorder = Recorder(outer.recognise if outer is not None else None)
    recorder.is_region = True
    inputs = [Var(t, recorder) for t in types]
    _active.regions.append(recorder)
    try:
        results = f(*[wrap(v, None) for v in inputs])
    finally:
        _active.regions.pop()
    if outer is not None:
        outer.has_own_derivative |= recorder.has_own_derivative
    return recorder.program(inputs, results)


def is_recording() -> bool:
    """Whether a function is being staged: what it closes over may be, though its arguments are known."""
    return bool(_active.stages or _active.regions)


def is_in_region() -> bool:
    return bool(_active.regions)


def is_for_later(*values: Any) -> bool:
    """Whether one of these is staged for a Program that is differentiated later, from what was recorded."""
    staged = [v._v.recorder for v in values if isinstance(v, hooks.Tensor) and type(v._v) is Var]
    return bool(staged) and (is_in_region() or any(recorder.is_lasting for recorder in staged))


def innermost_region() -> Recorder | None:
    return _active.regions[-1] if _active.regions else None


class standing_for:  # noqa: N801 - used as a function
    """While an equation is evaluated: what is recorded, or fails, does so at the user's line."""

    def __init__(self, where: str):
        self.where = where

    def __enter__(self) -> None:
        self.outside, _active.where = _active.where, self.where or _active.where

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        _active.where = self.outside
        if kind in (IndexError, np.linalg.LinAlgError):
            raise _placed(error, self.where) from error


def _placed(error: Exception, where: str) -> Exception:
    """NumPy's complaint about an index or a matrix, with the user's line: one, the innermost."""
    if not where or tells_place(str(error)):
        return error
    return type(error)(f"{error}, at {where}")


def evaluate(program: Program, args: Sequence[Any]) -> list[Any]:
    """Run a Program on Tensors, arrays or staged values, one primitive call an equation."""
    values: dict[Var, Any] = dict(zip(program.inputs, args, strict=True))
    values.update(program.constants)
    for e in program.equations:
        inputs = [values[a] if type(a) is Var else a for a in e.inputs]
        with standing_for(e.where):
            result = e.primitive(*inputs, **e.params)
        if e.primitive.holds_regions:
            values.update(zip(e.outputs, result, strict=True))
        else:
            values[e.outputs[0]] = result
    return [values[a] if type(a) is Var else a for a in program.outputs]
