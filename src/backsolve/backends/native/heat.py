"""Which functions of a program matter: the others LLVM translates as they are, in a tenth of the time.

A program that works on large arrays has many small steps around few long ones. How often each instruction
runs can be told from the emitted code: loops end in a comparison with a number, or with an argument whose
number stands in a call. Of loops that nothing is known of, one inside another is not guessed at again:
as likely it is not run at all. Functions that hold less than a thousandth of all that runs are left alone,
and what many places call is not copied into them if calls do not matter.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator

from llvmlite import ir

from .functions import keep_apart

COLD = 1e-3  # of all instructions that run, in all functions together that are not optimised
CALLS = 3e-2  # the same, in calls of all functions together that are not copied into their callers
MANY = 4  # callers from which on copies take long
CALL = 50  # instructions that a call costs
LONG, VECTOR = 64, 4  # rounds from which on so many are done at once
COUNTING: dict[str, Callable[[float, float], float]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "and": lambda number, mask: number,  # rounded down
}
COMPARED: dict[str, Callable[[float, float], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}
TOGETHER = 4000  # instructions that are put into one function; beyond, those of a function of LARGE stay apart
LARGE = 200
GUESS = 32  # rounds of loops, and activations of a recursive function, that nothing tells of


def spare_work(module: ir.Module) -> None:
    """Tell LLVM where it need not optimise, and what to copy into its callers, before it looks at any."""
    heat = Heat(module)
    total = sum(heat.instructions.values())
    mine = {f: n for f, n in heat.instructions.items() if "alwaysinline" not in f.attributes}
    for function in _together(mine, COLD * total):
        keep_apart(function, as_it_is=True)
    many = [f for f in mine if len(heat.callers.get(f, ())) > MANY]
    for function in _together({f: CALL * heat.runs[f] for f in many}, CALLS * total):
        keep_apart(function)
    inside: dict[ir.Function, list[ir.Function]] = {}  # by the one caller
    for function in mine:
        callers = heat.callers.get(function, [])
        apart = "noinline" in function.attributes or function.linkage != "internal"
        if len(callers) == 1 and not apart and "optnone" not in callers[0].attributes:
            inside.setdefault(callers[0], []).append(function)
    for functions in inside.values():
        are_many = sum(map(_length, functions)) > TOGETHER
        for function in functions:
            if are_many and _length(function) >= LARGE and heat.runs.get(function, 0) <= 1:
                keep_apart(function)  # passes take more than twice as long over twice as much
            else:
                function.attributes.add("alwaysinline")  # else it would be optimised twice


def _length(function: ir.Function) -> int:
    return sum(len(block.instructions) for block in function.blocks)


def _together(costs: dict[ir.Function, float], most: float) -> Iterator[ir.Function]:
    """The cheapest functions, as many as cost no more than `most`."""
    for function in sorted(costs, key=lambda f: costs[f]):
        most -= costs[function]
        if most < 0:
            return
        yield function


class Heat:
    """How many instructions run in each function, about, when the program runs once."""

    def __init__(self, module: ir.Module):
        self.instructions: dict[ir.Function, float] = {}
        self.runs: dict[ir.Function, float] = {}
        self.guessed: dict[ir.Function, float] = {}  # of them, those that are a guess
        self.callers: dict[ir.Function, list[ir.Function]] = {}  # one for each call in the text
        self.numbers: dict[ir.Value, float] = {}  # what arguments are, summed over all runs
        self.recursive: set[ir.Function] = set()
        for function in self._callers_first(module):
            self._look_into(function)

    def _callers_first(self, module: ir.Module) -> list[ir.Function]:
        order: list[ir.Function] = []
        under_way: set[ir.Function] = set()
        seen: set[ir.Function] = set()

        def visit(function: ir.Function) -> None:
            seen.add(function)
            under_way.add(function)
            for block in function.blocks:
                for callee, _ in calls_in(block):
                    if callee in under_way:
                        self.recursive.add(callee)
                    elif callee not in seen:
                        visit(callee)
            under_way.discard(function)
            order.append(function)

        for function in module.functions:
            if function.linkage != "internal" and function.blocks and function not in seen:
                self.runs[function] = 1.0
                visit(function)
        return order[::-1]

    def _look_into(self, function: ir.Function) -> None:
        runs, guessed = self.runs.get(function, 0.0), self.guessed.get(function, 0.0)
        if function in self.recursive:
            runs = guessed = guessed + GUESS * (runs - guessed)
        often, unknown = self._rounds(function)
        self.instructions[function] = 0.0
        for block in function.blocks:
            known, more = often[block] * (runs - guessed), often[block] * guessed
            if block in unknown:
                known, more = 0.0, GUESS * known + more
            self.instructions[function] += (known + more) * len(block.instructions)
            for callee, args in calls_in(block):
                self.callers.setdefault(callee, []).append(function)
                self.runs[callee] = self.runs.get(callee, 0.0) + known + more
                self.guessed[callee] = self.guessed.get(callee, 0.0) + more
                for parameter, given in zip(callee.args, args, strict=True):
                    number = (known + more) * self._number(given)
                    self.numbers[parameter] = self.numbers.get(parameter, 0.0) + number

    def _rounds(self, function: ir.Function) -> tuple[dict[ir.Block, float], set[ir.Block]]:
        """How often each block runs in one activation, as far as is known; and those in other loops, too."""
        before: dict[ir.Block, list[ir.Block]] = {block: [] for block in function.blocks}
        for block in function.blocks:
            for target in targets(block):
                before[target].append(block)
        often, unknown = dict.fromkeys(function.blocks, 1.0), set[ir.Block]()
        loops = loops_in(function)
        for head, ends in loops.items():
            within = blocks_of_loop(head, ends, before)
            exits = [x for x in (*ends, head) if any(y not in within for y in targets(x))]
            rounds = max([self._compared_with(x) for x in exits], default=0)
            if not rounds > 0:
                unknown |= within
                continue
            innermost = not any(x in loops for x in within if x is not head)
            if rounds >= LONG and innermost and not any(list(calls_in(x)) for x in within):
                rounds /= VECTOR
            for block in within:
                often[block] *= rounds
        return often, unknown

    def _compared_with(self, block: ir.Block) -> float:
        """The number that a loop's condition compares with; 0 if nobody knows."""
        condition = block.terminator.operands[0]
        known = isinstance(condition, ir.instructions.ICMPInstr)
        return self._number(condition.operands[1]) if known else 0

    def _number(self, value: ir.Value) -> float:
        if isinstance(value, ir.Constant):
            return value.constant if type(value.constant) is int else 0
        if isinstance(value, ir.Argument) and self.runs.get(value.parent):
            return self.numbers.get(value, 0) / self.runs[value.parent]
        if isinstance(value, ir.instructions.SelectInstr):  # the smaller or the larger of two
            condition, *either = value.operands
            numbers = [*map(self._number, either)]
            if isinstance(condition, ir.instructions.ICMPInstr):
                holds = COMPARED[condition.op.lstrip("us")]
                taken = numbers[not holds(*map(self._number, condition.operands))]
                return taken or max(numbers)
            return max(numbers)
        if isinstance(value, ir.Instruction) and value.opname in COUNTING:
            return COUNTING[value.opname](*map(self._number, value.operands))
        return 0


def targets(block: ir.Block) -> list[ir.Block]:
    return [x for x in block.terminator.operands if isinstance(x, ir.Block)]


def loops_in(function: ir.Function) -> dict[ir.Block, list[ir.Block]]:
    """The first block of every loop, and those that jump back to it."""
    found: dict[ir.Block, list[ir.Block]] = {}
    first = function.blocks[0]
    under_way, seen = {first: None}, {first}
    paths = [(first, iter(targets(first)))]
    while paths:
        block, rest = paths[-1]
        target = next(rest, None)
        if target is None:
            del under_way[block]
            paths.pop()
        elif target in under_way:
            found.setdefault(target, []).append(block)
        elif target not in seen:
            seen.add(target)
            under_way[target] = None
            paths.append((target, iter(targets(target))))
    return found


def blocks_of_loop(
    head: ir.Block, ends: list[ir.Block], before: dict[ir.Block, list[ir.Block]]
) -> set[ir.Block]:
    """Those from which its ends are reached without passing its head."""
    found, waiting = {head}, list(ends)
    while waiting:
        block = waiting.pop()
        if block not in found:
            found.add(block)
            waiting += before[block]
    return found


def calls_in(block: ir.Block) -> Iterator[tuple[ir.Function, list[ir.Value]]]:
    """The module's own functions that a block calls, directly or by having threads call them."""
    for instruction in block.instructions:
        if not isinstance(instruction, ir.instructions.CallInstr):
            continue
        callee, args = instruction.callee, list(instruction.args)
        if isinstance(callee, ir.Function) and callee.blocks:
            yield callee, args
        elif args and isinstance(args[0], ir.Function) and args[0].blocks:
            body, context, count, _ = args
            yield body, [context, ir.Constant(count.type, 0), count, ir.Constant(count.type, 0)]
