"""The table of operators: each a function of arrays, its attributes keywords with their defaults.

A function serves its operator from opset `since` on, until one of a later `since` takes over. Inputs that a
node leaves out are None. It returns one result, or a list or tuple of several; a sequence is a tuple, so it is
returned in a list. Keywords of the graph's own: `_outputs`, how many results the node asks for, and `_opset`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from ....errors import DroppedDerivativeError, TracedValueError
from ....numpy.indexing import getitem
from ....tensor import Staged, Tensor

Run = Callable[..., Any]
F = TypeVar("F", bound=Callable[..., Any])

TABLE: dict[tuple[str, str], dict[int, Run]] = {}  # (domain, name) → since → function


def operator(*names: str, since: int = 1, domain: str = "") -> Callable[[F], F]:
    """Enter a function under these names."""

    def enter(f: F) -> F:
        for name in names:
            TABLE.setdefault((domain, name), {})[since] = f
        return f

    return enter


def find(domain: str, name: str, opset: int) -> Run | None:
    """The function of an operator in an opset."""
    versions = TABLE.get((domain, name), {})
    fitting = [since for since in versions if since <= opset]
    return versions[max(fitting)] if fitting else None


def keywords(run: Run) -> tuple[frozenset[str], bool]:
    """The keywords that a function takes, and whether it takes any."""
    if isinstance(run, np.ufunc):
        return frozenset(), False
    parameters = inspect.signature(run).parameters.values()
    named = frozenset(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)
    return named, any(p.kind is p.VAR_KEYWORD for p in parameters)


def known(x: Any, what: str) -> Any:
    """The numbers of an array that must be known before anything runs: a shape, axes, a count.

    What depends on them smoothly (a scale, a region) has no derivative in them here: they must not vary.
    """
    if isinstance(x, Tensor) and x.row is not None and x.dtype.kind in "fc":
        raise DroppedDerivativeError(
            f"{what} varies, and has no derivative here. Leave it out of what is differentiated, or pass "
            "bs.stop_gradient of it"
        )
    return looked_at(x, what)


def looked_at(x: Any, what: str) -> Any:
    """The numbers of an array that only decide which entries are taken: no derivative is lost."""
    if isinstance(x, Staged):
        raise TracedValueError(
            f"{what} must be known when the graph is compiled, but is computed from its inputs; "
            "run the model without bs.jit, or make that input a constant of the graph"
        )
    return np.asarray(x.value if isinstance(x, Tensor) else x)


def read(x: Any, *index: Any) -> Any:
    """x[index], also of a plain array at places that vary with what is staged."""
    is_bare = isinstance(x, np.ndarray) and any(isinstance(i, Tensor) for i in index)
    return getitem(x, index) if is_bare else x[index]


def take(x: Any, indices: Any, axis: int = 0) -> Any:
    """Entries along an axis, as np.take."""
    return read(x, *(slice(None),) * (axis % x.ndim), indices)


def whole(x: Any, what: str) -> tuple[int, ...]:
    """Known integers."""
    return tuple(int(k) for k in np.ravel(known(x, what)))


def number(x: Any, what: str) -> Any:
    """One known number."""
    return known(x, what).reshape(()).item()
