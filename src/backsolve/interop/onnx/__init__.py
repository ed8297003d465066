"""ONNX models: `load` brings one in, as a module whose weights are parameters; `save` writes a function as one.

>>> from onnx import TensorProto, helper, numpy_helper
>>> import numpy as np
>>> import backsolve as bs
>>> weights = numpy_helper.from_array(np.array([[1.0], [2.0]], np.float32), "w")
>>> graph = helper.make_graph(
...     [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Tanh", ["h"], ["y"])],
...     "net",
...     [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 2])],
...     [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 1])],
...     [weights],
... )
>>> proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)])
>>> model = bs.interop.onnx.load(proto)
>>> model
<ONNX model 'net': x float32[batch, 2] → y; 2 nodes, 1 parameter>
>>> model(np.ones((1, 2), np.float32))
array([[0.9950548]], dtype=float32)
>>> bs.grad(lambda m: m(np.ones((1, 2), np.float32)).sum())(model).parameters["w"].round(4)
array([[0.0099],
       [0.0099]], dtype=float32)
"""

from .model import Model as Model
from .model import load as load
from .saving import proto as proto
from .saving import save as save
