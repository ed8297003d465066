"""Gathers, scatters and writes in compiled code: values, gradients, places in memory, errors."""

from __future__ import annotations

import numpy as np
import pytest

import backsolve as bs
from backsolve.backends.native.views import View
from backsolve.primitive import P
from backsolve.testing.backends import check_compiled

I64 = np.array([2, 0, -1, 2, 1])
I32 = I64.astype(np.int32)
MATRIX = np.array([[0, -3], [2, 2]])


def array(shape, dtype):
    values = np.random.default_rng(0).normal(size=shape) * 3
    return (values > 0) if dtype == np.bool_ else values.astype(dtype)


READS = {
    "one index": (lambda x, i: x[i], (3,), [I64]),
    "narrow index": (lambda x, i: x[i], (3,), [I32]),
    "rows": (lambda x, i: x[i], (3, 4), [I64]),
    "columns": (lambda x, i: x[:, i], (4, 3), [I64]),
    "of a slice": (lambda x, i: x[::-2, 1:][i], (6, 4), [I64]),
    "index matrix": (lambda x, i: x[i], (3, 2), [MATRIX]),
    "two indices": (lambda x, i, j: x[i, j], (3, 4), [I64, I64[::-1].copy()]),
    "broadcast indices": (lambda x, i, j: x[i[:, None], j], (3, 4), [I64, I64[:2].copy()]),
    "constant index": (lambda x: x[np.array([1, -1, 1])], (3,), []),
    "one place": (lambda x, i: x[i], (3, 2), [np.array(-2)]),
    "computed index": (lambda x, i: x[(i * i + 1) % 3], (3,), [I64]),
    "beside its index": (lambda x, i: x[i] * i + x[i[0]], (3,), [I64]),
    "no index": (lambda x, i: x[i], (3, 2), [np.zeros(0, int)]),
    "of nothing": (lambda x, i: x[i], (0,), [np.zeros((2, 0), int)]),
    "along": (lambda x, i: np.take_along_axis(x, i, 1), (2, 3), [MATRIX]),
    "read twice": (lambda x, i: (x * 2)[i][i[:2]], (3, 2), [I64]),
    "broadcast array": (lambda x, i: np.broadcast_to(x, (3, 2))[i], (2,), [I64]),
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.int32, np.bool_])
@pytest.mark.parametrize("name", READS)
def test_reads(name, dtype):
    f, shape, indices = READS[name]
    x = array(shape, dtype)
    native = check_compiled(f, [x, *indices], name)
    assert native or "computed" in name  # integer division has its own tests
    if np.dtype(dtype).kind == "f":
        total = lambda x, *i: np.sum(np.sin(f(x, *i)))
        assert check_compiled(bs.grad(total), [x, *indices], f"gradient of {name}") or not native


def written(x, i, v):
    y = x * 1
    y[i] = v
    return y


def twice(x, i, v):
    y = x * 1
    y[i] = v
    z = y * 2
    y[i[:1]] = y[i[1:2]] * 3
    return y, z


def kept(x, i, v):
    y = x * 1
    z = y
    y = y + 0
    y[i] = v
    return y, z


WRITES = {
    "entries": (written, (4,), I64, (5,)),
    "one number": (written, (4,), I64, ()),
    "rows": (written, (4, 2), I64, (5, 2)),
    "matrix of places": (written, (4, 2), MATRIX, (2, 2, 2)),
    "twice": (twice, (4,), I64, (5,)),
    "kept": (kept, (4,), I64, (5,)),
    "own entries": (lambda x, i, v: P.scatter_set(x, x[i] + v, i), (4,), I64, (5,)),
    "of an argument": (lambda x, i, v: P.scatter_set(x, v, i), (4,), I64, (5,)),
    "nothing": (written, (4,), np.zeros(0, int), (0,)),
    "into a constant": (lambda x, i, v: P.scatter_set(np.arange(4) * x.dtype.type(1), v, i), (4,), I64, (5,)),
    "added": (lambda x, i, v: P.scatter_add(v, i, shape=(4,)), (4,), I64, (5,)),
    "rows added": (lambda x, i, v: P.scatter_add(v * 2, i, shape=(4, 3)) + 1, (), I64, (5, 3)),
    "added at pairs": (lambda x, i, v: P.scatter_add(v, i, i[::-1], shape=(4, 3)), (), I64, (5,)),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
@pytest.mark.parametrize("name", WRITES)
def test_writes(name, dtype):
    f, shape, i, given = WRITES[name]
    x, v = array(shape, dtype), array(given, dtype)
    f = staged(f)
    assert check_compiled(f, [x, i, v], name)
    if np.dtype(dtype).kind == "f":
        total = lambda x, i, v: sum(np.sum(np.sin(y)) for y in bs.tree.flatten(f(x, i, v))[0])
        check_compiled(bs.grad(total, argnums=(0, 2)), [x, i, v], f"gradient of {name}")


def staged(f):
    """Writes into arrays are for Tensors: also without jit."""
    return lambda x, i, v: f(bs.tensor(x) if isinstance(x, np.ndarray | np.generic) else x, i, v)


def test_booleans_are_added_by_or():
    f = lambda v, i: P.scatter_add(v, i, shape=(3,))
    assert check_compiled(f, [np.array([True, True, False, False, True]), I64])


def test_the_last_of_several_writes_counts():
    f = bs.jit(lambda x, i, v: P.scatter_set(x, v, i))
    y = f(np.zeros(3), np.array([1, 1, -2, 0]), np.arange(4.0))
    np.testing.assert_array_equal(y, [3, 2, 0])


def test_arguments_and_other_results_are_not_written_into():
    x = np.arange(4.0)
    y, z, w = bs.jit(lambda x: (x, x * 2, P.scatter_set(x * 2, x[:1], np.array([3]))))(x)
    np.testing.assert_array_equal(x, np.arange(4))
    np.testing.assert_array_equal(y, x)
    np.testing.assert_array_equal(z, 2 * x)
    np.testing.assert_array_equal(w, [0, 2, 4, 0])


def test_writes_happen_in_place_where_nobody_reads_the_old_values():
    def f(x, i):
        y = x + 1.0
        for k in range(5):
            y = P.scatter_set(y, i * 1.0 + k, i)
            y = P.slice_update(y, 2.0 * k, spec=(k,))
        return y

    lowered = bs.jit(f).lower(np.ones(1000), np.arange(3))
    assert lowered.stages["steps"].count("for [1000]") == 1
    assert check_compiled(f, [np.ones(10), np.array([0, 5, 0])])


class TestErrors:
    x = np.arange(3.0)

    @pytest.mark.parametrize("i", [3, -4, 2**62, -(2**62)])
    @pytest.mark.parametrize(
        "f",
        [
            lambda x, i: x[i],
            lambda x, i: P.scatter_add(x[:1], i, shape=(3,)),
            lambda x, i: P.scatter_set(x, x[:1], i),
            lambda x, i: (np.ones((2, 1)) * x)[:, i].sum(),
            lambda x, i: bs.grad(lambda x: x[i].sum())(x),
        ],
    )
    def test_out_of_range(self, f, i):
        compiled = bs.jit(f)
        compiled(self.x, np.array([-3]))
        (made,) = compiled.stats()["specialisations"]
        assert made["native"], made["reason"]
        with pytest.raises(IndexError, match="out of bounds for axis 0 with size 3"):
            compiled(self.x, np.array([i]))
        compiled(self.x, np.array([2]))

    def test_one_bad_index_among_many(self):
        i = np.zeros(1000, int)
        f = bs.jit(lambda x, i: np.exp(x[i]).sum())
        for k in (0, 499, 999):
            i[k] = 3
            with pytest.raises(IndexError):
                f(self.x, i)
            i[k] = 0

    def test_constant_index(self):
        f = bs.jit(lambda x: x[np.array([1, 5])])
        with pytest.raises(IndexError):
            f(self.x)

    @pytest.mark.parametrize("shape", [(0,), (0, 2), (3, 0)])
    def test_where_there_is_nothing(self, shape):
        f = bs.jit(lambda x, i: x[i])
        with pytest.raises(IndexError):
            f(np.zeros(shape), np.array([7]))


class TestRamps:
    @pytest.mark.parametrize(
        "values",
        [
            np.arange(5),
            np.arange(7, -3, -2),
            np.arange(6).reshape(2, 3),
            np.arange(4)[:, None],
            np.arange(3, dtype=np.int32) - 10**6,
            np.add.outer(np.arange(3) * 5, np.arange(2)),
        ],
    )
    def test_need_no_memory(self, values):
        assert View.ramp(values) is not None
        for f in (
            lambda x: x * values,
            lambda x: values[::-1] + x * 0,
            lambda x: (values.T + 1) * x.sum(),
            lambda x: np.reshape(values * 1 + np.zeros_like(values), -1)[1:],
            lambda x: np.sum(values, axis=0) + x.sum(),
        ):
            assert check_compiled(f, [np.ones(values.shape)])

    @pytest.mark.parametrize(
        "values", [np.array([0, 1, 3]), np.array([[0, 1], [2, 4]]), np.array([0, 1, 2, 3]) << 62]
    )
    def test_uneven(self, values):
        assert View.ramp(values) is None
        assert check_compiled(lambda x: x * values, [np.ones(values.shape)])

    def test_numbering_of_places(self):
        assert check_compiled(staged(written), [np.zeros((100, 100)), MATRIX, 1.0])


def test_functions_are_not_computed_where_indices_write():
    """A loop that adds at indices is none of vectors; what it adds is computed before."""
    f = bs.jit(lambda x, i: bs.grad(lambda h: np.sum(h[i] * np.exp(x)))(np.zeros(7)))
    steps = f.lower(np.ones(100), np.arange(100) % 7).stages["steps"].split("\n")
    assert not any("exp" in line and "at indices" in line for line in steps)


EMPTY = [
    (lambda a, i: a[i], (3, 0)),
    (lambda a, i: a[i, i[:, None]] + 1, (3, 3, 0)),
    (lambda a, i: P.scatter_add(np.zeros((2, 0)), i, shape=a.shape), (3, 0)),
    (lambda a, i: P.scatter_set(a, np.zeros((2, 0)), i), (3, 0)),
]


@pytest.mark.parametrize(("f", "shape"), EMPTY)
def test_indices_are_looked_at_where_entries_are_empty(f, shape):
    for places in ([0, -3], [2, 2]):
        for dtype in (np.int64, np.int8, np.uint16):
            if min(places) < 0 and dtype == np.uint16:
                continue
            assert check_compiled(f, [np.zeros(shape), np.array(places, dtype)])
    for places in ([0, 3], [-4, 0]):
        for call in (f, bs.jit(f)):
            with pytest.raises(IndexError, match="out of bounds"):
                call(np.zeros(shape), np.array(places))


def test_an_empty_axis_has_no_entry():
    f = bs.jit(lambda a, i: a[i] * 2)
    assert f(np.zeros((0, 2)), np.zeros(0, int)).shape == (0, 2)
    with pytest.raises(IndexError, match="size 0"):
        f(np.zeros((0, 2)), np.array([0]))
    with pytest.raises(IndexError, match="size 0"):
        f(np.zeros(0), 0)
    assert [made["native"] for made in f.stats()["specialisations"]] == [True] * 3
