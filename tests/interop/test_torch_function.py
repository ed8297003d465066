"""Functions of ours as operators of PyTorch's: values, derivatives of all kinds, and what is refused."""

from __future__ import annotations

import concurrent.futures
import contextlib
import copy
import dataclasses
import gc
import pickle
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

import backsolve as bs
from backsolve.errors import DeviceError, DTypeError, StaticArgumentError, UnsupportedError

function = bs.interop.torch.function
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # PyTorch's own


@function
def recurrence(x, y):
    s = np.zeros(len(x))
    for i in range(1, len(x)):
        s[i] = s[i - 1] * x[i] + np.sin(y[i])
    return s


@function
def root(a):
    return bs.root(lambda x, a: x**3 + x - a, np.ones(3), a)


@function
def newton(a):
    x = a
    while abs(x**3 - a) > 1e-13:
        x = (2 * x + a / x**2) / 3
    return x


def doubles(*shape: int, **options: Any) -> torch.Tensor:
    made = torch.from_numpy(np.random.default_rng(sum(shape)).uniform(0.5, 1.5, shape))
    return made.requires_grad_(options.get("requires_grad", True))


CASES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "recurrence": (recurrence, (doubles(4), doubles(4))),
    "implicit": (root, (doubles(3),)),
    "while": (newton, (torch.tensor(8.0, dtype=torch.float64, requires_grad=True),)),
    "one number": (function(lambda x, y: np.sum(np.tanh(x @ y))), (doubles(2, 3), doubles(3))),
    "broadcast": (function(lambda x, y: np.exp(x) * y), (doubles(2, 1), doubles(3))),
    "several": (function(lambda x, y: (x * y, np.sum(x), y**2)), (doubles(3), doubles(3))),
    "eager": (function(lambda x, y: np.sin(x) * y, jit=False), (doubles(3), doubles(3))),
    "transposed": (function(lambda x: x @ np.cos(x).T), (doubles(3, 2).detach().T.requires_grad_(),)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_derivatives_of_first_and_second_order_in_both_modes(name: str) -> None:
    f, args = CASES[name]
    assert gradcheck(
        f, args, check_forward_ad=True, check_batched_grad=True, check_batched_forward_grad=True
    )
    assert gradgradcheck(f, args)


def test_complex_numbers() -> None:
    f = function(lambda z, x: np.exp(z) * x)
    g = function(lambda z: np.sum(np.abs(z) ** 2))
    z = torch.complex(doubles(3).detach(), doubles(3).detach() + 1).requires_grad_()
    assert gradcheck(f, (z, doubles(3)), check_forward_ad=True)
    assert gradgradcheck(f, (z, doubles(3)))
    assert gradcheck(g, (z,))
    assert torch.equal(g(z.conj()), g(z))
    (of_torch,) = torch.autograd.grad((z.abs() ** 2).sum(), z)
    assert torch.allclose(torch.autograd.grad(g(z), z)[0], of_torch)


def test_third_derivative() -> None:
    f = function(lambda x: x**4)
    x = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    y = f(x)
    for want in (32.0, 48.0, 48.0, 24.0):
        (y,) = torch.autograd.grad(y, x, create_graph=True)
        assert y.item() == pytest.approx(want)


@dataclasses.dataclass
class Pair:
    first: Any
    second: Any


def test_containers_flags_names_and_integers() -> None:
    @function
    def f(params, pair, flag, power, *, scale, how="sum"):
        y = params["w"][0] * pair.first**power * scale + pair.second
        if flag:
            y = 2 * y
        total = np.sum(y) if how == "sum" else np.mean(y)
        return {"loss": total, "all": [y, np.argmax(y)], "how": how, "nothing": None}

    w, first = doubles(3), doubles(3)
    pair = Pair(first, torch.arange(3))
    got = f({"w": (w,)}, pair, True, 2, scale=0.5)
    want = 2 * (w * first**2 * 0.5 + torch.arange(3))
    assert torch.allclose(got["all"][0], want)
    assert torch.allclose(got["loss"], want.sum())
    assert got["all"][1].item() == want.argmax().item()
    assert not got["all"][1].requires_grad
    assert (got["how"], got["nothing"]) == ("sum", None)
    ours = torch.autograd.grad(got["loss"] + got["all"][0][0], (w, first))
    for a, b in zip(ours, torch.autograd.grad(want.sum() + want[0], (w, first)), strict=True):
        assert torch.allclose(a, b)
    mean = f({"w": (w,)}, pair, False, 3, scale=0.5, how="mean")["loss"]
    assert torch.allclose(mean, (w * first**3 * 0.5 + torch.arange(3)).mean())


def test_new_numbers_of_python_compile_nothing() -> None:
    runs = []

    @function
    def f(x, factor):
        runs.append(1)
        return x * factor

    x = doubles(3)
    assert torch.equal(f(x, 2.0), 2 * x)
    staged = len(runs)
    assert torch.equal(f(x, 3.0), 3 * x)
    assert len(runs) == staged


def test_static_arguments() -> None:
    f = function(lambda x, shape: np.sum(np.broadcast_to(x, shape)), static_argnums=1)
    x = doubles(3)
    f(x, (5, 3)).backward()
    assert torch.equal(x.grad, torch.full((3,), 5.0, dtype=torch.float64))
    assert f(x, (2, 3)).item() == pytest.approx(2 * x.sum().item())


def test_memory_is_shared_both_ways_and_strided_tensors_are_read_right() -> None:
    seen = []

    def look(x):
        seen.append(x.ctypes.data)
        seen.append(np.array(x))
        return x + 1

    f = function(look, jit=False)
    x = doubles(4, 3, requires_grad=False)
    kept = f(x)
    assert seen[0] == x.data_ptr()
    del f
    gc.collect()
    assert torch.equal(kept, x + 1)
    same = function(lambda x: x, jit=False)(x)
    assert same.data_ptr() != x.data_ptr()  # PyTorch does not know that they would be one
    g = function(lambda x: x * 2)
    assert g(x).data_ptr() != x.data_ptr()
    for view in (x.T, x[::2, 1:], x[:, 0], x.flip(0), x.expand(2, 4, 3), x[0, 0]):
        assert torch.equal(g(view), view * 2)
    assert torch.equal(g(torch.empty(0, 3)), torch.empty(0, 3))


def test_types_follow_numpy_and_gradients_their_tensors() -> None:
    f = function(lambda x, y: np.sum(x * y))
    x = torch.ones(3, requires_grad=True)
    y = doubles(3)
    result = f(x, y)
    assert result.dtype == torch.float64
    result.backward()
    assert (x.grad.dtype, y.grad.dtype) == (torch.float32, torch.float64)
    assert f(x, x).dtype == torch.float32
    for dtype in (torch.float16, torch.int32, torch.uint8, torch.complex64):
        assert function(lambda x: x * x)(torch.ones(2, dtype=dtype)).dtype == dtype


def test_only_what_is_needed_is_computed() -> None:
    asked = []

    def watched(name: str) -> Any:
        class Watched(bs.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 1.0

            @staticmethod
            def backward(ctx, grad):
                asked.append(name)
                return grad

        return Watched.apply

    f = function(lambda x, y: watched("x")(x) * watched("y")(y), jit=False)
    x, y = doubles(3), doubles(3)
    f(x, y.detach()).sum().backward()
    assert asked == ["x"]
    f(x.detach(), y).sum().backward()
    assert asked == ["x", "y"]
    with torch.no_grad():
        assert not f(x, y).requires_grad
    assert not f(x.detach(), y.detach()).requires_grad
    assert len(asked) == 2


def test_backward_again_and_gradients_that_are_written_into() -> None:
    f = function(lambda x: np.sum(x**3))
    x = doubles(3)
    y = f(x)
    y.backward(retain_graph=True)
    first = x.grad.clone()
    x.grad.zero_()
    (3 * y).backward(retain_graph=True)
    assert torch.allclose(x.grad, 3 * first)
    assert torch.allclose(torch.autograd.grad(y, x)[0], 3 * x**2)
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


def test_a_tensor_that_was_changed_meanwhile_is_noticed() -> None:
    x = doubles(3, requires_grad=False)
    y = doubles(3)
    z = function(lambda x, y: x * y)(x, y)
    x += 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def test_an_argument_is_not_written_into() -> None:
    @function
    def f(x):
        x[0] = 10.0
        return np.sum(x**2)

    x = doubles(3)
    before = x.detach().clone()
    f(x).backward()
    assert torch.equal(x.detach(), before)
    assert x.grad is not None
    assert x.grad[0] == 0


def test_nor_by_code_that_runs_as_it_is_written() -> None:
    def f(x):
        x[0] = 10.0
        return np.sum(x**2)

    for x in (doubles(3, requires_grad=False), doubles(3)):
        before = x.detach().clone()
        for g in (f, lambda x: np.add(x, 1.0, out=x), lambda x: x.sort()):
            with contextlib.suppress(ValueError, bs.errors.UnsupportedError):
                function(g, jit=False)(x)
            assert torch.equal(x.detach(), before)
    with pytest.raises(ValueError, match="read-only"):
        function(f, jit=False)(doubles(3, requires_grad=False))
    copied = function(lambda x: f(x.copy()), jit=False)
    y = doubles(3)
    copied(y).backward()
    assert torch.equal(y.grad, torch.tensor([0.0, 2.0, 2.0]) * y.detach())  # type: ignore[arg-type]
    assert copied(y.detach()) == copied(y)
    assert torch.equal(y.detach()[:1], doubles(3).detach()[:1])


def test_transformations_of_torch_func() -> None:
    f = lambda x: recurrence(x, 2 * x)
    x = doubles(4, requires_grad=False)
    g = lambda x: newton(x.sum()) + f(x).sum()
    jacobian = torch.autograd.functional.jacobian(f, x)
    assert torch.allclose(torch.func.jacrev(f)(x), jacobian)
    assert torch.allclose(torch.func.jacfwd(f)(x), jacobian)
    assert torch.allclose(torch.autograd.functional.jacobian(f, x, vectorize=True), jacobian)
    hessian = torch.autograd.functional.hessian(g, x)
    assert torch.allclose(torch.func.hessian(g)(x), hessian)
    many = torch.stack([x, 2 * x, 3 * x], 1)
    each = torch.stack([torch.func.grad(g)(row) for row in many.T])
    assert torch.allclose(torch.func.vmap(torch.func.grad(g), in_dims=1)(many), each)
    shared = torch.func.vmap(recurrence, in_dims=(None, 1), out_dims=1)(x, many)
    assert torch.allclose(shared[:, 2], recurrence(x, 3 * x))
    value, along = torch.func.jvp(g, (x,), (torch.ones_like(x),))
    assert torch.allclose(value, g(x))
    assert torch.allclose(along, torch.func.grad(g)(x).sum())
    nested = torch.func.vmap(torch.func.vmap(newton))(8 * torch.ones(2, 3, dtype=torch.float64))
    assert torch.allclose(nested, 2 * torch.ones(2, 3, dtype=torch.float64))


@pytest.fixture
def quiet_compiler() -> Any:
    """PyTorch's compiler warns of its own matters."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch._dynamo.reset()
        yield
        torch._dynamo.reset()


@pytest.mark.usefixtures("quiet_compiler")
def test_one_graph_of_torch_compile() -> None:
    @function
    def f(params, flag, power, *, how):
        y = params["w"] ** power * params["b"]
        return {"loss": np.sum(y) if how == "sum" else np.mean(y), "best": np.argmax(y)}

    def model(x, y):
        z = recurrence(torch.sin(x), y * 2)
        parts = f({"w": z, "b": y[0]}, True, 3, how="sum")
        return (parts["loss"] + z.sum()) * 2, parts["best"]

    x, y = doubles(4), doubles(4)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    for _ in range(2):
        want, best = model(x, y)
        got, same = compiled(x, y)
        assert torch.allclose(got, want)
        assert torch.equal(best, same)
        for a, b in zip(
            torch.autograd.grad(got, (x, y)), torch.autograd.grad(want, (x, y)), strict=True
        ):
            assert torch.allclose(a, b)
        x, y = doubles(5), doubles(5)  # other shapes: another graph


@pytest.mark.usefixtures("quiet_compiler")
def test_what_runs_as_written_breaks_the_graph_and_runs() -> None:
    f = function(lambda x: x * float(np.max(np.asarray(x))), jit=False)
    x = doubles(3, requires_grad=False)
    compiled = torch.compile(lambda x: f(x + 1) * 2, backend="eager")
    assert torch.allclose(compiled(x), (x + 1) * (x + 1).max() * 2)


def test_many_threads() -> None:
    f = function(lambda x, k: np.sum(np.sin(x) ** k))

    def work(k: int) -> bool:
        x = (torch.arange(100 + k % 3) / 50.0).requires_grad_()
        for _ in range(20):
            x.grad = None
            f(x, 2.0 + k).backward()
        want = (2.0 + k) * torch.sin(x) ** (1.0 + k) * torch.cos(x)
        return torch.allclose(x.grad, want, rtol=1e-4, atol=1e-5)

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(12)))


def test_inside_of_a_module() -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(4, 3, dtype=torch.float64)
            self.root = root

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.root(self.linear(x))

    model = copy.deepcopy(Model())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    x, losses = doubles(4), []
    for _ in range(5):
        optimizer.zero_grad()
        loss = ((model(x) - 1) ** 2).sum()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 2
    f = function(lambda params, x: params["linear.weight"] @ x + params["linear.bias"])
    assert torch.allclose(f(dict(model.named_parameters()), x), model.linear(x))
    with pytest.raises(StaticArgumentError, match="named_parameters"):
        f(model, x)
    again = pickle.loads(pickle.dumps(function(np.tanh)))
    assert torch.allclose(again(x), torch.tanh(x))
    assert "recurrence" in repr(recurrence(doubles(2), doubles(2)).grad_fn)


def test_what_is_refused_says_what_to_do() -> None:
    f = function(lambda x: x * 2)
    with pytest.raises(DeviceError, match=r"x\.cpu\(\)"):
        f(torch.ones(3, device="meta"))
    with pytest.raises(DTypeError, match=r"bfloat16: pass x\.float"):
        f(torch.ones(3, dtype=torch.bfloat16))
    with pytest.raises(UnsupportedError, match="to_dense"):
        f(torch.eye(3).to_sparse())
    with pytest.raises(StaticArgumentError, match="static_argnums"):
        f(object())
    with pytest.raises(TypeError, match="takes a function"):
        function(3)
    with pytest.raises(ValueError, match="matmul") as wrong:
        function(lambda x, y: x @ y)(doubles(2, 3), doubles(2))
    assert "test_torch_function.py" in str(wrong.value)


def test_an_error_in_backward_arrives() -> None:
    class Broken(bs.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            raise ArithmeticError("no slope here")

    y = function(lambda x: Broken.apply(x), jit=False)(doubles(2))
    with pytest.raises(ArithmeticError, match="no slope here"):
        y.sum().backward()


def test_a_tensor_of_ours_is_told_from_one_of_pytorchs():
    f = bs.interop.torch.function(lambda x: np.sum(x**2))
    with pytest.raises(StaticArgumentError, match="the function that it was made of"):
        bs.grad(f)(np.ones(2))
