"""How one equation is spelled in Python: by NumPy where it has a word, else as `P.<row>(…)`.

A row of the tables says it itself by `code=`; a row that is a ufunc of NumPy's or SciPy's needs to
say nothing. What depends on the metadata of the call (contractions, reductions) stands here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import UnsupportedError
from ..ir import Type
from ..operators.nests import split_subscripts
from ..operators.slice import show_spec
from ..primitive import PRIMITIVES, UFUNCS, Primitive
from ..primitives.special import NAMES, load

# How tightly Python's operators bind; what is no operator is an atom.
BINDS = {"|": 2, "^": 3, "&": 4, "<<": 5, ">>": 5, "+": 6, "-": 6, "*": 7, "@": 7, "/": 7}
BINDS |= {"//": 7, "%": 7, "**": 9, "==": 1, "!=": 1, "<": 1, "<=": 1, ">": 1, ">=": 1}
SIGN, ATOM = 8, 10

IMPORTS = {
    "np": "import numpy as np",
    "special": "from scipy import special",
    "sigmoid": "from scipy.special import expit as sigmoid",
    "P": "from backsolve.primitive import P",
    "tree": "from backsolve import tree",
}


@dataclass(frozen=True, slots=True)
class Text:
    """A piece of code, how tightly it binds, and whether it may be a bare Python number."""

    code: str
    binds: int = ATOM
    python: bool = False

    def within(self, binds: int) -> str:
        return f"({self.code})" if self.binds < binds else self.code


def spell(
    prim: Primitive, args: Sequence[Text], types: Sequence[Type], params: dict[str, Any]
) -> Text:
    """The right-hand side of one equation.

    >>> from backsolve.primitive import P
    >>> number = Type((), np.dtype(float))
    >>> spell(P.multiply, [Text("a + b", BINDS["+"]), Text("c")], [number] * 2, {}).code
    '(a + b) * c'
    """
    own = _OWN.get(prim.name) if PRIMITIVES.get(prim.name) is prim else None
    text = own(prim, args, types, params) if own is not None else None
    if text is not None:
        return text
    template = prim.code or _library_name(prim)
    if template is None:
        return _call(prim, args, types, params)
    operator = re.fullmatch(r"\{0\} (\S+) \{1\}", template)
    if operator is not None and operator[1] in BINDS:
        return _binary(prim.name, operator[1], args, types)
    if template == "-{0}":
        return Text(f"-{args[0].within(SIGN)}", SIGN, args[0].python)
    if template == "{0}":
        return args[0]
    texts = [a.code for a in args]
    if template.startswith("{0}"):
        texts[0] = args[0].within(ATOM)
    shown = {k: _shown(k, v) for k, v in params.items()}
    if "axis" in params and _is_everything(params["axis"], types[0]):
        template = template.replace(", axis={axis}", "")
    if params.get("keepdims") is False:
        template = template.replace(", keepdims={keepdims}", "")
    every, rest = ", ".join(texts), ", ".join(texts[1:])
    return Text(template.format(*texts, args=every, rest=rest, **shown))


def _binary(name: str, symbol: str, args: Sequence[Text], types: Sequence[Type]) -> Text:
    a, b = args
    python = a.python and b.python
    if python and _python_differs(symbol, b.code, types):
        return Text(f"np.{name}({a.code}, {b.code})")
    binds = BINDS[symbol]
    # Comparisons chain and ** groups to the right: both sides of these must bind tighter.
    strict = binds == BINDS["<"] or symbol == "**"
    left, right = a.within(binds + strict), b.within(binds + 1)
    close = symbol == "**" and re.fullmatch(r"[\w.]+", left) and re.fullmatch(r"[\w.]+", right)
    return Text(f"{left}**{right}" if close else f"{left} {symbol} {right}", binds, python)


def _python_differs(symbol: str, right: str, types: Sequence[Type]) -> bool:
    """Where Python's own numbers compute something else than NumPy's.

    A root of a negative number is complex in Python and nan in NumPy, and True + True is 2.
    """
    if symbol == "**":
        return re.fullmatch(r"-?\d+(\.0)?", right) is None
    return symbol in "+-*" and all(t.dtype == np.bool_ for t in types)


def _library_name(prim: Primitive) -> str | None:
    """The template of a row that NumPy or SciPy has under some name of its own."""
    if not prim.elementwise:
        return None
    module, prefix = (load(), "special") if prim.name in NAMES else (np, "np")
    mine = (prim, getattr(prim, "call", prim))
    for run in [prim.run, *[ufunc for ufunc, row in UFUNCS.items() if row in mine]]:
        name = getattr(run, "__name__", "")
        if name and getattr(module, name, None) is run:
            return f"{prefix}.{name}({{args}})"
    return None


def _call(
    prim: Primitive, args: Sequence[Text], types: Sequence[Type], params: dict[str, Any]
) -> Text:
    """A call of the primitive itself. It reads dtypes and shapes, which Python's numbers lack."""
    if PRIMITIVES.get(prim.name) is not prim:
        raise UnsupportedError(
            f"source cannot write `{prim.name}`: the primitive is not registered under its name; "
            'make it with bs.primitive(name, …), or give it code="…"'
        )
    texts = [
        f"np.{t.dtype.name}({a.code})" if a.python and not prim.elementwise else a.code
        for a, t in zip(args, types, strict=True)
    ]
    named = [f"{k}={value_text(v)}" for k, v in params.items()]
    return Text(f"P.{prim.name}({', '.join([*texts, *named])})")


# ---- metadata


def value_text(v: Any) -> str:
    """A metadata value as an expression; NumPy's scalars as Python's."""
    if isinstance(v, tuple):
        inner = ", ".join(value_text(x) for x in v)
        return f"({inner},)" if len(v) == 1 else f"({inner})"
    if isinstance(v, np.dtype):
        return f"np.dtype({quoted(v.name)})"
    if isinstance(v, np.generic):
        v = v.item()
    if isinstance(v, str):
        return quoted(v)
    return number_text(v) if isinstance(v, float) else repr(v)


def quoted(s: str) -> str:
    """A string in double quotes, as formatters write it."""
    return repr(s) if '"' in s or "'" in s else f'"{repr(s)[1:-1]}"'


def _shown(key: str, v: Any) -> str:
    if key == "spec":
        return show_spec(v) or "()"
    if key == "axis" and isinstance(v, tuple) and len(v) == 1:
        return str(int(v[0]))
    if isinstance(v, np.dtype):
        return str(v.name)
    return v if isinstance(v, str) else value_text(v)


def _is_everything(axis: Any, t: Type) -> bool:
    return isinstance(axis, tuple) and tuple(sorted(axis)) == tuple(range(t.ndim))


# ---- rows whose spelling depends on their metadata


def _spell_contract(prim: Primitive, args: Sequence[Text], types: Any, params: Any) -> Text | None:
    inputs, output = split_subscripts(params["subscripts"])
    if len(set(output)) < len(output) or not set(output) <= set("".join(inputs)):
        return _call(prim, args, types, params)  # a nest that einsum has no letters for
    product = _spell_product(inputs, output, args)
    if product is not None:
        return product
    every = ", ".join(a.code for a in args)
    plan = ", optimize=True" if len(args) > 2 else ""
    return Text(f"np.einsum({quoted(params['subscripts'])}, {every}{plan})")


def _spell_product(inputs: Sequence[str], output: str, args: Sequence[Text]) -> Text | None:
    """`a @ b`, with transposes, if the nest is a product of matrices and vectors."""
    if len(inputs) != 2 or any(not x or len(x) > 2 or len(set(x)) < len(x) for x in inputs):
        return None
    (x, y), (a, b) = inputs, args
    inner = [c for c in x if c in y and c not in output]
    if len(inner) != 1:
        return Text(f"np.outer({a.code}, {b.code})") if x + y == output and len(x) == 1 else None
    left, right = x.replace(inner[0], ""), y.replace(inner[0], "")
    if set(left) & set(right) or sorted(left + right) != sorted(output):
        return None
    if output != left + right:  # (A B)ᵀ = Bᵀ Aᵀ
        (x, y), (a, b) = (y, x), (b, a)
    before = a.within(BINDS["@"]) if x[-1] == inner[0] else f"{a.within(ATOM)}.T"
    after = b.within(BINDS["@"] + 1) if y[0] == inner[0] else f"{b.within(ATOM)}.T"
    return Text(f"{before} @ {after}", BINDS["@"])


def _spell_permute(prim: Primitive, args: Sequence[Text], types: Any, params: Any) -> Text | None:
    axes = tuple(params["axes"])
    if len(axes) > 1 and axes == tuple(reversed(range(len(axes)))):
        return Text(f"{args[0].within(ATOM)}.T")
    return None


def _spell_norm(prim: Primitive, args: Sequence[Text], types: Any, params: Any) -> Text | None:
    # np.linalg.norm takes one axis, two, or all.
    if len(params["axis"]) in (1, 2) or _is_everything(params["axis"], types[0]):
        return None
    return _call(prim, args, types, params)


_OWN: dict[str, Callable[..., Text | None]] = {
    "contract": _spell_contract,
    "permute": _spell_permute,
    "norm": _spell_norm,
}


# ---- constants


def number_text(x: Any) -> str:
    """A Python number as code; Python has no literal for nan and inf."""
    if isinstance(x, float) and not np.isfinite(x):
        return "np.nan" if np.isnan(x) else "np.inf" if x > 0 else "-np.inf"
    if isinstance(x, complex) and not np.isfinite(x):
        return f"complex({number_text(x.real)}, {number_text(x.imag)})"
    return repr(x)


def literal(x: Any) -> Text:
    """A Python number as it stands in an expression.

    >>> literal(-2.0)
    Text(code='-2.0', binds=8, python=True)
    """
    code = number_text(x)
    return Text(code, SIGN if code.startswith("-") else ATOM, not code.startswith("np."))


def array_text(a: Any) -> str:
    """An expression that builds the array `a` exactly.

    >>> array_text(np.zeros((2, 3))), array_text(np.array([1, 5])), array_text(np.float32(0.5))
    ('np.zeros((2, 3))', 'np.array([1, 5])', 'np.float32(0.5)')
    """
    a = np.asarray(a)
    name = a.dtype.name
    if a.ndim == 0:
        return f"np.{name}({number_text(a.item())})"
    kind = "" if name == "float64" else f", dtype={quoted(name)}"
    shape = str(a.shape[0]) if a.ndim == 1 else repr(a.shape)
    first: Any = a.flat[0] if a.size else 0
    if not a.size or ((a == first).all() and not np.signbit(np.real(first))):
        if first in (0, 1):
            return f"np.{'ones' if first else 'zeros'}({shape}{kind})"
        return f"np.full({shape}, {number_text(first.item())}{kind})"
    if name == "int64" and np.array_equal(a.reshape(-1), np.arange(a.size)):
        return f"np.arange({a.size})" + (f".reshape{a.shape}" if a.ndim > 1 else "")
    kind = "" if name in ("float64", "int64", "bool", "complex128") else kind
    return f"np.array({_nested(a.tolist())}{kind})"


def _nested(x: Any) -> str:
    return f"[{', '.join(map(_nested, x))}]" if isinstance(x, list) else number_text(x)
