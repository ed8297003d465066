"""A write into a view of a tensor that varies: what NumPy has, or an error; never the old numbers."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve.errors import InPlaceError

X = np.array([[1.0, -2.0], [3.0, 4.0]])


def row(z: Any) -> None:
    r = z[0]
    r += 1


def rows(z: Any) -> None:
    for r in z:
        r *= 3


def unpacked(z: Any) -> None:
    a, b = z
    a += b


def transposed(z: Any) -> None:
    z.T[0][1] = 3


def transposed_in_place(z: Any) -> None:
    z.T[0] *= 3


def flattened(z: Any) -> None:
    z.reshape(-1)[1] = 3


def out(z: Any) -> None:
    np.multiply(z[0], 3, out=z[0])


def at(z: Any) -> None:
    np.add.at(z[0], [0, 0], 3.0)


def sorted_row(z: Any) -> None:
    z[0].sort()


def filled(z: Any) -> None:
    z[0].fill(0.0)


def diagonal(z: Any) -> None:
    np.fill_diagonal(z[:, ::-1], 5.0)


def copied_to(z: Any) -> None:
    np.copyto(z[0], 7.0)


def put(z: Any) -> None:
    np.put(z[0], [0], 1.0)


def at_least(z: Any) -> None:
    w = np.atleast_2d(z)
    w += 1


def real(z: Any) -> None:
    w = z.real
    w += 1


def cast(z: Any) -> None:
    w = z.astype(float, copy=False)
    w += 1


def squeezed(z: Any) -> None:
    w = np.squeeze(z)
    w += 1


def split(z: Any) -> None:
    w = np.split(z, 2)[0]
    w += 1


def in_a_list(z: Any) -> None:
    w = [z[0], z[1]]
    w[0] += 1


def of_a_view_of_a_view(z: Any) -> None:
    z[:1][0].T[:] = 5.0


def by_a_slice_of_the_transpose(z: Any) -> None:
    w = z.T
    w[0] += 1


WRITES = [
    in_a_list,
    of_a_view_of_a_view,
    by_a_slice_of_the_transpose,
    row,
    rows,
    unpacked,
    transposed,
    transposed_in_place,
    flattened,
    out,
    at,
    sorted_row,
]
WRITES += [filled, diagonal, copied_to, put, at_least, real, cast, squeezed, split]


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("mode", ["eager", "jit"])
def test_a_write_into_a_view(write: Callable[[Any], None], mode: str) -> None:
    def f(x: Any) -> Any:
        z = x * 2
        write(z)
        return (z * z * np.arange(1.0, 5.0).reshape(2, 2)).sum()

    run = bs.jit(f) if mode == "jit" else lambda x: bs.value_and_grad(f)(x)[0]
    try:
        value = run(X)
    except InPlaceError:
        return
    np.testing.assert_allclose(value, f(X.copy()))


def part_alone(x: Any) -> Any:
    y = (x * 2)[1:]
    y += 1
    return (y**2).sum()


def whole_not_read_again(x: Any) -> Any:
    z = x * 2
    y = z[1:]
    y += 1
    return (y**2).sum()


def copies(x: Any) -> Any:
    z = x * 2
    y, w = z.flatten(), z[0].copy()
    y += 1
    w *= 2
    return (z**2).sum() + y.sum() + w.sum()


def entries_and_rows(x: Any) -> Any:
    z = x * 2
    z[0] += x[1]
    z[1, 0] *= 3
    z[:, 1] -= 1
    return (z**2).sum()


@pytest.mark.parametrize("f", [part_alone, whole_not_read_again, copies, entries_and_rows])
def test_what_needs_no_view_works(f: Callable[[Any], Any]) -> None:
    value, gradient = bs.value_and_grad(f)(X)
    np.testing.assert_allclose(value, f(X.copy()))
    np.testing.assert_allclose(bs.jit(bs.grad(f))(X), gradient)
    h = 1e-6
    steps = [(f(X + h * e) - f(X - h * e)) / (2 * h) for e in np.eye(4).reshape(4, 2, 2)]
    np.testing.assert_allclose(gradient, np.reshape(steps, (2, 2)), rtol=1e-6)


def test_views_that_do_not_overlap_stay() -> None:
    def f(x: Any) -> Any:
        a, b = x * 2
        a += 1
        return (a * b).sum()

    np.testing.assert_allclose(bs.value_and_grad(f)(X)[0], f(X))


def test_views_that_overlap_are_spoilt() -> None:
    def f(x: Any) -> Any:
        z = x * 2
        a, b = z[:2], z[1:]
        a += 1
        return b.sum()

    with pytest.raises(InPlaceError, match="shares memory"):
        bs.grad(f)(np.ones(3))


def test_python_s_own_update_of_an_entry() -> None:
    """A function without source is run as it is: `z[0] += v` reads, updates and puts back."""
    for mode in (lambda f: f, bs.jit):
        scope: dict[str, Any] = {}
        exec("def f(x):\n z = x * 2\n z[0] += x[1]\n return (z**2).sum()", scope)
        np.testing.assert_allclose(
            mode(bs.grad(scope["f"]))(X), bs.grad(entries_of_first_row)(X), rtol=1e-12
        )


def entries_of_first_row(x: Any) -> Any:
    return ((2 * x[0] + x[1]) ** 2).sum() + ((2 * x[1]) ** 2).sum()


def test_a_row_put_elsewhere_is_no_update() -> None:
    scope: dict[str, Any] = {}
    exec("def f(x):\n z = x * 2\n r = z[0]\n r += 1\n z[1] = r\n return (z**2).sum()", scope)
    with pytest.raises(InPlaceError, match="shares memory"):
        bs.grad(scope["f"])(X)


def test_many_views_of_one_tensor_are_forgotten() -> None:
    def f(x: Any) -> Any:
        z = x * 2
        total = 0.0
        for _ in range(300):
            total = total + z[:1].sum()
        assert len(z.family.members) < 100
        return total

    bs.grad(f)(np.ones(3))


@pytest.mark.parametrize("shape", [(8,), (2, 4)])
def test_an_array_that_was_written_by_numbers_is_no_slice_where_all_values_are_kept(
    shape: tuple[int, ...],
) -> None:
    """`linearize` holds what the write gave before it got its shape; nobody else knows that memory."""

    def f(x: Any) -> Any:
        y = np.zeros(shape) + x.sum()
        first = y[:1] * 2
        y[np.array([1, 0, 1])] = np.sin(x[:3]).reshape(3, *[1] * (len(shape) - 1))
        y[:1] = first * x[0]
        return np.exp(y)

    x = np.linspace(0.1, 0.6, 6)
    J = bs.jacobian(f)(x).reshape(8, 6)
    np.testing.assert_allclose(bs.linearize(f)(x).jacobian().reshape(8, 6), J)
    np.testing.assert_allclose(J, bs.numeric.jacobian(f, x).reshape(8, 6), rtol=1e-6)


def test_a_slice_is_no_place_to_write_into_where_all_values_are_kept() -> None:
    def f(x: Any) -> Any:
        y = np.zeros(4) + x
        part = y[1:3]
        part[0] = x[0] * 2
        return y.sum()

    for transform in (bs.linearize, bs.grad):
        with pytest.raises(InPlaceError):
            transform(f)(np.ones(4))
