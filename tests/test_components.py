"""Short rows taken apart (rewrite/components.py), guards opened, and pieces written where they belong."""

import numpy as np
import pytest

import backsolve as bs
from backsolve import rewrite
from backsolve.backends.native.schedule import Schedule
from backsolve.ir import type_of
from backsolve.trace import evaluate, stage

RNG = np.random.default_rng(0)
N = 200
A, B = RNG.normal(size=(N, 3)), RNG.normal(size=(N, 3))
M = RNG.normal(size=(N, 3, 3))
TABLE = RNG.normal(size=(7, 3))
AT = RNG.integers(0, 7, size=N)


def for_machines(f, *args):
    outputs = lambda *xs: bs.tree.flatten(f(*xs))[0]
    return rewrite.rewrite_for_machines(stage(outputs, [type_of(a) for a in args])[0])


def kernels(f, *args):
    return len(Schedule(for_machines(f, *args)).steps)


def agree(f, *args):
    """Compiled, rewritten and as it is written; the rewritten Program, too."""
    program = for_machines(f, *args)
    program.verify()
    expected = bs.tree.flatten(f(*args))[0]
    compiled = bs.jit(f)
    found = bs.tree.flatten(compiled(*args))[0]
    assert compiled.stats()["specialisations"][0]["native"]
    for e, y, z in zip(expected, found, evaluate(program, args), strict=True):
        np.testing.assert_allclose(y, e, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(np.asarray(z), e, rtol=1e-12, atol=1e-12)
        assert np.shape(y) == np.shape(e)
        assert y.dtype == e.dtype
    return program


def rotated(a, b):
    """Rodrigues: norms, cross products, sums along rows of three."""
    angle = np.sqrt(np.sum(a * a, axis=1, keepdims=True))
    axis = a / angle
    along = axis * np.sum(axis * b, axis=1, keepdims=True)
    return along + np.cos(angle) * (b - along) + np.sin(angle) * np.cross(axis, b)


def shifted(a):
    y = np.concatenate([a[:, 1:], a[:, :1]], axis=1)
    return y * a + np.max(y, axis=1, keepdims=True)


def transformed(m, a):
    turned = np.concatenate([m[:, 1:], m[:, :1]], axis=1)
    return np.einsum("nij,nj->ni", turned, a) @ TABLE[:3]


def updated(a, b):
    y = bs.numpy.asarray(a).copy() if not isinstance(a, bs.Tensor) else a
    parts = np.stack([y[:, 0] * b[:, 1], y[:, 2], b[:, 0]], axis=1)
    return np.exp(parts) - parts[:, ::-1]


def picked(table, at, a):
    row = table[at]
    return np.cross(row, a) + row


def of_booleans(a, b):
    tests = np.concatenate([a > b, a[:, :1] > 0], axis=1)
    return np.any(tests, axis=1), np.all(tests, axis=1), np.where(tests[:, :3], a, b)


def of_integers(at):
    columns = np.concatenate([11 * at[:, None] + np.arange(3), at[:, None]], axis=1)
    return np.repeat(columns[:, None], 2, axis=1).reshape(-1).astype(np.int32)


CASES = {
    "rotated": (rotated, (A, B)),
    "shifted": (shifted, (A,)),
    "transformed": (transformed, (M, A)),
    "updated": (updated, (A, B)),
    "picked": (picked, (TABLE, AT, A)),
    "of_booleans": (of_booleans, (A, B)),
    "of_integers": (of_integers, (AT,)),
}


@pytest.mark.parametrize("name", CASES)
def test_rows_taken_apart_are_one_loop(name):
    f, args = CASES[name]
    program = agree(f, *args)
    inner = [e for e in program.equations if e.primitive.name in ("unslice", "slice_update")]
    assert not inner
    assert kernels(f, *args) == 1


@pytest.mark.parametrize("name", ["rotated", "shifted", "transformed", "updated", "picked"])
def test_gradients_through_rows(name):
    f, args = CASES[name]
    variables = tuple(k for k, a in enumerate(args) if a.dtype.kind == "f")

    def gradients(*xs):
        return bs.grad(lambda *ys: np.sum(np.sin(f(*ys))), argnums=variables)(*xs)

    agree(gradients, *args)


def test_a_jacobian_of_each_row_is_one_loop():
    def jacobians(a, b):
        by_a, by_b = bs.vmap(bs.jacobian(lambda x, y: np.cross(np.sin(x), y), argnums=(0, 1)))(a, b)
        blocks = np.concatenate([by_a, by_b], axis=2)
        return np.concatenate([blocks.reshape(-1), a[:, 0]])

    agree(jacobians, A, B)
    assert kernels(jacobians, A, B) <= 2


def test_rows_of_several_leading_axes():
    x, y = RNG.normal(size=(2, 8, 40, 3))
    agree(lambda a, b: np.cross(a, b) + np.sum(a, axis=-1, keepdims=True), x, y)


def test_a_whole_array_is_put_together_where_it_is_wanted():
    def f(a, b):
        turned = np.cross(a, b)
        return turned, turned @ np.ones((3, 40)), np.cumsum(turned, axis=0)

    agree(f, A, B)


def test_long_rows_and_few_rows_stay_arrays():
    long, few = RNG.normal(size=(N, 40)), RNG.normal(size=(8, 3))
    turn = lambda a: np.concatenate([a[:, 1:], a[:, :1]], axis=1) * a
    assert "concatenate" in [e.primitive.name for e in agree(turn, long).equations]
    assert "concatenate" in [e.primitive.name for e in agree(turn, few).equations]


def test_costly_functions_are_not_repeated_for_each_entry_of_long_rows():
    def f(a):
        y = np.concatenate([a[:, 1:], a[:, :1]], axis=1)
        return np.tanh(np.exp(y)) + np.log1p(y * y)

    program = agree(f, RNG.normal(size=(N, 20)))
    assert sum(e.primitive.name == "exp" for e in program.equations) == 1


def test_nothing_is_added_by_the_zeros_around_a_part():
    minus = np.full((N, 3), -0.0)

    def f(a):
        spread = lambda t: np.pad(t, ((0, 0), (0, 1)))
        return np.concatenate([(spread(a[:, :2]) + a) * 1.0, a], axis=1)[:, 1:5]

    np.testing.assert_array_equal(bs.jit(f)(minus), f(minus))
    nan = np.full((N, 3), np.nan)
    np.testing.assert_array_equal(bs.jit(f)(nan), f(nan))


# ---- guards


def turned(x, y):
    square = np.sum(x * x)
    if square == 0:
        return y + np.cross(x, y)
    return np.sin(np.sqrt(square)) * np.cross(x, y) / square


def with_zeros(a):
    a = a.copy()
    a[::3] = 0
    return a


@pytest.mark.parametrize("given", [A, with_zeros(A), np.zeros_like(A)], ids=["no", "some", "all"])
@pytest.mark.parametrize(
    "f",
    [
        bs.vmap(turned),
        bs.vmap(bs.jacobian(turned)),
        bs.grad(lambda a, b: np.sum(np.sin(bs.vmap(turned)(a, b)))),
        lambda a, b: bs.jvp(bs.vmap(turned), (a, b), (b, a)),
    ],
    ids=["values", "jacobian", "gradient", "tangents"],
)
def test_a_cheap_branch_in_a_batch(f, given):
    with np.errstate(all="ignore"):  # of examples that take the other branch
        expected = f(given, B)
    np.testing.assert_allclose(bs.jit(f)(given, B), expected, rtol=1e-11, atol=1e-11)


def test_a_cheap_branch_in_a_batch_needs_no_pass_of_its_own():
    f = bs.vmap(bs.jacobian(turned))
    assert "branch" not in [e.primitive.name for e in for_machines(f, A, B).equations]
    assert kernels(f, A, B) == 1


def test_a_costly_branch_keeps_its_guard():
    def f(x, m):
        if x[0] > 0:
            return np.sum(m @ m @ m @ m)
        return x[0]

    m = RNG.normal(size=(N, 12, 12))
    program = for_machines(bs.vmap(f), A, m)
    assert "branch" in [e.primitive.name for e in program.equations]
    np.testing.assert_allclose(bs.jit(bs.vmap(f))(A, m), bs.vmap(f)(A, m), rtol=1e-12)


def test_examples_that_take_another_branch_do_not_spoil_gradients():
    def f(x, m):
        if x[0] > 0:
            return np.sum(m @ m @ m @ m) / np.sqrt(x[0])
        return x[0] * x[1]

    given = A.copy()
    given[::5, 0] = 0
    m = RNG.normal(size=(N, 12, 12))
    gradient = bs.grad(lambda a: np.sum(bs.vmap(f)(a, m)))
    with np.errstate(all="ignore"):
        expected = gradient(given)
    np.testing.assert_allclose(bs.jit(gradient)(given), expected, rtol=1e-10)


def test_a_branch_that_could_fail_keeps_its_guard():
    def f(i, j):
        if j == 0:
            return i
        return i // j

    i, j = np.arange(N), np.zeros(N, int)
    np.testing.assert_array_equal(bs.jit(bs.vmap(f))(i, j), i)


# ---- pieces


def test_joints_in_joints_are_written_once():
    def f(a, b):
        inner = np.concatenate([np.sin(a), np.cos(b)], axis=1)
        return np.concatenate([inner.reshape(-1), a[:, 0], inner.reshape(-1)])

    x, y = RNG.normal(size=(2, N, 40))
    agree(f, x, y)
    buffers = {b for s in Schedule(for_machines(f, x, y)).steps for b in s.buffers()}
    assert {b.kind for b in buffers} == {"input", "output"}


def test_a_piece_that_has_no_place_is_copied():
    def f(a, b):
        flat = np.concatenate([np.sin(a), b], axis=0).reshape(-1)  # cut across in the next
        return np.concatenate([flat.reshape(40, -1), np.ones((40, 3))], axis=1)

    agree(f, *RNG.normal(size=(2, N, 40)))


def test_a_piece_outlives_updates_of_what_it_is_made_of():
    def f(a, b):
        y = np.sin(a)
        piece = y.reshape(-1)
        z = bs.numpy.asarray(y) * 1.0
        z[0] = b[0]
        return np.concatenate([piece, z.reshape(-1)])

    a, b = RNG.normal(size=(2, N, 40))
    expected = np.concatenate([np.sin(a).ravel(), np.concatenate([b[:1], np.sin(a)[1:]]).ravel()])
    np.testing.assert_allclose(bs.jit(f)(a, b), expected, rtol=1e-12)


def test_a_repeated_entry_is_a_broadcast():
    program = for_machines(lambda a: np.repeat(a[:, None], 5, axis=1) * 2.0, A)
    assert "gather" not in [e.primitive.name for e in program.equations]


def test_sums_over_nothing():
    f = bs.jit(lambda x, y: (np.einsum("i,mn->i", y, x) * 0.25)[:, None, None] + x)
    assert f(np.zeros((1, 0)), np.ones(2000)).shape == (2000, 1, 0)
