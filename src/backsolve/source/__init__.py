"""bs.source: a function, or its gradient, as flat Python code that one can read and run.

Reading order: this file; function.py, which does it; record.py, which runs the function on types and solves
backwards; write.py, which names the values and makes lines of them; spell.py, which knows how one equation
is written. All but this file is loaded when the first text is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Source(str):
    """The text of a module that defines one function; `exec(text)` makes it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def source(f: Callable[..., Any] | str, *args: Any) -> Source:
    """`f` as flat Python: one assignment per line, every value computed once.

    For `bs.grad(f)` and `bs.value_and_grad(f)` the lines of the forward pass are followed by one
    line per adjoint, in the order of back substitution: `grad_s0` is ∂f/∂s0. If all arguments are
    scalars, the gradients of all are shown, whatever is returned.

    >>> import numpy as np, backsolve as bs
    >>> print(source(bs.grad(lambda w, x, b: np.tanh(w * x + b))))
    import numpy as np
    <BLANKLINE>
    <BLANKLINE>
    def grad_f(w, x, b):
        s0 = w * x
        s1 = s0 + b
        f = np.tanh(s1)
        grad_f = 1.0
        grad_s1 = grad_f * (1 - f * f)
        grad_b = grad_s1
        grad_s0 = grad_s1
        grad_w = grad_s0 * x
        grad_x = grad_s0 * w
        return grad_w
    <BLANKLINE>

    Without example arguments every positional parameter is a float64 scalar (one with a default
    keeps it). Example arguments give shapes and dtypes, for which alone the code is right; they may
    be nested containers. What is not an array or a number (a string, an int that Python needs to
    count with) is fixed at its example.

    >>> print(source(lambda A, x: (A @ x).sum(), np.ones((2, 3)), np.ones(3)))
    import numpy as np
    <BLANKLINE>
    <BLANKLINE>
    def f(A, x):
        # A: float64[2,3], x: float64[3]
        s0 = A @ x
        f = np.sum(s0)
        return f
    <BLANKLINE>

    The text of nests, as `bs.loops` runs them, is followed by the loops of backpropagation that the swap
    rule gives: nests again, to be run with the adjoint of the result (and what `sizes` must say).

    >>> print(source("y[j] += W[j,i] * x[i]"))
    y[j] += W[j,i] * x[i]
    <BLANKLINE>
    W_grad[j,i] += y_grad[j] * x[i]
    x_grad[i] += W[j,i] * y_grad[j]
    <BLANKLINE>
    """
    from . import function

    return Source(function.written(f, args))
