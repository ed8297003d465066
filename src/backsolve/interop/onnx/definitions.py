"""What ONNX says of its operators: how many inputs and outputs they have, and how others define them.

Operators that are not in the table run by their definition.
"""

from __future__ import annotations

from typing import Any

from ...errors import StructureError, UnsupportedError
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


def check_counts(node: Node, opset: int) -> None:
    """Raise if a node has inputs or outputs that its operator does not have, or too few inputs."""
    schema = _schema(node, opset)
    if schema is None:
        return
    given = [k + 1 for k, name in enumerate(node.inputs) if name]
    few, many = len(node.inputs) < schema.min_input, max(given, default=0) > schema.max_input
    if few or many:
        bound = f"at least {schema.min_input}" if few else f"at most {schema.max_input}"
        raise StructureError(f"{node}: this operator takes {bound} inputs")
    if len(node.outputs) > schema.max_output:
        raise StructureError(f"{node}: this operator gives at most {schema.max_output} outputs")


def _schema(node: Node, opset: int) -> Any:
    """What ONNX knows of a node's operator, or None."""
    from onnx import defs

    name, domain = node.proto.op_type, node.proto.domain
    try:
        return defs.get_schema(name, opset, "" if domain == "ai.onnx" else domain)
    except (
        defs.SchemaError,
        TypeError,
    ):  # the latter for a name that is no text, in a damaged file
        return None


def definition(node: Node, opset: int) -> Run:
    """A function that runs what an operator is defined as, or an error that names the node."""
    from onnx import FunctionProto, helper

    proto, schema = node.proto, _schema(node, opset)
    if schema is None:
        raise UnsupportedError(f"{node}: this operator is not known")
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
