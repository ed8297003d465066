"""Giving a function arguments that vary, and giving back results of the kind that went in."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import tree
from .declared import Point, plain_structure, points_in
from .errors import NotDifferentiableError, StructureError
from .hooks import hooks
from .ir import Var
from .kinds import same_kind
from .ownership import is_shared, own
from .primitive import P, coerce, wrap
from .row import FINISHED, Row, ancestors, descendants
from .solve.reverse import OuterRow, back_substitute
from .tensor import LEAF, Staged, Tensor, leaf, leaf_row

ArgNums = int | Sequence[int]


def numbers_of(argnums: ArgNums) -> tuple[bool, list[int]]:
    """Whether one argument was asked for, by its number alone; and the numbers of all that were."""
    if isinstance(argnums, int | np.integer):
        return True, [argnums]
    if not np.iterable(argnums):
        return True, [argnums]  # which is no number of an argument, as is said where it is used
    return False, list(argnums)


def checked_numbers(what: str, argnums: ArgNums, count: int) -> tuple[bool, list[int]]:
    """The same, of a call with `count` arguments; none is negative."""
    single, numbers = numbers_of(argnums)
    for k, n in enumerate(numbers):
        if not isinstance(n, int | np.integer):
            raise StructureError(
                f"argnums of `{what}` is the number of an argument, or several, got {argnums!r}; the "
                "first argument is 0"
            )
        if not -count <= n < count:
            raise NotDifferentiableError(
                f"`{what}` was asked for argument {n} of a call with {count} arguments; "
                "keyword arguments cannot be varied, pass them by position"
            )
        numbers[k] = n % count
    if not single and len(set(numbers)) < len(numbers):
        raise NotDifferentiableError(f"`{what}` was asked for an argument twice: argnums={argnums}")
    return single, numbers


class Varied:
    """The arguments of one call with fresh rows under the chosen ones.

    A fresh row is a leaf, or, if somebody outside differentiates too, an alias of the outer value:
    a solve that stops at fresh rows cannot confuse its own variation with an outer one.
    """

    def __init__(
        self,
        what: str,
        args: Sequence[Any],
        argnums: ArgNums,
        fixed: Sequence[bool] = (),  # numbers among the leaves that stand for themselves, too
    ):
        if type(argnums) is int and 0 <= argnums < len(args):
            self.single, numbers, chosen = True, [argnums], (args[argnums],)
        else:
            self.single, numbers = checked_numbers(what, argnums, len(args))
            chosen = tuple([args[n] for n in numbers])
        # A pullback or a system outlives the call: it must not see the caller's later writes.
        keep = np.copy if what in ("vjp", "linearize") else own
        self.args = list(args)
        self.numbers = numbers
        self.originals, self.structure = tree.flatten(chosen)
        self.static: list[bool] = []  # no numbers: names, functions; they stand for themselves
        self.rows: list[Row] = []
        static, rows = self.static, self.rows
        self.from_tensors, self.from_python = False, True
        self.points: dict[int, Point] = {}  # declared on a manifold, by the number of the leaf
        if hooks.has_points:
            self._find_points()
        points, fresh = self.points, []
        for k, x in enumerate(self.originals):
            kind = type(x)
            if fixed and fixed[k]:
                static.append(True)
                fresh.append(np.copy(x)[()] if kind is np.ndarray else x)
                continue
            if points and k in points:
                x, row = points[k].vary()
                self.from_python = False
                static.append(False)
                rows.append(row)
                fresh.append(x)
                continue
            if kind is np.ndarray:
                x = keep(x)
            elif kind is Tensor and x.row is None and (keep is np.copy or is_shared(x._v)):
                x = wrap(np.copy(x._v)[()], None)
            elif kind not in _NUMBERS and hasattr(x, "__array__") and not isinstance(x, _NUMBERS):
                x = self.originals[k] = np.array(x)  # a column of pandas or Polars
                kind = np.ndarray
            if (kind is np.ndarray and x.dtype.kind == "f" and x.ndim) or kind is float:
                x = leaf(x)
            elif isinstance(x, _NUMBERS):
                self.from_tensors |= isinstance(x, Tensor)
                x = vary(what, x, all(x is not args[n] for n in numbers))
            else:
                if not tree.is_immutable(x):
                    raise NotDifferentiableError(
                        f"`{what}` cannot look into an argument of type {kind.__name__}; pass numbers, "
                        "arrays, dicts, lists, tuples or dataclasses, or leave it out of argnums"
                    )
                static.append(True)
                fresh.append(x)
                continue
            if kind is not float and kind is not complex:
                self.from_python = False
            static.append(False)
            rows.append(x.row)
            fresh.append(x)
        if not rows and not fixed:
            _check_something_varies(what, args, numbers)
        parts = self.structure.unflatten(fresh)
        for k, n in enumerate(numbers):
            self.args[n] = parts[k]
        self.oldest = rows[0].index if rows else 0
        self.record = False  # whether the last pull had to be recorded
        self.once = what == "grad"  # pulled once: what the rows captured may go

    def _find_points(self) -> None:
        """What is declared on a manifold is given as an array; its differentials are tangents."""
        self.points = points_in(self.structure, self.originals)
        if self.points:
            self.structure = plain_structure(self.structure)
            for k, point in self.points.items():
                self.from_tensors |= isinstance(point.x, Tensor)
                self.originals[k] = point.tangent_like

    def gradients(self, adjoints: Sequence[Any]) -> Sequence[Any]:
        """Adjoints of the fresh rows as gradients, which are Riemannian where a metric was declared."""
        if not self.points:
            return adjoints
        numbers = [k for k, static in enumerate(self.static) if not static]
        return [
            self.points[k].gradient(g) if g is not None and k in self.points else g
            for k, g in zip(numbers, adjoints, strict=True)
        ]

    def gather(self, outputs: Sequence[Tensor]) -> tuple[list[Row], bool]:
        """The rows between the fresh ones and `outputs`; and whether the solve must be recorded."""
        rows, older = ancestors([y.row for y in outputs if y.row is not None], self.oldest)
        older = older or any(r in rows and r.parents for r in self.rows)
        return rows, older or any(isinstance(y, Staged) for y in outputs)

    def pull(self, seeds: Sequence[tuple[Tensor, Any]]) -> list[Any]:
        """Back substitution from outputs to the fresh rows, recorded if somebody outside needs it.

        Whether somebody does shows when a row older than ours is met; the first try takes it that
        nobody does, which is the common case and the fast one.
        """
        self.record = False
        for row in self.rows:
            if row.parents:
                self.record = True
        pairs = []
        for y, s in seeds:
            if isinstance(y, Staged) or isinstance(s, Tensor):
                self.record = True
            if y.row is not None:
                pairs.append((y.row, s if type(y) is Tensor else _in_the_program(s, y)))
        if not self.record:
            try:
                return back_substitute(pairs, self.rows, oldest=self.oldest, free=self.once)
            except OuterRow:
                self.record = True
        rows, _ = ancestors([r for r, _ in pairs], self.oldest)
        reached = set(descendants(rows, self.rows))
        return back_substitute(pairs, self.rows, oldest=self.oldest, record=True, reached=reached)

    def finish(self) -> None:
        """This differentiation is over: what still holds on to its leaves sees constants."""
        for row in self.rows:
            if row.primitive is LEAF:
                row.saved = FINISHED

    def release(self, y: Any) -> Any:
        """A result as the caller should see it: without our rows unless an outer solve needs them."""
        if not isinstance(y, Tensor) or isinstance(y, Staged):
            return y
        if y.row is not None and self.gather([y])[1]:
            return y
        return self.released(y)

    def released(self, y: Any) -> Any:
        """A result that no outer solve needs: a Tensor without a row, an array of its own, a float."""
        if not isinstance(y, Tensor):
            return y
        v = y._v
        if isinstance(v, np.ndarray):
            v = v.copy()  # what rows captured, or the argument itself, is not the caller's to write
        if self.from_tensors:
            return wrap(v, None)
        if self.from_python and getattr(v, "shape", ()) == () and hasattr(v, "item"):
            return v.item()
        return v

    def like(self, values: Sequence[Any], kind: Callable[[Any, Any], Any] | None = None) -> Any:
        """Derivatives in the form of the chosen arguments; static leaves stand for themselves."""
        rest = iter(values)
        kind = kind or same_kind
        leaves = []
        for x, is_static in zip(self.originals, self.static, strict=True):
            leaves.append(x if is_static else kind(next(rest), x))
        parts = self.structure.unflatten(leaves)
        return parts[0] if self.single else parts


def _in_the_program(seed: Any, y: Tensor) -> Any:
    """A seed of a staged result is a constant of its Program, and so is what is made of it.

    Computed at once instead, the adjoint of a read of one entry would be captured as a whole array.
    """
    if not isinstance(seed, np.ndarray | np.generic):
        return seed
    recorder = y._v.recorder
    if not y._v.type.weak:
        return wrap(recorder.atom(seed), None)
    var = Var(y._v.type, recorder)  # a Python number, as y is
    recorder.order.append((var, seed))
    return wrap(var, None)


def _check_something_varies(what: str, args: Sequence[Any], numbers: Sequence[int]) -> None:
    """A model without parameters may be differentiated by them; a text is a mistake."""
    for n in numbers:
        if args[n] is None or tree.flatten(args[n])[0]:
            raise NotDifferentiableError(
                f"`{what}` needs numbers that vary, got the argument {reprlib.repr(args[n])}; pass numbers, "
                "arrays, or dicts, lists, tuples and dataclasses of them, or choose another argument by argnums"
            )


_NUMBERS = (Tensor, np.ndarray, np.generic, float, complex, int)


def vary(what: str, x: Any, in_container: bool = False) -> Tensor:
    """x as a Tensor with a fresh row."""
    if isinstance(x, Tensor):
        if x.dtype.kind not in "fc":
            raise not_smooth(what, x.dtype, in_container)
        return P.alias(x) if x.row is not None else wrap(x._v, leaf_row(x._v))
    if type(x) in (float, complex):
        return leaf(x)
    coerce(x)  # refuses matrices and masked arrays
    if isinstance(x, bool | int) or x.dtype.kind not in "fc":
        raise not_smooth(what, getattr(x, "dtype", type(x).__name__), in_container)
    return leaf(x[()])


def not_smooth(what: str, kind: Any, in_container: bool) -> NotDifferentiableError:
    advice = "Write 2.0 for 2, or x.astype(float), or leave the argument out of argnums"
    if in_container:
        advice += (
            ". Of a container, pass what shall vary apart from the rest; of a model with state (dropout, batch "
            "norm): bs.grad(lambda p: loss(model.replace(p)))(model.named_parameters())"
        )
    return NotDifferentiableError(
        f"`{what}` needs floating-point arguments, got {kind}: integers cannot vary smoothly. {advice}"
    )
