"""The networks of training.py in Backsolve."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import backsolve as bs
from backsolve import nn, optim

F = nn.functional


def MLP(*sizes: int) -> Any:
    layers: list[Any] = []
    for n, m in zip(sizes, sizes[1:], strict=False):
        layers += [nn.Linear(n, m), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class LeNet(nn.Module):
    def __init__(self) -> None:
        self.conv1, self.conv2 = nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def __call__(self, x: Any) -> Any:
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2).reshape(len(x), -1)
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))


class Block(nn.Module):
    def __init__(self, inside: int, outside: int, stride: int):
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outside)
        self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outside)
        self.downsample = None
        if stride != 1 or inside != outside:
            shortcut = nn.Conv2d(inside, outside, 1, stride, bias=False)
            self.downsample = nn.Sequential(shortcut, nn.BatchNorm2d(outside))

    def __call__(self, x: Any) -> Any:
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet18(nn.Module):
    def __init__(self) -> None:
        self.conv1, self.bn1 = nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64)
        width = 64
        for k, (outside, stride) in enumerate(((64, 1), (128, 2), (256, 2), (512, 2)), 1):
            pair = nn.Sequential(Block(width, outside, stride), Block(outside, outside, 1))
            setattr(self, f"layer{k}", pair)
            width = outside
        self.fc = nn.Linear(512, 10)

    def __call__(self, x: Any) -> Any:
        x = F.relu(self.bn1(self.conv1(x)))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(np.mean(x, axis=(2, 3)))


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
    "lenet": LeNet,
    "resnet18": ResNet18,
    "lstm": LSTM,
    "gpt": GPT,
}


def stepper(
    kind: str, settings: tuple[Any, ...], first: dict[str, Any], x: Any, y: Any
) -> Callable[[], Any]:
    """A function that takes one more step of Adam and gives the loss."""
    model = KINDS[kind](*settings)
    model.load_state_dict(first, strict=False)
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
