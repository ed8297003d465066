"""LeNet-5 (LeCun and others, 1998), with relu and maxima as it is taught today."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import random
from .. import functional as F  # noqa: N812 - as everyone writes it
from ..init import next_key
from ..layers import Conv2d, Linear
from ..module import Module


class LeNet(Module):
    """(N, channels, 28, 28) ↦ (N, num_classes); also 32 × 32, without padding.

    >>> import numpy as np
    >>> LeNet()(np.zeros((2, 1, 28, 28), np.float32)).shape
    (2, 10)
    """

    def __init__(
        self,
        num_classes: int = 10,
        channels: int = 1,
        image_size: int = 28,
        *,
        key: Any = None,
        dtype: Any = np.float32,
    ):
        if image_size not in (28, 32):
            raise ValueError(
                f"LeNet reads images of 28 × 28 or 32 × 32, got image_size={image_size}"
            )
        keys = random.split(next_key(key), 5)
        padding = 2 if image_size == 28 else 0
        self.conv1 = Conv2d(channels, 6, 5, padding=padding, key=keys[0], dtype=dtype)
        self.conv2 = Conv2d(6, 16, 5, key=keys[1], dtype=dtype)
        self.fc1 = Linear(16 * 5 * 5, 120, key=keys[2], dtype=dtype)
        self.fc2 = Linear(120, 84, key=keys[3], dtype=dtype)
        self.fc3 = Linear(84, num_classes, key=keys[4], dtype=dtype)

    def __call__(self, x: Any) -> Any:
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = np.reshape(x, (x.shape[0], -1))
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))
