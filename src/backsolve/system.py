"""The system `(I − L) dx = D dp` of a program at a point, as an object.

Rows are numbered from 1 as they are printed (v1, v2, …); `system.L[i, j]` is the operator ∂v_i/∂v_j and
`system.D[i, k]` the operator ∂v_i/∂p_k. How it is solved stands in `solve/`: each way enters itself in
WAYS when it is imported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import tree
from .copies import Unchanging
from .errors import DTypeError, ShapeError, StructureError
from .hooks import hooks
from .ir import Type, Var
from .operators import Broadcast, Cast, Operator, Zero
from .primitive import FUNCTIONS, row_values
from .row import Row, descendants
from .tensor import Tensor

WAYS: dict[str, Callable[..., Any]] = {}


def way(name: str) -> Callable[[Any], Any]:
    """Enter a way to solve a System."""

    def enter(f: Any) -> Any:
        WAYS[name] = f
        return f

    return enter


class System(Unchanging):
    """Made by `bs.linearize(f)(*args)`."""

    instead = (
        "a system holds the blocks of one run, which cannot be pickled: make it again where it is used, by "
        "bs.linearize(f)(*args), or keep its matrix, system.jacobian()"
    )

    def __init__(
        self,
        *,
        rows: Sequence[Row],
        parameters: Sequence[Row],
        outputs: Sequence[Tensor],
        record: bool,
        names: Sequence[str],
        in_form: Callable[..., Any],
        in_structure: tree.Structure,
        out_form: tree.Structure,
        values: dict[Row, Any],
        constants: dict[Row, tuple[Any, ...]],
        lines: dict[Row, str],
        merge: bool = True,
    ):
        rows = descendants(rows, parameters)
        self.record, self.names, self.parameters = record, names, parameters
        self._in_form, self._in_structure, self._out_form = in_form, in_structure, out_form
        own = set(parameters)
        steps = [r for r in rows if r not in own]
        merged = _merge_repeated(steps, constants) if merge else {}
        known = set(rows)
        self.rows = [r for r in rows if r not in merged and r not in own]
        self.outputs = [merged.get(y.row, y.row) if y.row in known else None for y in outputs]
        self._raw_outputs = [y._v for y in outputs]
        self.values, self.constants, self.lines = values, constants, lines
        self.number = {row: k for k, row in enumerate(self.rows, 1)}

    # ---- entries

    @property
    def L(self) -> _Entries:
        """Blocks by numbers of rows: L[i, j] is ∂v_i/∂v_j, an operator."""
        return _Entries(self, self.number)

    @property
    def D(self) -> _Entries:
        """Blocks by numbers of row and parameter: D[i, k] is ∂v_i/∂p_k, an operator."""
        return _Entries(self, {row: k for k, row in enumerate(self.parameters, 1)})

    def edges(self, row: Row) -> list[tuple[Row, Operator]]:
        """The blocks of one row: (the row it reads, the operator), repeated reads added up."""
        found: dict[Row, Operator] = {}
        if row.primitive.is_joint or row.primitive.is_component:
            return [(p, _opaque(row)) for p in row.parents if p.__class__ is Row and p in self]
        with np.errstate(all="ignore"):
            for i, parent in enumerate(row.parents):
                if parent.__class__ is Row and parent in self:
                    block = typed_block(row, i, self.record)
                    found[parent] = found[parent] + block if parent in found else block
        return list(found.items())

    def __contains__(self, row: Row) -> bool:
        return row in self.number or row in self.parameters

    @property
    def blocks(self) -> int:
        """How many blocks L and D have."""
        return sum(len(self.edges(row)) for row in self.rows)

    # ---- solving

    def forward(self, *dp: Any) -> Any:
        """The differential of the outputs along a differential of the parameters, of their form."""
        leaves, structure = tree.flatten_like(tuple(dp), self._in_structure)
        if structure != self._in_structure and len(dp) == 1:  # of one argument, or a tuple of all
            leaves, structure = tree.flatten_like(dp[0], self._in_structure)
        if structure != self._in_structure:
            raise StructureError(
                f"expected differentials of {len(self.parameters)} parameters in the form of the "
                f"arguments, got {dp!r}"
            )
        seeds = [_as_differential(t, r) for t, r in zip(leaves, self.parameters, strict=True)]
        found = WAYS["forward"](self, seeds)
        images = [
            np.zeros(np.shape(v)) if t is None else t
            for t, v in zip(found, self._raw_outputs, strict=True)
        ]
        return self._out_form.unflatten([_settled(t) for t in images])

    def backward(self, seed: Any = None, method: str = "reverse") -> Any:
        """The adjoint of the parameters for a seed of the outputs (1 by default).

        By "reverse", row by row; or by "scan", where rounds of a loop are there: all of them at once.
        """
        if method not in ("reverse", "scan"):
            raise ValueError(f'method must be "reverse" or "scan"; got {method!r}')
        if seed is None:
            seed = self._out_form.unflatten([np.ones(np.shape(v)) for v in self._raw_outputs])
        leaves, structure = tree.flatten_like(seed, self._out_form)
        if structure != self._out_form:
            raise StructureError(f"expected a seed in the form of the outputs, got {seed!r}")
        pairs = [
            (row, _as_differential(s, row))
            for row, s in zip(self.outputs, leaves, strict=True)
            if row is not None
        ]
        return self._in_form(WAYS[method](self, pairs))

    def jacobian(self, method: str = "auto", order: Any = None) -> Any:
        """The dense Jacobian, by "forward", "reverse", "colour", "eliminate", "scan", or the cheapest.

        "measured" times the ways whose prices are near each other, and takes the quickest.

        Elimination takes the rows out in an order: "markowitz" (if none is given), "forward", "reverse",
        "greedy", "chain", "search", or a list of their numbers, such as `system.order("search")` gives.
        """
        dtypes = [p.dtype for p in self.parameters]
        blocks = [map(in_dtype, row, dtypes) for row in WAYS["jacobian"](self, method, order)]
        return self.arranged([[_settled(g) for g in row] for row in blocks])

    def arranged(self, blocks: Sequence[Sequence[Any]]) -> Any:
        """[output][parameter] in the form of the outputs, each in the form of the arguments."""
        return self._out_form.unflatten([self._in_form(row, lambda g, _: g) for row in blocks])

    @property
    def out_types(self) -> list[Type]:
        """Shape and dtype of each output; names and functions, which are constant, count as booleans."""
        found = [y.type if isinstance(y, Var) else np.asarray(y) for y in self._raw_outputs]
        dtypes = [t.dtype if t.dtype.kind in "biufc" else np.dtype(bool) for t in found]
        return [Type(t.shape, dtype) for t, dtype in zip(found, dtypes, strict=True)]

    def order(self, name: str = "search", **bounds: Any) -> list[int]:
        """The numbers of the rows in an order of elimination: to keep, and to give to `jacobian`.

        "search" takes bounds: `steps` (10,000), `seconds`, `seed`, and the `rule` that it minimises,
        "multiplications" or "pairs".
        """
        return list(WAYS["order"](self, name, **bounds))

    def cost(self, order: Any = "reverse", rule: str | None = None) -> int:
        """Scalar multiplications that the full Jacobian needs.

        By rule "solves" with one solve for each entry of the outputs or parameters ("reverse", "forward"); by
        "operators" when rows are eliminated in any order, ±1 free; by "pairs", as published counts have it, one
        for each predecessor and successor of an eliminated row. Without a rule, "forward"
        and "reverse" are counted by solves, other orders by operators.
        """
        return int(WAYS["cost"](self, order, rule))

    # ---- over other semirings (solve/semiring.py): along paths from parameters to outputs, row by row

    def paths(self) -> int:
        """How many there are."""
        return int(WAYS["paths"](self))

    def longest_chain(self) -> list[int]:
        """The numbers of the rows on a longest path: however many hands there are, it takes these steps."""
        return list(WAYS["longest chain"](self))

    def strongest_paths(self, k: int = 5) -> list[Any]:
        """The k paths of largest strength, as (strength, number of the parameter, numbers of the rows).

        The strength is the product of the gains of the blocks, which are |∂v_i/∂v_j| of numbers and the
        largest row sum of absolute values of matrices. Paths of strength zero are left out.
        """
        return list(WAYS["strongest paths"](self, k))

    def path_entropy(self) -> float:
        """−Σ p log p over all paths, with p in proportion to their strength: exp of it is how many carry."""
        return float(WAYS["path entropy"](self))

    def pattern(self) -> Any:
        """Which entries of the Jacobian can differ from zero here, as matrices of booleans.

        By substitution of booleans; `bs.sparsity` does not list entries, and is for large ones.
        """
        return self.arranged(WAYS["pattern"](self))

    # ---- printing

    def __str__(self) -> str:
        from .system_text import describe

        return describe(self)

    def __repr__(self) -> str:
        n, p = len(self.rows), len(self.parameters)
        plural = "s" * (n != 1), "s" * (p != 1)
        return f"<System: {n} row{plural[0]}, {p} parameter{plural[1]}, {self.blocks} blocks>"

    def _repr_html_(self) -> str | None:
        return hooks.notebook("html", self)

    def _repr_latex_(self) -> str | None:
        return hooks.notebook("latex", self)


def _is_integer(i: Any) -> bool:
    return isinstance(i, int | np.integer)


class _Entries:
    """L or D: `[i, j]` with the printed numbers, Zero where row i does not read j."""

    def __init__(self, system: System, columns: dict[Row, int]):
        self._system, self._columns = system, columns

    @property
    def shape(self) -> tuple[int, int]:
        return len(self._system.rows), len(self._columns)

    def __getitem__(self, place: tuple[int, int]) -> Operator:
        height, width = self.shape
        if not (isinstance(place, tuple) and len(place) == 2 and all(map(_is_integer, place))):
            raise IndexError(
                f"an entry has the numbers of a row and a column, as in [2, 1]; got [{place}]"
            )
        i, j = place
        if not (1 <= i <= height and 1 <= j <= width):
            raise IndexError(f"rows are 1 … {height} and columns 1 … {width}, got [{i}, {j}]")
        row = self._system.rows[i - 1]
        for parent, block in self._system.edges(row):
            if self._columns.get(parent) == j:
                return block
        column = next(r for r, k in self._columns.items() if k == j)
        return Zero(Type(column.shape, column.dtype), Type(row.shape, row.dtype))

    def items(self) -> dict[tuple[int, int], Operator]:
        """All entries that are not structurally zero."""
        return {
            (i, self._columns[parent]): block
            for i, row in enumerate(self._system.rows, 1)
            for parent, block in self._system.edges(row)
            if parent in self._columns
        }

    def __repr__(self) -> str:
        return f"<{self.shape[0]} × {self.shape[1]} blocks, {len(self.items())} non-zero>"


def in_dtype(g: Any, dtype: Any) -> Any:
    """A Jacobian, found in whatever way, in the dtype of its argument."""
    if g.dtype == dtype or g.dtype.kind != "f" or dtype.kind != "f":
        return g
    return FUNCTIONS["astype"](g, dtype) if isinstance(g, Tensor) else g.astype(dtype)


def typed_block(row: Row, i: int, record: bool = False) -> Operator:
    """∂row/∂input i with the engine's broadcasting and promotion made explicit."""
    parent: Row = row.parents[i]
    source, target = Type(parent.shape, parent.dtype), Type(row.shape, row.dtype)
    block: Operator = row.primitive.block(row, i, row_values(row) if record else row.saved)
    if not row.primitive.elementwise:
        return block.typed(source, target)
    inner: list[Operator] = []
    if source.shape != target.shape:
        inner.insert(0, Broadcast(source, target.shape))
        source = inner[0].out_type
    block_takes_complex = (
        block.in_type is not None and getattr(block.in_type, "dtype", target.dtype).kind == "c"
    )
    if source.dtype.kind != "c" and (target.dtype.kind == "c" or block_takes_complex):
        inner.insert(0, Cast(source, target.dtype))
        source = inner[0].out_type
    whole = block.typed(source, target)
    for factor in inner:
        whole = whole @ factor
    return whole


def _opaque(row: Row) -> Operator:
    from .operators import Custom

    return Custom(lambda t: t, lambda t: t, name=(row.params or {}).get("name", row.primitive.name))


def _merge_repeated(rows: Sequence[Row], constants: dict[Row, tuple[Any, ...]]) -> dict[Row, Row]:
    """Rows that compute again what an earlier row did, e.g. x[0] read twice; relinks the readers."""
    first: dict[Any, Row] = {}
    merged: dict[Row, Row] = {}
    for row in rows:
        row.parents = tuple(merged.get(p, p) if p.__class__ is Row else p for p in row.parents)
        if row.primitive.is_joint or row.primitive.is_component:
            continue
        if any(not _is_fixed(c) for c in constants.get(row, (...,))):
            continue  # unknown or mutable constants: who can tell that they are the same
        fixed = tuple((type(c), repr(c)) for c in constants[row])
        key: Any = (
            row.primitive,
            tuple(map(id, row.parents)),
            fixed,
            tuple(sorted((row.params or {}).items())),
        )
        try:
            original = first.setdefault(key, row)
        except TypeError:
            continue
        if original is not row:
            merged[row] = original
    return merged


def _is_fixed(c: Any) -> bool:
    return c is None or type(c) in (int, float, bool, complex)


def _settled(t: Any) -> Any:
    """A result of a solve: as it is if somebody outside varies it, else an array or a number."""
    if isinstance(t, Tensor):
        return t if t.row is not None or type(t) is not Tensor else np.asarray(t._v)[()]
    return np.array(t)[()]


def _as_differential(t: Any, row: Row) -> Any:
    if isinstance(t, Tensor):
        if t.shape != row.shape:
            raise ShapeError(f"expected a differential of shape {row.shape}, got {t.shape}")
        return t
    given = np.asarray(t)
    if given.dtype.kind == "c" and row.dtype.kind != "c":
        raise DTypeError(f"expected a real differential ({row.dtype}), got complex")
    if given.shape not in (row.shape, ()):
        raise ShapeError(f"expected a differential of shape {row.shape}, got {given.shape}")
    return np.broadcast_to(given.astype(row.dtype), row.shape)[()]
