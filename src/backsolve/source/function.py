"""The text of a function: record it, name its values, write the lines and what they need."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import tree
from ..errors import BacksolveError, TracedValueError
from ..ir import Equation, Type, Var
from ..nests.swap import backpropagation
from ..row import Row
from ..tensor import Tensor
from ..vary import Varied
from .arguments import Parameter, identifier, leaf_type, parameters_of, rebuild
from .record import Step, Tracer, pull_back
from .spell import IMPORTS, quoted, value_text
from .write import Line, Writer

_RESERVED = set(IMPORTS) - {"sigmoid"}
_WIDTH = 90  # of a comment
_FIXED = (int, bool)  # the numbers that Python itself may need: range(n), axis=k, if flag


@dataclass(frozen=True, slots=True)
class Listing:
    """A text, and what the names in it stand for: of `grad_s0`, the adjoint of what `s0` is."""

    text: str
    variable: dict[str, Var]
    equations: Sequence[Equation]  # of the function; not those of its derivative
    constants: dict[Var, Any]
    inputs: list[list[Var | None]]  # per argument and leaf


def written(f: Callable[..., Any] | str, args: Sequence[Any]) -> str:
    if isinstance(f, str):
        return backpropagation(f)
    try:
        return listing(f, args).text
    except BacksolveError as error:
        if not args:
            error.add_note(
                "Without example arguments `source` takes every parameter for a number: give some, "
                "bs.source(f, np.ones(3))"
            )
        raise


def listing(f: Callable[..., Any], args: Sequence[Any], longest: int | None = None) -> Listing:
    """Constants of more entries than `longest` are left out, `c0 = ...`: such a text is for reading."""
    try:
        return _source(f, args, (), longest)
    except TracedValueError:
        if not any(type(x) in _FIXED for x in tree.flatten(args)[0]):
            raise
    return _source(f, args, _FIXED, longest)


def _source(
    f: Callable[..., Any], args: Sequence[Any], fixed: tuple[type, ...], longest: int | None
) -> Listing:
    gradient = _gradient_of(f)
    if gradient is not None:
        made = _write(gradient.f, args, fixed, gradient, longest)
        if made is not None:
            return made
    made = _write(f, args, fixed, None, longest)
    assert made is not None, "a function without a gradient can always be written"
    return made


@dataclass(frozen=True, slots=True)
class _Gradient:
    f: Callable[..., Any]
    argnums: Any
    with_value: bool


def _gradient_of(f: Any) -> _Gradient | None:
    """What `f` is the gradient of, by the mark that grad and value_and_grad leave."""
    for with_value, mark in (
        (False, "__backsolve_grad_of__"),
        (True, "__backsolve_value_and_grad_of__"),
    ):
        of: Any = getattr(f, mark, None)
        wrapped: Any = getattr(f, "__wrapped__", None)
        # functools.wraps copies marks: jacobian(grad(f)) bears one that is not its own.
        if of is not None and of[0] is wrapped:
            return _Gradient(wrapped, of[1], with_value)
    return None


def name_of(f: Any) -> str:
    """What to call a function and its result: grad_f for bs.grad(f), f for a lambda."""
    gradient = _gradient_of(f)
    if gradient is not None:
        return f"{'value_and_' * gradient.with_value}grad_{name_of(gradient.f)}"
    return identifier(getattr(f, "__name__", "f"))


def _write(
    f: Callable[..., Any],
    args: Sequence[Any],
    fixed: tuple[type, ...],
    gradient: _Gradient | None,
    longest: int | None,
) -> Listing | None:
    """The text; None if `f` does not return one real number, as a gradient to be written needs."""
    recording = _record(f, parameters_of(f, args, _RESERVED), fixed, gradient)
    if recording is None:
        return None
    tracer = recording.tracer
    name = identifier(name_of(f))
    reserved = _RESERVED | {e.primitive.name for e in tracer.recorder.equations} & set(IMPORTS)
    shown = [s.total for s in recording.steps if isinstance(s, Step)]
    wants_value = gradient is None or gradient.with_value
    roots = [*shown, *(a for a in recording.outputs if wants_value and type(a) is Var)]
    taken = reserved | {p.name for p in recording.parameters}
    varying = {s.row for s in recording.steps if isinstance(s, Step)}
    writer = Writer(tracer, taken, roots, varying, longest)
    body = _unpack(writer, recording)
    if gradient is None:
        result, wanted = _write_value(writer, recording, name)
    else:
        result, wanted = _write_gradient(writer, recording, gradient, name)
        name = f"{'value_and_' * gradient.with_value}grad_{name}"
    body += [str(line) for line in writer.needed([*wanted, *_words(result)])]
    signature = ", ".join(p.name for p in recording.parameters)
    while name in reserved:
        name += "_"
    lines = [f"def {name}({signature}):", *[f"    {line}" for line in [*body, f"return {result}"]]]
    text = "\n".join(lines) + "\n"
    free = _free_names(text)
    imports = [line for word, line in IMPORTS.items() if word in free]
    text = "\n".join([*imports, "", "", text]) if imports else text
    equations = tracer.recorder.equations[: recording.forward]
    own = {var for e in equations for var in e.outputs}
    own |= {var for leaves in recording.inputs for var in leaves if var is not None}
    named = {name: var for var, name in writer.names.items() if var in own}
    return Listing(text, named, equations, writer.constants, recording.inputs)


@dataclass(frozen=True, slots=True)
class _Recording:
    """One run of the function on types."""

    tracer: Tracer
    parameters: list[Parameter]
    inputs: list[list[Var | None]]  # per parameter and leaf; None: fixed at its example
    forward: int  # so many equations are the function's own, the rest the derivative's
    outputs: list[Any]  # atoms, or what is no number
    structure: tree.Structure
    steps: list[Step | Row]
    seed: Var | None
    row_of: dict[Var, Row]  # of the inputs whose gradient is shown


def _record(
    f: Callable[..., Any],
    parameters: list[Parameter],
    fixed: tuple[type, ...],
    gradient: _Gradient | None,
) -> _Recording | None:
    tracer = Tracer()
    types = [[None if type(x) in fixed else leaf_type(x) for x in p.leaves] for p in parameters]
    inputs = [[tracer.input(t) if t is not None else None for t in row] for row in types]
    staged = [
        p.structure.unflatten([x if v is None else v for x, v in zip(p.leaves, row, strict=True)])
        for p, row in zip(parameters, inputs, strict=True)
    ]
    steps: list[Step | Row] = []
    seed = None
    row_of: dict[Var, Row] = {}
    with tracer:
        if gradient is None:
            outputs, structure = tree.flatten(f(*staged))
            forward = len(tracer.recorder.equations)
        else:
            varied = Varied("grad", staged, _shown(types, gradient.argnums))
            moving = [x for x, s in zip(varied.originals, varied.static, strict=True) if not s]
            row_of = {x._v: row for x, row in zip(moving, varied.rows, strict=True)}
            tracer.var_of.update({row: var for var, row in row_of.items()})
            outputs, structure = tree.flatten(f(*varied.args))
            if len(outputs) != 1 or structure.children or not _is_real_number(outputs[0]):
                return None
            forward = len(tracer.recorder.equations)
            (y,) = outputs
            if isinstance(y, Tensor):
                seed = tracer.input(Type((), y.dtype))
                steps = pull_back(tracer, y, seed, varied)
        atoms = [tracer.atom(y) if _is_number(y) else y for y in outputs]
    variables = [[None if v is None else v._v for v in row] for row in inputs]
    start = None if seed is None else seed._v
    return _Recording(
        tracer, parameters, variables, forward, atoms, structure, steps, start, row_of
    )


def _shown(types: list[list[Type | None]], argnums: Any) -> Any:
    """Whose gradients to write: all, as on the slides, if all are real scalars; else as asked."""
    numbers = [argnums] if isinstance(argnums, int | np.integer) else list(argnums)
    count = len(types)
    scalars = all(
        t is not None and not t.shape and t.dtype.kind == "f" for row in types for t in row
    )
    if scalars and all(-count <= n < count for n in numbers):
        return range(count)
    return numbers


def _is_number(y: Any) -> bool:
    return isinstance(y, Tensor | np.ndarray | np.generic) or type(y) in (float, complex, int, bool)


def _is_real_number(y: Any) -> bool:
    kind = y.dtype.kind if hasattr(y, "dtype") else np.asarray(y).dtype.kind
    return _is_number(y) and kind != "c" and (y.shape if hasattr(y, "shape") else ()) == ()


def _unpack(writer: Writer, recording: _Recording) -> list[str]:
    """Name the leaves of the arguments; also the lines that say and check what the code is for."""
    notes: list[str] = []
    taken_apart: list[str] = []
    checks: list[str] = []
    for p, variables in zip(recording.parameters, recording.inputs, strict=True):
        if not p.is_plain:
            taken_apart.append(str(Line(*p.prelude)))
        for leaf, var, (path, name) in zip(p.leaves, variables, p.paths(), strict=True):
            if var is not None:
                if path != name:
                    name = writer.free(name)
                    writer.lines.append(Line(name, path))
                writer.name_input(var, name)
                if var.shape or var.dtype != np.float64:
                    notes.append(f"{name}: {Type(var.shape, var.dtype)}")
            elif isinstance(leaf, int | bool | str):
                value = value_text(leaf)
                hint = f"this code was written for {path} = {value}"
                checks += [f"if {path} != {value}:", f"    raise ValueError({quoted(hint)})"]
    head = [f"# {line}" for line in textwrap.wrap(", ".join(notes), _WIDTH)]
    return [*head, *taken_apart, *checks]


def _write_value(writer: Writer, recording: _Recording, name: str) -> tuple[str, list[str]]:
    equations = recording.tracer.recorder.equations
    outputs = recording.outputs
    if not recording.structure.children and len(outputs) == 1:
        name = writer.free(name)
        writer.forward(equations, outputs[0], name)
        if type(outputs[0]) is not Var or writer.names.get(outputs[0]) != name:
            writer.value_line(name, outputs[0])
        return name, []
    writer.forward(equations, None, name)
    texts = [writer.whole(a) if type(a) is Var or _is_number(a) else value_text(a) for a in outputs]
    return rebuild(recording.structure, texts), []


def _write_gradient(
    writer: Writer, recording: _Recording, gradient: _Gradient, name: str
) -> tuple[str, list[str]]:
    (output,) = recording.outputs
    name = writer.free(name)
    writer.forward(recording.tracer.recorder.equations[: recording.forward], output, name)
    if type(output) is not Var or writer.names.get(output) != name:
        writer.value_line(name, output)
    adjoints: dict[Row, str] = {}
    if recording.seed is not None:
        adjoints = writer.backward(recording.steps, recording.seed, name)
    parts = []
    for p, variables in zip(recording.parameters, recording.inputs, strict=True):
        leaves = []
        for var, (path, _) in zip(variables, p.paths(), strict=True):
            row = None if var is None else recording.row_of.get(var)
            if row is None:
                leaves.append(path)
                continue
            if row not in adjoints:  # nothing leads here
                adjoints[row] = writer.free(f"grad_{writer.names[var]}")
                writer.zero_line(adjoints[row], row)
            leaves.append(adjoints[row])
        parts.append(p.rebuilt(leaves))
    if isinstance(gradient.argnums, int | np.integer):
        result = parts[gradient.argnums]
    else:
        chosen = [parts[n] for n in gradient.argnums]
        result = f"({', '.join(chosen)}{',' * (len(chosen) == 1)})"
    wanted = [adjoints[row] for row in recording.row_of.values()]
    return (f"{name}, {result}" if gradient.with_value else result), wanted


def _words(code: str) -> set[str]:
    return {n.id for n in ast.walk(ast.parse(code, mode="eval")) if isinstance(n, ast.Name)}


def _free_names(text: str) -> set[str]:
    """The names that the function reads and does not define."""
    nodes = list(ast.walk(ast.parse(text)))
    names = [n for n in nodes if isinstance(n, ast.Name)]
    own = {n.id for n in names if isinstance(n.ctx, ast.Store)}
    own |= {n.arg for n in nodes if isinstance(n, ast.arg)}
    return {n.id for n in names} - own
