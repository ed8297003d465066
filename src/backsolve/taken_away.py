"""What Python and NumPy take away from a Tensor: numbers, truth values, arrays, if no derivative goes."""

from __future__ import annotations

import operator
import sys
from types import FrameType
from typing import Any

import numpy as np
import numpy.typing as npt

from .asked_by_scipy import for_objective, for_sparse_product, module_of, through_scipy
from .errors import DroppedDerivativeError, TracedValueError
from .hooks import hooks
from .ir import Var
from .row import Row, is_over


class _Withheld:
    """For a number that must not be taken away, where its error would be mistaken: the first use raises it."""

    def __init__(self, error: Exception):
        self._error = error

    def _refuse(self, *others: Any) -> Any:
        raise self._error

    __float__ = __bool__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __neg__ = __abs__ = _refuse


class TakenAway:
    """Abstract: the conversions of a Tensor."""

    __slots__ = ()

    _v: Any
    row: Row | None

    @property
    def value(self) -> npt.NDArray[Any]:
        raise NotImplementedError("value")

    def _known(self, what: str) -> Any:
        if type(self._v) is Var:
            raise TracedValueError(
                f"Python asked for {what}; but this value of type {self._v.type} is being staged: "
                "only its type is known. Write np.where(condition, a, b) for an `if` on it, np.sin for "
                "math.sin, bs.tensor(a) for an array a to write into; and declare an argument that is a "
                "length, a shape or a flag static: bs.jit(f, static_argnums=…)"
                + (through_scipy() or _why_not_rewritten())
            )
        return self._v

    def _plain(self, what: str) -> Any:
        """The raw value, for Python or NumPy to take away; an error if a derivative would be lost."""
        v = self._known(what)
        if self.row is not None and not is_over(self.row):
            raise DroppedDerivativeError(
                f"{what} would lose the derivative of this tensor. Keep it a Tensor: np.sin "
                "instead of math.sin, np.stack to join several, a = bs.tensor(a) before `a[i] = x`. Or "
                "write bs.stop_gradient(x) or x.value if it shall count as a constant"
                + through_scipy()
            )
        return v

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        # Whole numbers are steps of it: there is no derivative to lose.
        counts = dtype is not None and np.dtype(dtype).kind in "biu"
        held = self._known if counts else self._plain
        if (self.row is not None or type(self._v) is Var) and for_sparse_product():
            return np.array(None, object)  # so SciPy leaves A @ x to x
        try:
            v = np.asarray(held("turning it into a NumPy array"))
        except (DroppedDerivativeError, TracedValueError) as error:
            if for_objective():
                return np.array([_Withheld(error)], object)  # rank 0, in a list, is passed over
            raise
        if copy or (dtype is not None and v.dtype != dtype):
            return np.array(v, dtype=dtype, copy=True if copy is None else copy)
        return self.value  # read-only: writing into it would change this tensor unseen

    def __float__(self) -> float:
        what = "float(x), or math.f(x), or `a[i] = x` into an ndarray a"
        # Which root is found depends on where it is sought; how it moves does not.
        return float(self._known(what) if _is_bracket(self) else self._plain(what))

    def __int__(self) -> int:
        return int(self._plain("int(x)"))

    def __complex__(self) -> complex:
        return complex(self._plain("complex(x)"))

    def __index__(self) -> int:
        return operator.index(np.asarray(self._plain("using it as an index")))

    def __bool__(self) -> bool:
        if type(self._v) is Var and (follow := hooks.truth.value) is not None:
            followed: bool | None = follow(self._v)
            if followed is not None:
                return followed
        return bool(self._known("its truth value"))

    def item(self, *args: Any) -> Any:
        """One entry as a Python number."""
        return np.asarray(self._plain("x.item()")).item(*args)

    def tolist(self) -> Any:
        """Its entries as nested lists of Python numbers."""
        return np.asarray(self._plain("x.tolist()")).tolist()


def _is_bracket(x: Any) -> bool:
    """Whether SciPy seeks a root from x on, or up to x (brentq and its like)."""
    asking = sys._getframe(2)
    ends = [asking.f_locals.get(name) for name in "ab"] if _seeks_roots(asking) else []
    return any(end is x for end in ends)


def check_sought(x: Any) -> None:
    """An error where SciPy seeks a root of x: from float(x), which it asks for in C, it would not be heard."""
    asking = sys._getframe(3)
    if x.row is not None and asking.f_code.co_name == "f_raise" and _seeks_roots(asking):
        x._plain("seeking a root of it")


def check_solved(x: Any) -> None:
    """An error where SciPy has MINPACK solve for x (fsolve, root, leastsq, curve_fit), which is C code, too."""
    asking: FrameType | None = sys._getframe(2)
    while asking is not None and module_of(asking).startswith(("backsolve.", "numpy")):
        asking = asking.f_back
    if asking is not None and module_of(asking) == "scipy.optimize._minpack_py":
        x._plain("solving for it")


def _seeks_roots(frame: FrameType) -> bool:
    return module_of(frame) == "scipy.optimize._zeros_py"


def _why_not_rewritten() -> str:
    why = hooks.why()
    return f". (Control flow stays Python's here: {why})" if why else ""
