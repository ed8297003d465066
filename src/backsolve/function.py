"""Operations of one's own: by a pair of functions, as on the slides, or by one row of the table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from . import tree
from .errors import DroppedDerivativeError, ShapeError, StructureError
from .joint import held, record_joint
from .operators import Custom
from .primitive import primitive as write_row
from .primitive import wrap
from .solve import back_substitute
from .tensor import Staged, Tensor, leaf_row, lent
from .trace import is_for_later


class Context:
    """What `forward` leaves for `backward`. Attributes may be set freely."""

    def __init__(self) -> None:
        self.saved_tensors: tuple[Any, ...] = ()

    def save_for_backward(self, *tensors: Any) -> None:
        self.saved_tensors = tensors


class Function:
    """Subclass it with static methods `forward(ctx, *inputs)` and `backward(ctx, *grads)`.

    >>> import backsolve as bs
    >>> class Multiply(bs.Function):
    ...     @staticmethod
    ...     def forward(ctx, x, y):
    ...         ctx.save_for_backward(x, y)
    ...         return x * y
    ...     @staticmethod
    ...     def backward(ctx, grad_z):
    ...         x, y = ctx.saved_tensors
    ...         return y * grad_z, x * grad_z
    >>> bs.grad(Multiply.apply, argnums=(0, 1))(3.0, 4.0)
    (4.0, 3.0)

    Higher orders work if both are written with operations on the tensors they get: for those
    `forward` is run once more, recorded. Forward mode follows from `backward`, which is linear in
    the gradient; a static method `jvp(ctx, *tangents)` may give it directly.
    """

    @staticmethod
    def forward(ctx: Context, *args: Any) -> Any:
        """The value; what `backward` needs goes into `ctx`."""
        raise TypeError("a bs.Function needs a static method forward(ctx, *inputs)")

    @staticmethod
    def backward(ctx: Context, *grads: Any) -> Any:
        """The gradient of each input, from those of the outputs."""
        raise TypeError("a bs.Function needs a static method backward(ctx, *grads)")

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Call it: this is the function to use and to differentiate."""
        for a in args:
            if not isinstance(a, Tensor) and any(_varies(x) for x in tree.flatten(a)[0]):
                raise StructureError(
                    f"{cls.__name__}.apply got a Tensor that varies inside a {type(a).__name__}; "
                    "pass each Tensor as an argument of its own"
                )
        if any(isinstance(a, Staged) for a in args):
            if is_for_later(*args):
                return cls._call(args)
            for a in args:
                if isinstance(a, Staged):
                    a._v.recorder.has_own_derivative = True  # a Program being recorded hears of it
        ctx = Context()
        places = [k for k, a in enumerate(args) if _varies(a)]
        if not places:
            return cls.forward(ctx, *args)
        args = tuple(held(args))
        detached = [a.detach() if isinstance(a, Tensor) else a for a in args]
        result = cls.forward(ctx, *detached)
        several = isinstance(result, tuple)
        outputs = list(result) if several else [result]
        for y in outputs:
            if _varies(y):
                raise DroppedDerivativeError(
                    f"{cls.__name__}.forward uses a Tensor that needs a gradient but is not one of its "
                    "arguments; pass it to apply()"
                )
        values_at = [k for k, y in enumerate(outputs) if y is not None]
        raw = [
            _raw(outputs[k]._v if isinstance(outputs[k], Tensor) else outputs[k]) for k in values_at
        ]
        types = [(y.shape, y.dtype) for y in raw]

        def operator_of(values: Sequence[Any], record: bool) -> Custom:
            again = list(args)
            for k, v in zip(places, values, strict=True):
                again[k] = v
            return Custom(
                *cls._rule(again, places, types, None if record else ctx), name=cls.__name__
            )

        rows = [args[k].row for k in places]
        made = record_joint(cls.__name__, operator_of, [args[k]._v for k in places], rows, raw)
        for k, y in zip(values_at, made, strict=True):
            outputs[k] = y
        return tuple(outputs) if several else outputs[0]

    @classmethod
    def _rule(
        cls, args: Sequence[Any], places: Sequence[int], types: Any, ctx: Context | None
    ) -> tuple[Any, Any]:
        """push and pull at these arguments, of which those at `places` vary.

        Without a context, forward is run again so that whatever it keeps knows its own rows.
        """
        record = ctx is None
        context = Context() if ctx is None else ctx
        if record:
            cls.forward(context, *args)

        def pull(cts: Sequence[Any]) -> tuple[Any, ...]:
            full = [np.zeros(*t) if c is None else c for c, t in zip(cts, types, strict=True)]
            grads = cls.backward(context, *map(_lent_tensor, full))
            grads = grads if isinstance(grads, tuple) else (grads,)
            if len(grads) != len(args):
                raise StructureError(
                    f"{cls.__name__}.backward must return one gradient per input of forward: "
                    f"expected {len(args)}, got {len(grads)}"
                )
            return tuple(
                _checked(_plain(grads[k], record), getattr(args[k], "shape", ()), cls.__name__)
                for k in places
            )

        def push(ts: Sequence[Any]) -> tuple[Any, ...]:
            if hasattr(cls, "jvp"):
                tangents: list[Any] = [np.zeros(np.shape(_value(a))) for a in args]
                for k, t in zip(places, ts, strict=True):
                    tangents[k] = tangents[k] if t is None else t
                out = cls.jvp(context, *map(_lent_tensor, tangents))
                return tuple(_plain(t, record) for t in (out if isinstance(out, tuple) else (out,)))
            return _transpose(pull, types, ts, record)

        return push, pull

    @classmethod
    def _call(cls, args: Sequence[Any]) -> Any:
        """In a loop or branch that is being recorded: a call that remembers this rule."""
        from .control.calls import call_with_rule  # there already: it is what records

        tensors = [k for k, a in enumerate(args) if isinstance(a, Tensor)]
        forms: list[tuple[bool, list[int], int]] = []

        def filled(values: Sequence[Any]) -> list[Any]:
            full = list(args)
            for k, v in zip(tensors, values, strict=True):
                full[k] = v
            return full

        def run(*values: Any) -> list[Any]:
            result = cls.forward(Context(), *filled(values))
            outputs = list(result) if isinstance(result, tuple) else [result]
            at = [k for k, y in enumerate(outputs) if y is not None]
            forms[:] = [(isinstance(result, tuple), at, len(outputs))]
            return [outputs[k] for k in at]

        def rule(inputs: Sequence[Any], places: Sequence[int]) -> Any:
            return cls._rule(filled(inputs), [tensors[k] for k in places], types, None)

        found = call_with_rule(cls.__name__, run, [args[k] for k in tensors], rule)
        types = [(y.shape, y.dtype) for y in found]
        several, at, size = forms[0]
        outputs: list[Any] = [None] * size
        for k, y in zip(at, found, strict=True):
            outputs[k] = y
        return tuple(outputs) if several else outputs[0]


def _raw(v: Any) -> Any:
    return v if hasattr(v, "shape") else np.asarray(v)[()]


def _lent_tensor(t: Any) -> Any:
    """As a Tensor of the user's: written into, it becomes another value, and `t` is what it was."""
    if isinstance(t, Tensor):
        return lent(t)
    is_view = type(t) is np.ndarray and t.base is not None  # no place to write into, for a Tensor
    return wrap(t.copy() if is_view else t, None)


def _varies(a: Any) -> bool:
    return isinstance(a, Tensor) and a.row is not None


def _value(a: Any) -> Any:
    return np.empty(a.shape) if isinstance(a, Tensor) else a


def _checked(g: Any, shape: tuple[int, ...], name: str) -> Any:
    """A gradient may be larger than its input by broadcasting, which is summed away, and no other."""
    if g is not None and g.shape != shape:
        try:
            fits = np.broadcast_shapes(g.shape, shape) == g.shape
        except ValueError:
            fits = False
        if not fits:
            raise ShapeError(
                f"{name}.backward gave a gradient of shape {g.shape} for an input of {shape}"
            )
    return g


def _plain(t: Any, record: bool) -> Any:
    if t is None or record or isinstance(t, Staged):
        return t
    if isinstance(t, Tensor):
        return t._v if t.row is None else t
    return np.asarray(t)[()]


def _transpose(pull: Any, types: Any, ts: Sequence[Any], record: bool) -> tuple[Any, ...]:
    """J t from u ↦ Jᵀ u: that map is linear in u, and its own adjoint is J."""
    seeds = [wrap(np.zeros(*t), leaf_row(np.zeros(*t))) for t in types]
    grads = pull(seeds)
    pairs = [
        (g.row, t if g.shape == t.shape else np.broadcast_to(t, g.shape))
        for g, t in zip(grads, ts, strict=True)
        if t is not None and isinstance(g, Tensor) and g.row is not None
    ]
    rows = [s.row for s in seeds]
    oldest = min(r.index for r in rows)
    return tuple(back_substitute(pairs, rows, oldest=oldest, record=record))


def primitive(name: str, run: Any, *, blocks: Any, **row: Any) -> Any:
    """A primitive of your own: a function that runs, and one linear operator per input as its derivative.

    A block is an operator (bs.operators), or a function that returns one and asks by the names of its
    arguments for what it needs: `y` the output, `a, b, c…` the inputs, `Y, A, B…` only their types,
    keyword-only arguments the metadata of the call. Written with NumPy, it serves both modes and every order.
    `blocks=None` says that nothing varies smoothly here: derivatives are zero.

    >>> import numpy as np, backsolve as bs
    >>> from backsolve.operators import Diagonal
    >>> cube = primitive("doc_cube", lambda a: a**3, blocks=(lambda a: Diagonal(3 * a**2),), elementwise=True)
    >>> bs.grad(cube)(2.0), bs.grad(bs.grad(cube))(2.0)
    (12.0, 12.0)

    `bs.testing.check_primitive` checks it: value, both modes, both orders, shapes.
    """
    return write_row(name, run, blocks=blocks, **row)
