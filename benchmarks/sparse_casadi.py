"""The functions of the sparse benchmark in CasADi's symbols, of numbers (SX) or matrices (MX), differentiated.

The problems are written for arrays by rows. CasADi's matrices are by columns and have two axes, so arguments
come as lists of columns or matrices, and results are laid out by rows.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import casadi as ca
import numpy as np
import scipy.sparse as sp
from sparse_problems import Problem


def _roll(a: Any, by: int, axis: int) -> Any:
    if axis == 1:
        return ca.horzcat(a[:, -by:], a[:, :-by])
    return ca.vertcat(a[-by:, :], a[:-by, :])


def _names(kind: Any) -> Any:
    return SimpleNamespace(
        concatenate=lambda parts: ca.vertcat(*parts),
        stack=lambda parts: ca.vertcat(*[ca.vec(a.T) for a in parts]),
        roll=_roll,
        zeros=kind.zeros,
        array=ca.DM,
        sum=ca.sum1,
        exp=ca.exp,
        sin=ca.sin,
        cos=ca.cos,
    )


class _Lines:
    """A vector that can be reshaped into lines."""

    def __init__(self, x: Any):
        self.x = x

    def reshape(self, count: int, _: int) -> list[Any]:
        n = self.x.shape[0] // count
        return [self.x[k * n : (k + 1) * n] for k in range(count)]


def _argument(p: Problem, x: Any) -> Any:
    if p.at.ndim == 3:
        _, m, n = p.at.shape
        return [ca.reshape(x[k * m * n : (k + 1) * m * n], n, m).T for k in range(len(p.at))]
    return _Lines(x) if "cart-pole" in p.title or p.hessian else x


def derivative(p: Problem, kind: Any) -> Any:
    """A CasADi function from x to the sparse matrix; `kind` is ca.SX or ca.MX."""
    x = kind.sym("x", p.at.size)
    y = p.f(_names(kind))(_argument(p, x))
    found = ca.hessian(y, x)[0] if p.hessian else ca.jacobian(y, x)
    return ca.Function("J", [x], [found])


def evaluated(J: Any, x: Any) -> tuple[Callable[[], Any], Callable[[Any], Any]]:
    """A run on CasADi's own buffers, which gives the entries by columns; these as a matrix."""
    pattern = J.sparsity_out(0)
    numbers = np.zeros(pattern.nnz())
    flat = np.ascontiguousarray(x).reshape(-1)
    buffer, run = J.buffer()
    buffer.set_arg(0, memoryview(flat))
    buffer.set_res(0, memoryview(numbers))

    def evaluate() -> Any:
        run()
        return numbers

    def matrix(data: Any) -> Any:
        return sp.csc_array((data, pattern.row(), pattern.colind()), shape=pattern.shape).tocsr()

    evaluate.keep = (J, buffer)
    return evaluate, matrix
