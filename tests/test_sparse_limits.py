"""What Jacobians refuse, and what they must not refuse: by whatever way and in whatever units."""

from __future__ import annotations

import copy
import pickle
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import backsolve as bs
from backsolve.errors import StructureError, UnsupportedError
from backsolve.solve import patterns

Z = np.array([1 + 2j, 3 - 1j, 0.5 + 0.3j])
A = np.array([[2, 1j, 0], [0, 3, 1], [1, 0, 4 - 1j]])


def by_entries(f: Any, z: Any) -> Any:
    return bs.jacobian(f, sparse=True)(z).toarray()


def by_colours(f: Any, z: Any) -> Any:
    return bs.jacobian(f, sparse=bs.sparsity(f, z, method="colour"))(z).toarray()


WAYS: dict[str, Callable[[Any, Any], Any]] = {
    "auto": lambda f, z: bs.jacobian(f)(z),
    "forward": lambda f, z: bs.jacobian(f, method="forward")(z),
    "eliminate": lambda f, z: bs.jacobian(f, method="eliminate")(z),
    "colour": lambda f, z: bs.jacobian(f, method="colour")(z),
    "sparse": by_entries,
    "plan": by_colours,
    "compiled": lambda f, z: bs.jit(bs.jacobian(f))(z),
    "compiled forward": lambda f, z: bs.jit(bs.jacobian(f, method="forward"))(z),
    "compiled colour": lambda f, z: bs.jit(bs.jacobian(f, method="colour"))(z),
    "batched": lambda f, z: bs.vmap(bs.jacobian(f))(np.stack([z, z]))[1],
    "compiled sparse": lambda f, z: bs.jit(lambda z: bs.jacobian(f, sparse=True)(z).data)(z),
}

CROOKED: dict[str, Any] = {  # beside entries that are large, or on a scale where all is small
    "small": lambda z: 1e-12 * np.conj(z),
    "a large row": lambda z: np.stack([1e6 * z[0], 1e-6 * np.conj(z[1]), z[2]]),
    "a large entry of the row": lambda z: 1e9 * z[0] + 1e-9 * np.conj(z[1]) + 0 * z,
    "a large argument": lambda z: z * np.array([1e-20, 1, 1e12]) + 1e-15 * np.conj(z[::-1]),
    "real": lambda z: 1e-12 * np.real(z),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", CROOKED)
@pytest.mark.parametrize("dtype", ["complex128", "complex64"])
def test_no_unit_hides_that_a_function_is_not_holomorphic(name: str, way: str, dtype: str) -> None:
    with pytest.raises(ValueError, match="holomorphic"):
        WAYS[way](CROOKED[name], Z.astype(dtype))


@pytest.mark.parametrize("method", ["forward", "scan"])
def test_rounds_of_a_loop_that_are_not_holomorphic(method: str) -> None:
    def f(z: Any) -> Any:
        y = z
        for _ in range(20):
            y = 0.5 * np.conj(y) + 1e-9 * z
        return y

    with pytest.raises(bs.errors.NotScalarError, match="holomorphic"):
        bs.jacobian(f, method=method)(Z)


def rounds(z: Any) -> Any:
    y = z
    for _ in range(15):
        y = y * y * 0.1 + z
    return y


def until(z: Any) -> Any:
    y, k = z, 0
    while k < 5:
        y, k = y * y * 0.1 + z, k + 1
    return y


STRAIGHT: dict[str, Any] = {
    "scales": lambda z: z * z * np.array([1e-12, 1, 1e12]),
    "a loop": rounds,
    "a loop until": until,
    "a compiled loop": bs.jit(rounds),
    "a branch": lambda z: z * z if z[0].real > 0 else z,
    "where": lambda z: np.where(z.real > 0.7, z * z, np.exp(z)),
    "a system": lambda z: np.linalg.solve(A * z, z),
    "a function as a system": lambda z: bs.linear_solve(lambda v: A @ v * z, z * z),
    "parts": lambda z: (z.real**2 - z.imag**2) + 2j * z.real * z.imag,
    "polar": lambda z: 1e-9 * np.abs(z) ** 3 * np.exp(3j * np.angle(z)),
}


@pytest.mark.parametrize("way", [w for w in WAYS if w != "compiled sparse"])
@pytest.mark.parametrize("name", STRAIGHT)
def test_holomorphic_functions_are_not_refused(name: str, way: str) -> None:
    f = STRAIGHT[name]
    expected = np.stack([bs.jvp(f, (Z,), (e + 0j,))[1] for e in np.eye(3)], 1)
    np.testing.assert_allclose(WAYS[way](f, Z), expected, rtol=1e-8, atol=1e-20)


def test_real_and_complex_arguments_by_colours() -> None:
    f = lambda x, z: z * z * x + x[::-1]
    x = np.array([1.0, 2.0, 3.0])
    plan = bs.sparsity(f, x, Z, argnums=(0, 1), method="colour")
    found = bs.jacobian(f, (0, 1), sparse=plan)(x, Z)
    for a, b in zip(found, bs.jacobian(f, (0, 1), "forward")(x, Z), strict=True):
        np.testing.assert_allclose(a.toarray(), b, rtol=1e-12)


@pytest.mark.parametrize("method", [None, "colour"])
def test_integers_and_booleans_are_handed_over_as_they_are(method: Any) -> None:
    def f(x: Any, k: int, is_doubled: bool, *, options: Any) -> Any:
        assert type(k) is int
        assert type(options["n"]) is int
        x = 2 * x if is_doubled is True else x
        parts = [x[:-1], x[1:] ** k]
        return sum([parts[k - 2][i : i + options["n"]] for i in range(k)])

    x = np.arange(1.0, 7.0)
    for k, is_doubled, n in [(2, True, 3), (3, False, 2), (2, False, 3)]:
        plan = bs.sparsity(
            lambda x, *a, n=n: f(x, *a, options={"n": n}), x, k, is_doubled, method=method
        )
        assert not plan.is_local
        expected = bs.jacobian(f)(x, k, is_doubled, options={"n": n})
        found = bs.jacobian(f, sparse=True)(x, k, is_doubled, options={"n": n})
        np.testing.assert_array_equal(found.toarray(), expected)
        J = bs.jacobian(plan.f, sparse=plan)
        for at in (x, x + 1):
            expected = bs.jacobian(f)(at, k, is_doubled, options={"n": n})
            np.testing.assert_array_equal(J(at, k, is_doubled).toarray(), expected)
    H = bs.hessian(lambda x, k: np.sum(x**k) * isinstance(k, int), sparse=True)
    np.testing.assert_array_equal(H(x, 3).toarray(), np.diag(6 * x))
    np.testing.assert_array_equal(H(x, 2).toarray(), 2 * np.eye(6))


def test_a_sparse_matrix_is_by_an_argument() -> None:
    x = np.ones(3)
    for f in (
        lambda: bs.jacobian(np.sin, (), sparse=True)(x),
        lambda: bs.hessian(np.sum, [], sparse=True)(x),
        lambda: bs.sparsity(np.sin, x, argnums=()),
        lambda: bs.sparsity(np.sin, x, argnums=(), method="colour"),
    ):
        with pytest.raises(StructureError, match=r"argnums=.* has none"):
            f()
    for method in (None, "colour"):  # a container of nothing is one, as by a dense way
        plan = bs.sparsity(lambda p, x: (x, {"y": x}), {}, x, method=method)
        assert bs.jacobian(plan.f, sparse=plan)({}, x) == ({}, {"y": {}})


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_matrices_have_the_dtype_of_their_argument(dtype: str) -> None:
    x = np.arange(1, 6).astype(dtype)
    for f in (
        lambda x: x > 2,
        lambda x: (x > 2, np.round(x).astype(int)),
        lambda x: (x * x, 1j * x),
    ):
        expected = [a.dtype for a in bs.tree.flatten(bs.jacobian(f, method="forward")(x))[0]]
        for J in (
            bs.jacobian(f, method="colour"),
            bs.jacobian(f, sparse=True),
            bs.jacobian(f, sparse=bs.sparsity(f, x, method="colour")),
        ):
            assert [a.dtype for a in bs.tree.flatten(J(x))[0]] == expected


@pytest.mark.parametrize("method", [None, "colour"])
@pytest.mark.parametrize(
    "f",
    [
        lambda x: x * np.sum(x),
        lambda x: np.cumsum(x * x),
        lambda x: np.sort(x) * np.sum(x),
        bs.jit(lambda x: np.cumsum(x * x)),
        lambda x: bs.while_loop(lambda u: u[0] < 5, lambda u: np.sum(u) * u, x),
    ],
    ids=["sum", "cumsum", "sort", "a compiled call", "a loop"],
)
def test_what_is_too_large_is_refused_before_it_is_made(f: Any, method: Any) -> None:
    x = np.ones(20_000)
    tracemalloc.start()
    try:
        with pytest.raises(UnsupportedError, match=r"entries|too large"):
            bs.sparsity(f, x, method=method)
        assert tracemalloc.get_traced_memory()[1] < 0.6e9  # of all entries: 1.6e9 and more
    finally:
        tracemalloc.stop()


def test_patterns_are_multiplied_a_few_rows_at_a_time(monkeypatch: Any) -> None:
    rng = np.random.default_rng(0)
    block, places = (sp.csr_array(rng.uniform(size=(90, 90)) < 0.2) for _ in range(2))
    monkeypatch.setattr(patterns, "MOST_ENTRIES", 8100)
    found = patterns._product(block, places)
    np.testing.assert_array_equal(found.toarray(), (block @ places).toarray())
    monkeypatch.setattr(patterns, "MOST_ENTRIES", 7000)
    with pytest.raises(UnsupportedError, match="7000"):
        patterns._product(block, places)


@pytest.mark.parametrize("method", [None, "colour"])
def test_plans_are_copied_but_not_pickled(method: Any) -> None:
    x = np.arange(3.0)
    plan = bs.sparsity(np.sin, x, method=method)
    for same in (copy.copy(plan), copy.deepcopy({"plan": plan})["plan"]):
        np.testing.assert_allclose(bs.jacobian(np.sin, sparse=same)(x).diagonal(), np.cos(x))
    with pytest.raises(UnsupportedError, match="make it again"):
        pickle.dumps(plan)


def test_a_plan_of_another_structure_says_of_what_types() -> None:
    f = lambda x: x[1:] * x[:-1]
    xs = np.ones((2, 5))
    J = lambda x, plan: bs.jacobian(f, sparse=plan)(x).data
    found = bs.vmap(lambda x: J(x, bs.sparsity(f, xs[0])))(xs)
    np.testing.assert_array_equal(found, np.ones((2, 8)))
    with pytest.raises(
        StructureError, match=r"of float64\[5\], has 8 of 4 × 5 .*one entry of the batch"
    ):
        bs.vmap(lambda x: J(x, bs.sparsity(f, xs)))(xs)
    with pytest.raises(StructureError, match=r"of float64\[5\], has 9 of 5 × 5 entries"):
        bs.jacobian(lambda x: x * x[::-1], sparse=bs.sparsity(f, xs[0]))(xs[0])


def test_what_cancels_is_not_blamed_on_the_pattern_alone() -> None:
    x = np.linspace(1, 2, 6)
    f = lambda x: (1e8 * x + np.roll(x, 1) * 0.1 + x) - 1e8 * x
    P = np.eye(6) + np.roll(np.eye(6), 1, 0)
    found = bs.jacobian(f, sparse=bs.sparsity(f, x, pattern=P))(x)
    np.testing.assert_allclose(
        found.toarray(), np.eye(6) + 0.1 * np.roll(np.eye(6), 1, 0), atol=1e-7
    )
    with pytest.raises(StructureError, match=r"row 0 .*terms cancel .*float32 .*float64"):
        bs.sparsity(f, x.astype("float32"), pattern=P)


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("colouring", ["column", "row", "both", "star", "acyclic"])
def test_entries_of_a_hessian_in_many_units(colouring: str, given: bool) -> None:
    rng = np.random.default_rng(1)
    for _ in range(5):
        a, b = (10.0 ** rng.integers(-12, 13, size=n) for n in (7, 8))
        f = lambda x, a=a, b=b: np.sum(a * x[1:] * x[:-1]) + np.sum(b * x**3)
        x = rng.normal(size=8)
        expected = bs.hessian(f)(x)
        pattern = expected != 0 if given else None
        plan = bs.sparsity(f, x, hessian=True, colouring=colouring, pattern=pattern)
        for at in (x, 2 * x):
            found = bs.hessian(f, sparse=plan)(at).toarray()
            np.testing.assert_allclose(found, bs.hessian(f)(at), rtol=1e-7)


@pytest.mark.parametrize("method", ["auto", "forward", "reverse", "colour", "eliminate"])
def test_zeros_by_complex_arguments_are_complex(method: str) -> None:
    f = lambda x, z: (x * x, x * z)
    found = bs.jacobian(f, (0, 1), method)(Z.real, Z)
    assert [[a.dtype for a in line] for line in found] == [[float, complex], [complex, complex]]


@pytest.mark.parametrize("way", [w for w in WAYS if w != "compiled sparse"])
def test_numbers_that_were_single_are_judged_as_such(way: str) -> None:
    scale = np.array([1e-12, 1.0, 1e9])  # of float64: so is the result
    r = lambda z: np.sqrt(np.real(z) ** 2 + np.imag(z) ** 2)
    f = lambda z: r(z) * np.exp(1j * np.arctan2(np.imag(z), np.real(z))) * scale
    found = WAYS[way](f, Z.astype("complex64"))
    np.testing.assert_allclose(found, np.diag(scale), rtol=1e-5)


def test_a_given_pattern_of_numbers_that_were_single() -> None:
    x = np.linspace(1, 2, 6).astype("float32")
    f = lambda x: (np.sin(x * 1.7) * np.roll(x, 1) ** 3).astype("float64") * 1e9
    P = np.eye(6) + np.roll(np.eye(6), 1, 0)
    found = bs.jacobian(f, sparse=bs.sparsity(f, x, pattern=P))(x)
    np.testing.assert_allclose(found.toarray(), bs.jacobian(f, method="forward")(x), rtol=1e-5)


def test_entries_that_are_rounding_alone_do_not_hide_that_a_function_is_holomorphic() -> None:
    rng = np.random.default_rng(0)
    A = rng.normal(size=(8, 8)) + 1j * rng.normal(size=(8, 8))
    z = rng.normal(size=8) + 1j * rng.normal(size=8)
    for f in (
        lambda z: A @ np.linalg.solve(A, z),
        lambda z: z / np.linalg.norm(z) * np.linalg.norm(z),
    ):
        for how in ({}, {"method": "forward"}, {"method": "eliminate"}, {"sparse": True}):
            J = bs.jacobian(f, **how)(z)
            J = J.toarray() if how.get("sparse") else J
            np.testing.assert_allclose(J, np.eye(8), atol=1e-12)


def test_whole_blocks_hide_no_conjugate_in_other_units() -> None:
    inner = lambda z: np.stack([1e6 * z[0], 1e-7 * np.conj(z[1])])
    z = np.array([1 + 2j, 3 - 1j])
    for f in (bs.jit(inner), bs.checkpoint(inner)):
        for method in ("eliminate", "forward", "auto"):
            with pytest.raises((ValueError, TypeError), match="holomorphic"):
                bs.jacobian(f, method=method)(z)


def test_systems_and_plans_are_copied_as_they_are() -> None:
    made = bs.linearize(np.sin)(np.ones(3))
    assert copy.deepcopy(made) is made
    assert copy.copy(made) is made
    with pytest.raises(UnsupportedError, match=r"bs\.linearize"):
        pickle.dumps(made)


def test_axes_of_a_single_number() -> None:
    for axis in (0, -1, None, ()):
        f = lambda x, axis=axis: np.sum(x * x, axis=axis)
        assert bs.grad(f)(np.float64(3.0)) == 6.0
    with pytest.raises(ValueError, match="axis"):
        bs.grad(lambda x: np.sum(x * x, axis=1))(np.float64(3.0))


def test_numpys_booleans_say_whether_it_is_sparse() -> None:
    f = lambda x: np.sum(x[1:] * x[:-1])
    for n in (3, 30):
        x = np.arange(1.0, n)
        is_large = np.greater(x.size, 10)
        for made in (
            bs.jacobian(lambda x: x[1:] * x[:-1], sparse=is_large)(x),
            bs.hessian(f, sparse=is_large)(x),
        ):
            assert sp.issparse(made) == is_large


def test_nobody_writes_into_the_pattern_of_a_plan():
    f, x = lambda u: u[1:] * u[:-1], np.linspace(1.0, 2.0, 6)
    found = bs.sparsity(f, x).pattern
    for given in (found, found.tocoo(), found.tocsc(), found.toarray()):
        plan = bs.sparsity(f, x, pattern=given)
        for places in (plan.pattern.indices, plan.pattern.indptr):
            with pytest.raises(ValueError, match="read-only"):
                places[:] = 0
        np.testing.assert_allclose(bs.jacobian(f, sparse=plan)(x).toarray(), bs.jacobian(f)(x))
    writable = found.tocsc()
    bs.sparsity(f, x, pattern=writable)
    writable.indices[:] = writable.indices[:].copy()  # what was given is still the user's
