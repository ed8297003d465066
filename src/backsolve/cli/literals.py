"""The language of --args: Python's literals, NumPy's ways to make arrays, and files; nothing is executed.

    2.0   [1.0, 2.0]   {'w': np.eye(3)}   np.ones((3, 4))   linspace(0, 1, 11)   n=3
    np.random.default_rng(0).normal(size=(3, 4))   -2 * np.pi * np.arange(5.0)   x.npy   table.csv

Only what the tables below hold can be called, with attributes and operators of arrays; so an argument that was
pasted from somewhere can do no harm.
"""

from __future__ import annotations

import ast
import csv
import operator
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .targets import near

_MAKERS = """
    array asarray ones zeros full eye identity arange linspace logspace geomspace diag tri tril triu
    sin cos tan exp log sqrt abs tanh sinh cosh concatenate stack outer meshgrid repeat tile
    float16 float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64 complex64 complex128
"""
_DRAWN = "normal uniform standard_normal random integers exponential gamma beta permutation"
_METHODS = "reshape astype copy T transpose ravel sum mean max min dot real imag"
_NUMPY = {name: getattr(np, name) for name in _MAKERS.split()}
_DRAWS, _OF_ARRAYS = frozenset(_DRAWN.split()), frozenset(_METHODS.split())
_CONSTANTS = {"pi": np.pi, "e": np.e, "inf": np.inf, "nan": np.nan}
_PYTHON = {"dict": dict, "list": list, "tuple": tuple, "range": range, "float": float,
           "int": int, "complex": complex, "bool": bool}  # fmt: skip
_OPERATORS: dict[type, Any] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.MatMult: operator.matmul,
    ast.Pow: operator.pow, ast.USub: operator.neg, ast.UAdd: operator.pos,
}  # fmt: skip
_MOST_POWER = 1000  # exponents of whole numbers: 9**9**9 would take hours
_FILES = (".npy", ".csv")


def parse_arguments(words: Sequence[str]) -> tuple[list[Any], dict[str, Any]]:
    """Positional and named arguments; a word may hold several, with commas.

    >>> parse_arguments(["2.0, [1, 2]", "n=3"])
    ([2.0, [1, 2]], {'n': 3})
    >>> parse_arguments(["np.linspace(0, 1, 3) * 2"])
    ([array([0., 1., 2.])], {})
    >>> parse_arguments(["__import__('os').system('ls')"])
    Traceback (most recent call last):
    ...
    ValueError: --args "__import__('os').system('ls')": `__import__` is unknown...
    """
    given: list[Any] = []
    named: dict[str, Any] = {}
    for word in words:
        name, equals, rest = word.partition("=")
        file, key = (rest, name.strip()) if equals and name.strip().isidentifier() else (word, "")
        if file.strip().endswith(_FILES) and not set(file) & set("()[]{}\"',"):
            value = read_array(Path(file.strip()).expanduser())
            if key:
                named[key] = value
            else:
                given.append(value)
            continue
        call = _parsed(word)
        given += [_value(node, word) for node in call.args]
        for keyword in call.keywords:
            if keyword.arg is None:
                raise _wrong(word, "** has no meaning here: write name=value")
            named[keyword.arg] = _value(keyword.value, word)
    return given, named


def read_array(path: Path) -> Any:
    """A .npy file, or the numbers of a .csv file: a matrix, of one column a vector; a head is left out."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path} (named in --args)")
    if path.suffix == ".npy":
        return np.load(path, allow_pickle=False)
    with open(path, newline="", encoding="utf-8-sig") as file:
        rows = [row for row in csv.reader(file) if row]
    if rows and _floats(rows[0]) is None:
        rows = rows[1:]
    numbers = [_floats(row) for row in rows]
    for row, found in zip(rows, numbers, strict=True):
        if found is None or len(row) != len(rows[0]):
            raise ValueError(f"{path}: {','.join(row)!r} is no row of {len(rows[0])} numbers")
    if not rows:
        raise ValueError(f"{path} holds no numbers")
    table = np.array(numbers)
    return table[:, 0] if table.shape[1] == 1 else table


def _floats(row: Sequence[str]) -> list[float] | None:
    try:
        return [float(cell) for cell in row]
    except ValueError:
        return None


def _wrong(word: str, text: str) -> ValueError:
    return ValueError(f'--args "{word}": {text}')


def _parsed(word: str) -> ast.Call:
    try:
        call = ast.parse(f"f({word}\n)", mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else str(error)
        if "parenthesis" in reason or "never closed" in reason:
            reason = "its brackets do not match"
        raise _wrong(
            word, f"is no argument: {reason}; quote it, as in --args 'np.ones((3, 4))'"
        ) from None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        raise _wrong(word, "is no argument: its brackets do not match")
    return call


def _value(node: ast.expr, word: str) -> Any:
    match node:
        case ast.Constant(value=v) if isinstance(v, int | float | complex | str | None):
            return v
        case ast.List(elts=parts):
            return [_value(p, word) for p in parts]
        case ast.Tuple(elts=parts):
            return tuple([_value(p, word) for p in parts])
        case ast.Dict(keys=keys, values=values) if None not in keys:
            pairs = zip(keys, values, strict=True)
            return {_value(k, word): _value(v, word) for k, v in pairs if k is not None}
        case ast.UnaryOp(op=op, operand=x) if type(op) in _OPERATORS:
            return _computed(_OPERATORS[type(op)], [_value(x, word)], {}, word)
        case ast.BinOp(left=a, op=op, right=b) if type(op) in _OPERATORS:
            return _operation(op, _value(a, word), _value(b, word), word)
        case ast.Name(id=name):
            return _named(name, word)
        case ast.Attribute():
            return _attribute(node, word)
        case ast.Call():
            return _called(node, word)
    raise _wrong(word, f"`{ast.unparse(node)}` is no number, array or file; {_LANGUAGE}")


_LANGUAGE = "see `--help` for what can be written"


def _operation(op: ast.operator, a: Any, b: Any, word: str) -> Any:
    if isinstance(op, ast.Pow) and isinstance(a, int) and isinstance(b, int) and b > _MOST_POWER:
        raise _wrong(word, f"the exponent {b} is too large: write {float(a)} ** {b} for a float")
    if isinstance(a, str | list | tuple) or isinstance(b, str | list | tuple):
        raise _wrong(word, "operators are for numbers and arrays: write np.array([…])")
    return _computed(_OPERATORS[type(op)], [a, b], {}, word)


def _named(name: str, word: str) -> Any:
    for table in (_PYTHON, _CONSTANTS, _NUMPY):
        if name in table:
            return table[name]
    known = [*_PYTHON, *_CONSTANTS, *_NUMPY]
    raise _wrong(
        word, f"`{name}` is unknown{near(name, known)}; {_LANGUAGE}; words stand in quotes"
    )


def _attribute(node: ast.Attribute, word: str) -> Any:
    path = ast.unparse(node)
    head, _, name = path.partition(".")
    if head in ("np", "numpy") and "(" not in name:
        if name in ("random.default_rng", "load"):
            return np.random.default_rng if name != "load" else lambda p: read_array(Path(p))
        if name.isidentifier():
            return _named(name, word)
        raise _wrong(word, f"`{path}` is not among what can be written here; {_LANGUAGE}")
    owner = _value(node.value, word)
    allowed = (
        _DRAWS if isinstance(owner, np.random.Generator)
        else _OF_ARRAYS if isinstance(owner, np.ndarray | np.generic)
        else frozenset()
    )  # fmt: skip
    if node.attr not in allowed:
        kind = type(owner).__name__
        raise _wrong(
            word, f"`.{node.attr}` of a {kind} is unknown{near(node.attr, allowed)}; {_LANGUAGE}"
        )
    return getattr(owner, node.attr)


def _called(node: ast.Call, word: str) -> Any:
    f = _value(node.func, word)
    if not callable(f):
        raise _wrong(word, f"`{ast.unparse(node.func)}` is no function")
    names = {k.arg: _value(k.value, word) for k in node.keywords if k.arg is not None}
    return _computed(f, [_value(a, word) for a in node.args], names, word)


def _computed(f: Any, args: list[Any], names: dict[str, Any], word: str) -> Any:
    try:
        with np.errstate(all="ignore"):
            return f(*args, **names)
    except (TypeError, ValueError, ArithmeticError, MemoryError, IndexError) as error:
        raise _wrong(word, f"{type(error).__name__}: {error}") from error
