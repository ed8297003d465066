"""The public transformations: forms, kinds, nesting, and the mistakes people make."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import tracemalloc
import weakref
from typing import NamedTuple

import numpy as np
import pytest

import backsolve as bs
from backsolve import errors
from backsolve.row import Row


@dataclasses.dataclass
class Model:
    w: np.ndarray
    b: float
    name: str = "model"


@contextlib.contextmanager
def traced_memory():
    """Inside, a call tells (bytes held, bytes at the peak)."""
    tracemalloc.start()
    try:
        yield tracemalloc.get_traced_memory
    finally:
        tracemalloc.stop()


class Pair(NamedTuple):
    a: float
    b: float


class TestKinds:
    """What comes back is of the kind that went in."""

    def test_float_gives_float(self):
        assert type(bs.grad(lambda x: np.sin(x) * x)(2.0)) is float
        value, _ = bs.value_and_grad(lambda x: np.sin(x))(2.0)
        assert type(value) is float

    def test_array_gives_writable_array(self):
        g = bs.grad(np.sum)(np.ones((2, 3)))
        assert type(g) is np.ndarray
        assert g.flags.writeable
        g[0] = 7

    def test_numpy_scalar(self):
        assert type(bs.grad(lambda x: x * x)(np.float32(3))) is np.float32

    def test_float32_stays_float32(self):
        g = bs.grad(lambda x: (np.fmax(x, 0.5) * 2.0).sum())(np.ones(3, np.float32))
        assert g.dtype == np.float32

    def test_tensor_gives_tensor(self):
        g = bs.grad(lambda x: (x * x).sum())(bs.tensor([1.0, 2.0]))
        assert isinstance(g, bs.Tensor)
        np.testing.assert_array_equal(g.value, [2, 4])

    def test_two_arguments_never_share_memory(self):
        a, b = bs.grad(lambda x, y: (x + y).sum(), (0, 1))(np.ones(3), np.ones(3))
        a[0] = 5
        assert b[0] == 1

    def test_unused_argument_has_zero_gradient(self):
        g = bs.grad(lambda x, y: x.sum(), argnums=1)(np.ones(3), np.ones((2, 2)))
        np.testing.assert_array_equal(g, np.zeros((2, 2)))

    def test_constant_function(self):
        np.testing.assert_array_equal(bs.grad(lambda x: 3.0)(np.ones(2)), [0, 0])


class TestContainers:
    def test_dict_list_tuple(self):
        p = {"w": np.array([1.0, 2.0]), "rest": [3.0, (4.0, None)]}
        g = bs.grad(lambda p: (p["w"] ** 2).sum() * p["rest"][0] + p["rest"][1][0])(p)
        np.testing.assert_array_equal(g["w"], [6, 12])
        assert g["rest"] == [5.0, (1.0, None)]

    def test_dataclass_keeps_names(self):
        g = bs.grad(lambda m, x: (m.w @ x) * m.b)(Model(np.ones(2), 3.0), np.array([1.0, 2.0]))
        assert isinstance(g, Model)
        np.testing.assert_array_equal(g.w, [3, 6])
        assert (g.b, g.name) == (3.0, "model")

    def test_named_tuple(self):
        assert bs.grad(lambda p: p.a * p.b)(Pair(2.0, 5.0)) == Pair(5.0, 2.0)

    def test_has_aux(self):
        g, aux = bs.grad(lambda x: (x * x, {"double": 2 * x, "n": 1}), has_aux=True)(3.0)
        assert (g, aux) == (6.0, {"double": 6.0, "n": 1})
        (value, aux), g = bs.value_and_grad(lambda x: (x * x, x), has_aux=True)(3.0)
        assert (value, aux, g) == (9.0, 3.0, 6.0)

    def test_argnums(self):
        f = lambda x, y, z: x * y * z
        assert bs.grad(f, argnums=2)(2.0, 3.0, 5.0) == 6.0
        assert bs.grad(f, argnums=(0, -1))(2.0, 3.0, 5.0) == (15.0, 6.0)

    def test_jacobian_of_containers(self):
        J = bs.jacobian(lambda p: {"s": p["x"] * p["y"]})({"x": np.array([1.0, 2.0]), "y": 3.0})
        np.testing.assert_array_equal(J["s"]["x"], np.diag([3.0, 3.0]))
        np.testing.assert_array_equal(J["s"]["y"], [1, 2])


class TestNesting:
    def test_orders(self):
        f = np.tanh
        for order in range(5):
            expected = bs.numeric.derivative(f, 0.3, method="richardson").value
            g = bs.grad(f)
            assert g(0.3) == pytest.approx(expected, rel=1e-6), order
            f = g

    def test_all_pairs_of_modes_agree(self):
        f = lambda x: np.exp(np.sin(x) * x)
        x = 0.7

        def forward(f):
            return lambda x: bs.jvp(f, (x,), (1.0,))[1]

        results = [
            outer(inner(f))(x) for outer in (forward, bs.grad) for inner in (forward, bs.grad)
        ]
        np.testing.assert_allclose(results, results[0])
        assert results[0] == pytest.approx(
            bs.numeric.derivative(bs.grad(f), x, method="richardson").value
        )

    def test_perturbation_confusion(self):
        """Siskind and Pearlmutter's example, in all combinations of modes; the answer is 1."""

        def forward(f):
            return lambda x: bs.jvp(f, (x,), (1.0,))[1]

        for outer in (bs.grad, forward):
            for inner in (bs.grad, forward):
                got = outer(lambda x, inner=inner: x * inner(lambda y: x + y)(1.0))(1.0)
                assert got == 1.0

    def test_inner_function_that_ignores_its_argument(self):
        assert bs.grad(lambda x: bs.grad(lambda y: x * x)(3.0) + x)(2.0) == 1.0

    def test_shadowing_by_a_returned_function(self):
        """ForwardDiff.jl #83 in spirit: a derivative of a function that closes over the outer variable."""
        d = bs.grad
        assert d(lambda x: d(lambda y: y * y * x * x)(x))(3.0) == pytest.approx(6 * 9.0)

    def test_hessian_and_hvp(self):
        rng = np.random.default_rng(0)
        A = rng.normal(size=(4, 4))
        f = lambda x: np.sin(x @ A @ x)
        x, v = rng.normal(size=4), rng.normal(size=4)
        H = bs.hessian(f)(x)
        np.testing.assert_allclose(H, H.T)
        np.testing.assert_allclose(bs.hvp(f)(x, v), H @ v)
        np.testing.assert_allclose(H, bs.jacobian(bs.grad(f), method="reverse")(x))

    def test_gradient_through_a_tensor_leaf(self):
        w = bs.tensor(2.0, requires_grad=True)
        g = bs.grad(lambda x: w * x**2)(3.0)  # 2 w x
        assert isinstance(g, bs.Tensor)
        g.backward()
        assert w.grad == 6.0

    def test_vmap_of_grad_of_vmap(self):
        x = np.linspace(0.1, 1, 6).reshape(2, 3)
        f = lambda row: np.sum(bs.vmap(np.sin)(row) * row)
        np.testing.assert_allclose(bs.vmap(bs.grad(f))(x), np.cos(x) * x + np.sin(x))
        np.testing.assert_allclose(
            bs.grad(lambda x: np.sum(bs.vmap(bs.grad(f))(x)))(x), -np.sin(x) * x + 2 * np.cos(x)
        )

    def test_jacobian_modes(self):
        rng = np.random.default_rng(1)
        A = rng.normal(size=(3, 5))
        f = lambda x: np.tanh(A @ x).reshape(3, 1) * x[:2]
        x = rng.normal(size=5)
        J = bs.jacobian(f, method="forward")(x)
        assert J.shape == (3, 2, 5)
        np.testing.assert_allclose(J, bs.jacobian(f, method="reverse")(x))
        np.testing.assert_allclose(J, bs.numeric.jacobian(f, x), atol=1e-7)


class TestVmap:
    def test_axes(self):
        x, y = np.arange(6.0).reshape(2, 3), np.arange(3.0)
        np.testing.assert_array_equal(bs.vmap(lambda a: a * y, in_axes=0)(x), x * y)
        np.testing.assert_array_equal(bs.vmap(np.sum, in_axes=1)(x), x.sum(0))
        np.testing.assert_array_equal(bs.vmap(lambda a: a + 1, in_axes=1, out_axes=1)(x), x + 1)
        np.testing.assert_array_equal(
            bs.vmap(lambda p, s: p["u"] * s, in_axes=({"u": 0}, None))({"u": x}, 2.0), x * 2
        )

    def test_constant_result_is_repeated(self):
        np.testing.assert_array_equal(bs.vmap(lambda a: 1.0)(np.ones(3)), [1, 1, 1])

    def test_branches_and_loops(self):
        def f(x):
            while x > 1:
                x = x / 2
            return x if x > 0 else -x

        x = np.array([-3.0, 0.5, 7.0])
        np.testing.assert_array_equal(bs.vmap(f)(x), [f(t) for t in x])

    def test_a_number_that_is_not_there_is_an_error_that_says_where(self):
        with pytest.raises(errors.TracedValueError, match=r"np\.where") as info:
            bs.vmap(lambda x: x * len("ab"[x]))(np.ones(3, int))
        assert "test_api.py" in str(info.value)

    def test_lengths_must_agree(self):
        with pytest.raises(errors.ShapeError, match="one length"):
            bs.vmap(np.add)(np.ones(3), np.ones(4))


class TestStopGradientCheckpointFunction:
    def test_stop_gradient(self):
        assert (
            bs.grad(lambda x: x * bs.stop_gradient(x) + bs.stop_gradient({"a": x})["a"])(3.0) == 3.0
        )

    def test_checkpoint_agrees_in_value_and_all_derivatives(self):
        w = np.array([0.5, -1.0, 2.0])

        def block(x, w):
            for _ in range(3):
                x = np.tanh(x * w) + x
            return x, {"sum": x.sum()}

        def loss(x, w, wrap):
            y, extra = wrap(block)(x, w)
            return (y * y).sum() * extra["sum"]

        x = np.array([0.1, 0.2, 0.3])
        plain = bs.grad(lambda x, w: loss(x, w, lambda f: f), (0, 1))(x, w)
        again = bs.grad(lambda x, w: loss(x, w, bs.checkpoint), (0, 1))(x, w)
        np.testing.assert_allclose(again, plain)
        np.testing.assert_allclose(
            bs.hessian(lambda x: loss(x, w, bs.checkpoint))(x),
            bs.hessian(lambda x: loss(x, w, lambda f: f))(x),
        )
        t = np.ones(3)
        np.testing.assert_allclose(
            bs.jvp(lambda x: loss(x, w, bs.checkpoint), (x,), (t,))[1],
            bs.jvp(lambda x: loss(x, w, lambda f: f), (x,), (t,))[1],
        )

    def test_checkpoint_differentiates_what_it_closes_over(self):
        f = lambda w: bs.checkpoint(lambda x: np.sin(w * x).sum())(np.arange(3.0))
        g = lambda w: np.sin(w * np.arange(3.0)).sum()
        assert bs.grad(f)(0.7) == pytest.approx(bs.grad(g)(0.7))
        assert bs.grad(bs.grad(f))(0.7) == pytest.approx(bs.grad(bs.grad(g))(0.7))

    def test_checkpoint_keeps_less(self):
        x = np.ones(100_000)

        def deep(x):
            for _ in range(30):
                x = np.sin(x)
            return x

        def peak(f):
            with traced_memory() as memory:
                bs.grad(lambda x: f(f(f(x))).sum())(x)
                return memory()[1]

        assert peak(bs.checkpoint(deep)) < 0.5 * peak(deep)

    def test_function_of_higher_order_and_forward_mode(self):
        class Cube(bs.Function):
            @staticmethod
            def forward(ctx, x):
                square = x * x  # an intermediate: neither input nor output
                ctx.save_for_backward(square)
                return square * x

            @staticmethod
            def backward(ctx, grad):
                (square,) = ctx.saved_tensors
                return 3 * square * grad

        assert bs.grad(Cube.apply)(2.0) == 12.0
        assert bs.grad(bs.grad(Cube.apply))(2.0) == 12.0
        assert bs.grad(bs.grad(bs.grad(Cube.apply)))(2.0) == 6.0
        assert bs.jvp(Cube.apply, (2.0,), (1.0,))[1] == 12.0
        np.testing.assert_allclose(bs.vmap(bs.grad(Cube.apply))(np.arange(3.0)), [0, 3, 12])

    def test_function_with_several_results(self):
        class Polar(bs.Function):
            @staticmethod
            def forward(ctx, x, y):
                ctx.save_for_backward(x, y)
                return np.hypot(x, y), np.arctan2(y, x)

            @staticmethod
            def backward(ctx, dr, da):
                x, y = ctx.saved_tensors
                r = np.hypot(x, y)
                return dr * x / r - da * y / r**2, dr * y / r + da * x / r**2

        f = lambda x, y: np.prod(np.stack(Polar.apply(x, y)))
        g = lambda x, y: np.hypot(x, y) * np.arctan2(y, x)
        np.testing.assert_allclose(bs.grad(f, (0, 1))(1.0, 2.0), bs.grad(g, (0, 1))(1.0, 2.0))

    def test_function_mistakes(self):
        class Wrong(bs.Function):
            @staticmethod
            def forward(ctx, x, y):
                return x * y

            @staticmethod
            def backward(ctx, grad):
                return grad

        with pytest.raises(errors.StructureError, match="expected 2, got 1"):
            bs.grad(Wrong.apply)(1.0, 2.0)

    def test_a_primitive_of_ones_own(self):
        cube = bs.primitive(
            "test_cube",
            lambda a: a**3,
            blocks=(lambda a: bs.operators.Diagonal(3 * a**2),),
            elementwise=True,
        )
        assert bs.grad(cube)(2.0) == 12.0
        assert bs.grad(bs.grad(cube))(2.0) == 12.0
        np.testing.assert_array_equal(bs.vmap(bs.grad(cube))(np.arange(3.0)), [0, 3, 12])
        with pytest.raises(ValueError, match="unique"):
            bs.primitive("test_cube", lambda a: a, blocks=None)


class TestComplex:
    def test_gradient_is_the_direction_of_steepest_ascent(self):
        f = lambda z: np.abs(z) ** 2 + np.real(z) * 3
        z = 1.0 + 2.0j
        assert bs.grad(f)(z) == pytest.approx(2 * z + 3)

    def test_holomorphic_jacobian(self):
        z = np.array([1 + 1j, 2 - 1j])
        np.testing.assert_allclose(bs.jacobian(lambda z: z**2)(z), np.diag(2 * z))
        with pytest.raises(errors.NotScalarError, match="holomorphic"):
            bs.jacobian(np.conj)(z)

    def test_real_to_complex(self):
        J = bs.jacobian(lambda t: np.exp(1j * t))(np.array([0.5]))
        np.testing.assert_allclose(J, [[1j * np.exp(0.5j)]])

    def test_complex_output_of_grad_is_an_error(self):
        with pytest.raises(errors.NotScalarError, match="complex"):
            bs.grad(lambda z: z * z)(1 + 1j)


class TestMistakes:
    def test_not_scalar(self):
        with pytest.raises(errors.NotScalarError, match=r"shape \(3,\).*jacobian") as info:
            bs.grad(lambda x: x * 2)(np.ones(3))
        assert "test_api.py" in str(info.value)

    @pytest.mark.parametrize("x", [2, True, np.arange(3), np.int64(2)])
    def test_integers(self, x):
        with pytest.raises(errors.NotDifferentiableError, match=r"2\.0 for 2"):
            bs.grad(lambda x: x * 1.0)(x)

    def test_integers_in_a_model_are_told_how_to_leave_out(self):
        model = bs.nn.Sequential(bs.nn.Linear(3, 2), bs.nn.Dropout(0.5))
        x = np.ones((4, 3), np.float32)
        with pytest.raises(errors.NotDifferentiableError, match="named_parameters"):
            bs.grad(lambda m: np.sum(m(x)))(model)
        gradient = bs.grad(lambda p: np.sum(model.replace(p)(x)))(model.named_parameters())
        assert gradient["0.weight"].shape == (2, 3)

    def test_argnum_out_of_range(self):
        with pytest.raises(errors.NotDifferentiableError, match="argument 3"):
            bs.grad(lambda x: x, argnums=3)(1.0)
        with pytest.raises(errors.StructureError, match="number of an argument"):
            bs.grad(lambda x, y: x * y, argnums="y")(1.0, 2.0)

    def test_shapes_are_named_with_the_users_line(self):
        with pytest.raises(errors.ShapeError) as info:
            bs.grad(lambda W, x: (W @ x).sum())(np.ones((3, 4)), np.ones(5))
        message = str(info.value)
        assert "(3, 4) and (5,)" in message
        assert "test_api.py" in message
        assert "W @ x" in message

    def test_tangents_of_another_form(self):
        with pytest.raises(errors.StructureError):
            bs.jvp(lambda p: p["a"], ({"a": 1.0},), ([1.0],))
        with pytest.raises(errors.ShapeError):
            bs.jvp(np.sin, (np.ones(3),), (np.ones(4),))
        with pytest.raises(errors.ShapeError):
            bs.vjp(np.sin, np.ones(3))[1](np.ones(4))

    def test_unhashable_metadata(self):
        scaled = bs.primitive(
            "test_scaled",
            lambda a, *, by: a * by[0],
            elementwise=True,
            blocks=(lambda *, by: bs.operators.Scale(by[0]),),
        )
        with pytest.raises(errors.StaticArgumentError, match="hashable"):
            bs.vmap(lambda x: scaled(x, by=[2.0]))(np.ones(3))

    def test_debug_nans_forward(self):
        with bs.debug_nans(), np.errstate(all="ignore"), pytest.raises(errors.NaNError) as info:
            bs.grad(lambda x: np.log(x) * 2)(-1.0)
        assert "`log`" in str(info.value)
        assert "np.log(x)" in str(info.value)

    def test_debug_nans_backward(self):
        f = lambda x: np.sqrt(x) * np.sqrt(x)
        assert np.isnan(bs.grad(f)(0.0))
        with bs.debug_nans(), pytest.raises(errors.NaNError, match="derivative of `sqrt`") as info:
            bs.grad(f)(0.0)
        assert "np.sqrt(x) * np.sqrt(x)" in str(info.value)
        assert np.isnan(bs.grad(f)(0.0))  # switched off again

    def test_every_error_has_a_help_page(self):
        kinds = [
            k
            for k in vars(errors).values()
            if isinstance(k, type) and issubclass(k, errors.BacksolveError)
        ]
        assert len(kinds) > 10
        for kind in kinds:
            assert len(kind.__doc__ or "") > 60, kind


class TestTape:
    def test_only_what_blocks_capture_stays_alive(self):
        def alive_after(f):
            x = bs.tensor(np.ones(1000), requires_grad=True)
            middle = x * 2.0
            array = middle._v
            watch = weakref.ref(array)
            y = f(middle)
            del middle, array
            gc.collect()
            held = watch() is not None
            y.sum().backward()
            return held

        assert not alive_after(lambda m: m + 1.0)
        assert not alive_after(lambda m: m * 3.0)
        assert not alive_after(lambda m: np.exp(m))  # exp keeps its result, not its argument
        assert alive_after(lambda m: np.sin(m))
        assert alive_after(lambda m: m * m)

    def test_no_cycles(self):
        gc.collect()
        gc.disable()
        try:
            x = bs.tensor(np.ones(3), requires_grad=True)
            y = np.tanh(np.exp(x)).sum()
            watch = weakref.ref(y.row.primitive and y)
            del y
            assert watch() is None
            bs.grad(lambda x: np.tanh(np.exp(x)).sum())(np.ones(3))
            gc.set_debug(gc.DEBUG_SAVEALL)  # threads of other tests may leave garbage of their own
            gc.collect()
            kinds = (bs.Tensor, Row, np.ndarray)
            assert not [x for x in gc.garbage if isinstance(x, kinds)], gc.garbage
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            gc.enable()

    def test_a_row_costs_under_400_bytes(self):
        x = bs.tensor(1.0, requires_grad=True)
        n = 20_000
        for step, ops in (
            (lambda y: y * 1.0001, 1),
            (lambda y: y * y, 1),
            (np.sin, 1),
            (lambda y: (y + y) * 0.5, 2),
        ):
            with traced_memory() as memory:
                y = x
                for _ in range(n):
                    y = step(y)
                used = memory()[0]
            assert used / (n * ops) < 400

    def test_a_million_rows(self):
        def chain(n):
            x = bs.tensor(1.0, requires_grad=True)
            y = x
            for _ in range(n):
                y = y * 1.0 + 0.0
            y.backward()
            return x.grad

        assert chain(500_000) == 1.0

    def test_reading_every_entry_is_linear(self):
        """n reads of an n-vector: the adjoints are added in place, not as n vectors."""

        def f(x):
            total = 0.0
            for k in range(len(x)):
                total = total + x[k] * x[k]
            return total

        x = np.arange(2000.0)
        with traced_memory() as memory:
            g = bs.grad(f)(x)
            peak = memory()[1]
        np.testing.assert_array_equal(g, 2 * x)
        assert peak < 2000 * 4 * 400 + 20 * x.nbytes  # two reads, a product and a sum each


@pytest.mark.parametrize("mode", ["auto", "forward", "reverse"])
def test_jacobians_of_compiled_functions_are_arrays(mode):
    x = np.arange(4.0)
    found = bs.jacobian(bs.jit(lambda x: x**2), method=mode)(x)
    assert type(found) is np.ndarray
    np.testing.assert_array_equal(found, np.diag(2 * x))
    outer = bs.grad(lambda x: bs.jacobian(bs.jit(lambda x: x**3), method=mode)(x).sum())(x)
    np.testing.assert_array_equal(outer, 6 * x)
    assert isinstance(bs.jacobian(bs.jit(np.sin), method=mode)(bs.tensor(x)), bs.Tensor)


def test_a_mapped_pullback_gives_arrays() -> None:
    """Unless somebody outside varies what it was made at."""
    _, pull = bs.vjp(np.sin, np.ones(3))
    (found,) = bs.vmap(pull)(np.eye(3))
    assert type(found) is np.ndarray
    np.testing.assert_allclose(found, np.cos(1.0) * np.eye(3))

    outer = bs.grad(lambda x: bs.vmap(bs.vjp(np.sin, x)[1])(np.eye(3))[0].sum())
    np.testing.assert_allclose(outer(np.ones(3)), -np.sin(np.ones(3)))

    x = bs.tensor(np.ones(3), requires_grad=True)
    bs.vmap(bs.vjp(np.sin, x)[1])(np.eye(3))[0].sum().backward()
    np.testing.assert_allclose(x.grad, -np.sin(np.ones(3)))


def test_a_pullback_of_a_leaf() -> None:
    seed = bs.tensor(np.ones(3), requires_grad=True)
    bs.vjp(np.sin, np.ones(3))[1](seed)[0].sum().backward()
    np.testing.assert_allclose(seed.grad, np.cos(np.ones(3)))


def test_what_is_kept_of_a_finished_differentiation_is_a_constant():
    kept = []

    def f(x):
        kept.append(np.sin(x))
        with pytest.raises(errors.DroppedDerivativeError):
            kept[-1].tolist()
        return np.sum(kept[-1] ** 2)

    x = np.array([0.5, 1.0])
    for run in (bs.grad(f), bs.jacobian(f, method="forward"), lambda x: bs.jvp(f, (x,), (x,))):
        run(x)
        np.testing.assert_array_equal(np.asarray(kept[-1]), np.sin(x))
        compiled = bs.jit(lambda y, t=kept[-1]: y * t)
        np.testing.assert_array_equal(compiled(x), x * np.sin(x))
        assert compiled.stats()["specialisations"]  # compiled, though it closes over a tensor
    own = bs.tensor(x, requires_grad=True)
    with pytest.raises(errors.DroppedDerivativeError):
        np.asarray(np.sin(own))


def test_what_an_outer_differentiation_varies_is_no_constant_yet():
    kept = []

    def keep(y):
        kept.append(y)
        return y

    def outer(x):
        bs.grad(lambda y: keep(x * y))(2.0)
        bs.grad(lambda y: keep(np.sin(y)))(2.0)
        bs.grad(lambda y: keep(np.sin(y)))(x)
        for k in (0, 2):  # x varies them still
            with pytest.raises(errors.DroppedDerivativeError):
                float(kept[k])
        assert float(kept[1]) == np.sin(2.0)
        return x**2

    assert bs.grad(outer)(3.0) == 6.0
    assert [float(y) for y in kept] == [6.0, np.sin(2.0), np.sin(3.0)]


def test_arguments_in_the_wrong_form_are_named():
    x = np.ones(3)
    with pytest.raises(errors.StructureError, match=r"jvp\(f, \(x,\), \(dx,\)\); got ndarray"):
        bs.jvp(np.sin, x, x)
    with pytest.raises(errors.StructureError, match=r"jvp\(f, \(x,\), \(dx,\)\); got ndarray"):
        bs.jvp(np.sin, (x,), x)
    with pytest.raises(errors.StructureError, match=r"argnums of `grad` .* got 1\.0"):
        bs.grad(np.sum, argnums=1.0)(x)
    with pytest.raises(errors.ShapeError, match=r"vmap maps axis 0 .* np\.array"):
        bs.vmap(lambda x: x)([1.0, 2.0])
    with pytest.raises(errors.ShapeError, match=r"of a list, np\.array.*got shapes \(\)"):
        bs.recurrence(lambda h, x: h + x, 0.0, [1.0, 2.0])
    with pytest.raises(errors.StructureError, match="pattern=P"):
        bs.jacobian(np.sin, sparse=np.eye(3))(x)
    for manifold in (bs.manifolds.Sphere, x):
        with pytest.raises(errors.StructureError, match=r"Sphere\(\) and then an array"):
            bs.on(manifold, np.array([1.0, 0.0]))
