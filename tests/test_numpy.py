"""NumPy's functions on Tensors: every line in numpy_lines/ is plain NumPy code, run many ways.

NumPy on arrays is the reference for values, shapes and dtypes; finite differences for derivatives.
"""

from __future__ import annotations

import operator
import pathlib
import re
import warnings
from types import CodeType
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import backsolve as bs

rng = np.random.default_rng(7)
X = rng.normal(size=(3, 4))
DATA: dict[str, Any] = {
    "x": X,
    "w": rng.normal(size=(3, 4)),
    "p": rng.uniform(0.5, 2.0, size=(3, 4)),
    "a": rng.normal(size=(2, 3, 4)),
    "m": rng.normal(size=(3, 3)),
    "n": rng.normal(size=(4, 5)),
    "k": rng.normal(size=(2, 4, 3)),
    "v": rng.normal(size=4),
    "u": rng.uniform(0.5, 2.0, size=4),
    "t": rng.normal(size=3),
    "q": rng.normal(size=(1, 4)),
    "s": np.float64(0.7),
    "e": np.zeros((0, 3)),
    "z": rng.normal(size=(3, 4)) + 1j * rng.normal(size=(3, 4)),
}
CONSTANTS: dict[str, Any] = {
    "i": np.array([[2, 0], [1, 2]]),
    "b": X > 0,
    "rows": np.array([0, 2, 2]),
    "order": np.argsort(X, axis=1),
}
FOLDER = pathlib.Path(__file__).parent / "numpy_lines"
LINES = [
    pytest.param(line, id=line)
    for file in sorted(FOLDER.glob("*.txt"))
    for line in file.read_text(encoding="utf-8").splitlines()
]
NOT_STAGED = re.compile(  # the length of the answer depends on values
    r"np\.where\(x > 0\)|x\[x > 0\]|extract|nonzero|argwhere"
    r"|np\.(allclose|array_equal|isclose)"
    r"|np\.(unique|union1d|intersect1d|setdiff1d|setxor1d|trim_zeros|real_if_close\(z)|sturges"
    r"|np\.roots|np\.polymul\(np"  # which roots are real, how many coefficients lead with 0
)


def compiled(line: str) -> tuple[CodeType, dict[str, Any]]:
    code = compile(line, line, "eval")
    names = set(code.co_names)
    for constant in code.co_consts:
        names |= set(getattr(constant, "co_names", ()))
    values = {name: value for name, value in DATA.items() if name in names}
    return code, values or {name: value for name, value in CONSTANTS.items() if name in names}


def run(code: CodeType, namespace: Any, **values: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # np.fix, in newer versions
        return eval(code, {"np": namespace, **CONSTANTS, **values})


def leaves(result: Any) -> list[Any]:
    return bs.tree.flatten(result)[0]


def smooth(result: Any) -> list[Any]:
    """The floating-point results: what has a derivative."""
    return [y for y in leaves(result) if hasattr(y, "dtype") and y.dtype.kind in "fc"]


def plain(y: Any) -> Any:
    return y.value if isinstance(y, bs.Tensor) else y


def assert_same(got: Any, expected: Any, **tolerance: Any) -> None:
    """Equal form, kind of number, shape, dtype and values."""
    assert type(got) is type(expected) or isinstance(got, bs.Tensor)
    mine, theirs = leaves(got), leaves(expected)
    assert len(mine) == len(theirs)
    for y, r in zip(mine, theirs, strict=True):
        assert np.shape(plain(y)) == np.shape(r)
        assert np.asarray(plain(y)).dtype == np.asarray(r).dtype
        single = np.asarray(r).dtype in (np.float32, np.complex64)
        usual = {"rtol": 1e-5, "atol": 1e-6} if single else {"rtol": 1e-12, "atol": 1e-14}
        np.testing.assert_allclose(plain(y), r, **{**usual, **tolerance})


def is_single(line: str) -> bool:
    return "float32" in line


MAKING = ("array", "asarray", "zeros", "ones", "full", "eye", "arange", "tri", "identity", "empty")


@pytest.mark.parametrize("line", LINES)
def test_value(line: str) -> None:
    code, values = compiled(line)
    expected = run(code, np, **values)
    tensors = {name: bs.tensor(v, requires_grad=v.dtype.kind in "fc") for name, v in values.items()}
    got = run(code, np, **tensors)
    assert_same(got, expected)
    assert all(isinstance(y, bs.Tensor) for y in smooth(got))
    assert_same(run(code, bs.numpy, **values), expected)
    if not any(
        f"np.{name}(" in line for name in MAKING
    ):  # arrays stay arrays; what is made are Tensors
        assert not any(isinstance(y, bs.Tensor) for y in leaves(run(code, bs.numpy, **values)))


@pytest.mark.parametrize("line", LINES)
def test_dtype_in_single_precision(line: str) -> None:
    code, values = compiled(line)
    single = {
        name: v.astype({"c": np.complex64, "f": np.float32}.get(v.dtype.kind, v.dtype))
        for name, v in values.items()
    }
    expected = run(code, np, **single)
    got = run(code, np, **{name: bs.tensor(v) for name, v in single.items()})
    assert_same(got, expected, rtol=2e-5, atol=2e-6)


def derivative_cases() -> list[Any]:
    found = []
    for case in LINES:
        code, values = compiled(case.values[0])
        if smooth(run(code, np, **values)) and set(values) <= set(DATA):
            found.append(case)
    return found


SMOOTH = derivative_cases()


def as_function(code: CodeType, names: list[str]) -> Any:
    return lambda *args: smooth(run(code, np, **dict(zip(names, args, strict=True))))


@pytest.mark.parametrize("line", SMOOTH)
def test_derivative(line: str) -> None:
    """jvp against central differences, vjp against jvp, and second derivatives likewise."""
    code, values = compiled(line)
    f = as_function(code, list(values))
    primals = list(values.values())
    draw = np.random.default_rng(3)
    directions = [draw.normal(size=np.shape(v)).astype(v.dtype)[()] for v in primals]
    h, rtol = (1e-2, 1e-2) if is_single(line) else (1e-6, 1e-6)
    _, images = bs.jvp(f, primals, directions)
    ahead = f(*[v + h * d for v, d in zip(primals, directions, strict=True)])
    behind = f(*[v - h * d for v, d in zip(primals, directions, strict=True)])
    for t, y, z in zip(images, ahead, behind, strict=True):
        assert t.dtype == y.dtype
        np.testing.assert_allclose(t, (y - z) / (2 * h), rtol=rtol, atol=rtol)
    seeds = [draw.normal(size=np.shape(t)).astype(t.dtype)[()] for t in images]
    pulled = bs.vjp(f, *primals)[1](seeds)
    left = sum(np.vdot(s, t).real for s, t in zip(seeds, images, strict=True))
    right = sum(np.vdot(g, d).real for g, d in zip(pulled, directions, strict=True))
    np.testing.assert_allclose(left, right, rtol=1e-5 if is_single(line) else 1e-10, atol=1e-10)


@pytest.mark.parametrize("line", [c for c in SMOOTH if not is_single(c.values[0])])
def test_second_derivative(line: str) -> None:
    code, values = compiled(line)
    f = as_function(code, list(values))
    primals = list(values.values())
    draw = np.random.default_rng(5)
    directions = [draw.normal(size=np.shape(v)).astype(v.dtype)[()] for v in primals]
    every = tuple(range(len(primals)))

    def energy(*args: Any) -> Any:
        return sum((abs(y) ** 2 if y.dtype.kind == "c" else y * y).sum() for y in f(*args))

    gradient = bs.grad(energy, every)
    _, curved = bs.jvp(gradient, primals, directions)
    h = 1e-6
    ahead = gradient(*[v + h * d for v, d in zip(primals, directions, strict=True)])
    behind = gradient(*[v - h * d for v, d in zip(primals, directions, strict=True)])
    for t, y, z in zip(curved, ahead, behind, strict=True):
        np.testing.assert_allclose(t, (y - z) / (2 * h), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("line", [c for c in SMOOTH if not NOT_STAGED.search(c.values[0])])
def test_batched(line: str) -> None:
    """vmap of the line is the line on every example; so is the gradient, nested either way."""
    code, values = compiled(line)
    f = as_function(code, list(values))
    draw = np.random.default_rng(9)
    batch = [np.stack([v, v + 1e-3 * draw.normal(size=v.shape)]) for v in values.values()]
    examples = [[x[k] for x in batch] for k in range(2)]
    tight = {"rtol": 1e-4, "atol": 1e-6} if is_single(line) else {"rtol": 1e-10, "atol": 1e-12}
    for got, *expected in zip(bs.vmap(f)(*batch), *[f(*e) for e in examples], strict=True):
        np.testing.assert_allclose(got, np.stack(expected), **tight)
        assert got.dtype == expected[0].dtype

    def energy(*args: Any) -> Any:
        return sum((abs(y) ** 2 if y.dtype.kind == "c" else y * y).sum() for y in f(*args))

    gradient = bs.grad(energy, tuple(range(len(batch))))
    one_by_one = [np.stack(g) for g in zip(*[gradient(*e) for e in examples], strict=True)]
    inside = bs.vmap(gradient)(*batch)
    outside = bs.grad(lambda *args: bs.vmap(energy)(*args).sum(), tuple(range(len(batch))))(*batch)
    for expected, g, h in zip(one_by_one, inside, outside, strict=True):
        np.testing.assert_allclose(g, expected, **tight)
        np.testing.assert_allclose(h, expected, **tight)


# ---- random shapes

SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)
FULLER = hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=3)
REDUCTIONS = ["sum", "prod", "mean", "var", "max", "min", "linalg.norm", "std"]


def spread_out(shape: tuple[int, ...], salt: int = 0) -> Any:
    """Entries that differ by more than any finite difference."""
    n = int(np.prod(shape))
    order = np.random.default_rng(salt).permutation(n)
    return np.asarray((order * 0.37 + 0.3 + salt).reshape(shape))


def assert_derivatives(f: Any, *primals: Any) -> None:
    draw = np.random.default_rng(1)
    directions = [draw.normal(size=np.shape(x)) for x in primals]
    h = 1e-6
    value, image = bs.jvp(f, primals, directions)
    reference = f(*primals)
    assert np.shape(value) == np.shape(reference)
    np.testing.assert_allclose(value, reference, rtol=1e-12)
    ahead = f(*[x + h * d for x, d in zip(primals, directions, strict=True)])
    behind = f(*[x - h * d for x, d in zip(primals, directions, strict=True)])
    np.testing.assert_allclose(image, (ahead - behind) / (2 * h), rtol=1e-5, atol=1e-6)
    seed = draw.normal(size=np.shape(value))
    pulled = bs.vjp(f, *primals)[1](seed)
    right = sum(np.vdot(g, d) for g, d in zip(pulled, directions, strict=True))
    np.testing.assert_allclose(np.vdot(seed, image), right, rtol=1e-9, atol=1e-12)
    assert [np.shape(g) for g in pulled] == [np.shape(x) for x in primals]


@pytest.mark.parametrize("name", REDUCTIONS)
@given(data=st.data(), shape=SHAPES | FULLER, keepdims=st.booleans())
def test_reductions_of_any_shape(
    name: str, data: st.DataObject, shape: tuple[int, ...], keepdims: bool
) -> None:
    n = len(shape)
    axes = st.sets(st.integers(0, n - 1)) if shape else st.just(set())
    back = data.draw(st.sampled_from([0, n]))  # counted from the front or from the back
    axis = data.draw(st.none() | axes.map(lambda found: tuple(k - back for k in found)))
    chosen = tuple(range(n)) if axis is None else axis
    reduced = int(np.prod([shape[k] for k in chosen]))
    if name in ("mean", "var", "std", "max", "min", "linalg.norm"):
        assume(reduced > 1)
    if name == "linalg.norm":
        axis = None if len(shape) > 2 or axis is None or len(chosen) not in (1, 2) else chosen
        assume(0 not in shape)
    f = operator.attrgetter(name)(np)
    assert_derivatives(lambda x: f(x, axis=axis, keepdims=keepdims), spread_out(shape))


@pytest.mark.parametrize("f", [np.add, np.multiply, np.divide, np.maximum, np.hypot])
@given(shapes=hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, min_side=0, max_side=3))
def test_broadcasting_of_any_shapes(f: Any, shapes: Any) -> None:
    a, b = shapes.input_shapes
    assert_derivatives(f, spread_out(a), spread_out(b, 1))


@given(
    shapes=hnp.mutually_broadcastable_shapes(signature=np.matmul.signature, max_side=3, max_dims=2)
)
def test_matmul_of_any_shapes(shapes: Any) -> None:
    a, b = shapes.input_shapes
    assert_derivatives(np.matmul, spread_out(a), spread_out(b, 1))


@given(data=st.data())
def test_einsum_of_any_labels(data: st.DataObject) -> None:
    sizes = dict(zip("abcd", data.draw(st.tuples(*[st.integers(0, 3)] * 4)), strict=True))
    words = st.lists(st.sampled_from("abcd"), max_size=3).map("".join)
    inputs = data.draw(st.lists(words, min_size=1, max_size=3))
    present = sorted(set("".join(inputs)))
    output = "".join(data.draw(st.permutations(present)))[: data.draw(st.integers(0, 4))]
    subscripts = ",".join(inputs) + data.draw(st.sampled_from(["", f"->{output}"]))
    operands = [spread_out(tuple(sizes[c] for c in word), k) for k, word in enumerate(inputs)]
    assert_derivatives(lambda *args: np.einsum(subscripts, *args), *operands)


@given(shape=SHAPES, data=st.data(), order=st.sampled_from("CF"))
def test_reshape_and_transpose_of_any_shape(
    shape: tuple[int, ...], data: st.DataObject, order: Any
) -> None:
    axes = data.draw(st.permutations(range(len(shape))))
    target = data.draw(st.permutations([*shape, 1]))
    assert_derivatives(lambda x: np.transpose(np.sin(x), axes), spread_out(shape))
    assert_derivatives(lambda x: np.reshape(np.sin(x), target, order=order), spread_out(shape))


# ---- conventions at kinks and zeros


def test_ties_share_the_derivative() -> None:
    x = np.array([2.0, 1.0, 2.0])
    np.testing.assert_array_equal(bs.grad(np.max)(x), [0.5, 0.0, 0.5])
    np.testing.assert_array_equal(bs.grad(lambda x: np.min(-x))(x), [-0.5, 0.0, -0.5])


def test_products_with_zeros() -> None:
    x = np.array([2.0, 0.0, 3.0])
    np.testing.assert_array_equal(bs.grad(np.prod)(x), [0.0, 6.0, 0.0])
    np.testing.assert_array_equal(bs.hessian(np.prod)(x), [[0, 3, 0], [3, 0, 2], [0, 2, 0]])
    np.testing.assert_array_equal(bs.grad(lambda x: np.cumprod(x).sum())(x), [1.0, 8.0, 0.0])


def test_norms_and_deviations_at_zero() -> None:
    zero = np.zeros(3)
    for f in (np.linalg.norm, np.std, lambda x: np.linalg.norm(x, 1), lambda x: abs(x).sum()):
        np.testing.assert_array_equal(bs.grad(f)(zero), zero)
    big = np.array([3e200, 4e200])
    np.testing.assert_allclose(np.linalg.norm(bs.tensor(big)).value, 5e200)
    np.testing.assert_allclose(bs.grad(np.linalg.norm)(big), [0.6, 0.8])


def test_python_numbers_stay_weak() -> None:
    """A bare float that varies promotes like the float it is in plain NumPy code."""
    y, t = bs.jvp(lambda s: s * np.float32([1.0, 2.0]) + 1, [2.0], [1.0])
    assert y.dtype == t.dtype == np.float32
    assert type(bs.grad(lambda s: (s * np.float32([1.0, 2.0])).sum())(2.0)) is float


@pytest.mark.parametrize(
    "name", [*REDUCTIONS, "ptp", "median", "average", "cumsum", "sort", "ravel"]
)
def test_python_numbers_are_arrays_of_rank_0(name: str) -> None:
    f = operator.attrgetter(name)(np)
    options = {"axis": None} if name == "sort" else {}
    got, image = bs.jvp(lambda s: f(s, **options), [-2.0], [1.0])
    assert np.shape(image) == np.shape(got) == np.shape(f(-2.0, **options))
    constant = name in ("var", "std", "ptp")
    assert float(np.sum(image)) == (0.0 if constant else -1.0 if name == "linalg.norm" else 1.0)
