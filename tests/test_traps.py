"""Programs that lead lesser systems to silently wrong derivatives: here they are right, or an error."""

from __future__ import annotations

import dataclasses
import threading
from collections import OrderedDict, defaultdict

import numpy as np
import pytest

import backsolve as bs
from backsolve import errors, tree
from backsolve.hooks import hooks
from backsolve.nn.on_manifolds import taken_off
from backsolve.testing.backends import check_compiled

from .show.gates import Multiply


class TestMemoryThatChanges:
    def test_argument_written_after_vjp_and_linearize(self):
        x = np.array([1.0, 2.0])
        _, pull = bs.vjp(lambda t: t * t, x)
        system = bs.linearize(lambda t: (t * t).sum())(x)
        x[:] = 100
        np.testing.assert_array_equal(pull(np.ones(2))[0], [2, 4])
        np.testing.assert_array_equal(system.backward(1.0), [2, 4])

    def test_result_written_before_the_pull(self):
        x = np.array([1.0, 2.0])
        y, pull = bs.vjp(np.exp, x)
        y *= 0
        np.testing.assert_allclose(pull(np.ones(2))[0], np.exp(x))

    def test_results_never_share_memory_with_arguments(self):
        x = np.ones((2, 2))
        assert not np.shares_memory(bs.vmap(lambda t: t)(x), x)
        assert not np.shares_memory(bs.jvp(lambda t: t[1:], (x,), (x,))[0], x)

    @staticmethod
    def reuses_a_buffer(x, view=lambda b: b):
        buffer = np.zeros(2)
        y = 0
        for k in range(3):
            buffer[:] = k
            y = y + (x * view(buffer)).sum()
        return y

    @pytest.mark.parametrize("size", [2, 5000, 200_000])
    def test_reused_buffer_of_any_size(self, size):
        def f(x):
            buffer = np.zeros(size)
            y = 0
            for k in range(3):
                buffer[:] = k
                y = y + (x * buffer).sum() + np.dot(x, buffer)
            return y

        np.testing.assert_array_equal(bs.grad(f)(np.ones(size)), np.full(size, 6))
        np.testing.assert_allclose(bs.vmap(f)(np.ones((2, size))), [6 * size] * 2)

    def test_argument_written_by_the_function(self):
        x = np.ones(5000)

        def f(t):
            y = (t * t).sum()
            x[:] = 7
            return y

        np.testing.assert_array_equal(bs.grad(f)(x), np.full(5000, 2))

    def test_reused_buffer(self):
        x = np.ones(2)
        np.testing.assert_array_equal(bs.grad(self.reuses_a_buffer)(x), [3, 3])
        np.testing.assert_array_equal(bs.linearize(self.reuses_a_buffer)(x).backward(1.0), [3, 3])
        np.testing.assert_array_equal(bs.vmap(self.reuses_a_buffer)(np.ones((2, 2))), [6, 6])

    def test_read_only_view_of_a_reused_buffer(self):
        f = lambda x: self.reuses_a_buffer(x, lambda b: np.broadcast_to(b, (2, 2)))
        np.testing.assert_array_equal(bs.grad(f)(np.ones((2, 2))), np.full((2, 2), 3))

    def test_tensor_written_between_uses_under_vmap(self):
        def f(x):
            acc = bs.tensor(np.zeros(2))
            y = x * acc
            acc += 1
            return y + x * acc

        np.testing.assert_array_equal(bs.vmap(f)(np.ones((3, 2))), np.ones((3, 2)))

    def test_array_overwritten_after_it_was_read(self):
        def f(x):
            y = x * 1.0
            total = (y * y).sum()
            y[:] = 0.0
            return total + y.sum()

        np.testing.assert_array_equal(bs.grad(f)(np.array([1.0, 2.0])), [2, 4])

    def test_write_into_a_tensor_under_vmap(self):
        def f(x):
            t = bs.tensor(np.zeros(3))
            t[0] = x
            return (t * 2).sum()

        np.testing.assert_array_equal(bs.vmap(f)(np.arange(2.0)), [0, 2])


class TestOuterDerivatives:
    def test_aux(self):
        f = lambda a: bs.grad(lambda x: (x * x, a * x), has_aux=True)(3.0)[1]
        assert bs.grad(f)(2.0) == 3.0

    def test_system(self):
        square, cube = (lambda t: t * t), (lambda t: t**3)
        assert bs.grad(lambda x: bs.linearize(square)(x).forward(1.0))(3.0) == 2.0
        assert bs.grad(lambda x: bs.linearize(cube)(x).jacobian())(3.0) == 18.0
        g = lambda x: bs.linearize(lambda t: (t * 2.0) * (t * 3.0) * x)(x).backward(1.0)
        assert bs.linearize(g)(1.0).backward(1.0) == 24.0

    def test_linearize_under_vmap(self):
        f = lambda x: bs.linearize(lambda t: t * 2.0 + t * 3.0)(x).backward(1.0)
        np.testing.assert_array_equal(bs.vmap(f)(np.ones(3)), [5, 5, 5])

    def test_signed_zeros_are_different_constants(self):
        f = lambda x: np.copysign(x, 0.0) + np.copysign(x, -0.0) * 3
        assert bs.linearize(f)(2.0).backward(1.0) == -2.0

    def test_backward_inside_grad(self):
        def f(a):
            w = bs.tensor(2.0, requires_grad=True)
            (a * w * w).backward()
            return w.grad * a

        with pytest.raises(errors.DroppedDerivativeError, match=r"bs\.grad or bs\.vjp"):
            bs.grad(f)(3.0)

    def test_tensor_of_a_finished_differentiation(self):
        cache = {}

        def f(x):
            if not cache:
                cache["square"] = x * x
            return cache["square"] * x

        assert bs.grad(f)(2.0) == 12.0
        with pytest.raises(errors.FreedGraphError, match="earlier, finished"):
            bs.grad(f)(2.0)

    def test_vmap_of_grad_gives_arrays(self):
        f = lambda s: bs.grad(lambda w: (w * w * s).sum())(np.ones(2))
        y = bs.vmap(f)(np.array([1.0, 2.0]))
        assert type(y) is np.ndarray
        np.testing.assert_array_equal(y, [[2, 2], [4, 4]])


class TestCheckpoint:
    def test_loop_variable_in_a_closure(self):
        def f(x):
            y = x
            for k in (1.0, 2.0, 3.0):
                y = bs.checkpoint(lambda u: np.sin(u * k))(y)  # noqa: B023
            return y

        with pytest.raises(errors.RecomputeError, match="loop variable"):
            bs.grad(f)(0.3)

    def test_tensor_written_since(self):
        def f(x):
            t = x * 2
            y = bs.checkpoint(lambda u: u * t)(x)
            t += 1
            return y.sum()

        with pytest.raises(errors.RecomputeError):
            bs.grad(f)(np.ones(1))

    def test_of_a_bare_float(self):
        assert bs.grad(lambda x: bs.checkpoint(lambda u: u * 1.5)(x))(1.0) == 1.5

    def test_freed(self):
        x = bs.tensor(1.0, requires_grad=True)
        y = bs.checkpoint(np.sin)(x)
        y.backward(retain_graph=False)
        with pytest.raises(errors.FreedGraphError):
            y.backward()


class TestForwardMessage:
    @pytest.mark.parametrize(
        ("f", "before", "after", "expected"),
        [
            (lambda x: np.where(x > 0, x, -x), 1.0, -5.0, 5.0),
            (np.sort, [1.0, 2.0, 3.0], [3.0, 2.0, 1.0], [1.0, 2.0, 3.0]),
            (lambda x: x * np.floor(x), 1.5, 7.5, 52.5),
            (lambda x: x * (np.floor(x) * 2 + 1), 1.5, 7.5, 112.5),
        ],
    )
    def test_discrete_values_are_computed_anew(self, f, before, after, expected):
        x = bs.tensor(before, requires_grad=True)
        y = f(x)
        x.value = after
        np.testing.assert_array_equal(y.forward().value, expected)
        y.sum().backward()
        expected_grad = bs.grad(lambda x: f(x).sum())(np.asarray(after, float)[()])
        np.testing.assert_allclose(x.grad, expected_grad)

    def test_constants_as_they_were(self):
        b, x = np.ones(3), bs.tensor([1.0, 2.0, 3.0], requires_grad=True)
        y = x * b
        b[:] = 0
        np.testing.assert_array_equal(y.forward().value, [1, 2, 3])

    def test_a_mask_cannot_be_replayed(self):
        x = bs.tensor([1.0, -2.0], requires_grad=True)
        y = x[x > 0].sum()
        x.value = [1.0, 2.0]
        with pytest.raises(errors.FreedGraphError, match="mask"):
            y.forward()


class TestFunction:
    def test_jacobian(self):
        a = np.array([1.0, 2.0])
        for mode in ("forward", "reverse"):
            J, K = bs.jacobian(Multiply.apply, argnums=(0, 1), method=mode)(a, 2 * a)
            np.testing.assert_array_equal(J, np.diag(2 * a))
            np.testing.assert_array_equal(K, np.diag(a))

    def test_gradient_of_another_shape(self):
        class Wrong(Multiply):
            @staticmethod
            def backward(ctx, grad):
                return np.ones(4), None

        with pytest.raises(errors.ShapeError, match=r"\(4,\)"):
            bs.grad(lambda x: Wrong.apply(x, 1.0).sum())(np.ones((2, 2)))

    def test_tensor_inside_a_list(self):
        with pytest.raises(errors.StructureError, match="argument of its own"):
            bs.grad(lambda x: Multiply.apply([x], 1.0))(1.0)

    def test_result_that_is_none(self):
        class Optional(bs.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2.0, None

            @staticmethod
            def backward(ctx, grad):
                return 2 * grad

        assert bs.grad(lambda x: Optional.apply(x)[0])(1.0) == 2.0


class TestInput:
    def test_argument_named_twice(self):
        for argnums in ((0, 0), (0, -2)):
            with pytest.raises(errors.NotDifferentiableError, match="twice"):
                bs.grad(lambda x, y: x * y, argnums=argnums)(2.0, 3.0)

    def test_not_holomorphic_along_a_hidden_direction(self):
        for f in (np.conj, np.real):
            with pytest.raises(errors.NotScalarError, match="holomorphic"):
                bs.jacobian(lambda z, f=f: f(z[0] - z[1]))(np.array([1 + 1j, 2.0]))

    def test_real_tensor_seeds_a_complex_output(self):
        _, pull = bs.vjp(lambda z: z * (2 + 1j), np.array([1 + 2j]))
        for seed in (np.ones(1), bs.tensor([1.0])):
            np.testing.assert_array_equal(np.asarray(pull(seed)[0]), [2 - 1j])

    def test_complex_seed_of_a_real_output(self):
        with pytest.raises(errors.DTypeError, match="real"):
            bs.vjp(lambda x: x * 2, 1.0)[1](1j)

    def test_system_takes_the_form_of_the_arguments(self):
        system = bs.linearize(lambda p: p["a"] * 2 + p["b"] * 3)({"a": 1.0, "b": 2.0})
        assert system.forward({"a": 0.0, "b": 1.0}) == 3.0
        assert system.forward({"b": 1.0, "a": 0.0}) == 3.0  # by their keys
        with pytest.raises(errors.StructureError):
            system.forward({"b": 1.0, "c": 0.0})
        wide = bs.linearize(lambda x: x * 2)(np.ones((2, 3)))
        with pytest.raises(errors.ShapeError):
            wide.backward(np.ones(3))

    def test_matrix_and_masked_array(self):
        masked = np.ma.masked_array([1.0, 2.0], [True, False])
        with pytest.raises(errors.DTypeError, match="MaskedArray"):
            bs.grad(lambda x: (x * masked).sum())(np.ones(2))
        with pytest.raises(errors.DTypeError, match="MaskedArray"):
            bs.vmap(lambda x: x * 2)(masked)

    def test_unsigned_exponents(self):
        g = bs.grad(lambda x: (x ** np.array([0, 3], np.uint8)).sum())(np.array([1e10, 2.0]))
        np.testing.assert_array_equal(g, [0, 12])

    def test_shared_argument_read_by_a_mapped_index(self):
        y = bs.vmap(lambda x, i: x[i], in_axes=(None, 0))(np.arange(4.0), np.array([1, 3]))
        np.testing.assert_array_equal(y, [1, 3])

    def test_jacobian_has_the_dtype_of_its_argument(self):
        assert bs.jacobian(lambda x: x * np.arange(2.0))(np.ones(2, np.float32)).dtype == np.float32


class TestHiddenState:
    def test_threads(self):
        wrong = []

        def work():
            for _ in range(50):
                system = bs.linearize(lambda t: np.sin(t * 2.0) + t * 3.0 + np.cos(t * 4.0))(0.0)
                if system.backward(1.0) != 5.0:
                    wrong.append(system)
                if bs.hessian(lambda x: (x**3).sum())(np.ones(2))[0, 0] != 6.0:
                    wrong.append("hessian")

        threads = [threading.Thread(target=work) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert not wrong
        assert hooks.observe is None

    def test_no_reference_cycles(self, left_to_collector):
        sphere = bs.manifolds.Sphere()  # from then on, all calls look for declared arguments

        def use():
            bs.grad(lambda x: np.sin(x).sum())(bs.on(sphere, np.array([0.6, 0.8])))
            bs.linearize(lambda x: np.sin(x).sum())(np.ones(10))
            bs.jacobian(np.sin)(np.ones(3))
            bs.grad(lambda x: np.sin(x).sum())(np.ones(3))
            bs.grad(lambda x: np.block([[x, x], [x, x]]).sum())(np.ones((2, 2)))
            bs.vmap(lambda p: p["a"] * p["b"], in_axes=({"a": 0, "b": None},))(
                {"a": np.ones(3), "b": 2.0}
            )
            taken_off({"weights": [bs.on(sphere, np.array([0.6, 0.8]))]}, "layer")
            tree.without_fixed(*tree.flatten({"a": np.ones(3), "name": "w"})[::-1])

        use()  # modules that are loaded on first use leave garbage of their own
        assert left_to_collector(lambda: [use() for _ in range(3)]) == []

    def test_a_diamond_of_two_to_the_fifty_paths(self):
        def f(x):
            for _ in range(50):
                x = x * 0.5 + x * 0.5
            return x

        assert bs.grad(f)(1.0) == 1.0


class TestContainersAndObjects:
    """What `grad` and `jit` cannot look into is an error, never a constant in disguise."""

    def test_subclasses_of_containers(self):
        f = lambda p: p["a"] ** 2 * p["b"]
        for kind in (OrderedDict, lambda **p: defaultdict(float, p), type("Own", (dict,), {})):
            p = kind(a=3.0, b=2.0)
            g = bs.grad(f)(p)
            assert type(g) is type(p)
            assert dict(g) == {"a": 12.0, "b": 9.0}
            assert bs.jit(f)(p) == 18.0
        rows = type("Rows", (list,), {})
        assert bs.grad(lambda p: p[0] * p[1])(rows([2.0, 5.0])) == [5.0, 2.0]
        x = np.array([1.0, 2.0])
        jacobian = bs.jacobian(lambda x: OrderedDict(a=x**2))(x)
        np.testing.assert_array_equal(jacobian["a"], np.diag(2 * x))
        once = bs.checkpoint(lambda p: OrderedDict(a=p**2))
        assert bs.grad(lambda z: once(z)["a"])(3.0) == 6.0
        assert bs.grad(lambda z: z * bs.stop_gradient(OrderedDict(a=z))["a"])(3.0) == 3.0

    def test_objects(self):
        class Model:
            w = 2.0

        with pytest.raises(errors.NotDifferentiableError, match="Model"):
            bs.grad(lambda m: m.w**2)(Model())
        with pytest.raises(errors.StaticArgumentError, match=r"Model.*static_argnums"):
            bs.jit(lambda m, x: m.w * x)(Model(), 1.0)
        assert bs.jit(lambda m, x: m.w * x, static_argnums=0)(Model(), 1.0) == 2.0
        assert bs.grad(lambda p: p["w"] ** 2)({"w": 3.0, "name": "f", "act": np.tanh})["w"] == 6.0

    def test_matrices_and_masked_arrays(self):
        for x in (np.ones((1, 1)).view(np.matrix), np.ma.array([1.0, 2.0], mask=[0, 1])):
            with pytest.raises(errors.DTypeError, match="plain array"):
                bs.grad(lambda x: (x * x).sum())(x)

    def test_a_value_kept_from_a_staging(self):
        kept = []
        x = np.ones(3)
        bs.jit(lambda x: (kept.append(x), x.sum())[1])(x)
        for f in (bs.grad(lambda y: (y * kept[0]).sum()), bs.jit(lambda y: (y * kept[0]).sum())):
            with pytest.raises(errors.TracedValueError, match="earlier staging"):
                f(x)

    def test_powers_of_python_integers(self):
        assert bs.jit(lambda n: n**30)(10) == 10**30
        assert bs.grad(lambda x: x * 10**30)(1.0) == 1e30

    def test_writing_into_zeros_like(self):
        def f(x):
            y = np.zeros_like(x)
            for i in range(1, 3):
                y[i] = y[i - 1] + x[i] * i
            return np.sum(y)

        x = np.array([1.0, 2.0, 3.0])
        np.testing.assert_array_equal(bs.grad(f)(x), [0.0, 2.0, 2.0])
        np.testing.assert_array_equal(bs.jit(bs.grad(f))(x), [0.0, 2.0, 2.0])
        assert type(np.ones_like(bs.tensor(x))) is bs.Tensor


class TestCompiled:
    """What a hunt through compiled code found."""

    x = np.array([1.0, 2.0])

    def test_derivatives_of_ones_own(self):
        class Clipped(bs.Function):
            @staticmethod
            def forward(ctx, a):
                return a * 1.0

            @staticmethod
            def backward(ctx, g):
                return np.clip(g, -0.1, 0.1)

        for f in (
            lambda x: np.sum(bs.stop_gradient(x) * x),
            lambda x: (
                np.sum((x * 2.0).detach() * x) if isinstance(x, bs.Tensor) else np.sum(2 * x * x)
            ),
            lambda x: np.sum(Clipped.apply(x) * x),
        ):
            expected = bs.grad(f)(self.x)
            for g in (bs.grad(bs.jit(f)), bs.jit(bs.grad(f)), bs.jit(bs.grad(bs.jit(f)))):
                np.testing.assert_allclose(g(self.x), expected)
        f = lambda x: np.sum(bs.stop_gradient(x) * x)
        assert bs.jvp(bs.jit(f), (self.x,), (self.x,))[1] == 5.0
        np.testing.assert_array_equal(bs.hessian(bs.jit(f))(self.x), np.zeros((2, 2)))

    def test_shapes_of_linear_algebra(self):
        for f in (np.linalg.inv, np.linalg.det, np.linalg.slogdet, np.linalg.cholesky):
            for a in (np.ones(3), np.ones((4, 3)), np.ones((2, 3, 5))):
                with pytest.raises(errors.ShapeError, match="square"):
                    bs.jit(lambda a, f=f: f(a))(a)
        with pytest.raises(errors.ShapeError):
            bs.jit(np.linalg.solve)(np.ones((4, 3)), np.ones((3, 2)))
        empty = bs.jit(lambda a: tuple(np.linalg.slogdet(a)))(np.zeros((0, 0)))
        assert empty == (1.0, 0.0)

    def test_integers_wrap_where_numpys_do(self):
        u, i8 = np.array([1, 2, 200], np.uint8), np.array([-128, 12, 16], np.int8)
        f4, i16 = np.ones(3, np.float32), np.ones(3, np.int16)
        for f, args in (
            (
                lambda f, u: (f + (-u), f * (-u), (-u) / f, f - (-u), np.eye(3, dtype="f4") @ (-u)),
                (f4, u),
            ),
            (lambda i, j: (i - (-j), i + (-j), (-i) * (-j)), (i16, i8)),
            (lambda u, i: (np.abs(-u), np.abs(np.square(i))), (u, i8)),
            (lambda n: n.astype(np.float64).astype(np.int64), (np.array([2**62 + 1]),)),
        ):
            with np.errstate(all="ignore"):
                assert check_compiled(f, args)
        with np.errstate(all="ignore"):
            check_compiled(
                lambda i: np.log(1 + i), (np.array([127], np.int8),)
            )  # float16: on NumPy

    def test_float16(self):
        h = np.array([1e-7, 1e-3], np.float16)
        for f, a in (
            (lambda x: x / 2.0**-20, h),
            (lambda x: 2 * x / 2.0**20, np.ones(2, "f2")),
        ):
            with np.errstate(all="ignore"):
                np.testing.assert_array_equal(bs.jit(f)(a), f(a))
        assert type(bs.jit(lambda x: np.sum(x[:1]))(h)) is np.float16

    def test_static_arguments_of_equal_value(self):
        @dataclasses.dataclass(frozen=True)
        class Settings:
            scale: float

        f = bs.jit(
            lambda x, s: x * (s.scale if type(s.scale) is int else s.scale + 0.5), static_argnums=1
        )
        assert f(1.0, Settings(2)) == 2.0
        assert f(1.0, Settings(2.0)) == 2.5


def test_the_angle_of_integers_and_booleans():
    """Whose squares overflow, or which have no negative."""
    for a in (np.array([100, -128, 0], np.int8), np.array([True, False, True])):
        x = np.array([0.5, -1.0, 2.0])
        wanted = -a.astype(float) / (a.astype(float) ** 2 + x**2)
        np.testing.assert_allclose(bs.grad(lambda x, a=a: np.arctan2(a, x).sum())(x), wanted)
        wanted = a.astype(float) / (a.astype(float) ** 2 + x**2)
        np.testing.assert_allclose(bs.grad(lambda x, a=a: np.arctan2(x, a).sum())(x), wanted)
