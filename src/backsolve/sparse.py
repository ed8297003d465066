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
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from . import tree
from .api import grad
from .compiled.arguments import exactly
from .copies import Unchanging
from .errors import StaticArgumentError, StructureError
from .hooks import hooks
from .ir import type_of
from .planned import Coloured, Compiled, Layouts, csr, first_run, layout_of
from .solve.colouring import KINDS, Colouring, Pattern, coloured
from .solve.compressed import Whole
from .solve.sparse import Layout
from .tensor import Staged, Tensor
from .working import Working

Key = tuple[Any, ...]
_PLANNING = "planning a sparse matrix"


@dataclass(eq=False)
class Sparsity(Unchanging):
    """Where the Jacobian of a function can differ from zero; made by `bs.sparsity`, used by `jacobian`."""

    instead = (
        "a plan holds compiled code, which cannot be pickled: make it again where it is used, by "
        "bs.sparsity(f, *args); of a pattern that took long to find, with pattern=plan.pattern"
    )
    f: Callable[..., Any]
    argnums: Any
    hessian: bool
    layouts: Layouts  # of each output by each parameter
    types: Key
    _made: Compiled = field(repr=False)
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
        return "colour" if isinstance(self._made, Coloured) else "eliminate"

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
        return csr(layout, np.ones(layout.nnz, bool))

    @functools.cached_property
    def colours(self) -> Colouring:
        """Which columns and rows one solve may find together; of all arguments and results as one matrix.

        >>> sparsity(lambda x: x[1:] - x[:-1], np.zeros(9)).colours
        <Colouring by column: 2 of columns, 0 of rows>
        """
        if isinstance(self._made, Coloured) and self._made.colouring is not None:
            return self._made.colouring
        return coloured(Whole.of(self.layouts).pattern, self._kind)

    def __repr__(self) -> str:
        sizes = " and ".join(
            f"{layout.nnz} of {layout.shape[0]} × {layout.shape[1]}"
            for line in self.layouts
            for layout in line
        )
        return f"<Sparsity: {sizes} entries>"

    def _repr_html_(self) -> str | None:
        return hooks.notebook("html", self)


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
    "column", "row", "both", for a Hessian also "star" (the usual one there) or "acyclic", or "auto". Loops,
    branches and calls cannot be eliminated: there the pattern is searched and coloured; what cannot be looked
    into (derivatives by hand, implicit functions, recursion) is full. With a `pattern`, a matrix that is not
    zero where the Jacobian may be, nothing is searched; it is compared with one more solve at each call, which
    shows an entry that is left out unless it is below √ε beside the others of its row.

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
    with Working(_PLANNING):
        if method == "eliminate":
            made, _ = first_run("sparsity", g, argnums, args, {}, hessian)
        else:
            given = None if pattern is None else layout_of(pattern)
            made = Coloured("sparsity", g, argnums, kind, given)
            made(*args)
    return Sparsity(f, argnums, hessian, made.layouts, _types(args, {}), made, kind)


def plan_at_most(
    part: float, f: Callable[..., Any], args: tuple[Any, ...], hessian: bool = False
) -> Sparsity:
    """A plan of elimination, compiled; an error if more entries than this part of all differ from zero."""
    made = Compiled("hessian" if hessian else "jacobian", grad(f) if hessian else f, 0)
    made.at_most, made.may_be_local = part, False
    with Working(_PLANNING):
        made(*args)
    return Sparsity(f, 0, hessian, made.layouts, _types(args, {}), made, "auto")


def sparse_jacobian(
    f: Callable[..., Any], argnums: Any, plan: Any, hessian: bool = False
) -> Callable[..., Any]:
    """`jacobian(f, argnums, sparse=plan)` (or `hessian`): a function that gives scipy.sparse matrices."""
    if not isinstance(plan, bool | np.bool | Sparsity):
        raise StructureError(
            "sparse= is True, False or a plan made by bs.sparsity(f, *args), of a pattern P that you know by "
            f"bs.sparsity(f, *args, pattern=P); got {type(plan).__name__}"
        )
    made: dict[Key, Compiled] = {}
    g = grad(f, argnums) if hessian else f
    if isinstance(plan, Sparsity):
        _check_kind(plan, hessian)
        if plan.f is f and plan.argnums == argnums:
            made[plan.types] = plan._made

    def another(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Compiled, Any]:
        what = "hessian" if hessian else "jacobian"
        old = plan._made if isinstance(plan, Sparsity) else None
        if not isinstance(old, Coloured):
            return first_run(what, g, argnums, args, kwargs, hessian)
        compiled = Coloured(what, g, argnums, old.kind, old.given)
        return compiled, compiled(*args, **kwargs)

    @functools.wraps(f)
    def run(*args: Any, **kwargs: Any) -> Any:
        key = _types(args, kwargs)
        compiled = made.get(key)
        if compiled is None:
            with Working(_PLANNING):
                compiled, result = another(args, kwargs)
            if isinstance(plan, Sparsity) and not (plan.is_local or compiled.is_local):
                _check_same(plan, compiled, args, kwargs)
            made[key] = compiled
            return result
        return compiled(*args, **kwargs)

    return run


def _check_kind(plan: Sparsity, hessian: bool) -> None:
    if plan.hessian != hessian:
        names = ("hessian", "jacobian") if plan.hessian else ("jacobian", "hessian")
        raise StructureError(
            f"the plan is of a {names[0]}, not of a {names[1]}: make it with "
            f"bs.sparsity(f, *args, hessian={hessian})"
        )


def _check_same(plan: Sparsity, compiled: Compiled, args: Any, kwargs: Any) -> None:
    mine, theirs = plan.layouts, compiled.layouts
    same = len(mine) == len(theirs) and all(
        len(a) == len(b) and all(x.same_pattern(y) for x, y in zip(a, b, strict=True))
        for a, b in zip(mine, theirs, strict=True)
    )
    if not same:
        found = [layout for line in theirs for layout in line]
        leaves = tree.flatten((args, kwargs))[0]
        given = ", ".join(
            [str(type_of(x)) for x in leaves if isinstance(x, _TYPED | float | complex)]
        )
        is_staged = any(isinstance(x, Staged) for x in leaves)
        raise StructureError(
            f"the plan {plan!r} is of another structure: this function, of {given}, has "
            + " and ".join(f"{x.nnz} of {x.shape[0]} × {x.shape[1]}" for x in found)
            + " entries; make a plan with bs.sparsity(f, *args), or pass sparse=True"
            + "; inside vmap for one entry of the batch, which is what f is given there" * is_staged
        )


def _types(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Key:
    if len(args) == 1 and type(args[0]) is np.ndarray and not kwargs:
        return args[0].shape, args[0].dtype
    leaves, structure = tree.flatten((args, kwargs))
    key = (structure, *[_type(x) for x in leaves])
    try:
        hash(key)
    except TypeError:
        others = [x for x in leaves if not isinstance(x, _TYPED)]
        raise StaticArgumentError(
            "a sparse matrix is planned for each value of the arguments that are no numbers: they must be "
            f"hashable, got {others!r:.200}; pass arrays, and dicts, lists, tuples or dataclasses of them"
        ) from None
    return key


_TYPED = np.ndarray | np.generic | Tensor


def _type(x: Any) -> Any:
    """What a staged program depends on: of numbers the type, of others (a name, a switch) themselves."""
    if isinstance(x, _TYPED):
        return x.shape, x.dtype
    return type(x) if isinstance(x, float | complex) else exactly(x)
