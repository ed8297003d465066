"""Functions of `nn.functional` as ONNX graphs, for some of the calls that are compared with PyTorch."""

import itertools
import pathlib
import sys

import numpy as np
import pytest

from backsolve import nn

onnx = pytest.importorskip("onnx")
sys.path.append(str(pathlib.Path(__file__).parents[2] / "nn"))
from calls import GROUPS  # noqa: E402
from onnx_values import check  # noqa: E402

SOME = 3  # calls of a function
# What ONNX's own evaluator does not have: far entries of log_softmax, transposed groups of several channels,
# windows of two entries, one of them padding, along one axis or three.
BEYOND_IT = {
    "log_softmax",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "max_pool1d",
    "max_pool3d",
}


def calls():
    found = [c for group in GROUPS.values() for c in group() if c.name not in BEYOND_IT]
    found = [
        c for c in found if c.name != "one_hot" or c.options
    ]  # else its shape depends on values
    for _, same in itertools.groupby(sorted(found, key=lambda c: c.name), lambda c: c.name):
        many = list(same)
        yield from many[:: len(many) // SOME + 1]


@pytest.mark.parametrize("call", list(calls()), ids=lambda call: call.label)
def test_functions(call):
    arrays = [np.asarray(a) for a in call.drawn()]
    arrays = [a.astype(np.float32) if a.dtype == np.float64 else a for a in arrays]
    check(lambda *xs: call.of(lambda name: getattr(nn.functional, name), xs), *arrays, ulps=8192)
