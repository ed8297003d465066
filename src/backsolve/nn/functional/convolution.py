"""Convolutions: contractions over windows; transposed ones fold what a contraction gives.

What is called so in networks does not turn the kernel around: y[i] = Σ_k w[k] x[stride·i + dilation·k].
"""

from __future__ import annotations

from functools import partial
from typing import Any

from ...errors import ShapeError
from ...numpy._register import array, ndim_of, shape_of
from ...operators.windows import Cut
from ...primitive import P
from ._arguments import Shape, batched, each, place

_SPACE, _INSIDE = "xyz", "klm"  # labels of the axes that are cut, and of those inside a window


def conv1d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Any:
    """(N, C, L) with weights (O, C / groups, K) ↦ (N, O, L′), as PyTorch's.

    `padding` is a number of zeros on both sides, "valid" (none) or "same" (as many as keep the length).

    >>> import numpy as np
    >>> conv1d(np.array([[[1.0, 2.0, 4.0]]]), np.array([[[-1.0, 1.0]]]))
    array([[[1., 2.]]])
    """
    return _conv(1, input, weight, bias, stride, padding, dilation, groups)


def conv2d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Any:
    """(N, C, H, W) with weights (O, C / groups, K, L) ↦ (N, O, H′, W′); see conv1d."""
    return _conv(2, input, weight, bias, stride, padding, dilation, groups)


def conv3d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Any:
    """(N, C, D, H, W) with weights (O, C / groups, K, L, M) ↦ (N, O, D′, H′, W′); see conv1d."""
    return _conv(3, input, weight, bias, stride, padding, dilation, groups)


def conv_transpose1d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Any:
    """The adjoint of conv1d in its input: (N, C, L) with weights (C, O / groups, K) ↦ (N, O, L′)."""
    return _transposed(1, input, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose2d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Any:
    """The adjoint of conv2d in its input; see conv_transpose1d."""
    return _transposed(2, input, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose3d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Any:
    """The adjoint of conv3d in its input; see conv_transpose1d."""
    return _transposed(3, input, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_tbc(input: Any, weight: Any, bias: Any, pad: int = 0) -> Any:
    """Over (time, batch, channels), with weights (K, C, O)."""
    x, w = P.permute(array(input), axes=(1, 2, 0)), P.permute(array(weight), axes=(2, 1, 0))
    return P.permute(conv1d(x, w, bias, padding=pad), axes=(2, 0, 1))


def row_conv1d(input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0) -> Any:
    """Each feature of (N, C, L) with a row of weights of its own, (C, K): THNN's TemporalRowConvolution."""
    w = array(weight)
    if ndim_of(w) != 2:
        raise ShapeError(f"row_conv1d takes weights (C, K), got shape {shape_of(w)}")
    rows = P.reshape(w, shape=(shape_of(w)[0], 1, shape_of(w)[1]))
    return conv1d(input, rows, bias, stride, padding, groups=shape_of(w)[0])


def unfold(
    input: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Any:
    """Every window as a column: (N, C, H, W) ↦ (N, C·K·L, number of windows). Also called im2col."""
    size, dilation, padding, stride = _four(kernel_size, dilation, padding, stride)

    def columns(x: Any) -> Any:
        w = P.windows(place(x, padding, padding), cut=Cut((2, 3), size, stride, dilation))
        n, c, i, j, k, m = w.shape
        _some_windows("unfold", x, (i, j))
        return P.reshape(P.permute(w, axes=(0, 1, 4, 5, 2, 3)), shape=(n, c * k * m, i * j))

    return batched(columns, input, 4, "unfold")


def fold(
    input: Any,
    output_size: Any,
    kernel_size: Any,
    dilation: Any = 1,
    padding: Any = 0,
    stride: Any = 1,
) -> Any:
    """The adjoint of unfold: (N, C·K·L, number of windows) ↦ (N, C, *output_size); also called col2im."""
    target = each(output_size, 2, "output_size")
    size, dilation, padding, stride = _four(kernel_size, dilation, padding, stride)
    cut = Cut((2, 3), size, stride, dilation)

    def folded(x: Any) -> Any:
        n, rows, count = shape_of(x)
        full = tuple(t + 2 * p for t, p in zip(target, padding, strict=True))
        channels, rest = divmod(rows, size[0] * size[1])
        i, j = cut.shape((1, 1, *full))[2:4]
        if rest or count != i * j:
            raise ShapeError(
                f"fold expected {size[0] * size[1]} rows per channel and {i} × {j} columns for "
                f"output_size={target}, got shape {shape_of(x)}"
            )
        windows = P.reshape(x, shape=(n, channels, *size, i, j))
        windows = P.permute(windows, axes=(0, 1, 4, 5, 2, 3))
        y = P.fold(windows, cut=cut, shape=(n, channels, *full))
        return place(y, *[tuple(-p for p in padding)] * 2)

    return batched(folded, input, 3, "fold")


# ---- in any number of dimensions


def _conv(
    n: int,
    input: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
) -> Any:
    w, name = array(weight), f"conv{n}d"
    if ndim_of(w) != n + 2:
        raise ShapeError(f"{name} takes weights of rank {n + 2}, got shape {shape_of(w)}")
    out, inside, *size = shape_of(w)
    stride, dilation = each(stride, n, "stride", 1), each(dilation, n, "dilation", 1)
    before, after = sides(name, padding, tuple(size), stride, dilation)
    cut = Cut(tuple(range(2, n + 2)), tuple(size), stride, dilation)

    def convolve(x: Any) -> Any:
        shape = shape_of(x)
        if groups < 1 or out % groups or shape[1] != inside * groups:
            raise ShapeError(
                f"{name} with groups={groups} and weights {shape_of(w)} takes {inside * groups} channels "
                f"and gives a multiple of {groups}, got input {shape}"
            )
        windows = P.windows(place(x, before, after), cut=cut)
        counts = windows.shape[2 : n + 2]
        _some_windows(name, x, counts)
        return _grouped(w, windows, groups, "oc{k}", "nc{x}{k}", "no{x}", n)

    return _with_bias(batched(convolve, input, n + 2, name), bias, n)


def _transposed(
    n: int,
    input: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    output_padding: Any,
    groups: int,
    dilation: Any,
) -> Any:
    w, name = array(weight), f"conv_transpose{n}d"
    if ndim_of(w) != n + 2:
        raise ShapeError(f"{name} takes weights of rank {n + 2}, got shape {shape_of(w)}")
    channels, out, *size = shape_of(w)
    stride, dilation = each(stride, n, "stride", 1), each(dilation, n, "dilation", 1)
    padding, more = each(padding, n, "padding"), each(output_padding, n, "output_padding")
    if any(m >= s and m >= d for m, s, d in zip(more, stride, dilation, strict=True)):
        raise ShapeError(
            f"{name} needs output_padding below stride or dilation, got {more}, {stride}, {dilation}"
        )
    cut = Cut(tuple(range(2, n + 2)), tuple(size), stride, dilation)

    def convolve(x: Any) -> Any:
        batch, given, *counts = shape_of(x)
        if given != channels or groups < 1 or channels % groups:
            raise ShapeError(
                f"{name} with groups={groups} and weights {shape_of(w)} takes {channels} channels, "
                f"got input {shape_of(x)}"
            )
        windows = _grouped(w, x, groups, "co{k}", "nc{x}", "no{x}{k}", n)
        full = tuple(
            (i - 1) * s + d * (k - 1) + 1
            for i, s, d, k in zip(counts, stride, dilation, size, strict=True)
        )
        y = P.fold(windows, cut=cut, shape=(batch, out * groups, *full))
        return place(
            y,
            tuple(-p for p in padding),
            tuple(m - p for m, p in zip(more, padding, strict=True)),
        )

    return _with_bias(batched(convolve, input, n + 2, name), bias, n)


def _grouped(w: Any, x: Any, groups: int, left: str, right: str, result: str, n: int) -> Any:
    """The contraction, channels c and o taken in groups: each group for itself."""
    label = partial(str.format, x=_SPACE[:n], k=_INSIDE[:n])
    left, right, result = label(left), label(right), label(result)
    if groups == 1:
        return P.contract(w, x, subscripts=f"{left},{right}->{result}", sizes=())
    first, *rest = shape_of(w)
    w = P.reshape(w, shape=(groups, first // groups, *rest))
    batch, channels, *rest = shape_of(x)
    x = P.reshape(x, shape=(batch, groups, channels // groups, *rest))
    right, result = (f"{s[0]}g{s[1:]}" for s in (right, result))
    y = P.contract(w, x, subscripts=f"g{left},{right}->{result}", sizes=())
    _, _, out, *rest = y.shape
    return P.reshape(y, shape=(batch, groups * out, *rest))


def _with_bias(y: Any, bias: Any, n: int) -> Any:
    if bias is None:
        return y
    bias = array(bias)
    channels = shape_of(y)[ndim_of(y) - n - 1]
    if shape_of(bias) != (channels,):
        raise ShapeError(
            f"a bias of one number for each of {channels} channels was expected, got shape {shape_of(bias)}"
        )
    return y + P.reshape(bias, shape=(*shape_of(bias), *[1] * n))


def sides(
    name: str, padding: Any, size: Shape, stride: Shape, dilation: Shape
) -> tuple[Shape, Shape]:
    """Zeros before and after each axis."""
    if padding == "valid":
        padding = 0
    if padding == "same":
        if any(s != 1 for s in stride):
            raise ShapeError(f'{name} with padding="same" needs stride 1, got {stride}')
        total = [d * (k - 1) for d, k in zip(dilation, size, strict=True)]
        return tuple(t // 2 for t in total), tuple(t - t // 2 for t in total)
    if isinstance(padding, str):
        raise ValueError(f'{name} takes a number, "valid" or "same" as padding, got {padding!r}')
    sides = each(padding, len(size), "padding")
    return sides, sides


def _some_windows(name: str, x: Any, counts: Any) -> None:
    if 0 in counts:
        raise ShapeError(
            f"{name}: the kernel is larger than the (padded) input of shape {shape_of(x)}"
        )


def _four(size: Any, dilation: Any, padding: Any, stride: Any) -> tuple[Shape, Shape, Shape, Shape]:
    return (
        each(size, 2, "kernel_size", 1),
        each(dilation, 2, "dilation", 1),
        each(padding, 2, "padding"),
        each(stride, 2, "stride", 1),
    )
