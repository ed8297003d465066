"""Programs as JAX functions, equation by equation. JAX records what is done here and compiles it as one.

What fails while compiled code runs (an index, an assertion, a singular matrix) cannot be raised there: a
program carries one number, which failure came first, and it is read when the program has run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from ...errors import BackendError
from ...ir import Equation, Program, Var, type_of
from ...primitives.checks import code_of, exception_of
from ...regions import Callee
from .adding import with_reads_first, with_sums_in_place, written
from .callees import Callees, Step, outputs_of
from .convolutions import joined
from .kinks import with_truths_again
from .known import array_of, known_inside
from .lines import Lines
from .rows import ROWS
from .rows.elsewhere import FailedOnHostError, call_elsewhere
from .search import Joined

Failures = dict[int, tuple[type[Exception], str]]  # by number

HALF = np.dtype(np.float16)


class Machine:
    """One translation: what may fail in it, and which choices hold for all of it."""

    def __init__(
        self,
        unsafe: bool,
        capacity: int,
        precision: Any,
        half: str = "float16",
        on_gpu: bool = False,
        failures: Failures | None = None,
        raised: list[Exception] | None = None,
    ) -> None:
        self.unsafe, self.on_gpu = unsafe, on_gpu
        self.half = jnp.dtype(half)  # what the float16 of a Program is here
        self.precision = precision  # of products, as JAX calls it
        self.capacity = capacity  # entries that a stack can hold (regions.py)
        self.failures = {} if failures is None else failures
        self.raised = [] if raised is None else raised  # on the host, by rows that run there
        self.elsewhere: list[str] = []  # rows that run on the host
        self.has_stacks = False
        # the number of the first failure so far; None while nothing can have failed
        self.failure: Any = None
        self.doubtful: set[Var] = set()  # what is made of something that can have failed
        self.needed: Any = None  # the most entries that a stack should have held
        self.attentions: dict[Any, Any] = {}  # that several equations share (rows/networks.py)
        self._numbers: dict[Var, Any] = {}  # constants whose values are known here
        self.written: set[Var] = set()  # arrays that a round of a loop writes in places (adding.py)
        self._after: dict[Var, Any] = {}  # zeros that are known when these have been read
        self.callees: Callees | None = None  # of the whole program

    def run(
        self,
        program: Program,
        args: Sequence[Any],
        constants: Sequence[Any] | None = None,
        in_loop: bool = False,
    ) -> list[Any]:
        """The outputs of a program for values of JAX's; stacks are Stacks."""
        if self.callees is None:
            self.callees = Callees(program)
            self._numbers = known_inside(program)
        values: dict[Var, Any] = {}
        for v, a in zip(program.inputs, args, strict=True):
            values[v] = a.astype(self.half) if v.type.dtype == HALF and not v.type.is_stack else a
        if constants is None:
            constants = [array_of(c) for _, c in program.constants]
        for (v, c), value in zip(program.constants, constants, strict=True):
            values[v] = value.astype(self.half) if v.dtype == HALF else value
            self._numbers[v] = array_of(c)
        lines = Lines(self)
        steps = with_sums_in_place(program, joined(program))
        if self.on_gpu:  # where kernels are fused, and decide what is kept
            steps = with_truths_again(program, steps)
        outside = self.written, self._after
        self.written, self._after = set(), {}
        if in_loop and not self.on_gpu:  # where conditionals wait for the host
            self.written = written(steps)
            steps = with_reads_first(steps, self.written)
        groups = [[p] for p in enumerate(steps)] if self.written else self.callees.in_groups(steps)
        first, failures = self.failure, {}
        for group in groups:
            if len(group) > 1:
                failures.update(self._calls(group, values))
                continue
            ((k, e),) = group
            inputs = [values[a] if type(a) is Var else a for a in e.inputs]
            self.failure = None
            if isinstance(e, Joined):
                y = e.run(self, *map(jnp.asarray, inputs))
                values[e.output] = self._fitting(y, e.output, "a joined equation")
            else:
                values.update(zip(e.outputs, self.equation(e, inputs), strict=True))
                lines.follow(e, inputs, values)
            failures[k] = self.failure
            self._doubt(e, self.failure)
        self.failure = first
        for k in sorted(failures):  # as the program has them, whatever the order here
            if failures[k] is not None:
                self.note(failures[k])
        self.written, self._after = outside
        return [
            values[a] if type(a) is Var else jnp.asarray(a, self.dtype(type_of(a)))
            for a in program.outputs
        ]

    def _doubt(self, e: Step, failure: Any) -> None:
        if failure is not None or any(type(a) is Var and a in self.doubtful for a in e.inputs):
            self.doubtful.update(outputs_of(e))

    def _calls(self, group: Sequence[tuple[int, Any]], values: dict[Var, Any]) -> dict[int, Any]:
        """Calls of the same, none of which waits for another: failures by place."""
        from .regions import calls

        inputs = [[values[a] if type(a) is Var else a for a in e.inputs] for _, e in group]
        failures = {}
        made = calls(self, group[0][1].params["region"], inputs)
        for (k, e), (results, failure, _) in zip(group, made, strict=True):
            values.update(zip(e.outputs, results, strict=True))
            failures[k] = failure
            self._doubt(e, failure)
        return failures

    def equation(self, e: Equation, inputs: Sequence[Any]) -> Sequence[Any]:
        if e.primitive.holds_regions:
            from .regions import REGIONS

            return REGIONS[e.primitive.name](self, e, inputs)
        row = ROWS.get(e.primitive.name)
        y = row(self, e, inputs) if row is not None else NotImplemented
        if y is NotImplemented:
            self.elsewhere.append(e.primitive.name)
            y = call_elsewhere(self, e, inputs)
        return [self._fitting(jnp.asarray(y), e.outputs[0], e.primitive.name)]

    def _fitting(self, y: Any, out: Var, name: str) -> Any:
        assert y.shape == out.shape, f"{name} made {y.shape}, should be {out.shape}"
        return y if y.dtype == self.dtype(out) else y.astype(self.dtype(out))

    def dtype(self, t: Any) -> Any:
        """What the numbers of a Type or a Var are on the device."""
        return self.half if t.dtype == HALF else t.dtype

    def number(self, a: Any) -> Any:
        """The value of an input if it is known while translating, else None."""
        return self._numbers.get(a) if type(a) is Var else a

    def note_reading(self, a: Var, zero: Any) -> None:
        """A zero that is known when an entry of `a` has been read."""
        self._after[a] = zero + self.after_reading(a)

    def after_reading(self, a: Any) -> Any:
        """0, known when all is read of `a` that was read so far: what is added to a place to write to."""
        return self._after.get(a, 0)

    # ---- failures

    def fail_if(self, condition: Any, kind: type[Exception], message: str, where: str = "") -> None:
        """Note that a run failed where `condition`, one truth, holds."""
        said = f"{message}, at {where}" if where else message
        code = code_of(kind.__name__, said)
        self.failures[code] = kind, said
        self.note(jnp.where(condition, jnp.int64(code), jnp.int64(0)))

    def may_fail(self, messages: Any) -> None:
        """The numbers of assertions, as `check` has them."""
        self.failures.update((k, (exception_of(kind), said)) for k, (kind, said) in messages)

    def note(self, code: Any) -> None:
        """A number that is not 0 if something failed; what failed first counts."""
        code = jnp.asarray(code, jnp.int64)
        first = self.failure
        self.failure = code if first is None else jnp.where(first != 0, first, code)

    def error(self, number: int) -> Exception:
        """What a failure of this number is raised as."""
        return error_of(self.failures, self.raised, number)

    def need(self, entries: Any) -> None:
        self.has_stacks = True
        self.needed = entries if self.needed is None else jnp.maximum(self.needed, entries)

    def alone(self, run: Any) -> tuple[Any, Any, Any]:
        """run(), the failure inside it and the entries that its stacks needed; None where there can be none."""
        outside = self.failure, self.needed
        self.failure = self.needed = None
        try:
            return run(), self.failure, self.needed
        finally:
            self.failure, self.needed = outside

    def apart(self, run: Any) -> tuple[Any, Any, Any]:
        """The same, as numbers in any case."""
        result, *inside = self.alone(run)
        zero = jnp.int64(0)
        return result, *[zero if x is None else x for x in inside]


def error_of(failures: Failures, raised: list[Exception], number: int) -> Exception:
    kind, said = failures[number]
    kept = list(raised)
    raised.clear()
    return kept[0] if kept and kind is FailedOnHostError else kind(said)


def refuse_recursion(callee: Callee, where: str) -> None:
    if callee.is_recursive or callee.program is None:
        raise BackendError(
            f"XLA has no calls that return to where they came from: `{callee.plain_name}` calls itself. "
            'Write it as a loop, or compile it with backend="native"',
            at=callee.where or where,
        )
