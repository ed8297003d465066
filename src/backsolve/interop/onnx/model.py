"""An ONNX model as a module: its weights are parameters, a call runs its graph."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from ...errors import StructureError, UnsupportedError
from ...nn.module import Module
from . import operators as operators
from .graph import Domains, Graph
from .inputs import Input

LATEST = 28  # the last opset whose operators the table knows

# inputs of operators that are state, or that say what is computed rather than being part of it
_STATE = {("BatchNormalization", 3), ("BatchNormalization", 4)}
_SETTINGS = {("Resize", 1), ("Resize", 2), ("Upsample", 1), ("NonMaxSuppression", 3)} | {
    ("NonMaxSuppression", 4)
}


def load(source: Any) -> Model:
    """The model of a file (arrays that it keeps in others are read, too), of its bytes, or of a ModelProto.

    It is a module: `bs.grad`, `bs.jit`, optimisers and `bs.fit` take it. Its `parameters` are the arrays of
    real numbers that the file has for the graph (initialisers), by name; means and variances of batch
    normalisation are its `state`. Numbers without axes, integers, and what lies inside of branches and loops
    stay as they are.
    """
    try:
        import onnx
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "bs.interop.onnx needs the package onnx: pip install 'backsolve[onnx]'"
        ) from None
    no_model = importlib.import_module("google.protobuf.message").DecodeError
    try:
        if isinstance(source, str | os.PathLike):
            source = onnx.load(os.fspath(source))
        elif isinstance(source, bytes):
            source = onnx.load_model_from_string(source)
    except no_model as error:
        raise ValueError(f"this is no ONNX model: {error}") from None
    if not isinstance(source, onnx.ModelProto):
        raise TypeError(
            f"load takes the path of an ONNX file, its bytes or a ModelProto, got {type(source)}"
        )
    if not source.HasField("graph"):
        raise ValueError("this is no ONNX model: it has no graph")
    return Model(source)


class Model(Module):
    """A graph to be called; see `load`.

    `model(x)` and `model(name=x)` give the output, or a tuple of several. `inputs` has the types that are
    declared, `outputs` the names, in order.
    """

    buffers: ClassVar[tuple[str, ...]] = ("state",)

    def __init__(self, proto: Any):
        opsets = {d.domain: d.version for d in proto.opset_import}
        newest = max(opsets.get("", 0), opsets.get("ai.onnx", 0))
        if newest > LATEST:
            raise UnsupportedError(
                f"the model is of opset {newest}; operators are known up to opset {LATEST}. Convert it: "
                f"onnx.version_converter.convert_version(model, {LATEST})"
            )
        domains = Domains(opsets, {(f.domain, f.name): f for f in proto.functions})
        graph = Graph.of(proto.graph, domains)
        kinds = _kinds(graph)
        self.parameters = {n: np.array(graph.constants.pop(n)) for n in kinds["parameter"]}
        self.state = {n: np.array(graph.constants.pop(n)) for n in kinds["state"]}
        self.form = Form(proto, graph, (*self.parameters, *self.state))

    @property
    def inputs(self) -> dict[str, Any]:
        """(dtype, shape) of what the graph takes, by name; None for sequences."""
        kinds = self.form.inputs.items()
        return {name: (x.dtype, x.shape) if x.is_array else None for name, x in kinds}

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the results, in their order."""
        return self.form.graph.outputs

    def with_parameters(self, parameters: Mapping[str, Any]) -> Model:
        """The model with others in the place of some parameters."""
        return self.replace({f"parameters.{name}": a for name, a in parameters.items()})

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        values = {**self.parameters, **self.state, **self.form.arranged(inputs, named)}
        with np.errstate(all="ignore"):
            results = self.form.graph.run([values.get(name) for name in self.form.graph.inputs])
        return results[0] if len(results) == 1 else tuple(results)

    def __repr__(self) -> str:
        form = self.form
        inputs = ", ".join(map(str, form.inputs.values()))
        nodes, parameters = len(form.graph.nodes), len(self.parameters)
        return (
            f"<ONNX model {form.name!r}: {inputs} → {', '.join(self.outputs)}; "
            f"{nodes} node{'s' * (nodes != 1)}, {parameters} parameter{'s' * (parameters != 1)}>"
        )


class Form:
    """All of a model but its arrays."""

    def __init__(self, proto: Any, graph: Graph, arrays: tuple[str, ...]):
        self.name, self.graph, self.arrays = proto.graph.name, graph, arrays
        own = {*arrays, *graph.constants}
        declared = {v.name: Input.of(v) for v in proto.graph.input}
        self.inputs = {name: x for name, x in declared.items() if name not in own}
        self.given = {name: declared.get(name, Input(name)) for name in own}  # if they are
        settable = [n for n in graph.constants if n in graph.inputs]
        graph.inputs = (*self.inputs, *arrays, *settable)
        self.defaults = {n: graph.constants.pop(n) for n in settable}
        unknown = graph.reads - set(graph.inputs)
        if unknown:
            raise StructureError(f"nothing in the graph gives {', '.join(sorted(unknown))}")

    def arranged(self, inputs: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
        """Inputs by name, each looked at."""
        names = list(self.inputs)
        if len(inputs) > len(names):
            raise TypeError(
                f"the model takes {len(names)} inputs ({', '.join(names)}), got {len(inputs)}"
            )
        values = dict(zip(names, inputs, strict=False))
        for name, value in named.items():
            if name in values or name not in (*names, *self.defaults, *self.arrays):
                how = "twice" if name in values else f"unknown; there are {', '.join(names)}"
                raise TypeError(f"input {name!r} is given {how}")
            values[name] = value
        missing = [
            str(x) for n, x in self.inputs.items() if values.get(n) is None and not x.is_optional
        ]
        if missing:
            raise TypeError(f"the model needs {', '.join(missing)}")
        kinds = {**self.inputs, **self.given}
        return {**self.defaults, **{n: kinds[n].fitting(v) for n, v in values.items()}}


def _kinds(graph: Graph) -> dict[str, list[str]]:
    """Which arrays of the graph are parameters, and which are state."""
    uses: dict[str, set[tuple[str, int]]] = {}
    for node in graph.nodes:
        for name in node.reads:
            uses.setdefault(name, set())
        for k, name in enumerate(node.inputs):
            uses.setdefault(name, set()).add((node.proto.op_type, k))
    found: dict[str, list[str]] = {"parameter": [], "state": []}
    for name, value in graph.constants.items():
        if value.dtype.kind not in "fc" or value.ndim == 0 or name not in uses:
            continue
        if uses[name] & _SETTINGS:
            continue
        found["state" if uses[name] and uses[name] <= _STATE else "parameter"].append(name)
    return found
