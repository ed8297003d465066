"""Functions of ours inside JAX: `jit`, `grad`, `vmap`, `jvp` and `jacobian` take them, in any nesting.

JAX sees one primitive (primitive.py). Its derivatives and its batches are Programs of ours (operator.py), which
run as native code that XLA calls, or are written out as XLA's own (running.py).

>>> import jax, jax.numpy as jnp, numpy as np
>>> import backsolve as bs
>>> f = bs.interop.jax.function(lambda x: np.sort(x)[:2].sum() * x[0])
>>> print(jax.jit(jax.grad(f))(jnp.array([2.0, 3.0, 1.0])))
[5. 0. 2.]
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ...backends.xla.library import jax
from ...compiled import Jitted
from ...compiled.arguments import exactly
from ...errors import StaticArgumentError, TracedValueError, location_of

BACKENDS = (None, "native", "xla")
_ROUNDS = 1024


def function(
    f: Callable[..., Any] | None = None,
    *,
    backend: str | None = None,
    static_argnums: int | Sequence[int] = (),
    rounds: int = _ROUNDS,
) -> Any:
    """f, written for NumPy, as a function of JAX's arrays that all transformations of JAX's take.

    `backend="native"` compiles it, plain loops included, to code that XLA calls on the CPU; "xla" writes it
    out in XLA's own operations, for any device. Left out, it is native where JAX computes on the CPU.

    Arguments and results are numbers, arrays and pytrees of them; types follow JAX's settings: without
    `jax_enable_x64` nothing has 64 bits outside. What is no number is static and hashable, declared by
    `static_argnums`. Whatever fails inside is an error of JAX's with our message, and the exception itself
    where no `jax.jit` stands around.

    Native functions of one real number compute its gradient along with it where one is asked for; those of
    many results keep what the backward pass needs of the way to them, where that pays.

    `rounds` bounds, with "xla", how often a `while` may go round whose derivative is taken.

    >>> import jax, numpy as np
    >>> f = function(lambda x, n: (x**n).sum(), static_argnums=1)
    >>> print(jax.grad(f)(np.arange(3.0), 2))
    [0. 2. 4.]
    """
    if backend not in BACKENDS:
        raise ValueError(f'backend must be "native" or "xla", got {backend!r}')
    if type(rounds) is not int or rounds < 1:
        raise ValueError(f"rounds must be a positive integer, got {rounds!r}")
    if f is None:
        return functools.partial(
            function, backend=backend, static_argnums=static_argnums, rounds=rounds
        )
    jax()  # or say what to install
    return Function(f, backend, static_argnums, rounds)


class Function:
    """What `function` returns: it stages f once for each set of types."""

    def __init__(
        self, f: Callable[..., Any], backend: str | None, static: int | Sequence[int], rounds: int
    ):
        jitted = f if isinstance(f, Jitted) else Jitted(f, static, None)
        functools.update_wrapper(self, f)
        self._f = jitted.staged()
        self._static, self._static_names = jitted.static
        self._backend, self._rounds = backend, rounds
        self._known: dict[Any, Any] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        from .operator import Operator
        from .primitive import apply
        from .types import as_array, type_in, wide_now

        count = len(args)
        static = {k % count: args[k] for k in self._static if -count <= k < count}
        named = {name: x for name, x in kwargs.items() if name in self._static_names}
        dynamic = [a for k, a in enumerate(args) if k not in static]
        rest = {name: x for name, x in kwargs.items() if name not in named}
        leaves, form = jax().tree.flatten((dynamic, rest))
        leaves = [as_array(x) for x in leaves]
        types = tuple([type_in(x) for x in leaves])
        backend = self._backend or ("native" if jax().default_backend() == "cpu" else "xla")
        fixed = tuple([(k, exactly(x)) for k, x in [*static.items(), *named.items()]])
        key = form, types, fixed, backend, wide_now()
        try:
            found = self._known.get(key)
        except TypeError:
            raise StaticArgumentError(
                f"static arguments must be hashable, got {[*static.values(), *named.values()]!r}; "
                "pass arrays as ordinary arguments, and tuples instead of lists"
            ) from None
        if found is None:

            def run(*values: Any) -> Any:
                inner, others = jax().tree.unflatten(form, values)
                given = iter(inner)
                full = [static[k] if k in static else next(given) for k in range(count)]
                return self._f(*full, **others, **named)

            traced = jax().errors
            try:
                found = Operator(run, types, backend, self._rounds, wide_now())
            except (traced.TracerArrayConversionError, traced.ConcretizationTypeError) as error:
                raise TracedValueError(
                    "this function closes over an array that JAX is tracing, or makes one by jax.numpy: "
                    "such an array has no numbers to be compiled with. Pass it as an argument, "
                    "function(lambda x, c: …)(x, c), and write np. instead of jnp. inside",
                    at=location_of(error),
                ) from error
            self._known[key] = found
        return found.out_structure.unflatten(apply(found, leaves))


__all__ = ["Function", "function"]
