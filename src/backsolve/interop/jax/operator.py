"""A function of ours for one set of types, and what is made of it: its differential, both ways, and batches.

Each of these is an Operator again, so that derivatives and batches nest as deep as JAX nests them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ...backends.target import Target
from ...batch import evaluate_batched
from ...compiled.specialise import Specialised, specialise
from ...control import map as one_by_one
from ...errors import TracedValueError
from ...ir import Program, Type
from ...module_state import refuse
from ...trace import evaluate
from ..transformed import mapped, pulled, pushed, with_gradient
from .types import carried, is_inexact, narrowed

if TYPE_CHECKING:
    from .kept import Parts

Flat = Callable[..., Any]


class Operator:
    """`f(*values)`, staged on `types`; it is linear in its last `linear` arguments.

    JAX gives and gets the same types, but of 32 bits where it is not `wide`: `given` and `made`.

    One part of a function (kept.py) is differentiated as its `whole`, which does not take what was `kept`, and
    gives no more than the first of its results.
    """

    def __init__(
        self,
        f: Flat,
        types: Sequence[Type],
        backend: str,
        rounds: int,
        wide: bool,
        linear: int = 0,
        transpose: Any = None,
        made: Sequence[Type] | None = None,
        whole: Operator | None = None,
        kept: range = range(0),
    ):
        self._f, self.types = f, list(types)
        self.backend, self.rounds, self.wide = backend, rounds, wide
        self.linear = range(len(types) - linear, len(types))
        self._transpose = transpose
        self.whole, self.kept = whole or self, kept
        self._of_examples: tuple[Operator, tuple[bool, ...]] | None = None
        self._staged = _stage(f, self.types)
        self.given = [
            (carried if k in kept else narrowed)(t, wide) for k, t in enumerate(self.types)
        ]
        self.made = list(made or [narrowed(t, wide) for t in self._staged.outputs])
        self.out_structure = self._staged.out_structure
        self._derived: dict[Any, Any] = {}
        self.running: Any = None  # when JAX first runs it (running.py)

    @property
    def program(self) -> Program:
        return self._staged.program

    def _again(self, *values: Any) -> list[Any]:
        """The results once more, on values that vary; by f itself where that has derivatives of its own."""
        if self._staged.has_own_derivative:
            from ... import tree

            leaves, structure = tree.flatten(self._f(*values))
            return tree.without_fixed(structure, leaves)[0]
        return evaluate(self.program, values)

    @cached_property
    def smooth(self) -> list[int]:
        """The results that have derivatives."""
        return [j for j, t in enumerate(self.whole.made) if is_inexact(t)]

    @cached_property
    def arguments(self) -> list[int]:
        """The places of all but what was kept."""
        return [k for k in range(len(self.types)) if k not in self.kept]

    def _derive(self, key: Any, make: Callable[[], Any]) -> Any:
        if key not in self._derived:
            self._derived[key] = make()
        return self._derived[key]

    def push(self, places: tuple[int, ...]) -> Operator:
        """(arguments, differentials of those at `places`) ↦ differentials of the smooth results."""

        def transpose(undefined: Sequence[int], outs: Sequence[int]) -> Any:
            varying = tuple([places[k - len(self.types)] for k in undefined])
            pull = self.pull(varying, tuple([self.smooth[j] for j in outs]))
            return pull, range(len(self.types))

        seeds = [_strong(self.types[k]) for k in places]
        made = [_strong(self.made[j]) for j in self.smooth]
        return self._derive(
            ("push", places),
            lambda: self._made(
                pushed(self._again, places, self.smooth), seeds, made, len(places), transpose
            ),
        )

    def parts(self, places: tuple[int, ...]) -> Parts | None:
        """Two parts for derivatives by the arguments at `places`, where that pays: see kept.py."""
        from .kept import parted

        first_order = self.whole is self and not all(k in self.linear for k in places)
        if self.backend != "native" or not first_order or self.has_gradient(places):
            return None
        return self._derive(("parts", places), lambda: parted(self, places))

    def pull(self, places: tuple[int, ...], outs: tuple[int, ...]) -> Operator:
        """(arguments, adjoints of the results at `outs`) ↦ adjoints of the arguments at `places`."""
        pull = without_conjugation(pulled(self._again, places, outs), len(self.types))
        seeds = [_strong(self._staged.outputs[j]) for j in outs]
        made = [_strong(self.given[k]) for k in places]
        return self._derive(
            ("pull", places, outs), lambda: self._made(pull, seeds, made, len(outs))
        )

    def has_gradient(self, places: Sequence[int]) -> bool:
        """Whether one real number is to be differentiated by real ones, so that its gradient, computed with it,
        is all that is needed. With XLA's own operations a `while` would be bounded by that."""
        if self.whole is not self:
            return False
        if self._of_examples is not None:  # of each example, unless they share what varies
            one_of_them, flags = self._of_examples
            return all(flags[k] for k in places) and one_of_them.has_gradient(places)
        kinds = [self.types[k].dtype.kind for k in places]
        smooth = [self.made[j] for j in self.smooth]
        one = len(smooth) == 1 and not smooth[0].shape and smooth[0].dtype.kind == "f"
        return self.backend == "native" and one and all(kind == "f" for kind in kinds)

    def with_gradient(self, places: tuple[int, ...]) -> Operator:
        """The results, then the gradient of the one that is smooth, by the arguments at `places`."""
        (smooth,) = self.smooth
        if self._of_examples is not None:
            one_of_them, flags = self._of_examples
            return one_of_them.with_gradient(places).batched(flags, self.made[smooth].shape[0])

        made = [*self.made, *[_strong(self.given[k]) for k in places]]
        both = with_gradient(self._again, places)

        def run(*values: Any) -> list[Any]:
            results, gradient = both(*values)
            # a number that does not vary has none
            return [*results, *(gradient or [np.zeros_like(values[k]) for k in places])]

        return self._derive(("with gradient", places), lambda: self._made(run, [], made, 0))

    def _made(
        self, f: Flat, seeds: list[Type], made: list[Type], linear: int, transpose: Any = None
    ) -> Operator:
        types = [*self.types, *seeds]
        return Operator(f, types, self.backend, self.rounds, self.wide, linear, transpose, made)

    def transposed(
        self, undefined: Sequence[int], outs: Sequence[int]
    ) -> tuple[Operator, Sequence[int]]:
        """What takes adjoints of the results at `outs` to those of the linear arguments that are undefined; and
        the places of the arguments that it takes before them, of linear ones, too, which it does not need."""
        if self._transpose is not None:
            return self._transpose(undefined, outs)
        places = tuple([self.arguments.index(k) for k in undefined])
        return self.whole.pull(places, tuple(outs)), self.arguments

    def batched(self, flags: tuple[bool, ...], size: int) -> Operator:
        """The same for `size` examples: it comes first in results, and in arguments where `flags` say."""

        def in_turn(*values: Any) -> list[Any]:
            mapped = [v for v, flag in zip(values, flags, strict=True) if flag]

            def one(entries: Sequence[Any]) -> list[Any]:
                rest = iter(entries)
                return self._again(
                    *[next(rest) if flag else v for v, flag in zip(values, flags, strict=True)]
                )

            return one_by_one(one, mapped)

        def make() -> Operator:
            types = [
                _many(t, size) if flag else t for t, flag in zip(self.types, flags, strict=True)
            ]
            made = [_many(t, size) for t in self.made]
            one_by_one_is_less = self.backend == "native" and size and _has_regions(self.program)
            axes = tuple([0 if flag else None for flag in flags])
            numbers = any(flag and t.weak for t, flag in zip(self.types, flags, strict=True))
            if numbers and not self._staged.has_own_derivative:
                # as arrays they are not weak, and would widen what they meet
                f = lambda *values: evaluate_batched(self.program, values, flags, size)
            else:
                f = in_turn if one_by_one_is_less else mapped(self._again, axes)
            whole = None
            if self.whole is not self:
                whole = self.whole.batched(tuple([flags[k] for k in self.arguments]), size)
            many = Operator(
                *(f, types, self.backend, self.rounds, self.wide, len(self.linear), None, made),
                *(whole, self.kept),
            )
            many._of_examples = self, flags
            return many

        return self._derive(("batched", flags, size), make)


def _stage(f: Flat, types: list[Type]) -> Specialised:
    found = specialise(f, lambda values: (values, {}), types, Target("numpy"))
    if found is None:
        raise TracedValueError(
            "this function closes over a value that an enclosing transformation varies; pass it as an argument"
        )
    refuse(found.changed, "from inside of JAX")
    return found


def _strong(t: Type) -> Type:
    return Type(t.shape, t.dtype)


def _many(t: Type, size: int) -> Type:
    return replace(t, shape=(size, *t.shape), weak=False)


def without_conjugation(pull: Flat, count: int) -> Flat:
    """JAX pairs complex numbers without conjugation, we with it: what follows `count` values are seeds."""

    def run(*values: Any) -> list[Any]:
        seeds = [_conjugate(c) for c in values[count:]]
        return [_conjugate(y) for y in pull(*values[:count], *seeds)]

    return run


def _conjugate(y: Any) -> Any:
    return np.conj(y) if y.dtype.kind == "c" else y


def _has_regions(program: Program) -> bool:
    """Whether examples take loops and branches of their own: one after the other is less work then."""
    return any(e.primitive.holds_regions for e in program.equations)
