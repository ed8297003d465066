"""Programs as StableHLO: text for any platform, and bytes that JAX runs without us."""

import subprocess
import sys

import numpy as np
import pytest
from scipy import special

import backsolve as bs
from backsolve import nn
from backsolve.errors import BackendError

jax = pytest.importorskip("jax")
from backsolve.interop import stablehlo  # noqa: E402

ALONE = """
import sys, jax, numpy as np
jax.config.update("jax_enable_x64", True)
run = jax.export.deserialize(open(sys.argv[1], "rb").read()).call
np.save(sys.argv[2], run(*np.load(sys.argv[3]).values())[0])
assert "backsolve" not in sys.modules
"""


def loss(x, w):
    return np.sum(np.tanh(x @ w) ** 2)


def cube_root(a):
    x = a
    while abs(x**3 - a) > 1e-10:
        x = (2 * x + a / x**2) / 3
    return x


class Only:
    """Types without numbers."""

    def __init__(self, *shape):
        self.shape, self.dtype = shape, np.dtype(np.float32)


def test_text_of_types_alone_for_a_platform_that_is_not_here():
    found = stablehlo.text(bs.grad(loss), Only(2, 3), Only(3, 4), platform="cuda")
    assert "stablehlo.dot_general" in found
    assert "tensor<2x3xf32>" in found
    constant = np.array([0.125, 3.0], np.float32)
    assert "1.250000e-01" in stablehlo.text(lambda x: x * constant, Only(2))


def test_text_is_parsed_and_compiled_again():
    from jax._src.interpreters import mlir
    from jax._src.lib.mlir import ir

    found = stablehlo.text(loss, np.ones((2, 3)), np.ones((3, 4)))
    with mlir.make_ir_context():
        module = ir.Module.parse(found)
        assert module.operation.verify()


def test_what_has_no_form_names_the_row_and_the_line():
    with pytest.raises(BackendError, match=r"(?s)`jv`.*test_stablehlo"):
        stablehlo.text(lambda x: special.jv(1.5, x), 2.0)


def test_a_file_runs_in_a_process_without_us(tmp_path):
    pytest.importorskip("flatbuffers")
    x, w = np.linspace(-0.5, 0.5, 6).reshape(2, 3), np.ones((3, 4))
    stablehlo.save(bs.grad(loss), tmp_path / "g.stablehlo", x, w)
    np.savez(tmp_path / "args.npz", x, w)
    given = [str(tmp_path / name) for name in ("g.stablehlo", "y.npy", "args.npz")]
    subprocess.run([sys.executable, "-c", ALONE, *given], check=True)
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), bs.grad(loss)(x, w), rtol=1e-12)


def test_weights_are_inside_and_long_runs_are_not_believed(tmp_path):
    pytest.importorskip("flatbuffers")
    layer, x = nn.Linear(3, 2), np.ones((4, 3), np.float32)
    run = jax.export.deserialize(stablehlo.artifact(layer, x)).call
    np.testing.assert_allclose(run(x)[0], layer(x), rtol=1e-6)
    with jax.enable_x64(True):
        run = jax.export.deserialize(stablehlo.artifact(bs.grad(cube_root), 8.0)).call
        np.testing.assert_allclose(run(8.0)[0], 1 / 12, rtol=1e-9)
        short = stablehlo.artifact(bs.grad(cube_root), 8.0, capacity=2)
        assert np.isnan(jax.export.deserialize(short).call(8.0)[0])
    stablehlo.save(layer, tmp_path / "layer.mlir", x)
    assert "stablehlo" in (tmp_path / "layer.mlir").read_text()


def test_platforms_and_capacities_that_are_none():
    for given in ({"platforms": "abacus"}, {"platforms": ["cpu", "gpu"]}, {"platforms": []}):
        with pytest.raises(ValueError, match=r"one of cpu, cuda, rocm, tpu; got"):
            stablehlo.artifact(np.sin, np.ones(2), **given)
    with pytest.raises(ValueError, match="capacity=0 must be"):
        stablehlo.artifact(np.sin, np.ones(2), capacity=0)
    one = jax.export.deserialize(stablehlo.artifact(np.sin, np.ones(2), platforms="cpu"))
    assert one.platforms == ("cpu",)
