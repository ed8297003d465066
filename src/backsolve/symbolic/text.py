r"""How an expression is written: as code, in Unicode, in LaTeX, as assignments.

The rows of the primitives bring the templates (`code`, `text`, `latex`); parentheses are decided
here. Each written piece has a level, how tightly its outermost operator binds, and each place of a
template a least level: a looser piece gets parentheses. For code Python's own parser tells both, so
that the printed text means the same formula; the other two follow the code where they can.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..primitive import Primitive
from .expr import Call, Expr, Number, Symbol
from .walk import nodes, share_all, size

COMPARE, ADD, MULTIPLY, INVERT, POWER, ATOM, ALWAYS = 5, 10, 11, 12, 13, 20, 99
_LEVELS: dict[type, int] = {
    ast.BitOr: 6, ast.BitXor: 7, ast.BitAnd: 8, ast.LShift: 9, ast.RShift: 9,
    ast.Add: ADD, ast.Sub: ADD,
    ast.Mult: MULTIPLY, ast.Div: MULTIPLY, ast.FloorDiv: MULTIPLY, ast.Mod: MULTIPLY,
    ast.Pow: POWER,
}  # fmt: skip
_MODULE = re.compile(r"(?<![\w}\])])(?:[a-z]\w*\.)+(?=\w+\()")  # the np. of np.abs(…)
Piece = tuple[str, int]  # text and level
_LONGEST = 2_000  # nodes; a longer formula is printed as assignments


@dataclass(frozen=True, slots=True)
class Form:
    """A template with its level, and the least level of each of its places."""

    template: str
    level: int
    places: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Style:
    form: Callable[[Primitive, int], Form]
    symbol: Callable[[Symbol], str]
    number: Callable[[Any, bool], tuple[str, int]]
    brackets: tuple[str, str] = ("(", ")")
    regroup: bool = False  # may a + (b + c) be written a + b + c?


def too_long(expr: Expr) -> bool:
    return size(expr) > _LONGEST


def write(expr: Expr, style: Style) -> str:
    """The formula in one piece, or as assignments if it is too long for that."""
    if too_long(expr):
        return "\n".join(_assign([expr], style, every=False))
    return _write(nodes(expr), style, {})[id(expr)][0]


def assignments(*exprs: Expr, every: bool = False) -> list[str]:
    r"""The formula as single assignments: what occurs more than once is computed once.

    With `every` each line holds one operation. The last lines are the expressions themselves.

    >>> import numpy as np
    >>> x = Symbol("x")
    >>> print(*assignments(np.exp(x) * np.cos(np.exp(x)), every=True), sep="\n")
    t1 = exp(x)
    t2 = cos(t1)
    t3 = t1 * t2
    """
    return _assign(exprs, CODE, every)


def _assign(exprs: Sequence[Expr], style: Style, every: bool) -> list[str]:
    roots = share_all(exprs)
    order = nodes(*roots)
    uses: dict[int, int] = {}
    for e in order:
        for a in e.args:
            uses[id(a)] = uses.get(id(a), 0) + 1
    final = {id(e) for e in roots}
    taken = {e.name for e in order if isinstance(e, Symbol)}
    fresh = (name for k in range(1, 10**9) if (name := f"t{k}") not in taken)
    names: dict[int, str] = {}
    for e in order:
        if isinstance(e, Call) and (every or uses.get(id(e), 0) > 1 or id(e) in final):
            names[id(e)] = next(fresh)
    written = _write(order, style, names)
    lines = [f"{names[id(e)]} = {written[id(e)][0]}" for e in order if id(e) in names]
    lines += [f"{next(fresh)} = {written[id(e)][0]}" for e in roots if not isinstance(e, Call)]
    return lines


def _write(order: Sequence[Expr], style: Style, names: dict[int, str]) -> dict[int, Piece]:
    """Text and level of every node; where a named one is read its name stands."""
    out: dict[int, Piece] = {}
    for e in order:
        if isinstance(e, Symbol):
            out[id(e)] = (style.symbol(e), ATOM)
        elif isinstance(e, Number):
            out[id(e)] = style.number(e.value, False)
        elif isinstance(e, Call):
            out[id(e)] = _write_call(e, style, names, out)
    return out


def _write_call(e: Call, style: Style, names: dict[int, str], out: dict[int, Piece]) -> Piece:
    form = style.form(e.primitive, len(e.args))
    # Beside a floating-point operand 2.0 may be written 2: promotion makes them the same.
    short = any(a.dtype.kind in "fc" and not isinstance(a, Number) for a in e.args)
    parts = []
    for k, a in enumerate(e.args):
        text, level = out[id(a)]
        if isinstance(a, Number):
            text, level = style.number(a.value, short)
        elif id(a) in names:
            text, level = names[id(a)], ATOM
        free = style.regroup and e.primitive.name in ("add", "multiply")
        grouped = not (free and isinstance(a, Call) and a.primitive is e.primitive)
        least = form.places[k] if grouped else form.level
        parts.append(text.join(style.brackets) if level < least else text)
    params = dict(e.params)
    listed = [*parts, *(f"{k}={v}" for k, v in params.items())]
    lists = {"args": ", ".join(listed), "rest": ", ".join(parts[1:])}
    return form.template.format(*parts, **lists, **params), form.level


# ---- code


@functools.cache
def code_form(primitive: Primitive, n: int) -> Form:
    """
    >>> from backsolve.primitive import P
    >>> code_form(P.subtract, 2)
    Form(template='{0} - {1}', level=10, places=(10, 11))
    """
    if primitive.code is None:
        return Form(f"{primitive.name}({{args}})", ATOM, (0,) * n)
    template = _MODULE.sub("", primitive.code)
    places = [0] * n
    stand_ins = re.sub(r"\{(\w+)\}", r"_\1", template)
    try:
        level = _visit(ast.parse(stand_ins, mode="eval").body, 0, places)
    except SyntaxError:  # not Python: bracket everything
        return Form(template, 0, (ALWAYS,) * n)
    return Form(template, level, tuple(places))


def _visit(node: ast.AST, least: int, places: list[int]) -> int:
    """Write down what each place `_k` below `node` asks for; the level of `node`."""
    if isinstance(node, ast.Name):
        if node.id[1:].isdigit():
            k = int(node.id[1:])
            places[k] = max(places[k], least)
        return ATOM
    if isinstance(node, ast.BinOp):
        level = _LEVELS.get(type(node.op), 0)
        # `**` groups to the right and the others to the left; a sign in an exponent is bracketed.
        is_power = level == POWER
        _visit(node.left, level + is_power, places)
        _visit(node.right, level + (not is_power), places)
        return level
    if isinstance(node, ast.UnaryOp):
        # −a·b is −(a·b): as a value it is the same, so a sign asks for no more than a product.
        is_sign = isinstance(node.op, ast.USub)
        _visit(node.operand, MULTIPLY if is_sign else INVERT, places)
        return ADD if is_sign else INVERT
    if isinstance(node, ast.Compare):
        for part in (node.left, *node.comparators):
            _visit(part, COMPARE + 1, places)
        return COMPARE
    for field, child in ast.iter_fields(node):
        for part in child if isinstance(child, list) else [child]:
            if isinstance(part, ast.AST):
                _visit(part, ATOM if field in ("value", "func") else 0, places)
    return ATOM if isinstance(node, ast.Call | ast.Attribute | ast.Subscript) else 0


def _number(value: Any, short: bool) -> tuple[str, int]:
    text = repr(value)
    if short and type(value) is float and value.is_integer() and text.endswith(".0"):
        text = text[:-2]
    return text, ADD if text.startswith("-") else ATOM


# ---- Unicode and LaTeX


def _formatted(template: str, primitive: Primitive, n: int, function: int) -> Form:
    """Levels of a template that is not Python: by what stands around a place, else as in code."""
    code = code_form(primitive, n)
    is_operator = primitive.code is not None and code.level != ATOM
    places = []
    for k in range(n):
        around = re.search(rf"(.?)(\{{\{{)?\{{{k}\}}(\}}\}})?(.?)", template)
        before, brace, _, after = around.groups("") if around else ("", "", "", "")
        if after in ("^", "²", "³"):
            places.append(ATOM)
        elif brace or (before in "|(" and before):
            places.append(0)
        else:
            places.append(code.places[k] if is_operator else function)
    if "^" in template or "²" in template or r"\frac" in template:
        return Form(template, POWER, tuple(places))
    return Form(template, code.level if is_operator else ATOM, tuple(places))


@functools.cache
def text_form(primitive: Primitive, n: int) -> Form:
    if primitive.text is None:
        return code_form(primitive, n)
    return _formatted(primitive.text, primitive, n, ATOM)


@functools.cache
def latex_form(primitive: Primitive, n: int) -> Form:
    if primitive.latex is not None:
        return _formatted(primitive.latex, primitive, n, ALWAYS)
    code = code_form(primitive, n)
    if code.level == COMPARE:
        template = code.template
        for sign, command in (("<=", r"\le"), (">=", r"\ge"), ("!=", r"\ne"), ("==", "=")):
            template = template.replace(sign, command)
        return Form(template, code.level, code.places)
    name = primitive.name.replace("_", r"\_")
    command = rf"\{name}" if name in _LATEX_FUNCTIONS else rf"\operatorname{{{{{name}}}}}"
    return Form(rf"{command} \left({{args}}\right)", ATOM, (0,) * n)


_LATEX_FUNCTIONS = {"tan", "sinh", "cosh", "arcsin", "arccos", "arctan", "gcd"}
_GREEK = set(
    re.findall(
        r"\w+",
        "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau "
        "phi chi psi omega",
    )
)


def _latex_symbol(s: Symbol) -> str:
    parts = re.fullmatch(r"(.*?)_?(\d*)", s.name)
    name, digits = parts.groups() if parts else ("", "")
    if not name:
        name, digits = s.name, ""
    subscript = ", ".join([*([digits] if digits else []), *map(str, s.index)])
    if name in _GREEK:
        name = f"\\{name}"
    elif len(name) > 1:
        name = rf"\mathit{{{name}}}".replace("_", r"\_")
    return f"{name}_{{{subscript}}}" if subscript else name


def _latex_number(value: Any, short: bool) -> tuple[str, int]:
    if isinstance(value, bool):
        return rf"\text{{{value}}}", ATOM
    text, level = _number(value, short)
    if "e" in text:
        mantissa, exponent = text.split("e")
        return rf"{mantissa} \cdot 10^{{{int(exponent)}}}", min(level, MULTIPLY)
    return text.replace("inf", r"\infty").replace("nan", r"\text{nan}"), level


CODE = Style(code_form, lambda s: s.label, _number)
TEXT = Style(text_form, lambda s: s.label, _number, regroup=True)
LATEX = Style(latex_form, _latex_symbol, _latex_number, (r"\left(", r"\right)"), regroup=True)
