"""Samples for the rows of the table: arguments where a primitive is defined and smooth.

An element-wise row needs nothing here if it is smooth on ±(0.3 … 2) and has a NumPy or SciPy
function of its name to compare with; else its domain stands in DOMAINS, its comparison in
REFERENCES (references.py). Any other row lists its calls in CALLS (calls.py).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from ..lanes import Binary, Unary
from ..primitive import PRIMITIVES, Primitive
from .calls import CALLS, MIXED
from .domains import DOMAINS, FLOATS, PARAMS, REAL
from .draws import ANY, Matrices, draw, spread
from .references import REFERENCES, Shape

INTEGERS = ("int64", "int32", "bool")
EVERY_INTEGER = (*[f"{u}int{n}" for u in ("", "u") for n in (8, 16, 32, 64)], "bool")
EVERY_OTHER = (*EVERY_INTEGER, "float16")  # than FLOATS
# Bare Python numbers: beside an array, and alone.
BESIDE, FLOAT, COMPLEX = "float32+python", "python", "pythoncomplex"


@dataclass(frozen=True)
class Case:
    """One call of a primitive: `make(rng)` gives fresh arguments of always the same types."""

    primitive: Primitive
    dtype: str
    label: str
    make: Callable[[np.random.Generator], list[Any]]
    params: dict[str, Any]
    reference: Callable[..., Any]

    def __str__(self) -> str:
        params = "".join(f" {k}={v}" for k, v in self.params.items())
        return f"{self.primitive.name} {self.dtype} {self.label}{params}"


UNARY_SHAPES: list[tuple[Shape, ...]] = [((),), ((3,),), ((2, 3),), ((0,),), ((2, 0),)]
BINARY_SHAPES: list[tuple[Shape, ...]] = [
    ((), ()),
    ((3,), (3,)),
    ((2, 3), (3,)),
    ((2, 1), (3,)),
    ((), (2,)),
    ((2, 0), (1,)),
]
TERNARY_SHAPES: list[tuple[Shape, ...]] = [
    ((), (), ()),
    ((3,), (3,), (3,)),
    ((2, 1), (3,), ()),
    ((3,), (2, 1), (2, 3)),
    ((0,), (), (1,)),
]
QUATERNARY_SHAPES: list[tuple[Shape, ...]] = [((), (), (), s) for s in [(), (3,), (2, 3), (0,)]]
BY_ARITY = {1: UNARY_SHAPES, 2: BINARY_SHAPES, 3: TERNARY_SHAPES, 4: QUATERNARY_SHAPES}


def cases(prim: Primitive | str, others: Sequence[str] = INTEGERS) -> Iterator[Case]:
    """All samples of a row, in the given dtypes besides FLOATS too; an error if there is no way to make any."""
    if isinstance(prim, str):
        prim = PRIMITIVES[prim]
    name = prim.name
    reference = REFERENCES.get(name) or getattr(np, name, None) or getattr(special, name, None)
    if reference is None:
        raise LookupError(
            f"no reference for the row {name!r}: add one to REFERENCES in testing/references.py"
        )
    if not prim.elementwise:
        if name not in CALLS:
            raise LookupError(
                f"no samples for the row {name!r}: add its calls to CALLS in testing/calls.py"
            )
        for call in CALLS[name]:
            for dtype in call.dtypes if others is INTEGERS else _widened(call.dtypes, others):
                kinds = [_kind_of(a) for a in call.args]
                shapes = [a if isinstance(a, tuple) else a.shape for a in call.args]
                yield _case(prim, dtype, kinds, shapes, call.params, reference)
        return
    arity = arity_of(prim)
    kinds = list(DOMAINS.get(name, [ANY] * arity))
    free = sum(k == ANY or isinstance(k, tuple) for k in kinds if not isinstance(k, np.ndarray))
    for params in PARAMS.get(name, [{}]):
        for dtype in (*FLOATS, *others, FLOAT, COMPLEX, *((*MIXED, BESIDE) if free > 1 else ())):
            if (name in REAL and "complex" in dtype) or not _defined(
                reference, kinds, dtype, params
            ):
                continue
            for form in [((),) * arity] if dtype in (FLOAT, COMPLEX) else BY_ARITY[arity]:
                yield _case(prim, dtype, kinds, form, params, reference)


def _kind_of(arg: Any) -> Any:
    return ANY if isinstance(arg, tuple) else arg.kind if isinstance(arg, Matrices) else arg


def _widened(dtypes: Sequence[str], others: Sequence[str]) -> list[str]:
    """The dtypes of a call, with all others in the place of int64."""
    more = [d for d in others if d != "bool"] if "int64" in dtypes else []
    return [*[d for d in dtypes if d != "int64"], *more]


def arity_of(prim: Primitive) -> int:
    if isinstance(prim, Unary | Binary):
        return 1 if isinstance(prim, Unary) else 2
    return len(DOMAINS[prim.name]) if prim.name in DOMAINS else len(prim.blocks or ()) or 1


def _case(
    prim: Primitive,
    dtype: str,
    kinds: Sequence[Any],
    shapes: Sequence[Shape],
    params: Any,
    ref: Any,
) -> Case:
    dtypes = spread(dtype, kinds)

    def make(rng: np.random.Generator) -> list[Any]:
        triples = zip(kinds, shapes, dtypes, strict=True)
        return [draw(rng, kind, () if d == FLOAT else shape, d) for kind, shape, d in triples]

    return Case(prim, dtype, "×".join(str(s) for s in shapes), make, params, ref)


def _defined(reference: Any, kinds: Sequence[Any], dtype: str, params: Any) -> bool:
    """Whether NumPy (or SciPy) knows the function for these dtypes."""
    rng = np.random.default_rng(0)
    args = [draw(rng, k, (), d) for k, d in zip(kinds, spread(dtype, kinds), strict=True)]
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("error", np.exceptions.ComplexWarning)
            reference(*args, **params)
    except (TypeError, np.exceptions.ComplexWarning):
        return False
    return True
