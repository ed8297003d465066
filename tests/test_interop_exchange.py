"""Memory that other libraries hold, too: not copied without need, and no wrong derivative if they write."""

from __future__ import annotations

import numpy as np
import pytest

import backsolve as bs
import backsolve.numpy as bnp


def given(kind):
    """A buffer, a Tensor on its memory, and a way to write into it."""
    a = np.array([1.0, 2.0])
    x = bnp.from_dlpack(a) if kind == "dlpack" else bnp.asarray(a, copy=False)
    assert np.shares_memory(a, x.value)
    return a, x


def square(x):
    return (x * x).sum()


KINDS = pytest.mark.parametrize("kind", ["dlpack", "asarray"])


@KINDS
def test_a_leaf_has_memory_of_its_own(kind):
    a, x = given(kind)
    x.requires_grad = True
    y = square(x)
    a[:] = 0
    y.backward()
    np.testing.assert_array_equal(x.grad, [2, 4])


@KINDS
def test_what_a_block_captures_is_copied(kind):
    a, x = given(kind)
    w = bs.tensor([3.0, 4.0], requires_grad=True)
    for same in (x, x.reshape(2, 1).reshape(2), x[:]):
        a[:] = [1, 2]
        y = (w * same).sum()
        a[:] = 0
        w.grad = None
        y.backward()
        np.testing.assert_array_equal(w.grad, [1, 2])


@KINDS
def test_what_outlives_the_call_is_copied(kind):
    a, x = given(kind)
    _, pull = bs.vjp(square, x)
    system = bs.linearize(square)(x)
    a[:] = 0
    np.testing.assert_array_equal(pull(1.0)[0].value, [2, 4])
    np.testing.assert_array_equal(system.backward(1.0).value, [2, 4])


@KINDS
def test_a_compiled_function_keeps_what_it_saw(kind):
    a, x = given(kind)
    f = bs.jit(lambda w: (w * x).sum())
    assert f(np.ones(2)) == 3
    a[:] = 0
    assert f(np.ones(2)) == 3
    np.testing.assert_array_equal(bs.grad(f)(np.ones(2)), [1, 2])


@KINDS
def test_an_argument_written_into_while_it_is_differentiated(kind):
    a, x = given(kind)

    def f(x):
        y = (x * x).sum()
        a[:] = 0
        return y

    np.testing.assert_array_equal(bs.grad(f)(x).value, [2, 4])


def test_memory_handed_over_is_the_tensors_own():
    x = bnp.asarray([1.0, 2.0])
    other = np.from_dlpack(x)
    assert np.shares_memory(other, x.value)
    _, pull = bs.vjp(square, x)
    x.requires_grad = True
    y = square(x)
    memory = other if other.flags.writeable else other.base
    if not isinstance(memory, np.ndarray) or not memory.flags.writeable:
        pytest.skip("this NumPy takes memory by DLPack read-only: nobody can write into it")
    memory[:] = 0
    y.backward()
    np.testing.assert_array_equal(x.grad, [2, 4])
    np.testing.assert_array_equal(pull(1.0)[0].value, [2, 4])


def test_what_derivatives_rest_on_is_handed_over_as_a_copy():
    w = bs.tensor([1.0, 2.0], requires_grad=True)
    y = np.exp(w)
    for constant in (w.detach(), y.detach(), bs.stop_gradient(y).reshape(2, 1)):
        assert not np.shares_memory(np.from_dlpack(constant), constant.value)
        with pytest.raises(BufferError, match="without a copy"):
            constant.__dlpack__(copy=False)
    z = square(w)
    w.requires_grad = False
    assert not np.shares_memory(np.from_dlpack(w), w.value)
    assert z.row is not None


def test_a_tensor_that_varies_is_not_handed_over():
    with pytest.raises(TypeError, match="lose the derivative"):
        np.from_dlpack(bs.tensor([1.0], requires_grad=True))


def test_numpy_takes_results_without_gradients():
    a = np.asarray(np.exp(bnp.zeros(3)))
    assert type(a) is np.ndarray
    assert not a.flags.writeable
    assert np.array(bnp.ones(2)).flags.writeable


class Column:
    """What pandas and Polars have in common."""

    def __init__(self, values):
        self.values = np.asarray(values)

    def __array__(self, dtype=None, copy=None):
        return np.array(self.values, dtype=dtype)


@pytest.mark.parametrize("shape", [(3,), (3, 2)])
def test_columns_are_accepted(shape):
    values = np.arange(1.0, 1 + np.prod(shape)).reshape(shape)
    column = Column(values)
    np.testing.assert_array_equal(bs.tensor(column).value, values)
    np.testing.assert_array_equal(bnp.asarray(column).value, values)
    for f in (square, bs.jit(square)):
        assert f(bs.tensor(column)) == square(values)
        g = bs.grad(f)(column)
        assert type(g) is np.ndarray
        np.testing.assert_array_equal(g, 2 * values)
    assert bs.jit(square)(column) == square(values)
    np.testing.assert_array_equal(bs.jit(bs.grad(square))(column), 2 * values)
    np.testing.assert_array_equal(bs.grad(lambda w: (w * column).sum())(np.ones(shape)), values)


def test_columns_of_whole_numbers_cannot_vary():
    with pytest.raises(TypeError, match="cannot vary smoothly"):
        bs.grad(lambda x: x.sum())(Column([1, 2]))
    with pytest.raises(TypeError, match="numbers"):
        bs.jit(lambda x: x)(Column(["a", "b"]))


def test_pandas():
    pd = pytest.importorskip("pandas", reason="pandas is not installed here")
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]})
    np.testing.assert_array_equal(bs.tensor(frame["a"]).value, [1, 2])
    np.testing.assert_array_equal(bs.grad(square)(frame), [[2, 6], [4, 8]])
    np.testing.assert_array_equal(
        bs.grad(lambda w: (frame["a"] * w - 1 / w).sum())(np.ones(2)), [2, 3]
    )
    np.testing.assert_array_equal(bs.grad(lambda w: np.dot(frame, w).sum())(np.ones(2)), [3, 7])


def test_polars():
    pl = pytest.importorskip("polars", reason="Polars is not installed here")
    frame = pl.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]})
    np.testing.assert_array_equal(bs.tensor(frame["a"]).value, [1, 2])
    np.testing.assert_array_equal(bs.grad(square)(frame), [[2, 6], [4, 8]])
    np.testing.assert_array_equal(bs.grad(lambda w: (w * frame["a"]).sum())(np.ones(2)), [1, 2])


def test_pytorch():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed here")
    a = torch.tensor([1.0, 2.0], dtype=torch.float64)
    x = bnp.from_dlpack(a)
    assert x._v.ctypes.data == a.data_ptr()
    _, pull = bs.vjp(square, x)
    a.zero_()
    assert x.tolist() == [0, 0]
    np.testing.assert_array_equal(pull(1.0)[0].value, [2, 4])
    y = bnp.asarray([1.0, 2.0])
    b = torch.from_dlpack(y)
    assert b.data_ptr() == y._v.ctypes.data
    _, pull = bs.vjp(square, y)
    b.zero_()
    assert y.tolist() == [0, 0]
    np.testing.assert_array_equal(pull(1.0)[0].value, [2, 4])
    w = bs.tensor([1.0, 2.0], requires_grad=True)
    z = square(w)
    torch.from_dlpack(w.detach()).zero_()
    z.backward()
    np.testing.assert_array_equal(w.grad, [2, 4])


def test_jax():
    jnp = pytest.importorskip("jax.numpy", reason="JAX is not installed here")
    if next(iter(jnp.zeros(1).devices())).platform != "cpu":
        pytest.skip("JAX keeps its arrays on an accelerator here")
    a = jnp.arange(4.0)
    x = bnp.from_dlpack(a)
    assert x._v.ctypes.data == a.unsafe_buffer_pointer()
    np.testing.assert_array_equal(bs.grad(square)(x).value, 2 * np.arange(4.0))
    # JAX wants memory aligned to 64 bytes, and copies what is not.
    b = jnp.from_dlpack(bnp.asarray(np.arange(4, dtype=np.float32)))
    np.testing.assert_array_equal(np.asarray(b), np.arange(4.0))
