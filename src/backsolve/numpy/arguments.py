"""What help() and the pages of the API say of element-wise functions, which are made from a table."""

from __future__ import annotations

import inspect
from typing import Any

# What SciPy calls the arguments of functions that have several.
_ARGUMENTS = {
    "a b": "beta betaln",
    "a b x": "betainc betaincc hyp1f1",
    "a b y": "betaincinv",
    "a b c z": "hyp2f1",
    "a x": "gammainc gammaincc",
    "a y": "gammaincinv gammainccinv",
    "delta r": "huber pseudo_huber",
    "df p": "stdtrit",
    "df t": "stdtr",
    "n k": "binom",
    "n x": "expn kn yn",
    "v z": "iv ive jv kv kve yv",
    "x lmbda": "boxcox boxcox1p",
    "x q": "zeta",
    "x y": "kl_div powm1 rel_entr xlog1py xlogy",
    "y lmbda": "inv_boxcox inv_boxcox1p",
    "z m": "poch",
}
_NAMES_OF = {name: words.split() for words, names in _ARGUMENTS.items() for name in names.split()}


def describe(f: Any, name: str, count: int) -> None:
    """Give a function what help() shows: its name, a sentence, and arguments, which are given by place."""
    f.__name__ = f.__qualname__ = name
    f.__doc__ = f"`{name}`, element by element; differentiable where the mathematics is."
    if count:
        names = ["x"] if count == 1 else _NAMES_OF.get(name, [f"x{k + 1}" for k in range(count)])
        kind = inspect.Parameter.POSITIONAL_ONLY
        f.__signature__ = inspect.Signature([inspect.Parameter(word, kind) for word in names])
