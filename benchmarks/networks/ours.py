"""The networks of training.py in Backsolve."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import backsolve as bs
from backsolve import nn, optim
from backsolve.interop.torch import load_state_dict
from backsolve.nn import models

F = nn.functional


def MLP(*sizes: int) -> Any:
    layers: list[Any] = []
    for n, m in zip(sizes, sizes[1:], strict=False):
        layers += [nn.Linear(n, m), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class Bottleneck(nn.Module):
    def __init__(self, inside: int, width: int, stride: int):
        outside = 4 * width
        self.conv1, self.bn1 = nn.Conv2d(inside, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, outside, 1, bias=False), nn.BatchNorm2d(outside)
        self.downsample: Any = None
        if stride != 1 or inside != outside:
            shortcut = nn.Conv2d(inside, outside, 1, stride, bias=False)
            self.downsample = nn.Sequential(shortcut, nn.BatchNorm2d(outside))

    def __call__(self, x: Any) -> Any:
        y = F.relu(self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x))))))
        y = self.bn3(self.conv3(y))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet50(nn.Module):
    def __init__(self, layers: tuple[int, ...] = (3, 4, 6, 3), width: int = 64):
        self.conv1 = nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.bn1, self.stages, inside = nn.BatchNorm2d(width), len(layers), width
        for k, count in enumerate(layers):
            blocks = []
            for i in range(count):
                blocks.append(Bottleneck(inside, width * 2**k, 2 if k and not i else 1))
                inside = 4 * width * 2**k
            setattr(self, f"layer{k + 1}", nn.Sequential(*blocks))
        self.fc = nn.Linear(inside, 1000)

    def __call__(self, x: Any) -> Any:
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        for k in range(self.stages):
            x = getattr(self, f"layer{k + 1}")(x)
        return self.fc(x.mean((2, 3)))


class LSTM(nn.Module):
    def __init__(self, letters: int, width: int, hidden: int):
        self.embedding = nn.Embedding(letters, width)
        self.lstm = nn.LSTM(width, hidden, batch_first=True)
        self.linear = nn.Linear(hidden, letters)

    def __call__(self, x: Any) -> Any:
        return self.linear(self.lstm(self.embedding(x))[0]).swapaxes(1, 2)


class GPTBlock(nn.Module):
    def __init__(self, width: int, heads: int):
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def __call__(self, x: Any) -> Any:
        b, n, d = x.shape
        parts = self.attention(self.ln_1(x)).reshape(b, n, 3, self.heads, d // self.heads)
        q, k, v = parts.transpose(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.swapaxes(1, 2).reshape(b, n, d))
        return x + self.down(F.gelu(self.up(self.ln_2(x)), approximate="tanh"))


class GPT(nn.Module):
    def __init__(self, letters: int, length: int, width: int, depth: int, heads: int):
        self.wte, self.wpe = nn.Embedding(letters, width), nn.Embedding(length, width)
        self.h = [GPTBlock(width, heads) for _ in range(depth)]
        self.ln_f = nn.LayerNorm(width)
        self.head = nn.Linear(width, letters, bias=False)

    def __call__(self, x: Any) -> Any:
        x = self.wte(x) + self.wpe.weight[: x.shape[1]]
        for block in self.h:
            x = block(x)
        return self.head(self.ln_f(x)).swapaxes(1, 2)


KINDS: dict[str, Callable[..., Any]] = {
    "mlp": lambda sizes: MLP(*sizes),
    "lenet": models.LeNet,
    "resnet18": lambda: models.resnet18(10, small_images=True),
    "resnet50": ResNet50,
    "lstm": LSTM,
    "gpt": GPT,
}


def stepper(
    kind: str, settings: tuple[Any, ...], first: dict[str, Any], x: Any, y: Any
) -> Callable[[], Any]:
    """A function that takes one more step of Adam and gives the loss."""
    model = load_state_dict(KINDS[kind](*settings), first)
    parameters, buffers = model.named_parameters(), model.named_buffers()
    optimizer = optim.Adam(lr=1e-3)

    def step(parameters: Any, buffers: Any, state: Any, x: Any, y: Any) -> Any:
        def loss(parameters: Any) -> Any:
            now = model.replace({**parameters, **buffers})
            return F.cross_entropy(now(x), y), now.named_buffers()

        (value, after), g = bs.value_and_grad(loss, has_aux=True)(parameters)
        return value, *optimizer.update(parameters, g, state), after

    run = bs.jit(step, donate=(0, 1, 2))
    held = [parameters, buffers, optimizer.init(parameters)]

    def advance() -> Any:
        value, held[0], held[2], held[1] = run(held[0], held[1], held[2], x, y)
        return float(value)

    return advance
