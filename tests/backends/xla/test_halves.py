"""16-bit floats through XLA: np.float16 in Programs, float16 or bfloat16 on the device."""

import numpy as np
import pytest

import backsolve as bs

jnp = pytest.importorskip("jax.numpy")
F = bs.nn.functional
HALVES = {"float16": 2e-3, "bfloat16": 2e-2}


def test_products_have_16_bits_and_sums_32():
    ones = np.ones((2, 4096), np.float16)

    def f(a, b):
        return a @ b, np.sum(a), a @ b[:, 0], np.einsum("ij,ij->i", a, a), np.mean(a, axis=1)

    for half in HALVES:
        run = bs.jit(f, backend="xla", half=half)
        got = run(ones, ones.T.copy())
        assert all(y.dtype == jnp.dtype(half) for y in got)
        # added up in bfloat16, ones would stay at 256
        assert [float(jnp.ravel(y)[0]) for y in got] == [4096, 8192, 4096, 4096, 1]
        short = {"float16": "f16", "bfloat16": "bf16"}[half]
        text = run.lower(ones, ones.T.copy()).stages["stablehlo"]
        product = next(line for line in text.splitlines() if "dot_general" in line)
        assert f"(tensor<2x4096x{short}>, tensor<4096x2x{short}>) -> tensor<2x2x{short}>" in product


def test_loops_branches_and_moves():
    rng = np.random.default_rng(0)
    w, x = (rng.normal(size=s).astype(np.float16) for s in ((4, 4), (3, 4)))

    def f(w, x):
        for _ in range(3):
            x = np.tanh(x @ w)
        while np.sum(x) < 20:
            x = x + 1
        return np.sum(np.where(x > 0.5, x, 0)) + np.sum(np.sort(x, axis=1)[:, 1:] * x[:, ::2][0, 0])

    wide = bs.grad(f)(w.astype(float), x.astype(float))
    for half, tolerance in HALVES.items():
        got = bs.jit(bs.grad(f), backend="xla", half=half)(w, x)
        assert got.dtype == jnp.dtype(half)
        error = np.abs(np.asarray(got, float) - wide).max()
        assert error < 4 * tolerance * np.abs(wide).max()


def test_arrays_of_either_kind_are_the_16_bit_float():
    run = bs.jit(lambda x: x * 3, backend="xla", half="bfloat16")
    large = jnp.asarray([1e30, 2.0], jnp.bfloat16)
    assert run(large).dtype == jnp.bfloat16
    assert float(run(large)[0]) == float(large[0] * 3)  # float16 would be infinite
    assert run(np.ones(2, np.float16)).dtype == jnp.bfloat16
    assert len(run.stats()["specialisations"]) == 1
    narrow = bs.jit(lambda x: x * 3, backend="xla")
    assert narrow(np.ones(2, np.float16)).dtype == np.float16
    with pytest.raises(bs.errors.DTypeError, match='compile it with half="bfloat16"'):
        narrow(large)


def test_attention_computes_its_weights_once():
    rng = np.random.default_rng(0)
    q, k, v = rng.normal(size=(3, 2, 2, 32, 8))

    def gradients(q, k, v):
        f = lambda *a: np.sum(F.scaled_dot_product_attention(*a, is_causal=True) ** 2)
        return bs.grad(f, argnums=(0, 1, 2))(q, k, v)

    expected = gradients(q, k, v)
    for half, tolerance in HALVES.items():
        run = bs.jit(gradients, backend="xla", half=half)
        halves = [a.astype(np.float16) for a in (q, k, v)]
        for a, b in zip(run(*halves), expected, strict=True):
            assert np.abs(np.asarray(a, float) - b).max() < tolerance * np.abs(b).max()
        text = run.lower(*halves).stages["hlo"]
        assert text.count("exponential(") == 1
        assert text.count(" dot(") == 6


def test_attention_and_its_adjoints_share_two_kernels_on_a_gpu(monkeypatch):
    """With a kernel in plain JAX in the place of cuDNN's, which the CPU has not."""
    import jax

    from backsolve.backends.xla.rows import networks

    shape = (2, 2, networks._KEYS_AT_A_TIME, 8)
    rng = np.random.default_rng(0)
    q, k, v, w = rng.normal(size=(4, *shape))
    calls = []
    attend = jax.nn.dot_product_attention

    def double(*args, **kwargs):
        calls.append(kwargs.pop("implementation"))
        return attend(*args, **kwargs)

    def gradients(q, k, v, w):
        f = lambda *a: np.sum(F.scaled_dot_product_attention(*a, is_causal=True) * w)
        value, g = bs.value_and_grad(f, argnums=(0, 1, 2))(q, k, v)
        return value, *g

    expected = gradients(q, k, v, w)
    halves = [a.astype(np.float16) for a in (q, k, v, w)]
    with monkeypatch.context() as patch:
        patch.setattr(jax.nn, "dot_product_attention", double)
        patch.setattr(jax, "default_backend", lambda: "gpu")
        run = bs.jit(gradients, backend="xla", half="bfloat16")
        got = run(*halves)
        assert calls == ["cudnn"]
        assert run.lower(*halves).stages["hlo"].count("exponential(") == 1
    for a, b in zip(got, expected, strict=True):
        assert np.abs(np.asarray(a, float) - b).max() < 0.05 * np.abs(b).max()


def test_what_is_rounded_on_a_gpu_stays_rounded(monkeypatch):
    """XLA may keep 32 bits where a result of 16 is computed with: between kernels they would be stored."""
    import jax

    given, jit = [], jax.jit

    def watched(f, **options):
        given.append(options.get("compiler_options"))
        return jit(f, **options)

    monkeypatch.setattr(jax, "jit", watched)
    x = np.linspace(-3, 3, 10)
    bs.jit(np.sin, backend="xla")(x.astype(np.float16))
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    bs.jit(np.sin, backend="xla")(x)
    bs.jit(np.sin, backend="xla")(x.astype(np.float16))
    assert given == [None, None, {"xla_allow_excess_precision": False}]


def test_what_is_asked_of_half():
    with pytest.raises(ValueError, match=r"half must be one of float16, bfloat16, got 'float8'"):
        bs.jit(np.sin, backend="xla", half="float8")
    with pytest.raises(ValueError, match='half= are for backend="xla"'):
        bs.jit(np.sin, backend="native", half="bfloat16")
