"""Functions of ours inside JAX's maps: over examples with numbers of their own, and over devices."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import backsolve as bs
from backsolve.interop.jax import function


@pytest.fixture(params=("native", "xla"))
def backend(request):
    return request.param


def test_python_numbers_that_differ_between_examples(backend):
    def grows(x, a):
        y = x
        for i in range(12):
            y = y * a + x[i % 3] * y
        return y * a

    def chosen(f):
        return lambda p, x: jnp.sum(f(x, jax.lax.select(p, 0.5, 1.0)))

    f, x = function(grows, backend=backend), jnp.linspace(0.1, 0.7, 3, dtype=jnp.float32)
    p = jnp.array([True, False])
    for t in (jax.vmap, lambda f, axes: jax.vmap(jax.grad(f, 1), axes)):
        got, expected = (t(chosen(g), (0, None))(p, x) for g in (f, grows))
        assert got.dtype == expected.dtype
        np.testing.assert_allclose(got, expected, rtol=1e-5)
        assert not t(chosen(f), (0, None))(p[:0], x).size


def test_shard_map_is_told_not_to_ask_what_differs_between_devices(backend):
    f = function(np.sin, backend=backend)
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("i",))
    parts = jax.sharding.PartitionSpec("i")

    def total(x, **how):
        mapped = jax.shard_map(f, mesh=mesh, in_specs=parts, out_specs=parts, **how)
        return mapped(x).sum()

    x = jnp.linspace(0, 1, 4)
    np.testing.assert_allclose(jax.grad(total)(x, check_vma=False), jnp.cos(x), rtol=1e-6)
    with pytest.raises(bs.errors.UnsupportedError, match="check_vma=False"):
        total(x)
