"""A function of the arguments that vary alone, and whether they are real."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..errors import UnsupportedError
from ..hooks import hooks
from ..vary import ArgNums, Varied, numbers_of


def of_chosen(
    f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], argnums: ArgNums
) -> tuple[Callable[..., Any], list[Any]]:
    """f as a function of the arguments `argnums` alone, and those."""
    numbers = numbers_of(argnums)[1]
    if not numbers or any(
        not isinstance(n, int) or not -len(args) <= n < len(args) for n in numbers
    ):
        Varied("second derivatives", args, argnums)  # says what is wrong
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
