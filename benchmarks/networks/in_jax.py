"""The networks of training.py in JAX, as functions of a dict of arrays, images with their channels last."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

Arrays = dict[str, Any]


def linear(p: Arrays, name: str, x: Any) -> Any:
    y = x @ p[f"{name}.weight"].T
    return y + p[f"{name}.bias"] if f"{name}.bias" in p else y


def convolution(p: Arrays, name: str, x: Any, stride: int = 1, padding: int = 0) -> Any:
    pads = [(padding, padding)] * 2
    w = p[f"{name}.weight"]
    y = lax.conv_general_dilated(
        x, w, (stride, stride), pads, dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    return y + p[f"{name}.bias"] if f"{name}.bias" in p else y


def pool(x: Any) -> Any:
    b, h, w, c = x.shape
    return x.reshape(b, h // 2, 2, w // 2, 2, c).max((2, 4))


def layer_norm(p: Arrays, name: str, x: Any) -> Any:
    x = x - x.mean(-1, keepdims=True)
    x = x * lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5)
    return x * p[f"{name}.weight"] + p[f"{name}.bias"]


def mlp(p: Arrays, x: Any, *sizes: Any) -> tuple[Any, Arrays]:
    last = len(p) - 2
    for k in range(0, last + 1, 2):
        x = linear(p, str(k), x)
        x = x if k == last else jax.nn.relu(x)
    return x, {}


def lenet(p: Arrays, x: Any) -> tuple[Any, Arrays]:
    x = pool(jax.nn.relu(convolution(p, "conv1", x, padding=2)))
    x = pool(jax.nn.relu(convolution(p, "conv2", x)))
    x = x.transpose(0, 3, 1, 2).reshape(len(x), -1)
    x = jax.nn.relu(linear(p, "fc2", jax.nn.relu(linear(p, "fc1", x))))
    return linear(p, "fc3", x), {}


def resnet18(p: Arrays, x: Any) -> tuple[Any, Arrays]:
    new: Arrays = {}

    def norm(name: str, x: Any) -> Any:
        mean, var = x.mean((0, 1, 2)), x.var((0, 1, 2))
        count = x.size // x.shape[-1]
        seen = (mean, var * (count / (count - 1)))
        for key, value in zip(("running_mean", "running_var"), seen, strict=True):
            new[f"{name}.{key}"] = 0.9 * p[f"{name}.{key}"] + 0.1 * value
        return (x - mean) * lax.rsqrt(var + 1e-5) * p[f"{name}.weight"] + p[f"{name}.bias"]

    x = jax.nn.relu(norm("bn1", convolution(p, "conv1", x, padding=1)))
    for k in range(1, 5):
        for i in range(2):
            name, stride = f"layer{k}.{i}", 2 if k > 1 and i == 0 else 1
            y = jax.nn.relu(norm(f"{name}.bn1", convolution(p, f"{name}.conv1", x, stride, 1)))
            y = norm(f"{name}.bn2", convolution(p, f"{name}.conv2", y, 1, 1))
            if f"{name}.downsample.0.weight" in p:
                x = convolution(p, f"{name}.downsample.0", x, stride)
                x = norm(f"{name}.downsample.1", x)
            x = jax.nn.relu(y + x)
    return linear(p, "fc", x.mean((1, 2))), new


def lstm(p: Arrays, x: Any, *settings: Any) -> tuple[Any, Arrays]:
    x = p["embedding.weight"][x].swapaxes(0, 1)
    inputs = x @ p["lstm.weight_ih_l0"].T + (p["lstm.bias_ih_l0"] + p["lstm.bias_hh_l0"])
    weight = p["lstm.weight_hh_l0"].T
    zero = jnp.zeros((x.shape[1], len(weight)), x.dtype)

    def step(carry: Any, gates: Any) -> Any:
        h, c = carry
        i, f, g, o = jnp.split(gates + h @ weight, 4, axis=-1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    _, h = lax.scan(step, (zero, zero), inputs)
    return linear(p, "linear", h.swapaxes(0, 1)).swapaxes(1, 2), {}


def gpt(p: Arrays, x: Any, letters: int, length: int, width: int, depth: int, heads: int) -> Any:
    n = x.shape[1]
    x = p["wte.weight"][x] + p["wpe.weight"][:n]
    for k in range(depth):
        name = f"h.{k}"
        parts = linear(p, f"{name}.attention", layer_norm(p, f"{name}.ln_1", x))
        q, k_, v = parts.reshape(*x.shape[:2], 3, heads, -1).transpose(2, 0, 3, 1, 4)
        s = q @ k_.swapaxes(-1, -2) * float((width // heads) ** -0.5)
        s = jnp.where(np.tri(n, dtype=bool), s, -jnp.inf)
        y = (jax.nn.softmax(s, axis=-1) @ v).swapaxes(1, 2).reshape(x.shape)
        x = x + linear(p, f"{name}.out", y)
        up = jax.nn.gelu(linear(p, f"{name}.up", layer_norm(p, f"{name}.ln_2", x)))
        x = x + linear(p, f"{name}.down", up)
    return (layer_norm(p, "ln_f", x) @ p["head.weight"].T).swapaxes(1, 2), {}


KINDS = {"mlp": mlp, "lenet": lenet, "resnet18": resnet18, "lstm": lstm, "gpt": gpt}
STATE = ("running_mean", "running_var")


def stepper(
    kind: str, settings: tuple[Any, ...], first: Arrays, x: Any, y: Any
) -> Callable[[], Any]:
    """A function that takes one more step of Adam and gives the loss."""
    values = {k: jnp.asarray(v) for k, v in first.items() if not k.endswith("tracked")}
    values = {k: v.transpose(2, 3, 1, 0) if v.ndim == 4 else v for k, v in values.items()}
    x = jnp.asarray(x.transpose(0, 2, 3, 1) if x.ndim == 4 else x)
    y = jnp.asarray(y)
    buffers = {k: v for k, v in values.items() if k.endswith(STATE)}
    parameters = {k: v for k, v in values.items() if k not in buffers}
    zeros = {k: jnp.zeros_like(v) for k, v in parameters.items()}

    def loss(p: Arrays, buffers: Arrays) -> Any:
        scores, new = KINDS[kind]({**p, **buffers}, x, *settings)
        logs = jax.nn.log_softmax(scores, axis=1)
        return -jnp.take_along_axis(logs, jnp.expand_dims(y, 1), axis=1).mean(), new

    def step(p: Arrays, m: Arrays, v: Arrays, buffers: Arrays, count: Any) -> Any:
        (value, buffers), g = jax.value_and_grad(loss, has_aux=True)(p, buffers)
        m = {k: 0.9 * m[k] + 0.1 * g[k] for k in p}
        v = {k: 0.999 * v[k] + 0.001 * g[k] ** 2 for k in p}
        a, b = 1 - 0.9**count, 1 - 0.999**count
        p = {k: p[k] - 1e-3 / a * m[k] / (jnp.sqrt(v[k] / b) + 1e-8) for k in p}
        return value, p, m, v, buffers

    run = jax.jit(step, donate_argnums=(0, 1, 2, 3))
    # Donated arrays must be the step's own: zeros would be one array twice.
    held = [parameters, zeros, {k: v + 0 for k, v in zeros.items()}, buffers]
    count = 0

    def advance() -> Any:
        nonlocal count
        count += 1
        value, *held[:] = run(*held, np.float32(count))
        return float(value)

    return advance
