"""The text of a module in two halves: functions for LLVM to optimise, and those that it only translates.

The second half is what heat.py and others have marked: calls of BLAS, of kernels and of threads, and loops that
next to no time goes into. In a module of its own it is compiled without any care for registers, in a third of
the time. What one half calls in the other is no longer internal, so that LLVM cannot see where all callers give
the same number: it is put in here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from llvmlite import ir

BETWEEN = "\n; ---- to be translated as it is\n"
FEW = 300  # instructions that are not worth a module of their own
_NAME = re.compile(r'@"([^"]+)"')


def text_of(module: ir.Module) -> str:
    """Both halves, one behind the other; only one if there is little to be left as it is."""
    functions = [f for f in module.functions if f.blocks]
    cold = [f for f in functions if "optnone" in f.attributes]
    if sum(len(block.instructions) for f in cold for block in f.blocks) < FEW:
        return str(module)
    put_in_constants(functions)
    bodies = {f.name: _body(f) for f in functions}
    named = {name: set(_NAME.findall(text)) for name, text in bodies.items()}
    inline = {f.name for f in functions if "alwaysinline" in f.attributes}
    apart = {f.name for f in cold}
    hot = [f.name for f in functions if f.name not in apart | inline]
    halves = [_with_called(names, named, inline) for names in (hot, sorted(apart))]
    reached = [set(names).union(*[named[name] for name in names]) for names in halves]
    variables = [v for v in module.global_values if isinstance(v, ir.GlobalVariable)]
    defined = [v for v in variables if v.initializer is not None]
    reached[0].update([v.name for v in variables])
    reached[0].update(*[_NAME.findall(v.initializer.get_reference()) for v in defined])
    for value in (*functions, *defined):
        if value.name in reached[0] & reached[1] - inline:
            value.linkage = ""
    first = _half(module, halves[0], reached[0], bodies, has_variables=True)
    return first + BETWEEN + _half(module, halves[1], reached[1], bodies, has_variables=False)


def put_in_constants(functions: Sequence[ir.Function]) -> None:
    """A number that all calls of an internal function give stands in the function itself."""
    given: dict[ir.Function, list[Sequence[ir.Value]]] = {}
    by_address: set[ir.Function] = set()
    for f in functions:
        for block in f.blocks:
            for x in block.instructions:
                values = x.operands
                if isinstance(x, ir.instructions.CallInstr):
                    values = x.args
                    given.setdefault(x.callee, []).append(values)
                by_address.update(y for y in values if isinstance(y, ir.Function))
    for f in functions:
        if f.linkage != "internal" or f in by_address or f not in given:
            continue
        for k, argument in enumerate(f.args):
            values = {getattr(args[k], "constant", None) for args in given[f]}
            if isinstance(argument.type, ir.IntType) and len(values) == 1 and None not in values:
                for block in f.blocks:
                    for x in block.instructions:
                        x.replace_usage(argument, given[f][0][k])


def _with_called(names: Iterable[str], named: dict[str, set[str]], inline: set[str]) -> list[str]:
    """Some functions, and those that are to be put into them."""
    found = dict.fromkeys(names)
    waiting = list(found)
    while waiting:
        for name in sorted(named[waiting.pop()] & inline):
            if name not in found:
                found[name] = None
                waiting.append(name)
    return list(found)


def _body(f: ir.Function) -> str:
    lines: list[str] = []
    f.descr_body(lines)
    return "".join(lines)


def _half(
    module: ir.Module,
    names: list[str],
    reached: set[str],
    bodies: dict[str, str],
    has_variables: bool,
) -> str:
    here = set(names)
    lines = [f'target triple = "{module.triple}"', f'target datalayout = "{module.data_layout}"']
    lines += [it.get_declaration() for it in module.get_identified_types().values()]
    for value in module.global_values:
        if value.name not in reached:
            continue
        if isinstance(value, ir.Function):
            lines.append(_head(value, value.name in here))
            if value.name in here:
                lines.append("{\n" + bodies[value.name] + "}")
        elif has_variables or value.initializer is None:
            lines.append(str(value))
        else:
            kind = "constant" if value.global_constant else "global"
            lines.append(f'@"{value.name}" = external {kind} {value.value_type}')
    for name, marks in module.namedmetadata.items() if has_variables else ():
        lines.append(f"!{name} = !{{ {', '.join(x.get_reference() for x in marks.operands)} }}")
    lines += [str(x) for x in module.metadata]
    return "\n".join(lines) + "\n"


def _head(f: ir.Function, is_defined: bool) -> str:
    if is_defined or not f.blocks:
        lines: list[str] = []
        f.descr_prototype(lines)
        return lines[0].rstrip()
    types = ", ".join(str(a.type) for a in f.args)
    return f'declare {f.ftype.return_type} @"{f.name}"({types})'
