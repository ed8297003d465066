"""`vmap`: a function of one example becomes one of many."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from .. import tree
from ..batch import evaluate_batched
from ..changes import Changes
from ..declared import check_parts
from ..errors import ShapeError, StructureError
from ..hooks import hooks
from ..ir import Type
from ..module_state import refuse, state_in
from ..primitive import coerce, wrap
from ..row import ancestors, next_index
from ..tensor import Staged, Tensor
from ..trace import stage

_INSTEAD = (
    "Call the module on the whole batch, or put it into model.eval(); bs.map runs it one by one. "
)


def vmap(f: Callable[..., Any], in_axes: Any = 0, out_axes: Any = 0) -> Callable[..., Any]:
    """Map `f` over an axis of its arguments, as one batched computation.

    `in_axes` gives, per argument (or leaf), the axis that counts the examples, or None for an argument
    that all share. `f` runs once, on types; Python's control flow on mapped values is staged, as in `jit`.

    >>> import numpy as np
    >>> vmap(np.dot, in_axes=(0, None))(np.eye(2), np.array([1.0, 2.0]))
    array([1., 2.])
    """

    @functools.wraps(f)
    def run(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = tree.flatten(args)
        axes: list[Any] = _axes_of(args, in_axes)
        batched = [k for k, a in enumerate(axes) if a is not None]
        if not batched:
            raise ShapeError("vmap needs at least one argument with an axis to map over (in_axes)")
        examples = []
        for k in batched:
            x = leaves[k] if isinstance(leaves[k], Tensor) else np.asarray(coerce(leaves[k]))
            if not -x.ndim <= axes[k] < x.ndim:
                raise ShapeError(
                    f"vmap maps axis {axes[k]} of every array among the arguments, and one of shape {x.shape} "
                    "has none: give in_axes=None for what all examples share, and np.array(…) for a list, "
                    "whose entries are arguments of their own"
                )
            examples.append(np.moveaxis(x, axes[k], 0) if axes[k] != 0 else x)
        check_parts(structure, leaves, axes, "vmap")
        sizes = {x.shape[0] for x in examples}
        if len(sizes) > 1:
            raise ShapeError(f"vmap: the mapped axes must have one length, got {sorted(sizes)}")
        results: list[Any] = []
        recorders: list[Any] = []
        start = next_index()
        shared = [wrap(x, None) if isinstance(x, np.ndarray) else x for x in leaves]

        def flat(*staged: Any) -> list[Any]:
            recorders.append(staged[0]._v.recorder)
            inner = list(shared)
            for k, x in zip(batched, staged, strict=True):
                inner[k] = x
            outputs, out_structure = tree.flatten(
                hooks.rewritten(f)(*structure.unflatten(inner), **kwargs)
            )
            results.append(out_structure)
            return outputs

        types = [Type(x.shape[1:], x.dtype) for x in examples]
        first = [_first(x) for x in examples] if all(map(_has_numbers, examples)) else []
        size = sizes.pop()
        with Changes() as changes:
            program, _ = stage(flat, types, lasting=True, examples=first, batch=size)
            changed = state_in(changes, recorders, shared)
            refuse(changed, "by `vmap`, which runs it once for all", _INSTEAD)
        outputs = evaluate_batched(program, examples, [True] * len(examples), size)
        form = results[0]
        targets = (
            [out_axes] * len(outputs) if isinstance(out_axes, int) else tree.flatten(out_axes)[0]
        )
        moved = [
            y if a == 0 else np.moveaxis(y, 0, a) for y, a in zip(outputs, targets, strict=True)
        ]
        return form.unflatten([_finished(y, start, examples) for y in moved])

    return run


def _has_numbers(x: Any) -> bool:
    """Or, if it is staged, those of an example of what it is made from."""
    return bool(x.shape[0]) and (not isinstance(x, Staged) or bool(x._v.recorder.examples))


def _first(x: Any) -> Any:
    return x[0] if isinstance(x, Staged) else getattr(x, "_v", x)[0]


def _finished(y: Any, start: int, examples: Sequence[Any]) -> Any:
    """A mapped result: an array of its own, or a Tensor if one went in or somebody outside needs it."""
    if isinstance(y, Tensor):
        if isinstance(y, Staged) or (y.row is not None and ancestors([y.row], start)[1]):
            return y
        y = y._v
        if any(isinstance(x, Tensor) for x in examples):
            return wrap(np.array(y), None)
    shares = not y.flags.owndata or not y.flags.writeable or any(y is x for x in examples)
    return np.array(y) if isinstance(y, np.ndarray) and shares else y


def _axes_of(args: tuple[Any, ...], in_axes: Any) -> list[int | None]:
    """One axis (or None) per leaf of the arguments."""
    if in_axes is None or isinstance(in_axes, int):
        in_axes = (in_axes,) * len(args)
    if len(in_axes) != len(args):
        raise ShapeError(f"vmap: in_axes has {len(in_axes)} entries for {len(args)} arguments")
    return [axis for a, x in zip(in_axes, args, strict=True) for axis in _axes_in(a, x)]


def _axes_in(a: Any, x: Any) -> Iterator[int | None]:
    if a is None or isinstance(a, int):
        yield from [a] * len(tree.flatten(x)[0])
    elif isinstance(a, dict):
        for key in x:
            yield from _axes_in(a[key], x[key])
    elif isinstance(a, tuple | list) and len(a) == len(x):
        for b, y in zip(a, x, strict=True):
            yield from _axes_in(b, y)
    else:
        raise StructureError(f"vmap: in_axes {a!r} does not fit the argument {x!r}")
