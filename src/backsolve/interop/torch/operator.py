"""A function of ours as an operator of PyTorch's, which differentiates, maps and compiles it as its own.

PyTorch records one node a call. The node's backward is an operator again, the compiled pullback, so derivatives
of any order come of the same few lines.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from torch.autograd import forward_ad

from ... import tree
from ...compiled.arguments import exactly
from ...errors import StaticArgumentError
from ...hooks import hooks
from ...tensor import Tensor
from ..derived import Derived
from ..parted import Pullback
from ..transformed import is_number
from .arrays import array_of, tensor_of

_PLAIN = {torch.Tensor, torch.nn.Parameter}
_NUMBERS = (torch.Tensor, float, int, complex, np.ndarray, np.generic)
tree.LEAF_KINDS.update(_PLAIN)


class Operator:
    """What `function` returns. It is called with tensors, and gives tensors."""

    _all: ClassVar[
        dict[int, Operator]
    ] = {}  # by the numbers that graphs of torch.compile know them by

    def __init__(self, f: Callable[..., Any], jit: bool, static_argnums: int | Sequence[int]):
        if not callable(f):
            raise TypeError(f"`function` takes a function, got {f!r}")
        functools.update_wrapper(self, f)
        self._f, self._jit = f, jit
        self._static = (
            (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)
        )
        self._name = getattr(f, "__name__", type(f).__name__)
        self._derived: dict[Any, Derived] = {}
        node: Any = type(self._name, (_Node,), {})
        node.record = _plain_apply(node)
        self._node = node
        self._number = len(Operator._all)
        Operator._all[self._number] = self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():
            from .traced import leave_graph, put_into_graph

            enter = put_into_graph if self._jit else leave_graph
            return enter(self._number, args, kwargs)
        return self._call(args, kwargs)

    def __reduce__(self) -> Any:
        return Operator, (self._f, self._jit, self._static)

    def __deepcopy__(self, memo: Any) -> Operator:
        return self

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        derived, numbers = self._taken_apart(args, kwargs)
        call = _Call(self._node, derived)
        if _are_transforms_active():
            outputs = self._node.apply(call, *numbers)
        else:
            if self._jit and torch.is_grad_enabled():
                call.look_ahead(numbers)
            outputs = _apply(self._node, call, numbers)
        assert call.structure is not None
        return outputs[0] if call.structure.kind is tree.LEAF else call.structure.unflatten(outputs)

    def _taken_apart(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Derived, Any]:
        """The function of numbers alone for arguments of this form, and the numbers."""
        if not kwargs and not self._static and all([type(x) in _PLAIN for x in args]):
            derived = self._derived.get(len(args))
            if derived is None:
                derived = self._derived[len(args)] = self._of_numbers(lambda xs: (xs, {}))
            return derived, args
        static = {k % len(args): args[k] for k in self._static if -len(args) <= k < len(args)}
        given = tuple([None if k in static else x for k, x in enumerate(args)])
        leaves, structure = tree.flatten((given, kwargs))
        fixed = {k: x for k, x in enumerate(leaves) if not isinstance(x, _NUMBERS)}
        key = structure, *[(k, exactly(x)) for d in (static, fixed) for k, x in d.items()]
        derived = self._derived.get(key)
        if derived is None:
            for x in fixed.values():
                _check_fixed(x)

            def rebuild(numbers: Sequence[Any]) -> tuple[Any, Any]:
                rest = iter(numbers)
                full = [fixed[k] if k in fixed else next(rest) for k in range(len(leaves))]
                inner, named = structure.unflatten(full)
                return [static.get(k, x) for k, x in enumerate(inner)], named

            derived = self._derived[key] = self._of_numbers(rebuild)
        return derived, [x for k, x in enumerate(leaves) if k not in fixed] if fixed else leaves

    def _of_numbers(self, rebuild: Callable[..., Any]) -> Derived:
        def run(*numbers: Any) -> Any:
            args, kwargs = rebuild(numbers)
            return hooks.users(self._f)(*args, **kwargs)

        return Derived(run, self._jit, self._name)


def _plain_apply(node: Any) -> Any:
    """`apply` without its search for arguments given by name, which takes longer than the rest."""
    return super(torch.autograd.Function, node).apply


def _check_fixed(x: Any) -> None:
    if isinstance(x, torch.nn.Module):
        raise StaticArgumentError(
            f"a function takes the parameters of {type(x).__name__}, not the module: pass "
            "dict(module.named_parameters())"
        )
    if isinstance(x, Tensor):
        raise StaticArgumentError(
            "this is an operator of PyTorch's, and a Tensor of ours came: inside of our transformations call "
            "the function that it was made of"
        )
    if not tree.is_immutable(x):
        raise StaticArgumentError(
            f"a function takes tensors, numbers, dicts, lists, tuples and dataclasses of them, got "
            f"{type(x).__name__}; declare it static (static_argnums=…), and what it holds is captured"
        )


class _Call:
    """One call: what runs, the form its results had, and what was computed with them for their derivatives."""

    __slots__ = (
        *("ahead", "count", "derived", "kept", "node", "places", "plain", "pullback", "smooth"),
        *("structure", "tensors"),
    )

    def __init__(self, node: Any, derived: Derived):
        self.node, self.derived = node, derived
        self.structure: tree.Structure | None = None
        # of arguments whose gradients are computed with the value
        self.places: tuple[int, ...] = ()
        # these gradients, to be given once: who gets them may write into them
        self.ahead: list[Any] = []
        # takes what was kept to them, where there are many results; a tensor that is saved is None among it
        self.pullback: Pullback | None = None
        self.kept: list[Any] = []
        # when it has run: how many tensors it took, arguments that are none, how many results there are, and
        # which are smooth
        self.tensors = 0
        self.plain: list[Any] = []
        self.count = 0
        self.smooth: tuple[int, ...] = ()

    def look_ahead(self, numbers: Sequence[Any]) -> None:
        self.places = tuple(
            [k for k, x in enumerate(numbers) if isinstance(x, torch.Tensor) and x.requires_grad]
        )

    def follow(self, derived: Derived, *numbers: Any) -> Any:
        """Another function on these numbers, recorded as this one is."""
        call = _Call(self.node, derived)
        return _apply(self.node, call, numbers) if _is_recording() else call.run(numbers)

    def run(self, numbers: Sequence[Any]) -> tuple[Any, ...]:
        if _is_traced(numbers):
            from .traced import run_in_graph

            outputs, self.structure = run_in_graph(self.derived, numbers)
            return outputs
        if any([_is_in_older_vmap(x) for x in numbers if isinstance(x, torch.Tensor)]):
            return self._run_in_older_vmap(numbers)
        arrays = [array_of(x) if isinstance(x, torch.Tensor) else x for x in numbers]
        if not self.derived.compiles:
            arrays = [_read_only(x) for x in arrays]
        if self.places:
            result, kept, self.pullback = self.derived.with_pullback(self.places).run(*arrays)
            if self.pullback is not None:
                self.kept = [tensor_of(x) if _has_type(x) else x for x in kept]
            elif kept:
                self.ahead.append(kept)
        else:
            result = self.derived.run(*arrays)
        if type(result) is np.ndarray or isinstance(result, np.generic):
            leaves, self.structure = [result], _LEAF
        else:
            leaves, self.structure = tree.flatten(result)
            if not all([is_number(y) for y in leaves]):
                leaves, self.structure = tree.without_fixed(self.structure, leaves)
        if not self.derived.compiles:
            leaves = [_own(y, arrays) for y in leaves]
        return tuple([tensor_of(y) for y in leaves])

    def given_ahead(self, needed: Sequence[bool], seeds: Sequence[Any]) -> Sequence[Any] | None:
        """Adjoints by gradients that came with the value; None if these are gone, or the seed has no number."""
        (seed,) = [s for s in seeds if s is not None] or [None]
        if seed is None or _is_traced((seed,)) or _is_in_older_vmap(seed):
            return None
        try:
            gradient = self.ahead.pop()
        except IndexError:  # another thread was faster
            return None
        is_one = seed.item() == 1.0
        found: list[Any] = [None] * len(needed)
        for k, g in zip(self.places, gradient, strict=True):
            if needed[k + 1]:
                adjoint = tensor_of(g)
                found[k + 1] = adjoint if is_one else adjoint.mul_(seed)
        return tuple(found)

    def pulled_back(self, needed: Sequence[bool], seeds: Sequence[Any], saved: Any) -> Any:
        """Adjoints by what was kept; None if other seeds are given, or have no numbers."""
        assert self.pullback is not None
        given = [s for s in seeds if s is not None]
        is_for_these = self.pullback.given == tuple(
            [k for k, s in enumerate(seeds) if s is not None]
        )
        if not is_for_these or _is_traced(given) or any([_is_in_older_vmap(s) for s in given]):
            return None
        numbers = [*self.numbers(saved), *_filled(self.kept, saved[self.tensors :]), *given]
        arrays = [array_of(x) if isinstance(x, torch.Tensor) else x for x in numbers]
        found: list[Any] = [None] * len(needed)
        for k, g in zip(self.places, self.pullback(*arrays), strict=True):
            if needed[k + 1]:
                found[k + 1] = tensor_of(g)
        return tuple(found)

    def numbers(self, saved: Sequence[Any]) -> Sequence[Any]:
        """The arguments, by tensors that were saved."""
        return _filled(self.plain, saved) if self.plain else saved[: self.tensors]

    def _run_in_older_vmap(self, numbers: Sequence[Any]) -> tuple[Any, ...]:
        """Inside of the `vmap` that torch.autograd.grad(…, is_grads_batched=True) still uses."""
        level = torch._C._vmapmode_increment_nesting() - 1
        torch._C._vmapmode_decrement_nesting()
        tensors = [isinstance(x, torch.Tensor) for x in numbers]
        first = [
            torch._remove_batch_dim(x, level, 1, 0) if t else x
            for t, x in zip(tensors, numbers, strict=True)
        ]
        size = max([x.shape[0] for t, x in zip(tensors, first, strict=True) if t])
        axes = tuple(
            [0 if t and x.shape[0] == size else None for t, x in zip(tensors, first, strict=True)]
        )
        given = [
            x[0] if t and a is None else x for t, a, x in zip(tensors, axes, first, strict=True)
        ]
        torch._C._vmapmode_decrement_nesting()
        try:
            outputs = _Call(self.node, self.derived.mapped(axes)).run(given)
        finally:
            torch._C._vmapmode_increment_nesting()
        return tuple([torch._add_batch_dim(y, 0, level) for y in outputs])


def _is_recording() -> bool:
    """Whether PyTorch may want to know of what runs now: for higher orders, forward mode or torch.func."""
    return torch.is_grad_enabled() or forward_ad._current_level >= 0 or _are_transforms_active()


def _apply(node: Any, call: _Call, numbers: Sequence[Any]) -> Any:
    """`node.apply`, the short way outside of torch.func."""
    if _are_transforms_active():
        return node.apply(call, *numbers)
    alive = [_alive(x) if isinstance(x, torch.Tensor) else x for x in numbers]
    return node.record(call, *alive)


_are_transforms_active = torch._C._are_functorch_transforms_active
_alive = torch._C._functorch.unwrap_if_dead  # tensors that outlived a transformation of torch.func
_is_in_older_vmap = torch._C._functorch.is_legacy_batchedtensor
_LEAF = tree.flatten(1.0)[1]


def _read_only(x: Any) -> Any:
    """The memory of a tensor, which code that runs as it is written must leave as it is."""
    if isinstance(x, np.ndarray):
        x.flags.writeable = False
    return x


def _own(y: Any, arguments: Sequence[Any]) -> Any:
    """A result that shares no memory with the arguments, and can be written."""
    if not isinstance(y, np.ndarray):
        return y
    owned = y.flags.owndata and y.flags.writeable and not any(y is a for a in arguments)
    return y if owned else y.copy()


def _is_traced(numbers: Sequence[Any]) -> bool:
    """Whether somebody watches what PyTorch runs, or tensors are not what they seem."""
    if torch._C._len_torch_dispatch_stack():
        return True
    return any([isinstance(x, torch.Tensor) and type(x) not in _PLAIN for x in numbers])


class _Node(torch.autograd.Function):
    """PyTorch's view of a call. There is a subclass for each function, which carries its name."""

    @staticmethod
    def forward(call: _Call, *numbers: Any) -> tuple[Any, ...]:
        return call.run(numbers)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        call, *numbers = inputs
        ctx.call = call
        tensors = [x for x in numbers if isinstance(x, torch.Tensor)]
        call.plain = [] if len(tensors) == len(numbers) else [_if_plain(x) for x in numbers]
        call.tensors = len(tensors)
        if call.pullback is None:
            ctx.save_for_backward(*tensors)
        else:
            kept = [x for x in call.kept if isinstance(x, torch.Tensor)]
            call.kept = [_if_plain(x) for x in call.kept]
            ctx.save_for_backward(*tensors, *kept)
        if forward_ad._current_level >= 0 or _are_transforms_active():
            ctx.save_for_forward(*tensors)
        ctx.set_materialize_grads(False)
        call.count = len(output)
        call.smooth = tuple([k for k, y in enumerate(output) if _is_smooth(y.dtype)])
        if len(call.smooth) < call.count:
            ctx.mark_non_differentiable(*[y for y in output if not _is_smooth(y.dtype)])

    @staticmethod
    def backward(ctx: Any, *seeds: Any) -> Sequence[Any]:
        call, needed = ctx.call, ctx.needs_input_grad
        if (call.ahead or call.pullback) and not torch.is_grad_enabled():
            found = (
                call.given_ahead(needed, seeds)
                if call.ahead
                else call.pulled_back(needed, seeds, ctx.saved_tensors)
            )
            if found is not None:
                return found
        places = tuple([k for k in range(len(needed) - 1) if needed[k + 1]])
        given = tuple([k for k, seed in enumerate(seeds) if seed is not None])
        adjoints: list[Any] = [None] * len(needed)
        if places and given:
            pull = call.derived.pulled(places, given)
            found = call.follow(pull, *call.numbers(ctx.saved_tensors), *[seeds[k] for k in given])
            for k, adjoint in zip(places, found, strict=True):
                adjoints[k + 1] = adjoint
        return tuple(adjoints)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> tuple[Any, ...]:
        along = tangents[1:]
        places = tuple([k for k, t in enumerate(along) if t is not None])
        images: list[Any] = [None] * ctx.call.count
        if places and ctx.call.smooth:
            push = ctx.call.derived.pushed(places, ctx.call.smooth)
            saved = ctx.call.numbers(ctx.saved_tensors)
            found = ctx.call.follow(push, *saved, *[along[k] for k in places])
            for k, image in zip(ctx.call.smooth, found, strict=True):
                images[k] = image
        return tuple(images)

    @staticmethod
    def vmap(info: Any, in_dims: Any, call: _Call, *numbers: Any) -> tuple[Any, Any]:
        mapped = _Call(call.node, call.derived.mapped(tuple(in_dims[1:])))
        outputs = _apply(call.node, mapped, numbers)
        call.structure = mapped.structure
        return outputs, (0,) * len(outputs)


def _filled(numbers: Sequence[Any], tensors: Sequence[Any]) -> list[Any]:
    """The numbers, with tensors where there are none."""
    rest = iter(tensors)
    return [next(rest) if x is None else x for x in numbers]


def _has_type(x: Any) -> bool:
    return isinstance(x, np.ndarray | np.generic)


def _if_plain(x: Any) -> Any:
    return None if isinstance(x, torch.Tensor) else x


def _is_smooth(dtype: Any) -> bool:
    return dtype.is_floating_point or dtype.is_complex
