"""`backsolve.numpy` as a namespace of the array API standard."""

from __future__ import annotations

import numpy as np
import pytest

import backsolve as bs
import backsolve.numpy as bnp


@pytest.mark.parametrize(
    "made",
    [
        bnp.zeros(3),
        bnp.ones((2, 2), dtype=np.float32),
        bnp.empty(0),
        bnp.full(2, 1.5),
        bnp.eye(3),
        bnp.arange(4),
        bnp.asarray([1, 2]),
        bnp.array([[1.0]]),
        bnp.linspace(bnp.asarray(0.0), 1.0, 3),
        bnp.tri(3),
    ],
)
def test_what_is_made_are_tensors(made):
    assert isinstance(made, bs.Tensor)
    assert made.__array_namespace__() is bnp
    assert made.device == "cpu"


def test_tensors_can_be_written_into():
    def f(x):
        y = bnp.zeros(3)
        for i in range(3):
            y[i] = x[i] ** 2
        return y.sum()

    np.testing.assert_allclose(bs.grad(f)(np.arange(3.0)), [0, 2, 4])
    np.testing.assert_allclose(bs.jit(bs.grad(f))(np.arange(3.0)), [0, 2, 4])


def test_a_copy_is_made_unless_it_is_forbidden():
    a = np.arange(3.0)
    kept, shared = bnp.asarray(a), bnp.asarray(a, copy=False)
    a[0] = 7
    assert float(kept[0]) == 0
    assert float(shared[0]) == 7
    with pytest.raises(ValueError, match="without a copy"):
        bnp.asarray(bnp.asarray([1.0]), dtype=np.float32, copy=False)


def test_what_joins_tensors_keeps_their_derivative():
    assert bs.grad(lambda x: bnp.array([x, 2 * x, x * x]).sum())(3.0) == 9.0
    assert bs.grad(lambda x: bnp.full((2, 2), x).sum())(3.0) == 4.0


def test_arrays_of_numpy_stay_what_they_are():
    assert type(bnp.sin(np.ones(3))) is np.ndarray
    assert type(bnp.sort(np.ones(3))) is np.ndarray


@pytest.mark.parametrize("x", [np.array([2.0, 1.0, 2.0, 3.0]), np.array([[0, 1], [2, 0]])])
def test_sorting_down_is_stable(x):
    for make in (np.asarray, bnp.asarray):
        places = np.asarray(bnp.argsort(make(x), descending=True))
        expected = np.argsort(-x, stable=True)
        np.testing.assert_array_equal(places, expected)
        down = np.asarray(bnp.sort(make(x), descending=True))
        np.testing.assert_array_equal(down, np.take_along_axis(x, expected, -1))


def test_gradient_of_sorting_down():
    x, w = np.array([2.0, 5.0, 3.0]), np.array([1.0, 10.0, 100.0])
    g = bs.grad(lambda x: (bnp.sort(x, descending=True) * w).sum())(x)
    np.testing.assert_allclose(g, [100, 1, 10])


def test_memory_is_exchanged():
    x = bnp.arange(3.0)
    y = np.from_dlpack(x)
    assert np.shares_memory(y, np.asarray(x))
    assert isinstance(bnp.from_dlpack(np.arange(3.0)), bs.Tensor)
    with pytest.raises(bs.errors.DroppedDerivativeError):
        np.from_dlpack(bs.tensor([1.0], requires_grad=True))


def test_answers_about_itself():
    info = bnp.__array_namespace_info__()
    assert info.devices() == ("cpu",)
    assert info.default_dtypes()["real floating"] == np.float64
    assert list(info.dtypes(kind="real floating")) == ["float32", "float64"]
    assert set(info.dtypes(kind=("bool", "integral"))) > {"bool", "uint8"}
    with pytest.raises(ValueError, match="kind is None or one of"):
        info.dtypes(kind="float")
    with pytest.raises(ValueError, match="2019"):
        bnp.zeros(1).__array_namespace__(api_version="2019.12")
    with pytest.raises(ValueError, match="one device"):
        bnp.zeros(1, device="gpu")
    assert isinstance(bnp.finfo(bnp.float32).eps, float)
    assert bnp.iinfo(bnp.asarray([1], dtype=np.int8)).max == 127


INFINITE = [
    (np.inf, 2.0, np.inf),
    (np.inf, -2.0, -np.inf),
    (1.0, -np.inf, -0.0),
    (-1.0, np.inf, -0.0),
    (-1.0, -np.inf, 0.0),
    (np.inf, np.inf, np.nan),
    (7.0, 2.0, 3.0),
    (-7.0, 2.0, -4.0),
    (1.0, 0.0, np.inf),
]


@pytest.mark.parametrize(("a", "b", "y"), INFINITE)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_floor_division_with_infinities_is_the_standards(a, b, y, dtype):
    a, b = np.array([a], dtype), np.array([b], dtype)
    for got in (bs.tensor(a) // bs.tensor(b), bs.jit(lambda a, b: a // b)(a, b)):
        np.testing.assert_array_equal(np.asarray(got), [y])
        assert np.signbit(np.asarray(got)[0]) == np.signbit(y) or np.isnan(y)


@pytest.mark.parametrize(
    "z", [complex(np.inf, 0), complex(-np.inf, np.inf), complex(np.nan, 0), complex(-0.0, 0), 1e-9j]
)
def test_expm1_of_complex_numbers(z):
    z = np.array([z])
    expected = np.exp(z) - 1 if not np.isfinite(z[0]) else np.expm1(z)
    for got in (np.expm1(bs.tensor(z)), bs.jit(np.expm1)(z)):
        np.testing.assert_array_equal(np.asarray(got).real, expected.real)
        np.testing.assert_allclose(np.asarray(got).imag, expected.imag, rtol=1e-15)
        assert not np.signbit(np.asarray(got)[0].real) or expected[0].real < 0


def test_lists_of_tensors_are_joined():
    assert bs.grad(lambda x: bnp.mean([x, x * x]))(3.0) == 3.5
    assert bs.grad(lambda x: bnp.linalg.norm([x, 2 * x]))(1.0) == pytest.approx(5**0.5)
    assert bs.jit(bs.grad(lambda x: bnp.sum([x, x * x])))(3.0) == 7.0
    np.testing.assert_allclose(
        bs.grad(lambda x: (bnp.r_[x, 1.0, 2:4] ** 2).sum())(np.array([1.0, 2.0])), [2, 4]
    )
    np.testing.assert_array_equal(bnp.c_[bs.tensor([1.0, 2.0]), np.ones(2)].value, [[1, 1], [2, 1]])
    with pytest.raises(TypeError, match="directives"):
        bnp.r_["0,2", bs.tensor([1.0])]


def test_whole_numbers_have_no_derivative_to_lose():
    """`np.int64(x)` chooses rows; the chosen rows are differentiated."""
    W = np.array([[1.0, 0.0], [2.0, 1.0]])
    g = bs.grad(lambda W: (W[np.int64(W[:, -1])] ** 2).sum())(W)
    np.testing.assert_array_equal(g, 2 * W)
    with pytest.raises(TypeError, match="lose the derivative"):
        np.asarray(bs.tensor([1.0], requires_grad=True), dtype=np.float32)


def test_distinct_values_come_in_rising_order():
    values = np.arange(60) % 7
    np.testing.assert_array_equal(bnp.unique_values(bnp.asarray(values[::-1])).value, np.arange(7))


def test_masks_without_entries_choose_nothing():
    """As NumPy has it, an axis of a mask may have length 0."""
    for shape, mask in (((3,), (0,)), ((2, 3), (2, 0)), ((2, 3), (0,))):
        key = np.zeros(mask, bool)
        assert bnp.ones(shape)[key].shape == np.ones(shape)[key].shape
    with pytest.raises(IndexError, match="mask of shape"):
        bnp.ones((2, 3))[np.zeros((0, 4), bool)]


def test_every_matrix_of_a_stack_has_its_own_cutoff():
    a = np.stack([np.diag([1.0, 0.1]), np.diag([1.0, 0.1])])
    cut = bnp.asarray([0.5, 0.01])
    np.testing.assert_allclose(
        bnp.linalg.pinv(bnp.asarray(a), rtol=cut).value,
        np.linalg.pinv(a, rtol=np.array([0.5, 0.01])),
    )
    g = bs.grad(lambda a: bnp.linalg.pinv(a, rtol=cut).sum())(a)
    np.testing.assert_allclose(g[1], -np.outer([1.0, 10.0], [1.0, 10.0]), rtol=1e-12)


def test_what_is_almost_real_is_real():
    assert bs.grad(lambda x: bnp.real_if_close(x + 0j))(2.0) == 1.0
    assert bnp.real_if_close(bnp.asarray([1 + 1j])).dtype == np.complex128
