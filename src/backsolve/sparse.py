"""Sparse Jacobians and Hessians: the pattern is planned once, the values are compiled.

    plan = bs.sparsity(f, x)              # where ∂f/∂x can differ from zero, for every x of this type
    bs.jacobian(f, sparse=plan)(x)        # a scipy.sparse matrix

The rows of the system are eliminated while the function is staged (solve/eliminate.py): places are integers,
values are traced, and what comes out is one compiled program from the arguments to the numbers of the matrix.
By method="colour" the same pattern (or one that is given, for functions whose blocks have no entries) is
coloured, and the numbers come from as many solves as there are colours (solve/compressed.py).

A function that cannot be staged, because Python branches on its values, has a pattern at a point only: it is
eliminated on its values, anew at each call.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from . import tree
from .api import grad, linearize
from .errors import ShapeError, StructureError, TracedValueError, UnsupportedError
from .operators.entries import Entries
from .solve.colouring import KINDS, Colouring, Pattern, coloured
from .solve.compressed import Whole, check_pattern, compressed, is_complex, substituted
from .solve.eliminate import jacobian_entries
from .solve.sparse import Layout, laid_out
from .system import System
from .tensor import Tensor

Key = tuple[Any, ...]
Layouts = tuple[tuple[Layout, ...], ...]


@dataclass(eq=False)
class Sparsity:
    """Where the Jacobian of a function can differ from zero; made by `bs.sparsity`, used by `jacobian`."""

    f: Callable[..., Any]
    argnums: Any
    hessian: bool
    layouts: Layouts  # of each output by each parameter
    types: Key
    _made: _Compiled = field(repr=False)
    _kind: str = field(repr=False)

    @property
    def only(self) -> Layout:
        """The layout of a function of one array with one result."""
        if len(self.layouts) != 1 or len(self.layouts[0]) != 1:
            raise StructureError(
                "this function has several arguments or results: see `layouts[output][argument]`"
            )
        return self.layouts[0][0]

    @property
    def method(self) -> str:
        return "colour" if isinstance(self._made, _Coloured) else "eliminate"

    @property
    def is_local(self) -> bool:
        """Whether the function could not be staged: then the pattern is that at one point."""
        return self._made.is_local

    @property
    def shape(self) -> tuple[int, int]:
        return self.only.shape

    @property
    def nnz(self) -> int:
        return sum(layout.nnz for line in self.layouts for layout in line)

    @property
    def pattern(self) -> Any:
        """A sparse matrix of True where an entry can differ from zero."""
        layout = self.only
        return _csr(layout, np.ones(layout.nnz, bool))

    @functools.cached_property
    def colours(self) -> Colouring:
        """Which columns and rows one solve may find together; of all arguments and results as one matrix.

        >>> sparsity(lambda x: x[1:] - x[:-1], np.zeros(9)).colours
        <Colouring by column: 2 of columns, 0 of rows>
        """
        if isinstance(self._made, _Coloured) and self._made.colouring is not None:
            return self._made.colouring
        return coloured(Whole.of(self.layouts).pattern, self._kind)

    def __repr__(self) -> str:
        sizes = " and ".join(
            f"{layout.nnz} of {layout.shape[0]} × {layout.shape[1]}"
            for line in self.layouts
            for layout in line
        )
        return f"<Sparsity: {sizes} entries>"


def sparsity(
    f: Callable[..., Any],
    *args: Any,
    argnums: Any = 0,
    hessian: bool = False,
    method: str | None = None,
    colouring: str | None = None,
    pattern: Any = None,
) -> Sparsity:
    """Where the Jacobian of `f` (or its Hessian) can differ from zero, for all arguments of these types.

    `method` is "eliminate" (each entry computed once) or "colour" (one solve for each colour). A `colouring` is
    "column", "row", "both", for a Hessian also "star" (the usual one there) or "acyclic", or "auto". With a
    `pattern`, a matrix that is not zero where the Jacobian may be, nothing is searched: for functions with
    compiled calls or loops, or complex ones. It is compared with one more solve at each call.

    >>> import numpy as np
    >>> sparsity(lambda x: x[1:] - x[:-1], np.zeros(4))
    <Sparsity: 6 of 3 × 4 entries>
    """
    asked = pattern is not None or colouring is not None
    method = method or ("colour" if asked else "eliminate")
    if method not in ("eliminate", "colour"):
        raise ValueError(f'method must be "eliminate" or "colour"; got {method!r}')
    if method == "eliminate" and asked:
        raise ValueError('a colouring and a pattern are for method="colour"')
    kind = colouring or ("star" if hessian else "auto")
    if kind not in ("auto", *KINDS):
        coloured(Pattern((0, 0), *[np.zeros(0, np.intp)] * 2), kind)  # says which there are
    if kind in ("star", "acyclic") and not hessian:
        raise ValueError(f"a colouring {kind!r} is of Hessians: bs.sparsity(f, …, hessian=True)")
    g = grad(f, argnums) if hessian else f
    made = (
        _Compiled(g, argnums)
        if method == "eliminate"
        else _Coloured(g, argnums, kind, None if pattern is None else _layout(pattern))
    )
    made(*args)
    return Sparsity(f, argnums, hessian, made.layouts, _types(args, {}), made, kind)


def plan_at_most(
    part: float, f: Callable[..., Any], args: tuple[Any, ...], hessian: bool = False
) -> Sparsity:
    """A plan of elimination, compiled; an error if more entries than this part of all differ from zero."""
    made = _Compiled(grad(f) if hessian else f, 0)
    made.at_most = part
    made(*args)
    return Sparsity(f, 0, hessian, made.layouts, _types(args, {}), made, "auto")


def _is_fuller(e: Entries, part: float) -> bool:
    return e.nnz > part * e.in_type.size * e.out_type.size


class _Compiled:
    """A compiled function from the arguments to sparse matrices, for arguments of one kind of types."""

    is_local = False
    at_most = 1.0  # the part of all entries from which on to give up

    def __init__(self, f: Callable[..., Any], argnums: Any):
        self.f, self.argnums = f, argnums
        self.layouts: Layouts = ()
        self._prototypes: list[Any] = []
        self._arranged: Any = None
        self._is_one = False  # one matrix, in no container
        self._values = importlib.import_module("backsolve.compiled").jit(self._traced)

    def _traced(self, *args: Any, **kwargs: Any) -> list[Any]:
        """The numbers of all matrices. Runs once, on types; leaves the places behind."""
        system = linearize(self.f, self.argnums)(*args, **kwargs)
        found = jacobian_entries(system)
        if self.at_most < 1 and any(_is_fuller(e, self.at_most) for line in found for e in line):
            raise StructureError(f"more than {self.at_most:.0%} of the entries are not zero")
        pairs = [[laid_out(e) for e in line] for line in found]
        self._settle(system, tuple(tuple(layout for layout, _ in line) for line in pairs))
        return [layout.filled(values) for line in pairs for layout, values in line]

    def _settle(self, system: System, layouts: Layouts) -> None:
        self.layouts = layouts
        self._prototypes = [_csr(layout, layout.template) for line in layouts for layout in line]
        self._arranged = system.arranged
        mark = object()
        self._is_one = len(self._prototypes) == 1 and system.arranged([[mark]]) is mark

    def _run(self, args: Any, kwargs: Any) -> Any:
        if self.layouts and not self.is_local:
            return self._values(*args, **kwargs)
        if not self.is_local:
            try:
                return self._values(*args, **kwargs)
            except (TracedValueError, UnsupportedError):
                if self.at_most < 1:
                    raise
                self.is_local = True
        try:
            return self._traced(*args, **kwargs)
        except UnsupportedError as e:
            raise UnsupportedError(
                f"{e}; or, for a sparse matrix, give its pattern: bs.sparsity(f, *args, pattern=P)"
            ) from e

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        numbers = self._run(args, kwargs)
        if self._is_one:
            return _like(self._prototypes[0], numbers[0])
        return self._in_form(numbers)

    def _in_form(self, numbers: Any) -> Any:
        matrices = [_like(m, data) for m, data in zip(self._prototypes, numbers, strict=True)]
        width = len(self.layouts[0]) if self.layouts else 1
        return self._arranged(
            [matrices[k : k + width] for k in range(0, len(matrices), max(width, 1))]
        )


class _Coloured(_Compiled):
    """The same by compressed solves."""

    def __init__(self, f: Callable[..., Any], argnums: Any, kind: str, given: Layout | None):
        super().__init__(f, argnums)
        self._kind, self._given = kind, given
        self.colouring: Colouring | None = None
        self._whole: Whole | None = None
        self._probes: list[Any] = []

    def _traced(self, *args: Any, **kwargs: Any) -> list[Any]:
        system = linearize(self.f, self.argnums)(*args, **kwargs)
        if self._given is None:
            found = jacobian_entries(system)
            layouts = tuple(tuple(laid_out(e)[0] for e in line) for line in found)
        else:
            layouts = ((_fitting(self._given, system),),)
        self._settle(system, layouts)
        self._whole = Whole.of(layouts)
        if self.colouring is None or self._given is None:
            kind = "column" if self._kind == "auto" and is_complex(system) else self._kind
            self.colouring = coloured(self._whole.pattern, kind)
        if self._given is not None:
            probe = np.random.default_rng(0).uniform(1, 2, self._given.shape[1])
            turned = any(p.dtype.kind == "c" for p in system.parameters)
            self._probes = [probe, 1j * probe] if turned else [probe]
        return compressed(system, self.colouring, self._probes)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        sums, *images = [_number(x) for x in self._run(args, kwargs)]
        assert self._whole is not None
        assert self.colouring is not None
        numbers = substituted(self.colouring, sums)
        if images:
            check_pattern(self._whole.pattern, numbers, self._probes[0], images)
        blocks = [layout for line in self.layouts for layout in line]
        return self._in_form(
            [
                numbers[part].astype(layout.template.dtype)
                for part, layout in zip(self._whole.parts, blocks, strict=True)
            ]
        )


def _number(x: Any) -> Any:
    return np.asarray(x.value if isinstance(x, Tensor) else x)


def _layout(pattern: Any) -> Layout:
    """The places of a matrix that a user gives."""
    csr = importlib.import_module("scipy.sparse").csr_array
    if np.ndim(pattern) != 2:
        raise ShapeError(f"a pattern is a matrix, got {type(pattern).__name__} {pattern!r}")
    found = csr(pattern, copy=True).astype(bool)
    found.sum_duplicates()
    found.eliminate_zeros()
    return Layout(found.shape, found.indptr, found.indices, np.zeros(found.nnz))


def _fitting(layout: Layout, system: System) -> Layout:
    types = system.out_types
    if len(types) != 1 or len(system.parameters) != 1:
        raise StructureError(
            f"a pattern is given of one result by one argument; here are {len(types)} results and "
            f"{len(system.parameters)} arguments: join them, or let bs.sparsity find the patterns"
        )
    expected = (types[0].size, system.parameters[0].size)
    if layout.shape != expected:
        raise ShapeError(
            f"the pattern is {layout.shape[0]} × {layout.shape[1]}, the Jacobian "
            f"{expected[0]} × {expected[1]}"
        )
    p = system.parameters[0].dtype
    dtype = np.result_type(p, types[0].dtype) if "c" in (p.kind, types[0].dtype.kind) else p
    return Layout(layout.shape, layout.indptr, layout.indices, np.zeros(layout.nnz, dtype))


def sparse_jacobian(
    f: Callable[..., Any], argnums: Any, plan: Any, hessian: bool = False
) -> Callable[..., Any]:
    """`jacobian(f, argnums, sparse=plan)` (or `hessian`): a function that gives scipy.sparse matrices."""
    if plan is not True and not isinstance(plan, Sparsity):
        raise StructureError(
            f"sparse= is True, False or a plan made by bs.sparsity(f, *args); got {type(plan).__name__}"
        )
    made: dict[Key, _Compiled] = {}
    g = grad(f, argnums) if hessian else f
    if isinstance(plan, Sparsity):
        _check_kind(plan, hessian)
        if plan.f is f and plan.argnums == argnums:
            made[plan.types] = plan._made

    @functools.wraps(f)
    def run(*args: Any, **kwargs: Any) -> Any:
        key = _types(args, kwargs)
        compiled = made.get(key)
        if compiled is None:
            compiled = _another(plan, g, argnums)
            result = compiled(*args, **kwargs)
            if isinstance(plan, Sparsity) and not (plan.is_local or compiled.is_local):
                _check_same(plan, compiled)
            made[key] = compiled
            return result
        return compiled(*args, **kwargs)

    return run


def _another(plan: Any, f: Callable[..., Any], argnums: Any) -> _Compiled:
    old = plan._made if isinstance(plan, Sparsity) else None
    if isinstance(old, _Coloured):
        return _Coloured(f, argnums, old._kind, old._given)
    return _Compiled(f, argnums)


def _check_kind(plan: Sparsity, hessian: bool) -> None:
    if plan.hessian != hessian:
        names = ("hessian", "jacobian") if plan.hessian else ("jacobian", "hessian")
        raise StructureError(
            f"the plan is of a {names[0]}, not of a {names[1]}: make it with "
            f"bs.sparsity(f, *args, hessian={hessian})"
        )


def _check_same(plan: Sparsity, compiled: _Compiled) -> None:
    mine, theirs = plan.layouts, compiled.layouts
    same = len(mine) == len(theirs) and all(
        len(a) == len(b) and all(x.same_pattern(y) for x, y in zip(a, b, strict=True))
        for a, b in zip(mine, theirs, strict=True)
    )
    if not same:
        found = [layout for line in theirs for layout in line]
        raise StructureError(
            f"the plan {plan!r} is of another structure: this function, at these arguments, has "
            + " and ".join(f"{x.nnz} of {x.shape[0]} × {x.shape[1]}" for x in found)
            + " entries; make a plan with bs.sparsity(f, *args), or pass sparse=True"
        )


def _types(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Key:
    if len(args) == 1 and type(args[0]) is np.ndarray and not kwargs:
        return args[0].shape, args[0].dtype
    leaves, structure = tree.flatten((args, kwargs))
    return (structure, *[_type(x) for x in leaves])


def _type(x: Any) -> Any:
    """What a staged program depends on: of numbers the type, of others (a name, a switch) themselves."""
    if isinstance(x, np.ndarray | np.generic | Tensor):
        return x.shape, x.dtype
    if isinstance(x, float | complex):
        return type(x)
    return type(x), x


def _csr(layout: Layout, data: Any) -> Any:
    csr = importlib.import_module("scipy.sparse").csr_array
    made = csr((data, layout.indices, layout.indptr), shape=layout.shape)
    made.indices, made.indptr = layout.indices, layout.indptr  # as they are: shared and read-only
    made.has_canonical_format = True
    return made


def _like(prototype: Any, data: Any) -> Any:
    """A matrix with the places of another, without checking them again."""
    made = object.__new__(type(prototype))
    made.__dict__.update(prototype.__dict__)
    made.data = data
    return made
