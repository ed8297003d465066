"""A graph without what nothing reads."""

from __future__ import annotations

from collections.abc import Iterator

import onnx


def without_unused(graph: onnx.GraphProto) -> onnx.GraphProto:
    """Nodes and initialisers that some output rests on; inputs stay."""
    needed = {x.name for x in graph.output}
    kept = _needed_nodes(graph, needed)
    constants = [x for x in graph.initializer if x.name in needed]
    del graph.node[:], graph.initializer[:]
    graph.node.extend(kept)
    graph.initializer.extend(constants)
    return graph


def _needed_nodes(graph: onnx.GraphProto, needed: set[str]) -> list[onnx.NodeProto]:
    kept = []
    for node in reversed(graph.node):
        if not needed.isdisjoint(node.output):
            for inner in _bodies(node):
                needed |= {x.name for x in inner.output}
                nodes = _needed_nodes(inner, needed)
                del inner.node[:]
                inner.node.extend(nodes)
            needed |= set(node.input)
            kept.append(node)
    return kept[::-1]


def _bodies(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    for a in node.attribute:
        if a.type == onnx.AttributeProto.GRAPH:
            yield a.g
