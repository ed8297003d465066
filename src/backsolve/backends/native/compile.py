"""A schedule as one native function: lay out the arena, emit, optimise, link."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from llvmlite import binding, ir

from ...ir import Program, type_of
from .blas import Product
from .donation import donate
from .elementwise import memory_type
from .entry import ALIGNMENT, Frame, emit_entry
from .failure import CODE, FINE
from .kernel import Kernel
from .objects import knows_layout, make_builtin
from .schedule import Schedule
from .slow_entry import slow_entry
from .steps import Site
from .views import Buffer

INT = ir.IntType(64)
POINTER = ir.IntType(8).as_pointer()
LONG = 10e-6  # seconds from which a run lets other threads have the GIL
_lock = threading.Lock()


@dataclass(eq=False)
class Native:
    """A compiled Program: `call(*flat inputs)` gives the output, or a tuple of several.

    `call` answers NotImplemented to arguments that are not exactly of the compiled types.
    """

    call: Callable[..., Any]
    stats: dict[str, Any]
    stages: dict[str, str]

    def assembly(self) -> str:
        """The machine code as text: made on request, for it costs as much as the code itself."""
        target = machine()
        with _lock:
            return str(target.emit_assembly(binding.parse_assembly(self.stages["llvm"])))


def compile_program(program: Program, donated: Sequence[int] = ()) -> Native:
    """Raises schedule.Unsupported if an equation has no native form.

    Outputs may take the memory of the inputs at `donated`: they are then those very objects.
    """
    started = time.perf_counter()
    schedule = Schedule(program)
    donors = donate(schedule, donated)
    arena_size = lay_out(schedule)
    module = ir.Module("backsolve")
    _emit(module, schedule)
    frame = Frame(
        inputs=[v.type for v in program.inputs],
        outputs=[type_of(a) for a in program.outputs],
        constants=[c for _, c in schedule.constants],
        arena_bytes=arena_size,
        failures=schedule.failures,
        donors=donors,
        releases_gil=sum(step.seconds for step in schedule.steps) > LONG,
    )
    fast = knows_layout() and all(t.dtype.kind == "f" for t in frame.inputs if t.weak)
    table = emit_entry(module, frame) if fast else None
    with _lock:
        optimised, engine = _build(str(module))
    keep = [frame, engine]
    if table is not None:
        call = make_builtin(int(engine.get_function_address("entry")), table, keep)
    else:
        call = slow_entry(int(engine.get_function_address("run")), frame, keep)
    stats = {
        "compile_seconds": time.perf_counter() - started,
        "kernels": sum(isinstance(s, Kernel) for s in schedule.steps),
        "products": sum(isinstance(s, Product) for s in schedule.steps),
        "arena_bytes": arena_size,
        "in_place": len(donors),
        "releases_gil": frame.releases_gil,
        "equations": len(program.equations),
    }
    stages = {"steps": describe(schedule), "llvm": optimised}
    return Native(call, stats, stages)


def lay_out(schedule: Schedule) -> int:
    """Places in the arena, reused once nobody reads a buffer any more; returns the size."""
    for at, step in enumerate(schedule.steps):
        for buffer in step.buffers():
            buffer.first = at if buffer.first < 0 else buffer.first
            buffer.last = at
    live: list[Buffer] = []
    size = 0
    for buffer in sorted((x for x in schedule.arena if x.kind == "arena"), key=lambda x: x.first):
        live = [x for x in live if x.last >= buffer.first]
        offset = 0
        for other in sorted(live, key=lambda x: x.offset):
            if offset + buffer.nbytes <= other.offset:
                break
            offset = max(offset, -(-(other.offset + other.nbytes) // ALIGNMENT) * ALIGNMENT)
        buffer.offset = offset
        live.append(buffer)
        size = max(size, offset + buffer.nbytes)
    return size


def _emit(module: ir.Module, schedule: Schedule) -> None:
    function = ir.Function(module, ir.FunctionType(CODE, [POINTER.as_pointer(), POINTER]), "run")
    table, arena = function.args
    b = ir.IRBuilder(function.append_basic_block("entry"))
    n_inputs, n_outputs = len(schedule.program.inputs), len(schedule.outputs)
    first = {"input": 0, "output": n_inputs, "constant": n_inputs + n_outputs}
    bases: dict[Buffer, ir.Value] = {}

    def base(buffer: Buffer) -> ir.Value:
        if buffer not in bases:
            with b.goto_entry_block():
                if buffer.kind == "arena":
                    raw = b.gep(arena, [INT(buffer.offset)])
                else:
                    raw = b.load(b.gep(table, [INT(first[buffer.kind] + buffer.index)]))
                bases[buffer] = b.bitcast(raw, memory_type(buffer.dtype).as_pointer())
        return bases[buffer]

    body = function.append_basic_block("body")
    entry = b.block
    b.position_at_end(body)
    for k, step in enumerate(schedule.steps):
        step.emit(Site(b, f"step{k}", schedule.numbers, base))
    b.ret(FINE)
    b.position_at_end(entry)
    b.branch(body)


def machine() -> Any:
    """The processor that this runs on; an engine takes its machine with it when it goes."""
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding.Target.from_default_triple().create_target_machine(
        opt=3,
        cpu=binding.get_host_cpu_name(),
        features=binding.get_host_cpu_features().flatten(),
        reloc="default",
        codemodel="jitdefault",
        jit=True,
    )


def _build(text: str) -> tuple[str, Any]:
    target = machine()
    module = binding.parse_assembly(text)
    module.verify()
    options = binding.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = options.slp_vectorization = True
    options.loop_unrolling = False
    passes = binding.create_pass_builder(target, options)
    passes.getModulePassManager().run(module, passes)
    optimised = str(module)
    engine = binding.create_mcjit_compiler(module, target)
    engine.finalize_object()
    return optimised, engine


def describe(schedule: Schedule) -> str:
    """The steps, for `lower`."""
    return "\n".join(f"{k}: {step.describe()}" for k, step in enumerate(schedule.steps))
