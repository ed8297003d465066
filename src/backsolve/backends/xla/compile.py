"""A Program compiled for a device: called with arrays of NumPy's or JAX's, it gives JAX's, which stay there."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ...ir import Equation, Program, Type
from ...regions import Callee
from ..target import Placed, Target
from .gather import with_whole
from .library import device_of, is_array, jax, wide
from .machine import HALF, Machine, refuse_recursion

_FIRST_CAPACITY = 128  # entries of a stack, before a run tells how many it needs
_LITERAL = 1 << 12  # bytes of a constant that is written into the code
_WEAK = {"b": bool, "i": int, "f": float, "c": complex}


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
        self._donated, self._unsafe, self._places = donated, unsafe, placed
        self._types = [v.type for v in program.inputs]
        # Stacks may turn out too small: then the arguments are needed once more.
        made = [v for e in equations(program, set()) for v in e.outputs]
        self._may_run_again = any(v.type.is_stack for v in made)
        self._device = device_of(target.device)
        self._constants = [_raw(c) for _, c in program.constants]
        self._placed: list[Any] | None = None
        self._capacity = _FIRST_CAPACITY
        self._built: dict[int, tuple[Any, Machine]] = {}
        self._lock = threading.Lock()
        self.calls = 0

    def call(self, *leaves: Any) -> Any:
        if len(leaves) != len(self._types) or not all(map(_fits, leaves, self._types)):
            return NotImplemented
        self.calls += 1
        with wide():
            results = self._run(leaves if self._places is None else self._places.put(leaves))
        return results[0] if len(results) == 1 else tuple(results)

    def _run(self, leaves: Sequence[Any]) -> list[Any]:
        while True:
            run, machine = self._code(self._capacity)
            try:
                results, failure, needed = run(self._on_device(), *leaves)
            except jax().errors.JaxRuntimeError:
                if machine.raised:
                    raise machine.raised.pop() from None
                raise
            if needed is not None and (entries := int(needed)) > self._capacity:
                self._capacity = 1 << (entries - 1).bit_length()
                continue
            if failure is not None and (code := int(failure)):
                raise machine.failures[code]
            return list(results)

    def _on_device(self) -> list[Any]:
        """The large constants, brought there once."""
        if self._placed is None:
            large = [c for c in self._constants if c.nbytes > _LITERAL]
            there = self._device if self._places is None else self._places.whole
            self._placed = [jax().device_put(c, there) for c in large]
        return self._placed

    def _code(self, capacity: int) -> tuple[Any, Machine]:
        with self._lock:
            if capacity not in self._built:
                self._built[capacity] = self._build(capacity)
            return self._built[capacity]

    def _build(self, capacity: int) -> tuple[Any, Machine]:
        exact = self._target.precision == "highest"
        precision = jax().lax.Precision.HIGHEST if exact else jax().lax.Precision.DEFAULT
        kind = jax().default_backend() if self._device is None else self._device.platform
        if self._places is not None:
            kind = next(iter(self._places.whole.device_set)).platform
        on_gpu = kind in ("gpu", "cuda")
        machine = Machine(self._unsafe, capacity, precision, self._target.half, on_gpu)

        places = self._places
        split = [] if places is None else [k for k in range(len(self._types)) if places.used(k)]
        program, used = with_whole(self._program, split) if split else (self._program, [])

        def whole(args: Sequence[Any], k: int) -> Any:
            assert places is not None
            return jax().lax.with_sharding_constraint(args[k], places.used(k))

        def run(large: Sequence[Any], *args: Any) -> Any:
            rest = iter(large)
            constants = [next(rest) if c.nbytes > _LITERAL else c for c in self._constants]
            machine.begin()
            results = machine.run(program, [*args, *[whole(args, k) for k in used]], constants)
            return results, machine.failure, machine.needed

        options: dict[str, Any] = {}
        if self._device is not None:
            there = jax().sharding.SingleDeviceSharding(self._device)
            options["in_shardings"] = options["out_shardings"] = there
        if places is not None:
            options["out_shardings"] = (places.results, places.whole, places.whole)
        if self._donated and not self._may_run_again:
            options["donate_argnums"] = [k + 1 for k in self._donated]
        return jax().jit(run, **options), machine

    # ---- to be looked at

    @property
    def stages(self) -> dict[str, Callable[[], str]]:
        return {
            "stablehlo": lambda: self._lowered().as_text(),
            "hlo": lambda: self._lowered().compile().as_text(),
        }

    def _lowered(self) -> Any:
        run, machine = self._code(self._capacity)
        with wide():
            at = self._places.argument if self._places is not None else lambda k: None
            structs = [
                jax().ShapeDtypeStruct(t.shape, machine.dtype(t), sharding=at(k))
                for k, t in enumerate(self._types)
            ]
            return run.lower(self._on_device(), *structs)

    @property
    def stats(self) -> dict[str, Any]:
        _, machine = self._code(self._capacity)
        return {
            "code": "xla",
            "elsewhere": len(machine.elsewhere),
            "rows_elsewhere": sorted(set(machine.elsewhere)),
        }


def compile_program(
    program: Program,
    target: Target,
    donated: tuple[int, ...] = (),
    unsafe: bool = False,
    placed: Placed | None = None,
) -> Compiled:
    return Compiled(program, target, donated, unsafe, placed)


def _raw(c: Any) -> Any:
    return np.asarray(c._v if hasattr(c, "_v") else c)


def _fits(a: Any, t: Type) -> bool:
    if type(a) is np.ndarray or is_array(a):
        same = a.dtype == t.dtype or (t.dtype == HALF and a.dtype.name == "bfloat16")
        return not t.weak and same and a.shape == t.shape
    if t.weak:
        return type(a) is _WEAK[t.dtype.kind]
    return isinstance(a, np.generic) and not t.shape and a.dtype == t.dtype


def equations(program: Program, seen: set[Callee]) -> Iterator[Equation]:
    """All equations of a Program, of the regions in it and of what it calls, which may not be itself."""
    for e in program.equations:
        yield e
        if not e.primitive.holds_regions:
            continue
        region = e.params["region"]
        for inner in region.programs():
            yield from equations(inner, seen)
        if isinstance(region, Callee) and region not in seen:
            seen.add(region)
            refuse_recursion(region, e.where)
            assert region.program is not None
            yield from equations(region.program, seen)
