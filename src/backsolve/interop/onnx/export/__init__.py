"""Programs as graphs of ONNX.

A function is recorded for the types of its example arguments, as `bs.jit` does; its Program, which may be a
derivative, becomes a graph, equation by equation (rows/). The graph has no assertions, and looks at no index.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

from .... import tree
from ....errors import BackendError
from ....ir import Program, Type, type_of
from ...named import Named, named, plain_name
from .graph import IR_VERSION, OPSET, Graph, value_info
from .sizes import DiffersError, batch_error, merged
from .tidy import without_unused
from .walk import Walk
from .written import written_out


def proto_of(
    f: Callable[..., Any],
    *args: Any,
    batch: Mapping[str, int] | bool = False,
    weights: int | Sequence[int] | None = None,
    outputs: Sequence[str] | None = None,
    **kwargs: Any,
) -> Any:
    """A function as an `onnx.ModelProto`: see `save`."""
    call = named(f, args, kwargs, weights)
    free = _free_axes(call, batch)
    write = _open_graph if free else _fixed_graph
    made = write(call, free, outputs)
    proto = helper.make_model(
        made,
        producer_name="backsolve",
        ir_version=IR_VERSION,
        opset_imports=[helper.make_opsetid("", OPSET)],
    )
    onnx.checker.check_model(proto)
    return proto


def _recorded(call: Named) -> tuple[Program, tree.Structure]:
    program, structure = call.recorded()
    return written_out(program), structure


def _graph(
    call: Named,
    recorded: tuple[Program, tree.Structure],
    free: Mapping[str, int],
    outputs: Sequence[str] | None,
) -> onnx.GraphProto:
    program, structure = recorded
    ends = [type_of(a) for a in (*program.inputs, *program.outputs)]
    if any(t.dtype.kind == "c" for t in ends):
        raise BackendError(
            "ONNX has no operators for complex numbers, which go in or come out here"
        )
    g = Graph()
    inputs: list[tuple[str, Type]] = []
    names: list[str] = []
    for leaf, v in zip(call.leaves, program.inputs, strict=True):
        if leaf.is_weight:
            names.append(g.constant(leaf.value, leaf.name))
            continue
        names.append(g.name(leaf.name))
        inputs.append((names[-1], v.type))
    if free:
        name = next(iter(free))
        g.batch = name, free[name]
    wished = list(outputs or _names_of(structure))
    if len(wished) != len(program.outputs):
        raise ValueError(
            f"there are {len(program.outputs)} outputs, and {len(wished)} names for them"
        )
    results = Walk(g, program, names).run()
    results = [g.called(y, name) for y, name in zip(results, wished, strict=True)]
    types = [type_of(a) for a in program.outputs]
    made = helper.make_graph(
        g.nodes,
        getattr(call.f, "__name__", "backsolve"),
        [value_info(name, t) for name, t in inputs],
        [value_info(y, t) for y, t in zip(results, types, strict=True)],
        list(g.initializers.values()),
    )
    return without_unused(made)


def _names_of(structure: tree.Structure) -> list[str]:
    if structure.kind is tree.LEAF:
        return ["output"]
    return [plain_name(name) for name in tree.leaf_names(structure, "output")]


def _fixed_graph(
    call: Named, free: Mapping[str, int], outputs: Sequence[str] | None
) -> onnx.GraphProto:
    return _graph(call, _recorded(call), free, outputs)


# ---- a batch of any length


def _free_axes(call: Named, batch: Mapping[str, int] | bool) -> dict[str, int]:
    arrays = {x.name: np.ndim(x.value) for x in call.leaves if not x.is_weight and np.ndim(x.value)}
    if batch is True:
        return dict.fromkeys(arrays, 0)
    if batch is not False and not isinstance(batch, Mapping):
        raise TypeError(f"batch= is True, or axes by name such as {{'x': 0}}; got {batch!r}")
    found = dict(batch or {})
    for name, axis in found.items():
        if name not in arrays or axis not in range(arrays[name]):
            known = ", ".join(f"{n} of {k} axes" for n, k in arrays.items())
            raise ValueError(
                f"batch= names axis {axis} of {name!r}; there are {known or 'no arrays'}"
            )
    return found


def _open_graph(
    call: Named, free: Mapping[str, int], outputs: Sequence[str] | None
) -> onnx.GraphProto:
    """The graph for all lengths of the batch: recorded for three of them, and written for two."""
    lengths = {
        np.shape(x.value)[free[x.name]] for x in call.leaves if x.name in free and not x.is_weight
    }
    if len(lengths) != 1:
        raise batch_error(f"the example has batches of {sorted(lengths)}")
    base = max(2, lengths.pop())
    batches = [base, 2 * base, 3 * base]
    try:
        recorded = [_recorded(call.with_batch(free, n)) for n in batches]
        programs = [p for p, _ in recorded]
        graphs = [
            _graph(call, (merged(programs, batches, k), recorded[0][1]), free, outputs)
            for k in (0, 1)
        ]
    except DiffersError as error:
        raise batch_error(str(error)) from None
    if graphs[0].SerializeToString(deterministic=True) != graphs[1].SerializeToString(
        deterministic=True
    ):
        raise batch_error(f"the graph is another for another one{_where(graphs)}")
    return graphs[0]


def _where(graphs: Sequence[onnx.GraphProto]) -> str:
    for a, b in zip(graphs[0].node, graphs[1].node, strict=False):
        if a.SerializeToString(deterministic=True) != b.SerializeToString(deterministic=True):
            return f", from the operator {a.op_type} on"
    return ""
