"""Checkpointing: keep the inputs of a piece of program, not its rows, and run it again when needed."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import tree
from ..errors import RecomputeError
from ..joint import record_joint
from ..operators import Custom
from ..primitive import FUNCTIONS, P, hooks, wrap
from ..row import Row, ancestors, next_index
from ..tensor import Staged, Tensor, leaf_row
from ..trace import stage_call
from .forward import forward_substitute
from .reverse import back_substitute


def checkpoint(f: Callable[..., Any], memory: int | None = None) -> Callable[..., Any]:
    """A function with the values and derivatives of `f` that stores only its inputs.

    Tensors that `f` closes over are differentiated too. With `memory`, inside `bs.jit`, `f` itself is not
    computed again; but each of its loops stores at most about so many bytes for its derivative, as far as that
    can be, and computes its rounds again piece by piece.

    >>> import numpy as np, backsolve as bs
    >>> bs.grad(lambda x: bs.checkpoint(lambda t: np.sin(np.sin(t)))(x))(1.0)
    0.36003948908962097
    """

    @functools.wraps(f)
    def run(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = tree.flatten((args, kwargs))
        if any(isinstance(x, Staged) for x in leaves):
            staged = FUNCTIONS.get("checkpoint_staged")
            users = hooks.users(f)
            if staged is None or hooks.stage is not stage_call:  # bs.source writes it out
                return users(*args, **kwargs)
            return staged(users, memory, args, kwargs)
        places = [k for k, x in enumerate(leaves) if isinstance(x, Tensor) and x.row is not None]

        def call(values: Sequence[Any], record: bool) -> tuple[list[Row], int, Any]:
            """f on fresh rows: the rows of the inputs, where they begin, and what came out."""
            start = next_index()
            inner = list(leaves)
            fresh = []
            for k, v in zip(places, values, strict=True):
                inner[k] = P.alias(v) if record and isinstance(v, Tensor) else wrap(v, leaf_row(v))
                fresh.append(inner[k].row)
            a, k = structure.unflatten(inner)
            return fresh, start, f(*a, **k)

        raw = [leaves[k]._v for k in places]
        _, start, result = call(raw, record=False)
        outputs, out_structure = tree.flatten(result)
        varying = [k for k, y in enumerate(outputs) if isinstance(y, Tensor) and y.row is not None]
        free = _closed_over([outputs[k].row for k in varying], start)
        if not varying:
            return result
        types = [(outputs[k].shape, outputs[k].dtype) for k in varying]
        prints = [_fingerprint(outputs[k]._v) for k in varying]

        def operator_of(values: Sequence[Any], record: bool) -> Custom:
            fresh, begin, again = call(values[: len(places)], record)
            results = [tree.flatten(again)[0][k] for k in varying]
            outs = [y.row for y in results]
            rows, _ = ancestors([r for r in outs if r is not None], begin)
            read = _closed_over([r for r in outs if r is not None], begin, fresh)
            same_rows = set(read) <= set(free)
            if not same_rows or not all(map(_agrees, prints, results)):
                raise RecomputeError(
                    "a checkpointed function gave another result when it was run again: it reads "
                    "something that has changed (a loop variable, a buffer, a random generator, a Tensor "
                    "written into). Pass such things as arguments"
                )
            sources = [*fresh, *free]

            def push(ts: Sequence[Any]) -> tuple[Any, ...]:
                seeds = [(r, t) for r, t in zip(sources, ts, strict=True) if t is not None]
                return tuple(forward_substitute(rows, seeds, outs, record=record))

            def pull(cts: Sequence[Any]) -> tuple[Any, ...]:
                seeds = [
                    (r, np.zeros(*t) if c is None else c)
                    for r, c, t in zip(outs, cts, types, strict=True)
                ]
                return tuple(back_substitute(seeds, sources, oldest=begin, record=record))

            return Custom(push, pull, name="Recomputed")

        parents = [*[leaves[k].row for k in places], *free]
        inputs = [*raw, *[None] * len(free)]
        made = record_joint(
            "checkpoint", operator_of, inputs, parents, [outputs[k]._v for k in varying]
        )
        for k, y in zip(varying, made, strict=True):
            outputs[k] = y
        return out_structure.unflatten(outputs)

    return run


def _fingerprint(y: Any) -> tuple[complex, float]:
    """Two numbers that tell results apart, for a cost far below computing them."""
    v = np.asarray(y)
    return complex(v.sum()), float(np.abs(v).sum())


def _agrees(before: tuple[complex, float], y: Tensor) -> bool:
    if isinstance(y, Staged):
        return True
    total, size = _fingerprint(y._v)
    scale = 1e-6 * max(before[1], 1e-300) if np.isfinite(before[1]) else np.inf
    return (abs(total - before[0]) <= scale and abs(size - before[1]) <= scale) or not np.isfinite(
        scale
    )


def _closed_over(outputs: list[Row], start: int, inputs: Sequence[Row] = ()) -> list[Row]:
    """Rows older than the call that its results rest on, other than through its inputs."""
    rows, _ = ancestors(outputs, start)
    found = dict.fromkeys(r for r in outputs if r.index < start)
    for row in (r for r in rows if r not in set(inputs)):
        found.update(
            dict.fromkeys(p for p in row.parents if p.__class__ is Row and p.index < start)
        )
    return list(found)
