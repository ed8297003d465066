"""What a step minimises and measures: a loss and metrics, functions of (output, target) or of (model, batch).

A function whose first argument is called `model`, or whose second is called `batch`, gets those; every other
one gets what the model makes of the first part of a batch, and its second part.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import tree
from ..errors import NotScalarError, ShapeError, StructureError
from ..hooks import hooks
from ..ir import Type, type_of
from ..trace import stage


@dataclass(frozen=True)
class Objective:
    """`objective(model, batch)` is the loss and a dict of further numbers."""

    loss: Callable[..., Any]
    metrics: Mapping[str, Callable[..., Any]]

    def __call__(self, model: Any, batch: Any) -> tuple[Any, dict[str, Any]]:
        outputs: list[Any] = []

        def call(f: Callable[..., Any]) -> Any:
            if takes_model(f):
                return hooks.users(f)(model, batch)
            x, target = pair(batch, f)
            if not callable(model):
                name = getattr(f, "__name__", repr(f))
                raise StructureError(
                    f"`{name}` takes what the model made of an input, and a target, but a "
                    f"{type(model).__name__} makes nothing of an input: write the loss as a "
                    "function of `model` and `batch` (so named)"
                )
            if not outputs:
                outputs.append(hooks.users(model)(x))
            _refuse_outer(f, outputs[0], target)
            return hooks.users(f)(outputs[0], target)

        found = call(self.loss)
        loss, more = found if isinstance(found, tuple) and len(found) == 2 else (found, {})
        if np.shape(loss) != ():
            raise NotScalarError(
                f"the loss must be one number for a batch, got shape {np.shape(loss)}: take its mean"
            )
        if not isinstance(more, Mapping):
            raise StructureError(
                f"a loss returns a number, or (number, dict of further ones), got {found!r}"
            )
        numbers = {**more, **{name: call(f) for name, f in self.metrics.items()}}
        for name, value in numbers.items():
            if np.shape(value) != ():
                raise NotScalarError(
                    f"the metric {name!r} must be one number for a batch, got shape {np.shape(value)}"
                )
        return loss, numbers

    def only_loss(self, model: Any, batch: Any) -> Any:
        return Objective(self.loss, {})(model, batch)[0]


def takes_model(f: Callable[..., Any]) -> bool:
    """Whether a function wants (model, batch), by the names of its arguments."""
    try:
        names = list(inspect.signature(f).parameters)
    except (TypeError, ValueError):
        return False
    return names[:1] == ["model"] or names[1:2] == ["batch"]


def pair(batch: Any, f: Callable[..., Any]) -> tuple[Any, Any]:
    if isinstance(batch, tuple | list) and len(batch) == 2:
        return batch[0], batch[1]
    kind = f"{len(batch)} parts" if isinstance(batch, tuple | list) else type(batch).__name__
    name = getattr(f, "__name__", repr(f))
    raise StructureError(
        f"`{name}` takes what the model made of an input, and a target, so batches must be pairs "
        f"(input, target), got {kind}; a function of `model` and `batch` (so named) gets them whole"
    )


def _refuse_outer(f: Callable[..., Any], output: Any, target: Any) -> None:
    """(N, 1) and (N,) broadcast to (N, N): every output would meet every target."""
    if not (hasattr(output, "shape") and hasattr(target, "shape")):
        return
    shapes = output.shape, target.shape
    try:
        joint = np.broadcast_shapes(*shapes)
    except ValueError:
        return
    if joint not in shapes and _meet(f, type_of(output), type_of(target)):
        raise ShapeError(
            f"the model gives {shapes[0]} for targets {shapes[1]}, which would meet as {joint}: give both one "
            "shape, target[:, None] or output[:, 0]"
        )


def _meet(f: Callable[..., Any], output: Type, target: Type) -> bool:
    """Whether an operation of f takes two arrays of these shapes; f may have brought them to one shape."""
    whole = lambda *args: tree.flatten(hooks.users(f)(*args))[0]
    try:
        with warnings.catch_warnings(action="ignore"):
            programs = [stage(whole, [output, target])[0]]
    except Exception:  # f itself says what is wrong with it
        return False
    wanted = {output.shape, target.shape}
    for program in programs:  # grows by the regions inside
        for e in program.equations:
            if e.primitive.holds_regions:
                programs += [
                    p for p in e.params["region"].programs() if all(p is not q for q in programs)
                ]
            elif wanted <= {type_of(a).shape for a in e.inputs}:
                return True
    return False


def named_metrics(metrics: Any) -> dict[str, Callable[..., Any]]:
    """Names, functions or a dict of them as a dict: `["accuracy", f]` or `{"acc": "accuracy"}`."""
    if isinstance(metrics, str) or callable(metrics):
        metrics = [metrics]
    if not isinstance(metrics, Mapping):
        listed: Iterable[Any] = metrics
        metrics = {m if isinstance(m, str) else m.__name__: m for m in listed}
    unknown = [m for m in metrics.values() if isinstance(m, str) and m not in KNOWN]
    if unknown:
        raise ValueError(f"no metric is called {unknown[0]!r}; known are {', '.join(KNOWN)}")
    if "loss" in metrics:
        raise ValueError("a metric cannot be called 'loss'")
    return {name: KNOWN[m] if isinstance(m, str) else m for name, m in metrics.items()}


def accuracy(output: Any, target: Any) -> Any:
    """The share of examples whose largest output (along axis 1) is the target; with one output, by its sign."""
    if np.ndim(output) == np.ndim(target) + 1:
        right = np.argmax(output, 1) == target
    elif np.shape(output) == np.shape(target):
        right = (output > 0) == (target > 0.5)
    else:
        raise ShapeError(
            "accuracy takes outputs (N, classes, …) and classes (N, …), or outputs and targets of one shape, "
            f"got {np.shape(output)} and {np.shape(target)}"
        )
    return np.mean(right.astype(np.float32))


def mean_absolute_error(output: Any, target: Any) -> Any:
    return np.mean(np.abs(output - _fitting(output, target)))


def mean_squared_error(output: Any, target: Any) -> Any:
    return np.mean(np.square(output - _fitting(output, target)))


def _fitting(output: Any, target: Any) -> Any:
    if np.shape(output) != np.shape(target):
        raise ShapeError(
            f"outputs and targets must have one shape, got {np.shape(output)} and {np.shape(target)}"
        )
    return target


KNOWN: dict[str, Callable[..., Any]] = {
    "accuracy": accuracy,
    "mae": mean_absolute_error,
    "mse": mean_squared_error,
}


def length_of(batch: Any) -> int:
    """How many examples a batch has: the length of its first array."""
    leaves, _ = tree.flatten(batch)
    return int(np.shape(leaves[0])[0]) if leaves and np.shape(leaves[0]) else 1


def described(batch: Any) -> str:
    """The types of a batch, for messages."""
    leaves, _ = tree.flatten(batch)
    return ", ".join(f"{getattr(a, 'dtype', type(a).__name__)}{list(np.shape(a))}" for a in leaves)
