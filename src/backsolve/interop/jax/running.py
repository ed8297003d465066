"""An Operator as JAX writes it into a program: a call of native code, or written out in XLA's operations."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache, cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...backends.target import NATIVE
from ...backends.xla.compile import equations
from ...backends.xla.machine import Machine
from ...compiled.specialise import specialise
from ...errors import BackendError
from ...ir import type_of
from ...rewrite import rewrite_for_machines, rewrite_for_xla
from ...trace import evaluate
from .operator import Operator
from .types import cast

TARGET = "backsolve_run"


class Running:
    """`run(*values)` is what JAX traces; `failure()` tells what a run has raised inside."""

    def __init__(self, op: Operator, primitive: Any):
        self._op = op
        self.raised: list[Exception] = []
        self.jitted = jax.jit(lambda *values: primitive.bind(*values, op=op))

    def run(self, *values: Any) -> list[Any]:
        op = self._op
        given = cast(values, op.types)
        results = self._native(given) if op.backend == "native" else self._written_out(given)
        return cast(results, op.made)

    def forget_failures(self) -> None:
        """Those of runs inside of `jax.jit`, which has told them."""
        self.raised.clear()
        if "_foreign" in self.__dict__ and self._foreign is not None:
            self._foreign.failure()

    def failure(self) -> Exception | None:
        if self.raised:
            return self.raised.pop()
        return self._foreign.failure() if self._op.backend == "native" and self._foreign else None

    @property
    def may_fail(self) -> bool:
        """Whether a call waits for its results, to raise what happens on the way."""
        if self._op.backend == "xla" or self._foreign is None:
            return True
        return bool(self._foreign.frame.failures.known)

    # ---- native code

    @cached_property
    def _foreign(self) -> Any:
        """The code, if XLA can call it."""
        from ...backends.native.ffi import compile_foreign
        from ...backends.native.support import Unsupported

        try:
            made = compile_foreign(rewrite_for_machines(self._op.program))
        except Unsupported:
            return None
        return None if made.calls_python else made

    def _native(self, given: Sequence[Any]) -> Sequence[Any]:
        program = self._op.program
        outputs = [type_of(a) for a in program.outputs]
        specs = [jax.ShapeDtypeStruct(t.shape, t.dtype) for t in outputs]
        if self._foreign is None:
            return jax.pure_callback(self._by_python, specs, *given)
        _register()
        call = jax.ffi.ffi_call(TARGET, specs)
        return call(*given, words=np.int64(self._foreign.address))

    @cached_property
    def _called_back(self) -> Any:
        """The same for Python to call: code with rows that NumPy computes."""
        program = self._op.program
        return specialise(
            lambda values: evaluate(program, values),
            lambda values: ([values], {}),
            self._op.types,
            NATIVE,
        )

    def _by_python(self, *values: Any) -> list[Any]:
        arrays = [
            np.asarray(x).item() if t.weak else np.asarray(x)
            for x, t in zip(values, self._op.types, strict=True)
        ]
        try:
            results = self._called_back.run(arrays)
        except Exception as error:
            self.raised.append(error)
            raise
        outputs = self._called_back.outputs
        return [np.asarray(y, t.dtype) for y, t in zip(results, outputs, strict=True)]

    # ---- XLA's own operations

    def _written_out(self, given: Sequence[Any]) -> Sequence[Any]:
        program = rewrite_for_xla(self._op.program)
        for _ in equations(program, set()):
            pass  # it refuses recursion
        highest = jax.lax.Precision.HIGHEST
        machine = Machine(False, self._op.rounds, highest, raised=self.raised)
        results = machine.run(program, given)
        code = machine.failure
        if machine.needed is not None:
            code = jnp.int64(0) if code is None else code
            code = jnp.where((code == 0) & (machine.needed > self._op.rounds), -1, code)
        if code is None:
            return results
        return self._checked(results, code, machine)

    def _checked(self, results: list[Any], code: Any, machine: Machine) -> Sequence[Any]:
        """The results, or a call back that raises what the code says: the host is asked for nothing else."""
        too_long = BackendError(
            f"a `while` went round more than {self._op.rounds} times, and its derivative needs what each round "
            f"computed: give more room, function(f, rounds={8 * self._op.rounds})"
        )

        def fail(number: Any, *values: Any) -> Any:
            error = too_long if number == -1 else machine.error(int(number))
            self.raised.append(error)
            raise error

        specs = [jax.ShapeDtypeStruct(y.shape, y.dtype) for y in results]
        raising: Callable[..., Any] = lambda code, *ys: tuple(
            jax.pure_callback(fail, tuple(specs), code, *ys)
        )
        results = [jnp.asarray(y) for y in results]
        return jax.lax.cond(code != 0, raising, lambda code, *ys: ys, code, *results)


@cache
def _register() -> None:
    from ...backends.native.ffi import handler_address

    handler = ctypes.cast(handler_address(), ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p))
    jax.ffi.register_ffi_target(TARGET, jax.ffi.pycapsule(handler), platform="cpu")
