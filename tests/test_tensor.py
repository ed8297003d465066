"""What a Tensor is to Python: containers' habits, in-place operators, forward() and backward()."""

from __future__ import annotations

import copy
import operator
import pickle
from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve.errors import FreedGraphError, InPlaceError, MutatedGraphError


def leaf(value: Any) -> bs.Tensor:
    return bs.tensor(value, requires_grad=True)


# ---- habits of containers


def test_repr() -> None:
    assert repr(bs.tensor([1.0, 2.0])) == "Tensor([1., 2.])"
    assert repr(leaf([1.0])) == "Tensor([1.], requires_grad=True)"
    assert repr(leaf([1.0]) * 2) == "Tensor([2.], made_by='multiply')"
    assert repr(bs.tensor(np.float32([1.0]))) == "Tensor([1.], dtype=float32)"
    assert repr(bs.tensor(3)) == "Tensor(3)"
    seen = []
    bs.vmap(lambda x: seen.append(repr(x)) or x)(np.zeros((2, 3)))
    assert seen == ["Tensor(staged float64[3])"]


def test_len_and_iteration() -> None:
    x = leaf(np.arange(6.0).reshape(3, 2))
    assert len(x) == 3
    rows = list(x)
    assert [r.shape for r in rows] == [(2,)] * 3
    (rows[1] * 2).sum().backward()
    np.testing.assert_array_equal(x.grad, [[0, 0], [2, 2], [0, 0]])
    *_, last = x
    np.testing.assert_array_equal(last.value, [4.0, 5.0])
    assert len(bs.tensor(np.zeros((0, 2)))) == 0
    with pytest.raises(TypeError, match="rank 0"):
        len(leaf(1.0))
    with pytest.raises(TypeError, match="rank 0"):
        iter(leaf(1.0))


def test_attributes() -> None:
    x = bs.tensor(np.zeros((2, 3), np.float32))
    assert (x.shape, x.ndim, x.size, x.nbytes, x.itemsize) == ((2, 3), 2, 6, 24, 4)
    seen: list[Any] = []
    for value in (1.5, 1.5 + 2j):  # bare Python numbers under grad and jvp
        bs.jvp(lambda z: seen.append((z.shape, z.ndim, z.size, z.dtype)) or z * z, [value], [1.0])
    assert seen == [((), 0, 1, np.float64), ((), 0, 1, np.complex128)]


def test_truth() -> None:
    assert leaf(1.0)
    assert not bs.tensor(0.0)
    assert leaf([2.0]) > 1
    with pytest.raises(ValueError, match="ambiguous"):
        bool(leaf([1.0, 2.0]))
    with pytest.raises(TypeError, match=r"np\.where"):
        bs.vmap(operator.truth)(np.ones(2))
    assert list(bs.vmap(lambda x: x if x > 0 else -x)(np.array([1.0, -2.0]))) == [1.0, 2.0]


def test_contains() -> None:
    x = leaf([1.0, 2.0])
    assert 2.0 in x
    assert 3.0 not in x


def test_hash_is_identity() -> None:
    x, y = leaf([1.0]), leaf([1.0])
    assert {x: 1, y: 2}[x] == 1
    assert len({x, y, x}) == 2


def test_comparison_with_none_and_text() -> None:
    x = bs.tensor([1.0, 2.0])
    assert not (x == None).value.any()  # noqa: E711
    assert (x != None).value.all()  # noqa: E711


def test_copy() -> None:
    x = leaf([1.0, 2.0])
    y = copy.copy(x)
    y[0] = 5.0
    y.sum().backward()
    np.testing.assert_array_equal(x.value, [1.0, 2.0])
    np.testing.assert_array_equal(x.grad, [0.0, 1.0])


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_deep_copy_and_pickle(duplicate: Any) -> None:
    for x in (leaf([1.0, 2.0]), bs.tensor(np.float32(3.0)), bs.tensor([1, 2])):
        y = duplicate(x)
        assert y is not x
        assert (y.shape, y.dtype, y.requires_grad) == (x.shape, x.dtype, x.requires_grad)
        np.testing.assert_array_equal(y.value, x.value)
    with pytest.raises(TypeError, match="derivative"):
        duplicate(leaf([1.0]) * 2)
    for varied in (bs.grad, lambda f: bs.jacobian(f, method="forward")):
        with pytest.raises(bs.errors.DroppedDerivativeError, match="deep-copying"):
            varied(lambda x: (x * duplicate(x)).sum())(np.ones(2))


def test_format() -> None:
    assert f"{leaf(1.234):.2f}" == "1.23"
    assert f"{leaf([1.0])}" == repr(leaf([1.0]))
    with pytest.raises(TypeError):
        format(leaf([1.0, 2.0]), ".2f")


@pytest.mark.parametrize("stages", [bs.jit, bs.vmap])
def test_what_is_staged_says_so_where_it_is_printed(stages: Any) -> None:
    said = []

    def f(x: Any) -> Any:
        said.extend([repr(x), str(x), f"{x}", "%s" % x])  # noqa: UP031
        return x

    stages(f)(np.ones(3))
    short, *long = said
    assert short.startswith("Tensor(staged float64[")
    assert all("it has no numbers while the program is recorded" in text for text in long)
    with pytest.raises(bs.errors.TracedValueError, match=r"'\.2f' .*print it outside"):
        stages(lambda x: f"{x:.2f}")(np.ones(3))


def test_what_python_refuses_to_print_is_our_error_with_the_users_line() -> None:
    with pytest.raises(bs.errors.TracedValueError, match=r"not Staged[\s\S]*test_tensor\.py"):
        bs.jit(lambda x: "%d" % x)(2.0)  # noqa: UP031


def test_power_with_a_modulus() -> None:
    with pytest.raises(TypeError):
        pow(bs.tensor([2]), 3, 5)


def test_round_trip_out() -> None:
    x = bs.tensor([[1, 2], [3, 4]])
    assert x.tolist() == [[1, 2], [3, 4]]
    assert x.item(3) == 4
    assert bs.tensor(2.5).item() == 2.5
    assert range(bs.tensor(3)) == range(3)
    with pytest.raises(TypeError):
        range(bs.tensor(3.0))


def test_flat_is_refused() -> None:
    with pytest.raises(TypeError, match=r"reshape\(-1\)"):
        leaf([1.0]).flat  # noqa: B018


# ---- value and requires_grad


def test_value_is_read_only() -> None:
    for x in (leaf([1.0, 2.0]), leaf(1.0), leaf([1.0, 2.0])[:1]):
        with pytest.raises(ValueError, match="read-only"):
            x.value[...] = 3.0
    source = np.ones(2)
    x = bs.tensor(source)
    source[0] = 7.0
    assert x.value[0] == 1.0


def test_setting_the_value() -> None:
    x = leaf(np.float32([1.0, 2.0]))
    new = np.array([3.0, 4.0])
    x.value = new
    new[0] = 9.0
    assert x.dtype == np.float32
    np.testing.assert_array_equal(x.value, [3.0, 4.0])
    (x * x).sum().backward()
    np.testing.assert_array_equal(x.grad, [6.0, 8.0])
    with pytest.raises(ValueError, match=r"\(2,\), got \(3,\)"):
        x.value = np.ones(3)
    with pytest.raises(InPlaceError, match="leaf"):
        (x * 2).value = np.ones(2)


def test_requires_grad() -> None:
    x = bs.tensor([1.0])
    assert not x.requires_grad
    assert not (x * 2).requires_grad
    x.requires_grad = True
    assert (x * 2).requires_grad
    y = x * 2
    with pytest.raises(InPlaceError, match="stop_gradient"):
        y.requires_grad = False
    x.requires_grad = False
    assert not (x * 2).requires_grad
    with pytest.raises(TypeError, match=r"astype\(float\)"):
        bs.tensor([1, 2], requires_grad=True)
    with pytest.raises(TypeError, match="numbers"):
        bs.tensor(["a"])
    assert not leaf([1.0]).detach().requires_grad
    assert not bs.stop_gradient(y).requires_grad


# ---- in place

IN_PLACE = [
    operator.iadd,
    operator.isub,
    operator.imul,
    operator.itruediv,
    operator.ifloordiv,
    operator.imod,
    operator.ipow,
]


@pytest.mark.parametrize("op", IN_PLACE, ids=lambda op: op.__name__)
def test_in_place_operators(op: Any) -> None:
    x0, v0 = np.array([1.25, 2.5, 3.75]), np.array([0.5, 1.5, 2.25])

    def f(x: Any, v: Any) -> Any:
        y = x * 1.0
        alias = y
        y = op(y, v)
        assert y is alias  # other names see the change, as of an ndarray
        return alias * v

    got, image = bs.jvp(f, [x0, v0], [v0, x0])
    np.testing.assert_array_equal(got, f(x0, v0))
    h = 1e-6
    expected = (f(x0 + h * v0, v0 + h * x0) - f(x0 - h * v0, v0 - h * x0)) / (2 * h)
    np.testing.assert_allclose(image, expected, rtol=1e-6, atol=1e-6)
    s = leaf(2.0)
    t = op(s, 3.0)
    assert t is not s
    assert s.value == 2.0


def test_in_place_bits_and_products() -> None:
    for op in (operator.iand, operator.ior, operator.ixor, operator.ilshift, operator.irshift):
        a = np.array([1, 2, 3])
        x = bs.tensor(a)
        assert op(x, 2) is x
        np.testing.assert_array_equal(x.value, op(a, 2))
    m = np.arange(4.0).reshape(2, 2)
    x = y = bs.tensor(m)
    y @= m
    assert y is x
    np.testing.assert_array_equal(x.value, m @ m)


def test_in_place_rules() -> None:
    x = leaf([1.0, 2.0])
    for change in (
        lambda: operator.iadd(x, 1.0),
        lambda: operator.setitem(x, 0, 1.0),
        lambda: np.add(x, 1.0, out=x),
        lambda: x.sort(),
        lambda: x.fill(0.0),
    ):
        with pytest.raises(InPlaceError, match=r"leaf that requires grad.*(\n.*)+test_tensor\.py"):
            change()
    np.testing.assert_array_equal(x.value, [1.0, 2.0])
    single = bs.tensor(np.float32([1.0, 2.0]))
    single += np.array([0.5, 0.5])
    assert single.dtype == np.float32
    count = bs.tensor([1, 2])
    with pytest.raises(TypeError, match=r"int64 into float64"):
        count += 0.5
    count += 2
    assert count.dtype == np.int64
    with pytest.raises(ValueError, match="shape"):
        single += np.ones((3, 2))
    with pytest.raises(TypeError):
        single += 1j


def test_sort_and_fill() -> None:
    x = leaf([3.0, 1.0, 2.0])
    y = x * 1.0
    y.sort()
    np.testing.assert_array_equal(y.value, [1.0, 2.0, 3.0])
    (y * np.array([1.0, 10.0, 100.0])).sum().backward()
    np.testing.assert_array_equal(x.grad, [100.0, 1.0, 10.0])
    y.fill(4.0)
    assert not np.any(y.value != 4.0)


# ---- backward


def test_backward_accumulates() -> None:
    x = leaf([1.0, 2.0])
    y = (x * x).sum()
    y.backward()
    np.testing.assert_array_equal(x.grad, [2.0, 4.0])
    y.backward()
    np.testing.assert_array_equal(x.grad, [4.0, 8.0])
    x.grad = None
    (x * x).backward(np.array([1.0, 10.0]))
    np.testing.assert_array_equal(x.grad, [2.0, 40.0])


def test_backward_gradients_are_not_shared() -> None:
    a, b = leaf([1.0, 2.0]), leaf([1.0, 2.0])
    (a + b).sum().backward()
    a.grad[0] = 99.0
    np.testing.assert_array_equal(b.grad, [1.0, 1.0])


def test_backward_needs_a_scalar_or_a_seed() -> None:
    x = leaf([1.0, 2.0])
    with pytest.raises(ValueError, match=r"\(2,\)"):
        (x * x).backward()
    with pytest.raises(ValueError, match=r"\(3,\)"):
        (x * x).backward(np.ones(3))
    with pytest.raises(ValueError, match="requires_grad"):
        bs.tensor(1.0).backward()


def test_freed_graph() -> None:
    x = leaf(2.0)
    y = x * x
    y.backward(retain_graph=False)
    assert x.grad == 4.0
    with pytest.raises(FreedGraphError):
        y.backward()
    z = x * x
    z.backward()
    z.backward()
    assert x.grad == 12.0


def test_mutated_graph() -> None:
    x, w = leaf([1.0, 2.0]), leaf([1.0, 1.0])
    h = x * w
    y = (h * h).sum()
    x.value = [3.0, 4.0]
    with pytest.raises(MutatedGraphError, match=r"forward"):
        y.backward()
    y.forward()
    assert y.value == 25.0
    np.testing.assert_array_equal(h.value, [3.0, 4.0])
    y.backward()
    np.testing.assert_array_equal(x.grad, [6.0, 8.0])
    np.testing.assert_array_equal(w.grad, [18.0, 32.0])


def test_forward_through_writes_and_constants() -> None:
    x = leaf([1.0, 2.0, 3.0])
    c = np.array([1.0, 10.0, 100.0])
    y = x * c
    y[1:] += y[:-1]
    z = np.where(y > 5, y, 0).sum()
    for value in ([1.0, 2.0, 3.0], [4.0, -2.0, 0.5]):
        x.value = value
        z.forward()

        def plain(v: Any) -> Any:
            y = v * c
            y[1:] += y[:-1]
            return y

        expected = plain(np.array(value))
        np.testing.assert_array_equal(y.value, expected)


def test_forward_leaves_later_writes_alone() -> None:
    x = leaf([1.0, 2.0])
    y = x * 2
    h = y.sum()
    y[0] = 50.0
    h.forward()
    np.testing.assert_array_equal(y.value, [50.0, 4.0])
    x.value = [3.0, 4.0]
    y.forward()
    np.testing.assert_array_equal(y.value, [50.0, 8.0])


def test_old_and_new_values_of_a_leaf() -> None:
    """What is computed after a change is of the new value; what was computed before is stale."""
    x = leaf(2.0)
    old = x * x
    x.value = 3.0
    new = x * x
    new.backward()
    assert x.grad == 6.0
    mixed = old * x
    with pytest.raises(MutatedGraphError):
        mixed.backward()
    mixed.forward()
    assert mixed.value == 27.0
    x.grad = None
    mixed.backward()
    assert x.grad == 27.0


def test_forward_returns_itself() -> None:
    x = leaf(2.0)
    y = np.exp(x) * x
    assert y.forward() is y
    x.value = 1.0
    assert float(bs.stop_gradient(y.forward())) == pytest.approx(np.e)
