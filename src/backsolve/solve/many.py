"""Many right-hand sides at once: dense Jacobians.

The solve is linear in its seed. It is staged once, on a seed of which only the type is known, and
then run batched over all seeds of a basis: every block is applied to a stack instead of a vector.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np

from ..at_once import run_at_once
from ..batch import evaluate_batched
from ..errors import NotScalarError, UnsupportedError
from ..hooks import hooks
from ..ir import Program, Type, Var
from ..operators import Operator
from ..primitives.checks import raise_if
from ..row import Row
from ..system import System
from ..tensor import Staged, Tensor
from ..trace import is_recording, stage, standing_for, where
from .chain_stack import for_a_stack
from .forward import forward_substitute
from .masked import Masked
from .packing import plain
from .reverse import back_substitute
from .work import FEW

_BUDGET = 1 << 24  # entries of a stack that are worth holding at once
_MOST = 1 << 27  # entries of the matrix of one block


class Substitution(Protocol):
    """How one right-hand side is solved for: row by row, or loops at once (scanned.py).

    `record`: the solve itself will be differentiated. Without `masks`
    zeros by structure need not be kept apart.
    """

    record: bool
    one_by_one: bool  # whether that is quicker for a few right-hand sides

    @property
    def widest(self) -> int:
        """Entries that are held at once for one right-hand side."""

    def ahead(
        self, seeds: Iterable[tuple[Row, Any]], outputs: Sequence[Row], masks: bool = True
    ) -> list[Any]: ...

    def back(
        self, seeds: Iterable[tuple[Row, Any]], wanted: Sequence[Row], masks: bool = True
    ) -> list[Any]: ...


class Plain:
    """Row by row."""

    one_by_one = True

    def __init__(self, rows: Sequence[Row], inputs: Sequence[Row], record: bool):
        self.rows, self.record = rows, record
        self.oldest = min((r.index for r in inputs), default=-1)

    @property
    def widest(self) -> int:
        return _widest(self.rows)

    def ahead(
        self, seeds: Iterable[tuple[Row, Any]], outputs: Sequence[Row], masks: bool = True
    ) -> list[Any]:
        return forward_substitute(self.rows, seeds, outputs, record=self.record, masks=masks)

    def back(
        self, seeds: Iterable[tuple[Row, Any]], wanted: Sequence[Row], masks: bool = True
    ) -> list[Any]:
        found: list[Any] = back_substitute(
            seeds, wanted, oldest=self.oldest, record=self.record, masks=masks
        )
        return found


def plain_jacobian(
    method: str, rows: Sequence[Row], outputs: Sequence[Row], inputs: Sequence[Row], record: bool
) -> list[list[Any]]:
    """[output][input] -> array of shape output.shape + input.shape, by "forward" or "reverse"."""
    return solved_jacobian(method, Plain(rows, inputs, record), outputs, inputs)


def solved_jacobian(
    method: str, by: Substitution, outputs: Sequence[Row], inputs: Sequence[Row]
) -> list[list[Any]]:
    """The same by any substitution.

    A complex Jacobian is found forward: back, one seed an output gives its real part alone.
    """
    if method == "reverse" and not any(r.dtype.kind == "c" for r in (*outputs, *inputs)):
        stacks = [reverse_jacobian(by, y, inputs) for y in outputs]
        return [
            [np.reshape(s, (*y.shape, *r.shape)) for s, r in zip(line, inputs, strict=True)]
            for line, y in zip(stacks, outputs, strict=True)
        ]
    columns = []
    for r in inputs:
        ahead = forward_jacobian(by, outputs, r)
        if r.dtype.kind == "c":
            for a, b in zip(ahead, forward_jacobian(by, outputs, r, unit=1j), strict=True):
                a, b = (np.reshape(plain(x), (r.size, -1)) for x in (a, b))
                check_holomorphic(a, b, r.dtype, scale=_beside(np.abs(a)))
        columns.append(ahead)
    return [
        [
            np.reshape(np.moveaxis(c[k], 0, -1), (*y.shape, *r.shape))
            for c, r in zip(columns, inputs, strict=True)
        ]
        for k, y in enumerate(outputs)
    ]


def diagonals(by: Substitution, input_: Row, outputs: Sequence[Row]) -> list[Any]:
    """∂output/∂input for each output, where entries depend on entries in the same place alone."""
    n = input_.size
    ones = np.ones(input_.shape, input_.dtype)
    images = by.ahead([(input_, ones)], outputs)
    if input_.dtype.kind == "c":
        for a, b in zip(images, by.ahead([(input_, 1j * ones)], outputs), strict=True):
            if a is not None or b is not None:
                check_holomorphic(0 if a is None else a, 0 if b is None else b, input_.dtype)
    return [
        np.zeros((*y.shape, *input_.shape), y.dtype)
        if t is None
        else np.reshape(
            np.where(np.eye(n, dtype=bool), np.reshape(t, (n, 1)), 0), (*y.shape, *input_.shape)
        )
        for t, y in zip(images, outputs, strict=True)
    ]


def check_holomorphic(ahead: Any, across: Any, *dtypes: Any, scale: Any = 0.0) -> None:
    """A complex Jacobian exists only if multiplying a direction by i multiplies its image by i.

    With p and q of p t + q t̄, the images are p + q and i (p − q).
    """
    ahead, across = plain(ahead), plain(across)
    with np.errstate(all="ignore"):
        check_linear(ahead - 1j * across, ahead + 1j * across, *dtypes, scale=scale)


def check_linear(p: Any, q: Any, *dtypes: Any, scale: Any = 0.0) -> None:
    """Maps t ↦ p t + q t̄ are linear over ℂ: each by its own p, whose units are those of no other entry.

    Of all `dtypes` that numbers went through the coarsest says how far apart rounding may put them. `scale` is
    that of other entries which cancel to this one: the lesser of the largest in its row and in its column.
    """
    p, q = plain(p), plain(q)
    root = coarseness(q.dtype, *dtypes)
    is_zero = np.abs(q) <= root * np.abs(p) + root ** (4 / 3) * scale
    failed = np.any(~is_zero & (np.isfinite(p) | np.isfinite(q)))
    raise_if(failed, NotScalarError, NOT_HOLOMORPHIC)


def _beside(sizes: Any) -> Any:
    """For each entry of a matrix, the lesser of the largest in its row and in its column."""
    if not sizes.size:
        return sizes
    finite = np.where(sizes < np.inf, sizes, 0.0)
    return np.minimum(np.max(finite, axis=0, keepdims=True), np.max(finite, axis=1, keepdims=True))


def beside(sizes: Any, rows: Any, cols: Any) -> Any:
    """The same for entries at these places; traced ones count alone."""
    sizes = plain(sizes)
    if isinstance(sizes, Staged) or not sizes.size:
        return 0.0
    finite = np.where(sizes < np.inf, sizes, 0.0)
    lines = []
    for at in (rows, cols):
        most = np.zeros(int(np.max(at)) + 1, sizes.dtype)
        np.maximum.at(most, at, finite)
        lines.append(most[at])
    return np.minimum(*lines)


def coarseness(*dtypes: Any) -> Any:
    """√ε of the coarsest."""
    return np.sqrt(max(np.finfo(d).eps for d in dtypes))


NOT_HOLOMORPHIC = (
    "jacobian of a function of complex arguments needs it to be holomorphic; this one is not, or terms of an "
    "entry cancel until rounding alone is left. Differentiate with respect to real and imaginary part, "
    "or use jvp"
)


def reverse_jacobian(by: Substitution, output: Row, inputs: Sequence[Row]) -> list[Any]:
    """∂output/∂input for each input, as stacks with one leading axis over the output's entries."""

    def pull(seed: Any, masks: bool = True) -> list[Any]:
        found = by.back([(output, seed)], inputs, masks)
        return [
            np.zeros(r.shape, r.dtype) if g is None else g
            for g, r in zip(found, inputs, strict=True)
        ]

    return _over_basis(pull, output, by)


def forward_jacobian(
    by: Substitution, outputs: Sequence[Row], input_: Row, unit: complex = 1
) -> list[Any]:
    """∂output/∂input for each output, as stacks with one leading axis over the input's entries.

    `unit` is the entry of the basis vectors: 1j asks for the derivatives along the imaginary axis.
    """

    def push(seed: Any, masks: bool = True) -> list[Any]:
        found = by.ahead([(input_, seed)], outputs, masks)
        return [
            np.zeros(r.shape, np.result_type(r.dtype, input_.dtype)) if t is None else t
            for t, r in zip(found, outputs, strict=True)
        ]

    return _over_basis(push, input_, by, unit)


def forward_images(system: System, seeds: Sequence[Any]) -> list[Any]:
    """The differentials of all outputs for many of all parameters: stacks, as the seeds are; None is zero."""

    def push(*tangents: Any, masks: bool = True) -> list[Any]:
        pairs = list(zip(system.parameters, tangents, strict=True))
        found = forward_substitute(
            system.rows, pairs, system.outputs, record=system.record, masks=masks
        )
        return [
            np.zeros(y.shape, y.dtype) if t is None else t
            for t, y in zip(found, system.out_types, strict=True)
        ]

    return _stacked(push, seeds, system.parameters, _widest(system.rows), system.record)


def reverse_images(system: System, seeds: Sequence[Any]) -> list[Any]:
    """The adjoints of all parameters for many of the outputs that depend on them."""
    outputs = [y for y in system.outputs if y is not None]
    oldest = min(p.index for p in system.parameters)

    def pull(*adjoints: Any, masks: bool = True) -> list[Any]:
        pairs = list(zip(outputs, adjoints, strict=True))
        found = back_substitute(
            pairs, system.parameters, oldest=oldest, record=system.record, masks=masks
        )
        return [
            np.zeros(p.shape, p.dtype) if g is None else g
            for g, p in zip(found, system.parameters, strict=True)
        ]

    return _stacked(pull, seeds, outputs, _widest(system.rows), system.record)


def images_of_basis(a: Operator) -> Any:
    """The columns of an operator's matrix, one after the other; its captured values may be traced."""
    t = Type(a.in_type.shape, a.in_type.dtype)
    if t.size * a.out_type.size > _MOST:
        raise UnsupportedError(
            f"the entries of {a!r:.60} are found as a matrix, which is too large: "
            f"{a.out_type.size} × {t.size}"
        )
    program, _ = stage(lambda x: [a.apply(x)], [t], lasting=True)
    basis = np.eye(t.size, dtype=t.dtype).reshape(t.size, *t.shape)
    return evaluate_batched(program, [basis], [True], t.size)[0]


hooks.images_of_basis = images_of_basis


def _widest(rows: Sequence[Row]) -> int:
    return max((row.size for row in rows), default=1)


def _over_basis(
    solve: Callable[[Any], list[Any]], at: Row, by: Substitution, unit: complex = 1
) -> list[Any]:
    n = at.size
    basis = (np.eye(n) * unit).astype(at.dtype).reshape(n, *at.shape)
    return _stacked(solve, [basis], [at], by.widest, by.record, by.one_by_one)


def _stacked(
    solve: Callable[..., list[Any]],
    seeds: Sequence[Any],
    at: Sequence[Row],
    widest: int,
    record: bool,
    one_by_one: bool = True,
) -> list[Any]:
    """The solve for stacks of seeds of some rows, as many at once as are worth holding."""
    step = max(1, _BUDGET // max(widest, 1))
    stacks = [
        _solve_stack(solve, [s[k : k + step] for s in seeds], at, record, one_by_one)
        for k in range(0, max(len(seeds[0]), 1), step)
    ]
    return [
        np.concatenate(parts) if len(parts) > 1 else parts[0] for parts in zip(*stacks, strict=True)
    ]


def _solve_stack(
    solve: Callable[..., list[Any]],
    seeds: Sequence[Any],
    at: Sequence[Row],
    record: bool,
    one_by_one: bool,
) -> list[Any]:
    types = [Type(r.shape, r.dtype) for r in at]
    count = len(seeds[0])

    def masked(*both: Any) -> list[Any]:
        return solve(*map(Masked, both[: len(at)], both[len(at) :]))

    def both() -> list[Any]:
        return [*seeds, *[s != 0 for s in seeds]]

    with np.errstate(all="ignore"):
        if hooks.as_written.value and count and not is_recording():
            return _one_by_one(masked, both())
        found = None if record else _on_numbers(solve, masked, seeds, both, one_by_one)
        if found is not None:
            return found
        found = _solved_bare(solve, seeds, types, record)
        if found is not None and not any(map(has_nan, found)):
            return found
        # An infinite block met a zero, or compiled code may see that. Those of the seeds are structural, and
        # so are many that blocks make: say so, and solve with that.
        masks = [Type(t.shape, np.dtype(bool)) for t in types]
        program, _ = stage(masked, [*types, *masks], lasting=True)
        return evaluate_batched(program, both(), [True] * len(at) * 2, count)


def _on_numbers(
    solve: Callable[..., list[Any]],
    masked: Callable[..., list[Any]],
    seeds: Sequence[Any],
    both: Callable[[], Sequence[Any]],
    one_by_one: bool,
) -> list[Any] | None:
    """Without a Program; None if it needs one.

    Zeros by structure are numbers like others, at first: where they met an infinity there is NaN, and all is
    solved once more with masks. So it is where something was raised: what is zero may not be asked for then.
    """
    count = len(seeds[0])
    in_turn = one_by_one and 0 < count <= FEW and not is_recording()
    with for_a_stack(seeds):
        try:
            bare = partial(solve, masks=False)
            found = _one_by_one(bare, seeds) if in_turn else run_at_once(bare, seeds, count)
        except Exception:
            pass
        else:
            if found is None or not any(map(has_nan, found)):
                return found
        return _one_by_one(masked, both()) if in_turn else run_at_once(masked, both(), count)


def _solved_bare(
    solve: Callable[..., list[Any]], seeds: Sequence[Any], types: Sequence[Type], record: bool
) -> list[Any] | None:
    """By a Program, with masks of what blocks make alone; None if compiled code might need those of seeds."""
    with for_a_stack(seeds), standing_for(where()):  # one line for all: looking for it takes long
        program, _ = stage(solve, types, lasting=True, checked=not record)
    if _is_traced(program) and any((np.asarray(s) == 0).any() for s in seeds):
        return None
    return evaluate_batched(program, list(seeds), [True] * len(seeds), len(seeds[0]))


def _one_by_one(solve: Callable[..., list[Any]], stacks: Sequence[Any]) -> list[Any]:
    found = [solve(*seeds) for seeds in zip(*stacks, strict=True)]
    return [np.stack(ys) for ys in zip(*found, strict=True)]


def _is_traced(program: Program) -> bool:
    """Whether blocks have values of which only the types are known."""
    return any(isinstance(c, Tensor) and type(c._v) is Var for _, c in program.constants)


def has_nan(y: Any) -> bool:
    """Of numbers that are at hand."""
    if isinstance(y, Tensor):
        return type(y) is Tensor and bool(np.isnan(np.asarray(y.value)).any())
    return bool(np.isnan(y).any())
