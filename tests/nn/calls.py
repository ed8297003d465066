"""The calls that are compared with PyTorch, by groups: one file of data each."""

from __future__ import annotations

from itertools import product
from typing import Any

from references import Call, tied


def _where(name: str, arrays: list[Any], **options: list[Any]) -> list[Call]:
    """One call for each combination of options."""
    names = list(options)
    return [
        Call(name, arrays, dict(zip(names, values, strict=True)))
        for values in product(*options.values())
    ]


SPACE = (7, 6, 5)


def convolutions() -> list[Call]:
    calls = []
    for n in (1, 2, 3):
        x = (2, 4, *SPACE[:n])
        for groups, kernel in product((1, 2, 4), (1, 3)):
            w = (8, 4 // groups, *[kernel] * n)
            calls += _where(
                f"conv{n}d", [x, w, (8,)], stride=[1, 2], padding=[0, 1], dilation=[1, 2], groups=[groups]
            )  # fmt: skip
            calls += _where(
                f"conv_transpose{n}d",
                [x, (4, 6 // groups if groups < 4 else 2, *[kernel] * n)],
                stride=[1, 3],
                padding=[0, 1],
                output_padding=[0, 1],
                groups=[groups],
                dilation=[2],
            )
        calls += _where(
            f"conv{n}d", [x, (3, 4, 2, 3, 3)[: n + 2]], padding=["same", "valid"], dilation=[1, 2]
        )
        calls.append(Call(f"conv{n}d", [x[1:], (3, 4, 2, 3, 3)[: n + 2]]))  # no batch
        calls.append(Call(f"conv{n}d", [(0, *x[1:]), (3, 4, 2, 3, 3)[: n + 2]]))
        calls.append(Call(f"conv{n}d", [(2, 4, 1, 1, 1)[: n + 2], (3, 4, 1, 1, 1)[: n + 2]]))
    calls += _where(
        "unfold", [(2, 3, 7, 8)], kernel_size=[2, (2, 3)], dilation=[1, 2], padding=[0, 1], stride=[1, 2]
    )  # fmt: skip
    calls.append(Call("unfold", [(3, 4, 5)], {"kernel_size": 2}))
    calls.append(Call("fold", [(2, 12, 12)], {"output_size": (4, 5), "kernel_size": 2}))
    calls.append(
        Call(
            "fold",
            [(2, 12, 9)],
            {"output_size": (5, 6), "kernel_size": 2, "stride": 2, "padding": 1, "dilation": 2},
        )
    )
    calls.append(Call("conv_tbc", [(7, 2, 3), (3, 3, 4), (4,)], {"pad": 1}))
    return calls


def pooling() -> list[Call]:
    calls = []
    for n in (1, 2, 3):
        x = tied(2, 3, *SPACE[:n])
        calls += _where(
            f"max_pool{n}d",
            [x],
            kernel_size=[2, 3],
            stride=[None, 1, 2],
            padding=[0, 1],
            dilation=[1, 2],
            ceil_mode=[False, True],
        )
        calls += _where(f"max_pool{n}d", [x], kernel_size=[2], return_indices=[True])
        more = [None, 5] if n > 1 else []
        calls += _where(
            f"avg_pool{n}d",
            [x],
            kernel_size=[2, 3],
            stride=[None, 1],
            padding=[0, 1],
            ceil_mode=[False, True],
            count_include_pad=[False, True],
            **({"divisor_override": more} if more else {}),
        )
    return calls


GROUPS = {"convolutions": convolutions, "pooling": pooling}
