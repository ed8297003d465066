"""What goes into functions compiled by XLA and what comes out, and all that may be asked of them."""

import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest

import backsolve as bs
from backsolve.backends.xla.library import explained

jax = pytest.importorskip("jax")
jnp = jax.numpy

X = np.array([1.0, 2.0, 3.0])
S = np.float32([1.0, 2.0])


@pytest.fixture
def everywhere():
    bs.set_default_backend("xla")
    yield
    bs.set_default_backend("native")


def compiled(f, **options):
    return bs.jit(f, backend="xla", **options)


def test_arrays_of_both_libraries_go_in_and_stay_on_the_device():
    f = compiled(lambda x: x * 2 + 1)
    for x in (X, jax.device_put(S), np.float32(2), np.array(2.0), X[::2], X.astype(">f8")):
        y = f(x)
        assert isinstance(y, jax.Array)
        expected = np.asarray(x) * 2 + 1
        assert y.dtype == expected.dtype.newbyteorder("=")
        np.testing.assert_array_equal(y, expected)
    y = f(f(f(S)))
    assert y.dtype == np.float32
    np.testing.assert_array_equal(np.from_dlpack(y), 8 * S + 7)


def test_python_numbers_come_back_as_they_do_from_native_code():
    def f(x, t):
        return x * t, t + 1, {"loss": x.sum(), "three": 3, "none": None}

    y, t, rest = compiled(f)(S, 2)
    native = bs.jit(f)(S, 2)
    assert y.dtype == native[0].dtype == np.float32
    assert (type(t), t) == (type(native[1]), native[1]) == (int, 3)
    assert rest["three"] == 3
    assert rest["none"] is None
    assert compiled(lambda x: x * 2)(True) == 2
    assert compiled(lambda x, y: x * y)(2.5, np.array([1, 2])).dtype == np.float64


def test_sixty_four_bits_are_no_setting_of_jax():
    before = jax.numpy.arange(3.0).dtype
    assert compiled(lambda x: x + 1)(X).dtype == np.float64
    assert jax.numpy.arange(3.0).dtype == before


def test_containers_and_static_arguments():
    f = compiled(lambda d, n, s: {"a": d["a"] * n, "b": [d["b"][0], None]}, static_argnums=1)
    given = {"a": jnp.ones(2), "b": (X,)}
    for _ in range(3):
        y = f(given, 3, None)
        np.testing.assert_array_equal(y["a"], [3, 3])
        np.testing.assert_array_equal(y["b"][0], X)
    assert f.stats()["cache_hits"] == 2
    np.testing.assert_array_equal(f(given, 4, None)["a"], [4, 4])


def test_donated_arrays():
    f = compiled(lambda x, y: (x + y, y.sum()), donate=0)
    a, b = jnp.ones(3, np.float32), jnp.ones(3, np.float32)
    np.testing.assert_array_equal(f(a, b)[0], [2, 2, 2])
    assert a.is_deleted()
    np.testing.assert_array_equal(f(b, b)[0], [2, 2, 2])
    assert not b.is_deleted()
    mine = X.copy()
    f(mine, X)
    np.testing.assert_array_equal(mine, X)


def test_an_array_that_was_given_away_is_told_so():
    f, x = compiled(lambda x: x * 2, donate=0), jax.numpy.ones(3)
    f(x)
    with pytest.raises(bs.errors.DeviceError, match="memory of argument 0 was given away"):
        f(x)


def test_donated_arrays_of_a_program_that_may_run_again():
    def f(x):
        s = x
        while np.sum(s) < 1000.0:
            s = s * 1.01
        return s

    x = jnp.ones(3, np.float32)
    with jax.enable_x64(True):
        y = compiled(bs.checkpoint(bs.grad(lambda x: np.sum(f(x)))), donate=0)(x)
    np.testing.assert_allclose(
        y, bs.grad(lambda x: np.sum(f(x)))(np.ones(3, np.float32)), rtol=1e-5
    )


def test_derivatives_of_compiled_functions():
    f = compiled(lambda x: np.sum(np.sin(x) * x))
    slope = np.cos(X) * X + np.sin(X)
    np.testing.assert_allclose(bs.grad(f)(X), slope)
    np.testing.assert_allclose(compiled(bs.grad(f))(X), slope)
    np.testing.assert_allclose(bs.grad(f)(jnp.asarray(S)), np.cos(S) * S + np.sin(S), rtol=1e-6)
    np.testing.assert_allclose(bs.hessian(f)(X), np.diag(2 * np.cos(X) - X * np.sin(X)))
    np.testing.assert_allclose(bs.vmap(f)(np.stack([X, X])), [np.sum(np.sin(X) * X)] * 2)
    assert isinstance(f(bs.tensor(X)), bs.Tensor)


def test_compiled_functions_call_each_other():
    inner, native = compiled(lambda x: np.sin(x) * 2), bs.jit(lambda x: x * 3)
    both = compiled(lambda x: inner(x) + native(x))
    np.testing.assert_allclose(both(X), np.sin(X) * 2 + X * 3)
    assert isinstance(both(X), jax.Array)
    np.testing.assert_allclose(bs.jit(lambda x: inner(x) + 1)(X), np.sin(X) * 2 + 1)


def double(x):
    return x * 2


def test_pickles_and_threads():
    f = pickle.loads(pickle.dumps(compiled(double)))
    assert f.target.backend == "xla"
    results = {}
    threads = [threading.Thread(target=lambda k=k: results.update({k: f(X * k)})) for k in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for k in range(6):
        np.testing.assert_array_equal(results[k], X * k * 2)


def test_what_was_made_can_be_looked_at():
    f = compiled(lambda x: bs.scipy.special.jv(1.0, x) + 1)
    f(X)
    stages = f.lower(X).stages
    assert list(stages) == ["program", "rewritten", "stablehlo", "hlo"]
    assert "stablehlo.add" in stages["stablehlo"]
    assert "HloModule" in stages["hlo"]
    (made,) = f.stats()["specialisations"]
    assert made["code"] == "xla"
    assert made["rows_elsewhere"] == ["jv"]


def test_arithmetic_of_floats_calls_no_functions():
    """What jax.numpy wraps into functions is traced for each set of shapes, and called in the text."""

    def f(x, y, t):
        small = np.where(x > 0, x * y - 2.5, np.maximum(t, -1e5) / y)
        return np.where(t != 2, np.exp(-small), 1e300 if x.dtype == float else 70_000)

    f_compiled = compiled(f)
    for dtype in (np.float32, np.float64):
        x = np.linspace(-1, 1, 12, dtype=dtype).reshape(4, 1, 3)
        given = x, np.array([2, 3, 4], dtype), np.array([[2], [np.nan]], dtype)
        found = f_compiled(*given)
        assert found.dtype == dtype
        np.testing.assert_allclose(found, f(*given), rtol=1e-6)
        assert "call" not in f_compiled.lower(*given).stages["stablehlo"]


def test_a_row_on_the_host_raises_its_own_error(judged):
    f = compiled(lambda x: judged(x) + 1)
    np.testing.assert_array_equal(f(X), X * 2 + 1)
    with pytest.raises(KeyError, match="a refusal of its own"):
        f(X + 2)
    np.testing.assert_array_equal(f(X), X * 2 + 1)


def test_values_that_jax_traces_are_refused():
    f = compiled(lambda x: np.sum(x * x))
    for transform in (jax.jit, jax.grad):
        with pytest.raises(bs.errors.TracedValueError, match=r"bs\.interop\.jax\.function"):
            transform(lambda x: f(x))(jnp.asarray(S))


def test_wide_floats_are_refused():
    with pytest.raises(bs.errors.BackendError, match="float64"):
        compiled(lambda x: x + 1)(X.astype(np.longdouble))


def test_a_device_that_is_not_there():
    with pytest.raises(bs.errors.DeviceError, match="JAX finds"):
        compiled(lambda x: x + 1, device="tpu")(X)
    with pytest.raises(bs.errors.DeviceError, match="numbered from 0"):
        compiled(lambda x: x + 1, device="cpu:99")(X)


def test_without_jax_it_says_what_to_install():
    text = "import sys; sys.modules['jax'] = None; import backsolve as bs; bs.jit(abs, backend='xla')(1.0)"
    ran = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert "pip install 'backsolve[xla]'" in ran.stderr.splitlines()[-1]


# ---- as the default


def test_random_numbers_have_the_same_bits(everywhere):
    def draw(key):
        kinds = bs.random.uniform, bs.random.normal
        return [kind(key, (5,)) for kind in kinds], bs.random.integers(key, 0, 1000, (6,))

    key = bs.random.key(3)
    got = bs.jit(draw)(key)
    bs.set_default_backend("native")
    expected = bs.jit(draw)(key)
    np.testing.assert_array_equal(got[0][0], expected[0][0])
    np.testing.assert_allclose(got[0][1], expected[0][1], rtol=1e-14)
    np.testing.assert_array_equal(got[1], expected[1])


def test_training_by_default(everywhere):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(64, 4)).astype(np.float32)
    y = (x @ rng.normal(size=(4, 2))).astype(np.float32)

    def train():
        bs.nn.manual_seed(0)
        model = bs.nn.Sequential(bs.nn.Linear(4, 8), bs.nn.Tanh(), bs.nn.Linear(8, 2))
        loss = lambda output, target: np.mean((output - target) ** 2)
        options = {"epochs": 3, "batch_size": 16, "progress": False}
        fitted = bs.fit(model, loss, (x, y), optimizer=bs.optim.Adam(0.01), **options)
        return [row["loss"] for row in fitted.history.rows]

    losses = train()
    bs.set_default_backend("native")
    np.testing.assert_allclose(losses, train(), rtol=1e-4)
    assert losses[-1] < losses[0]


def test_constants_of_equal_entries_are_filled_in_where_they_are_read():
    def framed(x, key):
        whole = np.full((70, 80), -np.inf)
        whole[key] = x
        return whole

    keys = [(slice(1, -1, 2), 3), (slice(-2, None, -3), slice(0, 80, 7)), 5, (slice(3, 3), 1)]
    for key in keys:
        x = np.arange(np.zeros((70, 80))[key].shape[-1], dtype=float)
        f = compiled(lambda x, key=key: framed(x, key))
        np.testing.assert_array_equal(np.asarray(f(x)), framed(x, key))
        taken, text = f.lower(x).stages["stablehlo"].split("->", 1)
        assert "70x80" not in taken  # no such argument
        assert "scatter" not in text
        assert "dynamic_update_slice" not in text


def test_too_little_memory_is_explained():
    said = "RESOURCE_EXHAUSTED: Out of memory allocating 272000000000016 bytes."
    error = explained(RuntimeError(said), [])
    assert isinstance(error, bs.errors.DeviceError)
    assert "272000000000016 bytes" in str(error)
    assert "smaller batches" in str(error)
    assert explained(RuntimeError("INTERNAL: something else"), []) is None


NARROWED = ["sum", "mean", "max", "min", "amax", "amin", "prod", "cumsum", "cumprod", "std", "var"]


@pytest.mark.parametrize("name", NARROWED)
@pytest.mark.parametrize("dtype", ["float64", "complex128", "int64", "float32"])
def test_functions_of_the_namespace_keep_64_bits(name, dtype):
    x = (X * (1 + 1e-12)).astype(dtype)
    on_device = compiled(lambda x: x * 1)(x)
    found = getattr(bs.numpy, name)(on_device)
    expected = getattr(np, name)(x)
    assert isinstance(found, jax.Array)
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-6 if dtype == "float32" else 1e-15)
    assert getattr(bs.numpy, name)(jnp.asarray(S)).dtype == np.float32
    assert not jax.config.jax_enable_x64


def test_functions_of_the_namespace_inside_jax_stay_as_they_are():
    f = jax.jit(lambda x: bs.numpy.sum(x, dtype=None) + bs.numpy.max(x))
    assert f(S).dtype == np.float32
    assert jax.grad(f)(S).tolist() == [1.0, 2.0]
