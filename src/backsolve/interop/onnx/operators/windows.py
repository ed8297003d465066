"""Which windows a convolution or pooling looks at, as ONNX's attributes say."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....nn.functional._arguments import place
from ....numpy._register import dtype_of, shape_of
from ....operators.windows import Cut
from ....primitive import P

Numbers = tuple[int, ...]


class Windows:
    """Sizes, steps and sides of windows over the axes of space."""

    def __init__(
        self, space: Any, size: Any, strides: Any, dilations: Any, pads: Any,
        auto_pad: str = "NOTSET", ceil: int = 0,
    ):  # fmt: skip
        n = len(space)
        self.space: Numbers = tuple(space)
        self.size: Numbers = tuple(size)
        self.step: Numbers = tuple(strides or [1] * n)
        self.dilation: Numbers = tuple(dilations or [1] * n)
        self.reach = tuple(
            d * (k - 1) + 1 for d, k in zip(self.dilation, self.size, strict=True)
        )  # entries from the first to the last of a window
        pads = pads or [0] * 2 * n
        self.before, self.after = tuple(pads[:n]), tuple(pads[n:])
        if auto_pad.startswith("SAME"):
            total = [
                max((-(-s // t) - 1) * t + r - s, 0)
                for s, t, r in zip(self.space, self.step, self.reach, strict=True)
            ]
            less, more = tuple(t // 2 for t in total), tuple(t - t // 2 for t in total)
            self.before, self.after = (less, more) if auto_pad == "SAME_UPPER" else (more, less)
        elif auto_pad == "VALID":
            self.before = self.after = (0,) * n
        self.counts = tuple(self._count(k, bool(ceil)) for k in range(n))
        self.cut = Cut(tuple(range(2, n + 2)), self.size, self.step, self.dilation)
        self.inside = tuple(range(n + 2, 2 * n + 2))

    def _count(self, k: int, ceil: bool) -> int:
        room = self.space[k] + self.before[k] + self.after[k] - self.reach[k]
        count = (-(-room // self.step[k]) if ceil else room // self.step[k]) + 1
        begins_outside = (count - 1) * self.step[k] >= self.space[k] + self.before[k]
        return count - 1 if ceil and begins_outside else count

    def of(self, x: Any, outside: Any = 0) -> Any:
        """The windows of x, with `outside` around it: (N, C, *counts, *size)."""
        n = len(self.space)
        ends = [(c - 1) * t + r for c, t, r in zip(self.counts, self.step, self.reach, strict=True)]
        after = tuple(e - b - s for e, b, s in zip(ends, self.before, self.space, strict=True))
        x = place(x, (0,) * n, tuple(min(a, 0) for a in after))
        after = tuple(max(a, 0) for a in after)
        if outside == 0 or not any((*self.before, *after)):
            return P.windows(place(x, self.before, after), cut=self.cut)
        shape = shape_of(x)
        full = [b + s + a for s, b, a in zip(shape[2:], self.before, after, strict=True)]
        around = np.broadcast_to(dtype_of(x).type(outside), (*shape[:2], *full))
        inner = [(b, b + s, 1) for s, b in zip(shape[2:], self.before, strict=True)]
        spec = (*((None, None, None),) * 2, *inner)
        return P.windows(P.slice_update(around, x, spec=spec), cut=self.cut)

    def entries(self, k: int) -> Any:
        """Along axis k, where the entries of each window stand in x: (counts, size)."""
        first = np.arange(self.counts[k]) * self.step[k] - self.before[k]
        return first[:, None] + np.arange(self.size[k]) * self.dilation[k]

    def filled(self, with_padding: bool) -> Any:
        """How many entries of each window lie in x, or in x and its padding."""
        total: Any = 1
        for k, s in enumerate(self.space):
            low, high = (-self.before[k], s + self.after[k]) if with_padding else (0, s)
            at = self.entries(k)
            count = ((low <= at) & (at < high)).sum(1)
            total = total * count.reshape(-1, *[1] * (len(self.space) - 1 - k))
        return total
