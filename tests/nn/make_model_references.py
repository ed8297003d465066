"""Writes what PyTorch's LeNet, ResNet-18, LSTM and GPT-2 compute into data/models.npz; needs PyTorch.

The networks are written as torchvision and transformers have them, with their names: neither need be installed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - as everyone writes it
from model_cases import DATA, MODELS, inputs_of, state_of
from torch import nn


class LeNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, x: Any) -> Any:
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(torch.flatten(x, 1))))))


class BasicBlock(nn.Module):
    def __init__(self, a: int, b: int, stride: int):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(a, b, 3, stride, 1, bias=False), nn.BatchNorm2d(b)
        self.conv2, self.bn2 = nn.Conv2d(b, b, 3, 1, 1, bias=False), nn.BatchNorm2d(b)
        self.downsample = None
        if stride != 1 or a != b:
            around = nn.Conv2d(a, b, 1, stride, bias=False)
            self.downsample = nn.Sequential(around, nn.BatchNorm2d(b))

    def forward(self, x: Any) -> Any:
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet18(nn.Module):
    def __init__(self, classes: int, small: bool):
        super().__init__()
        size, stride = (3, 1) if small else (7, 2)
        self.conv1 = nn.Conv2d(3, 64, size, stride, size // 2, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.maxpool = nn.Identity() if small else nn.MaxPool2d(3, 2, 1)
        for k, (a, b) in enumerate([(64, 64), (64, 128), (128, 256), (256, 512)]):
            blocks = nn.Sequential(BasicBlock(a, b, 2 if k else 1), BasicBlock(b, b, 1))
            setattr(self, f"layer{k + 1}", blocks)
        self.fc = nn.Linear(512, classes)

    def forward(self, x: Any) -> Any:
        x = self.maxpool(F.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(torch.flatten(F.adaptive_avg_pool2d(x, 1), 1))


class Language(nn.Module):
    def __init__(self, tokens: int, inputs: int, hidden: int, layers: int, tied: bool):
        super().__init__()
        self.encoder, self.rnn = nn.Embedding(tokens, inputs), nn.LSTM(inputs, hidden, layers)
        self.decoder = nn.Linear(hidden, tokens)
        if tied:
            self.decoder.weight = self.encoder.weight

    def forward(self, x: Any) -> Any:
        return self.decoder(self.rnn(self.encoder(x))[0])


class Conv1D(nn.Module):
    def __init__(self, outputs: int, inputs: int):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(inputs, outputs))
        self.bias = nn.Parameter(torch.empty(outputs))

    def forward(self, x: Any) -> Any:
        return torch.addmm(self.bias, x.view(-1, x.size(-1)), self.weight).view(*x.shape[:-1], -1)


class Block(nn.Module):
    def __init__(self, n: int, heads: int):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(n), nn.LayerNorm(n)
        self.attn, self.mlp = nn.Module(), nn.Module()
        self.attn.c_attn, self.attn.c_proj = Conv1D(3 * n, n), Conv1D(n, n)
        self.mlp.c_fc, self.mlp.c_proj = Conv1D(4 * n, n), Conv1D(n, 4 * n)

    def forward(self, x: Any) -> Any:
        b, t, n = x.shape
        parts = self.attn.c_attn(self.ln_1(x)).split(n, dim=2)
        q, k, v = (a.view(b, t, self.heads, n // self.heads).transpose(1, 2) for a in parts)
        scores = q @ k.transpose(-1, -2) / (n // self.heads) ** 0.5
        scores = scores.masked_fill(~torch.ones(t, t, dtype=torch.bool).tril(), float("-inf"))
        y = (scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, n)
        x = x + self.attn.c_proj(y)
        y = F.gelu(self.mlp.c_fc(self.ln_2(x)), approximate="tanh")
        return x + self.mlp.c_proj(y)


class GPT2(nn.Module):
    def __init__(self, tokens: int, places: int, n: int, layers: int, heads: int):
        super().__init__()
        t = self.transformer = nn.Module()
        t.wte, t.wpe = nn.Embedding(tokens, n), nn.Embedding(places, n)
        t.h = nn.ModuleList(Block(n, heads) for _ in range(layers))
        t.ln_f = nn.LayerNorm(n)
        self.lm_head = nn.Linear(n, tokens, bias=False)
        self.lm_head.weight = t.wte.weight

    def forward(self, x: Any) -> Any:
        t = self.transformer
        x = t.wte(x) + t.wpe(torch.arange(x.shape[1]))
        for block in t.h:
            x = block(x)
        return self.lm_head(t.ln_f(x))


NETWORKS = {
    "lenet": LeNet,
    "resnet18": lambda: ResNet18(1000, False),
    "resnet18 for 32 × 32": lambda: ResNet18(10, True),
    "lstm": lambda: Language(53, 24, 32, 2, False),
    "lstm, tied": lambda: Language(53, 24, 24, 1, True),
    "gpt2": lambda: GPT2(97, 32, 48, 3, 4),
}

if __name__ == "__main__":
    found: dict[str, Any] = {}
    for name in MODELS:
        network = NETWORKS[name]().eval()
        own = {k: tuple(v.shape) for k, v in network.state_dict().items()}
        if "lm_head.weight" in own:
            own.pop("lm_head.weight")
        if name == "lstm, tied":
            own.pop("decoder.weight")
        state = {k: torch.tensor(v) for k, v in state_of(own).items()}
        network.load_state_dict(state, strict=False)
        with torch.no_grad():
            found[name] = network(torch.tensor(inputs_of(name))).numpy()
        found[f"{name}|names"] = np.array([f"{k} {','.join(map(str, s))}" for k, s in own.items()])
        print(name, found[name].shape, found[name].std())
    np.savez_compressed(DATA, **found)
    print(DATA.stat().st_size)
