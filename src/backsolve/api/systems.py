"""The differential of a function as an object, and systems of operators solved by hand."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import tree
from ..errors import ShapeError, SingularError, StructureError, check_function, location
from ..hooks import Watcher, hooks
from ..ir import Var
from ..operators import Block, Diagonal, Inverse, Operator, as_operator
from ..operators.inverse import is_solved_by_structure
from ..primitive import Primitive, wrap
from ..primitives.checks import raise_if
from ..results import check_differentiable
from ..row import Row
from ..solve.packing import plain
from ..system import System
from ..tensor import Tensor
from ..vary import ArgNums, Varied

_PRINTED = 64  # entries of a constant, up to which somebody may look at them


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
            self.lines[row] = _line_of(y) or location(4)
            self.constants[row] = tuple(
                [
                    None if isinstance(a, Tensor) and a.row is not None else _as_it_is_now(a)
                    for a in inputs
                ]
            )


def _line_of(y: Any) -> str:
    """Of a staged value, where its equation says that it stands."""
    last = y.recorder.equations[-1:] if type(y) is Var else ()
    return last[0].where if last and y in last[0].outputs else ""


def _as_it_is_now(a: Any) -> Any:
    """A constant that is printed with its numbers: later writes into it do not show."""
    v = a._v if isinstance(a, Tensor) else a
    return v.copy() if isinstance(v, np.ndarray) and v.size <= _PRINTED else a


def linearize(
    f: Callable[..., Any], argnums: ArgNums | None = None, *, merge: bool = True
) -> Callable[..., System]:
    """A function that returns the differential of `f` at its arguments, as an object.

    Rows that compute again what an earlier row did are merged with it, unless `merge` is False.

    >>> import numpy as np
    >>> system = linearize(lambda x: x[0] * np.exp(x[1]))(np.array([2.0, 0.0]))
    >>> system.backward(1.0)
    array([1., 2.])
    """

    check_function("linearize", f)

    @functools.wraps(f)
    def run(*args: Any, **kwargs: Any) -> System:
        numbers = (
            argnums if argnums is not None else 0 if len(args) == 1 else tuple(range(len(args)))
        )
        return system_of("linearize", f, args, kwargs, numbers, merge)[0]

    return run


def system_of(
    what: str,
    f: Callable[..., Any],
    args: Any,
    kwargs: Any,
    argnums: ArgNums,
    merge: bool = True,
    fixed: Sequence[bool] = (),
) -> tuple[System, Varied]:
    """The system of one run, and the arguments that vary in it, but for leaves that are `fixed`."""
    seen = _Trace()
    hooks.add(seen)
    try:
        varied = Varied(what, args, argnums, fixed)
        outputs, structure = tree.flatten(hooks.users(f)(*varied.args, **kwargs))
    finally:
        hooks.remove(seen)
    check_differentiable(what, outputs)
    tensors = [y if isinstance(y, Tensor) else _constant(y) for y in outputs]
    rows, record = varied.gather(tensors)
    system = System(
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
        merge=merge,
    )
    return system, varied


def _constant(y: Any) -> Tensor:
    return wrap(np.asarray(y.toarray() if hasattr(y, "tocoo") else y)[()], None)


def _parameter_names(f: Callable[..., Any], varied: Varied) -> list[str]:
    """The arrays of f's arguments as its caller knows them: x, params['w'], model.0.weight."""
    arguments = _argument_names(f, len(varied.args))
    parts = zip(varied.numbers, varied.structure.children, strict=True)
    names = [name for n, form in parts for name in tree.leaf_names(form, arguments[n])]
    return [name for name, fixed in zip(names, varied.static, strict=True) if not fixed]


def _argument_names(f: Callable[..., Any], count: int) -> list[str]:
    """By position; p1, p2, … where f does not tell."""
    try:
        parameters = list(inspect.signature(f).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    rest = [p.name for p in parameters if p.kind is p.VAR_POSITIONAL]
    more = range(count - len(names))
    names += [f"{rest[0]}[{k}]" if rest else f"p{len(names) + k + 1}" for k in more]
    return names


def backslash(A: Any, b: Any, method: str = "auto", **options: Any) -> Any:
    """Solve A x = b; A a Block of operators, an operator, or a matrix (one of SciPy's sparse ones, too).

    A Block is solved by substitution, and so are Blocks that are its entries. If rows read each other, say how:
    `method` and `options` are those of `bs.linear_solve`, "gmres" for example. They then go for the smallest
    Blocks on the diagonal whose rows do.

    >>> L = Block([[0, 0], [2.0, 0]])
    >>> from backsolve.operators import I
    >>> backslash(I - L, (1.0, 1.0))
    (1.0, 3.0)
    """
    if hasattr(A, "tocoo"):  # sparse
        return _linear_solve(A, b, method, **options)
    if not isinstance(A, Operator):
        if callable(A) and not isinstance(A, Tensor):
            raise StructureError(
                f"`backslash` solves with a Block, an operator or a matrix, got the function {A!r:.60}: "
                "bs.linear_solve(A, b) takes functions v ↦ A v"
            )
        A = A if isinstance(A, Tensor) else np.asarray(A)
        if A.dtype == object:
            A = Block(A.tolist())
        elif A.ndim == 2 and np.shape(b)[:1] != A.shape[:1]:
            raise ShapeError(
                f"`backslash` needs as many rows of b as A has: got {A.shape} and {np.shape(b)}"
            )
        elif A.ndim == 2 and A.shape[0] != A.shape[1]:
            b = b if isinstance(b, Tensor) else np.asarray(b)
            return np.linalg.lstsq(A, b, rcond=None)[0]
        else:
            A = as_operator(A)
    if method == "auto" and not options:
        return solved_by_structure(A, b)

    def as_a_whole(A: Operator, b: Any) -> Any:
        return _linear_solve(A, tuple(b) if isinstance(A, Block) else b, method, **options)

    def by_entries(A: Block, b: Any) -> Any:
        return A.solve(tuple(b), of_entry) if A.order() is not None else as_a_whole(A, b)

    def of_entry(A: Operator, b: Any) -> Any:
        if isinstance(A, Block):
            return by_entries(A, b)
        return solved_by_structure(A, b) if is_solved_by_structure(A) else as_a_whole(A, b)

    is_whole = not isinstance(A, Block) or options.get("preconditioner") is not None
    return as_a_whole(A, b) if is_whole else by_entries(A, b)


def solved_by_structure(A: Operator, b: Any) -> Any:
    """A⁻¹ b; a zero on a diagonal is told like any other singular matrix."""
    if isinstance(A, Block):
        return A.solve(tuple(b), solved_by_structure)
    if isinstance(A, Diagonal):
        is_singular = np.any(plain(A.d) == 0)
        raise_if(is_singular, SingularError, "a diagonal has a zero: the system is singular")
    return Inverse(A).apply(b)


def _linear_solve(*args: Any, **options: Any) -> Any:
    return importlib.import_module("..implicits", __package__).linear_solve(*args, **options)
