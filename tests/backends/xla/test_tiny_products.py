"""Products of tiny matrices on GPUs: sums of products, which XLA fuses; the CPU plays the device."""

import numpy as np
import pytest

import backsolve as bs

pytest.importorskip("jax")
RNG = np.random.default_rng(0)


PRODUCTS = {
    "ij,jk->ik": ((3, 4), (4, 5)),
    "aij,jk->aik": ((6, 3, 4), (4, 2)),
    "akj,ij->aik": ((6, 2, 3), (5, 3)),
    "jai,kj->iak": ((2, 3, 4), (5, 2)),
    "abi,bci->bca": ((2, 3, 4), (3, 5, 4)),
    "aijk,bij->bak": ((3, 2, 2, 5), (4, 2, 2)),
}


@pytest.mark.parametrize("subscripts", PRODUCTS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128])
def test_products_and_their_derivatives(subscripts, dtype, on_gpu):
    a, b = (RNG.normal(size=shape).astype(dtype) for shape in PRODUCTS[subscripts])
    if dtype is np.complex128:
        a, b = a + 1j * RNG.normal(size=a.shape), b - 1j * RNG.normal(size=b.shape)
    product = lambda a, b: np.einsum(subscripts, a, b)
    run = on_gpu(product)
    close = 1e-5 if dtype is np.float32 else 1e-12
    result = run(a, b)
    assert result.dtype == dtype
    np.testing.assert_allclose(result, product(a, b), rtol=close, atol=close)
    assert "dot_general" not in run.lower(a, b).stages["stablehlo"]
    if dtype is np.float64:
        g = bs.grad(lambda a, b: np.sum(np.sin(product(a, b))), argnums=(0, 1))
        for x, y in zip(on_gpu(g)(a, b), g(a, b), strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("shapes", "dtype"),
    [
        (((3, 5), (5, 4)), np.float64),  # five terms
        (((300, 4), (4, 200)), np.float64),  # as many as fill a device
        (((3, 4), (4, 5)), np.float16),  # 16-bit products are added up in 32
    ],
)
def test_others_stay_products(shapes, dtype, on_gpu):
    a, b = (RNG.normal(size=shape).astype(dtype) for shape in shapes)
    assert "dot_general" in on_gpu(np.matmul).lower(a, b).stages["stablehlo"]


def test_on_cpus_all_stay_products():
    a, b = RNG.normal(size=(3, 4)), RNG.normal(size=(4, 5))
    run = bs.jit(np.matmul, backend="xla", device="cpu")
    assert "dot_general" in run.lower(a, b).stages["stablehlo"]
