"""Many GPUs on paper: memory, communication and efficiency of a training step, from figures of one GPU.

Per GPU and step, for n GPUs, g of them in a node (so m = n / g nodes), and a collective over B bytes:

    all-gather, reduce-scatter    (g − 1)/g · B / NVLink  +  (m − 1)/m · B/g / InfiniBand  +  latency
    all-reduce                    a reduce-scatter and an all-gather

The first term runs inside nodes, the second between them: each of g GPUs moves its share over its own link.

    data     all-reduce of the gradients, while the backward pass runs
    fully    all-gather of the weights, forward and backward, and reduce-scatter of the gradients, meanwhile
    tensor   in each node 4 all-reduces of every layer's activations, for which all wait; `data` between nodes

What runs beside arithmetic is hidden by it as far as that lasts, and at most to a share (`Cluster.hidden`).

Activations follow Korthikanti et al. (2022): a layer keeps s · b · h · (34 + 5 · a · s / h) bytes in 16 bits:
sequence s, batch b, width h and heads a; the second term only if the matrix of attention is stored.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

KINDS = ("data", "fully", "tensor")
_BACKWARD = 2 / 3  # of a step's arithmetic


@dataclass(frozen=True)
class Model:
    """A decoder-only transformer."""

    parameters: float
    layers: int
    width: int
    heads: int
    vocabulary: int
    sequence: int = 1024

    def flops(self, batch: float) -> float:
        """Of a training step: 6 for each parameter and token, and those of attention."""
        attention = 12 * self.layers * self.width * self.sequence
        return (6 * self.parameters + attention) * batch * self.sequence


GPT2_SMALL = Model(124e6, layers=12, width=768, heads=12, vocabulary=50257)
GPT_7B = Model(6.7e9, layers=32, width=4096, heads=32, vocabulary=50257, sequence=2048)
GPT_70B = Model(70e9, layers=80, width=8192, heads=64, vocabulary=50257, sequence=4096)


@dataclass(frozen=True)
class Measured:
    """A step on one GPU: what was computed, and in how many seconds."""

    seconds: float
    model: Model = GPT2_SMALL
    batch: int = 8

    @property
    def rate(self) -> float:
        """Operations per second that this step reached."""
        return self.model.flops(self.batch) / self.seconds


@dataclass(frozen=True)
class Cluster:
    """Links as they are sold, and which share of that a collective reaches.

    NVLink's 900 GB/s are both directions together; InfiniBand's 400 Gb/s, one link for each GPU, are one.
    """

    memory: float = 141e9  # bytes of one GPU
    node: int = 8  # GPUs that NVLink joins
    nvlink: float = 900e9  # bytes per second, both directions
    infiniband: float = 400e9  # bits per second and GPU, each direction
    share: float = 0.8
    latency: float = 5e-6  # seconds of one message
    hidden: float = 0.8  # share of communication beside arithmetic that costs no time, at best

    def exposed(self, communication: float, beside: float) -> float:
        """Seconds that communication adds to `beside` seconds of arithmetic that run at the same time."""
        return max(communication - beside, (1 - self.hidden) * communication)

    def gather(self, size: float, gpus: int) -> float:
        """Seconds until each GPU has all of `size` bytes that lie in parts on them; or has summed its part."""
        inside = min(gpus, self.node)
        nodes = gpus // inside
        inner = (inside - 1) / inside * size / (self.share * self.nvlink / 2)
        outer = (nodes - 1) / nodes * size / inside / (self.share * self.infiniband / 8)
        return inner + outer + self.latency * (inside - 1 + math.log2(nodes))

    def between_nodes(self, size: float, nodes: int) -> float:
        """The same where every GPU talks to its peers in other nodes alone."""
        outer = (nodes - 1) / nodes * size / (self.share * self.infiniband / 8)
        return outer + self.latency * math.log2(nodes)


@dataclass(frozen=True)
class Bytes:
    """Of each parameter: 16-bit weights and gradients, Adam's state and the master copy in float32."""

    weights: float = 2
    gradients: float = 2
    optimizer: float = 12


@dataclass(frozen=True)
class Plan:
    """What a step takes on each of `gpus` GPUs: bytes of memory, bytes sent, seconds."""

    kind: str
    gpus: int
    weights: float
    gradients: float
    optimizer: float
    activations: float
    sent: float  # bytes that go through the links of a GPU in one direction
    compute: float  # seconds
    communication: float  # seconds, if nothing else went on
    exposed: float  # seconds of it that arithmetic does not hide
    capacity: float  # bytes of a GPU

    @property
    def memory(self) -> float:
        return self.weights + self.gradients + self.optimizer + self.activations

    @property
    def fits(self) -> bool:
        return self.memory <= self.capacity

    @property
    def seconds(self) -> float:
        return self.compute + self.exposed

    @property
    def efficiency(self) -> float:
        """Of the speed that as many single GPUs would have."""
        return self.compute / self.seconds


def plan(
    model: Model,
    gpus: int,
    kind: str,
    measured: Measured,
    batch: float = 8,
    cluster: Cluster | None = None,
    size: Bytes | None = None,
    stores_attention: bool = False,
    recompute: bool = False,
) -> Plan:
    """A step of a model on `gpus` GPUs, with `batch` sequences for each of them.

    Arithmetic runs at the measured rate. With `recompute` layers keep their inputs alone and run twice.

    >>> alone = Measured(seconds=0.016)
    >>> p = plan(GPT2_SMALL, 8, "data", alone)
    >>> f"{p.memory / 1e9:.1f} GB, {p.communication * 1e3:.2f} ms to send, efficiency {p.efficiency:.0%}"
    '7.8 GB, 1.28 ms to send, efficiency 98%'
    """
    cluster, size = cluster or Cluster(), size or Bytes()
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(KINDS)}, got {kind!r}")
    if gpus < 1 or (gpus > cluster.node and gpus % cluster.node):
        raise ValueError(f"{gpus} GPUs are no whole nodes of {cluster.node}")
    split = min(gpus, cluster.node) if kind == "tensor" else 1  # GPUs that share one product
    parts = gpus if kind == "fully" else split  # into which the weights are cut
    weights, gradients = model.parameters * size.weights, model.parameters * size.gradients
    compute = model.flops(batch) / measured.rate * (4 / 3 if recompute else 1)
    if kind == "data":
        sent = 2 * (gpus - 1) / gpus * gradients
        communication = 2 * cluster.gather(gradients, gpus)
        exposed = cluster.exposed(communication, _BACKWARD * compute)
    elif kind == "fully":
        sent = (gpus - 1) / gpus * (2 * weights + gradients)
        per_layer = 2 * cluster.gather(weights / model.layers, gpus)
        per_layer += cluster.gather(gradients / model.layers, gpus)
        communication = model.layers * per_layer
        exposed = cluster.exposed(communication, compute)
    else:
        nodes = gpus // split
        layer = 2.0 * split * batch * model.sequence * model.width  # bytes, in 16 bits
        waits = 4 * model.layers * 2 * cluster.gather(layer, split)
        hidden = 2 * cluster.between_nodes(gradients / split, nodes)
        sent = 4 * model.layers * 2 * (split - 1) / split * layer
        sent += 2 * (nodes - 1) / nodes * gradients / split
        communication = waits + hidden
        exposed = waits + cluster.exposed(hidden, _BACKWARD * compute)
    return Plan(
        kind,
        gpus,
        weights / parts,
        gradients / parts,
        model.parameters * size.optimizer / parts,
        activations(model, split * batch, split, stores_attention, recompute),
        sent,
        compute,
        communication,
        exposed,
        cluster.memory,
    )


def activations(
    model: Model,
    batch: float,
    split: int = 1,
    stores_attention: bool = False,
    recompute: bool = False,
) -> float:
    """Bytes that the forward pass of `batch` sequences keeps on each of `split` GPUs that share its work."""
    entries = model.sequence * batch * model.width
    matrix = 5 * model.heads * model.sequence / model.width if stores_attention else 0
    one = entries * (10 + (24 + matrix) / split)
    kept = model.layers * 2 * entries + one if recompute else model.layers * one
    logits = 8 * batch * model.sequence * model.vocabulary / split  # float32, and their gradient
    return kept + logits


def table(
    model: Model,
    measured: Measured,
    gpus: Iterable[int] = (8, 64, 512, 4096),
    kinds: Iterable[str] = KINDS,
    batch: float = 8,
    cluster: Cluster | None = None,
    recompute: bool = False,
) -> str:
    """Plans as lines of text: for each GPU, gigabytes in memory and sent, milliseconds of a step."""
    sized = ("weights", "gradients", "optimiser", "activations", "memory", "sent")
    timed = ("compute", "comm.", "exposed")
    lines = [
        " ".join(["kind   ", " GPUs", *[name.rjust(9) for name in (*sized, *timed)], "efficiency"])
    ]
    for kind in kinds:
        for n in gpus:
            p = plan(model, n, kind, measured, batch, cluster, recompute=recompute)
            sizes = p.weights, p.gradients, p.optimizer, p.activations, p.memory, p.sent
            times = p.compute, p.communication, p.exposed
            fields = [
                f"{x / 1e9:.2f}".rjust(max(9, len(name)))
                for x, name in zip(sizes, sized, strict=True)
            ]
            fields += [f"{x * 1e3:.1f}".rjust(9) for x in times]
            result = f"{p.efficiency:.0%}" if p.fits else "too large"
            lines.append(" ".join([f"{kind:<7}", f"{n:>5}", *fields, result.rjust(10)]))
    return "\n".join(lines)
