"""The networks of training.py in PyTorch, with the names of arrays that ours have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

F = nn.functional


class MLP(nn.Sequential):
    def __init__(self, sizes: tuple[int, ...]):
        layers: list[nn.Module] = []
        for n, m in zip(sizes, sizes[1:], strict=False):
            layers += [nn.Linear(n, m), nn.ReLU()]
        super().__init__(*layers[:-1])


class LeNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, x: Any) -> Any:
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2).flatten(1)
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))


class Block(nn.Module):
    def __init__(self, inside: int, outside: int, stride: int):
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outside)
        self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outside)
        self.downsample = None
        if stride != 1 or inside != outside:
            shortcut = nn.Conv2d(inside, outside, 1, stride, bias=False)
            self.downsample = nn.Sequential(shortcut, nn.BatchNorm2d(outside))

    def forward(self, x: Any) -> Any:
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet18(nn.Module):
    """For images of 32 × 32: the stem is one convolution of 3 × 3."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64)
        width = 64
        for k, (outside, stride) in enumerate(((64, 1), (128, 2), (256, 2), (512, 2)), 1):
            pair = nn.Sequential(Block(width, outside, stride), Block(outside, outside, 1))
            setattr(self, f"layer{k}", pair)
            width = outside
        self.fc = nn.Linear(512, 10)

    def forward(self, x: Any) -> Any:
        x = F.relu(self.bn1(self.conv1(x)))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))


class Bottleneck(nn.Module):
    def __init__(self, inside: int, width: int, stride: int):
        super().__init__()
        outside = 4 * width
        self.conv1, self.bn1 = nn.Conv2d(inside, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, outside, 1, bias=False), nn.BatchNorm2d(outside)
        self.downsample = None
        if stride != 1 or inside != outside:
            shortcut = nn.Conv2d(inside, outside, 1, stride, bias=False)
            self.downsample = nn.Sequential(shortcut, nn.BatchNorm2d(outside))

    def forward(self, x: Any) -> Any:
        y = F.relu(self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x))))))
        y = self.bn3(self.conv3(y))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet50(nn.Module):
    """For images of 224 × 224, with torchvision's names."""

    def __init__(self, layers: tuple[int, ...] = (3, 4, 6, 3), width: int = 64):
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.bn1, self.stages, inside = nn.BatchNorm2d(width), len(layers), width
        for k, count in enumerate(layers):
            blocks = []
            for i in range(count):
                blocks.append(Bottleneck(inside, width * 2**k, 2 if k and not i else 1))
                inside = 4 * width * 2**k
            setattr(self, f"layer{k + 1}", nn.Sequential(*blocks))
        self.fc = nn.Linear(inside, 1000)

    def forward(self, x: Any) -> Any:
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        for k in range(self.stages):
            x = getattr(self, f"layer{k + 1}")(x)
        return self.fc(x.mean((2, 3)))


class LSTM(nn.Module):
    def __init__(self, letters: int, width: int, hidden: int):
        super().__init__()
        self.embedding = nn.Embedding(letters, width)
        self.lstm = nn.LSTM(width, hidden, batch_first=True)
        self.linear = nn.Linear(hidden, letters)

    def forward(self, x: Any) -> Any:
        return self.linear(self.lstm(self.embedding(x))[0]).transpose(1, 2)


class GPTBlock(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Any) -> Any:
        b, n, d = x.shape
        parts = self.attention(self.ln_1(x)).view(b, n, 3, self.heads, d // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, n, d))
        return x + self.down(F.gelu(self.up(self.ln_2(x)), approximate="tanh"))


class GPT(nn.Module):
    def __init__(self, letters: int, length: int, width: int, depth: int, heads: int):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(letters, width), nn.Embedding(length, width)
        self.h = nn.ModuleList([GPTBlock(width, heads) for _ in range(depth)])
        self.ln_f = nn.LayerNorm(width)
        self.head = nn.Linear(width, letters, bias=False)

    def forward(self, x: Any) -> Any:
        x = self.wte(x) + self.wpe.weight[: x.shape[1]]
        for block in self.h:
            x = block(x)
        return self.head(self.ln_f(x)).transpose(1, 2)


KINDS = {"mlp": MLP, "lenet": LeNet, "resnet18": ResNet18, "lstm": LSTM, "gpt": GPT}
KINDS["resnet50"] = ResNet50


def state(kind: str, settings: tuple[Any, ...]) -> dict[str, Any]:
    """First values of a network, for all libraries."""
    torch.manual_seed(0)
    return {k: v.numpy().copy() for k, v in KINDS[kind](*settings).state_dict().items()}


def stepper(
    kind: str, settings: tuple[Any, ...], first: dict[str, Any], x: Any, y: Any, compiled: bool
) -> Callable[[], Any]:
    """A function that takes one more step of Adam and gives the loss."""
    model = KINDS[kind](*settings)
    model.load_state_dict({k: torch.from_numpy(v.copy()) for k, v in first.items()})
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    x, y = torch.from_numpy(x), torch.from_numpy(y)

    def loss(x: Any, y: Any) -> Any:
        return F.cross_entropy(model(x), y)

    if compiled:
        loss = torch.compile(loss)

    def step() -> Any:
        optimiser.zero_grad()
        value = loss(x, y)
        value.backward()
        optimiser.step()
        return value.item()

    return step
