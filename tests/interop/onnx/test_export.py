"""Programs written as ONNX graphs, run by ONNX's own definition of its operators, against our own values."""

import numpy as np
import pytest

import backsolve as bs
from backsolve import nn, tree
from backsolve.errors import BackendError, ShapeError
from backsolve.nn.models import GPT2, LeNet, LSTMLanguageModel, resnet18
from backsolve.primitive import PRIMITIVES
from backsolve.testing.fuzz import pulled
from backsolve.testing.fuzz_sketch import sketch
from backsolve.testing.samples import cases

onnx = pytest.importorskip("onnx")
from onnx_values import agree, check, evaluated, operators  # noqa: E402

from backsolve.interop.onnx import proto as model  # noqa: E402
from backsolve.interop.onnx.export.rows import FORMULAS, ROWS  # noqa: E402

DTYPES = ("float32", "float64", "int64", "bool", "float32+python", "python")
SINGLE = ("erf",)  # which ONNX's own evaluator computes in float32


@pytest.mark.parametrize("name", sorted(PRIMITIVES))
def test_rows(name):
    if PRIMITIVES[name].holds_regions:
        return
    eps = {"float32": 2**-23, "float32+python": 2**-23}
    chosen = [c for c in cases(name) if c.dtype in DTYPES and "complex" not in str(c)]
    most = 12 if name in ROWS or name in FORMULAS else 3
    for case in chosen[:: len(chosen) // most + 1]:
        args = case.make(np.random.default_rng(0))
        if name == "reciprocal" and np.asarray(args[0]).dtype.kind in "bi":
            args = [args[0] | (args[0] == 0)]  # of 0 NumPy gives what the processor does
        call = lambda *xs, case=case: case.primitive(*xs, **case.params)
        with np.errstate(all="ignore"):
            expected = np.asarray(call(*args))
        try:
            made = model(call, *args)
        except BackendError as error:
            if name in ROWS or name in FORMULAS:
                raise AssertionError(f"{case} has no form") from error
            continue
        single = 2**-23 if name in SINGLE else eps.get(case.dtype, 0.0)
        agree(evaluated(made, *args), [expected], eps=single)


@pytest.mark.parametrize("first", range(0, 60, 10))
def test_random_programs_and_their_gradients(first):
    exported = 0
    for seed in range(first, first + 10):
        s = sketch(seed)
        f = s.function()
        with np.errstate(all="ignore"):
            both, seeds = pulled(f, s.inputs, np.random.default_rng(seed))
            expected = [np.asarray(y) for y in both(*s.inputs, *seeds)]
        try:
            made = model(both, *s.inputs, *seeds)
        except BackendError:
            continue
        exported += 1
        half = any(np.asarray(a).dtype == np.float16 for a in (*s.inputs, *seeds, *expected))
        agree(evaluated(made, *s.inputs, *seeds), expected, 1e3, 2**-10 if half else 2**-23)
    assert exported >= 5


@pytest.mark.parametrize("dtype", ["int8", "int16", "uint16"])
def test_reductions_of_small_integers(dtype):
    x = np.array([[3, 1], [2, 7]], dtype)
    check(lambda x: (np.min(x, axis=0), np.max(x, axis=1), np.sum(x)), x)


# ---- networks


def images(*shape):
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def resting(module):
    module.eval()
    return module


def test_convolutions_and_pools_are_operators():
    nn.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(4, 8, 3, padding=1, stride=2, groups=2), nn.BatchNorm2d(8), nn.ReLU(),
        nn.MaxPool2d(3, 2, padding=1), nn.Conv2d(8, 4, 2, dilation=2), nn.AvgPool2d(2), nn.Flatten(),
        nn.Linear(4, 3), nn.Softmax(-1),
    )  # fmt: skip
    made = check(resting(net), images(2, 4, 17, 17))
    found = operators(made)
    assert (found.count("Conv"), found.count("Relu")) == (2, 1)
    assert {"MaxPool", "AveragePool", "Gemm", "Softmax"} < set(found)
    assert not {"Pad", "Einsum", "Gather"} & set(found)
    names = {x.name for x in made.graph.initializer}
    assert {"0.weight", "0.bias", "1.running_mean", "7.weight"} < names


@pytest.mark.parametrize(
    ("network", "shape"), [(LeNet, (2, 1, 28, 28)), (lambda: resnet18(10), (1, 3, 32, 32))]
)
def test_networks_for_images(network, shape):
    nn.manual_seed(0)
    check(resting(network()), images(*shape), batch=network is LeNet)


def test_networks_for_text():
    nn.manual_seed(0)
    tokens = np.arange(8).reshape(2, 4)
    made = check(resting(GPT2(50, 16, 16, 2, 2)), tokens, batch=True)
    assert operators(made).count("Softmax") == 2
    made = check(resting(LSTMLanguageModel(50, 8, 8)), tokens, batch={"tokens": 1})
    assert operators(made).count("Loop") == 1


def test_a_batch_of_any_length():
    nn.manual_seed(0)
    net, tokens = resting(LSTMLanguageModel(50, 8, 8)), np.arange(8).reshape(2, 4)
    longer = model(net, tokens, batch=True)  # its first axis is time
    for n in (1, 3, 7):
        more = np.arange(4 * n).reshape(n, 4)
        agree(evaluated(longer, more), tree.flatten(net(more))[0], 4096)
    mlp = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
    loss = lambda x, y: nn.functional.cross_entropy(mlp(x), y)
    made = model(bs.grad(loss), images(2, 4), np.array([0, 1]), batch=True)
    assert made.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"
    x, y = images(5, 4), np.array([0, 1, 2, 1, 0])
    agree(evaluated(made, x, y), [bs.grad(loss)(x, y)], 4096)


def test_lengths_that_cannot_be_left_open():
    odd = lambda x: x * len(x) ** 2
    with pytest.raises(ShapeError, match="cannot be left open"):
        model(odd, np.ones(3), batch=True)
    with pytest.raises(ShapeError, match="cannot be left open"):
        model(lambda x: x.reshape(-1, 2) @ np.ones((2, len(x))), np.ones(4), batch=True)
    with pytest.raises(ShapeError, match=r"batches of \[2, 3\]"):
        model(lambda x, y: x.sum() + y.sum(), np.ones(2), np.ones(3), batch=True)
    with pytest.raises(ValueError, match=r"axis 1 of 'x'; there are x of 1 axes"):
        model(lambda x: x, np.ones(2), batch={"x": 1})
    with pytest.raises(TypeError, match=r"axes by name such as .* got 'x'"):
        model(lambda x: x, np.ones(2), batch="x")


def test_gradients_of_networks():
    nn.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(1, 2, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8, 3)
    )
    loss = lambda net, x, y: nn.functional.cross_entropy(net(x), y)
    made = check(bs.grad(loss), net, images(2, 1, 4, 4), np.array([0, 1]))
    assert [x.name for x in made.graph.input] == ["x", "y"]
    assert [x.name for x in made.graph.output][:2] == ["output.0.weight", "output.0.bias"]
    free = model(bs.grad(loss), net, images(2, 1, 4, 4), np.array([0, 1]), weights=())
    assert [x.name for x in free.graph.input][:2] == ["net.0.weight", "net.0.bias"]


# ---- control flow


def cube_root(a):
    x = a
    while abs(x**3 - a) > 1e-10:
        x = (2 * x + a / x**2) / 3
    return x


def until_large(x):
    y = np.zeros(len(x))
    for i in range(1, len(x)):
        y[i] = y[i - 1] * 0.5 + x[i]
        if y[i] > 1.9:
            break
    return y.sum()


def cases_of_sign(x):
    if x.sum() > 0:
        return {"a": x * 2, "b": np.sin(x)}
    return {"a": x - 1, "b": np.cos(x)}


def running(x):
    s = 0.0
    for k in range(len(x)):
        s = np.tanh(s + x[k])
    return s


@pytest.mark.parametrize(
    ("f", "args"),
    [
        (cube_root, (8.0,)),
        (bs.grad(cube_root), (8.0,)),
        (until_large, (np.ones(20),)),
        (bs.grad(until_large), (np.ones(20),)),
        (cases_of_sign, (np.ones(3),)),
        (cases_of_sign, (-np.ones(3),)),
        (bs.grad(lambda x: cases_of_sign(x)["b"].sum()), (-np.ones(3),)),
        (bs.grad(bs.jit(running)), (np.linspace(0.1, 1.0, 40),)),
        (bs.hessian(lambda x: np.sum(np.tanh(x) ** 3)), (np.ones(3),)),
    ],
)
def test_control_flow(f, args):
    check(f, *args, ulps=256)


# ---- linear algebra


def evidence(x, y, scale):
    """The logarithm of the likelihood of a Gaussian process."""
    K = np.exp(-((x[:, None] - x) ** 2) / scale) + 0.1 * np.eye(len(x))
    L = np.linalg.cholesky(K)
    return np.sum(np.log(np.diag(L))) + 0.5 * y @ np.linalg.solve(K, y)


def factors(a, b):
    square = a[..., :4, :]
    sign, size = np.linalg.slogdet(square)
    parts = np.linalg.solve(square, b), np.linalg.inv(square), sign * size, np.linalg.qr(a)
    return *parts, np.linalg.cholesky(np.matmul(np.swapaxes(a, -1, -2), a))


def test_linear_algebra():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=9), rng.normal(size=9)
    check(evidence, x, y, 0.7)
    check(bs.grad(evidence, (0, 1, 2)), x, y, 0.7)
    a, b = rng.normal(size=(2, 6, 4)), rng.normal(size=(2, 4, 3))
    check(factors, a, b)
    made = model(factors, a, b, batch=True)
    more = rng.normal(size=(3, 6, 4)), rng.normal(size=(3, 4, 3))
    agree(evaluated(made, *more), tree.flatten(factors(*more))[0], 4096)
    rows = np.array([[0.0, 2.0, 1.0], [1.0, 0.0, 3.0], [4.0, 1.0, 0.0]])  # a pivot of 0 comes first
    check(lambda a, b: np.linalg.solve(a, b), rows, np.ones((3, 1)))
    singular = np.array([[1.0, 2.0, 4.0], [2.0, 4.0, 8.0], [1.0, 0.0, 3.0]])
    check(lambda a: tuple(np.linalg.slogdet(a)), singular)
    check(bs.grad(np.linalg.det), singular)
    turns = np.stack([rows, 20 * singular])  # which are squared once and more often
    check(lambda a: bs.numpy.linalg.expm(a - np.swapaxes(a, -1, -2)), turns)
    check(bs.grad(lambda a: np.sum(bs.numpy.linalg.expm(a) ** 2)), rows)


def test_a_loop_stays_one():
    made = model(cube_root, 8.0)
    assert operators(made).count("Loop") == 1
    assert "If" in operators(model(cases_of_sign, np.ones(3)))
    assert [x.name for x in model(cases_of_sign, np.ones(3)).graph.output] == [
        "output.a",
        "output.b",
    ]


# ---- names and refusals


def test_names_of_arguments(tmp_path):
    def f(params, x, *, scale=2.0):
        return params["w"][0] * x * scale

    bs.interop.onnx.save(f, tmp_path / "f.onnx", {"w": [np.ones(3)]}, np.ones(3), outputs=["y"])
    made = onnx.load(tmp_path / "f.onnx")
    assert [x.name for x in made.graph.input] == ["params.w.0", "x"]
    assert [x.name for x in made.graph.output] == ["y"]
    assert made.opset_import[0].version == 18
    fixed = model(f, {"w": [np.ones(3)]}, np.ones(3), weights=0)
    assert [x.name for x in fixed.graph.input] == ["x"]
    assert "params.w.0" in {x.name for x in fixed.graph.initializer}
    with pytest.raises(ValueError, match="1 outputs, and 2 names"):
        model(f, {"w": [np.ones(3)]}, np.ones(3), outputs=["y", "z"])
    for places in (2, "x"):
        with pytest.raises(ValueError, match="places of arguments, 0 to 1; got"):
            model(f, {"w": [np.ones(3)]}, np.ones(3), weights=places)


def test_arguments_in_another_order(tmp_path):
    path = str(tmp_path / "f.onnx")
    for library in (bs.interop.onnx, bs.interop.stablehlo):
        with pytest.raises(TypeError, match="the function comes first, then the path"):
            library.save(path, np.sin, np.ones(3))
        with pytest.raises(TypeError, match=r"path to write to, got <class 'numpy.ndarray'>"):
            library.save(np.sin, np.ones(3))
        with pytest.raises(TypeError, match=r"writes a function, got array\(\["):
            library.save(np.ones(3), path)


def test_what_has_no_form_names_the_line():
    def f(x):
        return np.linalg.eigh(x)[0].sum()

    with pytest.raises(BackendError, match=r"(?s)`eig.*test_export.*np.linalg.eigh"):
        model(f, np.eye(3))
    with pytest.raises(BackendError, match="complex"):
        model(lambda x: x * 1j, 2.0)

    @bs.jit
    def factorial(n):
        return 1.0 if n <= 1.0 else n * factorial(n - 1.0)

    with pytest.raises(BackendError, match="calls itself"):
        model(factorial, 3.0)
