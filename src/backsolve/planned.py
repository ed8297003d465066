"""A compiled function from the arguments of a function to its sparse Jacobians: by elimination, or by colours.

What can be staged is planned once, on types. Where elimination meets a loop or another region, the pattern is
searched through it (solve/patterns.py), and the numbers come from compressed solves. A function that cannot be
staged is eliminated on its values, anew at each call.
"""

from __future__ import annotations

import copy
import importlib
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from . import tree
from .api.systems import system_of
from .errors import (
    BacksolveError,
    NotScalarError,
    ShapeError,
    StructureError,
    TracedValueError,
    UnsupportedError,
)
from .hooks import hooks
from .operators.entries import Entries
from .operators.entries.limit import Limits, within
from .operators.entries.terms import take
from .ownership import finished
from .solve.colouring import Colouring, coloured
from .solve.compressed import (
    Whole,
    check_entries,
    check_pattern,
    complex_columns,
    compressed,
    in_dtype,
    is_complex,
    lost_in_others,
    substituted,
)
from .solve.eliminate import Graph, jacobian_entries, pattern_entries
from .solve.many import has_nan
from .solve.patterns import check_count, program_patterns
from .solve.rows import type_of_value
from .solve.sparse import Layout, laid_out, number_dtype
from .system import System
from .tensor import Staged, Tensor
from .trace import stage, standing_for, where
from .vary import Varied, numbers_of

Layouts = tuple[tuple[Layout, ...], ...]
# What elimination may list one by one; asked before each list is made.
LIMITS = Limits(entries=1 << 27, products=1 << 27)


class Compiled:
    """A compiled function from the arguments to sparse matrices, for arguments of one kind of types."""

    is_local = False
    at_most = 1.0  # the part of all entries from which on to give up
    may_be_local = True
    is_mixed = (
        False  # an infinity may be seen on one way and masked on another: elimination makes it NaN
    )
    _solves: Coloured | None = None  # know which zeros are structural; made when they are needed

    def __init__(self, what: str, f: Callable[..., Any], argnums: Any):
        if not numbers_of(argnums)[1]:
            raise StructureError(
                f"a sparse matrix of `{what}` is by an argument; argnums={argnums!r} has none: leave it "
                "out, or name one"
            )
        self.what, self.f, self.argnums = what, f, argnums  # `what` the user called, for messages
        self.layouts: Layouts = ()
        self._prototypes: list[Any] = []
        self._arranged: Any = None
        self._is_one = False  # one matrix, in no container
        jit = importlib.import_module("backsolve.compiled").jit
        self._values, self._values_of = jit(self._traced), jit(self._traced_of)
        self._fixed: dict[int, int] | None = None  # Python's integers among the leaves, by number
        self._form: Any = None

    def _traced(self, *args: Any, **kwargs: Any) -> list[Any]:
        """The numbers of all matrices. Runs once, on types; leaves the places behind."""
        system = self._system(args, kwargs)
        with standing_for(where()):
            return self._eliminated(system)

    def _traced_of(self, moving: list[Any]) -> list[Any]:
        assert self._fixed is not None
        rest = iter(moving)
        count = len(moving) + len(self._fixed)
        leaves = [self._fixed[k] if k in self._fixed else next(rest) for k in range(count)]
        args, kwargs = self._form.unflatten(leaves)
        return self._traced(*args, **kwargs)

    def _compiled(self, args: Any, kwargs: Any) -> list[Any]:
        """Python's integers and Booleans are the same at each call, and so they are to the function."""
        if self._fixed == {}:
            return cast(list[Any], self._values(*args, **kwargs))
        leaves, self._form = tree.flatten((args, kwargs))
        self._fixed = {k: x for k, x in enumerate(leaves) if isinstance(x, int)}
        if not self._fixed:
            return cast(list[Any], self._values(*args, **kwargs))
        moving = [x for k, x in enumerate(leaves) if k not in self._fixed]
        return cast(list[Any], self._values_of(moving))

    def _eliminated(self, system: System) -> list[Any]:
        with within(LIMITS):
            graph = Graph(system, "entries")
            self.is_mixed = graph.is_mixed
            found = jacobian_entries(system, graph=graph, surely=True)
            if self.at_most < 1 and any(
                _is_fuller(e, self.at_most) for line in found for e in line
            ):
                raise StructureError(f"more than {self.at_most:.0%} of the entries are not zero")
            pairs = [[laid_out(e) for e in line] for line in found]
        self._settle(system, tuple(tuple(layout for layout, _ in line) for line in pairs))
        return [layout.filled(values) for line in pairs for layout, values in line]

    def _system(self, args: Any, kwargs: Any) -> System:
        return system_of(self.what, self.f, args, kwargs, self.argnums)[0]

    def _settle(self, system: System, layouts: Layouts) -> None:
        self.layouts = layouts
        self._prototypes = [csr(layout, layout.template) for line in layouts for layout in line]
        self._arranged = system.arranged
        mark = object()
        self._is_one = len(self._prototypes) == 1 and system.arranged([[mark]]) is mark

    def _run(self, args: Any, kwargs: Any) -> Any:
        if self.layouts and not self.is_local:
            return self._compiled(args, kwargs)
        if not self.is_local:
            try:
                return self._compiled(args, kwargs)
            except (TracedValueError, UnsupportedError):
                if not self.may_be_local:
                    raise
                self.is_local = True
        try:
            return self._traced(*args, **kwargs)
        except UnsupportedError as e:
            if self.layouts:
                raise  # it was found
            raise UnsupportedError(
                f"{e}; or, for a sparse matrix, give its pattern: bs.sparsity(f, *args, pattern=P)"
            ) from e

    def numbers(self, args: Any, kwargs: Any) -> list[Any]:
        """Those of all matrices."""
        found = self._run(args, kwargs)
        if not self.is_mixed or not any(isinstance(x, Staged) or has_nan(x) for x in found):
            return found
        if self._solves is None:
            self._solves = Coloured(self.what, self.f, self.argnums, "auto")
        solved = self._solves.numbers(args, kwargs)
        return [np.where(np.isnan(a), b, a) for a, b in zip(found, solved, strict=True)]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # What each call settles anew is its own: threads may call at once.
        made = copy.copy(self) if self.is_local and self.layouts else self
        numbers = made.numbers(args, kwargs)
        if made._is_one:
            return _like(made._prototypes[0], numbers[0])
        return made._in_form(numbers)

    def _in_form(self, numbers: Any) -> Any:
        matrices = [_like(m, data) for m, data in zip(self._prototypes, numbers, strict=True)]
        rest = iter(matrices)
        return self._arranged([[next(rest) for _ in line] for line in self.layouts])


class Coloured(Compiled):
    """The same by compressed solves."""

    def __init__(
        self, what: str, f: Callable[..., Any], argnums: Any, kind: str, given: Layout | None = None
    ):
        super().__init__(what, f, argnums)
        self.kind, self.given = kind, given
        self.colouring: Colouring | None = None
        self._whole: Whole | None = None
        self._probes: list[Any] = []
        self._is_turned: Any = None  # which entries are of complex arguments
        self._dtypes: list[Any] = []

    def _traced(self, *args: Any, **kwargs: Any) -> list[Any]:
        system = self._system(args, kwargs)
        layouts, is_sure = self._found(system, args, kwargs)
        self._settle(system, layouts)
        self._whole = Whole.of(layouts)
        if self.colouring is None or self.given is None:
            kind = "column" if self.kind == "auto" and is_complex(system) else self.kind
            self.colouring = coloured(self._whole.pattern, kind)
        if not is_sure:
            probe = np.random.default_rng(0).uniform(1, 2, self._whole.pattern.shape[1])
            self._probes = [probe]
        self._is_turned = complex_columns(system)[self._whole.pattern.cols]
        self._dtypes = [p.dtype for p in system.parameters]
        found = compressed(system, self.colouring, self._probes)
        is_outermost = not system.record and not any(isinstance(x, Staged) for x in found)
        return [_number(x) for x in found] if is_outermost else found

    def _found(self, system: System, args: Any, kwargs: Any) -> tuple[Layouts, bool]:
        """The layouts, and whether they are surely complete: if not, one more solve compares at each call."""
        if self.given is not None:
            return ((_fitting(self.given, system),),), False
        with within(LIMITS):
            try:
                graph = Graph(system, "entries")
                # Of real-linear blocks that were written out, parts that are small beside others were dropped.
                is_sure = not complex_columns(system).any()
            except UnsupportedError:
                if any(isinstance(x, Staged) for x in tree.flatten((args, kwargs))[0]):
                    try:
                        return searched(self, system, args, kwargs), False
                    except UnsupportedError:
                        pass
                graph, is_sure = Graph(system, "pattern"), False
            return _laid_out(pattern_entries(system, graph)), is_sure

    def numbers(self, args: Any, kwargs: Any) -> list[Any]:
        if self._solves is not None:
            return self._solves.numbers(args, kwargs)
        sums, *others = self._run(args, kwargs)
        assert self._whole is not None
        assert self.colouring is not None
        numbers = substituted(self.colouring, sums)
        if lost_in_others(self.colouring, sums, numbers):
            self._solves = Coloured(self.what, self.f, self.argnums, "star", self.given)
            return self._solves.numbers(args, kwargs)
        at, *others = [x if isinstance(x, Staged) else _number(x) for x in (numbers, *others)]
        if len(others) > len(self._probes):
            check_entries(self._whole.pattern, at, others[-1], self._is_turned, self._dtypes)
        for probe, image in zip(self._probes, others, strict=False):
            is_given = self.given is not None
            check_pattern(self._whole.pattern, at, probe, image, self._dtypes, is_given)
        blocks = [layout for line in self.layouts for layout in line]
        return [
            in_dtype(take(numbers, part), layout.template.dtype)
            for part, layout in zip(self._whole.parts, blocks, strict=True)
        ]


def first_run(
    what: str,
    f: Callable[..., Any],
    argnums: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    hessian: bool,
) -> tuple[Compiled, Any]:
    """The best of the ways that this function allows, and what it gives."""
    ways = (Compiled(what, f, argnums), Coloured(what, f, argnums, "star" if hessian else "auto"))
    failed: BacksolveError
    for is_local in (False, True):
        for made in ways:
            made.may_be_local, made.is_local = False, is_local
            try:
                return made, made(*args, **kwargs)
            except TracedValueError as e:
                failed = e
                break  # so it is for the other way
            except (UnsupportedError, NotScalarError) as e:
                failed = e
    raise failed


def searched(made: Coloured, system: System, args: Any, kwargs: Any) -> Layouts:
    """The layouts of a function with loops, branches or calls, from its staged Program."""
    varied = Varied(made.what, args, made.argnums)
    _, numbers = numbers_of(made.argnums)
    recorders: list[Any] = []

    def flat(*leaves: Any) -> list[Any]:
        recorders.extend(x._v.recorder for x in leaves[:1])
        rest = iter(leaves)
        filled = [
            x if s else next(rest) for x, s in zip(varied.originals, varied.static, strict=True)
        ]
        given = list(args)
        for n, part in zip(numbers, varied.structure.unflatten(filled), strict=True):
            given[n] = part
        return tree.flatten(hooks.users(made.f)(*given, **kwargs))[0]

    moving = [x for x, s in zip(varied.originals, varied.static, strict=True) if not s]
    program, _ = stage(flat, [type_of_value(x) for x in moving])
    if any(r.has_own_derivative for r in recorders):
        raise UnsupportedError("the pattern of a derivative that is written by hand is not found")
    lines = program_patterns(program, [True] * len(moving))
    return _cut(lines, system, made.kind in ("star", "acyclic"))


def _cut(lines: list[Any], system: System, is_symmetric: bool) -> Layouts:
    """Patterns over all parameters as layouts, [output][parameter]."""
    sp = importlib.import_module("scipy.sparse")
    down = np.cumsum([0, *[y.size for y in system.out_types]])
    right = np.cumsum([0, *[p.size for p in system.parameters]])
    none = lambda y: sp.csr_array((y.size, int(right[-1])), dtype=bool)
    parts = [none(y) if a is None else a for y, a in zip(system.out_types, lines, strict=True)]
    whole = sp.vstack(parts, format="csr") if parts else sp.csr_array((0, int(right[-1])))
    if is_symmetric:  # what is not found on both sides is zero on both
        whole = whole.multiply(whole.T).tocsr()

    def layout(i: int, j: int) -> Layout:
        part = whole[down[i] : down[i + 1], right[j] : right[j + 1]]
        part.sort_indices()
        dtype = number_dtype(system.parameters[j].dtype, system.out_types[i].dtype)
        numbers = np.zeros(part.nnz, dtype)
        return Layout(part.shape, part.indptr, part.indices, numbers)

    return tuple(tuple(layout(i, j) for j in range(right.size - 1)) for i in range(down.size - 1))


def _laid_out(entries: list[list[Entries]]) -> Layouts:
    for e in [e for line in entries for e in line]:
        check_count(e.nnz)
    return tuple(tuple(laid_out(e)[0] for e in line) for line in entries)


def _number(x: Any) -> Any:
    return np.asarray(x.value if isinstance(x, Tensor) else x)


def layout_of(pattern: Any) -> Layout:
    """The places of a matrix that a user gives."""
    csr = importlib.import_module("scipy.sparse").csr_array
    if np.ndim(pattern) != 2:
        raise ShapeError(f"a pattern is a matrix, got {type(pattern).__name__} {pattern!r}")
    found = csr(pattern, copy=True).astype(bool)
    found.sum_duplicates()
    found.eliminate_zeros()
    return Layout(found.shape, finished(found.indptr), finished(found.indices), np.zeros(found.nnz))


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
    dtype = number_dtype(system.parameters[0].dtype, types[0].dtype)
    return Layout(layout.shape, layout.indptr, layout.indices, np.zeros(layout.nnz, dtype))


def _is_fuller(e: Entries, part: float) -> bool:
    return e.nnz > part * e.in_type.size * e.out_type.size


def csr(layout: Layout, data: Any) -> Any:
    made = importlib.import_module("scipy.sparse").csr_array(
        (_known_to_scipy(data), layout.indices, layout.indptr), shape=layout.shape
    )
    made.indices, made.indptr = layout.indices, layout.indptr  # as they are: shared and read-only
    made.has_canonical_format = True
    return made


def _like(prototype: Any, data: Any) -> Any:
    """A matrix with the places of another, without checking them again."""
    kind = type(prototype)
    if isinstance(data, Staged) or (isinstance(data, Tensor) and data.row is not None):
        kind = importlib.import_module("backsolve.varying_csr").VaryingCsr
    made = object.__new__(kind)
    made.__dict__.update(prototype.__dict__)
    made.data = _known_to_scipy(data)
    return made


def _known_to_scipy(data: Any) -> Any:
    """SciPy computes with no sparse matrix of 16 bits."""
    is_half = isinstance(data, np.ndarray) and data.dtype == np.float16
    return data.astype(np.float32) if is_half else data
