"""How compiled functions are called, kept and refused: names, methods, copies, messages."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve.errors import TracedValueError, UnsupportedError


@bs.jit
def doubled(x):
    return 2 * x


def halved(x):
    return x / 2


class Model:
    scale = 3.0

    @staticmethod
    @bs.jit
    def plain(x):
        return x + 1

    def scaled(self, x, times=1):
        return self.scale * x * np.ones(times)

    scaled = bs.jit(scaled, static_argnums=(0, 2))


class TestNames:
    def test_a_static_argument_by_name(self):
        f = bs.jit(lambda x, n, m=1: np.ones((n, m)) * x, static_argnums=(1, -1))
        for _ in range(2):
            assert f(2.0, 3).shape == (3, 1)
            assert f(2.0, n=3).shape == (3, 1)
            assert f(n=4, x=2.0, m=2).shape == (4, 2)
            assert f(2.0, 3, m=5).shape == (3, 5)

    def test_a_donated_argument_by_name(self):
        f = bs.jit(lambda p, q, r: (p + q["a"], q["a"] * r), donate=(0, 1))
        p, a, r = np.ones(3), np.full(3, 2.0), np.full(3, 5.0)
        first, second = f(r=r, q={"a": a}, p=p)
        assert {id(first), id(second)} == {id(p), id(a)}
        np.testing.assert_array_equal(first, [3, 3, 3])
        np.testing.assert_array_equal(second, [10, 10, 10])
        np.testing.assert_array_equal(r, [5, 5, 5])

    def test_names_of_a_static_argument_are_not_those_of_others(self):
        f = bs.jit(lambda x, /, n=1, **more: x * n + more["x"], static_argnums=0)
        assert f(2, n=3.0, x=1.0) == 7.0


class TestMethods:
    def test_of_an_object(self):
        model = Model()
        np.testing.assert_array_equal(model.scaled(2.0), [6])
        np.testing.assert_array_equal(model.scaled(2.0, times=2), [6, 6])
        assert len(model.scaled.stats()["specialisations"]) == 2
        assert "multiply" in model.scaled.lower(2.0).stages["program"]

    def test_without_one(self):
        assert Model.plain(1.0) == Model().plain(1.0) == 2.0


class TestCopies:
    @pytest.mark.parametrize("f", [doubled, bs.jit(halved, donate=0, fastmath=True), Model.plain])
    def test_pickled(self, f):
        x = np.arange(3.0)
        expected = f(x.copy())
        for again in (pickle.loads(pickle.dumps(f)), copy.copy(f), copy.deepcopy(f)):
            np.testing.assert_array_equal(again(x.copy()), expected)
            assert again._donate == f._donate
            assert again._freedoms == f._freedoms

    def test_what_a_module_knows_stays_itself(self):
        assert pickle.loads(pickle.dumps(doubled)) is doubled
        assert copy.deepcopy({"f": doubled})["f"] is doubled


class TestResultsAreFresh:
    """On the NumPy backend as on the native one."""

    @pytest.mark.parametrize("backend", ["native", "numpy"])
    @pytest.mark.parametrize("dtype", ["f8", "f2", ">f8"])
    def test_results_share_nothing(self, backend, dtype):
        kept = np.arange(3.0).astype(dtype)
        f = bs.jit(lambda x: (x, x[::-1], kept, x, x.T), backend=backend)
        x = np.ones(3, dtype)
        for y in f(x):
            y[:] = 7
        np.testing.assert_array_equal(x, [1, 1, 1])
        for y, expected in zip(f(x), (x, x, np.arange(3), x, x), strict=True):
            np.testing.assert_array_equal(y, expected)
            assert y.flags.writeable


class TestMessages:
    @pytest.mark.parametrize(
        "f",
        [
            lambda n: np.zeros(n),
            lambda n: np.ones((n, 2)),
            lambda n: np.ones((2, 2)).sum(axis=n),
            lambda n: bs.tensor(np.ones((2, 2))).sum(axis=n),
            lambda n: np.sum(bs.tensor(np.ones((2, 2))), axis=(n,)),
        ],
    )
    def test_a_length_or_axis_that_is_not_known(self, f):
        with pytest.raises(TracedValueError, match=r"static_argnums(.|\n)*test_jit_calls.py:\d"):
            bs.jit(f)(1)

    def test_what_cannot_be_compiled(self):
        with pytest.raises(UnsupportedError, match="can neither be compiled"):
            bs.jit(lambda x: np.may_share_memory(x, x))(np.ones(3))

    def test_what_is_no_function(self):
        with pytest.raises(TypeError, match="compiles a function, got 3"):
            bs.jit(3)

        def numbers(x):
            yield x

        async def later(x):
            return x

        for f in (numbers, later):
            with pytest.raises(TypeError, match="a generator or a coroutine"):
                bs.jit(f)

    @pytest.mark.parametrize("backend", ["native", "numpy"])
    @pytest.mark.parametrize(
        ("f", "args", "error"),
        [
            (lambda a: np.linalg.cholesky(a) * 2, (-np.eye(3),), np.linalg.LinAlgError),
            (lambda a: np.linalg.solve(a, a) * 2, (np.zeros((3, 3)),), np.linalg.LinAlgError),
            (lambda a: np.linalg.inv(a) * 2, (np.zeros((3, 3)),), np.linalg.LinAlgError),
            (lambda a, i: a[i] * 2, (np.zeros(3), np.array([5])), IndexError),
        ],
    )
    def test_the_line_of_a_failure(self, f, args, error, backend):
        with pytest.raises(error, match=r"test_jit_calls.py:\d+: \("):
            bs.jit(f, backend=backend)(*args)

    def test_the_line_of_a_division_by_zero(self):
        with pytest.raises(ZeroDivisionError, match=r"`floor_divide`, at .*test_jit_calls.py:\d"):
            bs.jit(lambda a: 3 // a)(np.array([1, 0]))

        def f(n):
            for k in range(9):
                n = n // (5 - k)
            return n

        with pytest.raises(ZeroDivisionError, match="n = n //"):
            bs.jit(f)(1000)


@dataclasses.dataclass(frozen=True)
class Layer:
    w: Any
    activation: Any = np.tanh
    name: str = "hidden"


class TestResults:
    def test_containers_may_hold_names_and_functions(self):
        step = bs.jit(lambda layer: dataclasses.replace(layer, w=layer.activation(layer.w)))
        for layer in (Layer(np.ones(2)), Layer(np.ones(2), np.sin, "last"), Layer(np.ones(2))):
            for _ in range(2):
                got = step(layer)
                assert (got.activation, got.name) == (layer.activation, layer.name)
                np.testing.assert_allclose(got.w, layer.activation(layer.w))
        slope = bs.grad(lambda w: np.sum(step(Layer(w)).w))(np.ones(2))
        np.testing.assert_allclose(slope, 1 - np.tanh(np.ones(2)) ** 2)

    def test_among_numbers(self):
        f = bs.jit(lambda x: {"x": 2 * x, "kind": "double", "n": 3, "is": True, "t": (int, None)})
        for _ in range(2):
            assert f(1.0) == {"x": 2.0, "kind": "double", "n": 3, "is": True, "t": (int, None)}
        assert bs.jit(lambda x: "nothing else")(1.0) == "nothing else"

    def test_those_that_do_not_vary_are_constants(self):
        @bs.jit
        def f(x, y):
            doubled = x
            while doubled < 10:
                doubled = 2 * doubled
            return x * y, np.floor(x) * y, np.floor(x), doubled, y

        seen = []

        def product(x):
            seen[:] = f(x, 3.0)
            return sum(seen)

        assert bs.grad(product)(1.5) == 3.0 + 8.0
        assert [y.row is None for y in seen] == [False, True, True, False, True]
        assert [float(y) for y in seen] == [4.5, 3.0, 1.0, 12.0, 3.0]
        assert bs.jvp(product, (1.5,), (1.0,)) == (23.5, 11.0)
        assert bs.grad(lambda y: sum(f(1.5, y)))(3.0) == 1.5 + 1.0 + 1.0
        both = bs.jacobian(f, argnums=(0, 1))(1.5, 3.0)
        np.testing.assert_allclose(both, [(3, 1.5), (0, 1), (0, 0), (8, 0), (0, 1)])
