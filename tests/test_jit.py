"""bs.jit: composition, containers, specialisation, entry, and native code against NumPy."""

from __future__ import annotations

import functools
import gc
import pickle
import sys
import threading
import tracemalloc

import numpy as np
import pytest

import backsolve as bs
from backsolve import errors
from backsolve.ir import Type, is_uniform
from backsolve.primitive import PRIMITIVES
from backsolve.testing.backends import check_backend, check_compiled
from backsolve.testing.samples import cases
from backsolve.trace import stage

rng = np.random.default_rng(0)


def loss(x):
    return np.sum(np.sin(x) * x)


class TestComposition:
    x = np.array([0.1, 1.0, 2.0])

    def test_in_any_order(self):
        expected = bs.grad(loss)(self.x)
        f = bs.jit(loss)
        for g in (
            bs.jit(bs.grad(loss)),
            bs.grad(f),
            bs.jit(bs.grad(f)),
            bs.jit(bs.jit(bs.grad(loss))),
        ):
            np.testing.assert_allclose(g(self.x), expected)
        np.testing.assert_allclose(bs.hessian(f)(self.x), bs.hessian(loss)(self.x), atol=1e-14)
        np.testing.assert_allclose(
            bs.jit(bs.hessian(loss))(self.x), bs.hessian(loss)(self.x), atol=1e-14
        )
        np.testing.assert_allclose(
            bs.jvp(f, (self.x,), (self.x,))[1], bs.jvp(loss, (self.x,), (self.x,))[1]
        )
        rows = np.stack([self.x, 2 * self.x])
        np.testing.assert_allclose(
            bs.vmap(bs.jit(bs.grad(loss)))(rows), bs.vmap(bs.grad(loss))(rows)
        )
        np.testing.assert_allclose(bs.jit(bs.vmap(bs.grad(f)))(rows), bs.vmap(bs.grad(loss))(rows))
        np.testing.assert_allclose(
            bs.grad(bs.grad(bs.jit(np.tanh)))(0.3), bs.grad(bs.grad(np.tanh))(0.3)
        )

    def test_backward_through_compiled_code(self):
        x = bs.tensor(self.x, requires_grad=True)
        bs.jit(loss)(x).backward()
        np.testing.assert_allclose(x.grad, bs.grad(loss)(self.x))

    @pytest.mark.parametrize("derivative", [bs.grad, bs.jacobian])
    def test_differentiating_inside_at_a_plain_array(self, derivative):
        """Its leaf is no variable of somebody outside: the whole is compiled."""
        f = bs.jit(lambda x: derivative(lambda step: np.sum(np.sin(x + step) * step))(np.ones(3)))
        expected = np.cos(self.x + 1) + np.sin(self.x + 1)
        np.testing.assert_allclose(f(self.x), expected)
        (stats,) = f.stats()["specialisations"]
        assert stats["native"]

    def test_differentiating_inside_while_somebody_outside_does(self):
        def outer(z):
            w = 2 * z
            inner = lambda x: np.sum(x * w * bs.grad(lambda q: np.sum(q * q * w))(np.ones(3)))
            return bs.jit(inner)(self.x)

        np.testing.assert_allclose(bs.grad(outer)(np.ones(3)), 16 * self.x)

    def test_closing_over_an_outer_variable(self):
        f = lambda w: bs.jit(lambda x: (x * w).sum())(self.x)
        assert bs.grad(f)(2.0) == pytest.approx(self.x.sum())
        assert f(2.0) == pytest.approx(2 * self.x.sum())


class TestArguments:
    def test_containers_and_keywords(self):
        @bs.jit
        def f(p, *, scale=2.0):
            return {"y": p["w"] * scale, "rest": (p["b"], [p["w"].sum()])}

        w = np.arange(3.0)
        got = f({"w": w, "b": 1.5}, scale=3.0)
        np.testing.assert_array_equal(got["y"], w * 3)
        assert got["rest"] == (1.5, [3.0])

    def test_static(self):
        f = bs.jit(lambda x, n: x**n, static_argnums=1)
        np.testing.assert_array_equal(f(np.arange(3.0), 3), [0, 1, 8])
        np.testing.assert_array_equal(f(np.arange(3.0), 2), [0, 1, 4])
        assert len(f.stats()["specialisations"]) == 2
        with pytest.raises(errors.StaticArgumentError, match="hashable"):
            f(np.arange(3.0), [3])

    def test_specialises_per_type(self):
        f = bs.jit(lambda x: x * 2)
        for x in (
            np.ones(3),
            np.ones(4),
            np.ones(3, np.float32),
            np.arange(3),
            2.0,
            np.float32(2),
            np.ones((2, 2)),
        ):
            got, expected = f(x), x * 2
            np.testing.assert_array_equal(got, expected)
            assert np.asarray(got).dtype == np.asarray(expected).dtype

    def test_arrays_that_are_not_contiguous(self):
        f = bs.jit(lambda x: x[::2] * 2)
        for x in (np.arange(12.0)[::2], np.arange(6.0)[::-1], np.asfortranarray(np.eye(6))[0]):
            np.testing.assert_array_equal(f(x), x[::2] * 2)
            np.testing.assert_array_equal(f(np.ascontiguousarray(x)), x[::2] * 2)

    def test_results_are_fresh(self):
        f = bs.jit(lambda x: (x, x * 1.0, x[1:]))
        x = np.arange(3.0)
        for y in f(x):
            assert not np.shares_memory(x, y)
        first, second = f(x)[1], f(x)[1]
        assert not np.shares_memory(first, second)

    def test_a_branch_without_source_is_an_error_that_says_why(self):
        f = eval("lambda x: x if x.sum() > 0 else -x")
        with pytest.raises(errors.TracedValueError, match=r"np\.where") as info:
            bs.jit(f)(np.ones(3))
        assert "made by exec" in str(info.value)

    def test_a_number_that_is_not_there_is_an_error_that_says_where(self):
        with pytest.raises(errors.TracedValueError, match=r"np\.where") as info:
            bs.jit(lambda x: x * len("ab"[x.sum().astype(int)]))(np.ones(3))
        assert "test_jit.py" in str(info.value)

    def test_unknown_backend(self):
        with pytest.raises(ValueError, match="native"):
            bs.jit(loss, backend="gpu")

    def test_method_and_decorator(self):
        class Model:
            w = 3.0

            @bs.jit
            def scaled(self, x):
                return x * 2.0

        np.testing.assert_array_equal(Model.scaled(None, np.ones(2)), [2, 2])


class TestEntry:
    def test_references_are_kept_straight(self):
        x = np.ones(4)
        for f in (
            bs.jit(lambda x: x * 2),
            bs.jit(lambda x: (x.sum(), x + 1)),
            bs.jit(lambda x: x.sum()),
        ):
            f(x)
            before = sys.getrefcount(x), sys.getrefcount(np.dtype(float))
            for _ in range(1000):
                f(x)
            after = sys.getrefcount(x), sys.getrefcount(np.dtype(float))
            assert after[0] == before[0]
            assert abs(after[1] - before[1]) < 20

    def test_threads(self):
        f = bs.jit(lambda x: np.sum(np.exp(-x * x)) * x)
        wrong = []

        def work(n):
            x = np.full(n, 0.5)
            expected = n * np.exp(-0.25) * 0.5
            for _ in range(300):
                if not np.allclose(f(x), expected):
                    wrong.append(n)

        threads = [threading.Thread(target=work, args=(n,)) for n in (3, 4, 5, 5)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert not wrong

    def test_compiled_code_is_freed(self):
        def one(k):
            f = bs.jit(lambda x: x * k)
            f(np.ones(2))

        one(0.0)
        gc.collect()
        before = len(gc.get_objects())
        for k in range(20):
            one(float(k))
        gc.collect()
        assert len(gc.get_objects()) - before < 2000

    def test_stages(self):
        f = bs.jit(loss)
        text = str(f.lower(np.ones(3)))
        assert "sin" in text
        assert "for [3]" in text
        assert "define" in f.lower(np.ones(3)).stages["llvm"]
        f(np.ones(3))
        (made,) = f.stats()["specialisations"]
        assert made["native"]
        assert made["kernels"] == 1

    def test_what_has_no_native_form_runs_on_numpy(self):
        f = bs.jit(lambda x: x * 2)
        y = f(np.ones(3, np.longdouble))
        assert y.dtype == np.longdouble
        np.testing.assert_array_equal(y, 2)
        (made,) = f.stats()["specialisations"]
        assert not made["native"]
        assert f"dtype {np.dtype(np.longdouble)}" in made["reason"]

    def test_unpickled_arrays_run_natively(self):
        """Their dtype is equal to that of other arrays, but another object."""
        f = bs.jit(lambda x, w: np.sum(np.tanh(x @ w), 0))
        x, w = rng.normal(size=(50, 4)), rng.normal(size=(4, 16))
        expected = f(x, w)
        again = pickle.loads(pickle.dumps(x))
        assert again.dtype is not x.dtype
        calls = f._known[next(iter(f._known))].code.calls
        np.testing.assert_array_equal(f(again, w), expected)
        assert f._known[next(iter(f._known))].code.calls == calls + 1
        g = bs.jit(lambda x, w: np.sum(np.tanh(x @ w), 0))  # the other way round
        np.testing.assert_array_equal(g(again, w), expected)
        np.testing.assert_array_equal(g(x, w), expected)
        assert g._known[next(iter(g._known))].code.calls == 2


class TestTraps:
    """Found by a hunt: once wrong or a crash, now right, or NumPy's own error."""

    x, i4 = np.array([1.0, 2.0]), np.array([1, 2, -3], np.int32)

    def test_product_of_two_numbers(self):
        assert bs.jit(lambda a, b: np.tensordot(a, b, 0))(np.float64(2), np.float64(3)) == 6.0

    def test_no_memory(self):
        with pytest.raises(MemoryError):
            bs.jit(lambda x: np.broadcast_to(x, (1 << 24, 1 << 22)))(np.float64(1))

    def test_literal_results(self):
        assert bs.jit(lambda x: (x.sum(), 3, True, 2.5))(self.x) == (3.0, 3, True, 2.5)

    def test_signed_zeros_in_a_constant(self):
        y = bs.jit(lambda x: np.sign(x / np.array([0.0, -0.0])))(self.x)
        np.testing.assert_array_equal(y, [1, -1])

    def test_static_values_of_different_types(self):
        f = bs.jit(lambda x, n: x * n, static_argnums=-1)
        assert f(np.array([1, 2]), 2).dtype == np.int64
        assert f(np.array([1, 2]), 2.0).dtype == np.float64

    def test_python_integers_that_do_not_fit(self):
        np.testing.assert_array_equal(bs.jit(lambda a: a < 2**40)(self.i4), [True] * 3)
        with pytest.raises(OverflowError):
            bs.jit(lambda a: a + 2**40)(self.i4)
        y = bs.jit(lambda x, n: x * n)(np.ones(1, np.float32), 2**70)
        assert y[0] == np.float32(2**70)

    def test_constants_are_our_own(self):
        c = np.arange(100_000.0)
        f = bs.jit(lambda x: x * c)
        first = f(np.ones(100_000))
        c[:] = 3
        np.testing.assert_array_equal(f(np.ones(100_000)), first)

    def test_constants_are_copied_once(self):
        c = np.arange(100_000.0)
        loss = bs.grad(lambda x: np.sum(np.sin(x * c) * c))
        program, _ = stage(loss, [Type(c.shape, c.dtype)])
        large = [value for _, value in program.constants if not is_uniform(value)]
        assert len(large) == 1
        assert not np.shares_memory(large[0], c)

    def test_constants_that_change_on_the_way(self):
        def f(x):
            c = np.arange(100_000.0)
            y = x * c
            c[5] = -1
            return np.sum(y * c)

        x = np.ones(100_000)
        np.testing.assert_array_equal(bs.jit(bs.grad(f))(x), bs.grad(f)(x))

    def test_recursion(self):
        @functools.partial(bs.jit, static_argnums=0)
        def power(n):
            return np.ones(2) if n == 0 else power(n - 1) * 2

        np.testing.assert_array_equal(power(3), [8, 8])

    def test_booleans(self):
        a = np.array([[True, False], [True, True]])
        np.testing.assert_array_equal(bs.jit(np.matmul)(a, a), a @ a)
        assert bs.jit(np.max)(a) == np.True_

    def test_masked_arrays(self):
        with pytest.raises(errors.DTypeError, match="MaskedArray"):
            bs.jit(np.sum)(np.ma.array([1.0, 2.0], mask=[0, 1]))


@pytest.mark.parametrize("name", sorted(PRIMITIVES))
def test_rows_against_numpy(name):
    """A selection of each row's samples; all of them run with `make fuzz`."""
    found = list(cases(name))
    for case in found[:: max(1, len(found) // 10)]:
        check_backend(case)


STRUCTURAL = [
    *["gather", "scatter_add", "scatter_set", "slice", "slice_update", "unslice", "concatenate"],
    *["cumsum", "cumprod", "recurrence", "argmax", "argmin", "argsort", "ranked", "searchsorted"],
    "contract",
    *["sum", "prod", "max", "min", "any", "all", "reshape", "permute", "broadcast_to"],
]


@pytest.mark.parametrize("name", STRUCTURAL)
def test_structural_rows_are_native(name):
    """Also of no entries and of no axes."""
    found = list(cases(name))
    for case in found[:: max(1, len(found) // 20)]:
        assert check_backend(case), str(case)


PROGRAMS = {
    "softmax": lambda x: (
        np.exp(x - x.max(-1, keepdims=True))
        / np.exp(x - x.max(-1, keepdims=True)).sum(-1, keepdims=True)
    ),
    "layer norm": lambda x: (
        (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    ),
    "gelu": lambda x: 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3))),
    "sum of outer axis": lambda x: x.sum(0) * x[0],
    "moments": lambda x: (x.mean(), x.std(), x.max(0), x.min(1), x.sum(1)),
    "views": lambda x: (x.T @ x, x[:, ::-1] + x[1], x.reshape(-1)[3:7]),
    "joined": lambda x: np.concatenate([x * 2, x[:1], x[::-1]], axis=0),
    "masks": lambda x: np.where(x > 0, np.sqrt(np.abs(x)), -x) + np.clip(x, -0.5, 0.5),
    "padded": lambda x: np.pad(x, ((1, 2), (0, 1))) * 2,
    "norms": lambda x: np.linalg.norm(x, axis=1) + np.logaddexp(x[:, 0], 0.3),
    "written": lambda x: _written(x),
    "gram": lambda x: np.einsum("ij,kj->ik", x, x) / (1 + np.einsum("ij,ij->", x, x)),
    "attention": lambda x: _attention(x),
}


def _written(x):
    y = x * 1.0
    y[1:3] = y[:2] * 2
    y[0, 0] += 5.0
    return y


def _attention(x):
    q, k, v = x[None] * 1.1, x[None] * 0.9, x[None] + 1
    s = np.matmul(q, np.swapaxes(k, 1, 2)) / np.sqrt(x.shape[1])
    w = np.exp(s - s.max(-1, keepdims=True))
    return np.matmul(w / w.sum(-1, keepdims=True), v)[0]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", [(4, 3), (20, 37)])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_and_their_gradients(name, shape, dtype):
    f = PROGRAMS[name]
    x = np.random.default_rng(1).normal(size=shape).astype(dtype)

    def total(x):
        return sum(np.sin(y + 0.3).sum() for y in bs.tree.flatten(f(x))[0])

    assert check_compiled(f, [x], name, ulps=2000)
    assert check_compiled(bs.grad(total), [x], f"grad of {name}", ulps=20000)


def random_program(seed):
    """A function of two arrays made of random, well-typed steps."""
    r = np.random.default_rng(seed)
    unary = [
        np.sin,
        np.tanh,
        np.exp,
        lambda a: a * a,
        lambda a: -a,
        lambda a: np.maximum(a, 0.1),
        np.abs,
    ]
    binary = [
        np.add,
        np.subtract,
        np.multiply,
        np.maximum,
        lambda a, b: np.where(a > b, a, b * 0.5),
    ]
    plan = r.integers(0, 1 << 30, size=int(r.integers(4, 14)))

    def f(x, y):
        live = [x, y]
        for p in plan:
            pick = np.random.default_rng(int(p))
            a, b = (live[int(k)] for k in pick.integers(0, len(live), 2))
            kind = int(pick.integers(0, 7))
            if kind <= 1:
                z = unary[int(pick.integers(len(unary)))](a * 0.5)
            elif kind == 2:
                z = binary[int(pick.integers(len(binary)))](a, b) if _fits(a, b) else a + 1.0
            elif kind == 3:
                z = (
                    a.sum(axis=int(pick.integers(a.ndim)), keepdims=bool(pick.integers(2)))
                    if a.ndim
                    else a
                )
            elif kind == 4:
                z = np.transpose(a)
            elif kind == 5:
                z = a[:: int(pick.integers(1, 3))] if a.ndim else a
            else:
                z = (
                    a @ b * 0.1
                    if a.ndim
                    and b.ndim
                    and a.shape[-1] == (b.shape[-2] if b.ndim > 1 else b.shape[0])
                    else a * 2
                )
            live.append(z)
        return live[-1], live[-2] * 1.0, (live[-3] * live[-3]).sum()

    return f


def _fits(a, b):
    try:
        np.broadcast_shapes(a.shape, b.shape)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("seed", range(60))
def test_random_programs(seed):
    f = random_program(seed)
    r = np.random.default_rng(seed)
    args = [r.normal(size=(4, 4)) * 0.7, r.normal(size=(4, 4)) * 0.7]

    def total(x, y):
        return sum(np.sin(z).sum() for z in f(x, y))

    check_compiled(f, args, f"program {seed}", ulps=1e4)
    check_compiled(bs.grad(total, argnums=(0, 1)), args, f"gradient of program {seed}", ulps=1e6)


def test_stats_tell_the_work():
    f = bs.jit(np.matmul)
    f(np.ones((40, 50)), np.ones((50, 60)))
    (made,) = f.stats()["specialisations"]
    assert made["flops"] == 2 * 40 * 50 * 60
    assert made["bytes"] >= 8 * (40 * 50 + 50 * 60 + 40 * 60)  # more if an operand is packed
    f = bs.jit(np.add)
    f(np.ones((40, 50)), np.ones((40, 50)))
    assert f.stats()["specialisations"][0]["bytes"] == 3 * 8 * 40 * 50
    assert made["products"] == 1
    assert made["kernels"] == 0


def test_recording_keeps_no_array_as_large_as_the_data():
    """The adjoint of a sum times a weight repeats the weight: it is kept once from the start."""
    x, w = np.ones((512, 1024), np.float32), np.arange(1024, dtype=np.float32)
    f = bs.jit(bs.grad(lambda x: np.sum(np.tanh(x) * w)))
    f(x[:2])
    tracemalloc.start()
    try:
        y = f(x)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    np.testing.assert_allclose(y, bs.grad(lambda x: np.sum(np.tanh(x) * w))(x), rtol=1e-5)
    assert peak < 2.5 * x.nbytes
