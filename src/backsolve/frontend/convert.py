"""Rewriting functions, once per code object.

The rewritten function has the globals, defaults, closure cells, name and line numbers of the original. The
runtime reaches it as one more closure cell, so nobody's globals change.
"""

from __future__ import annotations

import ast
import builtins
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from ..writers import LIBRARIES, is_users
from .expressions import definition
from .jumps import RUNTIME, CannotRewriteError
from .source import NoSourceError, syntax_of
from .statements import Statements

_METHODS = frozenset([n for n in dir(np.ndarray) if n[0] != "_"])  # arrays' own, on whatever object
_UNSEEN = frozenset({"locals", "vars", "eval", "exec", "dir"})

# By the id of a code object, which is kept alive: the new code, a reason why there is none, or None.
_known: dict[int, tuple[CodeType, CodeType | str | None]] = {}


def convert_function(f: FunctionType) -> FunctionType:
    """`f` with its control flow staged on traced values; `f` itself if there is nothing to do."""
    code = f.__code__
    found = _known.get(id(code))
    if found is None:
        found = code, _rewrite(f) if is_users(f) else None
        _known[id(code)] = found
    new = found[1]
    if new is None or isinstance(new, str):
        return f
    cells = dict(zip(code.co_freevars, f.__closure__ or (), strict=True))
    cells[RUNTIME] = _runtime_cell()
    closure = tuple([cells[name] for name in new.co_freevars])
    made = FunctionType(new, f.__globals__, f.__name__, f.__defaults__, closure)
    made.__kwdefaults__, made.__doc__ = f.__kwdefaults__, f.__doc__
    made.__qualname__, made.__module__ = f.__qualname__, f.__module__
    made.__dict__.update(f.__dict__)
    return made


def reason(code: CodeType) -> str | None:
    """Why the function of a code object was not rewritten."""
    found = _known.get(id(code))
    return found[1] if found is not None and isinstance(found[1], str) else None


_cells: list[CellType] = []


def _runtime_cell() -> CellType:
    if not _cells:
        from . import runtime

        _cells.append(CellType(runtime))
    return _cells[0]


def _rewrite(f: FunctionType) -> CodeType | str | None:
    code = f.__code__
    if RUNTIME in code.co_freevars:
        return None  # rewritten already
    try:
        if code.co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR):
            return f"`{f.__name__}` is a generator"
        node = syntax_of(f)
        if _UNSEEN.intersection(code.co_names):
            for n in ast.walk(node):
                if isinstance(n, ast.Name) and n.id in _UNSEEN:
                    return f"`{f.__name__}` looks at its own variables: {n.id}()"
        return _compile(f, node)
    except (NoSourceError, CannotRewriteError) as error:
        return str(error)


def _compile(f: FunctionType, node: ast.FunctionDef | ast.Lambda) -> CodeType | None:
    code = f.__code__
    statements = Statements(_PlainCalls(f).is_plain, frozenset())
    if isinstance(node, ast.Lambda):
        result = ast.copy_location(ast.Return(node.body), node.body)
        node = ast.copy_location(definition("_bs_lambda", node.args, [result]), node)
    _mangle(f, node)
    statements.function(node)
    if not statements.changed:
        return None
    # Defaults and annotations are the original's; here they would be computed again.
    node.decorator_list, node.returns = [], None
    node.name = "_bs_function"  # its own name means what it meant: a global, say
    for a in ast.walk(node.args):
        if isinstance(a, ast.arg):
            a.annotation = None
    node.args.defaults = [ast.copy_location(ast.Constant(None), d) for d in node.args.defaults]
    node.args.kw_defaults = [
        d and ast.copy_location(ast.Constant(None), d) for d in node.args.kw_defaults
    ]
    outer_names = [*code.co_freevars, RUNTIME]
    own = [ast.copy_location(ast.arg(n), node) for n in outer_names]
    arguments = ast.arguments([], own, None, [], [], None, [])
    around = definition("_bs_around", arguments, [node])
    module = ast.Module([ast.copy_location(around, node)], [])
    flags = code.co_flags & _FUTURES
    whole = compile(module, code.co_filename, "exec", flags=flags, dont_inherit=True)
    outer = next(c for c in whole.co_consts if isinstance(c, CodeType))
    new = next(c for c in outer.co_consts if isinstance(c, CodeType))
    new = new.replace(co_name=code.co_name)  # not its first line: all others are counted from it
    if hasattr(code, "co_qualname"):
        new = new.replace(co_qualname=code.co_qualname)
    _mark(new)
    return new


_FUTURES = 0x1FE0000  # the flags of `from __future__ import …`


def _mark(code: CodeType) -> None:
    """Nested functions of a rewritten one are rewritten: never again. Those in classes are not."""
    _known[id(code)] = code, None
    for c in code.co_consts:
        if (
            isinstance(c, CodeType) and c.co_flags & 0x1
        ):  # CO_OPTIMIZED: a function, not a class body
            _mark(c)


def _mangle(f: FunctionType, node: ast.AST) -> None:
    """`__name` inside a class means `_Class__name`."""
    owner = f.__qualname__.split(".")[-2:-1]
    if not owner or owner[0] == "<locals>":
        return
    if not any(name.startswith("_") for name in (*f.__code__.co_names, *f.__code__.co_varnames)):
        return
    prefix = "_" + owner[0].lstrip("_")

    def mangled(name: str) -> str:
        private = name.startswith("__") and not name.endswith("__") and "." not in name
        return prefix + name if private else name

    for n in ast.walk(node):
        if isinstance(n, ast.Name):
            n.id = mangled(n.id)
        elif isinstance(n, ast.Attribute):
            n.attr = mangled(n.attr)
        elif isinstance(n, ast.arg):
            n.arg = mangled(n.arg)


class _PlainCalls:
    """Which callees, as they are written in a function, need no look while it runs."""

    def __init__(self, f: FunctionType):
        self.globals = f.__globals__
        self.builtins = f.__globals__.get("__builtins__", builtins)
        if isinstance(self.builtins, ModuleType):
            self.builtins = vars(self.builtins)
        self.hidden = {*f.__code__.co_varnames, *f.__code__.co_freevars, *f.__code__.co_cellvars}

    def is_plain(self, node: ast.expr) -> bool | None:
        from .calls import FILLING, UNNOTICED, is_impure, is_special

        found = self.value(node)
        if found is None:
            return isinstance(node, ast.Attribute) and node.attr in _METHODS
        if is_special(found):
            return None if found in UNNOTICED and found not in FILLING else False
        return not is_impure(found) and self.is_librarys(found)

    def value(self, node: ast.expr) -> Any:
        """What a dotted name of modules stands for, or None."""
        if isinstance(node, ast.Name):
            if node.id in self.hidden:
                return None
            return self.globals.get(node.id, self.builtins.get(node.id))
        if isinstance(node, ast.Attribute):
            owner = self.value(node.value)
            return getattr(owner, node.attr, None) if isinstance(owner, ModuleType) else None
        return None

    def is_librarys(self, x: Any) -> bool:
        if isinstance(x, FunctionType):
            return not is_users(x)
        if isinstance(x, type):
            return x.__module__.partition(".")[0] in LIBRARIES and x not in (list, dict, set)
        return isinstance(x, np.ufunc) or type(x).__module__ in ("builtins", "numpy")
