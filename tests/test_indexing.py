"""All of NumPy's indexing, read and write. Reading and writing are linear in the entries, so the
tangent of any such program is the same program run by NumPy on the tangents: an exact reference.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import backsolve as bs
from backsolve.operators import gather

SHAPES = st.sampled_from([(), (3,), (1,), (0,), (3, 4), (2, 0), (1, 3), (2, 3, 4), (3, 1, 2)])
COMMON = st.sampled_from([(), (2,), (1,), (0,), (3, 2), (2, 1)])


def numbered(shape: tuple[int, ...], start: float = 1.0) -> Any:
    return np.asarray(np.arange(start, start + int(np.prod(shape)), dtype=float).reshape(shape))


@st.composite
def parts(draw: Any, shape: tuple[int, ...]) -> Any:
    """Any key that NumPy knows, mostly valid: ints, slices, None, Ellipsis, arrays, masks, bools."""
    common = draw(COMMON)
    key: list[Any] = []
    axis = 0
    dotted = False
    while axis < len(shape) and len(key) < 6:
        n = shape[axis]
        kind = draw(
            st.sampled_from(["int", "slice", "none", "dots", "array", "mask", "bool", "stop"])
        )
        if kind == "stop":
            break
        if kind == "none":
            key.append(None)
        elif kind == "bool":
            key.append(draw(st.sampled_from([True, False, np.True_, np.array(True)])))
        elif kind == "dots" and not dotted:
            dotted = True
            key.append(Ellipsis)
            axis = draw(st.integers(axis, len(shape)))
        elif kind == "int" and n:
            i = draw(st.integers(-n, n - 1))
            key.append(draw(st.sampled_from([i, np.int64(i), np.array(i)])))
            axis += 1
        elif kind == "array" and n:
            cut = draw(st.integers(0, len(common)))
            dims = tuple(draw(st.sampled_from([s, 1])) for s in common[cut:])
            index = draw(hnp.arrays(np.intp, dims, elements=st.integers(-n, n - 1)))
            key.append(draw(st.sampled_from([index, index.tolist() if index.ndim else index])))
            axis += 1
        elif kind == "mask":
            rank = draw(st.integers(1, len(shape) - axis))
            key.append(draw(hnp.arrays(bool, shape[axis : axis + rank])))
            axis += rank
        else:
            ends = st.one_of(st.none(), st.integers(-n - 1, n + 1))
            key.append(slice(draw(ends), draw(ends), draw(st.sampled_from([None, 1, 2, -1, -2]))))
            axis += 1
    return key[0] if len(key) == 1 and draw(st.booleans()) else tuple(key)


@st.composite
def arrays_and_keys(draw: Any) -> tuple[Any, Any]:
    x = numbered(draw(SHAPES))
    return x, draw(parts(x.shape))


def read(x: Any, key: Any) -> Any:
    """NumPy's answer, or the kind of its complaint."""
    try:
        return x[key]
    except IndexError:
        return IndexError


@given(arrays_and_keys())
def test_read(case: tuple[Any, Any]) -> None:
    x, key = case
    expected = read(x, key)
    t = bs.tensor(x, requires_grad=True)
    if expected is IndexError:
        with pytest.raises(IndexError):
            t[key]
        return
    got = t[key]
    assert got.shape == np.shape(expected)
    np.testing.assert_array_equal(got.value, expected)
    _, image = bs.jvp(lambda x: x[key], [x], [x * 10])
    np.testing.assert_array_equal(image, expected * 10)
    seed = np.asarray(expected) + 0.5
    adjoint = np.zeros_like(x)
    np.add.at(adjoint, key, seed)
    np.testing.assert_array_equal(bs.vjp(lambda x: x[key], x)[1](seed)[0], adjoint)


@given(arrays_and_keys())
def test_read_batched(case: tuple[Any, Any]) -> None:
    x, key = case
    expected = read(x, key)
    assume(expected is not IndexError)
    batch = np.stack([x, -x, x + 0.25])
    got = bs.vmap(lambda x: x[key])(batch)
    np.testing.assert_array_equal(got, np.stack([e[key] for e in batch]))
    gradient = bs.vmap(bs.grad(lambda x: (x[key] ** 2).sum()))(batch)
    nested = bs.grad(lambda b: (bs.vmap(lambda x: x[key])(b) ** 2).sum())(batch)
    for k, e in enumerate(batch):
        adjoint = np.zeros_like(e)
        np.add.at(adjoint, key, 2 * e[key])
        np.testing.assert_array_equal(gradient[k], adjoint)
        np.testing.assert_array_equal(nested[k], adjoint)


def assign(x: Any, v: Any, key: Any) -> Any:
    x[key] = v
    return x


def increase(x: Any, v: Any, key: Any) -> Any:
    x[key] += v
    return x


def add_at(x: Any, v: Any, key: Any) -> Any:
    np.add.at(x, key, spelled_out(x, v, key))
    return x


def subtract_at(x: Any, v: Any, key: Any) -> Any:
    np.subtract.at(x, key, spelled_out(x, v, key))
    return x


def spelled_out(x: Any, v: Any, key: Any) -> Any:
    """NumPy's ufunc.at reads past the end of values that it should broadcast; ours does not."""
    return np.array(np.broadcast_to(v, x[key].shape)) if isinstance(x, np.ndarray) else v


@st.composite
def writes(draw: Any) -> tuple[Any, Any, Any]:
    x, key = draw(arrays_and_keys())
    expected = read(x, key)
    assume(expected is not IndexError)
    shape = np.shape(expected)
    dims = tuple(draw(st.sampled_from([s, 1])) for s in shape)
    dims = dims[draw(st.integers(0, len(dims))) :]
    if draw(st.booleans()):  # NumPy drops leading ones of what is written
        dims = (1,) * (len(shape) - len(dims)) + dims
    return x, key, numbered(dims, 100.0)


@pytest.mark.parametrize("write", [assign, increase, add_at, subtract_at])
@given(case=writes())
def test_write(write: Any, case: tuple[Any, Any, Any]) -> None:
    x, key, v = case
    expected = write(np.array(x), v, key)

    def f(x: Any, v: Any) -> Any:
        return write(x.copy(), v, key)

    got, image = bs.jvp(f, [x, v], [x * 3, v * 7])
    np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(image, write(np.array(x * 3), v * 7, key))
    seed = numbered(x.shape, 0.5)
    dx, dv = bs.vjp(f, x, v)[1](seed)
    left = np.vdot(seed, image)
    np.testing.assert_allclose(np.vdot(dx, x * 3) + np.vdot(dv, v * 7), left)
    constant = f(bs.tensor(x), v)
    assert isinstance(constant, bs.Tensor)
    np.testing.assert_array_equal(constant.value, expected)


@pytest.mark.parametrize("write", [assign, increase, add_at])
@given(case=writes())
def test_write_batched(write: Any, case: tuple[Any, Any, Any]) -> None:
    x, key, v = case
    xs, vs = np.stack([x, -x]), np.stack([v, v + 5])

    def f(x: Any, v: Any) -> Any:
        return write(x.copy(), v, key)

    expected = np.stack([write(np.array(a), b, key) for a, b in zip(xs, vs, strict=True)])
    np.testing.assert_array_equal(bs.vmap(f)(xs, vs), expected)

    def energy(x: Any, v: Any) -> Any:
        return (f(x, v) ** 2).sum()

    inside = bs.vmap(bs.grad(energy, (0, 1)))(xs, vs)
    outside = bs.grad(lambda x, v: bs.vmap(energy)(x, v).sum(), (0, 1))(xs, vs)
    for k in range(2):
        one = bs.grad(energy, (0, 1))(xs[k], vs[k])
        for g, a, b in zip(one, inside, outside, strict=True):
            np.testing.assert_array_equal(a[k], g)
            np.testing.assert_array_equal(b[k], g)


def test_last_write_wins() -> None:
    def f(v: Any) -> Any:
        x = bs.tensor(np.zeros(3))
        x[[1, 1, 2, 1]] = v
        return x

    v = np.array([1.0, 2.0, 3.0, 4.0])
    got, pull = bs.vjp(f, v)
    np.testing.assert_array_equal(got, [0.0, 4.0, 3.0])
    np.testing.assert_array_equal(pull(np.array([10.0, 20.0, 30.0]))[0], [0.0, 0.0, 30.0, 20.0])


def test_second_derivative_through_writes() -> None:
    def f(x: Any) -> Any:
        y = x * x
        y[1:] = y[:-1] * x[1:]
        y[[0, 0, 2]] += x**2
        return (y**2).sum()

    x = np.array([0.5, -1.5, 2.0])
    h = 1e-5
    rows = [(bs.grad(f)(x + h * e) - bs.grad(f)(x - h * e)) / (2 * h) for e in np.eye(3)]
    np.testing.assert_allclose(bs.hessian(f)(x), np.stack(rows), rtol=1e-6, atol=1e-6)


def test_a_write_does_not_reach_what_was_read_before() -> None:
    """Slices are values, not views; other names of the same tensor see the change."""
    x = bs.tensor(np.arange(4.0))
    part, same = x[1:3], x
    x[1] = 9.0
    np.testing.assert_array_equal(part.value, [1.0, 2.0])
    assert same is x
    assert same.value[1] == 9.0
    part[0] = -1.0
    assert x.value[1] == 9.0


def test_a_write_does_not_reach_the_array_a_tensor_was_made_of() -> None:
    source = np.zeros(3)

    def f(x: Any) -> Any:
        x[0] = 1.0
        x += 2.0
        return x.sum()

    np.testing.assert_array_equal(bs.grad(f)(source), [0.0, 1.0, 1.0])
    x = bs.tensor(source)
    x[0] = 5.0
    np.testing.assert_array_equal(source, np.zeros(3))


def test_batched_index() -> None:
    x, i = numbered((3, 4)), np.array([[0, 1], [3, 3], [-1, 2]])
    expected = np.stack([a[b] for a, b in zip(x, i, strict=True)])
    np.testing.assert_array_equal(bs.vmap(lambda x, i: x[i])(x, i), expected)
    shared = bs.vmap(lambda i: bs.numpy.take(bs.tensor(x[0]), i))(i)
    np.testing.assert_array_equal(shared, x[0][i])

    def write(x: Any, i: Any) -> Any:
        y = x * 1.0
        y[i] = 0.5
        return y

    expected = np.stack([assign(a * 1.0, 0.5, b) for a, b in zip(x, i, strict=True)])
    np.testing.assert_array_equal(bs.vmap(write)(x, i), expected)


def test_batched_mask() -> None:
    """A mask whose count depends on the example can be written through with one number."""
    x = np.array([[1.0, -2.0, 3.0], [-4.0, 5.0, -6.0]])

    def relu(x: Any) -> Any:
        y = x.copy()
        y[y < 0] = 0.0
        return y

    np.testing.assert_array_equal(bs.vmap(relu)(x), np.maximum(x, 0))
    np.testing.assert_array_equal(bs.vmap(bs.grad(lambda x: relu(x).sum()))(x), x > 0)
    with pytest.raises(TypeError, match=r"np\.where"):
        bs.vmap(lambda x: x[x < 0])(x)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.int32, bool])
@pytest.mark.parametrize("value", [2, 2.75, True, np.float32(1.5), np.array([1.5, -2.5])])
def test_written_values_are_cast(dtype: Any, value: Any) -> None:
    expected = np.zeros(2, dtype)
    expected[:] = value
    x = bs.tensor(np.zeros(2, dtype))
    x[:] = value
    assert x.dtype == expected.dtype
    np.testing.assert_array_equal(x.value, expected)


def test_casts_that_would_drop_something_are_errors() -> None:
    count = bs.tensor(np.zeros(2, int))
    x = bs.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(TypeError, match=r"drop its derivative.*astype\(float\)"):
        count[0] = x[1]
    with pytest.raises(TypeError, match="imaginary"):
        (x * 1)[0] = 1j
    wide = bs.tensor(np.zeros(2, np.float32))
    wide[1] = x[0] * 3
    assert wide.dtype == np.float32
    wide.sum().backward()
    np.testing.assert_array_equal(x.grad, [3.0, 0.0])


WRONG_READS = {
    "too many": (0, 0, 0),
    "out of range": 3,
    "out of range below": -4,
    "out of range inside": (slice(None), 9),
    "out of range in an array": [0, 7],
    "floats": 1.5,
    "an array of floats": np.array([0.0]),
    "two ellipses": (Ellipsis, Ellipsis),
    "a mask of the wrong shape": np.array([True, False]),
    "arrays that do not broadcast": ([0, 1], [0, 1, 2]),
    "text": "a",
}


@pytest.mark.parametrize("key", WRONG_READS.values(), ids=WRONG_READS)
def test_wrong_keys(key: Any) -> None:
    x = numbered((3, 4))
    t = bs.tensor(x, requires_grad=True) * 1.0
    with pytest.raises(IndexError):
        x[key]
    with pytest.raises(IndexError):
        t[key]
    with pytest.raises(IndexError):
        t[key] = 0.0
    with pytest.raises(IndexError):
        np.add.at(t, key, 1.0)
    np.testing.assert_array_equal(t.value, x)


def test_wrong_keys_name_the_line() -> None:
    t = bs.tensor(numbered((3, 4)))
    with pytest.raises(
        IndexError, match=r"too many indices: 3 .*\(3, 4\)\n.*`t`.*\n.*test_indexing\.py:\d+: t\[0"
    ):
        t[0, 0, 0]
    with pytest.raises(
        IndexError, match=r"index 7 .*\(3, 4\)\n.*`t`.*\n.*test_indexing\.py:\d+: t\[\["
    ):
        t[[0, 7]]


@pytest.mark.parametrize(
    ("key", "value"), [(slice(None), np.ones(3)), ([0, 1], np.ones((3, 4))), (0, np.ones((2, 4)))]
)
def test_wrong_values(key: Any, value: Any) -> None:
    x = numbered((3, 4))
    with pytest.raises(ValueError, match="broadcast"):
        x[key] = value
    with pytest.raises(ValueError, match=r"\(3, 4\)|broadcast"):
        bs.tensor(x)[key] = value


@pytest.mark.parametrize("way", [lambda f: f, bs.jit])
def test_a_copy_to_write_into(way: Any) -> None:
    """bs.tensor makes one of an array, of a value that varies, and of one that is staged."""

    def f(x: Any, y: Any) -> Any:
        a, b = bs.tensor(x), bs.tensor(y)
        a[0] = 2 * x[1]
        b[1] = x[0]
        return np.sum(a * a) + np.sum(b * x) + x[0]

    x, y = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    np.testing.assert_allclose(way(bs.grad(f))(x, y), [3 + 2 + 1, 16 + 2 * 2 + 1])
    np.testing.assert_array_equal(y, [3.0, 4.0])


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128", "int64"])
def test_many_rows_are_added_where_they_belong(dtype):
    at = np.random.default_rng(0).integers(-40, 40, (30, 70))
    rows = np.random.default_rng(0).integers(-5, 5, (30, 70, 16)).astype(dtype)
    start = np.ones((40, 16), dtype)
    expected = start.copy()
    np.add.at(expected, (at,), rows)
    got = start.copy()
    gather.add_at(got, (at,), rows)
    np.testing.assert_array_equal(got, expected)
    table = bs.grad(lambda w: np.sum(np.real(w[at]) * np.real(rows)))(np.zeros((40, 16)))
    np.testing.assert_array_equal(table, np.real(expected) - 1)
    with pytest.raises(IndexError):
        gather.add_at(got, (at + 1,), rows)
