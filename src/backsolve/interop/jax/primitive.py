"""The primitive that JAX sees, and its rules: JAX differentiates nothing in it, and looks into nothing."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from ...backends.xla.library import wide
from ...errors import DeviceError, UnsupportedError
from ...ir import Type
from .operator import Operator
from .running import Running
from .types import aval_of, cast, is_inexact

PRIMITIVE = Primitive("backsolve")
PRIMITIVE.multiple_results = True


def _tables() -> Any:
    """Where JAX has its rules for linearizing, if these are told what for. That is not public: where it
    has moved or has another form, this is None, and nothing is kept."""
    try:
        tables = importlib.import_module("jax._src.interpreters.ad")
    except ImportError:
        return None
    rule = getattr(tables, "fallback_linearize_rule", None)
    told = rule is not None and "_is_vjp" in inspect.signature(rule).parameters
    return tables if told and hasattr(tables, "primitive_linearizations") else None


_TABLES = _tables()


def apply(op: Operator, values: Sequence[Any]) -> list[Any]:
    return list(PRIMITIVE.bind(*cast(values, op.given), op=op))


def _types(*avals: Any, op: Operator) -> list[Any]:
    if any(_varies_over_devices(a) for a in avals):
        raise UnsupportedError(
            "inside of jax.shard_map a function cannot tell JAX which of its results differ between devices: "
            "call jax.shard_map(…, check_vma=False)"
        )
    return [aval_of(t) for t in op.made]


def _varies_over_devices(aval: Any) -> bool:
    """Whether `jax.shard_map` follows where a value differs; versions of JAX name that in two ways."""
    kind = getattr(aval, "manual_axis_type", None)
    return bool(kind.varying if kind is not None else getattr(aval, "vma", ()))


def _run_now(*values: Any, op: Operator) -> Any:
    """A call outside of `jax.jit`: what fails is raised as itself."""
    running = _running(op)
    running.forget_failures()
    try:
        results = running.jitted(*values)
        return jax.block_until_ready(results) if running.may_fail else results
    except (jax.errors.JaxRuntimeError, ValueError):  # JAX raises either, as it waits or not
        failure = running.failure()
        if failure is None:
            raise
    raise failure from None


def _running(op: Operator) -> Running:
    if op.running is None:
        op.running = Running(op, PRIMITIVE)
    return op.running


def _push(primals: Sequence[Any], tangents: Sequence[Any], *, op: Operator) -> Any:
    places = [k for k in op.arguments if _differs(tangents[k])]
    if not places:  # what was kept may bring zeros
        return apply(op, primals), [_zero(t) for t in op.made]
    if all(k in op.linear for k in places):
        seeds = [
            t if _differs(t) else jnp.zeros_like(x) for x, t in zip(primals, tangents, strict=True)
        ]
        values = [seeds[k] if k in op.linear else x for k, x in enumerate(primals)]
        return apply(op, primals), apply(op, values)
    if op.has_gradient(places):
        *results, found = _along_gradient(op, primals, tangents, tuple(places))
        return results, _with_zeros(op, [found])
    results = apply(op, primals)
    push = op.whole.push(tuple([op.arguments.index(k) for k in places]))
    found = apply(push, [primals[k] for k in op.arguments] + [tangents[k] for k in places])
    return results, _with_zeros(op, found)


def _linearize(is_vjp: bool, varies: Sequence[bool], *primals: Any, op: Operator) -> Any:
    """The results, which of them vary, what their differential needs, and it; JAX transposes it if `is_vjp`."""
    places = tuple([k for k, v in enumerate(varies) if v and is_inexact(op.given[k])])
    parts = op.parts(places) if is_vjp else None
    if parts is None:
        return _TABLES.fallback_linearize_rule(PRIMITIVE, is_vjp, varies, *primals, op=op)
    found = apply(parts.first, primals)
    results, kept = found[: len(op.made)], found[len(op.made) :]

    def differential(values: Sequence[Any], *tangents: Any) -> list[Any]:
        along = [tangents[k] for k in places]
        return _with_zeros(op, apply(parts.push, [*values, *along]))

    return results, [j in op.smooth for j in range(len(op.made))], [*primals, *kept], differential


def _along_gradient(
    op: Operator, primals: Sequence[Any], tangents: Sequence[Any], places: tuple[int, ...]
) -> list[Any]:
    """The results, computed together with the gradient, and the differential: that times the tangents."""
    found = apply(op.with_gradient(places), primals)
    results, gradient = found[: len(op.made)], found[len(op.made) :]
    (smooth,) = op.smooth
    examples = len(op.made[smooth].shape)  # axes that count them
    parts = [
        jnp.sum(g * tangents[k], axis=tuple(range(examples, g.ndim)))
        for k, g in zip(places, gradient, strict=True)
    ]
    return [*results, sum(parts[1:], parts[0]).astype(op.made[smooth].dtype)]


def _with_zeros(op: Operator, found: Sequence[Any]) -> list[Any]:
    """Differentials of the smooth results, and none of the others."""
    rest = iter(found)
    return [next(rest) if j in op.smooth else _zero(t) for j, t in enumerate(op.made)]


def _zero(t: Type) -> Any:
    return ad.Zero(aval_of(t).to_tangent_aval())


def _differs(t: Any) -> bool:
    return type(t) is not ad.Zero and t.dtype != jax.dtypes.float0


def _transpose(cts: Sequence[Any], *args: Any, op: Operator) -> list[Any]:
    undefined = [k for k, a in enumerate(args) if ad.is_undefined_primal(a)]
    outs = [j for j, c in enumerate(cts) if type(c) is not ad.Zero]
    results: list[Any] = [None] * len(args)
    if not outs:
        for k in undefined:
            results[k] = ad.Zero(args[k].aval)
        return results
    made, taken = op.transposed(undefined, outs)
    given = [
        jnp.zeros(a.aval.shape, a.aval.dtype) if ad.is_undefined_primal(a) else a
        for a in [args[k] for k in taken]
    ]
    for k, y in zip(undefined, apply(made, [*given, *[cts[j] for j in outs]]), strict=True):
        results[k] = y
    return results


def _batch(values: Sequence[Any], axes: Sequence[Any], *, op: Operator) -> Any:
    flags = tuple([a is not None for a in axes])
    if not any(flags[k] for k in op.arguments):  # what was kept is repeated
        return apply(op.whole, [values[k] for k in op.arguments]), [None] * len(op.made)
    size = next(x.shape[a] for x, a in zip(values, axes, strict=True) if a is not None)
    first = [x if a is None else jnp.moveaxis(x, a, 0) for x, a in zip(values, axes, strict=True)]
    return apply(op.batched(flags, size), first), [0] * len(op.made)


def _lower(ctx: Any, *values: Any, op: Operator) -> Any:
    running = _running(op)
    ctx.module_context.add_keepalive(running)
    with wide():
        return mlir.lower_fun(running.run, multiple_results=True)(ctx, *values)


def _lower_elsewhere(ctx: Any, *values: Any, op: Operator) -> Any:
    if op.backend == "native":
        platforms = ctx.platforms or ctx.module_context.platforms
        raise DeviceError(
            f"native code runs on the CPU, not on {' or '.join(platforms)}: "
            'take function(f, backend="xla") there'
        )
    return _lower(ctx, *values, op=op)


PRIMITIVE.def_impl(_run_now)
PRIMITIVE.def_abstract_eval(_types)
ad.primitive_jvps[PRIMITIVE] = _push
ad.primitive_transposes[PRIMITIVE] = _transpose
if _TABLES is not None:
    _TABLES.primitive_linearizations[PRIMITIVE] = _linearize
batching.primitive_batchers[PRIMITIVE] = _batch
mlir.register_lowering(PRIMITIVE, _lower_elsewhere)
mlir.register_lowering(PRIMITIVE, _lower, platform="cpu")
