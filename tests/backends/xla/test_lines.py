"""One entry in each line of an array (backends/xla/lines.py): sums along lines add nothing up."""

import numpy as np
import pytest

import backsolve as bs
from backsolve.primitive import P

pytest.importorskip("jax")
LABELS = np.array([3, 0, 0, 2, -3, 3])
ENTRIES = np.array([1.0, -0.0, np.inf, -2.0, 0.0, np.nan])


def placed(t, j):
    return P.scatter_add(t, np.arange(6), j, shape=(6, 4))


def totals(t, m, j, k):
    """Sums of lines, of choices within them, and of what are no such choices."""
    y, mask, other = placed(t, j), placed(m, j), placed(m, k)
    turned = P.scatter_add(
        np.reshape(t, (2, 3)), np.arange(2)[:, None], j.reshape(2, 3), np.arange(3), shape=(2, 4, 3)
    )
    return (
        np.sum(y, axis=1, keepdims=True),
        np.sum(np.where(mask, -y * 2.5, 0), axis=1),
        np.sum(mask, axis=1),
        np.sum(turned, axis=1),
        np.sum(np.where(other, -y, 0), axis=1),
        np.sum(y, axis=0),
        np.sum(np.where(mask, y, 1), axis=1),
    )


def test_sums_along_lines_are_those_of_numpy():
    masks = np.array([True, False, True, True, False, True])
    given = ENTRIES, masks, LABELS, LABELS[::-1].copy()
    for a, b in zip(totals(*given), bs.jit(totals, backend="xla")(*given), strict=True):
        np.testing.assert_array_equal(np.asarray(b), a)
        signs = np.signbit(np.where(np.isnan(b), 0, b)), np.signbit(np.where(np.isnan(a), 0, a))
        np.testing.assert_array_equal(*signs)


def test_a_line_chooses_among_lines_of_more_axes():
    def total(t, i, j):
        mask = P.scatter_add(True, i, shape=(4,))
        return np.sum(np.where(mask, P.scatter_add(t, np.arange(6), j, shape=(6, 4)), 0), axis=1)

    got = bs.jit(total, backend="xla")(ENTRIES, 3, LABELS)
    np.testing.assert_array_equal(got, np.where(LABELS == 3, ENTRIES, 0))


def test_the_gradient_of_cross_entropy_adds_up_exponentials_alone():
    f = bs.jit(bs.grad(bs.nn.functional.cross_entropy), backend="xla")
    text = f.lower(np.ones((6, 4)), np.arange(6) % 4).stages["hlo"]
    long = [line for line in text.splitlines() if " = " in line and "reduce(" in line]
    assert sum("f64[6]" in line.split(" = ")[1] for line in long) == 2  # the largest, and the sum
    assert not any("s64[6]" in line.split(" = ")[1] for line in long)


@pytest.mark.parametrize("wrong", [4, -5])
def test_an_index_that_only_sums_rest_on_is_checked(wrong):
    f = bs.jit(lambda t, j: np.sum(placed(t, j), axis=1), backend="xla")
    np.testing.assert_array_equal(f(np.arange(6.0), LABELS), np.arange(6.0))
    with pytest.raises(IndexError, match="out of bounds for axis 1 with size 4"):
        f(np.arange(6.0), np.array([0, 1, wrong, 0, 0, 0]))


def test_what_broadcasting_repeats_is_brought_to_the_device_once():
    ones = np.broadcast_to(np.arange(5000.0), (3, 5000))
    f = bs.jit(lambda x: np.sin(x) * ones, backend="xla")
    np.testing.assert_array_equal(np.asarray(f(1.0)), np.sin(1.0) * ones)
    assert "f64[3,5000]" not in f.lower(1.0).stages["hlo"].split("ENTRY")[0].split("->")[0]


def _with_line(shape, start, stop, k, on=1.0, off=0.0):
    c = np.full(shape, off)
    rows = np.arange(start, stop)
    c[rows, rows + k] = on
    return c


LINES = {
    "identity": np.eye(40),
    "truths": np.eye(80, dtype=bool),
    "part of a diagonal": _with_line((30, 50), 3, 20, 7, np.nan, -0.0),
    "one entry": _with_line((40, 40), 39, 40, -39, np.inf),
}
NO_LINES = {
    "two lines": np.eye(40) + np.eye(40, k=1),
    "a gap": np.delete(np.eye(41), 20, axis=0),
    "two numbers": np.diag(np.arange(1.0, 41)),
    "a minus": np.eye(40) * np.where(np.arange(40) == 7, -1.0, 1.0),
    "a column": np.tile(np.eye(40)[3], (40, 1)),
}


@pytest.mark.parametrize("c", [*LINES.values(), *NO_LINES.values()], ids=[*LINES, *NO_LINES])
def test_constants_arrive_as_they_are(c):
    from backsolve.backends.xla.constants import Brought
    from backsolve.backends.xla.library import wide

    brought = Brought.of(c, c.shape)
    assert (brought.array.size == 2) == any(c is line for line in LINES.values())
    with wide():
        whole = np.asarray(brought.whole(brought.array))
    np.testing.assert_array_equal(whole, c)
    assert whole.dtype == c.dtype
    np.testing.assert_array_equal(np.signbit(whole * 1.0), np.signbit(c * 1.0))


@pytest.mark.parametrize(
    ("c", "asked"),
    [
        (np.eye(80), ""),
        (np.eye(30, 50, 20), ""),
        (np.eye(50, 30, -7), ""),
        (_with_line((40, 40), 3, 40, 0, 1.0), "ge"),
        (_with_line((40, 40), 0, 30, 0, 1.0), "lt"),
    ],
)
def test_only_parts_of_a_diagonal_ask_which_rows_they_have(c, asked):
    """What always holds would be a kernel of its own on a GPU."""
    import jax

    from backsolve.backends.xla.constants import Brought

    brought = Brought.of(c, c.shape)
    assert brought.line is not None
    names = {str(e.primitive) for e in jax.make_jaxpr(brought.whole)(brought.array).eqns}
    assert names & {"ge", "lt"} == ({asked} if asked else set())


def test_the_jacobian_of_an_element_wise_function_is_brought_no_identity():
    x = np.linspace(0, 1, 100)
    f = bs.jit(bs.jacobian(lambda x: np.sin(x) * x), backend="xla")
    np.testing.assert_allclose(np.asarray(f(x)), np.diag(np.cos(x) * x + np.sin(x)), rtol=1e-13)
    assert "[100,100]" not in f.lower(x).stages["hlo"].split("ENTRY")[0].split("->")[0]
