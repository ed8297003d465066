"""The swap rule as text: from loops forward to the loops of backpropagation.

    for h,i,j,k:  Y[h,i,j] += A[h,i,k] * B[h,j,k]

is linear in A, so the adjoint of A gets, term by term, the same product with A and Y swapped:

    for h,i,j,k:  A_grad[h,i,k] += Y_grad[h,i,j] * B[h,j,k]

What is not a product is taken apart by the chain rule. The language is closed under this: its backpropagation
loops are nests again, and `bs.loops` runs them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from ..errors import NestError, UnsupportedError
from .parse import Statement, entries, parse, reference

# The adjoint of a, if g is that of f(a); a leading minus makes the line a `-=`.
_FUNCTIONS = {
    "sin": "g * cos(a)",
    "cos": "-g * sin(a)",
    "tan": "g / cos(a)**2",
    "exp": "g * exp(a)",
    "expm1": "g * exp(a)",
    "log": "g / a",
    "log1p": "g / (1 + a)",
    "sqrt": "g / (2 * sqrt(a))",
    "square": "g * 2 * a",
    "abs": "g * sign(a)",
    "tanh": "g * (1 - tanh(a)**2)",
    "sinh": "g * cosh(a)",
    "cosh": "g * sinh(a)",
    "sigmoid": "g * sigmoid(a) * (1 - sigmoid(a))",
    "arctan": "g / (1 + a**2)",
    "arcsin": "g / sqrt(1 - a**2)",
    "arccos": "-g / sqrt(1 - a**2)",
}
# Ties share the derivative, as everywhere.
_LARGER = "g * ((a > b) + (a == b) / 2)"


@dataclass(frozen=True)
class _Part:
    """What one reference gets: ± value, wherever the conditions hold."""

    to: ast.expr
    value: ast.expr
    minus: bool
    conditions: tuple[ast.expr, ...]

    def __str__(self) -> str:
        sign = "-=" if self.minus else "+="
        line = f"{_text(_grad(self.to))} {sign} {_text(self.value)}"
        return f"{line} if {_text(_all(self.conditions))}" if self.conditions else line


def backpropagation(text: str) -> str:
    """The nests of a text, and behind them the loops that take adjoints back, the last nest's first.

    >>> print(backpropagation("Y[h,i,j] += A[h,i,k] * B[h,j,k]"))
    Y[h,i,j] += A[h,i,k] * B[h,j,k]
    <BLANKLINE>
    A_grad[h,i,k] += Y_grad[h,i,j] * B[h,j,k]
    B_grad[h,j,k] += A[h,i,k] * Y_grad[h,i,j]
    <BLANKLINE>
    """
    statements = parse(text)
    back: list[str] = []
    for k, s in reversed(list(enumerate(statements))):
        before = {x.name for x in statements[:k]}
        if s.how != "+=" and s.name in before:
            raise UnsupportedError(
                f"{s.name} is assigned twice, so that its adjoint has no one meaning: give the second nest a "
                f"name of its own, in the nest  {s.text}"
            )
        back.extend(_backwards(s))
    return "\n".join([*[s.text for s in statements], "", *back, ""])


def _backwards(s: Statement) -> Iterator[str]:
    letters = _letters(s)
    target = reference(s.name, s.at)
    g = _grad(target)
    conditions = () if s.condition is None else (s.condition,)
    if s.how in ("max=", "min="):
        chosen = (*conditions, ast.Compare(s.term, [ast.Eq()], [target]))
        ties = _renamed(target, f"{s.name}_ties")
        g, conditions = ast.BinOp(g, ast.Div(), ties), chosen
        prelude = [f"{_text(ties)} += 1 if {_text(_all(chosen))}"]
    elif s.how == "*=":
        rest, line = _others(s, target, letters)
        g, prelude = ast.BinOp(g, ast.Mult(), rest), [line]
    else:
        prelude = []
    parts = list(_pull(s, s.term, _Part(target, g, False, conditions), letters))
    if parts:
        yield from prelude
        for line in map(str, parts):  # every letter stays a loop, also where nothing depends on it
            missing = [c for c in sorted(letters) if re.search(rf"\b{c}\b", line) is None]
            yield f"for {', '.join(missing)}: {line}" if missing else line


def _letters(s: Statement) -> set[str]:
    """The names that stand for whole numbers: bare ones inside brackets."""
    found = set(s.loops)
    for e in (*s.at, s.term, *(() if s.condition is None else (s.condition,))):
        inside = [e] if any(e is x for x in s.at) else []
        inside += [x for n in ast.walk(e) if isinstance(n, ast.Subscript) for x in entries(n)]
        for x in inside:
            arrays = {id(n.value) for n in ast.walk(x) if isinstance(n, ast.Subscript)}
            found |= {n.id for n in ast.walk(x) if isinstance(n, ast.Name) and id(n) not in arrays}
    return found


def _others(s: Statement, target: ast.expr, letters: set[str]) -> tuple[ast.expr, str]:
    """A product of no division: for every factor the product of all the others, a nest of its own."""
    mine = {n.id for e in s.at for n in ast.walk(e) if isinstance(n, ast.Name)}
    used = {n.id for n in ast.walk(s.term) if isinstance(n, ast.Name)}
    gone = sorted(c for c in letters & used if c not in mine)
    other = {c: ast.Name(f"{c}_") for c in gone}
    conditions: list[ast.expr] = [ast.Compare(other[c], [ast.NotEq()], [ast.Name(c)]) for c in gone]
    if len(gone) > 1:
        conditions = [ast.BoolOp(ast.Or(), conditions)]
    if s.condition is not None:
        conditions.append(_substituted(s.condition, other))
    if not gone:
        raise UnsupportedError(f"`*=` combines no terms here: write `=`, in the nest  {s.text}")
    at = [*s.at, *[ast.Name(c) for c in gone]]
    rest = reference(f"{s.name}_rest", at)
    term = _text(_substituted(s.term, other))
    return rest, f"{_text(rest)} *= {term} if {_text(_all(conditions))}"


# ---- the chain rule


def _pull(s: Statement, e: ast.expr, part: _Part, letters: set[str]) -> Iterator[_Part]:
    """What the references in e get, if e itself gets `part`."""
    g = part.value
    if isinstance(e, ast.Subscript):
        yield replace(part, to=e)
    elif isinstance(e, ast.Name):
        if e.id not in letters:
            yield replace(part, to=e)
    elif isinstance(e, ast.UnaryOp) and isinstance(e.op, ast.USub | ast.UAdd):
        turned = isinstance(e.op, ast.USub)
        yield from _pull(s, e.operand, replace(part, minus=part.minus != turned), letters)
    elif isinstance(e, ast.BinOp) and isinstance(e.op, ast.Mult):
        factors = _factors(e)  # the swap rule: g stands where the factor stood
        for k, inner in enumerate(factors):
            swapped = _product([*factors[:k], *_factors(g), *factors[k + 1 :]])
            yield from _pull(s, inner, replace(part, value=swapped), letters)
    elif isinstance(e, ast.BinOp):
        for inner, rule in zip((e.left, e.right), _operator(s, e), strict=True):
            yield from _apply(s, rule, inner, {"g": g, "a": e.left, "b": e.right}, part, letters)
    elif isinstance(e, ast.IfExp):
        yield from _either(s, e.test, e.body, e.orelse, part, letters)
    elif isinstance(e, ast.Call):
        yield from _call(s, e, part, letters)
    elif not isinstance(e, ast.Constant | ast.Compare | ast.BoolOp):
        raise NestError(f"{_text(e)} has no derivative here, in the nest  {s.text}")


def _operator(s: Statement, e: ast.BinOp) -> tuple[str, str]:
    """The adjoints of both sides; "" for one that a constant exponent does not need."""
    if isinstance(e.op, ast.Add):
        return "g", "g"
    if isinstance(e.op, ast.Sub):
        return "g", "-g"
    if isinstance(e.op, ast.Div):
        return "g / b", "-g * a / b**2"
    if isinstance(e.op, ast.Pow):
        if isinstance(e.right, ast.Constant) and e.right.value == 2:
            return "g * 2 * a", ""
        if isinstance(e.right, ast.Constant) and isinstance(e.right.value, int | float):
            return f"g * b * a**{e.right.value - 1}", ""
        return "g * b * a**(b - 1)", "g * a**b * log(a)"
    raise UnsupportedError(f"{_text(e)} has no derivative here, in the nest  {s.text}")


def _call(s: Statement, e: ast.Call, part: _Part, letters: set[str]) -> Iterator[_Part]:
    name = e.func.attr if isinstance(e.func, ast.Attribute) else getattr(e.func, "id", "")
    if name == "where" and len(e.args) == 3:
        test, a, b = e.args
        yield from _either(s, test, a, b, part, letters)
    elif name in ("max", "min", "maximum", "minimum") and len(e.args) == 2:
        rule = _LARGER if name.startswith("max") else _LARGER.replace(">", "<")
        for inner, other in (e.args, e.args[::-1]):
            names = {"g": part.value, "a": inner, "b": other}
            yield from _apply(s, rule, inner, names, part, letters)
    elif name in _FUNCTIONS and len(e.args) == 1:
        names = {"g": part.value, "a": e.args[0]}
        yield from _apply(s, _FUNCTIONS[name], e.args[0], names, part, letters)
    elif any(isinstance(n, ast.Subscript) for n in ast.walk(e)):
        raise UnsupportedError(
            f"{_text(e)}: the loops backwards are written for {', '.join(sorted(_FUNCTIONS))}, max, min and "
            f"where; bs.grad differentiates all functions, in the nest  {s.text}"
        )


def _apply(
    s: Statement,
    rule: str,
    inner: ast.expr,
    names: Mapping[str, ast.expr],
    part: _Part,
    letters: set[str],
) -> Iterator[_Part]:
    if rule:
        value = _substituted(ast.parse(rule.removeprefix("-"), mode="eval").body, names)
        minus = part.minus != rule.startswith("-")
        yield from _pull(s, inner, replace(part, value=value, minus=minus), letters)


def _either(
    s: Statement, test: ast.expr, a: ast.expr, b: ast.expr, part: _Part, letters: set[str]
) -> Iterator[_Part]:
    yield from _pull(s, a, replace(part, conditions=(*part.conditions, test)), letters)
    otherwise = ast.UnaryOp(ast.Not(), test)
    yield from _pull(s, b, replace(part, conditions=(*part.conditions, otherwise)), letters)


# ---- expressions


class _Substitute(ast.NodeTransformer):
    def __init__(self, names: Mapping[str, ast.expr]):
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.names.get(node.id, node)


def _substituted(e: ast.expr, names: Mapping[str, ast.expr]) -> ast.expr:
    copy = ast.parse(ast.unparse(e), mode="eval").body
    return _Substitute(names).visit(copy)


def _factors(e: ast.expr) -> list[ast.expr]:
    if isinstance(e, ast.BinOp) and isinstance(e.op, ast.Mult):
        return [*_factors(e.left), *_factors(e.right)]
    return [e]


def _product(factors: Sequence[ast.expr]) -> ast.expr:
    return reduce(lambda a, b: ast.BinOp(a, ast.Mult(), b), factors)


def _renamed(e: ast.expr, name: str) -> ast.expr:
    if isinstance(e, ast.Subscript):
        return ast.Subscript(ast.Name(name), e.slice)
    return ast.Name(name)


def _grad(e: ast.expr) -> ast.expr:
    name = e.value if isinstance(e, ast.Subscript) else e
    assert isinstance(name, ast.Name)
    return _renamed(e, f"{name.id}_grad")


def _all(conditions: Sequence[ast.expr]) -> ast.expr:
    return conditions[0] if len(conditions) == 1 else ast.BoolOp(ast.And(), list(conditions))


def _text(e: ast.expr) -> str:
    """As Python writes it, but for the blanks between indices: A[i,j]."""
    out, open_brackets = "", ""
    for c in ast.unparse(e).replace(" ** ", "**"):
        if c in "([":
            open_brackets += c
        elif c in ")]":
            open_brackets = open_brackets[:-1]
        if c == " " and out.endswith(",") and open_brackets.endswith("["):
            continue
        out += c
    return out
