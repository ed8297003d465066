"""A language model of an embedding, an LSTM and a linear layer, with the names of PyTorch's example."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ... import random
from .. import functional as F  # noqa: N812 - as everyone writes it
from ..init import next_key, uniform
from ..layers import LSTM, Dropout, Embedding, Linear
from ..module import Module


class LSTMLanguageModel(Module):
    """Whole numbers (steps, batch) ↦ logits (steps, batch, ntoken), and the state behind them.

    >>> import numpy as np
    >>> logits, state = LSTMLanguageModel(11, 6, 8, 2)(np.zeros((5, 3), int))
    >>> logits.shape
    (5, 3, 11)
    """

    also_named: ClassVar[dict[str, str]] = {
        "decoder.weight": "encoder.weight"
    }  # where they are tied

    def __init__(
        self,
        ntoken: int,
        ninp: int,
        nhid: int,
        nlayers: int = 1,
        dropout: float = 0.0,
        tie_weights: bool = False,
        *,
        key: Any = None,
        dtype: Any = np.float32,
    ):
        if tie_weights and ninp != nhid:
            raise ValueError(f"tied weights need ninp = nhid, got {ninp} and {nhid}")
        keys = random.split(next_key(key), 6)
        self.drop = Dropout(dropout, key=keys[0])
        self.encoder = Embedding(ntoken, ninp, key=keys[1], dtype=dtype)
        self.rnn = LSTM(ninp, nhid, nlayers, dropout=dropout, key=keys[2], dtype=dtype)
        self.decoder = Linear(nhid, ntoken, key=keys[3], dtype=dtype)
        self.encoder.weight = uniform((ntoken, ninp), -0.1, 0.1, key=keys[4], dtype=dtype)
        drawn = uniform((ntoken, nhid), -0.1, 0.1, key=keys[5], dtype=dtype)
        self.decoder.weight = None if tie_weights else drawn
        self.decoder.bias = np.zeros(ntoken, dtype)

    def __call__(self, tokens: Any, hidden: Any = None) -> Any:
        x, hidden = self.rnn(self.drop(self.encoder(tokens)), hidden)
        last = self.encoder.weight if self.decoder.weight is None else self.decoder.weight
        return F.linear(self.drop(x), last, self.decoder.bias), hidden
