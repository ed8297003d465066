"""Models brought in: run, differentiated, compiled, trained; files; what cannot be run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve.errors import (
    DTypeError,
    ShapeError,
    StructureError,
    TracedValueError,
    UnsupportedError,
)

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

node, load = helper.make_node, bs.interop.onnx.load
Make = Any


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture
def mlp(make: Make, rng: np.random.Generator) -> Any:
    nodes = [
        node("Gemm", ["x", "w1", "b1"], ["h"], transB=1),
        node("Relu", ["h"], ["a"]),
        node("Gemm", ["a", "w2", "b2"], ["y"], transB=1),
    ]
    arrays = {
        "w1": rng.normal(size=(8, 3)).astype(np.float32),
        "b1": np.zeros(8, np.float32),
        "w2": rng.normal(size=(2, 8)).astype(np.float32),
        "b2": np.zeros(2, np.float32),
    }
    return make(nodes, {"x": ["batch", 3]}, {"y": ["batch", 2]}, arrays)


@pytest.fixture
def cnn(make: Make, rng: np.random.Generator) -> Any:
    nodes = [
        node(
            "Conv", ["x", "w", "b"], ["c"], kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2]
        ),
        node("BatchNormalization", ["c", "scale", "shift", "mean", "var"], ["n"]),
        node("Relu", ["n"], ["r"]),
        node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Shape", ["p"], ["s"], start=0, end=1),
        node("Concat", ["s", "rest"], ["flat"], axis=0),
        node("Reshape", ["p", "flat"], ["v"]),
        node("MatMul", ["v", "out"], ["z"]),
        node("Softmax", ["z"], ["y"]),
    ]
    arrays = {
        "w": rng.normal(size=(4, 2, 3, 3)),
        "b": rng.normal(size=4),
        "scale": 1 + rng.random(4),
        "shift": rng.normal(size=4),
        "mean": rng.normal(size=4),
        "var": 1 + rng.random(4),
        "rest": np.array([-1]),
        "out": rng.normal(size=(16, 3)),
    }
    double = TensorProto.DOUBLE
    return make(nodes, {"x": (double, ["n", 2, 8, 8])}, {"y": (double, ["n", 3])}, arrays)


# ---- running, and all that is done with a function


def test_an_mlp(mlp: Any, rng: np.random.Generator) -> None:
    model, x = load(mlp), rng.normal(size=(5, 3)).astype(np.float32)
    p = model.parameters
    expected = np.maximum(x @ p["w1"].T, 0) @ p["w2"].T
    np.testing.assert_allclose(model(x), expected, rtol=1e-5)
    np.testing.assert_allclose(model(x=x), expected, rtol=1e-5)
    assert model.inputs == {"x": (np.dtype(np.float32), ("batch", 3))}
    assert model.outputs == ("y",)
    assert sorted(model.parameters) == ["b1", "b2", "w1", "w2"]


def test_parameters_can_be_passed_and_replaced(mlp: Any, rng: np.random.Generator) -> None:
    model, x = load(mlp), rng.normal(size=(5, 3)).astype(np.float32)
    zero = model.with_parameters({"w2": np.zeros((2, 8), np.float32), "b2": np.ones(2, np.float32)})
    np.testing.assert_array_equal(zero(x), np.ones((5, 2), np.float32))
    assert not (model(x) == 1).all()
    gradient = bs.grad(lambda p: model.with_parameters(p)(x).sum())(model.parameters)
    np.testing.assert_allclose(gradient["b2"], [5, 5])
    with pytest.raises(StructureError, match="w3"):
        model.with_parameters({"w3": np.zeros(1)})


def test_gradients_through_a_cnn(cnn: Any, rng: np.random.Generator) -> None:
    model, x = load(cnn), rng.normal(size=(2, 2, 8, 8))
    weights = rng.normal(size=(2, 3))

    def loss(parameters: Any, x: Any) -> Any:
        return (model.with_parameters(parameters)(x) * weights).sum()

    bs.testing.check_grads(loss, [model.parameters, x], order=1)
    assert sorted(model.state) == ["mean", "var"]
    assert "rest" not in model.parameters


def test_inside_jit(cnn: Any, rng: np.random.Generator) -> None:
    model, x = load(cnn), rng.normal(size=(2, 2, 8, 8))
    np.testing.assert_allclose(bs.jit(model)(x), model(x), rtol=1e-10)
    loss = lambda m, x: (m(x) ** 2).sum()
    eager, compiled = bs.grad(loss)(model, x), bs.jit(bs.grad(loss))(model, x)
    for name, g in eager.parameters.items():
        np.testing.assert_allclose(compiled.parameters[name], g, rtol=1e-8, atol=1e-12)


def test_fine_tuning(mlp: Any, rng: np.random.Generator) -> None:
    model = load(mlp)
    x = rng.normal(size=(64, 3)).astype(np.float32)
    y = (x[:, 0] > 0).astype(int)
    fitted = bs.fit(
        model,
        bs.nn.functional.cross_entropy,
        (x, y),
        optimizer=bs.optim.Adam(lr=0.05),
        epochs=20,
        metrics=["accuracy"],
    )
    assert fitted.metrics["accuracy"] > 0.95
    assert type(fitted.model) is type(model)


# ---- control flow


def test_a_branch_and_a_loop_inside_jit(make: Make) -> None:
    def branch(name: str, operator: str) -> Any:
        out = helper.make_tensor_value_info(name, TensorProto.DOUBLE, [])
        return helper.make_graph([node(operator, ["x"], [name])], name, [], [out])

    nodes = [
        node("Greater", ["x", "zero"], ["positive"]),
        node(
            "If",
            ["positive"],
            ["y"],
            then_branch=branch("a", "Sin"),
            else_branch=branch("b", "Exp"),
        ),
    ]
    double = TensorProto.DOUBLE
    proto = make(nodes, {"x": (double, [])}, {"y": (double, [])}, {"zero": np.array(0.0)})
    model = load(proto)
    f = bs.jit(model)
    for x in (0.5, -0.5):
        x = np.array(x)
        expected = np.sin(x) if x > 0 else np.exp(x)
        np.testing.assert_allclose([model(x), f(x)], [expected] * 2)
        slope = np.cos(x) if x > 0 else np.exp(x)
        np.testing.assert_allclose([bs.grad(model)(x), bs.grad(f)(x)], [slope] * 2)


def test_a_loop_that_ends_by_a_condition(make: Make) -> None:
    double, boolean = TensorProto.DOUBLE, TensorProto.BOOL
    info = helper.make_tensor_value_info
    body = helper.make_graph(
        [node("Mul", ["s", "two"], ["t"]), node("Less", ["t", "limit"], ["more"])],
        "body",
        [info("k", TensorProto.INT64, []), info("on", boolean, []), info("s", double, [])],
        [info("more", boolean, []), info("t", double, [])],
    )
    proto = make(
        [node("Loop", ["", "", "x"], ["y"], body=body)],
        {"x": (double, [])},
        {"y": (double, [])},
        {"two": np.array(2.0), "limit": np.array(100.0)},
    )
    model = load(proto)
    assert model(np.array(3.0)) == 192
    assert bs.grad(model)(np.array(3.0)) == 64
    assert bs.jit(model)(np.array(3.0)) == 192
    assert bs.jit(bs.grad(model))(np.array(3.0)) == 64


# ---- files, functions, inputs


def test_files_and_external_data(mlp: Any, rng: np.random.Generator, tmp_path: Path) -> None:
    x = rng.normal(size=(5, 3)).astype(np.float32)
    expected = load(mlp)(x)
    onnx.save(mlp, tmp_path / "one.onnx")
    big = onnx.ModelProto.FromString(mlp.SerializeToString())
    onnx.save(
        big,
        tmp_path / "two.onnx",
        save_as_external_data=True,
        location="two.data",
        size_threshold=0,
    )
    assert (tmp_path / "two.data").exists()
    for source in (tmp_path / "one.onnx", str(tmp_path / "two.onnx"), mlp.SerializeToString()):
        np.testing.assert_array_equal(load(source)(x), expected)
    (tmp_path / "text.onnx").write_text("not a model")
    with pytest.raises(ValueError, match="no ONNX model"):
        load(tmp_path / "text.onnx")
    with pytest.raises(TypeError, match="path of an ONNX file"):
        load(3)


def test_functions_of_the_model(make: Make) -> None:
    scale = helper.make_node("Constant", [], ["c"])
    reference = onnx.AttributeProto(name="value_float", type=onnx.AttributeProto.FLOAT)
    reference.ref_attr_name = "by"
    scale.attribute.append(reference)
    function = helper.make_function(
        "own",
        "Scaled",
        ["a"],
        ["b"],
        [scale, node("Mul", ["a", "c"], ["b"])],
        [helper.make_opsetid("", 22)],
        ["by"],
    )
    proto = make(
        [node("Scaled", ["x"], ["y"], domain="own", by=3.0)],
        {"x": [2]},
        {"y": [2]},
        functions=[function],
    )
    proto.opset_import.append(helper.make_opsetid("own", 1))
    np.testing.assert_array_equal(load(proto)(np.ones(2, np.float32)), [3, 3])


def test_an_initialiser_that_is_an_input_can_be_given(make: Make) -> None:
    proto = make(
        [node("Add", ["x", "by"], ["y"])],
        {"x": [2], "by": []},
        {"y": [2]},
        {"by": np.float32(1)},
    )
    model = load(proto)
    np.testing.assert_array_equal(model(np.zeros(2, np.float32)), [1, 1])
    np.testing.assert_array_equal(model(np.zeros(2, np.float32), by=np.float32(5)), [5, 5])


def test_inputs_that_do_not_fit(mlp: Any) -> None:
    model = load(mlp)
    with pytest.raises(TypeError, match=r"needs x float32\[batch, 3\]"):
        model()
    with pytest.raises(TypeError, match="takes 1 inputs"):
        model(1, 2)
    with pytest.raises(TypeError, match="'z' is given unknown; there are x"):
        model(np.ones((1, 3), np.float32), z=1)
    with pytest.raises(ShapeError, match=r"input x float32\[batch, 3\] .* shape \[1, 4\]"):
        model(np.ones((1, 4), np.float32))


def test_inputs_have_the_kind_of_numbers_that_is_declared(make: Make) -> None:
    proto = make([node("Div", ["a", "b"], ["y"])], {"a": [2], "b": [2]}, {"y": [2]}, {})
    divide = load(proto)
    whole = np.array([1, 7]), np.array([2, 2])
    np.testing.assert_array_equal(divide(*whole), [0.5, 3.5])
    np.testing.assert_array_equal(divide([1, 7], [2, 2]), [0.5, 3.5])
    with pytest.raises(DTypeError, match=r"input a float32\[2\] was given complex128"):
        divide(whole[0] * 1j, whole[1])
    with pytest.raises(TypeError, match=r"needs b float32\[2\]"):
        divide(whole[0], None)
    for kind in (TensorProto.INT64, TensorProto.UINT8):
        for v in proto.graph.input:
            v.type.tensor_type.elem_type = kind
        whole_divide = load(proto)
        np.testing.assert_array_equal(whole_divide([7, 7], [2, 3]), [3, 2])
        for halves in ([1.5, 7.0], np.array([1.5, 7.0])):
            with pytest.raises(DTypeError, match="was given float64"):
                whole_divide(halves, [2, 2])


# ---- what cannot be run says so, and where


def test_no_node_has_inputs_or_outputs_that_its_operator_has_not(make: Make) -> None:
    """A second input of Tanh was where NumPy wrote its result: into the user's array."""
    made = lambda n: make([n], {"x": [2]}, {name: [2] for name in n.output}, {})
    with pytest.raises(StructureError, match=r"Tanh.*at most 1 inputs"):
        load(made(node("Tanh", ["x", "x"], ["y"])))
    with pytest.raises(StructureError, match=r"Add.*at least 2 inputs"):
        load(made(node("Add", ["x"], ["y"])))
    with pytest.raises(StructureError, match=r"Tanh.*at most 1 outputs"):
        load(made(node("Tanh", ["x"], ["y", "z"])))


def test_graphs_that_are_out_of_order_or_damaged(make: Make) -> None:
    made = lambda *nodes: make(nodes, {"x": [2]}, {"y": [2]}, {})
    with pytest.raises(StructureError, match=r"Tanh.*h is read before it is given"):
        load(made(node("Tanh", ["h"], ["y"]), node("Exp", ["x"], ["h"])))
    with pytest.raises(StructureError, match=r"Exp.*y is given before"):
        load(made(node("Tanh", ["x"], ["y"]), node("Exp", ["x"], ["y"])))
    with pytest.raises(ValueError, match="no graph"):
        load(b"")
    content = made(node("Tanh", ["x"], ["y"])).SerializeToString()
    with pytest.raises(UnsupportedError, match="not known"):
        load(content.replace(b"Tanh", b"T\xffnh"))


def test_unknown_operators_and_opsets(make: Make) -> None:
    made = lambda n, opset=22: make([n], {"x": [2]}, {"y": [2]}, {}, opset)
    with pytest.raises(UnsupportedError, match=r"node 'n1' \(Wobble, opset 22; x → y\).*not known"):
        load(made(node("Wobble", ["x"], ["y"], name="n1")))
    with pytest.raises(UnsupportedError, match=r"Wobble of com.x.*imports no opset"):
        load(made(node("Wobble", ["x"], ["y"], domain="com.x")))
    with pytest.raises(UnsupportedError, match=r"opset 99; operators are known up to opset"):
        load(made(node("Relu", ["x"], ["y"]), 99))
    with pytest.raises(UnsupportedError, match=r"Relu.*attribute wobble"):
        load(made(node("Relu", ["x"], ["y"], wobble=1)))
    with pytest.raises(UnsupportedError, match="random numbers"):
        load(made(node("RandomNormalLike", ["x"], ["y"])))
    with pytest.raises(StructureError, match="nothing in the graph gives z"):
        load(made(node("Add", ["x", "z"], ["y"])))


def test_errors_name_the_node(make: Make) -> None:
    proto = make(
        [node("MatMul", ["x", "w"], ["y"], name="last")],
        {"x": None},
        {"y": None},
        {"w": np.ones((3, 2))},
    )
    with pytest.raises(ValueError, match="matmul") as caught:
        load(proto)(np.ones((2, 4)))
    assert "'last' (MatMul" in caught.value.__notes__[0]
    assert "x float64[2, 4], w float64[3, 2]" in caught.value.__notes__[0]


def test_shapes_must_be_known_inside_jit(make: Make) -> None:
    proto = make(
        [node("Reshape", ["x", "shape"], ["y"])],
        {"x": [4], "shape": (TensorProto.INT64, [2])},
        {"y": None},
    )
    model = load(proto)
    assert model(np.ones(4, np.float32), np.array([2, 2])).shape == (2, 2)
    with pytest.raises(TracedValueError, match="the shape of Reshape must be known"):
        bs.jit(model)(np.ones(4, np.float32), np.array([2, 2]))


def test_a_scale_that_varies_is_an_error(make: Make) -> None:
    proto = make(
        [node("Resize", ["x", "", "by"], ["y"], mode="linear")], {"x": [2], "by": [1]}, {"y": None}
    )
    model = load(proto)
    with pytest.raises(bs.errors.DroppedDerivativeError, match="the scales of Resize"):
        bs.grad(lambda s: model(np.ones(2), s).sum())(np.array([2.0]))


def test_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    with pytest.raises(ModuleNotFoundError, match=r"backsolve\[onnx\]"):
        load("model.onnx")


def test_sparse_initialisers(make: Make) -> None:
    proto = make([node("MatMul", ["x", "w"], ["y"])], {"x": [1, 3]}, {"y": [1, 2]})
    values = numpy_helper.from_array(np.array([2.0, 5.0], np.float32), "w")
    places = numpy_helper.from_array(np.array([0, 5]), "places")
    proto.graph.sparse_initializer.append(helper.make_sparse_tensor(values, places, [3, 2]))
    np.testing.assert_array_equal(load(proto)(np.ones((1, 3), np.float32)), [[2, 5]])


def test_a_constant_table_is_read_at_traced_places(make: Make) -> None:
    table, integers = np.arange(6.0).reshape(3, 2), TensorProto.INT64
    proto = make(
        [node("Gather", ["table", "at"], ["y"])],
        {"at": (integers, ["n"])},
        {"y": (TensorProto.DOUBLE, ["n", 2])},
        {"table": table},
    )
    model, at = load(proto), np.array([2, 0, -1])
    np.testing.assert_array_equal(bs.jit(model)(at), table[at])
    gradient = bs.jit(bs.grad(lambda m: m(at).sum()))(model)
    np.testing.assert_array_equal(gradient.parameters["table"], [[1, 1], [0, 0], [2, 2]])
