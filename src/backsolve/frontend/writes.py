"""Runtime of `x[i] = v`, `x.a[i] += v` and `x += v`.

A Tensor that is written into stays the same object. A NumPy array that gets a traced value becomes a Tensor,
which the caller binds to its name; that is refused if somebody else could still see the array.
"""

from __future__ import annotations

import builtins
import operator
import sys
from collections.abc import Callable
from types import CellType
from typing import Any

import numpy as np

from ..errors import ControlFlowError, InPlaceError, TracedValueError
from ..links import is_view, leave_family
from ..primitive import wrap
from ..tensor import Staged, Tensor
from .aliases import check_certain
from .places import holds_tensor, is_traced
from .scope import check_write, in_region, is_staging, made

slice = builtins.slice
Step = tuple[str, Any]


def store(
    value: Any,
    root: Any,
    *steps: Step,
    stays: bool = False,
    around: Callable[[], Any] | None = None,
) -> Any:
    """root.a[i]… = value; the root, or what its name is to be bound to.

    If the root `stays`, it cannot be bound again: by no name of its own. The root may also be a variable
    `around` the function, in whose cell the Tensor is put.
    """
    if around is not None:
        return _store(_in_cell(around, steps, value), steps, value, True)
    shared = stays or _is_shared(sys.getrefcount(root), root)  # counted before it is handed on
    return _store(root, steps, value, shared)


def update(
    op: str,
    value: Any,
    is_thunk: bool,
    root: Any,
    *steps: Step,
    stays: bool = False,
    around: Callable[[], Any] | None = None,
) -> Any:
    """root.a[i]… op= value"""
    if _is_traced_mask(*steps[-1]):
        whole = root if around is None else around()
        new = _updated_by_mask(op, value, is_thunk, whole, steps)
        del whole  # names are counted below
        steps = (*steps[:-1], ("[", ...))
    else:
        new = _updated(op, value, is_thunk, root if around is None else around(), steps)
    if around is not None:
        return _store(_in_cell(around, steps, new), steps, new, True)
    shared = stays or _is_shared(sys.getrefcount(root), root)
    return _store(root, steps, new, shared)


def _updated(op: str, value: Any, is_thunk: bool, root: Any, steps: tuple[Step, ...]) -> Any:
    owner = place = root
    for step in steps:
        owner, place = place, _get(place, step)
    if isinstance(owner, Tensor):
        leave_family(place)  # it is put back where it was read
    value = value() if is_thunk else value
    if isinstance(place, np.ndarray) and (in_region() or isinstance(value, Tensor)):
        op = op.removeprefix("i")  # a slice of an array would be changed here and now
        if place.ndim and not isinstance(owner, np.ndarray):  # a new object takes its place
            del place  # so that other names can be counted
            shared = is_entry_shared(owner, steps[-1])
            place = _get(owner, steps[-1])
            _refuse_others(place, shared)
    return getattr(operator, op)(place, value)


def _is_traced_mask(kind: str, key: Any) -> bool:
    return kind == "[" and isinstance(key, Staged) and key.dtype == bool and key.ndim > 0


def _updated_by_mask(op: str, value: Any, is_thunk: bool, x: Any, steps: tuple[Step, ...]) -> Any:
    """All of x after `x[mask] op= value`: one number for every entry, so that it need not be known which."""
    for step in steps[:-1]:
        x = _get(x, step)
    mask = steps[-1][1]
    value = value() if is_thunk else value
    if np.ndim(value) or mask.shape != x.shape[: mask.ndim]:
        raise TracedValueError(
            f"an update of x[mask] by a traced mask (of shape {mask.shape}, on {x.shape}) needs one number for "
            f"all entries, got shape {np.shape(value)}; write x = np.where(mask, …, x)"
        )
    new = getattr(operator, op)(
        wrap(x.copy(), None) if isinstance(x, np.ndarray) else x.copy(), value
    )
    return np.where(mask.reshape(*mask.shape, *[1] * (x.ndim - mask.ndim)), new, x)


def _in_cell(around: Callable[[], Any], steps: tuple[Step, ...], value: Any) -> Any:
    """What a variable of a function around this one holds, ready to be given a value."""
    is_array, (kind, key) = isinstance(around(), np.ndarray), steps[0]
    (cell,) = around.__closure__ or ()
    traced = holds_tensor(key) or holds_tensor(value)
    if is_array and kind == "[" and len(steps) == 1 and traced and not in_region():
        return tensor_in_cell(cell)
    return cell.cell_contents


def in_place(op: str, x: Any, value: Any) -> Any:
    """x op= value"""
    if isinstance(x, Tensor):
        if x.ndim:
            check_write(x)
    elif isinstance(x, np.ndarray):
        if in_region() or isinstance(value, Tensor):
            if x.ndim == 0:
                return getattr(operator, op.removeprefix("i"))(x, value)
            shared = _is_shared(sys.getrefcount(x), x)
            x = _promoted(x, shared)
    elif isinstance(x, list | dict | set):
        check_certain(x)
        if in_region():
            check_write(x)
    return getattr(operator, op)(x, value)


def _get(x: Any, step: Step) -> Any:
    kind, key = step
    if kind != "[":
        return getattr(x, key)
    if isinstance(x, np.ndarray) and holds_tensor(key):
        x = wrap(x.copy(), None)  # names of x itself are counted
    return x[key]


def _store(x: Any, steps: tuple[Step, ...], value: Any, aliased: bool, copied: bool = False) -> Any:
    """Write behind `steps`, and give back what stands for `x` now; if `copied`, that is all that counts."""
    (kind, key), rest = steps[0], steps[1:]
    if rest:
        copied = isinstance(x, Tensor) and kind == "["
        aliased = not copied and is_entry_shared(x, steps[0])
        child = leave_family(_get(x, steps[0])) if copied else _get(x, steps[0])
        new = _store(made(child) if copied else child, rest, value, aliased, copied)
        if new is child and not copied:
            return x  # changed in place
        value = new
    if kind == ".":
        if isinstance(x, Tensor) and key in ("shape", "dtype", "strides", "flat", "T"):
            raise InPlaceError(
                f"the {key} of a tensor cannot be set; write y = y.reshape(…), y.astype(…)"
            )
        check_certain(x)
        if in_region():
            check_write(x, key)
        setattr(x, key, value)
        return x
    if isinstance(x, Tensor):
        check_write(x)
        if not copied:
            _refuse_slice(x)
        x[key] = value
        return x
    if isinstance(x, np.ndarray) and (in_region() or holds_tensor(key) or holds_tensor(value)):
        x = _promoted(x, aliased)
        x[key] = value
        return x
    check_certain(x)
    if in_region():
        check_write(x)
    if isinstance(x, dict) and is_traced(key):
        raise traced_key()
    if isinstance(x, list) and is_traced(key):
        raise TracedValueError(
            "this writes into a list at a traced place; make it an array: y = np.zeros(n), or y = np.array(y)"
        )
    x[key] = value
    return x


def traced_key() -> TracedValueError:
    return TracedValueError(
        "a traced value is used as the key of a dict or the member of a set, where only numbers that are known "
        "can be found; use an array, or compare with the members one by one"
    )


def _promoted(a: np.ndarray[Any, Any], aliased: bool) -> Tensor:
    """A Tensor with the values of an array, to take the array's place."""
    _refuse_others(a, aliased)
    return wrap(a.copy(), None)


def _refuse_others(a: np.ndarray[Any, Any], aliased: bool) -> None:
    if aliased or _has_shared_base(a):
        raise InPlaceError(
            "a traced value is written into a NumPy array that has other names too (a global, an argument of "
            "the caller's), or is a slice of another; they would not see the write. Write into a copy, "
            "y = y.copy() before the first write; or make it a tensor where it is created: y = bs.tensor(y)"
        )


def own_entries(container: Any) -> None:
    """Make the arrays in a list or dict Tensors, where nobody else has them."""
    for key in range(len(container)) if isinstance(container, list) else list(container):
        x = container[key]
        if isinstance(x, list | dict):
            own_entries(x)
        elif isinstance(x, np.ndarray) and x.ndim and x.dtype.kind in "biufc":
            del x
            if not is_entry_shared(container, ("[", key)) and not _has_shared_base(container[key]):
                container[key] = wrap(container[key].copy(), None)


def is_entry_shared(x: Any, step: Step) -> bool:
    """Whether what stands at x[key] or x.name has other names."""
    return _references_of_entry(x, step) > _REFERENCES_OF_ENTRY


def _references_of_entry(x: Any, step: Step) -> int:
    entry = _get(x, step)
    return sys.getrefcount(entry)


def _has_shared_base(a: np.ndarray[Any, Any]) -> bool:
    """Whether an array shows memory that somebody else knows too."""
    return a.base is not None and sys.getrefcount(a.base) > _REFERENCES_OF_BASE


def tensor_in_cell(cell: CellType) -> Tensor:
    """The array in a variable, as a Tensor that takes its place."""
    aliased = _references(cell) > REFERENCES_IN_CELL
    cell.cell_contents = tensor = _promoted(cell.cell_contents, aliased)
    return tensor


def _refuse_slice(x: Tensor) -> None:
    """NumPy's slices share memory, a Tensor's do not: a write into one would be lost."""
    if isinstance(x, Staged):
        call = x._v.recorder.calls.get(x._v)
        sliced = call is not None and call.primitive.name == "slice"
    else:
        # Of one that varies others may hold the memory, too: whoever keeps the values of all rows.
        sliced = isinstance(x._v, np.ndarray) and _has_shared_base(x._v)
        sliced = sliced and (x.row is None or is_view(x))
    if sliced:
        raise InPlaceError(
            "this writes into a slice of a tensor, which is a value of its own: the tensor would not change. "
            "Write into the tensor itself, x[i, j] = v; or into a copy, row = x[i].copy()"
        )


# How many references a variable's value has when no other name knows it; counted, since it depends on
# the version of Python.


def _references(cell: CellType) -> int:
    return sys.getrefcount(cell.cell_contents)


def _is_shared(count: int, x: Any) -> bool:
    """Whether an array has other names, by its count in a function that rewritten code called with it."""
    if count <= _REFERENCES_FROM_LOCAL or count > _REFERENCES_FROM_CELL:
        return count > _REFERENCES_FROM_CELL
    # Python 3.14 lends the value of a variable that is in no cell: then one reference more is another name.
    frame = sys._getframe(2)
    cells = (*frame.f_code.co_cellvars, *frame.f_code.co_freevars)
    return not any(frame.f_locals.get(name) is x for name in cells)


def _count(value: Any, root: Any, *steps: Step) -> int:
    return sys.getrefcount(root)


def _measure() -> tuple[int, int, int]:
    x = np.zeros(1)
    local = np.zeros(1)

    def inner() -> int:
        nonlocal x
        return _count(None, x, ("[", 0))

    (cell,) = inner.__closure__ or ()
    return _count(None, local, ("[", 0)), inner(), _references(cell)


_view = np.zeros(2)[:1]
_REFERENCES_OF_BASE = sys.getrefcount(_view.base)
_REFERENCES_OF_ENTRY = _references_of_entry([np.zeros(1)], ("[", 0))
_REFERENCES_FROM_LOCAL, _REFERENCES_FROM_CELL, REFERENCES_IN_CELL = _measure()


def raised(error: Any) -> Any:
    """What `raise` raises: in staged code it cannot depend on the values."""
    if in_region():
        return ControlFlowError(
            f"`raise` ({error!r}) stands under a condition on traced values: compiled code cannot raise it. "
            "Check before the compiled function is called, or return a flag"
        )
    return error


def fresh(create: Callable[..., Any]) -> Callable[..., Any]:
    """np.zeros and its like inside compiled code: an array that may be given traced values."""

    def run(*args: Any, **kwargs: Any) -> Any:
        a = create(*args, **kwargs)
        if not is_staging():
            return a
        if isinstance(a, np.ndarray) and a.dtype.kind in "biufc" and a.ndim:
            return made(wrap(a, None))
        return made(a)

    return run


def filled(create: Callable[..., Any]) -> Callable[..., Any]:
    """np.full and np.full_like, which ask a traced number for its value."""
    otherwise = fresh(create)

    def run(shape: Any, fill_value: Any, dtype: Any = None, **options: Any) -> Any:
        if not isinstance(fill_value, Tensor):
            return otherwise(shape, fill_value, dtype, **options)
        if dtype is None and create is np.full:
            dtype = fill_value.dtype
        y = create(shape, 0, dtype, **options)
        if y.ndim == 0:
            return fill_value.astype(y.dtype)
        y = made(y if isinstance(y, Tensor) else wrap(y, None))
        y[...] = fill_value
        return y

    return run


def joined(join: Callable[..., Any]) -> Callable[..., Any]:
    """np.array and np.asarray of lists with tensors in them."""

    def run(*args: Any, **kwargs: Any) -> Any:
        y = join(*args, **kwargs)
        return made(y) if not args or y is not args[0] else y

    return run
