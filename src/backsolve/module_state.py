"""State among the attributes that a function changes: what modules that it closes over move at each call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import tree
from .changes import Changes, Missing, held, put
from .errors import ControlFlowError, TracedValueError
from .row import is_over
from .tensor import Staged, Tensor
from .trace import Recorder, innermost_region

Cells = Sequence[tuple[Any, str]]  # modules, each with the name of an attribute
MOST_TRIES = 100  # to find all that a region changes


def state_in(changes: Changes, recorders: Sequence[Recorder] = (), given: Any = ()) -> Cells:
    """What held an array before, or holds something traced now.

    Not what these recorders traced before, or what was given: that is in an argument's copy.
    """
    known = {id(x) for x in given}
    found = []
    for owner, name, before, now in changes.made():
        old, new = tree.flatten(before)[0], tree.flatten(now)[0]
        traced = [x for x in old if isinstance(x, Staged)]
        if any(x._v.recorder in recorders for x in traced) or any(id(x) in known for x in old):
            continue
        arrays = any(isinstance(x, np.ndarray | np.generic | Tensor) for x in old)
        if arrays or any(isinstance(x, Staged) for x in new):
            found.append((owner, name))
    return found


def refuse(cells: Cells, where: str, instead: str = "") -> None:
    """Where state cannot be taken out, if there is any."""
    if not cells:
        return
    names = ", ".join(map(_name, cells))
    raise TracedValueError(
        f"this function changes {names} of a module that it closes over, which cannot be put back {where}. "
        f"{instead}Take the module as an argument and return it: `def f(model, x): …; return y, model`, and "
        "call `y, model = f(model, x)`"
    )


def held_in(cells: Cells) -> list[Any]:
    return tree.map(plain, [held(*cell) for cell in cells])


def put_into(cells: Cells, values: Sequence[Any]) -> None:
    for (owner, name), value in zip(cells, values, strict=True):
        put(owner, name, value)


def plain(x: Any) -> Any:
    """A Tensor that nobody differentiates, as its array."""
    constant = isinstance(x, Tensor) and not isinstance(x, Staged)
    return x._v if constant and (x.row is None or is_over(x.row)) else x


def without_effect(f: Callable[..., Any], cells: Cells) -> Callable[..., Any]:
    """(what the cells hold, arguments) ↦ (f's result, what they hold then)."""

    def run(values: Sequence[Any], /, *args: Any, **kwargs: Any) -> tuple[Any, list[Any]]:
        before = [held(*cell) for cell in cells]
        put_into(cells, values)
        try:
            return f(*args, **kwargs), held_in(cells)
        finally:
            put_into(cells, before)

    return run


class Found(BaseException):
    """What functions of a region change that it does not carry yet. Not an Exception: users catch those."""

    def __init__(self, state: State, cells: Cells):
        super().__init__()
        self.state, self.cells = state, cells


class State:
    """What the functions of a region change, as one more input and one more result of theirs."""

    def __init__(self) -> None:
        self.cells: list[tuple[Any, str]] = []

    def held(self) -> dict[str, Any]:
        return self._named(held_in(self.cells))

    def _named(self, values: Sequence[Any]) -> dict[str, Any]:
        """By names that errors may say."""
        found: dict[str, Any] = {}
        for cell, value in zip(self.cells, values, strict=True):
            name, k = _name(cell), 1
            while name in found:
                k += 1
                name = f"{_name(cell)} ({k})"
            found[name] = value
        return found

    def put(self, values: dict[str, Any]) -> None:
        put_into(self.cells, list(values.values()))

    def pure(self, f: Callable[..., Any]) -> Callable[..., Any]:
        """(values, arguments) ↦ (f's result, values)."""

        def flat(*args: Any, **kwargs: Any) -> Any:
            """On copies of modules among the arguments, which are gone when it is looked what has changed."""
            leaves, structure = tree.flatten((args, kwargs))
            with Changes() as changes:
                leaves, structure = tree.flatten(_called(f, structure, leaves))
                self._look_at(changes)
            return structure.unflatten(leaves)

        run = without_effect(flat, self.cells)

        def named(values: dict[str, Any], /, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
            result, after = run(list(values.values()), *args, **kwargs)
            return result, self._named(after)

        named.__name__ = getattr(
            f, "__name__", named.__name__
        )  # of what is called, in errors and Programs
        return named

    def _look_at(self, changes: Changes) -> None:
        recorder = innermost_region()
        known = {(id(owner), name) for owner, name in self.cells}
        found = []
        for owner, name, before, _ in changes.made():
            traced = [x for x in tree.flatten(before)[0] if isinstance(x, Staged)]
            is_ours = any(x._v.recorder is recorder for x in traced)
            if not is_ours and (id(owner), name) not in known:
                found.append((owner, name))
        if found:
            raise Found(self, found)

    # ---- where there is none, what a loop carries stays as it is

    def joined(self, carry: Any, values: dict[str, Any]) -> Any:
        return (carry, values) if self.cells else carry

    def parted(self, joined: Any) -> tuple[Any, dict[str, Any]]:
        return joined if self.cells else (joined, {})

    def carried(self, body: Callable[..., Any]) -> Callable[..., Any]:
        """The body of a loop, whose last argument is what it carries."""
        pure = self.pure(body)

        def run(*args: Any) -> Any:
            carry, values = self.parted(args[-1])
            return self.joined(*pure(values, *args[:-1], carry))

        return run

    def asking(self, goes_on: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """The condition of a loop, which may read state but not change it."""

        def ask(carry: Any) -> Any:
            with Changes() as changes:
                truth = goes_on(carry)
                cells = [(owner, name) for owner, name, _, _ in changes.made()]
                if cells:
                    raise ControlFlowError(
                        f"the condition of a loop changes {', '.join(map(_name, cells))}; do that in its body"
                    )
            return truth

        run = without_effect(ask, self.cells)

        def test(joined: Any) -> Any:
            carry, values = self.parted(joined)
            return run(list(values.values()), carry)[0]

        return test


def _called(f: Callable[..., Any], structure: tree.Structure, leaves: Sequence[Any]) -> Any:
    args, kwargs = structure.unflatten(leaves)
    return f(*args, **kwargs)


def carrying(run: Callable[[State], Any], what: str = "") -> Any:
    """`run` with all the state that its functions turn out to change; the result and the values that it gives.

    If `what` is said, that cannot make attributes: it gives what it takes. NotImplemented is handed on.
    """
    state = State()
    for _ in range(MOST_TRIES):
        try:
            found = run(state)
        except Found as more:
            if more.state is not state:
                raise
            _refuse_new(what, more.cells)
            state.cells.extend(more.cells)
            continue
        if found is not NotImplemented:
            found, values = found
            state.put(values)
        return found
    raise ControlFlowError(
        "a function changes attributes of ever new objects, which staging cannot follow"
    )


def _refuse_new(what: str, cells: Cells) -> None:
    new = [cell for cell in cells if held(*cell) is Missing]
    if what and new:
        raise ControlFlowError(
            f"{what} makes {', '.join(map(_name, new))}, which is not there before; give it a first value of "
            "its type, before the compiled function is called or in the module's __init__"
        )


def _name(cell: tuple[Any, str]) -> str:
    return f"{type(cell[0]).__name__}.{cell[1]}"
