"""A Program as one native function: schedule it, lay out the arena, emit, and have it built."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from llvmlite import ir

from ...collecting import without_collections as without_collections
from ...ir import Program, type_of
from . import build, common_entry, library, recipes
from .arena import lay_out
from .blas import Product
from .donation import donate
from .elsewhere import raising
from .emission import FUNCTION, emit_program
from .entry import Frame, emit_entry
from .fastmath import FastModule
from .functions import keep_apart
from .halves import text_of
from .heat import spare_work
from .kernel import Kernel
from .masks import widen_masks
from .objects import CALLS, Table, knows_layout, make_builtin
from .rounding import round_apart
from .schedule import Schedule
from .slow_entry import slow_entry
from .sweep import Sweep, flat, rooms, with_sweeps
from .tiling import with_tiles

LONG = 10e-6  # seconds from which a run lets other threads have the GIL


@dataclass(eq=False)
class Native:
    """A compiled Program: `call(*flat inputs)` gives the output, or a tuple of several.

    `call` answers NotImplemented to arguments that are not exactly of the compiled types.
    """

    call: Callable[..., Any]
    stats: dict[str, Any]
    stages: dict[str, Callable[[], str]]  # texts, made on request

    @property
    def calls(self) -> int:
        """How often it ran; 0 if its entry does not count."""
        words = getattr(self.call, "__self__", None)
        return 0 if words is None else int(words[CALLS])


@without_collections()
def compile_program(
    program: Program,
    donated: Sequence[int] = (),
    fastmath: bool = False,
    unsafe: bool = False,
    key: str | None = None,
) -> Native:
    """Raises schedule.Unsupported if an equation has no native form.

    Outputs may take the memory of the inputs at `donated`: they are then those very objects. Under a `key`,
    if there is one, later processes can recall what became of it.
    """
    started = time.perf_counter()
    emitted = _emit_program(program, donated, fastmath, unsafe)
    schedule, frame, text = emitted.schedule, emitted.frame, text_of(emitted.module)
    library.build_wanted()
    engine, origin = build.load(text)
    stats = {
        "kernels": sum(isinstance(s, Kernel) for s in flat(schedule.steps)),
        "products": sum(isinstance(s, Product) for s in flat(schedule.steps)),
        "elsewhere": len(schedule.called),
        "sweeps": sum(isinstance(s, Sweep) for s in schedule.steps),
        "shared": sum(s.is_shared for s in schedule.steps),
        "flops": sum(s.flops for s in schedule.steps),
        "bytes": sum(x.nbytes for s in schedule.steps for x in s.buffers()),
        "arena_bytes": frame.arena_bytes,
        "in_place": len(frame.donors),
        "releases_gil": frame.releases_gil,
        "equations": len(program.equations),
    }
    if key is not None:
        recipes.write(key, build.key_of(text), frame, emitted.module, stats)
    timed = {"compile_seconds": time.perf_counter() - started, "code": origin, **stats}
    call = _callable(engine, frame, emitted.table, schedule.called)
    return Native(call, timed, _stages(lambda: _emit_program(program, donated, fastmath, unsafe)))


def recall_program(
    key: str,
    program: Callable[[], Program],
    donated: Sequence[int] = (),
    fastmath: bool = False,
    unsafe: bool = False,
) -> Native | None:
    """What an earlier process compiled under this key, if its code is at hand; `program` only shows it."""
    started = time.perf_counter()
    recipe = recipes.read(key)
    found = build.find(recipe.code) if recipe is not None else None
    if recipe is None or found is None:
        return None
    engine, origin = found
    frame = recipe.frame_here()
    table = None
    if knows_layout():  # its words are this process's: emit the entry again, but do not build it
        module = ir.Module()
        ir.Function(module, FUNCTION, "run")
        table = _entry_of(module, frame)
    call = _callable(engine, frame, table)
    timed = {"compile_seconds": time.perf_counter() - started, "code": origin, **recipe.stats}
    again = lambda: _emit_program(program(), donated, fastmath, unsafe)
    return Native(call, timed, _stages(again))


@without_collections()
def compile_run(program: Program, unsafe: bool = False) -> tuple[Any, Frame, list[Any]]:
    """The engine that holds `run(table, arena)` without an entry, what stands around it, and the rows it calls
    back."""
    emitted = _emit_program(program, (), False, unsafe, has_entry=False)
    library.build_wanted()
    engine, _ = build.load(text_of(emitted.module))
    return engine, emitted.frame, emitted.schedule.called


def _callable(
    engine: Any, frame: Frame, table: Table | None, called: Sequence[Any] = ()
) -> Callable[..., Any]:
    keep = [frame, engine, called]
    if table is not None and common_entry.suits(frame):
        return common_entry.make_entry(engine, table, keep)
    if table is not None:
        call = make_builtin(int(engine.get_function_address("entry")), table, keep)
    else:
        call = slow_entry(int(engine.get_function_address("run")), frame, keep)
    return raising(call) if called else call


def _stages(again: Callable[[], _Emitted]) -> dict[str, Callable[[], str]]:
    return {
        "steps": lambda: describe(again().schedule),
        "llvm": lambda: build.llvm(text_of(again().module)),
        "assembly": lambda: build.assembly(text_of(again().module)),
    }


@dataclass(eq=False)
class _Emitted:
    schedule: Schedule
    module: ir.Module
    frame: Frame
    table: Table | None  # for the fast entry, if there is one


def scheduled(
    program: Program, donated: Sequence[int] = (), unsafe: bool = False
) -> tuple[Schedule, dict[int, int]]:
    """The steps that are emitted, and which outputs take the memory of which inputs."""
    schedule = Schedule(round_apart(program), unsafe=unsafe)
    donors = donate(schedule, donated)
    widen_masks(schedule)
    schedule.steps = with_sweeps(schedule.steps)
    with_tiles(schedule)
    return schedule, donors


def _emit_program(
    program: Program,
    donated: Sequence[int],
    fastmath: bool,
    unsafe: bool,
    has_entry: bool = True,
) -> _Emitted:
    schedule, donors = scheduled(program, donated, unsafe)
    temporary = [x for x in (*schedule.arena, *rooms(schedule.steps)) if x.kind == "arena"]
    frame = Frame(
        inputs=[v.type for v in schedule.program.inputs],
        outputs=[type_of(a) for a in schedule.program.outputs],
        constants=[c for _, c in schedule.constants],
        arena_bytes=lay_out(schedule.steps, temporary),
        failures=schedule.failures,
        donors=donors,
        releases_gil=sum(step.seconds for step in schedule.steps) > LONG,
    )
    module = FastModule("backsolve") if fastmath else ir.Module("backsolve")
    emit_program(module, schedule)
    table = _entry_of(module, frame) if has_entry and knows_layout() else None
    spare_work(module)
    return _Emitted(schedule, module, frame, table)


def _entry_of(module: ir.Module, frame: Frame) -> Table:
    """The table of the entry, which is emitted into the module unless it is one that others have, too."""
    if not common_entry.suits(frame):
        return emit_entry(module, frame)
    keep_apart(module.globals["run"])
    return common_entry.entry_table(frame)


def describe(schedule: Schedule) -> str:
    """The steps, for `lower`."""
    return "\n".join(f"{k}: {step.describe()}" for k, step in enumerate(schedule.steps))
