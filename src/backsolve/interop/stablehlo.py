"""Programs as StableHLO: text to be read, and bytes that any process with JAX runs, without Backsolve.

    import jax
    run = jax.export.deserialize(open("f.stablehlo", "rb").read()).call

The numbers of all arguments go in flat, in their order, and those of the results come as a list; the weights of
modules are part of the program. Numbers of 64 bits need `jax.config.update("jax_enable_x64", True)` there. What
would be an error of the run (an index out of range, an assertion, a singular matrix) is NaN in all results that
are floats.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from ..backends.xla.library import jax, wide
from ..errors import BackendError
from ..ir import Program, type_of
from ..rewrite import rewrite_for_xla
from .named import named, require_function_and_path
from .safetensors import write_whole

_CAPACITY = 1 << 10
_PLATFORMS = ("cpu", "cuda", "rocm", "tpu")


def text(f: Callable[..., Any], *args: Any, platform: str | None = None, **kwargs: Any) -> str:
    """The module as text, constants included, for arrays of these types, or whatever has a shape and a dtype.

    `platform` is "cpu", "cuda", "rocm" or "tpu", whether there is one here or not; else that of this machine.
    """
    return str(
        _exported(f, args, kwargs, [platform] if platform else None, _CAPACITY).mlir_module()
    )


def artifact(
    f: Callable[..., Any],
    *args: Any,
    platforms: Sequence[str] | None = None,
    capacity: int = _CAPACITY,
    **kwargs: Any,
) -> bytes:
    """A portable program of one or several platforms, as `jax.export` has it.

    `capacity` is how many rounds of a `while` a derivative can store; a run of more gives NaN.
    """
    made = _exported(f, args, kwargs, platforms, capacity)
    try:
        return bytes(made.serialize())
    except ImportError as error:
        raise ModuleNotFoundError(
            "programs are written by JAX with flatbuffers, which is not installed: pip install flatbuffers "
            "(it comes with 'backsolve[xla]')"
        ) from error


def save(
    f: Callable[..., Any],
    path: str | os.PathLike[str],
    *args: Any,
    platforms: Sequence[str] | None = None,
    **kwargs: Any,
) -> None:
    """Write the text to a path that ends in .mlir, the portable program to any other."""
    require_function_and_path(f, path)
    if os.fspath(path).endswith(".mlir"):
        made = _exported(f, args, kwargs, platforms, _CAPACITY).mlir_module()
        write_whole(path, str(made).encode())
    else:
        write_whole(path, artifact(f, *args, platforms=platforms, **kwargs))


def _exported(f: Any, args: Any, kwargs: Any, platforms: Any, capacity: int) -> Any:
    jax()  # says what to install
    from jax import export

    platforms = _checked(platforms)
    if type(capacity) is not int or capacity < 1:
        raise ValueError(f"capacity={capacity!r} must be a whole number from 1 on")
    call = named(f, args, kwargs, None)
    program = rewrite_for_xla(call.recorded()[0])
    weights = {k: leaf.value for k, leaf in enumerate(call.leaves) if leaf.is_weight}
    given = [v for k, v in enumerate(program.inputs) if k not in weights]
    run = _runner(program, weights, capacity)
    with wide():
        structs = [jax().ShapeDtypeStruct(v.shape, v.dtype) for v in given]
        return export.export(jax().jit(run), platforms=platforms)(*structs)


def _checked(platforms: Any) -> list[str] | None:
    if platforms is None:
        return None
    found = [platforms] if isinstance(platforms, str) else list(platforms)
    strange = [name for name in found if name not in _PLATFORMS]
    if strange or not found:
        raise ValueError(f"a platform is one of {', '.join(_PLATFORMS)}; got {platforms!r}")
    return found


def _runner(program: Program, weights: dict[int, Any], capacity: int) -> Callable[..., Any]:
    from ..backends.xla.machine import Machine

    def run(*args: Any) -> Any:
        machine = Machine(False, capacity, jax().lax.Precision.HIGHEST)
        given = iter(args)
        inputs = [weights[k] if k in weights else next(given) for k in range(len(program.inputs))]
        results = machine.run(program, inputs)
        if machine.elsewhere:
            rows = ", ".join(f"`{name}`" for name in sorted(set(machine.elsewhere)))
            raise BackendError(
                f"StableHLO has no form for {rows}: Backsolve computes it on the host, and would have to be "
                "there",
                at=_line_of(program, machine.elsewhere[0]),
            )
        return _spoiled(program, results, machine, capacity)

    return run


def _spoiled(program: Program, results: Any, machine: Any, capacity: int) -> Any:
    """NaN in the results of a run that failed."""
    import jax.numpy as jnp

    bad: Any = None if machine.failure is None else machine.failure != 0
    if machine.needed is not None:
        short = machine.needed > capacity
        bad = short if bad is None else bad | short
    if bad is None:
        return tuple(results)
    if machine.needed is not None and any(
        type_of(a).dtype.kind not in "fc" for a in program.outputs
    ):
        raise BackendError(
            "a derivative through a `while` cannot be exported beside results that are integers: "
            "they could not say that it ran longer than it can store. Return floats",
            at="",
        )
    return tuple([jnp.where(bad, jnp.nan, y) if y.dtype.kind in "fc" else y for y in results])


def _line_of(program: Program, name: str) -> str:
    return next((e.where for e in program.equations if e.primitive.name == name), "")
