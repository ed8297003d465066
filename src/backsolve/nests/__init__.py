"""bs.loops: nests of loops over scalar assignments, as a small language.

Reading order: this file; parse.py, the text as statements; indices.py, how far each loop runs; run.py, one
statement on arrays, with expressions.py for what stands on its right and values.py for arrays over the
iteration space; swap.py, the backpropagation loops that the swap rule gives.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import NestError
from ..primitive import coerce
from ..tensor import Tensor
from .parse import Statement, parse
from .run import run

_NUMBERS = (int, float, complex, bool)


def loops(text: str, /, *, sizes: Mapping[str, Any] | None = None, **arrays: Any) -> Any:
    """Run nests of loops over scalar assignments, written as one thinks them.

    Every index letter is a loop (`for i, j, k:` may stand before the statement). Letters that stand only on
    the right are combined by the assignment:

    >>> import numpy as np, backsolve as bs
    >>> A, B = np.arange(6.0).reshape(2, 3), np.ones((3, 2))
    >>> bs.loops("Y[i,j] += A[i,k] * B[k,j]", A=A, B=B)
    array([[ 3.,  3.],
           [12., 12.]])

    It is said in the library's own operations: products of references run on BLAS, the rest element by
    element in one pass once compiled. So it takes arrays and Tensors, and works under `grad`, `jvp`,
    `vmap` and `jit`:

    >>> bs.grad(lambda x: bs.loops("s += sin(x[i]) * x[j]", x=x))(np.array([0.0, 1.0]))
    array([1.84147098, 1.38177329])

    **Assignments** are `=`, `+=`, `-=`, `*=`, `max=` and `min=`. A nest of no terms gives 0, 1, −∞ and ∞.
    An array that is given, or was assigned before, is added to (a nest makes new arrays and changes
    none); a new one is made.

    **Statements** stand on lines of their own, or between semicolons. What no later statement reads is a
    result: one is returned as it is, several as a dict by their names.

    >>> softmax = '''
    ...     m[i] max= X[i,j]
    ...     e[i,j] = exp(X[i,j] - m[i])
    ...     s[i] += e[i,j]
    ...     Y[i,j] = e[i,j] / s[i]
    ... '''
    >>> bs.loops(softmax, X=np.log([[1.0, 3.0], [2.0, 2.0]]))
    array([[0.25, 0.75],
           [0.5 , 0.5 ]])
    >>> bs.loops("low min= x[i]; high max= x[i]", x=np.array([3, 1, 2]))
    {'low': np.int64(1), 'high': np.int64(3)}

    **Indices** are whole numbers: letters, sums and multiples of them, entries of other arrays, on both
    sides.

    >>> x, w = np.array([1.0, 2.0, 4.0, 8.0]), np.array([1.0, -1.0])
    >>> bs.loops("Y[i] += x[i + r] * w[r]", x=x, w=w)
    array([-1., -2., -4.])
    >>> bs.loops("P[i] max= x[2*i + r]", x=x, sizes=dict(r=2))
    array([2., 8.])
    >>> bs.loops("E[i] = x[at[i]]; H[at[i]] += 1", x=x, at=np.array([3, 0, 3]), sizes=dict(H=4))
    {'E': array([8., 1., 8.]), 'H': array([1, 0, 0, 2])}

    **Ranges.** A letter runs over 0 … n−1. `A[i]` gives it the length of A's axis, and all such must
    agree; `A[2*i + r]` gives the largest range that does not leave A. What does not follow from shapes is
    said by `sizes`: the range of a letter, or the shape of a new array. An index that leaves its axis is
    an error; entries of index arrays may count from the end, as NumPy's do.

    **Conditions** are Python's, and what they exclude is not read; a trailing `if` leaves terms out:

    >>> bs.loops("Y[i] += x[i + r - 1] if 0 <= i + r - 1 < 4", x=x, sizes=dict(i=4, r=3))
    array([ 3.,  7., 14., 12.])
    >>> bs.loops("Y[i] = sqrt(x[i]) if x[i] > 1 else 0", x=x)
    array([0.        , 1.41421356, 2.        , 2.82842712])

    **Expressions** are made of references, numbers and 0-d names, letters as numbers, Python's operators,
    and NumPy's element-wise functions (`sin`, `exp`, `tanh`, `sqrt`, `abs`, `max(a, b)`, `where`, …).
    Dtypes are NumPy's: sums of small integers are taken in 64 bits, letters give way to floats as
    Python's own numbers do.

    `bs.source(text)` writes the backpropagation loops.
    """
    names: dict[str, Any] = {name: _array(x) for name, x in arrays.items()}
    given = dict(sizes or {})
    statements = parse(text)
    _check_sizes(statements, given)
    for s in statements:
        names[s.name] = run(s, names, given)
    found = results(statements)
    return names[found[0]] if len(found) == 1 else {name: names[name] for name in found}


def results(statements: Sequence[Statement]) -> list[str]:
    """The arrays that are assigned and that no later statement reads."""
    found: dict[str, None] = {}
    for s in statements:
        for name in reads(s):
            if name != s.name:
                found.pop(name, None)
        found[s.name] = None
    return list(found)


def reads(s: Statement) -> list[str]:
    parts = [*s.at, s.term, *([] if s.condition is None else [s.condition])]
    nodes = [n for e in parts for n in ast.walk(e) if isinstance(n, ast.Name)]
    return list(dict.fromkeys(n.id for n in nodes))


def _array(x: Any) -> Any:
    return x if isinstance(x, Tensor | np.ndarray) or type(x) in _NUMBERS else coerce(x)


def _check_sizes(statements: Sequence[Statement], given: Mapping[str, Any]) -> None:
    known = {name for s in statements for name in [*reads(s), *s.loops, s.name]}
    for name in given:
        if name not in known:
            raise NestError(f"sizes speaks of {name!r}, which stands in no statement")
