"""What a graph gives by ONNX's own definition of its operators, held against our values."""

import warnings

import numpy as np

import backsolve as bs
from backsolve import nn, tree

try:
    import onnxruntime
except ModuleNotFoundError:
    onnxruntime = None


def evaluated(made, *args):
    """What a graph gives for arguments in the order of its inputs."""
    import onnx
    from onnx.reference import ReferenceEvaluator

    onnx.shape_inference.infer_shapes(made, strict_mode=True, check_type=True)
    feed = {x.name: np.asarray(a) for x, a in zip(made.graph.input, args, strict=True)}
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = ReferenceEvaluator(made).run(None, feed)
        if onnxruntime is not None:
            _held_against_runtime(made, feed, results)
    return [np.asarray(y) for y in results]


def _held_against_runtime(made, feed, results):
    try:
        run = onnxruntime.InferenceSession(
            made.SerializeToString(), providers=["CPUExecutionProvider"]
        )
    except onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented:
        return
    for x, y in zip(run.run(None, feed), results, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-3, atol=1e-4)


def agree(got, expected, ulps=64, eps=0.0):
    for x, y in zip(got, expected, strict=True):
        y = np.asarray(y)
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        unit = ulps * max(eps, np.finfo(y.dtype).eps) if y.dtype.kind == "f" else 0
        scale = np.max(np.abs(y[np.isfinite(y)]), initial=0) if y.dtype.kind == "f" else 0
        np.testing.assert_allclose(x, y, rtol=unit, atol=unit * scale)


def check(f, *args, ulps=4096, **options):
    """Export, run, compare, and bring back; the arguments that are no weights, in their order."""
    made = bs.interop.onnx.proto(f, *args, **options)
    given = tree.flatten([a for a in args if not isinstance(a, nn.Module)])[0]
    expected = tree.flatten(f(*args))[0]
    agree(evaluated(made, *given), expected, ulps)
    back = tree.flatten(bs.interop.onnx.load(made)(*map(np.asarray, given)))[0]
    agree([np.asarray(y) for y in back], expected, ulps)
    return made


def operators(made):
    return [n.op_type for n in made.graph.node]
