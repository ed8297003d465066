"""Which names a piece of a function binds, writes into and reads, and which are live where.

Nested functions are scopes of their own: what they read from outside may be read at any later time, so
it counts as live everywhere.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from .marks import marks
from .walking import children, walk

Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef
Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(slots=True)
class Use:
    """What a piece of code does with names, nested functions looked at from outside."""

    reads: set[str] = field(default_factory=set)
    bound: set[str] = field(default_factory=set)  # x = …, for x in …, del x
    written: set[str] = field(default_factory=set)  # x[i] = …, x.a[i] = …, x += …
    deleted: set[str] = field(default_factory=set)
    captured: set[str] = field(default_factory=set)  # read by a nested function
    perhaps: set[str] = field(default_factory=set)  # bound by `:=`, which may not be reached

    def merge(self, other: Use) -> None:
        self.reads |= other.reads
        self.bound |= other.bound
        self.written |= other.written
        self.deleted |= other.deleted
        self.captured |= other.captured
        self.perhaps |= other.perhaps

    @property
    def assigned(self) -> set[str]:
        return self.bound | self.written


class _Uses(ast.NodeVisitor):
    def __init__(self) -> None:
        self.use = Use()
        self.augmented: set[str] = set()
        self.global_names: set[str] = set()
        self.nonlocal_names: set[str] = set()

    def visit(self, node: ast.AST) -> None:
        if not isinstance(node, ast.stmt):
            super().visit(node)
            return
        seen = getattr(node, "seen", None)  # each statement is looked through once
        if seen is None:
            seen = marks(node).seen = _Uses()
            ast.NodeVisitor.visit(seen, node)
        self.use.merge(seen.use)
        self.augmented |= seen.augmented
        self.global_names |= seen.global_names
        self.nonlocal_names |= seen.nonlocal_names

    def generic_visit(self, node: ast.AST) -> None:
        for child in children(node):
            self.visit(child)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.use.perhaps.add(node.target.id)
        self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self.use.reads.add(node.id)
        else:
            self.use.bound.add(node.id)
            if isinstance(node.ctx, ast.Del):
                self.use.deleted.add(node.id)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Name):
            self.use.reads.add(node.target.id)
            self.use.written.add(node.target.id)
            self.augmented.add(node.target.id)
        else:
            self.visit(node.target)
        self.visit(node.value)

    def _visit_place(self, node: ast.Subscript | ast.Attribute) -> None:
        if not isinstance(node.ctx, ast.Load):
            root: ast.expr = node
            while isinstance(root, ast.Subscript | ast.Attribute):
                root = root.value
            if isinstance(root, ast.Name):
                self.use.written.add(root.id)
        self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        self._visit_place(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self._visit_place(node)

    def visit_Global(self, node: ast.Global) -> None:
        self.global_names.update(node.names)

    def visit_Nonlocal(self, node: ast.Nonlocal) -> None:
        self.nonlocal_names.update(node.names)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.name:
            self.use.bound.add(node.name)
        self.generic_visit(node)

    def visit_alias(self, node: ast.alias) -> None:
        self.use.bound.add((node.asname or node.name).split(".")[0])

    def visit_MatchAs(self, node: ast.MatchAs) -> None:
        if node.name:
            self.use.bound.add(node.name)
        self.generic_visit(node)

    def visit_MatchStar(self, node: ast.MatchStar) -> None:
        if node.name:
            self.use.bound.add(node.name)

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        if node.rest:
            self.use.bound.add(node.rest)
        self.generic_visit(node)

    def _visit_function(self, node: Scope) -> None:
        if not isinstance(node, ast.Lambda):
            self.use.bound.add(node.name)
            for d in node.decorator_list:
                self.visit(d)
        if isinstance(node, ast.ClassDef):
            for base in (*node.bases, *node.keywords):
                self.visit(base)
        else:
            for default in (*node.args.defaults, *node.args.kw_defaults):
                if default is not None:
                    self.visit(default)
        free = free_names(node)
        self.use.reads |= free
        self.use.captured |= free

    visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = visit_ClassDef = _visit_function

    def _visit_comprehension(self, node: Comprehension) -> None:
        inner = _Uses()
        first = node.generators[0].iter
        inner.generic_visit(node)
        targets = {n.id for g in node.generators for n in walk(g.target) if isinstance(n, ast.Name)}
        inner.use.reads -= targets
        inner.use.bound -= targets
        self.use.merge(inner.use)
        if isinstance(node, ast.GeneratorExp):  # run later, or never
            self.use.captured |= inner.use.reads
        self.visit(first)

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _visit_comprehension


def uses(nodes: ast.AST | Iterable[ast.AST | None]) -> Use:
    visitor = _Uses()
    for node in [nodes] if isinstance(nodes, ast.AST) else nodes:
        if node is not None:
            visitor.visit(node)
    return visitor.use


def forget_uses(node: ast.AST) -> None:
    """Of a statement and all inside of it."""
    waiting = [node]
    for n in waiting:
        n.__dict__.pop("seen", None)
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            inside = getattr(n, name, None)
            if type(inside) is list:
                waiting += inside


@dataclass(slots=True)
class Names:
    """The scope of one function."""

    local: set[str]  # parameters and what it binds
    global_names: set[str]
    nonlocal_names: set[str]
    use: Use

    @property
    def own(self) -> set[str]:
        """What can be bound from a nested function by `nonlocal`."""
        return self.local | self.nonlocal_names


def parameters(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> list[str]:
    a = node.args
    every = [*a.posonlyargs, *a.args, *a.kwonlyargs, a.vararg, a.kwarg]
    return [x.arg for x in every if x is not None]


def names_of(node: Scope) -> Names:
    visitor = _Uses()
    for part in [node.body] if isinstance(node, ast.Lambda) else node.body:
        visitor.visit(part)
    outer = visitor.global_names | visitor.nonlocal_names
    local = (visitor.use.bound | visitor.augmented) - outer  # x += 1 binds, x[i] = 1 does not
    if not isinstance(node, ast.ClassDef):
        local |= set(parameters(node))
    return Names(local, visitor.global_names, visitor.nonlocal_names, visitor.use)


def free_names(node: Scope) -> set[str]:
    names = names_of(node)
    return (names.use.reads | names.use.written | names.nonlocal_names) - names.local


# ---- liveness


class Liveness:
    """Marks every `if` and loop with `after`, the names read behind it before they are bound again;
    and a loop with `head`, those that a later round reads."""

    def __init__(self, names: Names):
        self.always = set(names.use.captured) | names.nonlocal_names | names.global_names

    def block(self, stmts: Sequence[ast.stmt], after: set[str]) -> set[str]:
        live = after | self.always
        for s in reversed(stmts):
            live = self.statement(s, live) | self.always
        return live

    def statement(self, s: ast.stmt, after: set[str]) -> set[str]:
        if isinstance(s, ast.If):
            marks(s).after = after
            return uses(s.test).reads | self.block(s.body, after) | self.block(s.orelse, after)
        if isinstance(s, ast.While | ast.For | ast.AsyncFor):
            return self.loop(s, after)
        if isinstance(s, ast.With | ast.AsyncWith):
            use = uses(s.items)
            return use.reads | (self.block(s.body, after) - use.bound)
        if isinstance(s, ast.Try | ast.TryStar):
            final = self.block(s.finalbody, after)
            caught = set().union(*[self.block(h.body, final) for h in s.handlers])
            caught |= uses([h.type for h in s.handlers]).reads | final
            outside, self.always = self.always, self.always | caught
            live = self.block(s.body, self.block(s.orelse, final))
            self.always = outside
            return live
        if isinstance(s, ast.Match):
            live = after | uses(s.subject).reads
            for case in s.cases:
                live |= uses([case.pattern, case.guard]).reads | self.block(case.body, after)
            return live
        use = uses(s)
        kept = use.bound - use.deleted if isinstance(s, ast.AugAssign) else use.bound
        return (after - kept) | use.reads

    def loop(self, s: ast.While | ast.For | ast.AsyncFor, after: set[str]) -> set[str]:
        stops: list[str] = getattr(s, "stops", [])
        if isinstance(s, ast.While):
            entry, targets = uses(s.test).reads, set[str]()
        else:
            entry, targets = set(), uses(s.target).bound
        head = after | entry | set(stops)
        while True:
            known = head | (self.block(s.body, head) - targets)
            if known == head:
                break
            head = known
        marks(s).after, marks(s).head = after, head
        return head if isinstance(s, ast.While) else head | uses(s.iter).reads
