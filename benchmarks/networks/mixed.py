"""Training steps on a device, for gpu.py: SGD on float32 parameters, the network in bfloat16 or float32.

Each maker gives a function that takes one more step and gives the loss as an array of its library, not
waited for. What must have 32 bits has them everywhere: statistics, softmax, losses, parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

RATE = 1e-2
Step = Callable[[], Any]
Arrays = dict[str, Any]


# ---- ours


def ours(
    kind: str, settings: Any, first: Arrays, x: Any, y: Any, low: bool, precision: str
) -> Step:
    import jax

    import backsolve as bs
    from backsolve.interop.torch import load_state_dict

    from .ours import KINDS

    model = load_state_dict(KINDS[kind](*settings), first)
    arrays = model.named_parameters(), model.named_buffers()
    held = [{k: jax.device_put(a) for k, a in named.items()} for named in arrays]  # in their order
    given = jax.device_put(_inputs(x)), jax.device_put(y)

    def narrow(a: Any) -> Any:
        return a.astype(np.float16) if low and a.dtype == np.float32 else a

    def step(parameters: Arrays, buffers: Arrays, x: Any, y: Any) -> Any:
        def loss(p: Arrays) -> Any:
            now = model.replace({**{k: narrow(a) for k, a in p.items()}, **buffers})
            return bs.nn.functional.cross_entropy(now(narrow(x)), y), now.named_buffers()

        (value, after), g = bs.value_and_grad(loss, has_aux=True)(parameters)
        return value, {k: a - RATE * g[k] for k, a in parameters.items()}, after

    run = bs.jit(step, donate=(0, 1), backend="xla", precision=precision, half="bfloat16")

    def advance() -> Any:
        value, held[0], held[1] = run(*held, *given)
        return value

    return advance


def _inputs(x: Any) -> Any:
    return x if x.dtype == np.float32 else x.astype(np.int32)


# ---- JAX, channels last


def in_jax(
    kind: str, settings: Any, first: Arrays, x: Any, y: Any, low: bool, precision: str
) -> Step:
    import jax
    import jax.numpy as jnp

    from .mixed_jax import KINDS

    values = {k: jnp.asarray(v) for k, v in first.items() if not k.endswith("tracked")}
    values = {k: v.transpose(2, 3, 1, 0) if v.ndim == 4 else v for k, v in values.items()}
    x = jnp.asarray(_inputs(x).transpose(0, 2, 3, 1) if x.ndim == 4 else _inputs(x))
    y = jnp.asarray(y)
    buffers = {k: v for k, v in values.items() if k.endswith(("running_mean", "running_var"))}
    parameters = {k: v for k, v in values.items() if k not in buffers}
    dtype = jnp.bfloat16 if low else jnp.float32

    def narrow(a: Any) -> Any:
        return a.astype(dtype) if a.dtype == jnp.float32 else a

    def step(p: Arrays, buffers: Arrays, x: Any, y: Any) -> Any:
        def loss(p: Arrays) -> Any:
            scores, new = KINDS[kind](
                {k: narrow(a) for k, a in p.items()}, buffers, narrow(x), *settings
            )
            logs = jax.nn.log_softmax(scores.astype(jnp.float32), axis=-1)
            return -jnp.take_along_axis(logs, y[..., None], axis=-1).mean(), new

        (value, new), g = jax.value_and_grad(loss, has_aux=True)(p)
        return value, {k: a - RATE * g[k] for k, a in p.items()}, new

    run = jax.jit(step, donate_argnums=(0, 1))
    held = [parameters, buffers]

    def advance() -> Any:
        with jax.default_matmul_precision("highest" if precision == "highest" else "default"):
            value, held[0], held[1] = run(*held, x, y)
        return value

    return advance


# ---- PyTorch


def in_torch(
    kind: str, settings: Any, first: Arrays, x: Any, y: Any, low: bool, precision: str
) -> Step:
    import torch

    from .in_torch import KINDS

    exact = precision == "highest"
    torch.set_float32_matmul_precision("highest" if exact else "high")
    torch.backends.cudnn.allow_tf32 = not exact
    torch.backends.cudnn.benchmark = True
    torch.compiler.reset()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = KINDS[kind](*settings)
    model.load_state_dict({k: torch.from_numpy(v.copy()) for k, v in first.items()})
    model = model.to(device)
    x, y = torch.from_numpy(x).to(device), torch.from_numpy(y).to(device)
    if x.ndim == 4:
        model, x = (a.to(memory_format=torch.channels_last) for a in (model, x))
    optimiser = torch.optim.SGD(model.parameters(), RATE)

    @torch.compile
    def loss(x: Any, y: Any) -> Any:
        with torch.autocast(device, torch.bfloat16, enabled=low):
            scores = model(x)
        return torch.nn.functional.cross_entropy(scores.float(), y)

    def step() -> Any:
        optimiser.zero_grad(set_to_none=True)
        value = loss(x, y)
        value.backward()
        optimiser.step()
        return value.detach()

    return step


MAKERS = {"backsolve": ours, "jax.jit": in_jax, "torch.compile": in_torch}
