"""`bs.checkpoint` in a Program that is being recorded: a call computed again, wholly or as a plan says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

from .. import tree
from ..ir import Equation, Program
from ..joint import record_joint
from ..operators import Custom
from ..primitive import FUNCTIONS, wrap
from ..primitives.control import CALL
from ..regions import Callee, Loop
from ..solve.budget import ChainReport, Report
from ..solve.reversal import raw, row_of
from ..solve.revolve import Binomial
from ..tensor import Staged, Tensor
from ..trace import evaluate, innermost_region
from .derive import pairs_of
from .pieces import LITTLE, Limit, bytes_of, limit, programs_of, within_limit
from .reach import reach
from .regions import Form, Region, outer_recorder, type_of_leaf, varies_outside
from .reversed_call import reversed_call
from .segments import SegmentedCall, Values, planned, with_limits, without_limits

FEW = 256  # bytes


def functions_staged(
    functions: Sequence[Callable[..., Any]], slots: int, report: Report, args: Any, kwargs: Any
) -> Any:
    """A sequence of functions with a number of slots, by the best schedule for it."""
    chain = ChainReport("functions", len(functions), slots)
    report.chains.append(chain)
    forms = {0: Form.of_arguments(args, kwargs)}

    def step(k: int) -> Callable[[Values], list[Any]]:
        def run(values: Values) -> list[Any]:
            given = forms[k].filled(values)
            result = functions[k](*given[0], **given[1]) if k == 0 else functions[k](given)
            forms[k + 1] = Form.of(result)
            return forms[k + 1].taken()

        return run

    steps = [step(k) for k in range(len(functions))]
    found = planned(steps, Binomial(slots), chain, forms[0].taken())
    return forms[len(functions)].filled(found)


def checkpoint_staged(
    f: Callable[..., Any],
    memory: int | None,
    report: Report | None,
    args: Any,
    kwargs: Any,
    carried: int = 0,
) -> Any:
    """A call that is computed again; with a budget, loops that keep to it, or a call that does.

    The first leaves of `args` are state that it carries.
    """
    given = Form.of_arguments(args, kwargs, carried)
    return _Recorded(f, memory, report, given).called()


def program_staged(program: Program, values: Values, memory: int, report: Report) -> list[Any]:
    """What a Program that was recorded without a budget gives, within one."""
    limited = with_limits(program, Limit(memory, report))
    found: list[Any] = checkpoint_staged(
        lambda *xs: evaluate(limited, xs), memory, report, tuple(values), {}
    )
    return found


def checkpoint_known(
    f: Callable[..., Any], memory: int | None, report: Report | None, args: Any, kwargs: Any
) -> Any:
    """The same of known arguments, where what f closes over may be staged; f runs once.

    NotImplemented if it is not, and there is more to differentiate or to record than a result that is known.
    """
    leaves, structure = tree.flatten((args, kwargs))
    found = _Recorded(f, memory, report, Form(structure, leaves))
    results = found.form.taken()
    if any(isinstance(y, Staged) for y in results):
        return found.called()
    is_plain = not found.region.program.equations and not any(map(row_of, results))
    return found.form.filled(results) if is_plain else NotImplemented


class _Recorded:
    """f as a region of those of its arguments that are values of a form; the others are as they are."""

    def __init__(
        self, f: Callable[..., Any], memory: int | None, report: Report | None, given: Form
    ):
        self.name = getattr(f, "__name__", "f")
        around = limit()
        share = 1
        if around is not None and memory is not None and around.memory < memory:
            memory, share = around.memory, around.share
        self.memory, self.report = memory, report

        def flat(*values: Any) -> list[Any]:
            args, kwargs = given.filled(values)
            self.form = Form.of(f(*args, **kwargs))
            return self.form.taken()

        values = given.taken()
        outer = innermost_region() or outer_recorder(values)
        with nullcontext() if memory is None else within_limit(Limit(memory, report, share)):
            self.region = Region(flat, [type_of_leaf(x) for x in values], outer)
        self.args = [*values, *self.region.captured]

    def called(self) -> Any:
        program = self.region.with_inputs(self.region.variables)
        if not program.equations:
            return self._filled(evaluate(program, self.args))
        if self.memory is None:
            callee = Callee(self.name, self.region.outputs, program, recompute=True)
            return self._filled(CALL(*self.args, region=callee))
        if _is_one_loop(program, self.memory):
            return self._filled(evaluate(program, self.args))
        whole = without_limits(program)
        callee = Callee(
            self.name, self.region.outputs, whole, memory=self.memory, report=self.report
        )
        # If its derivative will be asked for here, nothing runs ahead of the plan.
        if any(map(row_of, self.args)) and not varies_outside(self.args):
            return self._filled(_in_budget(callee, self.args))
        return self._filled(CALL(*self.args, region=callee))

    def _filled(self, found: list[Any]) -> Any:
        return self.form.filled(self.region.results(found))


def _is_one_loop(program: Program, memory: int) -> bool:
    """Whether one loop (or recursion) stores nearly all, be it in a branch: it keeps to the budget itself."""
    others = [e for e in program.equations if not e.primitive.holds_regions]
    made = sum(bytes_of(e.outputs) for e in others)
    is_little = made <= max(memory / LITTLE, FEW)
    return is_little and sum(map(_holds_loops, program.equations)) == 1


def _holds_loops(e: Equation) -> bool:
    region = e.params.get("region")
    if isinstance(region, Loop) or (isinstance(region, Callee) and region.is_recursive):
        return True
    return any(_holds_loops(x) for p in programs_of(region) for x in p.equations)


def _in_budget(callee: Callee, args: Values) -> list[Any]:
    """A call whose derivative will be asked for: it is run by the plan at once, not once before."""
    assert callee.program is not None
    places = [k for k, x in enumerate(args) if row_of(x) is not None]
    varies = reach(callee.program, [k in places for k in range(len(args))])
    done = SegmentedCall(callee, args, places, varies)

    def operator_of(values: Sequence[Any], record: bool) -> Custom:
        mine = [x if isinstance(x, Tensor) else wrap(x, None) for x in values]
        pairs = pairs_of(callee, args, places)

        def push(ts: Sequence[Any]) -> tuple[Any, ...]:
            return tuple(pairs(mine, ts)[1])

        def pull(cts: Sequence[Any]) -> tuple[Any, ...]:
            return reversed_call(f"{callee.name}, reversed", mine, cts, done.pull(cts), pairs)

        return Custom(push, pull, name=callee.name)

    inputs, rows = [raw(args[k]) for k in places], [row_of(args[k]) for k in places]
    made = record_joint(callee.name, operator_of, inputs, rows, [*map(raw, done.outputs)])
    return [y if flag else wrap(raw(y), None) for y, flag in zip(made, varies, strict=True)]


FUNCTIONS["checkpoint_staged"] = checkpoint_staged
FUNCTIONS["checkpoint_known"] = checkpoint_known
FUNCTIONS["functions_staged"] = functions_staged
