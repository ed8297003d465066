"""Every layer of `nn`, resting, as an ONNX graph: its value by ONNX's own definition is our own."""

import inspect

import numpy as np
import pytest

from backsolve import nn

onnx = pytest.importorskip("onnx")
from onnx_values import check  # noqa: E402


def some(*shape):
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


LINE, PLANE, SPACE = some(2, 4, 6), some(2, 4, 6, 5), some(1, 2, 4, 5, 4)
BY_RANK = {1: LINE, 2: PLANE, 3: SPACE}
CLASSES, SIGNS = np.array([1, 0]), np.array([1.0, -1.0], np.float32)
SHARES = np.exp(some(2, 4)) / np.exp(some(2, 4)).sum(1, keepdims=True)
WORDS = np.array([[1, 3, 0], [2, 2, 4]])
_PAIR = some(2, 4), some(4, 2).T.copy()

# What a layer is made of, and what it is called with; where nothing is said: nothing, and a plane.
MADE = {
    "Threshold": (0.1, 2.0),
    **dict.fromkeys(("Softmax", "Softmin", "LogSoftmax"), (1,)),
    **{f"{kind}Pool{n}d": (3, 2, 1) for kind in ("Max", "Avg") for n in (1, 2, 3)},
    **{f"LPPool{n}d": (2.0, 2) for n in (1, 2, 3)},
    **{f"Adaptive{kind}Pool{n}d": (2,) for kind in ("Max", "Avg") for n in (1, 2, 3)},
    **{f"MaxUnpool{n}d": (2,) for n in (1, 2, 3)},
    **{f"Conv{n}d": (2 if n == 3 else 4, 4, 3, 2, 1) for n in (1, 2, 3)},
    **{f"ConvTranspose{n}d": (2 if n == 3 else 4, 4, 3, 2, 1, 1) for n in (1, 2, 3)},
    **{f"BatchNorm{n}d": (2 if n == 3 else 4,) for n in (1, 2, 3)},
    "GroupNorm": (2, 4),
    "LayerNorm": ((6, 5),),
    "RMSNorm": ((5,),),
    "LocalResponseNorm": (3,),
    "Upsample": (None, 2, "bilinear"),
    "PixelShuffle": (2,),
    "PixelUnshuffle": (2,),
    "ChannelShuffle": (2,),
    "Unfold": (2,),
    "Fold": ((4, 5), 2),
    "Unflatten": (1, (2, 2)),
    "Linear": (5, 3),
    "Bilinear": (4, 4, 3),
    "PReLU": (4,),
    **dict.fromkeys(("Embedding", "EmbeddingBag"), (5, 4)),
    **dict.fromkeys(("RNN", "LSTM", "GRU", "RNNCell", "LSTMCell", "GRUCell"), (4, 3)),
    "MultiheadAttention": (4, 2),
    **dict.fromkeys(("TransformerEncoderLayer", "TransformerDecoderLayer"), (4, 2, 6)),
    "Transformer": (4, 2, 1, 1, 6),
}
GIVEN = {
    "GLU": (LINE,),
    "PixelUnshuffle": (some(1, 2, 4, 6),),
    "Fold": (some(2, 12, 12),),
    "Bilinear": _PAIR,
    **dict.fromkeys(("Embedding", "EmbeddingBag"), (WORDS,)),
    **dict.fromkeys(("RNN", "LSTM", "GRU"), (some(3, 2, 4),)),
    **dict.fromkeys(("RNNCell", "LSTMCell", "GRUCell"), (some(2, 4),)),
    "MultiheadAttention": (some(3, 2, 4),) * 3,
    "TransformerEncoderLayer": (some(3, 2, 4),),
    **dict.fromkeys(("TransformerDecoderLayer", "Transformer"), (some(3, 2, 4), some(2, 2, 4))),
    **dict.fromkeys(("CrossEntropyLoss", "NLLLoss", "MultiMarginLoss"), (some(2, 4), CLASSES)),
    **dict.fromkeys(("L1Loss", "MSELoss", "HuberLoss", "SmoothL1Loss", "PoissonNLLLoss"), _PAIR),
    **dict.fromkeys(("BCELoss", "KLDivLoss", "BCEWithLogitsLoss"), (SHARES, SHARES[::-1].copy())),
    "MultiLabelSoftMarginLoss": (some(2, 4), np.float32(some(2, 4) > 0)),
    "MultiLabelMarginLoss": (some(2, 4), np.array([[1, 0, -1, 2], [3, -1, 0, 1]])),
    "SoftMarginLoss": (some(2, 4), np.sign(some(2, 4))),
    "HingeEmbeddingLoss": (some(2, 4), np.sign(some(2, 4))),
    "MarginRankingLoss": (some(2), some(2)[::-1].copy(), SIGNS),
    "CosineEmbeddingLoss": (*_PAIR, SIGNS),
    "GaussianNLLLoss": (*_PAIR, SHARES),
    **dict.fromkeys(("TripletMarginLoss", "TripletMarginWithDistanceLoss"), (*_PAIR, SHARES)),
    "CTCLoss": (
        np.log(np.exp(some(5, 2, 4)) / np.exp(some(5, 2, 4)).sum(2, keepdims=True)),
        np.array([[1, 2], [3, 3]]), np.array([5, 5]), np.array([2, 1]),
    ),
}  # fmt: skip
CONTAINERS = ("Module", "Sequential", "TransformerEncoder", "TransformerDecoder")
LAYERS = [
    name
    for name, kind in inspect.getmembers(nn, inspect.isclass)
    if issubclass(kind, nn.Module) and name not in CONTAINERS
]


def arguments(name):
    if name in GIVEN:
        return GIVEN[name]
    rank = int(name[-2]) if name.endswith("d") and name[-2].isdigit() else 2
    if name.startswith("MaxUnpool"):
        even = some(2, 3, 4, 4, 4)[(..., *[0] * (3 - rank))]
        return list(getattr(nn, f"MaxPool{rank}d")(2, return_indices=True)(even))
    return [BY_RANK[rank]]


def resting(layer):
    """In evaluation, with weights and running figures that are not the first ones, 0 and 1."""
    layer.eval()
    rng = np.random.default_rng(0)
    for a in layer.state_dict().values():
        if a.dtype.kind == "f":
            a[...] = rng.uniform(0.1, 0.9, a.shape)
    return layer


@pytest.mark.parametrize("name", LAYERS)
def test_layers(name):
    check(resting(getattr(nn, name)(*MADE.get(name, ()))), *arguments(name))
