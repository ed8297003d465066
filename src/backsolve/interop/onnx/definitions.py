"""Operators that are not in the table, but that ONNX defines by others: they run by their definition."""

from __future__ import annotations

from typing import Any

from ...errors import UnsupportedError
from ...numpy._register import dtype_of, shape_of
from .graph import Graph, Node, called, expanded, value_of
from .operators.table import Run

_RANDOM = {
    "Bernoulli",
    "Multinomial",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
}


def definition(node: Node, opset: int) -> Run:
    """A function that runs what an operator is defined as, or an error that names the node."""
    from onnx import FunctionProto, defs, helper

    proto = node.proto
    domain = "" if proto.domain == "ai.onnx" else proto.domain
    try:
        schema: Any = defs.get_schema(proto.op_type, opset, domain)
    except defs.SchemaError:
        raise UnsupportedError(f"{node}: this operator is not known") from None
    if schema.has_function:
        body = schema.function_body
        graph = expanded(body, node.domains.of(body), _with_defaults(schema, node))
        return called(graph)
    if proto.op_type in _RANDOM:
        raise UnsupportedError(f"{node} draws random numbers: draw them outside, as an input")
    if not schema.has_context_dependent_function:
        raise UnsupportedError(f"{node}: this operator cannot be run here")
    graphs: dict[Any, Graph] = {}

    def run(*values: Any, **attributes: Any) -> Any:
        kinds = tuple(None if v is None else (str(dtype_of(v)), shape_of(v)) for v in values)
        if kinds not in graphs:
            types = [
                helper.make_tensor_type_proto(
                    helper.np_dtype_to_tensor_dtype(dtype_of(v)), shape_of(v)
                )
                if v is not None
                else helper.make_tensor_type_proto(0, None)
                for v in values
            ]
            text = schema.get_context_dependent_function(
                proto.SerializeToString(), [t.SerializeToString() for t in types]
            )
            body = FunctionProto.FromString(text)
            graphs[kinds] = expanded(body, node.domains.of(body), _with_defaults(schema, node))
        return called(graphs[kinds])(*values)

    return run


def _with_defaults(schema: Any, node: Node) -> dict[str, Any]:
    defaults = {
        name: value_of(a.default_value, node.domains)
        for name, a in schema.attributes.items()
        if a.default_value.name
    }
    return {**defaults, **node.attributes}
