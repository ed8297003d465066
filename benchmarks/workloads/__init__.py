"""The workloads of compiled.py and memory.py, by the titles that the tables show."""

from __future__ import annotations

from collections.abc import Callable

from .base import Workload as Workload
from .elementwise import cross_entropy, gelu_sigmoid, rows, scalar_expression
from .learning import attention, logistic, mlp
from .linear import gaussian_process, product
from .recurrent import recurrent

M = 1 << 20
WORKLOADS: dict[str, Callable[[], Workload]] = {
    "gelu·sigmoid gradient, 4 numbers": lambda: gelu_sigmoid(4),
    "gelu·sigmoid gradient, 1,000,000 numbers": lambda: gelu_sigmoid(10**6),
    "scalar expression of 200 operations, gradient": scalar_expression,
    "MLP 2-16-16-1, batch 64, SGD step": lambda: mlp((2, 16, 16, 1), 64, False),
    "MLP 64-128-128-10, batch 32, Adam step": lambda: mlp((64, 128, 128, 10), 32, True),
    "MLP 784-512-256-10, batch 128, Adam step": lambda: mlp((784, 512, 256, 10), 128, True),
    "logistic regression 100,000 × 50, gradient": lambda: logistic(100_000, 50),
    "logistic regression 100,000 × 50, Hessian-vector product": lambda: logistic(
        100_000, 50, hessian=True
    ),
    "softmax gradient, 1M": lambda: rows("softmax", M),
    "softmax gradient, 16M": lambda: rows("softmax", 16 * M),
    "layer norm gradient, 1M": lambda: rows("layer norm", M),
    "layer norm gradient, 16M": lambda: rows("layer norm", 16 * M),
    "gelu gradient, 1M": lambda: rows("gelu", M),
    "gelu gradient, 16M": lambda: rows("gelu", 16 * M),
    "cross-entropy gradient, 1M": lambda: cross_entropy(M),
    "cross-entropy gradient, 16M": lambda: cross_entropy(16 * M),
    "causal attention 4×8×256×64, gradient": lambda: attention(4, 8, 256, 64),
    "LSTM 64→128 over 200 steps, batch 16, gradient": lambda: recurrent("LSTM", 200, 16, 64, 128),
    "GRU 64→128 over 200 steps, batch 16, gradient": lambda: recurrent("GRU", 200, 16, 64, 128),
    "Gaussian process, 500 points, gradient": lambda: gaussian_process(500),
    "product 512³ and its gradients": lambda: product(512),
    "product 4096³ and its gradients": lambda: product(4096),
}
# Steps whose memory is worth a look.
LARGE = (
    "gelu gradient, 16M",
    "softmax gradient, 16M",
    "cross-entropy gradient, 16M",
    "MLP 784-512-256-10, batch 128, Adam step",
    "causal attention 4×8×256×64, gradient",
)
