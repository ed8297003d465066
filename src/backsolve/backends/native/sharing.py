"""Kernels that do the same, as one function: the layers of a network, the parameters of an optimiser.

Two kernels are the same if their loops, once merged, walk all views alike and do the same on each entry.
A single loop takes its first round and its last as arguments, so that arrays of different shapes share it, and
the workers of a long one; a loop over rows (a bias is added to each) takes their length, too. Lengths that fill
all vectors are told from others, which need a second loop for what is left. Where in a buffer its views begin
is the caller's business, so that it serves the rows of a matrix one by one.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir

from ...ir import Shape, Var, type_of
from .failure import CODE, FINE, fail_if
from .fastmath import builder_in
from .functions import keep_apart
from .loops import INT, Emitter
from .narrowing import narrow_dtypes
from .nests import LONG_LOOP, walk
from .numbers.registers import memory_type
from .rounding import ROUNDED
from .steps import Site
from .views import Buffer

if TYPE_CHECKING:
    from .kernel import Kernel

BYTE = ir.IntType(8)
VECTORS = 64  # rounds that fill the vectors of any processor, several side by side
# All that a kernel holds: with something new in it, a kernel is shared once its key knows of it.
KEYED = {"domain", "statements", "made", "loads", "stores", "reductions", "axes", "adds", "ends"}
UNSHARED = {"reads", "writes", "refusals"}  # a kernel with any of these is its own


def kernel_function(kernel: Kernel, site: Site) -> tuple[Any, list[ir.Value]]:
    """The function of a kernel, and its arguments."""
    key, sizes = key_of(kernel, site.numbers)
    if sizes:
        function, _, given = part_function(kernel, site)
        return function, [*given, INT(0), INT(sizes[0])]
    name = site.name if key is None else f"kernel_{hashlib.sha256(key.encode()).hexdigest()}"
    function = site.module.globals.get(name)
    starts = starts_of(kernel) if key is not None else {}
    if function is None:
        function = emit_kernel(site.module, name, kernel, site.numbers, starts)
    pointers = [shifted(site.b, site.base(x), starts.get(x, 0)) for x in kernel.buffers()]
    return function, pointers


def part_function(
    kernel: Kernel, site: Site, block: int = 0
) -> tuple[Any, list[int], list[ir.Value]]:
    """The function of some rounds of a kernel, the failures it tells of, and its first arguments.

    It is called for all rounds, or for multiples of a `block` of them.
    """
    key, sizes = key_of(kernel, site.numbers)
    fills = bool(sizes) and sizes[-1] % VECTORS == 0 and (len(sizes) > 1 or block % VECTORS == 0)
    name = f"{site.name}_part"
    if key is not None:
        name = f"part_{hashlib.sha256(f'{key} {fills}'.encode()).hexdigest()}"
    starts = starts_of(kernel) if key is not None else {}
    function, codes = site.module.globals.get(name), list[int]()
    if function is None:
        function, codes = emit_part_of_kernel(
            site.module, name, kernel, site.numbers, starts, sizes, fills
        )
    pointers = [shifted(site.b, site.base(x), starts.get(x, 0)) for x in kernel.buffers()]
    return function, codes, [*pointers, *[INT(n) for n in sizes[1:]]]


def starts_of(kernel: Kernel) -> dict[Buffer, int]:
    """The first entry of each buffer at which a view of it begins."""
    starts: dict[Buffer, int] = {}
    for view in kernel.views():
        starts[view.buffer] = min(view.offset, starts.get(view.buffer, view.offset))
    return starts


def key_of(kernel: Kernel, numbers: dict[Var, Any]) -> tuple[str | None, tuple[int, ...]]:
    """What makes a kernel's code, None if it is not shared; and the lengths of loops that are arguments."""
    views, buffers = kernel.views(), kernel.buffers()
    domain, walked = walk(kernel, views)
    strides: list[Any] = list(walked)
    fields = {f.name for f in dataclasses.fields(kernel)}
    if fields != KEYED | UNSHARED or any(getattr(kernel, name) for name in UNSHARED):
        return None, ()
    if any(v.buffer.kind == "ramp" for v in views):
        return None, ()
    parts = [kernel, *kernel.ends]
    if any(e.params.keys() - {"dtype", ROUNDED} for part in parts for e in part.statements):
        return None, ()
    places = {x: k for k, x in enumerate(buffers)}
    starts = starts_of(kernel)
    sums = [(how, v.buffer.size) for how, _, v in kernel.reductions]
    sizes = () if sums or narrow_dtypes(kernel) else _free_sizes(domain, strides)
    steps: list[Any] = list(strides)
    if len(sizes) == 2:
        steps = [("length" if s else 0, t) for s, t in strides]
    walks = [
        (places[v.buffer], v.dtype.str, v.offset - starts[v.buffer], s)
        for v, s in zip(views, steps, strict=True)
    ]
    loops = (len(sizes), sizes[-1] >= LONG_LOOP) if sizes else domain
    done = [_key_of_entries(part, numbers) for part in parts]
    return repr((loops, walks, sums, kernel.adds, done)), sizes


def _free_sizes(domain: Shape, strides: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The lengths that code need not know: of a single loop, or of rows that lie one after another."""
    if 0 in domain or len(domain) not in (1, 2):
        return ()
    is_even = domain[-1] % VECTORS == 0 and all(s[0] in (0, domain[-1]) for s in strides)
    return domain if len(domain) == 1 or is_even else ()


def _key_of_entries(kernel: Kernel, numbers: dict[Var, Any]) -> Any:
    """What is done at each place."""
    order = {
        a: k for k, a in enumerate([*kernel.loads, *[e.outputs[0] for e in kernel.statements]])
    }

    def atom(a: Any) -> Any:
        if type(a) is not Var:
            return type(a), repr(a)
        t = type_of(a)
        known = order.get(a)
        if known is None:
            number = np.asarray(numbers[a])
            return number.dtype.str, number.tobytes(), t.dtype.str, t.weak
        return known, t.dtype.str, t.weak

    statements = [
        (e.primitive.name, ROUNDED in e.params, *map(atom, (*e.inputs, *e.outputs)))
        for e in kernel.statements
    ]
    kept = [atom(a) for a, _ in kernel.stores], [atom(a) for _, a, _ in kernel.reductions]
    return len(kernel.loads), statements, kept


def emit_kernel(
    module: ir.Module,
    name: str,
    kernel: Kernel,
    numbers: dict[Var, Any],
    starts: dict[Buffer, int],
) -> ir.Function:
    """The function of a kernel, of the pointers to its buffers, to entry `starts` of each."""
    result = CODE if kernel.can_fail else ir.VoidType()
    function, builder, places = _begin(module, name, kernel, starts, [], result)
    emitter = Emitter(kernel, numbers, places)
    emitter.run(builder)
    for code, flag in emitter.flags.items():
        fail_if(builder, builder.load(flag), code)
    if kernel.can_fail:
        builder.ret(FINE)
    else:
        builder.ret_void()
    return function


def emit_part_of_kernel(
    module: ir.Module,
    name: str,
    kernel: Kernel,
    numbers: dict[Var, Any],
    starts: dict[Buffer, int],
    sizes: tuple[int, ...],
    fills: bool,
) -> tuple[ir.Function, list[int]]:
    """The function of some rounds of a kernel's outermost loop, from one number to another: its last arguments.

    What it sums up or adds to has been set up before. It does not fail, but notes which failures (also
    returned, the first one first) there are, in bytes that a last pointer leads to. Of two `sizes`, the second
    is an argument before them. `fills` says that the rounds of the innermost loop fill vectors.
    """
    more = [INT] * len(sizes[1:]) + [INT, INT]
    more += [BYTE.as_pointer()] if kernel.can_fail else []
    function, b, places = _begin(module, name, kernel, starts, more, ir.VoidType())
    *lengths, low, high = function.args[len(places) : len(places) + len(sizes[1:]) + 2]
    count = b.sub(high, low, flags=("nsw",))
    if fills and not lengths:
        count = _filling(b, count)
    length = _filling(b, lengths[0]) if lengths else None
    emitter = Emitter(kernel, numbers, places, count, low, length)
    emitter.run(b)
    for k, flag in enumerate(emitter.flags.values()):
        with b.if_then(b.load(flag), likely=False):
            b.store_atomic(BYTE(1), b.gep(function.args[-1], [INT(k)]), "monotonic", 1)
    b.ret_void()
    return function, list(emitter.flags)


def _filling(b: ir.IRBuilder, count: ir.Value) -> ir.Value:
    """The same number, such that LLVM sees that it fills vectors, and makes no loop for what is left."""
    count = b.and_(count, INT(-VECTORS))
    return b.select(b.icmp_unsigned("<", count, INT(VECTORS)), INT(VECTORS), count)


def _begin(
    module: ir.Module,
    name: str,
    kernel: Kernel,
    starts: dict[Buffer, int],
    more: list[ir.Type],
    result: ir.Type,
) -> tuple[ir.Function, ir.IRBuilder, dict[Buffer, ir.Value]]:
    """A function of the pointers to a kernel's buffers and of some more, and where the buffers lie."""
    buffers = kernel.buffers()
    pointers = [memory_type(x.dtype).as_pointer() for x in buffers]
    function = ir.Function(module, ir.FunctionType(result, [*pointers, *more]), name)
    function.linkage = "internal"
    if prod(kernel.domain) >= LONG_LOOP:
        keep_apart(function)
    for argument in function.args[: len(buffers)]:
        argument.add_attribute("noalias")
        argument.add_attribute("nonnull")
    builder = builder_in(module, function.append_basic_block("entry"))
    places = {
        x: shifted(builder, argument, -starts.get(x, 0))
        for x, argument in zip(buffers, function.args, strict=False)
    }
    return function, builder, places


def shifted(b: ir.IRBuilder, pointer: ir.Value, entries: int) -> ir.Value:
    return b.gep(pointer, [INT(entries)]) if entries else pointer
