"""ResNet-18 (He and others, 2016), with torchvision's names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import random
from .. import functional as F  # noqa: N812 - as everyone writes it
from ..init import kaiming_normal, next_key
from ..layers import BatchNorm2d, Conv2d, Identity, Linear, Sequential
from ..module import Module


class BasicBlock(Module):
    """Two convolutions with a way around them, which is a convolution itself where the shape changes."""

    def __init__(self, inputs: int, outputs: int, stride: int, *, key: Any, dtype: Any):
        keys = random.split(key, 3)
        self.conv1 = _conv(inputs, outputs, 3, stride, keys[0], dtype)
        self.bn1 = BatchNorm2d(outputs, dtype=dtype)
        self.conv2 = _conv(outputs, outputs, 3, 1, keys[1], dtype)
        self.bn2 = BatchNorm2d(outputs, dtype=dtype)
        self.downsample: Any = None
        if stride != 1 or inputs != outputs:
            around = _conv(inputs, outputs, 1, stride, keys[2], dtype)
            self.downsample = Sequential(around, BatchNorm2d(outputs, dtype=dtype))

    def __call__(self, x: Any) -> Any:
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(Module):
    """Four stages of blocks; `small_images` begins with a 3 × 3 convolution and no pooling, for 32 × 32."""

    def __init__(
        self,
        layers: Sequence[int] = (2, 2, 2, 2),
        num_classes: int = 1000,
        small_images: bool = False,
        width: int = 64,
        *,
        key: Any = None,
        dtype: Any = np.float32,
    ):
        keys = random.split(next_key(key), 6)
        size, stride = (3, 1) if small_images else (7, 2)
        self.conv1 = _conv(3, width, size, stride, keys[0], dtype)
        self.bn1 = BatchNorm2d(width, dtype=dtype)
        self.maxpool = Identity() if small_images else _pooled
        inputs = width
        for k, count in enumerate(layers):
            outputs = width * 2**k
            own = random.split(keys[k + 1], count)
            blocks = []
            for n in range(count):
                step = 2 if k and not n else 1
                blocks.append(BasicBlock(inputs, outputs, step, key=own[n], dtype=dtype))
                inputs = outputs
            setattr(self, f"layer{k + 1}", Sequential(*blocks))
        self.fc = Linear(inputs, num_classes, key=keys[5], dtype=dtype)

    def __call__(self, x: Any) -> Any:
        x = self.maxpool(F.relu(self.bn1(self.conv1(x))))
        for k in range(1, 5):
            x = getattr(self, f"layer{k}")(x)
        return self.fc(np.mean(x, axis=(2, 3)))


def resnet18(num_classes: int = 1000, small_images: bool = False, **options: Any) -> ResNet:
    """ResNet-18 of He et al.: 2 + 2 + 2 + 2 blocks; `small_images` begins without halving the size twice.

    >>> import numpy as np
    >>> model = resnet18(10, small_images=True, width=4).eval()
    >>> model(np.zeros((1, 3, 32, 32), np.float32)).shape
    (1, 10)
    """
    return ResNet((2, 2, 2, 2), num_classes, small_images, **options)


def _pooled(x: Any) -> Any:
    return F.max_pool2d(x, 3, 2, 1)


def _conv(inputs: int, outputs: int, size: int, stride: int, key: Any, dtype: Any) -> Conv2d:
    conv = Conv2d(inputs, outputs, size, stride, size // 2, bias=False, key=key, dtype=dtype)
    shape = conv.weight.shape
    conv.weight = kaiming_normal(shape, mode="fan_out", nonlinearity="relu", key=key, dtype=dtype)
    return conv
