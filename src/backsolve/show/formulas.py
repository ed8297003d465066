r"""Rows, operators and steps of substitution in mathematics: v_4 = v_1 \cdot v_2, and back \bar v_4 \cdot v_2.

The rule of an element-wise step is not written here: the row's own block is applied to a symbol, and what it
computes is read back as a formula (symbolic/derive.py). Contractions follow the swap rule; other
blocks are named.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import BacksolveError
from ..operators import Block, Diagonal, Identity, Operator, OperatorSum, Product, Scale, Zero
from ..operators.contraction import swap
from ..operators.nests import split_subscripts
from ..operators.slice import show_spec
from ..primitive import Primitive
from ..row import Row
from ..symbolic.derive import term
from ..symbolic.expr import Call, Expr, Number, Params, Symbol
from ..symbolic.text import LATEX
from ..system import System
from ..system_text import name_of, show_value

_MOST_BLOCKS = 12  # of a Block that is written out, in each direction
_ROUTES = {"maximum": ">", "minimum": "<"}  # the winner takes all (a tie halves)
_SEED, _VALUE = Symbol("SEED"), Symbol("VALUE")  # of a row, until its formula is written
_MARK = re.compile(r"\\mathit\{(IN[A-Z]|SEED|VALUE)\}")


@functools.lru_cache(65536)
def name_tex(name: str) -> str:
    r"""A name as mathematics has it.

    >>> print(name_tex("v12"), name_tex("rate"), name_tex("p['w']"))
    v_{12} \mathit{rate} \texttt{p['w']}
    """
    return Symbol(name).latex() if re.fullmatch(r"[A-Za-z]\w*", name) else _typed(name)


def bar_tex(name: str) -> str:
    r"""Its adjoint.

    >>> print(bar_tex("v12"), bar_tex("rate"))
    \bar v_{12} \overline{\mathit{rate}}
    """
    found = re.fullmatch(r"([A-Za-z])_?(\d*)", name)
    if found is None:
        return rf"\overline{{{name_tex(name)}}}"
    return rf"\bar {found[1]}" + (f"_{{{found[2]}}}" if found[2] else "")


def row_tex(system: System, row: Row) -> str:
    """The right-hand side of v_i = …"""
    primitive, params = row.primitive, row.params or {}
    names = _inputs_tex(system, row)
    if primitive.elementwise:
        found = _written(*_template(system, row), None)
        if found is not None:
            return _filled(found, names)
    if primitive.name == "contract":
        return _contraction(params["subscripts"], names)
    if primitive.name == "slice":
        return names[0] + _typed(f"[{show_spec(params['spec'])}]")
    if primitive.name == "sum":
        return rf"\sum {names[0]}"
    if primitive.is_component:
        return rf"\text{{part {params['k'] + 1} of }} {names[0]}"
    name = str(params.get("name", primitive.name))
    return rf"\operatorname{{{_escaped(name)}}}({', '.join(names)})"


def step_tex(system: System, row: Row, i: int, block: Operator) -> str:
    r"""What back substitution adds to the adjoint of input i of a row, e.g. \bar v_4 \cdot v_2."""
    bar = bar_tex(name_of(system, row))
    primitive, params = row.primitive, row.params or {}
    if primitive.name == "contract":
        names = _inputs_tex(system, row)
        return _contraction(swap(params["subscripts"], i)[0], [*names[:i], bar, *names[i + 1 :]])
    if primitive.name in _ROUTES and len(row.parents) == 2:
        names = _inputs_tex(system, row)
        text = rf"{bar} \cdot \left[{names[i]} {_ROUTES[primitive.name]} {names[1 - i]}\right]"
        return _summed(text, row, i)
    if primitive.elementwise:
        found = _written(*_template(system, row), i)
        if found is not None:
            names = _inputs_tex(system, row)
            value = name_tex(name_of(system, row))
            return _summed(_filled(found, names, bar, value), row, i)
    if primitive.name == "slice":
        return rf"\operatorname{{place}}\left({bar}\right)_{{{_typed(show_spec(params['spec']))}}}"
    if primitive.name == "sum":
        return rf"\operatorname{{spread}}\left({bar}\right)"
    return rf"{operator_tex(block)}^{{\mathsf T}}\, {bar}"


def _summed(text: str, row: Row, i: int) -> str:
    """Back over what broadcasting repeated."""
    is_same = row.shape == row.parents[i].shape
    return text if is_same else rf"\operatorname{{sum}}\left({text}\right)"


def operator_tex(block: Operator) -> str:
    """An operator by its name, with its numbers where they are few."""
    if isinstance(block, Product):
        return r"\,".join(_factor(a) for a in block.factors)
    if isinstance(block, OperatorSum):
        return " + ".join(operator_tex(a) for a in block.terms).replace("+ -", "- ")
    if isinstance(block, Block) and max(block.height, block.width) <= _MOST_BLOCKS:
        return matrix_tex(
            [[_entry(block[i, j]) for j in range(block.width)] for i in range(block.height)]
        )
    if isinstance(block, Identity):
        return "I"
    if isinstance(block, Zero):
        return "0"
    if isinstance(block, Scale):
        return constant_tex(block.factor)
    if isinstance(block, Diagonal):
        d = constant_tex(block.d)
        return d if np.ndim(block.d) == 0 else rf"\operatorname{{diag}}\left({d}\right)"
    return rf"\mathsf{{{_escaped(getattr(block, 'name', '') or type(block).__name__)}}}"


def _factor(block: Operator) -> str:
    text = operator_tex(block)
    return rf"\left({text}\right)" if isinstance(block, OperatorSum) else text


def _entry(block: Operator) -> str:
    return "" if isinstance(block, Zero) else operator_tex(block)


def matrix_tex(rows: Sequence[Sequence[str]]) -> str:
    r"""
    >>> print(matrix_tex([["I", ""], ["-2", "I"]]))
    \begin{pmatrix} I &  \\ -2 & I \end{pmatrix}
    """
    lines = [" & ".join(row) for row in rows]
    return r"\begin{pmatrix} " + r" \\ ".join(lines) + r" \end{pmatrix}"


def constant_tex(value: Any) -> str:
    shown = show_value(value)
    if np.ndim(value) == 0:
        try:
            return LATEX.number(float(shown), True)[0]
        except ValueError:
            pass
    return _typed(shown)


def _template(system: System, row: Row) -> tuple[Primitive, Params, tuple[Any, ...]]:
    """What the formula of an element-wise row depends on: not on the names of what it reads."""
    given = system.constants.get(row, ())
    inputs = []
    for k, parent in enumerate(row.parents):
        is_row = parent.__class__ is Row and parent in system
        value = np.asarray(None if is_row else given[k] if k < len(given) else parent)
        is_number = value.ndim == 0 and value.dtype.kind in "biuf"
        # An array reads as a name: which numbers it holds is another matter.
        inputs.append(value.item() if is_number else None)
    return row.primitive, tuple(sorted((row.params or {}).items())), tuple(inputs)


@functools.lru_cache(4096, typed=True)
def _written(
    primitive: Primitive, params: Params, inputs: tuple[Any, ...], back_to: int | None
) -> str | None:
    """The formula of a row, or of its step back to an input, with marks in the places of names."""
    args: list[Expr] = [
        Symbol(f"IN{_letter(k)}") if x is None else Number(x) for k, x in enumerate(inputs)
    ]
    try:
        (of,) = primitive.infer([a.type for a in args], dict(params))
        y = Call(primitive, tuple(args), params, of)
        return (y if back_to is None else term(y, back_to, _SEED, _VALUE)).latex()
    except (BacksolveError, TypeError, ValueError):
        return None


def _letter(k: int) -> str:
    return chr(ord("A") + k)


def _filled(template: str, names: list[str], bar: str = "", value: str = "") -> str:
    marks = {f"IN{_letter(k)}": name for k, name in enumerate(names)}
    marks |= {_SEED.name: bar, _VALUE.name: value}
    return _MARK.sub(lambda m: marks[m[1]], template)


def _inputs_tex(system: System, row: Row) -> list[str]:
    given = system.constants.get(row, ())
    return [
        name_tex(name_of(system, parent))
        if parent.__class__ is Row and parent in system
        else constant_tex(given[k] if k < len(given) else parent)
        for k, parent in enumerate(row.parents)
    ]


def _contraction(subscripts: str, names: list[str]) -> str:
    inputs, output = split_subscripts(subscripts)
    summed = "".join(dict.fromkeys(c for labels in inputs for c in labels if c not in output))
    factors = [
        f"{{{name}}}_{{{labels}}}" if labels else name
        for name, labels in zip(names, inputs, strict=True)
    ]
    return (rf"\sum\nolimits_{{{summed}}} " if summed else "") + r"\, ".join(factors)


def _typed(words: str) -> str:
    return rf"\texttt{{{_escaped(words)}}}"


def _escaped(words: str) -> str:
    return re.sub(r"([_#%&${}])", r"\\\1", words)
