"""One class per kind of mistake; each docstring is the help page of that mistake.

Messages say what was expected, what arrived, where in the user's code, and what to do.
"""

from __future__ import annotations

import ast
import functools
import itertools
import linecache
import os
import re
import sys
from types import FrameType
from typing import Any

import numpy as np

_LONG = 100  # letters of an expression that is too long to repeat
_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_LIBRARIES = re.compile(
    r"[\\/](numpy|scipy|jax|torch)[\\/]|<__array_function__|[\\/](contextlib|copy|functools|pickle)\.py$"
)


def location(depth: int = 1) -> str:
    """`file.py:12: the code` of the innermost frame that is not ours nor NumPy's."""
    frame = users_frame(depth + 1)
    if frame is None:
        return "an unknown place"
    return describe_line(frame.f_code.co_filename, frame.f_lineno)


def users_frame(depth: int) -> FrameType | None:
    """The frame nearest to us that is not of this package: the user's line."""
    frame: FrameType | None = sys._getframe(depth)
    while frame is not None and not _is_of_users(frame):
        frame = frame.f_back
    return frame


def _is_of_users(frame: FrameType) -> bool:
    """Not of this package; of what a dataclass writes, which has no file, the module tells."""
    filename = frame.f_code.co_filename
    if filename == "<string>" and str(frame.f_globals.get("__name__")).startswith("backsolve."):
        return False
    return is_users(filename)


def check_function(name: str, f: Any) -> None:
    """An error if `f` is no function: often it was called where it should have been passed."""
    if not callable(f):
        raise TypeError(
            f"`{name}` takes a function, got {f!r:.60}: pass f itself, and its arguments apart"
            f"\n    at {location(2)}"
        )


def operands(frame: FrameType | None) -> str:
    """What an operator that a frame is about works on, as the user wrote it: `a` and `b` of a @ b."""
    text = "" if frame is None else _under_way(frame)
    if not text or len(text) > _LONG:
        return ""
    try:
        (statement,) = ast.parse(text).body
    except (SyntaxError, ValueError):
        return ""
    node: Any = statement.value if isinstance(statement, ast.Expr) else statement
    if isinstance(node, ast.Assign):  # x[i] = v, where that is a function's business
        node = node.targets[0]
        text = ast.unparse(node)
    if isinstance(node, ast.BinOp):
        parts = [node.left, node.right]
    elif isinstance(node, ast.Subscript):
        parts = [node.value, node.slice]
    elif isinstance(node, ast.AugAssign):
        parts = [node.target, node.value]
    elif isinstance(node, ast.Compare) and len(node.ops) == 1:
        parts = [node.left, node.comparators[0]]
    else:
        return ""
    return f"{' and '.join(f'`{ast.unparse(x)}`' for x in parts)} of {text}"


def _under_way(frame: FrameType) -> str:
    """The code that a frame's present instruction was made of, if it stands on one line."""
    place = next(itertools.islice(frame.f_code.co_positions(), frame.f_lasti // 2, None), None)
    if place is None or None in place or place[0] != place[1]:
        return ""
    line, _, start, end = place
    code = linecache.getline(frame.f_code.co_filename, line or 0).encode()
    return code[start:end].decode(errors="replace").strip()


def tells_place(message: str) -> bool:
    """Whether it ends with a line of the user's already, as errors, and those of compiled code, write it."""
    return (
        re.search(r"(, |\n    )at (\S.*:\d+|notebook cell |an unknown place)", message) is not None
    )


def location_of(error: BaseException) -> str:
    """The innermost line of the user's that an exception came through."""
    found, step = "an unknown place", error.__traceback__
    while step is not None:
        name = step.tb_frame.f_code.co_filename
        found = describe_line(name, step.tb_lineno) if _is_of_users(step.tb_frame) else found
        step = step.tb_next
    return found


@functools.cache
def is_users(filename: str) -> bool:
    return not filename.startswith(_PACKAGE) and not _LIBRARIES.search(filename)


@functools.lru_cache(4096)
def describe_line(filename: str, line: int) -> str:
    code = linecache.getline(filename, line).strip()
    cell = re.search(r"ipython-input-(\d+)|ipykernel_\d+[\\/](\d+)", filename)
    place = f"notebook cell {cell[1] or cell[2]}, line {line}" if cell else f"{filename}:{line}"
    return f"{place}: {code}" if code else place


class BacksolveError(Exception):
    """Every error that Backsolve raises on purpose is one of these."""

    is_about_operands = False

    def __init__(self, message: str, *, at: str | None = None):
        if at is None:
            at = location(2)
            of = operands(users_frame(2)) if self.is_about_operands else ""
            message = f"{message}\n    in {of}" if of else message
        super().__init__(f"{message}\n    at {at}" if at else message)


class ShapeError(BacksolveError, ValueError):
    """Two shapes do not fit together.

    The message names the operation and the shapes that arrived. Print `x.shape` just before the
    line named; the usual remedies are a transpose, a `reshape`, or `x[:, None]` to broadcast.
    """

    is_about_operands = True


class MatrixError(ShapeError, np.linalg.LinAlgError):
    """A function of linear algebra got something that is no matrix, or not a square one.

    Matrices stand in the last two axes. Of a vector make one with `x[:, None]` or `x[None, :]`.
    """


class AxisError(BacksolveError, np.exceptions.AxisError):
    """An axis was named that the array does not have, or one axis twice.

    Axes count from 0 to ndim − 1, or backwards from −1.
    """


class IndexingError(BacksolveError, IndexError):
    """An index that does not fit: out of range, too many, or neither integers nor booleans."""

    is_about_operands = True


class DTypeError(BacksolveError, TypeError):
    """An operation got an element type that it has no meaning for.

    Cast first, for example `x.astype(float)`.
    """

    is_about_operands = True


class NotScalarError(BacksolveError, ValueError):
    """`grad` and `backward` differentiate one real number; something else was returned.

    Reduce the result first (`.sum()`, `.mean()`), give `backward` a seed of the result's shape, or
    ask for `jacobian`, which accepts any shape.
    """


class NotDifferentiableError(BacksolveError, TypeError):
    """A derivative was asked with respect to something that has none.

    Integers, booleans and strings cannot be varied smoothly. Pass a float (`2.0`, not `2`), or
    leave the argument out of `argnums`.
    """


class DroppedDerivativeError(BacksolveError, TypeError):
    """A value that carries a derivative was about to become a plain number or array.

    The derivative would be lost without a word. Keep the Tensor, or say that you mean it with
    `bs.stop_gradient(x)` (a value that is constant from here on) or `x.value`.
    """


class TracedValueError(BacksolveError, TypeError):
    """Python asked for the number inside a value that is only a type while a program is staged.

    Inside `vmap` (and `source`) a function runs once on types. Replace `if x > 0: …` on such
    a value by `np.where(x > 0, …, …)`, and a length that depends on values by a fixed one.
    """


class FreedGraphError(BacksolveError, RuntimeError):
    """The rows of this result were freed by an earlier `backward(retain_graph=False)`.

    Leave `retain_graph` at its default, or compute the result again.
    """


class MutatedGraphError(BacksolveError, RuntimeError):
    """A leaf got a new value after the result was computed from its old one.

    Send `y.forward()` first, which recomputes the result, then `y.backward()`.
    """


class RecomputeError(BacksolveError, RuntimeError):
    """A function did not compute the same when it was run again for the derivative.

    What is checkpointed, the slope of a flow, and the equations of an implicit function for second derivatives,
    must depend on their arguments alone: pass loop variables, buffers and random numbers to them.
    """


class BudgetError(BacksolveError, ValueError):
    """A memory budget of `bs.checkpoint` that cannot be read, or cannot be met.

    The message says what the least is that can be met; `least` has it in bytes, where a plan was looked for.
    """

    least: float = float("inf")


class InPlaceError(BacksolveError, TypeError):
    """A write that cannot be differentiated: into an ndarray, or into a leaf that needs a gradient.

    Write into a Tensor instead: `out = bs.tensor(out)`, `x = x.copy()`, then `out[i] = v`.
    """


class UnsupportedError(BacksolveError, TypeError):
    """A NumPy or SciPy function, or an option of one, that has no differentiable counterpart here."""


class StaticArgumentError(BacksolveError, TypeError):
    """Metadata of a primitive must be hashable: tuples instead of lists, no arrays."""


class NaNError(BacksolveError, FloatingPointError):
    """`bs.debug_nans()` is on and an operation made a NaN out of inputs that had none."""


class StructureError(BacksolveError, TypeError):
    """Two nested containers were expected to have the same form, and they differ."""


class CarriedTypeError(BacksolveError, TypeError):
    """A value that a staged loop carries, or that the branches of a staged `if` give, changes its type.

    Compiled code needs one shape and dtype for it. Start a loop from a value of the type that it will have:
    `s = np.zeros(3)` rather than `s = 0` if an array is added to it. (A bare number takes the dtype that it
    becomes by itself.)
    """


class RecursionTypeError(BacksolveError, TypeError):
    """A staged recursive function whose result has no one type.

    Some branch must return without calling the function again, and all branches must return the same shapes
    and dtypes.
    """


class RecursionDepthError(BacksolveError, RecursionError):
    """A function that calls itself more often than Python's stack can follow while it is staged.

    Inside `jit` a recursive function is staged once for each set of known arguments. Where these never
    repeat, numbers among them become traced after some levels, and the function calls itself in the compiled
    program. This cannot be where such a number says how long an array is, or where nothing in the call is
    traced at all. Pass what changes from call to call as an argument that is not static, or write a loop.
    """


class ProgramError(BacksolveError, ValueError):
    """A Program breaks a rule of its own grammar; `verify()` found it."""


class ControlFlowError(BacksolveError, TypeError):
    """A branch or loop on traced values does what a compiled program cannot do.

    Compiled branches and loops carry variables of fixed types. A list cannot grow in one, an exception cannot
    be raised or caught in one, and a variable cannot change its type or shape from one round to the next. Write
    into an array of known length (`y = np.zeros(n)`, `y[i] = v`), give variables their final type before the
    loop, or declare what the condition depends on static: `bs.jit(f, static_argnums=…)`.
    """

    region: Any = None  # the loop whose variable changes its type


class UndefinedNameError(BacksolveError, UnboundLocalError):
    """A variable is used that only some ways through a traced branch or loop assign, with types that differ.

    Which way is taken is known only when the compiled program runs. Assign the variable before, or give it the
    same type in all ways. (With one type it works; then the run raises UnboundLocalError if no way taken has
    assigned it.)
    """


class NestError(BacksolveError, ValueError):
    """A statement of `bs.loops` that is none, or one whose loops cannot be told.

    A statement is `Y[i,j] += A[i,k] * B[k,j]`: a name with indices, one of `= += *= max= min=`, an expression.
    How far an index runs follows from the arrays that it indexes; where it does not, pass `sizes=dict(r=3)`.
    """


class ConvergenceError(BacksolveError, ArithmeticError):
    """An iteration (`bs.root`, `bs.fixed_point`, `bs.argmin`, CG, GMRES, MINRES) did not reach its tolerance.

    `history` has the size of the residual before the first and after each round; the message shows its ends.
    Start closer, allow more rounds (`maxiter`), give a preconditioner, take another `method`, or ask for less
    (`tol`). Compiled code raises a plain ArithmeticError, without the history.
    """

    history: tuple[float, ...] = ()


class SingularError(BacksolveError, np.linalg.LinAlgError):
    """The matrix of a linear system, such as ∂F/∂x of `bs.implicit`, is singular.

    Then F(x, p) = 0 does not determine how x moves with p: two solutions meet, or an unknown is free. Check
    that every unknown occurs in F, and that the solution is an isolated one. Where it is met on the way of
    `bs.root`, `history` has the size of F before the first and after each round.
    """

    history: tuple[float, ...] = ()


class DeviceError(BacksolveError, RuntimeError):
    """A device or a mesh of devices that is not there, or arrays that live on different ones.

    `jax.devices()` lists what JAX finds. Leave `device=` out to run on what is there, or bring arrays together:
    `np.asarray(x)` fetches one, and the compiled function sends it where it runs.
    """


class BackendError(BacksolveError, TypeError):
    """A program that the chosen backend has no form for.

    XLA knows all shapes beforehand and has no recursion. Write a loop, give it a bound, or compile for
    `backend="native"`, which runs on the CPU what Python can say.
    """
