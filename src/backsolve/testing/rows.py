"""check_primitive: everything that a row of the table claims, on samples made from the row.

value      that of NumPy or SciPy, or of plain loops
type       `infer` says what comes
staging    a recorded Program verifies and computes the same
blocks     derivatives agree with differences; each block is a good operator
batching   the rule agrees with running the examples one by one
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np

from ..api import jvp
from ..ir import Type, type_of
from ..primitive import PRIMITIVES, P, Primitive, wrap
from ..primitives.batching import one_by_one
from ..row import Row
from ..system import typed_block
from ..tensor import Tensor, leaf_row
from ..trace import evaluate, stage
from .grads import CheckError, check_grads, close, random_like
from .operators import check_operator
from .samples import Case, cases


def check_primitive(prim: Primitive | str, samples: Iterable[Case] | None = None) -> None:
    """Check a row on its samples (for a row of your own, give the samples).

    >>> check_primitive("tanh")
    """
    found = list(cases(prim) if samples is None else samples)
    name = prim if isinstance(prim, str) else prim.name
    if PRIMITIVES.get(name) is None:
        raise LookupError(f"there is no primitive named {name!r}")
    if not found:
        raise LookupError(f"the row {name!r} has no samples: nothing was checked")
    for case in found:
        check_case(case)


def check_case(case: Case, seed: int = 0) -> None:
    """Check one sample of a row."""
    rng = np.random.default_rng(seed)
    args = case.make(rng)
    what = str(case)
    floating = any(np.asarray(a).dtype.kind in "fc" and np.size(a) for a in args)
    with np.errstate(all="raise" if floating else "ignore", under="ignore"):
        y = _check_value(case, args, what)
        _check_type(case, args, y, what)
        _check_staging(case, args, y, what)
        _check_batching(case, what, rng)
    if np.all(np.isfinite(y)):
        _check_derivatives(case, args, y, what)
    elif floating:
        raise CheckError(f"{what}: the sample gives {y!r}; choose another domain for this row")


def _tolerance(y: Any) -> tuple[float, float]:
    dtype = np.asarray(y).dtype
    if dtype.kind not in "fc":
        return 0.0, 0.0
    tolerance = max(1e-12, 200 * float(np.finfo(dtype).eps))
    return tolerance, tolerance


def _check_value(case: Case, args: list[Any], what: str) -> Any:
    expected = np.asarray(case.reference(*args, **case.params))
    plain = case.primitive(*args, **case.params)
    boxed = case.primitive(*[_box(a) for a in args], **case.params)
    if not isinstance(boxed, Tensor):
        raise CheckError(
            f"{what}: a call on Tensors gave {type(boxed).__name__}, expected a Tensor"
        )
    if np.asarray(plain).dtype != expected.dtype:
        raise CheckError(f"{what}: expected dtype {expected.dtype}, got {np.asarray(plain).dtype}")
    close(plain, expected, _tolerance(expected), what, "the reference")
    close(boxed.value, plain, (0.0, 0.0), f"{what} on Tensors", "the same on arrays")
    return plain


def _check_type(case: Case, args: list[Any], y: Any, what: str) -> None:
    (inferred,) = case.primitive.infer([type_of(a) for a in args], case.params)
    actual = type_of(y)
    if inferred != actual:
        raise CheckError(f"{what}: the type rule says {inferred}, the value is {actual}")


def _check_staging(case: Case, args: list[Any], y: Any, what: str) -> None:
    places = [k for k, a in enumerate(args) if type(a) not in (float, complex)]
    types = [Type(np.shape(args[k]), np.asarray(args[k]).dtype) for k in places]

    def call(*xs: Any) -> Any:
        inner = list(args)
        for k, x in zip(places, xs, strict=True):
            inner[k] = x
        return case.primitive(*inner, **case.params)

    program, _ = stage(call, types)
    program.verify()
    (again,) = evaluate(program, [args[k] for k in places])
    close(again, y, (0.0, 0.0), f"{what} staged", "the same eagerly")


# A stop_gradient is not what differences see; the columns that complete a basis have no derivative.
_UNLIKE = (P.detach, P.complement)


def _check_derivatives(case: Case, args: list[Any], y: Any, what: str) -> None:
    places = [k for k, a in enumerate(args) if np.asarray(a).dtype.kind in "fc"]
    if not places or np.asarray(y).dtype.kind not in "fc" or case.primitive in _UNLIKE:
        return

    def f(*xs: Any) -> Any:
        inner = list(args)
        for k, x in zip(places, xs, strict=True):
            inner[k] = x
        return case.primitive(*inner, **case.params)

    xs = [args[k] for k in places]
    single = any(np.finfo(np.asarray(a).dtype).eps > 1e-10 for a in (*xs, y))
    try:
        check_grads(f, xs, order=1 if single or not case.primitive.differentiable else 2)
    except CheckError as error:
        raise CheckError(f"{what}: {error}") from None
    _check_blocks(case, args, f, xs, single, what)


def _check_blocks(
    case: Case, args: list[Any], f: Any, xs: list[Any], single: bool, what: str
) -> None:
    leaves = [_leaf(a) if np.asarray(a).dtype.kind in "fc" else a for a in args]
    row = case.primitive(*leaves, **case.params).row
    if row is None:
        return
    rng = np.random.default_rng(2)
    floating = [k for k, a in enumerate(args) if np.asarray(a).dtype.kind in "fc"]
    for n, k in enumerate(floating):
        if row.parents[k].__class__ is not Row:
            continue
        block = typed_block(row, k)
        where = f"{what}: the block of argument {k}"
        given = _plain(block.in_type), _plain(block.out_type)
        expected = _plain(leaves[k]), _plain(row)
        if given != expected:
            raise CheckError(f"{where}, {block!r}, maps {given}, expected {expected}")
        try:
            check_operator(block, rtol=1e-4 if single else None)
        except CheckError as error:
            raise CheckError(f"{where}: {error}") from None
        u = random_like(args[k], rng)
        direction = [u if m == n else np.zeros_like(x)[()] for m, x in enumerate(xs)]
        image = jvp(f, xs, direction)[1]
        close(block.apply(u), image, _tolerance(image), where, "what forward mode computes")


def _check_batching(case: Case, what: str, rng: np.random.Generator) -> None:
    rule = case.primitive.batch_rule
    if rule is None:
        return
    size = 3
    examples = [case.make(rng) for _ in range(size)]
    n = len(examples[0])
    places = [k for k in range(n) if type(examples[0][k]) not in (float, complex)]
    subsets = itertools.chain.from_iterable(
        itertools.combinations(places, r) for r in range(1, len(places) + 1)
    )
    for subset in subsets:
        args = [
            np.stack([e[k] for e in examples]) if k in subset else examples[0][k] for k in range(n)
        ]
        batched = [k in subset for k in range(n)]
        expected = one_by_one(case.primitive, size, args, batched, case.params)
        got = rule(case.primitive, size, args, batched, case.params)
        where = f"{what} batched over arguments {subset}"
        if np.asarray(got).dtype != expected.dtype:
            raise CheckError(
                f"{where}: expected dtype {expected.dtype}, got {np.asarray(got).dtype}"
            )
        close(got, expected, _tolerance(expected), where, "the examples one by one")


def _plain(t: Any) -> Any:
    return (tuple(t.shape), t.dtype)


def _box(a: Any) -> Any:
    return wrap(a, None)


def _leaf(a: Any) -> Any:
    return wrap(a, leaf_row(a))
