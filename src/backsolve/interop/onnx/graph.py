"""A graph that is ready to run: nodes with their functions found and their attributes read."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from typing import Any

import numpy as np

from ...errors import StructureError, UnsupportedError
from ...numpy._register import dtype_of, shape_of
from .operators.table import Run, find, keywords

Scope = MutableMapping[str, Any]
_ALL_SAY = ("consumed_inputs",)  # an attribute of opset 1 that says nothing


class Domains:
    """What the nodes of a model may call: opsets by domain, and the model's own functions."""

    def __init__(self, opsets: Mapping[str, int], functions: Mapping[tuple[str, str], Any]):
        self.opsets = {_short(domain): version for domain, version in opsets.items()}
        self.functions = functions

    def of(self, function: Any) -> Domains:
        """Inside of a function, which names its opsets itself."""
        own = {d.domain: d.version for d in function.opset_import}
        return Domains({**self.opsets, **own}, self.functions)


def _short(domain: str) -> str:
    return "" if domain == "ai.onnx" else domain


class Graph:
    """Names of inputs and outputs, arrays that are part of the graph, and nodes in their order."""

    def __init__(
        self,
        inputs: Sequence[str],
        outputs: Sequence[str],
        nodes: Iterable[Any],
        constants: Mapping[str, Any],
        domains: Domains,
        given: Mapping[str, Any] | None = None,
        output_types: Sequence[Any] = (),
    ):
        self.inputs, self.outputs = tuple(inputs), tuple(outputs)
        self.constants = dict(constants)
        self.nodes = [Node(proto, domains, given) for proto in nodes]
        self.types = [_type_of(t) for t in output_types]
        made = {*self.inputs, *self.constants}.union(*[node.outputs for node in self.nodes])
        self._check_order(made)
        read = {name for node in self.nodes for name in node.reads} | set(self.outputs)
        self.reads: set[str] = read - made - {""}  # from around
        last = {name: node for node in self.nodes for name in node.reads}
        for name, node in last.items():
            if name not in self.outputs:
                node.releases.append(name)

    def _check_order(self, made: set[str]) -> None:
        """Raise if a name is read before it is given, or given twice."""
        known = {*self.inputs, *self.constants}
        for node in self.nodes:
            early = (node.reads & made) - known
            twice = known.intersection(node.outputs)
            if early:
                raise StructureError(f"{node}: {min(early)} is read before it is given")
            if twice:
                raise StructureError(f"{node}: {min(twice)} is given before")
            known.update([name for name in node.outputs if name])

    @classmethod
    def of(cls, proto: Any, domains: Domains, given: Mapping[str, Any] | None = None) -> Graph:
        constants = {t.name: array_of(t) for t in proto.initializer}
        constants.update({t.values.name: dense(t) for t in proto.sparse_initializer})
        return cls(
            [v.name for v in proto.input],
            [v.name for v in proto.output],
            proto.node,
            constants,
            domains,
            given,
            [v.type for v in proto.output],
        )

    def run(self, values: Sequence[Any], around: Scope | None = None) -> list[Any]:
        """Outputs of inputs in their order; `around` has the values of the graphs that this one stands in."""
        own: dict[str, Any] = {**self.constants, **dict(zip(self.inputs, values, strict=True))}
        scope: Scope = own if around is None else ChainMap(own, around)
        for node in self.nodes:
            node.run(scope, own)
        return [scope.get(name) for name in self.outputs]


class Body:
    """A graph inside of a node, to be called with its inputs."""

    def __init__(self, graph: Graph, around: Scope):
        self.graph, self.around = graph, around
        self.count, self.types = len(graph.outputs), graph.types

    def __call__(self, *values: Any) -> list[Any]:
        return self.graph.run(values, self.around)


class Node:
    """One call of an operator."""

    def __init__(self, proto: Any, domains: Domains, given: Mapping[str, Any] | None):
        self.proto, self.domains = proto, domains
        self.inputs, self.outputs = tuple(proto.input), tuple(proto.output)
        while self.outputs and not self.outputs[-1]:
            self.outputs = self.outputs[:-1]
        self.attributes = _attributes(proto, domains, given)
        self.bodies = {k: a for k, a in self.attributes.items() if isinstance(a, Graph)}
        self.reads: set[str] = {n for n in self.inputs if n}.union(
            *[g.reads for g in self.bodies.values()]
        )
        self.releases: list[str] = []
        self.call = self._found()

    def __str__(self) -> str:
        name = f" {self.proto.name!r}" if self.proto.name else ""
        opset = self.domains.opsets.get(_short(self.proto.domain))
        domain = f" of {self.proto.domain}" if _short(self.proto.domain) else ""
        return (
            f"node{name} ({self.proto.op_type}{domain}, opset {opset}; "
            f"{', '.join(self.inputs)} → {', '.join(self.outputs)})"
        )

    def _found(self) -> Run:
        domain, name = _short(self.proto.domain), self.proto.op_type
        function = self.domains.functions.get((domain, name))
        if function is not None:
            return called(expanded(function, self.domains.of(function), self.attributes))
        if domain not in self.domains.opsets:
            raise UnsupportedError(f"{self}: the model imports no opset of this domain")
        from .definitions import check_counts, definition

        opset = self.domains.opsets[domain]
        run = find(domain, name, opset)
        if run is None:
            return definition(self, opset)
        check_counts(self, opset)
        named, takes_all = keywords(run)
        unknown = [k for k in self.attributes if k not in named and k not in _ALL_SAY]
        if unknown and not takes_all:
            raise UnsupportedError(f"{self}: attribute {', '.join(unknown)} is not known")
        self.attributes = {k: v for k, v in self.attributes.items() if k in named or takes_all}
        if "_outputs" in named:
            self.attributes["_outputs"] = len(self.outputs)
        if "_opset" in named:
            self.attributes["_opset"] = opset
        return run

    def run(self, scope: Scope, own: dict[str, Any]) -> None:
        attributes = self.attributes
        if self.bodies:
            attributes = {**attributes, **{k: Body(g, scope) for k, g in self.bodies.items()}}
        try:
            result = self.call(*[scope[n] if n else None for n in self.inputs], **attributes)
        except Exception as error:
            error.add_note(f"in {self} of the ONNX graph{self._shapes(scope)}")
            raise
        results = result if isinstance(result, tuple | list) else (result,)
        for name, value in zip(self.outputs, results, strict=False):
            if name:
                own[name] = np.asarray(value) if isinstance(value, np.generic) else value
        for name in self.releases:
            own.pop(name, None)

    def _shapes(self, scope: Scope) -> str:
        known = [(n, scope[n]) for n in self.inputs if n in scope]
        texts = [f"{n} {dtype_of(v)}{list(shape_of(v))}" for n, v in known if hasattr(v, "dtype")]
        return f"; there: {', '.join(texts)}" if texts else ""


# ---- functions: graphs that are called like operators


def expanded(function: Any, domains: Domains, given: Mapping[str, Any]) -> Graph:
    """The graph of a function, with the attributes of one call."""
    defaults = {a.name: value_of(a, domains) for a in function.attribute_proto}
    return Graph(function.input, function.output, function.node, {}, domains, {**defaults, **given})


def called(graph: Graph) -> Run:
    """A function's graph as an operator: trailing inputs may be missing, and outputs that no call gives."""

    def call(*values: Any, **attributes: Any) -> Any:
        return graph.run([*values, *[None] * (len(graph.inputs) - len(values))])

    return call


# ---- reading


def _attributes(proto: Any, domains: Domains, given: Mapping[str, Any] | None) -> dict[str, Any]:
    found = {}
    for a in proto.attribute:
        if not a.ref_attr_name:
            found[a.name] = value_of(a, domains, given)
        elif given is not None and a.ref_attr_name in given:
            found[a.name] = given[a.ref_attr_name]
    return found


def value_of(a: Any, domains: Domains, given: Mapping[str, Any] | None = None) -> Any:
    """What an attribute holds, as Python's numbers, strings, arrays and graphs."""
    from onnx import AttributeProto, helper

    if a.type == AttributeProto.GRAPH:
        return Graph.of(a.g, domains, given)
    if a.type == AttributeProto.TENSOR:
        return array_of(a.t)
    if a.type == AttributeProto.SPARSE_TENSOR:
        return dense(a.sparse_tensor)
    value = helper.get_attribute_value(a)
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, list) and value and isinstance(value[0], bytes):
        return [v.decode() for v in value]
    return value


def array_of(tensor: Any) -> Any:
    """The numbers of a TensorProto."""
    from onnx import numpy_helper

    x = numpy_helper.to_array(tensor)
    if x.dtype.kind not in "biufc":
        raise UnsupportedError(
            f"{tensor.name or 'a constant'}: arrays of {x.dtype} are no numbers here"
        )
    return x


def dense(tensor: Any) -> Any:
    """A SparseTensorProto, written out."""
    values, places = array_of(tensor.values), array_of(tensor.indices)
    x = np.zeros(tuple(tensor.dims), values.dtype)
    if places.ndim == 1:
        x.reshape(-1)[places] = values
    else:
        x[tuple(places.T)] = values
    return x


def _type_of(proto: Any) -> tuple[tuple[int, ...], Any]:
    """Shape, where it is known, and dtype of an output that a body declares."""
    from .operators.types import dtype_named

    tensor = proto.tensor_type
    shape = tuple(d.dim_value for d in tensor.shape.dim)
    return shape, dtype_named(tensor.elem_type) if tensor.elem_type else np.dtype(np.float32)
