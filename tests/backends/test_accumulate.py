"""Parts of adjoints that are added in place: right, and without arrays of zeros."""

from __future__ import annotations

import numpy as np
import pytest

import backsolve as bs
from backsolve.primitive import P
from backsolve.testing.backends import check_compiled

X, Y = np.arange(6.0) + 0.5, np.linspace(-1, 1, 6)
I = np.array([1, -1, 1])


def part(t, spec=((0, 3, None),)):
    return P.unslice(t, spec=spec, shape=(6,))


def spread(t, i):
    return P.scatter_add(t, i, shape=(6,))


SUMS = {
    "two slices": lambda x, y, i: part(x[:3]) + part(y[3:], ((2, 5, None),)),
    "two scatters": lambda x, y, i: spread(x[:3], i) + spread(y[3:], i + 1),
    "left and right": lambda x, y, i: spread(x[:3], i) + (x * y) + part(y[1:4]),
    "onto an argument": lambda x, y, i: x + part(y[:3]),
    "term read again": lambda x, y, i: _read_again(x * 2, y, i),
    "part read again": lambda x, y, i: _part_again(x, y, i),
    "part of the term": lambda x, y, i: _of_itself(x * 2, i),
    "indices change": lambda x, y, i: _indices_change(x, y, i),
    "strided": lambda x, y, i: (x * 2)[::-1] + part(y[:3], ((None, None, 2),)),
    "one entry": lambda x, y, i: part(x[2], (1,)) + part(y[2], (1,)),
    "nothing": lambda x, y, i: x * 2 + part(y[:0], ((3, 3, None),)) + spread(y[:0], i[:0]),
    "to itself": lambda x, y, i: _doubled(part(x[:3])),
    "numbers": lambda x, y, i: part(np.ones(3)) + x * 2,
    "integers": lambda x, y, i: spread(i, i) + part(i * 2),
    "booleans": lambda x, y, i: spread(np.equal(i, 1), i) + (x > 2),
}


def _read_again(z, y, i):
    total = z + part(y[:3])
    return total, z * 3, spread(y[:3], i) + z


def _part_again(x, y, i):
    p = part(y[:3])
    return x + p, p * 2


def _of_itself(z, i):
    return z + spread(z[:3], i), (z * 3) + part((z * 3)[3:])


def _indices_change(x, y, i):
    """What a waiting part reads is not overwritten meanwhile."""
    t, k = x[:3] * 2, i * 1
    waiting = spread(t, k)
    t = P.slice_update(t, 100.0, spec=(0,))
    k = P.scatter_set(k, np.array([0]), np.array([2]))
    return waiting + y * 2, t, k


def _doubled(p):
    return p + p


@pytest.mark.parametrize("name", SUMS)
def test_sums(name):
    assert check_compiled(SUMS[name], [X, Y, I], name)


def recurrent(xs, h, w):
    for t in range(6):
        h = np.tanh(h * w + xs[t])
    return h.sum()


def embedded(table, h, k):
    for t in range(6):
        h = np.tanh(h + table[k[t]]) * 2
    return h.sum()


def test_gradients_of_loops():
    r = np.random.default_rng(0)
    xs, h, w = r.normal(size=(6, 5)), r.normal(size=5), r.normal(size=5)
    k = np.array([3, 0, -1, 3, 3, 1])
    for f, args in ((recurrent, (xs, h, w)), (embedded, (xs, h, k))):
        assert check_compiled(bs.grad(f), args, ulps=1000)
        assert check_compiled(bs.hessian(f), args, ulps=1e5)
        steps = bs.jit(bs.grad(f)).lower(*args).stages["steps"]
        assert steps.count("[6, 5]") <= 1  # no pass over the whole for a part, one for all parts
        assert steps.count("zero") <= 1


def test_an_index_out_of_range_is_still_an_error():
    f = bs.jit(lambda y, i: spread(y[:3], i) + y * 2)
    f(Y, I)
    with pytest.raises(IndexError):
        f(Y, I + 5)
