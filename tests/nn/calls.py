"""The calls that are compared with PyTorch, by groups: one file of data each."""

from __future__ import annotations

from itertools import product
from typing import Any

from calls_activations import activations, distances
from calls_linear import linear_maps, tables
from calls_losses import classification, losses, sequences
from references import Call, Draw, positive, tied
from references import combined as _where

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


def resampling() -> list[Call]:
    modes = {
        1: ["linear"],
        2: ["bilinear", "bicubic"],
        3: ["trilinear"],
    }
    calls = []
    for n, smooth in modes.items():
        x = (2, 3, *SPACE[:n])
        sizes: list[dict[str, Any]] = [
            {"size": (5, 9, 4)[:n]},
            {"scale_factor": 1.7},
            {"scale_factor": 0.6},
            {"scale_factor": 0.6, "recompute_scale_factor": True},
            {"size": (1,) * n},
        ]
        for size in sizes:
            for mode in ("nearest", "nearest-exact", "area"):
                calls.append(Call("interpolate", [x], {"mode": mode, **size}))
            for mode, corners in product(smooth, (None, True, False)):
                options = {"mode": mode, "align_corners": corners, **size}
                calls.append(Call("interpolate", [x], options))
                if n == 2:
                    calls.append(Call("interpolate", [x], {**options, "antialias": True}))
    for mode in ("constant", "reflect", "replicate", "circular"):
        calls += [
            Call("pad", [(2, 3, 5)], {"pad": (1, 2), "mode": mode}),
            Call("pad", [(2, 3, 5, 6)], {"pad": (1, 2, 0, 3), "mode": mode}),
            Call("pad", [(2, 3, 4, 5, 4)], {"pad": (1, 2, 0, 3, 2, 1), "mode": mode}),
        ]
    calls.append(Call("pad", [(2, 5, 6)], {"pad": (-1, 2, 1, -2), "value": 2.5}))
    return calls


def adaptive() -> list[Call]:
    calls = []
    for n in (1, 2, 3):
        x = tied(2, 3, *SPACE[:n])
        for size in (1, 2, 3, 5, 7, (4, None, 3)[:n]):
            calls.append(Call(f"adaptive_avg_pool{n}d", [x], {"output_size": size}))
            calls += _where(
                f"adaptive_max_pool{n}d", [x], output_size=[size], return_indices=[False, True]
            )
    for n in (2, 3):
        samples = Draw((2, 3, n), lambda rng, s: rng.random(s), False, "_random_samples")
        calls += _where(
            f"fractional_max_pool{n}d",
            [tied(2, 3, *SPACE[:n]), samples],
            kernel_size=[2],
            output_size=[3, (4, 2, 2)[:n]],
            return_indices=[False, True],
        )
    return calls


def vision() -> list[Call]:
    calls = []
    for n in (2, 3):
        grid = Draw((2, *(3, 4, 2)[:n], n), lambda rng, s: rng.uniform(-1.6, 1.6, s))
        calls += _where(
            "grid_sample",
            [(2, 3, *(5, 6, 4)[:n]), grid],
            mode=["bilinear", "nearest", "bicubic"][: 5 - n],
            padding_mode=["zeros", "border", "reflection"],
            align_corners=[True, False],
        )
        calls += _where(
            "affine_grid", [(2, n, n + 1)], size=[(2, 3, *(5, 1, 4)[:n])], align_corners=[True, False]
        )  # fmt: skip
    # PyTorch has no second derivatives of these two in the image and the grid
    calls = [Call(c.name, c.arrays, c.options, second=c.name == "affine_grid") for c in calls]
    calls.append(Call("pixel_shuffle", [(2, 8, 3, 4)], {"upscale_factor": 2}))
    calls.append(Call("pixel_unshuffle", [(2, 3, 4, 6)], {"downscale_factor": 2}))
    calls.append(Call("channel_shuffle", [(2, 6, 3)], {"groups": 3}))
    return calls


def normalisation() -> list[Call]:
    x = (3, 8, 3, 4)
    frozen = [Draw((8,), varies=False), Draw((8,), positive(8).of, False)]
    return [
        Call("batch_norm", [x, *frozen, (8,), (8,)]),
        Call("batch_norm", [(5, 8), *frozen, (8,), (8,)], {"training": True, "eps": 0.1}),
        Call("batch_norm", [x, *frozen], {"training": True}),
        Call("instance_norm", [x]),
        Call("instance_norm", [x, *frozen], {"use_input_stats": False}),
        Call("group_norm", [x], {"num_groups": 4}),
        Call("group_norm", [(2, 6), Draw((6,), keyword="weight")], {"num_groups": 2}),
        Call("layer_norm", [x], {"normalized_shape": (3, 4), "eps": 1e-3}),
        Call("layer_norm", [(5, 7), Draw((7,), keyword="weight")], {"normalized_shape": (7,)}),
        Call("rms_norm", [x], {"normalized_shape": (3, 4)}),
        Call("rms_norm", [(5, 7), Draw((7,), keyword="weight")], {"normalized_shape": (7,)}),
        *_where("local_response_norm", [x], size=[1, 2, 3, 5], alpha=[0.3], beta=[0.5], k=[2.0]),
    ]


GROUPS = {
    "linear_maps": linear_maps,
    "tables": tables,
    "losses": losses,
    "classification": classification,
    "sequences": sequences,
    "activations": activations,
    "distances": distances,
    "convolutions": convolutions,
    "pooling": pooling,
    "resampling": resampling,
    "adaptive": adaptive,
    "vision": vision,
    "normalisation": normalisation,
}
