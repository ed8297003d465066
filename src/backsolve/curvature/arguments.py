"""A function of the arguments that vary alone, and whether they are real."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import tree
from ..errors import UnsupportedError
from ..hooks import hooks
from ..vary import ArgNums, Varied, checked_numbers


def of_chosen(
    what: str, f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], argnums: ArgNums
) -> tuple[Callable[..., Any], list[Any]]:
    """f as a function of the arguments `argnums` alone, and those."""
    _, numbers = checked_numbers(what, argnums, len(args))
    if not numbers:
        Varied(what, args, argnums)  # says what is wrong
    if len(args) == len(numbers) == 1 and not kwargs:
        return f, list(args)

    def g(*parts: Any) -> Any:
        inner = list(args)
        for n, part in zip(numbers, parts, strict=True):
            inner[n] = part
        return hooks.users(f)(*inner, **kwargs)

    return g, [args[n] for n in numbers]


def is_complex(x: Any) -> bool:
    return isinstance(x, complex) or (hasattr(x, "dtype") and x.dtype.kind == "c")


def no_complex(arguments: Sequence[Any], what: str) -> None:
    if any(map(is_complex, arguments)):
        raise UnsupportedError(
            f"`{what}` is of real arguments: write a complex one as its real and imaginary part"
        )


def in_reals(
    outputs: Callable[[Any], Any], loss: Callable[[Any], Any], z: Any
) -> tuple[Callable[[Any], Any], Callable[[Any], Any], list[Any]]:
    """Model and loss with two real outputs, one behind the other, for each complex one: so H has a matrix."""
    form = tree.flatten(z)[1]
    are_pairs = list(map(is_complex, tree.flatten(z)[0]))

    def apart(z: Any) -> list[Any]:
        return [
            r
            for x, pair in zip(tree.flatten(z)[0], are_pairs, strict=True)
            for r in ((np.real(x), np.imag(x)) if pair else (x,))
        ]

    def together(reals: list[Any]) -> Any:
        rest = iter(reals)
        return form.unflatten(
            [next(rest) + 1j * next(rest) if pair else next(rest) for pair in are_pairs]
        )

    return lambda p: apart(outputs(p)), lambda reals: loss(together(reals)), apart(z)
