"""One step of training, and one of evaluation: pure functions, compiled once for each size of batches.

    state, loss, metrics, whole, norms = step(state, batch, factor, wanted)

`state` is all that changes: parameters and buffers by name, what the optimiser keeps, averages; it is donated,
so a step works in place. If the loss or a gradient is no finite number (`whole` is false) the step changes
nothing: whoever looks for the cause has what led to it. `norms` are those of gradients, by name, if `wanted`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import tree
from ..api import value_and_grad
from ..backends.xla.library import is_array
from ..compiled import jit
from ..control import cond
from ..debug import debug_nans
from ..errors import NaNError, StructureError
from ..nn.module import Module, places
from ..nn.on_manifolds import declared_again
from ..optim import Accumulated, Average, Clipped, Groups, Optimizer
from ..sharding.fitting import Devices
from ..sharding.placement import fetched
from .mixed import Mixed
from .objective import Objective, described

State = dict[str, Any]
_FEW = 50_000  # entries of gradients; a choice takes more time than their norms


class Held(Module):
    """Parameters that are no module (a dict of arrays, an array), as one."""

    def __init__(self, inside: Any):
        self.inside = inside


class Steps:
    """The compiled functions of a run, and the state before its first step."""

    def __init__(
        self,
        model: Any,
        objective: Objective,
        optimizer: Optimizer,
        accumulate: int = 1,
        clip: float | None = None,
        ema: float | None = None,
        compile: bool = True,
        norms: bool = False,
        devices: Devices | None = None,
        precision: str | None = None,
    ):
        if accumulate < 1:
            raise ValueError(f"accumulate={accumulate} must be at least 1")
        self.template: Module = model if isinstance(model, Module) else Held(model)
        _refuse_unclear(model)
        self.objective, self.norms, self.mixed = objective, norms, Mixed(precision)
        self.devices = devices
        rule = optimizer if clip is None else Clipped(optimizer, clip)
        self.rule = rule if accumulate == 1 else Accumulated(rule, accumulate)
        self.average = None if ema is None else Average(ema)
        self._trained = self.model_of(self.first_state()).train()
        self._tested = self.model_of(self.first_state()).eval()
        if devices is not None and not compile:
            raise ValueError("steps on a mesh are compiled: leave mesh= or compile=False out")
        there: Any = ({}, {}) if devices is None else (devices.step, devices.test)
        of_step, of_test = ({**self.mixed.compiling(compile), **how} for how in there)
        self._step = jit(self._plain_step, donate=(0,), **of_step) if compile else self._plain_step
        self._test = jit(self._plain_test, **of_test) if compile else self._plain_test

    def first_state(self) -> State:
        parameters = _copies(self.template.named_parameters())
        if not parameters:
            raise StructureError("this model has no parameters that could be trained")
        state = {
            "parameters": parameters,
            "buffers": _copies(self.template.named_buffers()),
            "optimizer": tree.map(np.array, self.rule.init(parameters)),
            **self.mixed.first_state(),
        }
        return state | ({"average": _copies(parameters)} if self.average else {})

    # ---- one step

    def step(
        self, state: State, batch: Any, factor: float, wanted: bool = False
    ) -> tuple[State, Any, Any, bool, dict[str, Any]]:
        wish = (np.bool_(wanted),) if self.norms else ()
        try:
            state, loss, metrics, whole, norms = self._step(state, batch, factor, *wish)
        except Exception as error:
            error.add_note(f"in a step of training on a batch of {described(batch)}")
            raise
        return state, loss, metrics, bool(whole), norms if wanted else {}

    def _gradients(self, parameters: Any, buffers: Any, batch: Any, scale: Any = None) -> Any:
        batch = self.mixed.inputs(in_precision_of(parameters, batch))

        def value(p: Any) -> Any:
            model = self._trained.replace({**self.mixed.narrow(p), **buffers})
            loss, metrics = self.objective(unheld(model), batch)
            times = loss if scale is None else loss.astype(scale.dtype) * scale
            return times, (loss, metrics, model.named_buffers())

        (_, found), gradients = value_and_grad(value, has_aux=True)(parameters)
        return found, gradients if scale is None else tree.map(lambda g: g / scale, gradients)

    def _plain_step(self, state: State, batch: Any, factor: Any, wanted: Any = False) -> Any:
        parameters, buffers = state["parameters"], state["buffers"]
        scale = self.mixed.factor(state)
        (loss, metrics, changed), gradients = self._gradients(parameters, buffers, batch, scale)
        if set(changed) != set(buffers):
            names = ", ".join(sorted(set(changed) ^ set(buffers)))
            raise StructureError(f"a call of the model makes or removes arrays: {names}")
        stepped, kept = scaled(self.rule, factor).update(parameters, gradients, state["optimizer"])
        new = {"parameters": stepped, "buffers": _like(buffers, changed), "optimizer": kept}
        if self.average is not None:
            new["average"] = self._averaged(state["average"], stepped, kept)
        # A maximum is NaN where anything is, and infinite likewise.
        worst = [np.max(np.abs(g)) for g in tree.flatten(gradients)[0] if g.size]
        whole = np.isfinite(sum(worst, start=np.abs(loss)))
        norms = _norms(gradients, wanted) if self.norms else {}
        old = {name: state[name] for name in new}
        new = tree.map(lambda a, b: np.where(whole, a, b), new, old)
        if self.mixed.scales:
            new["scale"] = self.mixed.next_scale(state["scale"], whole)
            whole = np.logical_or(whole, self.mixed.may_leave_out(state["scale"], loss))
        return new, loss, metrics, whole, norms

    def _averaged(self, average: Any, parameters: Any, kept: Any) -> Any:
        assert self.average is not None
        new = self.average.update(average, parameters)
        if not isinstance(self.rule, Accumulated):
            return new
        is_due = kept["batches"] % self.rule.every == 0
        return tree.map(lambda a, b: np.where(is_due, a, b), new, average)

    def explain(self, state: State, batch: Any, when: str) -> NaNError:
        """Why a step was not whole: run again as written, it stops at the first operation that makes a NaN."""
        before = tree.map(fetched, (state["parameters"], state["buffers"]))
        batch = tree.map(lambda a: fetched(a) if is_array(a) else a, batch)
        try:
            with debug_nans(), np.errstate(all="ignore"):
                _, gradients = jit(self._gradients)(*before, batch)
        except NaNError as error:
            return NaNError(f"{when}: {error}{_not_finite(batch) or _ADVICE}", at="")
        wrong = [name for name, g in gradients.items() if not np.all(np.isfinite(g))]
        found = f"the gradient of {wrong[0]} is infinite" if wrong else "the loss is infinite"
        return NaNError(f"{when}: {found}{_not_finite(batch) or _ADVICE}", at="")

    # ---- one test

    def test(self, state: State, batch: Any) -> tuple[Any, dict[str, Any]]:
        parameters = state.get("average", state["parameters"])
        try:
            return self._test(parameters, state["buffers"], batch)
        except Exception as error:
            error.add_note(f"in an evaluation on a batch of {described(batch)}")
            raise

    def _plain_test(self, parameters: Any, buffers: Any, batch: Any) -> Any:
        model = self._tested.replace({**self.mixed.narrow(parameters), **buffers})
        batch = self.mixed.inputs(in_precision_of(parameters, batch))
        return self.objective(unheld(model), batch)

    def model_of(self, state: State) -> Any:
        """The model as it stands (with averaged parameters, if there are), in arrays of its own."""
        parameters = state["average"] if "average" in state else state["parameters"]
        arrays = {**parameters, **state["buffers"]}
        return self.template.replace(_copies(arrays))


_ADVICE = "\n    a lower learning rate or clip=1.0 may help; the state is that before this step"


def _not_finite(batch: Any) -> str:
    """A line about the first array of a batch that has NaN or infinities itself."""
    arrays = [np.asarray(a) for a in tree.flatten(batch)[0]]
    for a in arrays:
        if a.dtype.kind in "fc" and not np.all(np.isfinite(a)):
            first = tuple(int(k) for k in np.argwhere(~np.isfinite(a))[0])
            return f"\n    the batch has {a[first]} itself, in {described(a)} at {first}"
    return ""


def unheld(model: Any) -> Any:
    return model.inside if isinstance(model, Held) else model


def as_given(model: Any) -> Any:
    """As `unheld`, with arrays that were given as `bs.on` declares them in that form again."""
    if not isinstance(model, Held):
        return model
    return declared_again(model.inside, "inside", model._manifolds)


def _refuse_unclear(model: Any) -> None:
    """Memory that several parameters share is one in NumPy and would be several in a step: an error.

    Not so an array that stands in several places of a module: that is one parameter.
    """
    found = [a for a in tree.flatten(model)[0] if isinstance(a, np.ndarray)]
    arrays = sorted([a for a in found if a.size and a.dtype.kind in "fc"], key=_first_byte)
    a: Any = arrays[0] if arrays else None  # the one that reaches furthest so far
    for b in arrays[1:]:
        if a is b:
            where = " and ".join(places(model, a)[:2])
            raise StructureError(
                f"{where} of the container to train are one array: copy it if these are two parameters, or put "
                "both into one nn.Module if they are one"
            )
        if np.may_share_memory(a, b) and _shares(a, b):
            where = " and ".join([places(model, a)[0], places(model, b)[0]])
            raise StructureError(
                f"{where} are views of the same memory, but would be trained as two parameters: copy one, or "
                "hold one array and take the view where it is used (x @ self.embedding.weight.T)"
            )
        a = max(a, b, key=_last_byte)


def _first_byte(a: Any) -> int:
    return np.lib.array_utils.byte_bounds(a)[0]


def _last_byte(a: Any) -> int:
    return np.lib.array_utils.byte_bounds(a)[1]


_MOST_WORK: Any = 10_000


def _shares(a: Any, b: Any) -> bool:
    try:
        return np.shares_memory(a, b, max_work=_MOST_WORK)
    except np.exceptions.TooHardError:
        return False


def in_precision_of(parameters: Any, batch: Any) -> Any:
    """float64 in a batch as float32 where all parameters are: data seldom know what they should be."""
    if any(p.dtype != np.float32 for p in tree.flatten(parameters)[0]):
        return batch
    return tree.map(lambda a: a.astype(np.float32) if _is_double(a) else a, batch)


def _is_double(a: Any) -> bool:
    return getattr(a, "dtype", None) == np.float64 and np.ndim(a) > 0


def scaled(rule: Any, factor: Any) -> Any:
    """The same rule at `factor` times its learning rate."""
    if isinstance(rule, Groups):
        return Groups({k: scaled(v, factor) for k, v in rule.rules.items()})
    if isinstance(rule, Clipped | Accumulated):
        return dataclasses.replace(rule, rule_of=scaled(rule.rule_of, factor))
    lr = getattr(rule, "lr", None)
    if lr is None:
        return rule
    rate: Callable[[Any], Any] = lambda t: (lr(t) if callable(lr) else lr) * factor
    return dataclasses.replace(rule, lr=rate)


def _norms(gradients: dict[str, Any], wanted: Any) -> dict[str, Any]:
    """By name; of many entries, a pass over which takes time, zeros where not wanted."""
    plain = {
        name: g for name, g in gradients.items() if hasattr(g, "dtype")
    }  # no factors of tangents

    def norms(*arrays: Any) -> list[Any]:
        return [np.sqrt(np.abs(np.vdot(g.reshape(-1), g.reshape(-1)))) for g in arrays]

    def zeros(*arrays: Any) -> list[Any]:
        return [np.zeros((), np.finfo(g.dtype).dtype) for g in arrays]

    arrays = list(plain.values())
    are_few = sum(g.size for g in arrays) < _FEW
    found = norms(*arrays) if are_few else cond(wanted, norms, zeros, *arrays)
    return dict(zip(plain, found, strict=True))


def learning_rates(rule: Any, step: int, factor: float) -> dict[str, float]:
    """The rate of step number `step`, counted from 1, by the pattern of its group ("" where there are none)."""
    if isinstance(rule, Groups):
        parts = {k: learning_rates(v, step, factor).get("") for k, v in rule.rules.items()}
        return {k: rate for k, rate in parts.items() if rate is not None}
    if isinstance(rule, Accumulated):
        return learning_rates(rule.rule_of, (step - 1) // rule.every + 1, factor)
    if isinstance(rule, Clipped):
        return learning_rates(rule.rule_of, step, factor)
    if getattr(rule, "lr", None) is None:
        return {}
    return {"": float(rule.rate(np.int64(step))) * factor}


def _copies(arrays: dict[str, Any]) -> dict[str, Any]:
    return {n: tree.map(lambda x: fetched(getattr(x, "value", x)), a) for n, a in arrays.items()}


def _like(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """In the order and precision in which they came, so that the next step is the same compiled one."""
    return {name: _cast(new[name], a.dtype) for name, a in old.items()}


def _cast(a: Any, dtype: Any) -> Any:
    return a if a.dtype == dtype else a.astype(dtype)
