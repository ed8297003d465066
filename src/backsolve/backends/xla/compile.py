"""A Program compiled for a device: called with arrays of NumPy's or JAX's, it gives JAX's, which stay there."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ...errors import BackendError, DTypeError
from ...ir import Equation, Program, Type, Var, type_of
from ...primitives.checks import CHECK
from ...regions import Callee
from ..target import Placed, Target
from .constants import Brought
from .gather import with_whole
from .library import array_type, device_of, explained, is_array, jax, wide
from .machine import HALF, Failures, Machine, error_of, refuse_recursion
from .options import compiler_options
from .pending import Trail, look

_FIRST_CAPACITY = 128  # entries of a stack, before a run tells how many it needs
_WEAK = {"b": bool, "i": int, "f": float, "c": complex}


@dataclass(eq=False)
class _Code:
    """A Program translated for stacks of one capacity."""

    capacity: int
    constants: list[Any]  # the large ones, brought to the device once
    # ((constants, number of a failure before), *leaves) -> results, failure's number, entries stacks needed;
    # results alone, one of them bare, if it is plain
    run: Any = None
    is_plain: bool = False  # it cannot fail and has no stacks: known when it has been translated
    failures: Failures = field(default_factory=dict)
    raised: list[Exception] = field(default_factory=list)  # on the host, by rows that run there
    elsewhere: list[str] = field(default_factory=list)  # rows that run on the host
    hurries: bool = False  # results are NaN if it fails, so the failure may be looked at later
    trail: Trail | None = None  # of runs that may hurry

    def before(self) -> Any:
        """The number of a failure before the next run, where runs may hurry."""
        return None if self.trail is None else self.trail.before()

    def start(self, leaves: Sequence[Any]) -> tuple[Any, Any, Any]:
        before = self.before()
        found = self.run((self.constants, before), *leaves)
        if self.is_plain:
            return found if type(found) is tuple else (found,), None, None
        if self.trail is not None and self.hurries:
            self.trail.after(before, found[1])
        return found

    def error(self, number: int) -> Exception:
        return error_of(self.failures, self.raised, number)


class Compiled:
    """`call(*leaves)` gives the outputs, one alone bare; NotImplemented for leaves of other types."""

    def __init__(
        self,
        program: Program,
        target: Target,
        donated: tuple[int, ...],
        unsafe: bool,
        placed: Placed | None = None,
    ) -> None:
        self._program, self._target = program, target
        self._unsafe, self._places = unsafe, placed
        self._types = [v.type for v in program.inputs]
        self._given = [_Given.of(t, target.half) for t in self._types]
        self._arrays = array_type()
        self._seen: list[Any] = [None for _ in self._given]  # types of the latest call
        # Stacks may turn out too small: then the arguments are needed once more.
        made = [v for e in equations(program, set()) for v in e.outputs]
        _refuse_wide([*self._types, *[v.type for v in made]])
        self._may_run_again = any(v.type.is_stack for v in made)
        self._has_halves = HALF in {t.dtype for t in [*self._types, *[v.type for v in made]]}
        self._given_away = () if self._may_run_again else _of_use(program, donated)
        self._numbers = [k for k, a in enumerate(program.outputs) if type_of(a).weak]
        self._device = device_of(target.device)
        self._constants = [Brought.of(c, v.shape) for v, c in program.constants]
        self._code: _Code | None = None  # for the largest capacity that was needed so far
        self._lock = threading.Lock()
        self.calls = 0

    def call(self, *leaves: Any) -> Any:
        if not self._fit(leaves):
            _refuse_bfloat16(leaves, self._target.half)
            return NotImplemented
        self.calls += 1
        look()
        with wide():
            code = self._code or self._coded(_FIRST_CAPACITY)
            if self._places is not None:
                leaves = tuple(self._places.put(leaves))
            if self._given_away:
                leaves = _apart(leaves, self._given_away)
            try:
                if code.is_plain and not self._numbers:
                    return code.run((code.constants, code.before()), *leaves)
                code, results, failure = self._run(code, leaves)
            except (ValueError, RuntimeError) as error:
                known = explained(error, leaves)
                if known is None:
                    raise
                raise known from error
        if not code.hurries and failure is not None and (number := int(failure)):
            raise code.error(number)
        if self._numbers:
            parts = [y.item() if k in self._numbers else y for k, y in enumerate(results)]
            results = tuple(parts)
        return results if len(results) != 1 else results[0]

    def _fit(self, leaves: Sequence[Any]) -> bool:
        """Whether they are what was compiled for; of JAX's arrays most are of a type that was just seen."""
        if len(leaves) != len(self._given):
            return False
        seen, arrays = self._seen, self._arrays
        for k, a in enumerate(leaves):
            is_array = type(a) is arrays
            if is_array and a.aval is seen[k]:
                continue
            if not _fits(a, self._given[k]):
                return False
            if is_array:
                seen[k] = a.aval
        return True

    def _run(self, code: _Code, leaves: Sequence[Any]) -> tuple[_Code, Any, Any]:
        """Results and the number of a failure; code with more capacity, where stacks needed it."""
        results, failure, needed = code.start(leaves)
        while needed is not None and (entries := int(needed)) > code.capacity:
            code = self._coded(1 << (entries - 1).bit_length())
            results, failure, needed = code.start(leaves)
        return code, results, failure

    def _coded(self, capacity: int) -> _Code:
        """What is compiled for stacks of this capacity; calls go there from now on."""
        with self._lock:
            if self._code is None or self._code.capacity < capacity:
                self._code = self._build(capacity)
            return self._code

    def _build(self, capacity: int) -> _Code:
        exact = self._target.precision == "highest"
        precision = jax().lax.Precision.HIGHEST if exact else jax().lax.Precision.DEFAULT
        places = self._places
        kind = jax().default_backend() if self._device is None else self._device.platform
        if places is not None:
            kind = next(iter(places.whole.device_set)).platform
        choices = (self._target.half, kind in ("gpu", "cuda"))
        # Processes that share a mesh have to fail at the same call, and stacks are looked at anyway.
        alone = places is None and not self._may_run_again
        may_hurry = kind != "cpu" and alone
        large = [c.array for c in self._constants if c.is_large]
        there = self._device if places is None else places.whole
        code = _Code(capacity, [jax().device_put(c, there) for c in large])
        if may_hurry:
            is_one = self._device is not None or len(jax().devices()) == 1
            code.trail = Trail(jax().device_put(np.int64(0), there), code.error, is_one)
        split = [] if places is None else [k for k in range(len(self._types)) if places.used(k)]
        program, used = with_whole(self._program, split) if split else (self._program, [])

        def whole(args: Sequence[Any], k: int) -> Any:
            assert places is not None
            return jax().lax.with_sharding_constraint(args[k], places.used(k))

        def run(held: tuple[Sequence[Any], Any], *args: Any) -> Any:
            """May be translated several times, and by several threads."""
            large, before = held
            rest = iter(large)
            constants = [c.whole(next(rest) if c.is_large else c.array) for c in self._constants]
            machine = Machine(
                self._unsafe, capacity, precision, *choices, code.failures, code.raised
            )
            results = machine.run(program, [*args, *[whole(args, k) for k in used]], constants)
            code.elsewhere = machine.elsewhere
            failure = machine.failure
            code.hurries = (
                may_hurry
                and failure is not None
                and not machine.elsewhere
                and _tells_failures(program, machine)
            )
            if code.hurries:
                results = [
                    _nan_if(failure != 0, y) if _can_be_nan(a) else y
                    for a, y in zip(program.outputs, results, strict=True)
                ]
                failure = jax().numpy.where(before != 0, before, failure)
            code.is_plain = places is None and failure is None and machine.needed is None
            if code.is_plain:
                return results[0] if len(results) == 1 else tuple(results)
            return tuple(results), failure, machine.needed

        options: dict[str, Any] = {}
        if self._device is not None:
            alone = jax().sharding.SingleDeviceSharding(self._device)
            options["in_shardings"] = options["out_shardings"] = alone
        if places is not None:
            results = None if places.results is None else tuple(places.results)
            options["out_shardings"] = (results, places.whole, places.whole)
        told = compiler_options(program, kind, self._has_halves)
        if told:
            options["compiler_options"] = told
        if self._given_away:
            options["donate_argnums"] = [k + 1 for k in self._given_away]
        code.run = jax().jit(run, **options)
        return code

    # ---- to be looked at

    @property
    def stages(self) -> dict[str, Callable[[], str]]:
        return {
            "stablehlo": lambda: self._lowered().as_text(),
            "hlo": lambda: self._lowered().compile().as_text(),
        }

    def _lowered(self) -> Any:
        with wide():
            code = self._code or self._coded(_FIRST_CAPACITY)
            half = jax().numpy.dtype(self._target.half)
            at = self._places.argument if self._places is not None else lambda k: None
            structs = [
                jax().ShapeDtypeStruct(
                    t.shape, half if t.dtype == HALF else t.dtype, sharding=at(k)
                )
                for k, t in enumerate(self._types)
            ]
            return code.run.lower((code.constants, code.before()), *structs)

    @property
    def stats(self) -> dict[str, Any]:
        elsewhere = self._code.elsewhere if self._code else []
        return {
            "code": "xla",
            "elsewhere": len(elsewhere),
            "rows_elsewhere": sorted(set(elsewhere)),
        }


def compile_program(
    program: Program,
    target: Target,
    donated: tuple[int, ...] = (),
    unsafe: bool = False,
    placed: Placed | None = None,
) -> Compiled:
    return Compiled(program, target, donated, unsafe, placed)


def _can_be_nan(a: Any) -> bool:
    t = type_of(a)
    return t.dtype.kind in "fc" and not t.weak


def _tells_failures(program: Program, machine: Machine) -> bool:
    """Whether each result is NaN in a run that failed or, such as a count of steps, right even then."""
    doubtful = machine.doubtful | beside_assertions(program)
    return all(
        _can_be_nan(a) or not (type_of(a).weak or (type(a) is Var and a in doubtful))
        for a in program.outputs
    )


def _nan_if(failed: Any, y: Any) -> Any:
    return jax().numpy.where(failed, jax().numpy.asarray(np.nan, y.dtype), y)


class _Given(NamedTuple):
    """What an input has to be, for the question that every call asks about each of them."""

    shape: tuple[int, ...]
    dtypes: tuple[np.dtype[Any], ...]  # float16 may be bfloat16 on the device, if that is chosen
    weak: type | None  # of a Python number
    arrays: tuple[type, ...]

    @staticmethod
    def of(t: Type, half: str) -> _Given:
        if t.weak:
            return _Given((), (), _WEAK[t.dtype.kind], ())
        dtypes = (t.dtype, jax().numpy.dtype(half)) if t.dtype == HALF else (t.dtype,)
        return _Given(t.shape, dtypes, None, (np.ndarray, array_type(), t.dtype.type))


def _fits(a: Any, t: _Given) -> bool:
    if t.weak is not None:
        return type(a) is t.weak
    return type(a) in t.arrays and a.dtype in t.dtypes and a.shape == t.shape


def _refuse_bfloat16(leaves: Sequence[Any], half: str) -> None:
    """As float16, numbers above 65,504 would be infinite."""
    if half != "bfloat16" and any(is_array(a) and a.dtype.name == "bfloat16" for a in leaves):
        raise DTypeError(
            'an array of bfloat16 goes into a function of float16: compile it with half="bfloat16", or give '
            "x.astype(np.float32)"
        )


def _refuse_wide(types: Sequence[Type]) -> None:
    for t in types:
        if t.dtype.char in "gG":
            raise BackendError(
                f"XLA has no numbers of type {t.dtype}: use x.astype(np.float64) or np.complex128, or compile "
                'with backend="numpy"'
            )


def _of_use(program: Program, donated: Sequence[int]) -> tuple[int, ...]:
    """Those donated inputs of whose type there is a result for each."""
    free = Counter([(t.shape, t.dtype) for t in map(type_of, program.outputs)])
    found = []
    for k in donated:
        t = program.inputs[k].type
        if free[t.shape, t.dtype] and not t.weak:
            free[t.shape, t.dtype] -= 1
            found.append(k)
    return tuple(found)


def _apart(leaves: tuple[Any, ...], donated: Sequence[int]) -> tuple[Any, ...]:
    """What is given away and is another argument, too, is copied before."""
    ids = Counter(map(id, leaves))
    if len(ids) == len(leaves):
        return leaves
    apart = list(leaves)
    for k in donated:
        if ids[id(leaves[k])] > 1:
            apart[k] = jax().numpy.copy(leaves[k])
    return tuple(apart)


def equations(program: Program, seen: set[Callee]) -> Iterator[Equation]:
    """All equations of a Program, of the regions in it and of what it calls, which may not be itself."""
    for e in program.equations:
        yield e
        if e.primitive.holds_regions:
            yield from _inside(e, seen)


def _inside(e: Equation, seen: set[Callee]) -> Iterator[Equation]:
    region = e.params["region"]
    for inner in region.programs():
        yield from equations(inner, seen)
    if isinstance(region, Callee) and region not in seen:
        seen.add(region)
        refuse_recursion(region, e.where)
        assert region.program is not None
        yield from equations(region.program, seen)


def _asserts(e: Equation) -> bool:
    if e.primitive.holds_regions:
        return any(inner.primitive is CHECK for inner in _inside(e, set()))
    return e.primitive is CHECK


def beside_assertions(program: Program) -> set[Var]:
    """What is made of an input that an assertion looks at: worth nothing where that fails."""
    seen: set[Var] = set()
    for e in reversed(program.equations):
        if not seen.isdisjoint(e.outputs) or _asserts(e):
            seen.update(a for a in e.inputs if type(a) is Var)
    beside = seen.intersection(program.inputs)
    for e in program.equations:
        if any(type(a) is Var and a in beside for a in e.inputs):
            beside.update(e.outputs)
    return beside
