"""Several equations that are one operator of ONNX's together."""

import itertools

import numpy as np
import pytest

import backsolve as bs
from backsolve import nn

onnx = pytest.importorskip("onnx")
from onnx_values import agree, check, evaluated, operators  # noqa: E402

F = nn.functional


def some(*shape, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def only(made):
    return [op for op in operators(made) if op != "Identity"]


# ---- convolutions

CHOICES = [
    {},
    {"stride": 2, "padding": 1},
    {"stride": (3, 2), "padding": (0, 1), "output_padding": (1, 0)},
    {"stride": 3, "padding": 1, "output_padding": 2},  # cut off before, zeros behind
    {"stride": 2, "dilation": 3, "output_padding": 1},
    {"padding": 2, "dilation": 2},
]


@pytest.mark.parametrize("options", CHOICES)
def test_transposed_convolutions(options):
    for dtype, bias in itertools.product(
        (np.float32, np.float64), (None, some(3, dtype=np.float64))
    ):
        x, w = some(2, 4, 5, 6, dtype=dtype), some(4, 3, 3, 2, dtype=dtype, seed=1)
        more = () if bias is None else (bias.astype(dtype),)
        made = check(lambda x, w, *b: F.conv_transpose2d(x, w, *b, **options), x, w, *more)
        assert only(made) == ["ConvTranspose"]


def test_zeros_behind_that_are_none_of_the_operators():
    far = lambda x, w: F.conv_transpose1d(x, w, stride=2, dilation=3, output_padding=2)
    made = check(far, some(1, 2, 5), some(2, 3, 2))
    assert only(made) == ["ConvTranspose", "Pad"]


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_transposed_convolutions_of_groups(dims):
    """ONNX's evaluator has groups of one channel alone; of others, what `load` makes of them."""
    transposed, x = getattr(F, f"conv_transpose{dims}d"), some(2, 4, *[4] * dims)
    w, b = some(4, 1, *[3] * dims), some(4)
    made = check(lambda x, w, b: transposed(x, w, b, 2, 1, 1, groups=4), x, w, b)
    assert only(made) == ["ConvTranspose", "Reshape", "Add"]
    w, b = some(4, 3, *[3] * dims), some(6)
    in_two = lambda x, w, b: transposed(x, w, b, 2, 1, 1, groups=2)
    made = bs.interop.onnx.proto(in_two, x, w, b)
    assert only(made) == ["ConvTranspose", "Reshape", "Add"]
    agree([np.asarray(bs.interop.onnx.load(made)(x, w, b))], [in_two(x, w, b)], 4096)


@pytest.mark.parametrize(
    ("stride", "padding", "groups"), [(1, 0, 1), (2, 1, 1), (3, 2, 1), (2, 1, 4)]
)
def test_gradients_of_convolutions_are_transposed_ones(stride, padding, groups):
    w = some(4, 4 // groups, 3, 3)
    f = lambda x: np.sum(np.sin(F.conv2d(x, w, None, stride, padding, groups=groups)))
    made = check(bs.grad(f), some(2, 4, 7, 8))
    assert operators(made).count("ConvTranspose") == 1


@pytest.mark.parametrize("groups", [1, 2])
def test_a_bias_is_part_of_a_convolution(groups):
    x, w, b = some(2, 4, 6, 5), some(6, 4 // groups, 3, 3), some(6)
    made = check(lambda x, w, b: F.conv2d(x, w, b, padding=1, groups=groups), x, w, b)
    assert only(made) == ["Conv"]
    twice = check(
        lambda x, w, b: (F.conv2d(x, w, groups=groups), F.conv2d(x, w, b, groups=groups)), x, w, b
    )
    assert operators(twice).count("Conv") == 1  # what is read without the bias, too
    by_row = check(lambda x, w, b: F.conv2d(x, w, groups=groups) + b, x, w, some(3))
    assert operators(by_row).count("Add") == 1


def test_a_bias_is_part_of_a_product():
    x, w, b = some(3, 4), some(5, 4), some(5)
    for f in (lambda x, w, b: x @ w.T + b, lambda x, w, b: b + np.einsum("ki,jk->ij", x.T, w)):
        assert "Gemm" in operators(made := check(f, x, w, b))
        assert "Add" not in operators(made)
    assert "Add" in operators(check(lambda x, w, b: x @ w.T + b, x, w, some(3, 1)))
    assert "Add" in operators(check(lambda x, w, b: x @ w.T + b, x, w, some(5, dtype=np.float64)))


@pytest.mark.parametrize(
    "options",
    [
        {"padding": 1},
        {"padding": 1, "ceil_mode": True},
        {"padding": 1, "count_include_pad": False},
        {"stride": 1},
    ],
)
def test_averages_with_padding(options):
    made = check(lambda x: F.avg_pool2d(x, 3, **{"stride": 2, **options}), some(2, 3, 8, 7))
    assert operators(made).count("AveragePool") == 1
    assert "Pad" not in operators(made)


@pytest.mark.parametrize(
    "subscripts",
    [
        "abc,dbc->ad",
        "abec,adec->ebd",
        "ab,cab->bc",
        "cab,ab->ac",
        "abc,abc->",
        "ab,cd->dbac",
        "abe,bcd->cad",
    ],
)
def test_contractions_are_products_of_matrices(subscripts):
    sizes = {"a": 2, "b": 3, "c": 4, "d": 5, "e": 6}
    x, y = subscripts.split("->")[0].split(",")
    product = lambda a, b: np.einsum(subscripts, a, b)
    a, b = (some(*[sizes[c] for c in z], dtype=np.float64) * 9 for z in (x, y))
    for dtype in (np.int64, np.float64):
        made = check(product, a.astype(dtype), b.astype(dtype))
        assert "Einsum" not in operators(made)
    free = {name: z.index("a") for name, z in (("a", x), ("b", y)) if "a" in z}
    longer = bs.interop.onnx.proto(product, a, b, batch=free)
    a, b = (some(*[7 if c == "a" else sizes[c] for c in z], dtype=np.float64) for z in (x, y))
    agree(evaluated(longer, a, b), [product(a, b)], 4096)


def test_means_and_gathers_along_an_axis():
    made = check(lambda x: (np.mean(x, axis=1), np.mean(x) * 3.0), some(3, 4, 5, dtype=np.float64))
    assert operators(made).count("ReduceMean") == 2
    made = check(lambda x: np.sum(x, axis=0) / 4, some(3, 5))
    assert "ReduceMean" not in operators(made)
    made = check(lambda x: F.interpolate(x, scale_factor=2), some(1, 2, 3, 4))
    assert only(made) == ["Gather", "Gather"]
    made = check(lambda x: np.take(x.transpose(2, 0, 1), np.array([1, -1]), axis=0), some(3, 4, 5))
    assert only(made) == ["Gather", "Transpose"]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_activations_are_operators(dtype):
    x = some(2, 3, 4, dtype=dtype) * 4
    x[0, 0] = [np.nan, np.inf, -np.inf, 0.0]
    found = lambda f, *more: only(check(f, x, *more))
    assert found(F.relu) == ["Relu"]
    assert found(F.relu6) == found(lambda x: F.hardtanh(x, -2.5, 1.25)) == ["Clip"]
    assert found(lambda x: F.leaky_relu(x, 0.25)) == ["LeakyRelu"]
    assert ("LeakyRelu" in found(F.leaky_relu)) == (dtype == np.float32)  # 0.01 in single precision
    assert found(F.prelu, some(3, dtype=dtype)) == ["Reshape", "PRelu"]
    for other in (
        lambda x: np.where(x <= 0, 1.0, x),
        lambda x: np.where(x <= 2, 2, np.where(x >= 1, 1, x)),
        lambda x: x * np.where(x > 0, 2, 0.5),
        lambda x: np.where(x > 0, x, 0.5 * x[::-1]),
    ):
        assert not {"Relu", "Clip", "LeakyRelu", "PRelu"} & set(found(other))


# ---- normalisations


def test_normalisations_are_operators():
    x, images, w, b = some(3, 4, 5), some(2, 4, 6, 5), some(4), some(4, seed=1)
    made = check(lambda x, w, b: F.layer_norm(x, (5,), w, b), x, some(5), some(5, seed=1))
    assert only(made) == ["LayerNormalization"]
    made = check(lambda x: F.layer_norm(x, (4, 5), eps=0.5) * 2.0, x)
    assert only(made) == ["LayerNormalization", "Mul"]
    made = check(lambda x, w: F.layer_norm(x, (6, 5), w), images, some(6, 5))
    assert only(made) == ["LayerNormalization"]
    made = check(lambda x, w, b: F.instance_norm(x, weight=w, bias=b), images, w, b)
    assert only(made) == ["InstanceNormalization"]
    made = check(lambda x, w, b: F.group_norm(x, 2, w, b), images, w, b)
    assert operators(made).count("InstanceNormalization") == 1
    made = check(lambda x, w, b: F.group_norm(x, 2, w, b), some(3, 4), w, b)
    assert operators(made).count("LayerNormalization") == 1
    figures = some(4, seed=2), np.abs(some(4, seed=3)) + 0.1
    for given in ((), (w,), (w, b)):
        made = check(
            lambda x, m, v, *a: F.batch_norm(x, m, v, *a, eps=0.25), images, *figures, *given
        )
        assert only(made) == ["BatchNormalization"]
    made = check(lambda x, m, v, b: F.batch_norm(x, m, v, None, b), some(3, 4), *figures, b)
    assert only(made) == ["BatchNormalization"]


def test_normalisations_that_are_written_out():
    """In other precisions, where something else reads a figure, over axes that are not the last."""
    norms = {"LayerNormalization", "InstanceNormalization", "BatchNormalization"}
    layer = lambda x: F.layer_norm(x, (5,))
    assert not norms & set(operators(check(layer, some(3, 5, dtype=np.float64))))
    assert "Sqrt" in operators(check(bs.grad(lambda x: np.sum(np.sin(layer(x)))), some(3, 5)))
    batch = lambda x: F.batch_norm(x, None, None, training=True)
    assert not norms & set(operators(check(batch, some(3, 4, 5))))

    def centred_too(x):
        c = x - np.mean(x, axis=-1, keepdims=True)
        return c, c / np.sqrt(np.mean(c * c, axis=-1, keepdims=True) + 1e-5)

    assert not norms & set(operators(check(centred_too, some(3, 5))))


def test_normalisations_of_a_batch_of_any_length():
    nn.manual_seed(0)
    net = nn.Sequential(
        nn.ConvTranspose2d(2, 4, 3, 2, 1, 1), nn.GroupNorm(2, 4), nn.BatchNorm2d(4), nn.ReLU(),
        nn.AvgPool2d(3, 2, 1), nn.Flatten(), nn.LayerNorm(64), nn.Linear(64, 3),
    )  # fmt: skip
    net.eval()
    made = bs.interop.onnx.proto(net, some(2, 2, 4, 4), batch=True)
    assert {"ConvTranspose", "InstanceNormalization", "BatchNormalization"} < set(operators(made))
    assert {"AveragePool", "LayerNormalization", "Gemm"} < set(operators(made))
    x = some(5, 2, 4, 4, seed=4)
    agree(evaluated(made, x), [net(x)], 4096)
