"""Expressions with a choice in them, as calls of runtime functions.

    a if c else b     →  _bs_.choose(c, lambda: a, lambda: b)
    a and b           →  _bs_.both(a, lambda: b, pure)
    a < b < c         →  _bs_.compare(a, ("<", lambda: b, pure), ("<", lambda: c, pure))
    not a             →  _bs_.negated(a)
    a in b            →  _bs_.contains(a, b)
    f(x)              →  _bs_.call(f)(x)
    a[i]              →  _bs_.item(a, i), as `a` may be a NumPy array and `i` traced

`pure` says that an operand may be computed whether it is needed or not: it reads names and does arithmetic
that cannot fail.
"""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Callable
from typing import Any

from .aliases import METHODS
from .jumps import RUNTIME
from .walking import FIELDS, walk

_OPERATORS = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Is: "is",
    ast.IsNot: "is not",
    ast.In: "in",
    ast.NotIn: "not in",
}
_BINDS = (ast.NamedExpr, ast.Yield, ast.YieldFrom, ast.Await)
_PURE = (ast.Name, ast.Constant, ast.Compare, ast.UnaryOp, ast.BinOp, ast.BoolOp)
_PURE_OPERATORS = (ast.Add, ast.Sub, ast.Mult)


def runtime(name: str, *args: ast.expr, at: ast.AST) -> ast.Call:
    """`_bs_.name(*args)`, placed where `at` stands."""
    stands: Any = at
    line, column = stands.lineno, stands.col_offset
    start = {"lineno": line, "col_offset": column}
    ends = {
        "end_lineno": line,
        "end_col_offset": column,
    }  # a call is said to stand where its callee ends
    root = ast.Name(RUNTIME, ast.Load(), **start, **ends)
    function = ast.Attribute(root, name, ast.Load(), **start, **ends)
    ends = {"end_lineno": stands.end_lineno, "end_col_offset": stands.end_col_offset}
    return ast.Call(function, list(args), [], **start, **ends)


def constant(value: Any, at: ast.AST) -> ast.Constant:
    return ast.copy_location(ast.Constant(value), at)


def definition(name: str, arguments: ast.arguments, body: list[ast.stmt]) -> ast.FunctionDef:
    made = ast.FunctionDef(name, arguments, body, [])
    if sys.version_info >= (3, 12):
        made.type_params = []
    return made


def thunk(body: ast.expr) -> ast.Lambda:
    nothing = ast.arguments([], [], None, [], [], None, [])
    return ast.copy_location(ast.Lambda(nothing, body), body)


def binds(node: ast.AST) -> bool:
    """Whether an expression cannot move into a lambda: it binds a name or suspends the function."""
    return any(isinstance(n, _BINDS) for n in walk(node))


def pure(node: ast.expr) -> bool:
    for n in walk(node):
        if isinstance(n, ast.expr) and not isinstance(n, _PURE):
            return False
        if hasattr(n, "may_have_flag"):  # to read it may be an error
            return False
        if isinstance(n, ast.BinOp) and not isinstance(n.op, _PURE_OPERATORS):
            return False
        if isinstance(n, ast.Compare) and any(isinstance(o, ast.In | ast.NotIn) for o in n.ops):
            return False
    return True


def _is_fixed(node: ast.expr) -> bool:
    """Whether a key is the same each time: numbers and names of dict entries."""
    return all(not isinstance(n, ast.Name | ast.Call) for n in walk(node))


Comprehension = ast.ListComp | ast.GeneratorExp


def _is_simple(node: ast.ListComp | ast.GeneratorExp) -> bool:
    """Whether a comprehension makes one entry for each of one sequence."""
    (first, *more) = node.generators
    return not (more or first.ifs or first.is_async or binds(node))


def _is_word(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def key(node: ast.expr) -> ast.expr:
    """A key, visited before, as an expression that stands alone: slices are built by a call."""
    if isinstance(node, ast.Slice):
        parts = [
            constant(None, node) if p is None else p for p in (node.lower, node.upper, node.step)
        ]
        return runtime("slice", *parts, at=node)
    if isinstance(node, ast.Tuple):
        node.elts = [key(e) for e in node.elts]
    return node


class Expressions(ast.NodeTransformer):
    """`is_plain(callee)` says that a callee, as written, needs no conversion (None: it makes an array);
    `first` is the name of the first parameter of the method we stand in."""

    def __init__(self, is_plain: Callable[[ast.expr], bool | None], first: str | None):
        self.is_plain = is_plain
        self.first = first
        self.changed = False

    def generic_visit(self, node: ast.AST) -> ast.AST:
        for name in FIELDS[type(node)]:
            old = getattr(node, name, None)
            if type(old) is list:
                old[:] = [self.visit(x) if isinstance(x, ast.AST) else x for x in old]
            elif isinstance(old, ast.AST):
                setattr(node, name, self.visit(old))
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        return node

    def _call(self, name: str, *args: ast.expr, at: ast.AST) -> ast.expr:
        self.changed = True
        return runtime(name, *args, at=at)

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        stays = binds(node.body) or binds(node.orelse)
        self.generic_visit(node)
        if stays:
            return node
        return self._call("choose", node.test, thunk(node.body), thunk(node.orelse), at=node)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        purities = [pure(v) for v in node.values]
        stays = any(binds(v) for v in node.values[1:])
        self.generic_visit(node)
        if stays:
            return node
        name = "both" if isinstance(node.op, ast.And) else "either"
        result = node.values[0]
        for value, is_pure in zip(node.values[1:], purities[1:], strict=True):
            result = self._call(name, result, thunk(value), constant(is_pure, node), at=node)
        return result

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        if len(node.ops) == 1 or any(binds(c) for c in node.comparators):
            self.generic_visit(node)
            if len(node.ops) > 1 or not isinstance(node.ops[0], ast.In | ast.NotIn):
                return node
            found = self._call("contains", node.left, node.comparators[0], at=node)
            if isinstance(node.ops[0], ast.In):
                return found
            return self._call("negated", found, at=node)
        purities = [pure(c) for c in node.comparators]
        self.generic_visit(node)
        steps: list[ast.expr] = []
        for op, right, is_pure in zip(node.ops, node.comparators, purities, strict=True):
            name = constant(_OPERATORS[type(op)], node)
            parts: list[ast.expr] = [name, thunk(right), constant(is_pure, node)]
            steps.append(ast.copy_location(ast.Tuple(parts, ast.Load()), node))
        return self._call("compare", node.left, *steps, at=node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.op, ast.Not):
            return self._call("negated", node.operand, at=node)
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        callee = node.func
        if isinstance(callee, ast.Name) and callee.id == "super" and not node.args and self.first:
            # Behind a rewritten loop the frame is another: say what `super()` would have found.
            own = ast.copy_location(ast.Name("__class__", ast.Load()), node)
            first = ast.copy_location(ast.Name(self.first, ast.Load()), node)
            node.args = [own, first]
            return node
        inner = node.args[0] if node.args else None
        if len(node.args) == 1 and not node.keywords and isinstance(inner, Comprehension):
            self._without_filter(callee, inner)
        if isinstance(inner, ast.ListComp | ast.GeneratorExp) and _is_simple(inner):
            return self._of_many(node, inner)
        plain = self.is_plain(callee)
        self.generic_visit(node)
        if (
            plain is None
        ):  # np.zeros: matters only in a function that is rewritten for another reason
            node.func = runtime("call", node.func, at=callee)
        elif not plain:
            node.func = self._call("call", node.func, at=callee)
        return node

    def _is_builtin(self, node: ast.expr, name: str) -> bool:
        value = getattr(getattr(self.is_plain, "__self__", None), "value", None)
        return value is not None and value(node) is getattr(builtins, name)

    def _without_filter(self, callee: ast.expr, inner: Comprehension) -> None:
        """sum(e for x in xs if c) as sum(e if c else 0 for x in xs), and so any and all."""
        (first, *more) = inner.generators
        if more or not first.ifs or binds(inner):
            return
        tests = first.ifs
        test = tests[0] if len(tests) == 1 else ast.BoolOp(ast.And(), tests)
        new: ast.expr
        if self._is_builtin(callee, "sum"):
            new = ast.IfExp(test, inner.elt, ast.Constant(0))
        elif self._is_builtin(callee, "any"):
            new = ast.BoolOp(ast.And(), [test, inner.elt])
        elif self._is_builtin(callee, "all"):
            new = ast.BoolOp(ast.Or(), [ast.UnaryOp(ast.Not(), test), inner.elt])
        else:
            return
        inner.elt, first.ifs = ast.copy_location(new, inner.elt), []
        for node in ast.walk(new):
            if not hasattr(node, "lineno") and isinstance(node, ast.expr):
                ast.copy_location(node, inner.elt)

    def iterated(self, node: ast.expr) -> ast.expr:
        """What a loop runs over: range, zip, enumerate and reversed of arrays stay indexable."""
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in ("range", "zip", "enumerate", "reversed")
            and self.is_plain(node.func) is False
        ):
            node.args = [self.iterated(a) for a in node.args]
            for keyword in node.keywords:
                keyword.value = self.visit(keyword.value)
            node.func = runtime("indexable", node.func, at=node.func)
            return node
        return self.visit(node)

    def _of_many(self, node: ast.Call, inner: ast.ListComp | ast.GeneratorExp) -> ast.expr:
        """f([e for t in xs]): a loop that makes an array, rather than a list of so many entries."""
        is_list = isinstance(inner, ast.ListComp)
        if self._is_builtin(node.func, "sum") and not node.keywords and len(node.args) <= 2:
            rest = [self.visit(a) for a in node.args[1:]]
            return self._call("total", *self._apart(inner), *rest, at=node)
        function = self.visit(node.func)
        made = self._call("many", function, *self._apart(inner), constant(is_list, node), at=node)
        node.func, node.args = made, [self.visit(a) for a in node.args[1:]]
        for keyword in node.keywords:
            keyword.value = self.visit(keyword.value)
        return node

    def visit_ListComp(self, node: ast.ListComp) -> ast.expr:
        if _is_simple(node):
            return self._call("listed", *self._apart(node), at=node)
        return self._noted(node)

    def _apart(self, inner: ast.ListComp | ast.GeneratorExp) -> tuple[ast.expr, ast.expr]:
        """What a comprehension runs over, and what it makes of each: `lambda item: [e for t in (item,)][0]`."""
        (loop,) = inner.generators
        each = ast.copy_location(ast.Name("_bs_item", ast.Load()), inner)
        one = ast.comprehension(
            loop.target, ast.copy_location(ast.Tuple([each], ast.Load()), inner), [], 0
        )
        element = inner.elt
        if isinstance(element, ast.ListComp) and _is_simple(element):  # a list of lists: rows
            element = self._call("rows", *self._apart(element), at=element)
        else:
            element = self.visit(element)
        listed = ast.copy_location(ast.ListComp(element, [one]), inner)
        result = ast.copy_location(ast.Subscript(listed, constant(0, inner), ast.Load()), inner)
        add = thunk(result)
        add.args.args = [ast.copy_location(ast.arg("_bs_item"), inner)]
        return self.iterated(loop.iter), add

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        stays = not isinstance(node.ctx, ast.Load) or _is_word(node.slice) or binds(node)
        fixed = _is_fixed(node.slice)
        self.generic_visit(node)
        if stays:
            return node
        made = runtime if fixed else self._call  # alone no reason to rewrite a function
        return made("item", node.value, key(node.slice), at=node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        """x.T, x.reshape(…): they show the memory of x."""
        self.generic_visit(node)
        if not isinstance(node.ctx, ast.Load) or node.attr not in METHODS:
            return node
        if isinstance(node.value, ast.Name) and self.is_plain(node) is not True:
            return node  # np.reshape
        return runtime("method", node.value, constant(node.attr, node), at=node)

    def _noted(self, node: Any) -> ast.expr:
        """A list, dict or set: what was made in a staged branch may be changed there."""
        self.generic_visit(node)
        if isinstance(getattr(node, "ctx", None), ast.Store):
            return node
        return runtime("made", node, at=node)

    visit_List = visit_Dict = visit_Set = _noted
    visit_DictComp = visit_SetComp = _noted

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if not isinstance(node.ctx, ast.Load) or not hasattr(node, "may_have_flag"):
            return node
        checked = constant(hasattr(node, "may_lack"), node)
        return runtime("assigned", node, constant(node.id, node), checked, at=node)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> ast.expr:
        node.value = self.visit(node.value)
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.expr:
        outside, self.first = self.first, None
        self.generic_visit(node)
        self.first = outside
        return node
