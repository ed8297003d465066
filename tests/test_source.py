"""bs.source: the text it writes is run and compared with what the function itself computes."""

from __future__ import annotations

import ast
import functools
from collections import namedtuple
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import special

import backsolve as bs
from backsolve.errors import (
    NotDifferentiableError,
    NotScalarError,
    StructureError,
    TracedValueError,
)
from backsolve.lanes import Binary
from backsolve.primitive import PRIMITIVES, P
from backsolve.source import source
from backsolve.source.function import name_of
from backsolve.testing import domains

GOLDEN = Path(__file__).parent / "golden" / "source"
HEADER = "# Written by `pytest tests/test_source.py --update-golden`.\n# ruff: noqa\n"


def check_form(text: str) -> None:
    """One name per assignment, and nothing computed twice."""
    (function,) = [n for n in ast.parse(text).body if isinstance(n, ast.FunctionDef)]
    computed = []
    for statement in function.body:
        if isinstance(statement, ast.Assign):
            (target,) = statement.targets
            assert isinstance(target, ast.Name), ast.unparse(statement)
        elif isinstance(statement, ast.AugAssign):
            assert isinstance(statement.target, ast.Name)
        else:
            assert isinstance(statement, ast.Return | ast.If), ast.unparse(statement)
            continue
        if not isinstance(statement.value, ast.Name | ast.Constant):
            computed.append(ast.unparse(statement))
            computed[-1] = computed[-1].split("= ", 1)[1]
    assert len(set(computed)) == len(computed), text


def run(text: str, f: Any) -> Any:
    """The function that the text defines."""
    check_form(text)
    space: dict[str, Any] = {}
    exec(text, space)
    return space[name_of(f)]


def check(f: Any, *args: Any, given: bool = True, rtol: float = 1e-10) -> str:
    """The text of `f` computes what `f` does, on the arguments and on others of the same types."""
    text = source(f, *(args if given else ()))
    written = run(text, f)
    rng = np.random.default_rng(0)
    other = bs.tree.map(lambda x: _moved(x, rng), args)
    for point in (args, other):
        with np.errstate(all="ignore"):
            expected, found = f(*point), written(*point)
        leaves, form = bs.tree.flatten(expected)
        got, got_form = bs.tree.flatten(found)
        assert got_form == form, text
        for a, b in zip(leaves, got, strict=True):
            assert np.shape(a) == np.shape(b), text
            assert np.asarray(a).dtype == np.asarray(b).dtype, text
            if isinstance(a, str):
                continue
            np.testing.assert_allclose(b, a, rtol=rtol, atol=1e-13, err_msg=text)
    return str(text)


def _moved(x: Any, rng: Any) -> Any:
    if isinstance(x, float):
        return x * (1 + 0.01 * rng.uniform())
    if isinstance(x, np.ndarray | np.generic) and x.dtype.kind in "fc":
        return (x * (1 + 0.01 * rng.uniform(size=x.shape))).astype(x.dtype)
    return x


def golden(name: str, text: str, update: bool) -> None:
    path = GOLDEN / f"{name}.py"
    if update:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(HEADER + text)
    assert path.read_text() == HEADER + text, f"run pytest --update-golden and look at {path}"


# ---- the slides


def neuron(w0, x0, w1, x1, w2):
    s = w0 * x0 + w1 * x1 + w2
    return 1 / (1 + np.exp(-s))


def gate(w0, x0, w1, x1, w2):
    return special.expit(w0 * x0 + w1 * x1 + w2)


def loss(params, x, y):
    h = np.tanh(x @ params["W"] + params["b"])
    return ((h @ params["v"] - y) ** 2).mean()


RNG = np.random.default_rng(1)
POINT = (2.0, -1.0, -3.0, -2.0, -3.0)
LAYER = {"W": RNG.normal(size=(3, 4)), "b": RNG.normal(size=4), "v": RNG.normal(size=4)}


@pytest.mark.parametrize(
    ("name", "f", "args"),
    [
        ("neuron", neuron, ()),
        ("grad_neuron", bs.grad(neuron), ()),
        ("grad_gate", bs.grad(gate), ()),
        ("value_and_grad_gate", bs.value_and_grad(gate, argnums=(0, 2, 4)), ()),
        ("grad_loss", bs.grad(loss), (LAYER, np.ones((5, 3)), np.ones(5))),
    ],
)
def test_golden(name: str, f: Any, args: Any, pytestconfig: pytest.Config) -> None:
    text = source(f, *args)
    check_form(text)
    golden(name, text, pytestconfig.getoption("--update-golden"))


def test_slide_is_reproduced() -> None:
    """CS231n, "Flat gradient code": every line, in the slide's order."""
    lines = [line.strip() for line in source(bs.grad(gate)).splitlines()]
    start = lines.index("grad_f = 1.0" if "grad_f = 1.0" in lines else "grad_gate = 1.0")
    assert lines[start + 1 :] == [
        "grad_s3 = grad_gate * (gate * (1 - gate))",
        "grad_w2 = grad_s3",
        "grad_s2 = grad_s3",
        "grad_s0 = grad_s2",
        "grad_s1 = grad_s2",
        "grad_w1 = grad_s1 * x1",
        "grad_x1 = grad_s1 * w1",
        "grad_w0 = grad_s0 * x0",
        "grad_x0 = grad_s0 * w0",
        "return grad_w0",
    ]


@pytest.mark.parametrize("f", [neuron, gate])
def test_neurons(f: Any) -> None:
    for g in (
        f,
        bs.grad(f),
        bs.grad(f, argnums=(0, 1, 2, 3, 4)),
        bs.value_and_grad(f, argnums=(4,)),
    ):
        check(g, *POINT, given=False)


# ---- every row


# Where a row of the element-wise table is smooth: outside of these, 0.3 and 0.7 will do.
SAMPLES = {"arccosh": (1.5,), "polygamma": (1.5,)}
# Arguments in which there is no derivative.
ORDERS: dict[str, tuple[Any, ...]] = dict.fromkeys(["iv", "ive", "jv", "kv", "kve", "yv"], (1.5,))
ORDERS |= dict.fromkeys(["expn", "kn", "yn"], (2,)) | {"hyp2f1": (1.0, 2.0, 3.5)}
ORDERS |= dict.fromkeys(["betainc", "betaincc", "betaincinv", "hyp1f1"], (2.0, 3.0))
ORDERS |= dict.fromkeys(["stdtr", "stdtrit", "zeta"], (3.0,))
ORDERS = {n: domains.orders(n) for n in PRIMITIVES if domains.orders(n)} | ORDERS
INTEGER = {"bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift", "gcd", "lcm"}
INTEGER |= {"invert", "bitwise_count"}


def arity(name: str) -> int:
    row = PRIMITIVES[name]
    return max(len(row.blocks or ()), 2 if isinstance(row, Binary) else 1)


ELEMENTWISE = sorted(
    name
    for name, row in PRIMITIVES.items()
    if row.elementwise
    and name not in {"cast", "cast_discrete", "polygamma", "ldexp", "where"}
    and name not in {"dawsn_derivative", "erfcx_moment", "gamma_tail", "scaled_bessel"}
)


@pytest.mark.parametrize("name", ELEMENTWISE)
@pytest.mark.parametrize("kind", [float, np.float32, "array"])
def test_elementwise_row(name: str, kind: Any) -> None:
    orders = ORDERS.get(name, ())
    params = domains.PARAMS.get(name, [{}])[0]
    row = partial(getattr(P, name), *orders, **params)
    values = SAMPLES.get(name, (0.3, 0.7, 0.9)[: arity(name) - len(orders)])
    if name in INTEGER:
        args = tuple(np.int64(k + 2) for k in range(arity(name)))
        check(lambda *a: row(*a), *args)
        return
    make = (lambda v: np.array([v, v + 0.05])) if kind == "array" else kind
    args = tuple(make(v) for v in values)
    rtol = 1e-5 if kind is np.float32 else 1e-10
    check(lambda *a: row(*a), *args, rtol=rtol)
    if PRIMITIVES[name].differentiable and np.asarray(row(*args)).dtype.kind == "f":
        total = np.sum if kind == "array" else lambda y: y
        every = tuple(range(len(args)))
        check(bs.grad(lambda *a: total(row(*a)), argnums=every), *args, rtol=rtol)


def test_rows_with_metadata() -> None:
    x = np.array([0.3, 1.7])
    check(bs.grad(lambda x: P.polygamma(x, n=1).sum()), x)
    check(bs.grad(lambda x: P.erfcx_moment(x, n=1).sum()), x)
    check(bs.grad(lambda x: np.ldexp(x, np.array([1, 2])).sum()), x)
    check(bs.grad(lambda x: (x.astype(np.float32) * x).sum()), x, rtol=1e-5)
    check(lambda x: (x * 3).astype(int), x)
    check(lambda x: (x > 1) + (x > 0), np.float64(0.5))
    check(lambda x, y: x**y, np.float64(-2.0), 0.5)
    check(bs.grad(lambda x: x**3 + x**0.5 + 2.0**x), 2.0)


# ---- array programs

A34, A45 = RNG.normal(size=(3, 4)), RNG.normal(size=(4, 5))
V3, V4 = RNG.normal(size=3), RNG.normal(size=4)
T = RNG.normal(size=(2, 3, 4))


def rolled(w: Any, x: Any) -> Any:
    h = x
    for _ in range(3):
        h = np.tanh(w @ h)
    return (h * h).sum()


def written(x: Any) -> Any:
    out = np.zeros_like(x) + x
    out[0] = x[1] * x[2]
    out[1:3] = out[0] * x[2:]
    return (out * x).sum()


PROGRAMS: dict[str, tuple[Any, ...]] = {
    "matmul": (lambda a, b: (a @ b).sum(), A34, A45),
    "matvec": (lambda a, v: np.sin(a @ v).sum(), A34, V4),
    "vecmat": (lambda v, a: np.sin(v @ a).sum(), V3, A34),
    "transposed": (lambda a, b: (np.exp(a.T @ b.T) ** 2).sum(), A34, RNG.normal(size=(5, 3))),
    "dot": (lambda a, b: a @ b, V3, V3 + 1),
    "outer": (lambda a, b: np.sin(np.outer(a, b)).sum(), V3, V4),
    "batched": (lambda a, b: np.sin(a @ b).sum(), T, A45),
    "einsum": (lambda a, b: np.einsum("hij,kj->ih", a, b).sum(), T, A34),
    "einsum3": (lambda a, b, c: np.einsum("ij,jk,k->i", a, b, c).prod(), A34, A45, np.ones(5)),
    "trace": (lambda a: np.trace(a @ a.T), A34),
    "diag": (lambda v: (np.diag(v) @ np.diag(v, 0)).sum(), V3),
    "broadcast": (lambda a, v: np.sin(a * v + 1.0).sum(), A34, V4),
    "broadcast_scalar": (lambda a, c: (a * c).sum() * c, A34, 2.0),
    "broadcast_ones": (lambda a, b: np.exp(a - b).sum(), RNG.normal(size=(3, 1)), V4),
    "sums": (lambda a: (a.sum(0) * a.sum(1, keepdims=True)).sum(), A34),
    "mean": (lambda a: (a.mean(axis=0) ** 2).sum() + a.std() + a.var(axis=1).sum(), A34),
    "prod": (lambda a: a.prod(axis=1).sum() + a.prod(), A34),
    "max": (lambda a: a.max(axis=0).sum() - a.min(), A34),
    "logsumexp": (lambda a: bs.numpy.logsumexp(a, axis=1).sum(), A34),
    "norm": (lambda a: np.linalg.norm(a) + np.linalg.norm(a, axis=1).sum(), A34),
    "norm3": (
        lambda a: (
            P.norm(a, axis=(0, 1, 2), keepdims=True).sum()
            + P.norm(a, axis=(0, 2), keepdims=False).sum()
        ),
        T,
    ),
    "softmax": (lambda a: -np.log((np.exp(a) / np.exp(a).sum(1, keepdims=True))[:, 0]).sum(), A34),
    "slices": (lambda x: x[0] * x[1] + (x[1:] * x[:-1]).sum() + x[::-1] @ x, V4),
    "newaxis": (lambda x: (x[:, None] * x[None, :]).sum() + x[..., 1], V4),
    "gather": (lambda x: (x[np.array([0, 2, 2])] ** 2).sum() + x[np.array(1)], V4),
    "gather2": (lambda a: np.sin(a[np.array([0, 1]), np.array([3, 3])]).sum(), A34),
    "boolean": (lambda a: (a[np.array([True, False, True])] ** 2).sum(), A34),
    "inner_slices": (lambda x: np.sqrt((2 * x * x)[1:3]).sum(), V4),
    "inner_gather": (lambda x: np.log((x * x)[np.array([1, 1])]).sum(), V4),
    "where": (lambda x: np.where(x > 0, np.sqrt(np.abs(x)), x * x).sum(), V4),
    "where_zero": (lambda x: np.where(x > 0, np.sqrt(x), 0).sum(), np.array([0.0, 1.0, 4.0])),
    "clip": (lambda x: (np.clip(x, -0.5, 0.5) * np.maximum(x, 0) + np.minimum(x, 1)).sum(), V4),
    "concatenate": (lambda a, b: (np.concatenate([a, b, a]) ** 2).sum(), V3, V4),
    "stack": (lambda a, b: np.sin(np.stack([a, b], axis=1)).prod(), V3, V3 + 1),
    "cumsum": (lambda a: (np.cumsum(a, axis=1) ** 2).sum() + np.cumprod(a, axis=0).sum(), A34),
    "reshape": (lambda a: (a.reshape(2, 6).T @ a.reshape(2, 6)).sum() + a.ravel()[3], A34),
    "transpose": (lambda t: np.sin(t.transpose(2, 0, 1)).sum(axis=(0, 2)).prod(), T),
    "pad": (lambda v: (np.pad(v, 1) ** 3).sum(), V3),
    "sort": (lambda v: (np.sort(v) * np.arange(4)).sum(), V4),
    "unused": (lambda a, b: (a * a).sum(), V3, V4),
    "constant": (lambda a: 3.0, V3),
    "identity": (lambda x: x, 2.0),
    "rolled": (rolled, RNG.normal(size=(3, 3)), V3),
    "written": (written, V4),
    "float32": (lambda a, v: (np.tanh(a @ v) - 0.5).sum(), A34.astype("f4"), V4.astype("f4")),
    "mixed": (lambda a, v: (a * v).sum(), A34.astype("f4"), V4),
    "complex": (lambda z: (np.abs(z * z) + z.real * np.conj(z).imag).sum(), V3 + 1j),
    "stopped": (lambda x: (x * x).sum() * bs.stop_gradient((x * x).sum()), V3),
    "stopped_sum": (
        lambda x: (bs.stop_gradient(x.sum(axis=0, keepdims=True)).reshape(()) * x).sum(),
        V3,
    ),
    "captured": (lambda x: (x * A34[0] + np.float32(2) * x).sum(), V4),
    "repeated": (lambda x: (np.sin(x) * np.cos(x) + np.sin(x) ** 2 * (x * V3 + V3 * x)).sum(), V3),
    "inner_grad": (lambda x: (bs.grad(lambda t: np.sin(t).sum())(x) * x).sum(), V3),
    "inner_vmap": (lambda a, v: bs.vmap(lambda r: np.dot(r, v) ** 2)(a).sum(), A34, V4),
    "checkpoint": (lambda x: bs.checkpoint(lambda t: np.sin(np.sin(t)).sum())(x), V3),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str) -> None:
    f, *args = PROGRAMS[name]
    rtol = 1e-4 if name in ("float32", "mixed") else 1e-9
    check(f, *args, rtol=rtol)
    check(bs.grad(f), *args, rtol=rtol)
    check(bs.value_and_grad(f, argnums=tuple(range(len(args)))), *args, rtol=rtol)


@pytest.mark.parametrize(
    "name", ["slices", "cumsum", "softmax", "gather", "norm", "matvec", "where", "rolled"]
)
def test_second_derivative(name: str) -> None:
    f, x, *rest = PROGRAMS[name]
    g = lambda x, *rest: (bs.grad(f)(x, *rest) ** 2).sum()
    check(bs.grad(g), x, *rest)
    check(bs.hessian(f), x, *rest)


def test_discrete_rows() -> None:
    check(lambda a: (a.argmax(axis=0), a.argmin(axis=1), (a > 0).any(), (a > 0).all(axis=1)), A34)
    check(lambda a: (np.argsort(a, axis=0), np.floor(a) // 2, np.sign(a) == 1, a.sum() > 0), A34)
    check(lambda a: np.isnan(a) | (a < 0) & ~(a > -1), A34)


def test_long_programs() -> None:
    def f(x):
        for _ in range(400):
            x = x + 0.01 * np.sin(x)
        return x

    check(bs.grad(f), 1.0)


def test_structural_zeros_stay_zero() -> None:
    text = source(bs.grad(lambda x: np.where(x > 0, np.sqrt(x), 0).sum()), np.ones(2))
    with np.errstate(divide="ignore", invalid="ignore"):
        found = run(text, bs.grad(lambda x: x))(np.array([0.0, 4.0]))
    np.testing.assert_array_equal(found, [0.0, 0.25])


# ---- transformations and forms


def test_nested_grad() -> None:
    f = lambda x: np.sin(x) * x**3
    check(bs.grad(bs.grad(f)), 0.7, given=False)
    check(bs.grad(bs.grad(bs.grad(f))), 0.7, given=False)
    check(bs.jacobian(lambda x: x**2), V3)
    check(lambda x, t: bs.jvp(np.sin, (x,), (t,)), 0.3, 2.0)


@dataclass
class Layer:
    w: Any
    b: Any
    name: str = "dense"


Pair = namedtuple("Pair", "a b")


@pytest.mark.parametrize(
    ("f", "args"),
    [
        (lambda p: (p["w"] @ p["w"]) * p["b"], ({"w": V3, "b": 2.0},)),
        (lambda p: p[0] * p[1][0] * p[1][1]["k"], ([2.0, (3.0, {"k": 4.0})],)),
        (lambda p, x: (p.w * x + p.b).sum(), (Layer(V3, 1.0), V3)),
        (lambda p: p.a * p.b, (Pair(2.0, 3.0),)),
        (lambda p: p["x"] * 2 if p["none"] is None else 0, ({"x": 1.5, "none": None},)),
        (lambda p: {"same": p["x"], "two": (p["x"] * 2, [1.0, "text"])}["two"][0], ({"x": 1.5},)),
    ],
)
def test_containers(f: Any, args: Any) -> None:
    check(f, *args)
    check(bs.grad(f), *args)
    check(bs.value_and_grad(f, argnums=(0,)), *args)


def test_outputs_in_containers() -> None:
    check(lambda x: {"a": x, "b": [x * 2, (np.sin(x), 1.0, None, "text")]}, 2.0)
    check(lambda x, y: (x + y, x + y), 2.0, 3.0)


def test_argnums() -> None:
    f = lambda a, b, c: a * b**2 + np.sin(c * a)
    for argnums in (0, 1, -1, (0, 2), (2, 0), [1]):
        check(bs.grad(f, argnums=argnums), 1.0, 2.0, 3.0, given=False)
        check(bs.value_and_grad(f, argnums=argnums), 1.0, 2.0, 3.0)


def test_only_what_is_needed_is_written() -> None:
    text = source(bs.grad(lambda a, x: (a @ x).sum()), A34, V4)
    assert "grad_x" not in text  # arrays that were not asked for cost too much
    assert "    s0 =" not in text


def test_aux_is_written_flat() -> None:
    f = lambda x: (x * x, np.sin(x))
    text = source(bs.grad(f, has_aux=True), 2.0)
    found = run(text, bs.grad(f))(2.0)
    np.testing.assert_allclose(np.hstack(found), [4.0, np.sin(2.0)])


def test_custom_function() -> None:
    class Cube(bs.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 30 * x**2  # wrong on purpose: it must be this that is written

    check(bs.grad(lambda x: Cube.apply(x * 2)), 2.0)
    assert "30" in source(bs.grad(Cube.apply), 2.0)


def test_accumulation_never_writes_into_a_shared_array() -> None:
    def f(x, y):
        s = x + y  # both adjoints are the same array
        return (s * s).sum() + (x * 3).sum()

    check(bs.grad(f, argnums=(0, 1)), V3, V3)


def test_names_do_not_clash() -> None:
    check(lambda np, grad_np, s0: np * s0 + grad_np, 1.0, 2.0, 3.0)
    check(bs.grad(lambda x, grad_x, s0: x * x * grad_x + s0), 1.0, 2.0, 3.0)

    def x(x):
        return x * x

    check(x, 2.0)
    check(bs.grad(x), 2.0)

    def sigmoid(z):
        return 1 / (1 + np.exp(-z))

    assert "def sigmoid(z):" in check(sigmoid, 2.0)


def test_named_after_the_function() -> None:
    assert "def energy(x):" in source(energy)
    assert "    energy = " in source(energy)
    assert "def grad_energy(x):" in source(bs.grad(energy))
    assert "def f(x):" in source(lambda x: x * x)
    assert "def f(y):" in source(functools.partial(lambda x, y: x * y, 2.0))


def energy(x):
    return x * x / 2


def test_ufunc() -> None:
    assert "np.sin(x" in source(np.sin) or "np.sin(x0" in source(np.sin)


def test_text_is_a_module() -> None:
    text = source(energy)
    assert isinstance(text, str)
    assert repr(text) == str(text)
    assert not text.startswith("import")  # nothing to import


def test_fixed_arguments() -> None:
    f = lambda x, n: sum(x**k for k in range(n))
    text = source(f, 2.0, 3)
    function = run(text, f)
    assert function(2.0, 3) == 7.0
    with pytest.raises(ValueError, match="written for n = 3"):
        function(2.0, 4)
    g = lambda x, mode: x * x if mode == "square" else x
    assert run(source(bs.grad(g), 2.0, "square"), bs.grad(g))(3.0, "square") == 6.0


def test_defaults_are_kept() -> None:
    assert "def f(x):" in source(lambda x, eps=1e-3: x * eps)
    assert "def f(x, eps):" in source(lambda x, eps=1e-3: x * eps, 1.0, 2.0)


# ---- mistakes


def test_branch_on_a_value() -> None:
    with pytest.raises(TracedValueError, match=r"np\.where"):
        source(lambda x: x if x > 0 else -x)


def test_wrong_number_of_examples() -> None:
    with pytest.raises(StructureError, match="got 1 example argument for"):
        source(lambda x, y: x * y, 1.0)
    with pytest.raises(StructureError, match="got 3 example arguments for"):
        source(bs.grad(lambda x, y: x * y), 1.0, 2.0, 3.0)


def test_any_number_of_arguments() -> None:
    with pytest.raises(StructureError, match="pass examples"):
        source(lambda *xs: sum(xs))
    assert run(source(lambda *xs: sum(xs), 1.0, 2.0), lambda: 0)(1.0, 2.0) == 3.0


def test_required_keyword() -> None:
    with pytest.raises(StructureError, match=r"functools\.partial"):
        source(lambda x, *, k: x * k)


def test_not_a_number() -> None:
    with pytest.raises(NotScalarError):
        source(bs.grad(lambda x: x * 2), V3)
    with pytest.raises(NotDifferentiableError):
        source(bs.grad(lambda x: x * 2), 3)
    with pytest.raises(NotDifferentiableError):
        source(bs.grad(lambda x: x * 2, argnums=1), 3.0)


def test_result_without_brackets() -> None:
    with pytest.raises(StructureError, match="Layer"):
        source(lambda x: Layer(x, x), 1.0)


def test_arrays_without_an_example_are_hinted_at():
    with pytest.raises(bs.errors.BacksolveError) as caught:
        source(bs.grad(lambda x: x[0] * x[1]))
    assert "bs.source(f, np.ones(3))" in caught.value.__notes__[0]
