"""An index that is out of range names the user's line; a branch that is not there is an IndexError."""

import numpy as np
import pytest

import backsolve as bs
from backsolve.backends.native.compile import compile_program
from backsolve.control.regions import Region
from backsolve.ir import Equation, Program, Type, Var
from backsolve.primitives.control import BRANCH
from backsolve.regions import Branches
from backsolve.trace import evaluate

A = np.arange(12.0).reshape(4, 3)


def read(A, i):
    return A[i].sum()


def read_in_a_loop(A, i):
    s = 0.0
    for k in range(20):
        s += A[i + k].sum()
    return s


def write_in_a_branch(A, i):
    if i > 0:
        B = A * 2
        B[i] = A[0]
    else:
        B = A
    return B.sum()


def write_in_a_loop(A, i):
    n = 0
    while n < i:
        A = A @ A.T @ A * 0.01
        A[n] = A[n + 1]
        n += 1
    return A.sum()


def read_many(A, i):
    return A[np.array([0, 1]) + i].sum()


def read_part(A, i):
    return A[i : i + 2].sum()


def add_at(A, i):
    y = np.zeros(4)
    y[i] += A[0, 1]
    return y.sum()


CASES = [read, read_in_a_loop, write_in_a_branch, write_in_a_loop, read_many, read_part, add_at]


@pytest.mark.parametrize("backend", ["numpy", "native"])
@pytest.mark.parametrize("f", CASES, ids=lambda f: f.__name__)
def test_the_users_line(f, backend):
    pattern = r"out of bounds for axis 0 with size 4, at .*test_places.py:\d+: "
    with pytest.raises(IndexError, match=pattern):
        bs.jit(f, backend=backend)(A.copy(), 9)
    with pytest.raises(IndexError, match=pattern):
        bs.jit(bs.grad(f), backend=backend)(A.copy(), 9)


def branches(shape):
    """Three branches, chosen by an integer."""
    t = Type(shape, np.dtype(float))
    makers = [lambda x: [x * 1.0], lambda x: [x * 2.0], lambda x: [x @ x.T] if shape else [x * x]]
    programs = [Region(f, [t], None).program for f in makers]
    which, x, y = Var(Type((), np.dtype(np.int64))), Var(t), Var(t)
    made = Equation((y,), BRANCH, (which, x), {"region": Branches(tuple(programs))}, "here:1")
    return Program((which, x), (), (made,), (y,))


@pytest.mark.parametrize("shape", [(), (20, 20)])
def test_there_is_no_such_branch(shape):
    program = branches(shape)
    x = np.full(shape, 3.0)
    native = compile_program(program).call
    for k in range(3):
        expected = evaluate(program, [np.int64(k), x])[0]
        np.testing.assert_allclose(native(np.array(k), x), expected)
    for k in (-1, 3, 7):
        for run in (
            lambda k: evaluate(program, [np.int64(k), x]),
            lambda k: native(np.array(k), x),
        ):
            with pytest.raises(IndexError, match="there are 3 branches, and no such one"):
                run(k)


def adds(idx, w):
    h = np.zeros(4)
    for i in range(len(idx)):
        h[idx[i]] += w[i]
    return (h * h).sum()


def sets(idx, w):
    h = np.zeros(4)
    for i in range(len(idx)):
        h[idx[i]] = w[i]
    return (h * h).sum()


def reads_a_row(idx, w):
    rows, total = w.reshape(4, 5), 0.0
    for i in range(len(idx)):
        k = idx[7]
        total += rows[k, i % 5] * w[i]
    return total


@pytest.mark.parametrize("backend", ["numpy", "native"])
@pytest.mark.parametrize(
    ("f", "line"),
    [(adds, r"h.idx.i.. \+= w"), (sets, r"h.idx.i.. = w"), (reads_a_row, r"\+= rows.k")],
)
def test_an_index_out_of_range_is_told_with_its_line(f, line, backend):
    idx, w = np.arange(20) % 4, np.linspace(0.0, 1.0, 20)
    idx[7] = 9
    for g in (f, bs.grad(f, argnums=1)):
        with pytest.raises(IndexError, match=line):
            bs.jit(g, backend=backend)(idx, w)
