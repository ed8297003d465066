"""The networks of gpu.py in JAX, as one writes them well for 16 bits: statistics and softmax in float32."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from .in_jax import Arrays, convolution, linear


def layer_norm(p: Arrays, name: str, x: Any) -> Any:
    wide = x.astype(jnp.float32)
    wide = wide - wide.mean(-1, keepdims=True)
    wide = wide * lax.rsqrt((wide * wide).mean(-1, keepdims=True) + 1e-5)
    return wide.astype(x.dtype) * p[f"{name}.weight"] + p[f"{name}.bias"]


def mlp(p: Arrays, buffers: Arrays, x: Any, *sizes: Any) -> tuple[Any, Arrays]:
    last = len(p) - 2
    for k in range(0, last + 1, 2):
        x = linear(p, str(k), x)
        x = x if k == last else jax.nn.relu(x)
    return x, buffers


def resnet50(
    p: Arrays,
    buffers: Arrays,
    x: Any,
    layers: tuple[int, ...] = (3, 4, 6, 3),
    width: int = 64,
) -> tuple[Any, Arrays]:
    new: Arrays = {}

    def norm(name: str, x: Any) -> Any:
        wide = x.astype(jnp.float32)
        mean = wide.mean((0, 1, 2))
        var = jnp.square(wide - mean).mean((0, 1, 2))
        count = x.size // x.shape[-1]
        seen = (mean, var * (count / (count - 1)))
        for key, value in zip(("running_mean", "running_var"), seen, strict=True):
            new[f"{name}.{key}"] = 0.9 * buffers[f"{name}.{key}"] + 0.1 * value
        scale = lax.rsqrt(var + 1e-5) * p[f"{name}.weight"].astype(jnp.float32)
        return ((wide - mean) * scale + p[f"{name}.bias"]).astype(x.dtype)

    x = jax.nn.relu(norm("bn1", convolution(p, "conv1", x, 2, 3)))
    around = ((0, 0), (1, 1), (1, 1), (0, 0))
    x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), around)
    for k, count in enumerate(layers):
        for i in range(count):
            name, stride = f"layer{k + 1}.{i}", 2 if k and i == 0 else 1
            y = jax.nn.relu(norm(f"{name}.bn1", convolution(p, f"{name}.conv1", x)))
            y = jax.nn.relu(norm(f"{name}.bn2", convolution(p, f"{name}.conv2", y, stride, 1)))
            y = norm(f"{name}.bn3", convolution(p, f"{name}.conv3", y))
            if f"{name}.downsample.0.weight" in p:
                x = convolution(p, f"{name}.downsample.0", x, stride)
                x = norm(f"{name}.downsample.1", x)
            x = jax.nn.relu(y + x)
    return linear(p, "fc", x.mean((1, 2))), new


def gpt(
    p: Arrays,
    buffers: Arrays,
    x: Any,
    letters: int,
    length: int,
    width: int,
    depth: int,
    heads: int,
) -> tuple[Any, Arrays]:
    b, n = x.shape
    x = p["wte.weight"][x] + p["wpe.weight"][:n]
    on_gpu = jax.default_backend() == "gpu" and x.dtype == jnp.bfloat16
    for k in range(depth):
        name = f"h.{k}"
        parts = linear(p, f"{name}.attention", layer_norm(p, f"{name}.ln_1", x))
        q, k_, v = jnp.moveaxis(parts.reshape(b, n, 3, heads, -1), 2, 0)
        y = jax.nn.dot_product_attention(
            q, k_, v, is_causal=True, implementation="cudnn" if on_gpu else None
        )
        x = x + linear(p, f"{name}.out", y.reshape(x.shape))
        up = jax.nn.gelu(linear(p, f"{name}.up", layer_norm(p, f"{name}.ln_2", x)))
        x = x + linear(p, f"{name}.down", up)
    return layer_norm(p, "ln_f", x) @ p["head.weight"].T, buffers


KINDS = {"mlp": mlp, "resnet50": resnet50, "gpt": gpt}
