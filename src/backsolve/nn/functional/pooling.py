"""Pooling: reductions over windows."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ...errors import DTypeError, ShapeError
from ...numpy._register import array, dtype_of, ndim_of, shape_of
from ...operators.windows import Cut
from ...primitive import P
from ...primitives.reduce import first_place
from ._arguments import Shape, batched, each, place
from ._reduction import indices as checked_indices

# ---- maximum


def max_pool1d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest entry of each window of (N, C, L), as PyTorch's; the first of several equal ones counts.

    `return_indices` gives also where it stands in its plane; `ceil_mode` adds windows that begin inside but
    do not fit.

    >>> import numpy as np
    >>> max_pool1d(np.array([[[1.0, 3.0, 2.0, 2.0, 5.0]]]), 2, ceil_mode=True)
    array([[[3., 2., 5.]]])
    """
    return _max(1, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool2d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest entry of each window of (N, C, H, W); see max_pool1d."""
    return _max(2, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool3d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest entry of each window of (N, C, D, H, W); see max_pool1d."""
    return _max(3, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_unpool1d(
    input: Any,
    indices: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    output_size: Any = None,
) -> Any:
    """What max_pool1d left, back where its indices say, among zeros."""
    return _unpool(1, input, indices, kernel_size, stride, padding, output_size)


def max_unpool2d(
    input: Any,
    indices: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    output_size: Any = None,
) -> Any:
    """What max_pool2d left, back where its indices say, among zeros."""
    return _unpool(2, input, indices, kernel_size, stride, padding, output_size)


def max_unpool3d(
    input: Any,
    indices: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    output_size: Any = None,
) -> Any:
    """What max_pool3d left, back where its indices say, among zeros."""
    return _unpool(3, input, indices, kernel_size, stride, padding, output_size)


# ---- mean


def avg_pool1d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Any:
    """The mean of each window of (N, C, L), as PyTorch's.

    Zeros of the padding are counted unless `count_include_pad` is False.

    >>> import numpy as np
    >>> avg_pool1d(np.array([[[1.0, 3.0, 2.0, 2.0]]]), 2)
    array([[[2., 2.]]])
    """
    return _mean(1, input, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


def avg_pool2d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    """The mean of each window of (N, C, H, W), or its sum over `divisor_override`; see avg_pool1d."""
    return _mean(
        2, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )


def avg_pool3d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    """The mean of each window of (N, C, D, H, W); see avg_pool2d."""
    return _mean(
        3, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )


def lp_pool1d(
    input: Any, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Any:
    """(Σ xᵖ)^(1/p) of each window, p = norm_type."""
    return _norm(1, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(
    input: Any, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Any:
    """(Σ xᵖ)^(1/p) of each window, p = norm_type."""
    return _norm(2, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool3d(
    input: Any, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Any:
    """(Σ xᵖ)^(1/p) of each window, p = norm_type."""
    return _norm(3, input, norm_type, kernel_size, stride, ceil_mode)


def feature_lp_pool(input: Any, norm_type: float, width: int, stride: int | None = None) -> Any:
    """(Σ xᵖ)^(1/p) over `width` neighbouring channels of (N, C, …): THNN's FeatureLPPooling."""
    x = array(input)
    if ndim_of(x) < 2 or shape_of(x)[1] < width:
        raise ShapeError(
            f"feature_lp_pool takes (N, C, …) with at least {width} channels, got {shape_of(x)}"
        )
    cut = Cut((1,), (width,), (width if stride is None else stride,), (1,))
    powers = P.windows(x ** float(norm_type), cut=cut)
    return np.sum(powers, axis=-1) ** (1.0 / float(norm_type))


# ---- in any number of dimensions


class _Grid:
    """Which windows a pooling looks at, for an input of some shape."""

    def __init__(
        self,
        name: str,
        shape: Shape,
        size: Any,
        stride: Any,
        padding: Any,
        dilation: Any,
        ceil: bool,
    ):
        n = len(shape) - 2
        self.space = shape[2:]
        self.size = each(size, n, f"{name}: kernel_size", 1)
        self.step = (
            self.size if stride is None or stride == [] else each(stride, n, f"{name}: stride", 1)
        )
        self.before = each(padding, n, f"{name}: padding")
        self.dilation = each(dilation, n, f"{name}: dilation", 1)
        if any(2 * p > k for p, k in zip(self.before, self.size, strict=True)):
            raise ShapeError(
                f"{name}: padding must be at most half of kernel_size, got {self.before}, {self.size}"
            )
        self.counts = tuple(self._count(k, ceil) for k in range(n))
        if any(c < 1 for c in self.counts):
            raise ShapeError(f"{name}: the kernel is larger than the input of shape {shape}")
        reach = [
            (c - 1) * s + d * (k - 1) + 1
            for c, s, d, k in zip(self.counts, self.step, self.dilation, self.size, strict=True)
        ]
        self.after = tuple(
            r - p - length for r, p, length in zip(reach, self.before, self.space, strict=True)
        )
        self.cut = Cut(tuple(range(2, n + 2)), self.size, self.step, self.dilation)
        self.inside = tuple(range(n + 2, 2 * n + 2))

    def _count(self, k: int, ceil: bool) -> int:
        step, length, padding = self.step[k], self.space[k], self.before[k]
        room = length + 2 * padding - self.dilation[k] * (self.size[k] - 1) - 1
        if room < 0 and not (ceil and room > -step):
            return 0
        count = (-(-room // step) if ceil else room // step) + 1
        # the last window must begin inside the input or the padding before it
        return count - 1 if ceil and (count - 1) * step >= length + padding else count

    def windows(self, x: Any, outside: Any = 0) -> Any:
        """The windows of x, with `outside` around it."""
        cut_off = tuple(min(a, 0) for a in self.after)
        x = place(x, (0,) * len(cut_off), cut_off)
        after = tuple(max(a, 0) for a in self.after)
        if outside == 0 or not any((*self.before, *after)):
            return P.windows(place(x, self.before, after), cut=self.cut)
        shape = shape_of(x)
        full = [b + s + a for s, b, a in zip(shape[2:], self.before, after, strict=True)]
        inner = [(b, b + s, 1) for s, b in zip(shape[2:], self.before, strict=True)]
        around = np.broadcast_to(dtype_of(x).type(outside), (*shape[:2], *full))
        whole = ((None, None, None),) * 2
        return P.windows(P.slice_update(around, x, spec=(*whole, *inner)), cut=self.cut)

    def divisor(self, include: bool) -> Any:
        """How many entries each window holds, with those of the padding or without."""
        counts = []
        for k in range(len(self.space)):
            first = np.arange(self.counts[k]) * self.step[k] - self.before[k]
            last = np.minimum(first + self.size[k], self.space[k] + self.before[k])
            if not include:
                first, last = np.maximum(first, 0), np.minimum(last, self.space[k])
            shape = [1] * len(self.space)
            shape[k] = -1
            counts.append((last - first).reshape(shape))
        return prod(counts, start=np.ones((), int))


def _lowest(name: str, dtype: np.dtype[Any]) -> Any:
    if dtype.kind not in "fiu":
        raise DTypeError(f"{name} takes real numbers, got {dtype}")
    return -np.inf if dtype.kind == "f" else np.iinfo(dtype).min


def _max(
    n: int,
    input: Any,
    size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil: bool,
    with_places: bool,
) -> Any:
    name = f"max_pool{n}d"

    def pool(x: Any) -> Any:
        grid = _Grid(name, shape_of(x), size, stride, padding, dilation, ceil)
        windows = grid.windows(x, _lowest(name, dtype_of(x)))
        y = P.first_max(windows, axis=grid.inside, keepdims=False)
        return (y, _places(grid, y, windows)) if with_places else y

    return batched(pool, input, n + 2, name)


def _places(grid: _Grid, y: Any, windows: Any) -> Any:
    """Where in its plane the largest entry of each window stands."""
    number, _ = first_place(y, windows, grid.inside)
    number = np.reshape(number, shape_of(y))
    at: Any = 0
    for k, length in enumerate(grid.space):
        shape = [1] * len(grid.space)
        shape[k] = -1
        start = (np.arange(grid.counts[k]) * grid.step[k] - grid.before[k]).reshape(shape)
        inside = number // prod(grid.size[k + 1 :]) % grid.size[k]
        at = at * length + start + inside * grid.dilation[k]
    return at


def _unpool(
    n: int, input: Any, indices: Any, size: Any, stride: Any, padding: Any, output_size: Any
) -> Any:
    name = f"max_unpool{n}d"
    x, places = array(input), array(indices)
    if shape_of(x) != shape_of(places) or ndim_of(x) not in (n + 1, n + 2):
        raise ShapeError(
            f"{name} takes input and indices of one shape and rank {n + 2} or {n + 1}, "
            f"got {shape_of(x)} and {shape_of(places)}"
        )
    size = each(size, n, "kernel_size", 1)
    step = size if stride is None or stride == [] else each(stride, n, "stride", 1)
    padding = each(padding, n, "padding")
    lead = shape_of(x)[: ndim_of(x) - n]
    smallest = tuple(
        (i - 1) * s - 2 * p + k
        for i, s, p, k in zip(shape_of(x)[-n:], step, padding, size, strict=True)
    )
    target = smallest if output_size is None else tuple(output_size)[-n:]
    if any(abs(t - m) >= s for t, m, s in zip(target, smallest, step, strict=True)):
        raise ShapeError(f"{name}: output_size {target} is not within stride {step} of {smallest}")
    places = checked_indices(name, "indices", places, 0, prod(target))
    rows = prod(lead)
    flat = P.reshape(x, shape=(rows, prod(shape_of(x)[-n:])))
    at = P.reshape(places, shape=flat.shape)
    row = np.broadcast_to(np.arange(rows)[:, None], flat.shape)
    empty = np.zeros((rows, prod(target)), dtype_of(x))
    return P.reshape(P.scatter_set(empty, flat, row, at), shape=(*lead, *target))


def _mean(
    n: int,
    input: Any,
    size: Any,
    stride: Any,
    padding: Any,
    ceil: bool,
    include: bool,
    divisor: int | None,
) -> Any:
    name = f"avg_pool{n}d"
    if divisor == 0:
        raise ValueError(f"{name}: divisor_override must not be 0")

    def pool(x: Any) -> Any:
        grid = _Grid(name, shape_of(x), size, stride, padding, 1, ceil)
        total = P.sum(grid.windows(x), axis=grid.inside, keepdims=False)
        by = grid.divisor(include) if divisor is None else np.asarray(divisor)
        return total * (1 / by).astype(dtype_of(x))

    return batched(pool, input, n + 2, name)


def _norm(n: int, input: Any, p: float, size: Any, stride: Any, ceil: bool) -> Any:
    count = prod(each(size, n, "kernel_size", 1))
    mean = _mean(n, array(input) ** float(p), size, stride, 0, ceil, True, None)
    return (mean * dtype_of(mean).type(count)) ** (1.0 / float(p))
