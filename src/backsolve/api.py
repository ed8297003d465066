"""The public transformations. Each gives a function fresh rows, runs it, and solves its system."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import tree
from .batch import evaluate_batched
from .errors import DTypeError, NotScalarError, ShapeError, StructureError, location
from .ir import Type, type_of
from .kinds import distinct, same_kind
from .operators import Block, Inverse, Operator, as_operator
from .primitive import FUNCTIONS, Primitive, Watcher, hooks, undisturbed, wrap
from .quiet import are_large, writes_nothing
from .row import Row, ancestors, next_index
from .solve import forward_substitute
from .solve.many import forward_jacobian, reverse_jacobian
from .system import System
from .tensor import Staged, Tensor
from .trace import stage
from .vary import Varied

ArgNums = int | Sequence[int]


# ---- reverse mode


def value_and_grad(
    f: Callable[..., Any], argnums: ArgNums = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that returns f's value (or `(value, aux)`) and its gradient, in one run.

    >>> import numpy as np
    >>> value_and_grad(lambda x: (x**2).sum())(np.array([1.0, 2.0]))
    (np.float64(5.0), array([2., 4.]))
    """

    def differentiate(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        varied = Varied("grad", args, argnums)
        result = hooks.users(f)(*varied.args, **kwargs)
        y, aux = _split_aux(result, has_aux)
        _check_scalar(y)
        aux = tree.map(varied.release, aux) if has_aux else None
        gradient = varied.like(_adjoints(varied, y))
        value = y if varied.record else varied.released(y)
        varied.finish()
        return ((value, aux), gradient) if has_aux else (value, gradient)

    @functools.wraps(f)
    def run(*args: Any, **kwargs: Any) -> Any:
        if are_large(args) and writes_nothing(f, (*args, *kwargs.values())):
            with undisturbed:
                return differentiate(args, kwargs)
        return differentiate(args, kwargs)

    run.__backsolve_value_and_grad_of__ = (f, argnums)  # type: ignore[attr-defined]
    return run


def grad(f: Callable[..., Any], argnums: ArgNums = 0, has_aux: bool = False) -> Callable[..., Any]:
    """The gradient of a function of one real result, with respect to `argnums`.

    Arguments may be floats, arrays, Tensors, or dicts, lists, tuples and dataclasses of them; the
    gradient has the same form. For complex arguments it is ∂f/∂x + i ∂f/∂y, the direction of
    steepest ascent.

    >>> import numpy as np
    >>> grad(lambda x: np.log(x[0]) + x[0] * x[1] - np.sin(x[1]))(np.array([2.0, 5.0]))
    array([5.5       , 1.71633781])
    """
    both = value_and_grad(f, argnums, has_aux)

    @functools.wraps(f)
    def run(*args: Any, **kwargs: Any) -> Any:
        value, gradient = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    run.__backsolve_grad_of__ = (f, argnums)  # type: ignore[attr-defined]
    return run


def _adjoints(varied: Varied, y: Any) -> list[Any]:
    if not isinstance(y, Tensor) or y.row is None:
        return [None] * len(varied.rows)
    return distinct(varied.pull([(y, y.dtype.type(1))]))


def _split_aux(result: Any, has_aux: bool) -> tuple[Any, Any]:
    if not has_aux:
        return result, None
    if not (isinstance(result, tuple | list) and len(result) == 2):
        raise StructureError(
            f"with has_aux=True the function must return (value, aux), got {type(result).__name__}"
        )
    return result[0], result[1]


def _check_scalar(y: Any) -> None:
    if type(y) is Tensor and y.shape == () and y.dtype.kind in "fbiu":
        return
    if isinstance(y, tuple | list | dict):
        raise NotScalarError(
            f"grad needs a function that returns one real number, got a {type(y).__name__}; "
            "use has_aux=True for further results, or jacobian"
        )
    t = y if isinstance(y, Tensor) else np.asarray(y)
    if t.shape == () and t.dtype.kind in "fbiu":
        return
    kind = "complex " if t.dtype.kind == "c" else ""
    raise NotScalarError(
        f"grad needs a function that returns one real number, got {kind}shape {t.shape} of {t.dtype}; "
        "reduce it with .sum() or .mean(), or ask for jacobian"
    )


def vjp(f: Callable[..., Any], *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """f(*primals) and the function that pulls a seed of f's form back to all arguments.

    >>> import numpy as np
    >>> y, pull = vjp(np.sin, 0.0)
    >>> pull(2.0)
    (2.0,)
    """
    varied = Varied("vjp", primals, range(len(primals)))
    result, aux = _split_aux(hooks.users(f)(*varied.args), has_aux)
    outputs, structure = tree.flatten(result)

    def pull(seed: Any) -> Any:
        seeds = _match(seed, outputs, structure, "the seed")
        live = [
            (y, s)
            for y, s in zip(outputs, seeds, strict=True)
            if isinstance(y, Tensor) and y.row is not None
        ]
        return varied.like(distinct(varied.pull(live)))

    value = tree.map(varied.release, result)
    return (value, pull, tree.map(varied.release, aux)) if has_aux else (value, pull)


# ---- forward mode


def jvp(f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """f(*primals) and its directional derivative along `tangents`.

    >>> import numpy as np
    >>> jvp(np.sin, (0.0,), (1.0,))
    (0.0, 1.0)
    """
    varied = Varied("jvp", primals, range(len(primals)))
    structure = tree.flatten(tuple(primals))[1]
    flat = _match(tuple(tangents), varied.originals, structure, "the tangents")
    seeds = [t for t, s in zip(flat, varied.static, strict=True) if not s]
    outputs, out_structure = tree.flatten(hooks.users(f)(*varied.args))
    live = [y for y in outputs if isinstance(y, Tensor)]
    rows, record = varied.gather(live)
    record = record or any(
        isinstance(t, Tensor) and (t.row is not None or isinstance(t, Staged)) for t in seeds
    )
    pairs = list(zip(varied.rows, seeds, strict=True))
    found = forward_substitute(rows, pairs, [y.row for y in live], record=record)
    rest = iter(found)
    values = [varied.release(y) for y in outputs]
    varied.finish()
    images = [next(rest) if isinstance(y, Tensor) else None for y in outputs]
    images = distinct(
        [same_kind(t, v) if _is_numeric(v) else None for t, v in zip(images, values, strict=True)]
    )
    return out_structure.unflatten(values), out_structure.unflatten(images)


def _is_numeric(v: Any) -> bool:
    return isinstance(v, Tensor | np.ndarray | np.generic | float | complex)


def _match(given: Any, like: Sequence[Any], structure: tree.Structure, what: str) -> list[Any]:
    """`given` flattened, checked against the form, shapes and dtypes of what it goes with."""
    leaves, got = tree.flatten(given)
    if got != structure:
        raise StructureError(
            f"{what} must have the form of what it goes with: {structure.unflatten(like)!r}"
        )
    out: list[Any] = []
    for g, x in zip(leaves, like, strict=True):
        t = type_of(x) if not isinstance(x, Tensor) else Type(x.shape, x.dtype)
        given_type = Type(g.shape, g.dtype) if isinstance(g, Tensor) else type_of(np.asarray(g))
        if given_type.shape != t.shape:
            raise ShapeError(f"{what} must have shape {t.shape}, got {given_type.shape}")
        if given_type.dtype.kind == "c" and t.dtype.kind != "c":
            raise DTypeError(
                f"{what} must be real where the value is real ({t.dtype}), got complex"
            )
        if t.dtype.kind not in "fc":
            out.append(g)
        elif isinstance(g, Tensor):
            g = FUNCTIONS["astype"](g, t.dtype) if g.dtype != t.dtype else g
            out.append(g if g.row is not None or isinstance(g, Staged) else g._v)
        else:
            out.append(np.asarray(g).astype(t.dtype)[()])
    return out


# ---- the system, Jacobians, second derivatives


class _Trace(Watcher):
    """What the rows of a System look like: values, constant inputs, source lines."""

    def __init__(self) -> None:
        super().__init__()
        self.values: dict[Row, Any] = {}
        self.constants: dict[Row, tuple[Any, ...]] = {}
        self.lines: dict[Row, str] = {}

    def on_call(self, prim: Primitive, row: Row | None, y: Any, inputs: Sequence[Any]) -> None:
        if row is not None:
            self.values[row] = y
            self.lines[row] = location(4)
            self.constants[row] = tuple(
                None if isinstance(a, Tensor) and a.row is not None else a for a in inputs
            )


def linearize(f: Callable[..., Any], argnums: ArgNums | None = None) -> Callable[..., System]:
    """A function that returns the differential of `f` at its arguments, as an object.

    >>> import numpy as np
    >>> system = linearize(lambda x: x[0] * np.exp(x[1]))(np.array([2.0, 0.0]))
    >>> system.backward(1.0)
    array([1., 2.])
    """

    @functools.wraps(f)
    def run(*args: Any, **kwargs: Any) -> System:
        numbers = (
            argnums if argnums is not None else 0 if len(args) == 1 else tuple(range(len(args)))
        )
        varied = Varied("linearize", args, numbers)
        seen = _Trace()
        hooks.add(seen)
        try:
            outputs, structure = tree.flatten(hooks.users(f)(*varied.args, **kwargs))
        finally:
            hooks.remove(seen)
        tensors = [y if isinstance(y, Tensor) else wrap(np.asarray(y)[()], None) for y in outputs]
        rows, record = varied.gather(tensors)
        return System(
            rows=rows,
            parameters=varied.rows,
            outputs=tensors,
            record=record,
            names=_parameter_names(f, varied),
            in_form=varied.like,
            out_form=structure,
            in_structure=varied.structure,
            values=seen.values,
            constants=seen.constants,
            lines=seen.lines,
        )

    return run


def _parameter_names(f: Callable[..., Any], varied: Varied) -> list[str]:
    """The names of f's arguments if each is one parameter, else p1, p2, …"""
    try:
        names = [
            p.name
            for p in inspect.signature(f).parameters.values()
            if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]
    except (TypeError, ValueError):
        names = []
    count = len(varied.rows)
    if len(names) >= count and all(isinstance(x, Tensor) for x in varied.args[:count]):
        return names[:count]
    return [f"p{k}" for k in range(1, count + 1)]


def jacobian(f: Callable[..., Any], argnums: ArgNums = 0, mode: str = "auto") -> Callable[..., Any]:
    """The dense Jacobian: for an output of shape S and an argument of shape T, an array S + T.

    `mode` is "forward" (a column a solve), "reverse" (a row a solve) or "auto" (the fewer).

    >>> import numpy as np
    >>> jacobian(lambda x: x**2)(np.array([1.0, 2.0]))
    array([[2., 0.],
           [0., 4.]])
    """
    if mode not in ("auto", "forward", "reverse"):
        raise ValueError(f'mode must be "auto", "forward" or "reverse", got {mode!r}')

    @functools.wraps(f)
    def run(*args: Any, **kwargs: Any) -> Any:
        varied = Varied("jacobian", args, argnums)
        outputs, structure = tree.flatten(hooks.users(f)(*varied.args, **kwargs))
        columns = _jacobian_blocks(varied, outputs, mode)
        # A `Function` or a compiled one gives Tensors, whose rows may be our own.
        columns = [[varied.release(g) for g in row] for row in columns]
        varied.finish()
        return structure.unflatten([varied.like(row, _as_jacobian) for row in columns])

    return run


def _jacobian_blocks(varied: Varied, outputs: Sequence[Any], mode: str) -> list[list[Any]]:
    """[output][input] -> array of shape output.shape + input.shape."""
    live = [y for y in outputs if isinstance(y, Tensor) and y.row is not None]
    out_rows: list[Any] = [y.row for y in live]
    rows, record = varied.gather(live)
    n_in = sum(r.size for r in varied.rows)
    n_out = sum(y.size for y in live)
    is_complex = any(r.dtype.kind == "c" for r in varied.rows) or any(
        y.dtype.kind == "c" for y in live
    )
    forward = is_complex or mode == "forward" or (mode == "auto" and n_in <= n_out)
    found: dict[tuple[int, int], Any] = {}
    if forward:
        for j, r in enumerate(varied.rows):
            stacks = forward_jacobian(rows, out_rows, r, record)
            if r.dtype.kind == "c":
                turned = forward_jacobian(rows, out_rows, r, record, unit=1j)
                _check_holomorphic(stacks, turned)
            for y, s in zip(live, stacks, strict=True):
                s = np.moveaxis(s, 0, -1)
                found[id(y), j] = np.reshape(s, (*y.shape, *r.shape))
    else:
        for y, out in zip(live, out_rows, strict=True):
            stacks = reverse_jacobian(rows, out, varied.rows, record)
            for j, (r, s) in enumerate(zip(varied.rows, stacks, strict=True)):
                found[id(y), j] = np.reshape(s, (*y.shape, *r.shape))
    blocks = []
    for y in outputs:
        shape = y.shape if hasattr(y, "shape") else np.shape(y)
        zeros = [np.zeros((*shape, *r.shape), r.dtype) for r in varied.rows]
        blocks.append([found.get((id(y), j), z) for j, z in enumerate(zeros)])
    return blocks


def _check_holomorphic(stacks: Sequence[Any], turned: Sequence[Any]) -> None:
    """A complex Jacobian exists only if multiplying a direction by i multiplies its image by i."""
    for s, t in zip(stacks, turned, strict=True):
        ahead, across = (np.asarray(getattr(x, "_v", x)) for x in (s, t))
        if not np.allclose(1j * ahead, across, equal_nan=True):
            raise NotScalarError(
                "jacobian of a function of complex arguments needs it to be holomorphic; this one is not. "
                "Differentiate with respect to real and imaginary part, or use jvp"
            )


def _as_jacobian(g: Any, like: Any) -> Any:
    if isinstance(g, Tensor) or isinstance(like, Tensor):
        return g if isinstance(g, Tensor) else wrap(np.asarray(g), None)
    g = np.array(g)
    if g.dtype.kind == "f" and getattr(like, "dtype", g.dtype).kind == "f":
        g = g.astype(getattr(like, "dtype", g.dtype))  # as a gradient has the dtype of its argument
    return g.item() if g.ndim == 0 and type(like) in (float, complex) else g


def hessian(f: Callable[..., Any], argnums: ArgNums = 0) -> Callable[..., Any]:
    """The matrix of second derivatives, forward over reverse.

    >>> import numpy as np
    >>> hessian(lambda x: x[0] ** 2 * x[1])(np.array([1.0, 3.0]))
    array([[6., 2.],
           [2., 0.]])
    """
    return jacobian(grad(f, argnums), argnums, mode="forward")


def hvp(f: Callable[..., Any], argnums: ArgNums = 0) -> Callable[..., Any]:
    """Hessian times a vector, without the Hessian: `hvp(f)(*args, v)`, v of the form of `argnums`.

    >>> import numpy as np
    >>> hvp(lambda x: (x**3).sum())(np.array([1.0, 2.0]), np.array([1.0, 0.0]))
    array([6., 0.])
    """

    @functools.wraps(f)
    def run(*args: Any, **kwargs: Any) -> Any:
        if len(args) < 2:
            raise StructureError(
                "hvp(f) is called with f's arguments and then the vector: hvp(f)(x, v)"
            )
        *primals, v = args
        single = isinstance(argnums, int | np.integer)
        numbers: list[Any] = [argnums] if single else list(argnums)  # type: ignore[arg-type]
        chosen = [primals[n] for n in numbers]

        def gradient(*parts: Any) -> Any:
            inner = list(primals)
            for n, part in zip(numbers, parts, strict=True):
                inner[n] = part
            return grad(f, argnums)(*inner, **kwargs)

        return jvp(gradient, chosen, [v] if single else v)[1]

    return run


# ---- batching


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
            x = leaves[k] if isinstance(leaves[k], Tensor) else np.asarray(leaves[k])
            if not -x.ndim <= axes[k] < x.ndim:
                raise ShapeError(f"vmap: axis {axes[k]} of an argument of shape {x.shape}")
            examples.append(np.moveaxis(x, axes[k], 0) if axes[k] != 0 else x)
        sizes = {x.shape[0] for x in examples}
        if len(sizes) > 1:
            raise ShapeError(f"vmap: the mapped axes must have one length, got {sorted(sizes)}")
        results: list[Any] = []
        start = next_index()
        shared = [wrap(x, None) if isinstance(x, np.ndarray) else x for x in leaves]

        def flat(*staged: Any) -> list[Any]:
            inner = list(shared)
            for k, x in zip(batched, staged, strict=True):
                inner[k] = x
            outputs, out_structure = tree.flatten(
                hooks.rewritten(f)(*structure.unflatten(inner), **kwargs)
            )
            results.append(out_structure)
            return outputs

        program, _ = stage(flat, [Type(x.shape[1:], x.dtype) for x in examples])
        outputs = evaluate_batched(program, examples, [True] * len(examples), sizes.pop())
        form = results[0]
        targets = (
            [out_axes] * len(outputs) if isinstance(out_axes, int) else tree.flatten(out_axes)[0]
        )
        moved = [
            y if a == 0 else np.moveaxis(y, 0, a) for y, a in zip(outputs, targets, strict=True)
        ]
        return form.unflatten([_finished(y, start, examples) for y in moved])

    return run


def _finished(y: Any, start: int, examples: Sequence[Any]) -> Any:
    """A mapped result: an array of its own, or a Tensor if one went in or somebody outside needs it."""
    if isinstance(y, Tensor):
        older = y.row is not None and ancestors([y.row], start)[1]
        if older or isinstance(y, Staged):
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
    axes: list[int | None] = []

    def assign(a: Any, x: Any) -> None:
        leaves, _ = tree.flatten(x)
        if a is None or isinstance(a, int):
            axes.extend([a] * len(leaves))
        elif isinstance(a, dict):
            for key in x:
                assign(a[key], x[key])
        elif isinstance(a, tuple | list) and len(a) == len(x):
            for b, y in zip(a, x, strict=True):
                assign(b, y)
        else:
            raise StructureError(f"vmap: in_axes {a!r} does not fit the argument {x!r}")

    for a, x in zip(in_axes, args, strict=True):
        assign(a, x)
    return axes


# ---- the rest


def stop_gradient(x: Any) -> Any:
    """The same values, constant from here on.

    >>> grad(lambda x: x * stop_gradient(x))(3.0)
    3.0
    """
    return tree.map(lambda leaf: leaf.detach() if isinstance(leaf, Tensor) else leaf, x)


def backslash(A: Any, b: Any) -> Any:
    """Solve A x = b; A a Block of operators (triangular), an operator, or a matrix.

    >>> L = Block([[0, 0], [2.0, 0]])
    >>> from backsolve.operators import I
    >>> backslash(I - L, (1.0, 1.0))
    (1.0, 3.0)
    """
    if not isinstance(A, Operator):
        A = np.asarray(A)
        if A.dtype == object:
            A = Block(A.tolist())
        elif A.ndim == 2 and A.shape[0] != A.shape[1]:
            return np.linalg.lstsq(A, np.asarray(b), rcond=None)[0]
        else:
            A = as_operator(A)
    if isinstance(A, Block):
        return A.solve(tuple(b))
    return Inverse(A).apply(b)
