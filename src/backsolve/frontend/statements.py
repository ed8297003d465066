"""Statements with a choice in them, as nested functions and calls of runtime functions.

    if c: s = a                     def _bs_1():
    else: s = b                         nonlocal s
                            →           s = a
                                    def _bs_2(): …
                                    _bs_.if_(c, _bs_1, _bs_2, ("s",), …)

The nested functions share the cells of the function's own variables: on concrete values the runtime just
calls them, and everything is as it was. Staged, it reads and sets those cells.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Sequence
from typing import Any

from .assigned import Assigned
from .expressions import Expressions, binds, constant, definition, key, runtime, thunk
from .jumps import has_jumps, lower_jumps
from .marks import marks
from .names import Liveness, Names, forget_uses, names_of, parameters, uses
from .walking import children

_IN_PLACE = {
    ast.Add: "iadd",
    ast.Sub: "isub",
    ast.Mult: "imul",
    ast.Div: "itruediv",
    ast.FloorDiv: "ifloordiv",
    ast.Mod: "imod",
    ast.Pow: "ipow",
    ast.MatMult: "imatmul",
    ast.BitAnd: "iand",
    ast.BitOr: "ior",
    ast.BitXor: "ixor",
    ast.LShift: "ilshift",
    ast.RShift: "irshift",
}


def is_generator(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> bool:
    body = [node.body] if isinstance(node, ast.Lambda) else node.body
    waiting: list[ast.AST] = list(body)
    while waiting:
        n = waiting.pop()
        if isinstance(n, ast.Yield | ast.YieldFrom | ast.Await):
            return True
        if not isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            waiting += children(n)
    return False


class Statements:
    """Rewrites one function; nested ones by another of these."""

    def __init__(self, is_plain: Callable[[ast.expr], bool | None], around: frozenset[str]):
        self.is_plain = is_plain
        self.around = around  # variables of the functions around this one that are rewritten, too
        self.count = 0
        self.changed = False
        self.in_try = False

    def function(self, node: ast.FunctionDef) -> ast.FunctionDef:
        given = parameters(node)
        self.names: Names = names_of(node)
        if has_jumps(node):
            Assigned(self.names, given, "may_lack").function(node.body)
            forget_uses(node)
            lower_jumps(node)
            self.names = names_of(node)
            Assigned(self.names, given, "may_have_flag").function(node.body)
        else:
            Assigned(self.names, given, "may_lack", "may_have_flag").function(node.body)
        self.expressions = Expressions(self.is_plain, given[0] if given else None)
        Liveness(self.names).block(node.body, set())
        bound_inside: set[str] = set()
        self.inner = bound_inside
        documentation = (
            [node.body.pop(0)] if ast.get_docstring(node, clean=False) is not None else []
        )
        body = self.block(node.body)
        missing = sorted((bound_inside & self.names.local) - set(given))
        if missing:  # so that these are variables of this function: never run
            targets: list[ast.expr] = [ast.Name(n, ast.Store()) for n in missing]
            declare = ast.If(
                ast.Constant(False), [ast.Assign(targets, ast.Constant(None))], orelse=[]
            )
            where = node.body[0] if node.body else node
            for n in ast.walk(declare):
                ast.copy_location(n, where)
            body = [declare, *body]
        node.body = [*documentation, *body] or [ast.copy_location(ast.Pass(), node)]
        self.changed |= self.expressions.changed
        return node

    # ---- blocks

    def block(self, stmts: Sequence[ast.stmt]) -> list[ast.stmt]:
        return [new for s in stmts for new in self.statement(s)]

    def statement(self, s: ast.stmt) -> list[ast.stmt]:
        method = getattr(self, f"on_{type(s).__name__}", None)
        first = self.announced(s) if self.names.nonlocal_names else []
        return [*first, *(method(s) if method is not None else [self.expressions.visit(s)])]

    def announced(self, s: ast.stmt) -> list[ast.stmt]:
        """Say that a statement is about to bind variables of the function around this one."""
        if isinstance(s, ast.If | ast.While | ast.For | ast.With | ast.Try | ast.Nonlocal):
            return []  # the statements inside say it themselves
        names = sorted(uses(s).assigned & self.names.nonlocal_names)
        if not names:
            return []
        parts: list[ast.expr] = [ast.Name(n, ast.Load()) for n in names]
        cells = thunk(ast.copy_location(ast.Tuple(parts, ast.Load()), s))
        call = runtime("rebinding", cells, *[constant(n, s) for n in names], at=s)
        for part in parts:
            ast.copy_location(part, s)
        return [ast.copy_location(ast.Expr(call), s)]

    def on_FunctionDef(self, s: ast.FunctionDef) -> list[ast.stmt]:
        if is_generator(s):
            return [s]
        s.args = self.expressions.visit(s.args)
        around = (self.around | self.names.own) - self.names.global_names
        inner = Statements(self.is_plain, frozenset(around))
        inner.function(s)
        self.changed |= inner.changed
        return [s]

    def _as_is(self, s: ast.stmt) -> list[ast.stmt]:
        return [s]

    on_AsyncFunctionDef = on_ClassDef = on_Import = on_ImportFrom = _as_is
    on_Global = on_Nonlocal = _as_is

    def on_With(self, s: ast.With) -> list[ast.stmt]:
        s.items = [self.expressions.visit(item) for item in s.items]
        s.body = self.block(s.body)
        return [s]

    def on_Try(self, s: ast.Try) -> list[ast.stmt]:
        outside, self.in_try = self.in_try, self.in_try or bool(s.handlers)
        s.body = self.block(s.body)
        self.in_try = outside
        for h in s.handlers:
            h.body = self.block(h.body)
        s.orelse, s.finalbody = self.block(s.orelse), self.block(s.finalbody)
        return [s]

    on_TryStar = on_Try

    def on_Match(self, s: ast.Match) -> list[ast.stmt]:
        s.subject = self.expressions.visit(s.subject)
        for case in s.cases:
            case.guard = case.guard and self.expressions.visit(case.guard)
            case.body = self.block(case.body)
        return [s]

    def on_Assert(self, s: ast.Assert) -> list[ast.stmt]:
        test = self.expressions.visit(s.test)
        stays = s.msg is None or binds(s.msg)
        s.msg = s.msg and self.expressions.visit(s.msg)
        later = constant(None, s) if s.msg is None or stays else thunk(copy.deepcopy(s.msg))
        s.test = runtime("holds", test, later, at=s.test)
        self.changed = True
        return [s]

    def on_Raise(self, s: ast.Raise) -> list[ast.stmt]:
        self.expressions.visit(s)
        if s.exc is not None:
            s.exc = runtime("raised", s.exc, at=s.exc)
        return [s]

    # ---- choices and loops

    def on_If(self, s: ast.If) -> list[ast.stmt]:
        shared = self.shared([*s.body, *s.orelse], marks(s).after, s)
        test = self.expressions.visit(s.test)
        then = self.nested(s.body, s.body[0])
        other = self.nested(s.orelse, s.orelse[0]) if s.orelse else None
        other_name: ast.expr = self.load(other) if other else constant(None, s)
        ends = constant(getattr(s, "is_until_return", False), s)
        call = self.run("if_", test, self.load(then), other_name, *shared, ends, at=s)
        return [then, *([other] if other else []), call]

    def on_While(self, s: ast.While) -> list[ast.stmt]:
        live = marks(s).after | marks(s).head
        shared = self.shared([ast.Expr(s.test), *s.body], live, s)
        stops = getattr(s, "stops", [])
        test = self.nested([ast.copy_location(ast.Return(s.test), s.test)], s.test)
        body = self.nested(s.body, s.body[0])
        call = self.run(
            "while_", self.load(test), self.load(body), constant(tuple(stops), s), *shared, at=s
        )
        return [test, body, call]

    def on_For(self, s: ast.For) -> list[ast.stmt]:
        live = marks(s).after | marks(s).head
        whole: list[ast.stmt] = [
            ast.copy_location(
                ast.Assign([s.target], ast.copy_location(ast.Name("_bs_item", ast.Load()), s)), s
            ),
            *s.body,
        ]
        shared = self.shared(whole, live, s)
        reads = tuple(sorted(uses(s.body).reads))
        stops = getattr(s, "stops", [])
        sequence = self.expressions.iterated(s.iter)
        body = self.nested(whole, s.target, "_bs_item")
        call = self.run(
            "for_",
            sequence,
            self.load(body),
            constant(tuple(stops), s),
            constant(reads, s),
            *shared,
            at=s,
        )
        return [body, call]

    def shared(self, stmts: Sequence[ast.AST], live: set[str], at: ast.stmt) -> list[ast.expr]:
        """The names that a piece shares with the rest: (bound and read later, written into, others)."""
        use = uses(stmts)
        reach = self.names.own | self.names.global_names
        state = sorted(use.bound & live & reach)
        held = sorted((use.written - use.bound) & reach)
        scratch = sorted((use.bound - live) & reach)
        return [constant(tuple(names), at) for names in (state, held, scratch)]

    def nested(
        self, stmts: Sequence[ast.stmt], at: ast.AST, parameter: str | None = None
    ) -> ast.FunctionDef:
        self.changed = True
        self.count += 1
        own = uses(stmts).assigned
        self.inner |= own
        declared: list[ast.stmt] = []
        for kind, names in (
            (ast.Nonlocal, own & self.names.own),
            (ast.Global, own & self.names.global_names),
        ):
            if names:
                declared.append(ast.copy_location(kind(sorted(names)), at))
        name = f"_bs_{self.count}"
        arguments = ast.arguments([], [], None, [], [], None, [])
        if parameter:
            arguments.args = [ast.copy_location(ast.arg(parameter), at)]
        body = [*declared, *self.block(stmts)]
        return ast.copy_location(definition(name, arguments, body), at)

    def load(self, f: ast.FunctionDef) -> ast.expr:
        return ast.copy_location(ast.Name(f.name, ast.Load()), f)

    def run(self, name: str, *args: ast.expr, at: ast.stmt) -> ast.stmt:
        call = runtime(name, *args, at=at)
        if self.in_try:
            call.keywords = [_keyword("in_try", constant(True, at))]
        return ast.copy_location(ast.Expr(call), at)

    # ---- assignment

    def on_AnnAssign(self, s: ast.AnnAssign) -> list[ast.stmt]:
        if s.value is None:
            return [ast.copy_location(ast.Pass(), s)]
        return self.on_Assign(ast.copy_location(ast.Assign([s.target], s.value), s))

    def on_Assign(self, s: ast.Assign) -> list[ast.stmt]:
        stores: list[ast.stmt] = []
        value = self.expressions.visit(s.value)
        if len(s.targets) == 1 and isinstance(s.targets[0], ast.Subscript | ast.Attribute):
            return [self.store(s.targets[0], value, s)]
        targets = [self.without_places(t, stores, s) for t in s.targets]
        takes_apart = [isinstance(t, ast.Tuple | ast.List) for t in targets]
        if all(takes_apart) and not isinstance(s.value, ast.Tuple | ast.List | ast.Constant):
            value = runtime("unpacked", value, at=s.value)
        return [ast.copy_location(ast.Assign(targets, value), s), *stores]

    def without_places(self, target: Any, stores: list[ast.stmt], s: ast.stmt) -> ast.expr:
        """A target with every x[i] and x.a in it replaced by a name; `stores` gets what is to be done."""
        if isinstance(target, ast.Tuple | ast.List):
            target.elts = [self.without_places(t, stores, s) for t in target.elts]
        elif isinstance(target, ast.Starred):
            target.value = self.without_places(target.value, stores, s)
        elif isinstance(target, ast.Subscript | ast.Attribute):
            self.count += 1
            name = f"_bs_{self.count}"
            stores.append(
                self.store(target, ast.copy_location(ast.Name(name, ast.Load()), target), s)
            )
            return ast.copy_location(ast.Name(name, ast.Store()), target)
        return target

    def path(
        self, target: ast.Subscript | ast.Attribute
    ) -> tuple[ast.expr, list[ast.expr], list[ast.keyword], str | None]:
        """The root of x.a[i].b, the steps from it, where the root stands if not in a variable of this function,
        and the root's name if it is to be bound again."""
        steps: list[ast.expr] = []
        node: ast.expr = target
        while isinstance(node, ast.Subscript | ast.Attribute):
            if isinstance(node, ast.Subscript):
                step: list[ast.expr] = [
                    constant("[", node),
                    key(self.expressions.visit(node.slice)),
                ]
            else:
                step = [constant(".", node), constant(node.attr, node)]
            steps.insert(0, ast.copy_location(ast.Tuple(step, ast.Load()), target))
            first, node = node, node.value
        root = self.expressions.visit(node)
        if isinstance(first, ast.Attribute):
            return root, steps, [], None
        if not isinstance(node, ast.Name) or node.id in self.names.global_names:
            return root, steps, [_keyword("stays", constant(True, target))], None
        if node.id in self.names.own:
            return root, steps, [], node.id
        if node.id in self.around:
            return constant(None, target), steps, [_keyword("around", thunk(root))], None
        return root, steps, [_keyword("stays", constant(True, target))], None

    def store(
        self, target: ast.Subscript | ast.Attribute, value: ast.expr, s: ast.stmt
    ) -> ast.stmt:
        root, steps, where, name = self.path(target)
        call = runtime("store", value, root, *steps, at=s)
        call.keywords = where
        return self.bind(name, call, s)

    def bind(self, name: str | None, call: ast.expr, s: ast.stmt) -> ast.stmt:
        self.changed = True
        if name is None:
            return ast.copy_location(ast.Expr(call), s)
        target = ast.copy_location(ast.Name(name, ast.Store()), s)
        return ast.copy_location(ast.Assign([target], call), s)

    def on_AugAssign(self, s: ast.AugAssign) -> list[ast.stmt]:
        op = constant(_IN_PLACE[type(s.op)], s)
        if isinstance(s.target, ast.Name):
            old = ast.copy_location(ast.Name(s.target.id, ast.Load()), s.target)
            vars(old).update(vars(s.target) | {"ctx": ast.Load()})
            read = self.expressions.visit(old)
            call = runtime("in_place", op, read, self.expressions.visit(s.value), at=s)
            return [self.bind(s.target.id, call, s)]
        stays = binds(s.value)
        value = self.expressions.visit(s.value)
        root, steps, where, name = self.path(s.target)
        later = value if stays else thunk(value)
        call = runtime("update", op, later, constant(not stays, s), root, *steps, at=s)
        call.keywords = where
        return [self.bind(name, call, s)]


def _keyword(name: str, value: ast.expr) -> ast.keyword:
    return ast.copy_location(ast.keyword(name, value), value)
