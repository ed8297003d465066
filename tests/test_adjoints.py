"""Adjoints that rows have for bare arrays: the transposes of their blocks, and what they leave to these."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg

import backsolve as bs
import backsolve.numpy as bnp
from backsolve.errors import NotDifferentiableError
from backsolve.ir import Type
from backsolve.primitive import PRIMITIVES, wrap
from backsolve.primitives.exponential import frechet
from backsolve.rewrite import rewrite_for_machines
from backsolve.row import Row
from backsolve.tensor import leaf_row
from backsolve.trace import stage

RNG = np.random.default_rng(11)
DIRECT = sorted(name for name, p in PRIMITIVES.items() if p.adjoint is not None)
SHAPES = {"svd": [(5, 3), (3, 5), (4, 4), (2, 5, 3)], "svdvals": [(5, 3), (3, 5)]}
SHAPES["pinv"] = SHAPES["svd"]
SHAPES["qr"] = [(4, 4), (6, 3), (2, 5, 3)]
SHAPES["expm"] = [(50, 50), (2, 48, 48)]  # of smaller ones SciPy's exponential is as fast
PARAMS = {"eigh": {"lower": True}, "eigvalsh": {"lower": False}, "pinv": {"rcond": 1e-15}}


def entries(shape, dtype):
    a = RNG.normal(size=shape)
    return (a + 1j * RNG.normal(size=shape) if dtype.kind == "c" else a).astype(dtype)


def arguments(name, shape, dtype):
    a = entries(shape, dtype)
    if name in ("cholesky", "eigh", "eigvalsh"):
        a = a @ np.swapaxes(a.conj(), -1, -2) + np.eye(shape[-1], dtype=dtype)
    if name == "expm":
        a = a / np.sqrt(shape[-1]).astype(a.real.dtype)
    if name == "lu":
        a = a + 5 * np.eye(shape[-1], dtype=dtype)
    return [a, entries((*shape[:-1], 2), dtype)] if name == "solve" else [a]


def recorded(name, args):
    return PRIMITIVES[name](*[wrap(a, leaf_row(a)) for a in args], **PARAMS.get(name, {})).row


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("name", DIRECT)
def test_an_adjoint_is_the_transpose_of_its_blocks(name, dtype):
    dtype = np.dtype(dtype)
    for shape in SHAPES.get(name, [(4, 4), (1, 1), (3, 4, 4)]):
        row = recorded(name, arguments(name, shape, dtype))
        g = entries(row.shape, row.dtype)[()]
        wanted = [p.__class__ is Row for p in row.parents]
        images = row.primitive.adjoint(g, row.saved, row.params or {}, wanted)
        stacked = len(shape) > 2 and name in ("cholesky", "qr", "lu", "det", "log_abs_det")
        assert (images is None) == stacked, (name, shape)
        tolerance = 2e-3 if np.finfo(dtype).bits == 32 else 1e-10
        for i, image in enumerate(images or ()):
            expected = row.primitive.block(row, i, row.saved).pull(g)
            np.testing.assert_allclose(image, expected, tolerance, tolerance, err_msg=f"{shape}")


@pytest.mark.parametrize("name", ["svd", "eigh", "qr"])
def test_parts_that_nobody_asks_for_are_zero(name):
    row = recorded(name, arguments(name, (4, 4), np.dtype(float)))
    for rows in (slice(0, 1), slice(0, 4), slice(4, 5), slice(5, 9)):
        g = np.zeros(row.shape)
        g[rows] = RNG.normal(size=g[rows].shape)
        (image,) = row.primitive.adjoint(g, row.saved, row.params or {}, [True])
        expected = row.primitive.block(row, 0, row.saved).pull(g)
        np.testing.assert_allclose(image, expected, rtol=1e-9, atol=1e-10)


def test_closed_gaps_are_left_to_the_blocks():
    np.testing.assert_allclose(
        bs.grad(lambda a: np.sum(np.linalg.eigh(a)[0]))(np.eye(3)), np.eye(3)
    )
    s = bs.grad(lambda a: np.sum(np.linalg.svd(a)[1]))(np.eye(3))
    np.testing.assert_allclose(s, np.eye(3))
    for f in (lambda a: np.linalg.eigh(a)[1][0, 1], lambda a: np.linalg.svd(a)[0][0, 1]):
        with pytest.raises(NotDifferentiableError):
            bs.grad(lambda a, f=f: f(a) * 1.0)(np.eye(3) + 0)


def test_a_singular_matrix_is_an_error():
    singular = np.array([[1.0, 2.0], [2.0, 4.0]])
    for f in (lambda a: np.linalg.slogdet(a)[1], lambda a: np.linalg.inv(a)[0, 0]):
        with pytest.raises(np.linalg.LinAlgError):
            bs.grad(f)(singular)
    with pytest.raises(np.linalg.LinAlgError):
        bs.grad(lambda b: np.sum(np.linalg.solve(singular, b)))(np.ones(2))
    sign, log = np.linalg.slogdet(bs.tensor(singular, requires_grad=True))
    assert (sign.value, log.value) == (0, -np.inf)


def test_what_a_row_keeps_is_not_used_after_a_replay():
    a = bs.tensor(np.array([[2.0, 1.0], [0.0, 3.0]]), requires_grad=True)
    y = np.linalg.slogdet(a)[1] + np.sum(np.linalg.solve(a, np.ones(2)))
    a.value = np.array([[4.0, 0.0], [1.0, 5.0]])
    y.forward()
    y.backward()
    expected = bs.grad(lambda a: np.linalg.slogdet(a)[1] + np.sum(np.linalg.solve(a, np.ones(2))))(
        np.array([[4.0, 0.0], [1.0, 5.0]])
    )
    np.testing.assert_allclose(a.grad, expected)


def test_debug_nans_sees_the_image_of_an_adjoint():
    with pytest.raises(bs.errors.NaNError), bs.debug_nans():
        bs.grad(lambda a: np.sqrt(np.linalg.inv(a)[0, 1]))(np.eye(2))


def test_lu_without_exchanges_is_taken_from_lapack_or_by_columns():
    for a in (RNG.normal(size=(5, 5)), np.array([[1.0, 2.0], [3.0, 4.0]])):
        y = PRIMITIVES["lu"].run(a)
        L, U = np.tril(y, -1) + np.eye(len(a)), np.triu(y)
        np.testing.assert_allclose(L @ U, a, atol=1e-12)
    P, L, U = bnp.linalg.lu(bs.tensor(np.array([[0.0, 2.0], [3.0, 4.0]])))
    np.testing.assert_allclose((P @ L @ U).value, [[0.0, 2.0], [3.0, 4.0]])


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
@pytest.mark.parametrize("size", [0.1, 2.0, 30.0])
def test_the_derivative_of_an_exponential_along_a_direction(size, dtype):
    dtype = np.dtype(dtype)
    a, e = size * entries((2, 5, 5), dtype) / 3, entries((2, 5, 5), dtype)
    a[1] = np.triu(a[1])  # of which LAPACK eliminates the transpose
    found, wide = frechet(a, e), complex if dtype.kind == "c" else float
    for k in range(2):
        expected = scipy.linalg.expm_frechet(
            a[k].astype(wide), e[k].astype(wide), compute_expm=False
        )
        scale = np.max(np.abs(expected))
        tolerance = 3e-5 if dtype == np.float32 else 1e-12
        np.testing.assert_allclose(found[k] / scale, expected / scale, atol=tolerance)


def test_compiled_gradients_of_exponentials_do_not_double_the_matrix():
    def loss(a):
        return np.sum(np.sin(bnp.linalg.expm(a)))

    for shape in [(4, 4), (2, 3, 3)]:
        a = 2 * RNG.normal(size=shape)
        program, _ = stage(bs.grad(loss), [Type(shape, np.dtype(float))])
        equations = rewrite_for_machines(program).equations
        assert "repeated_square_along" in {e.primitive.name for e in equations}
        assert max(v.type.size for e in equations for v in e.outputs) <= a.size
        compiled = bs.jit(bs.grad(loss))
        np.testing.assert_allclose(compiled(a), bs.grad(loss)(a), rtol=1e-9, atol=1e-9)
    a = RNG.normal(size=(3, 3))
    second = bs.hessian(loss)
    np.testing.assert_allclose(bs.jit(second)(a), second(a), rtol=1e-8, atol=1e-8)
    direction = RNG.normal(size=(3, 3))
    along = bs.jvp(loss, (a,), (direction,))[1]
    np.testing.assert_allclose(np.sum(bs.grad(loss)(a) * direction), along, rtol=1e-9)
