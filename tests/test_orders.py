"""Orders of elimination: what they cost, by every rule, and what is really multiplied."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve.ir import Type
from backsolve.solve import chains, prices
from backsolve.solve.annealing import anneal
from backsolve.solve.chains import bracketed
from backsolve.solve.eliminate import Graph
from backsolve.solve.orders import ORDERS
from backsolve.solve.prices import cost
from backsolve.solve.work import multiplications
from backsolve.trace import stage

N = tuple(range(4))


def bow_tie(*x: Any) -> tuple[Any, ...]:
    """Many to one, a way, one to many: best from both ends towards the middle."""
    y = np.sin(x[0]) + np.sin(x[1]) + np.sin(x[2]) + np.sin(x[3])
    for _ in range(5):
        y = np.sin(y)
    return tuple([np.sin(y + float(k)) for k in range(4)])


def random_program(seed: int) -> Callable[..., Any]:
    """Sums, products and sines of earlier results, as they come. (No number is known: 1 + 1 would be.)"""

    def f(*x: Any) -> Any:
        choice = np.random.default_rng(seed)
        made = list(x)
        for _ in range(12):
            a, b = (made[choice.integers(len(made))] for _ in range(2))
            kind = choice.integers(3)
            made.append(a + np.cos(b) if kind == 0 else a * b if kind == 1 else np.sin(a))
        return tuple(made[-3:])

    return f


def point(n: int = 4) -> tuple[float, ...]:
    return tuple(0.3 + 0.2 * k for k in range(n))


def executed(f: Callable[..., Any], order: Any) -> int:
    """Multiplications in the program that computes f and its Jacobian."""
    J = bs.jacobian(f, N, "eliminate", order)
    program, _ = stage(lambda *x: bs.tree.flatten(J(*x))[0], [Type((), np.dtype(float))] * 4)
    return sum(multiplications(e) for e in program.equations)


@pytest.mark.parametrize("order", sorted(ORDERS))
def test_what_is_counted_is_what_is_multiplied(order: str) -> None:
    # The program itself, sines and sums, multiplies nothing: all that does is the elimination.
    system = bs.linearize(bow_tie)(*point())
    assert executed(bow_tie, order) == system.cost(order, "operators") > 0


def test_both_ends_first_costs_less_than_forward_and_reverse() -> None:
    system = bs.linearize(bow_tie)(*point())
    # The five in the middle become one, that is multiplied into the four behind it; then four by four.
    assert executed(bow_tie, "search") == 4 + 4 + 4 * 4
    for name in ("forward", "reverse"):
        assert executed(bow_tie, name) >= 5 * 4 + 4 * 4
        assert system.cost("search") < system.cost("greedy") < system.cost(name, "operators")
        assert system.cost("search") < system.cost(name)


@pytest.mark.parametrize("seed", range(6))
def test_operators_and_bare_numbers_count_the_same_of_scalars(seed: int) -> None:
    system = bs.linearize(random_program(seed))(*point())
    graph = Graph(system)
    for name, plan in ORDERS.items():
        by_numbers = graph.skeleton().cost(plan(graph), "multiplications")
        assert system.cost(name, "operators") == by_numbers


@pytest.mark.parametrize("seed", range(4))
def test_what_is_left_does_not_depend_on_the_order(seed: int) -> None:
    skeleton = Graph(bs.linearize(random_program(seed))(*point())).skeleton()
    chance = np.random.default_rng(seed)
    rows = chance.permutation(skeleton.rows)[: skeleton.rows // 2]
    states = set()
    for _ in range(5):
        left = skeleton.copy()
        for v in chance.permutation(rows):
            left.eliminate(int(v))
        states.add(left.key)
    assert len(states) == 1
    assert skeleton.key not in states


@pytest.mark.parametrize("rule", ["pairs", "multiplications"])
def test_search_finds_the_least_of_all_orders(rule: str) -> None:
    def f(a: Any, b: Any) -> Any:
        c = a * b
        d = np.sin(c) * a
        e = c * d
        return np.cos(e) * b, e / d

    system = bs.linearize(f)(0.3, 0.4)
    skeleton = Graph(system).skeleton()
    least = min(skeleton.cost(o, rule) for o in itertools.permutations(range(skeleton.rows)))
    start = range(skeleton.rows)
    assert skeleton.cost(start, rule) > least
    assert skeleton.cost(anneal(skeleton, start, rule, steps=3000), rule) == least
    found = system.order("search", rule=rule, steps=3000, seed=1)
    assert skeleton.cost([k - 1 for k in found], rule) == least
    expected = bs.jacobian(f, (0, 1))(0.3, 0.4)
    np.testing.assert_allclose(bs.jacobian(f, (0, 1), "eliminate", found)(0.3, 0.4), expected)


def test_a_search_is_bounded_and_seeded() -> None:
    system = bs.linearize(bow_tie)(*point())
    assert system.order("search", steps=500, seed=3) == system.order("search", steps=500, seed=3)
    none = system.order("search", steps=10**9, seconds=0.0)
    assert sorted(none) == list(range(1, len(system.rows) + 1))


def test_the_published_rule_counts_pairs() -> None:
    def f(x: Any, y: Any) -> Any:
        s = x + y
        p = s * x
        return p * s, np.sin(p)

    system = bs.linearize(f)(0.3, 0.4)
    # Forward: s is read by p and p·s and reads x and y; p is read by both outputs and reads x and y.
    assert system.cost("forward", "pairs") == 2 * 2 + 2 * 2
    # Reverse: p (read twice) reads s and x; then s, read by both outputs, reads x and y.
    assert system.cost("reverse", "pairs") == 2 * 2 + 2 * 2
    assert system.cost([4, 3, 2, 1], "operators") < system.cost([4, 3, 2, 1], "pairs")


def chained(sizes: list[int]) -> tuple[Callable[..., Any], Any]:
    chance = np.random.default_rng(0)
    weights = [chance.normal(size=(m, n)) for n, m in itertools.pairwise(sizes)]

    def f(x: Any) -> Any:
        for W in weights:
            x = W @ x
        return x

    return f, chance.normal(size=sizes[0])


def least_of_brackets(sizes: list[int]) -> int:
    if len(sizes) < 3:
        return 0
    return min(
        least_of_brackets(sizes[: k + 1])
        + least_of_brackets(sizes[k:])
        + sizes[0] * sizes[k] * sizes[-1]
        for k in range(1, len(sizes) - 1)
    )


@pytest.mark.parametrize("sizes", [[6, 7, 3, 1, 2, 4, 5], [5, 2, 3, 9, 4, 8], [1, 6, 6, 1, 6, 6]])
def test_a_chain_is_bracketed_as_matrices_are(sizes: list[int]) -> None:
    f, x = chained(sizes)
    system = bs.linearize(f)(x)
    assert system.cost("chain") == least_of_brackets(sizes)
    np.testing.assert_allclose(
        bs.jacobian(f, 0, "eliminate", "chain")(x), bs.jacobian(f)(x), rtol=1e-10
    )


def structured(seed: int) -> tuple[Callable[..., Any], Any]:
    """A chain of four steps: full matrices, bands, triangles, diagonals and slices."""
    chance = np.random.default_rng(seed)
    size = n = int(chance.integers(3, 14))
    steps: list[Callable[[Any], Any]] = []
    for _ in range(4):
        W = chance.normal(size=(int(chance.integers(1, 12)), n))
        step, m = [
            (lambda x, W=W: W @ x, len(W)),
            (lambda x: np.exp(x), n),
            (lambda x: np.convolve(x, [1.0, 2.0, 3.0], mode="full"), n + 2),
            (lambda x: x[::2], (n + 1) // 2),
            (lambda x: np.cumsum(x), n),
        ][int(chance.integers(5))]
        steps.append(step)
        n = m

    def f(x: Any) -> Any:
        for step in steps:
            x = step(x)
        return x

    return f, chance.normal(size=size)


def test_a_chain_is_bracketed_by_what_operators_multiply(monkeypatch: Any) -> None:
    """The least of all orders; sizes alone do not find it."""
    found, by_sizes = [], []
    for seed in range(40):
        f, x = structured(seed)
        graph = Graph(bs.linearize(f)(x))
        least = min(cost(graph, list(o)) for o in itertools.permutations(range(len(graph.rows))))
        found.append(cost(graph, ORDERS["chain"](graph)))
        assert found[-1] == least
        with monkeypatch.context() as patched:
            patched.setattr(chains, "_MOST_PRODUCTS", 0)
            by_sizes.append(cost(graph, ORDERS["chain"](graph)))
    assert sum(found) < 0.9 * sum(by_sizes)


def test_like_factors_of_a_chain_are_multiplied_once() -> None:
    W = np.random.default_rng(0).normal(size=(5, 5))

    def f(x: Any) -> Any:
        for _ in range(12):
            x = np.tanh(W @ x)
        return x[:2]

    graph = Graph(bs.linearize(f)(np.ones(5)))
    asked: list[int] = []
    product = prices.Priced.product

    def counted(self: Any, a: Any, b: Any) -> Any:
        asked.append(1)
        return product(self, a, b)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(prices.Priced, "product", counted)
        order = ORDERS["chain"](graph)
    assert 0 < len(asked) < 40
    assert cost(graph, order) == cost(graph, ORDERS["reverse"](graph))


@pytest.mark.parametrize("n", [3, 12])
def test_search_is_never_worse_than_another_order_on_arrays(n: int) -> None:
    W = np.random.default_rng(0).normal(size=(n, 2))

    def f(x: Any) -> Any:
        y = np.sin(W @ (x[:2] * x[-2:]))
        return np.cumsum(y) * np.roll(y, 1) + np.exp(x[0]) * (W.T @ y).sum()

    system = bs.linearize(f)(np.linspace(0.1, 1, n))
    least = min(system.cost(name, "operators") for name in ORDERS if name != "search")
    assert 0 < system.cost("search") <= least


def test_a_long_chain_goes_the_cheaper_way() -> None:
    f, x = chained([3] * 450 + [1])
    skeleton = Graph(bs.linearize(f)(x)).skeleton()
    rows = list(range(skeleton.rows))
    assert bracketed(skeleton, rows) == rows[::-1]


def test_structure_is_kept_so_that_diagonals_cost_their_entries() -> None:
    system = bs.linearize(lambda x: np.exp(np.sin(np.cos(x))))(np.ones(1000))
    for name in ORDERS:
        assert system.cost(name, "operators") == 2000
        assert system.cost(name, "pairs") == 2


# ---- wherever Jacobians are asked for


def test_containers() -> None:
    def f(p: dict[str, Any]) -> Any:
        return {"y": p["a"] * p["b"], "z": (np.sin(p["b"]), 3.0)}

    p = {"a": np.array([1.0, 2.0]), "b": 0.5}
    found, expected = (bs.jacobian(f, 0, method)(p) for method in ("eliminate", "reverse"))
    assert found.keys() == expected.keys()
    for a, b in zip(*[bs.tree.flatten(x)[0] for x in (found, expected)], strict=True):
        assert type(a) is type(b)
        np.testing.assert_allclose(a, b)


def test_outputs_that_repeat_and_outputs_that_are_arguments() -> None:
    def f(x: Any) -> Any:
        y = np.sin(x)
        return y, x, y, y * x

    x = np.array([0.3, 0.4])
    for a, b in zip(bs.jacobian(f, 0, "eliminate")(x), bs.jacobian(f)(x), strict=True):
        np.testing.assert_allclose(a, b)


def test_higher_orders() -> None:
    def f(x: Any) -> Any:
        return np.stack([x[0] * np.sin(x[1]), np.exp(x[0] * x[1]), x[0] ** 3])

    x = np.array([0.3, 0.7])
    J = bs.jacobian(f, 0, "eliminate", "greedy")
    R = bs.jacobian(f, 0, "reverse")
    np.testing.assert_allclose(bs.jacobian(J)(x), bs.jacobian(R)(x))
    np.testing.assert_allclose(bs.jacobian(J, 0, "eliminate")(x), bs.jacobian(R)(x))
    np.testing.assert_allclose(
        bs.grad(lambda x: (J(x) ** 2).sum())(x), bs.grad(lambda x: (R(x) ** 2).sum())(x)
    )
    np.testing.assert_allclose(bs.jit(bs.jacobian(J))(x), bs.jacobian(R)(x))
    np.testing.assert_allclose(bs.vmap(J)(np.stack([x, 2 * x])), np.stack([R(x), R(2 * x)]))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_dtypes_are_kept(dtype: str) -> None:
    x = np.linspace(0.1, 1, 4).astype(dtype)
    f = lambda x: np.concatenate([2 * x[:2], np.sin(x) * x[0]])
    for J in (bs.jacobian(f, 0, "eliminate"), bs.jit(bs.jacobian(f, 0, "eliminate"))):
        assert J(x).dtype == x.dtype
        np.testing.assert_allclose(J(x), bs.jacobian(f)(x), rtol=1e-5)


def test_kept_orders_serve_compiled_code() -> None:
    order = bs.linearize(bow_tie)(*point()).order("search", steps=200)
    compiled = bs.jit(bs.jacobian(bow_tie, N, "eliminate", order))
    np.testing.assert_allclose(compiled(*point()), bs.jacobian(bow_tie, N)(*point()))


def test_repeated_rows_are_merged_in_compiled_code_too() -> None:
    def f(x: Any, y: Any) -> Any:
        return np.sin(x) * y + np.cos(2 * x), np.sin(x) / y - np.exp(2 * x)

    system = bs.linearize(f)(0.3, 0.4)
    assert len(system.rows) == len(bs.linearize(f, merge=False)(0.3, 0.4).rows) - 2
    order = system.order("reverse")
    expected = bs.jacobian(f, (0, 1))(0.3, 0.4)
    np.testing.assert_allclose(
        bs.jit(bs.jacobian(f, (0, 1), "eliminate", order))(0.3, 0.4), expected
    )


# ---- bad input


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ([1, 2], r"each of the 3 rows once.*misses 3"),
        ([1, 2, 3, 2], "repeats 2"),
        ([1, 2, 3, 9], "has unknown 9"),
        ([0, 1, 2], "misses 3"),
        ("sideways", r'"forward".*"search".*sideways'),
        ([1.5, 2, 3], "list of the rows' numbers"),
        (7, "list of the rows' numbers"),
    ],
)
def test_an_order_names_each_row_once(order: Any, message: str) -> None:
    f = lambda x: np.sin(np.cos(np.exp(x)))
    with pytest.raises(ValueError, match=message):
        bs.jacobian(f, 0, "eliminate", order)(0.5)
    with pytest.raises(ValueError, match=message):
        bs.linearize(f)(0.5).cost(order)


def test_methods_are_named() -> None:
    with pytest.raises(ValueError, match=r'"eliminate".*sideways'):
        bs.jacobian(np.sin, 0, "sideways")
    with pytest.raises(ValueError, match='method="eliminate"'):
        bs.jacobian(np.sin, 0, "reverse", order=[1])
    with pytest.raises(ValueError, match=r'"solves".*published'):
        bs.linearize(np.sin)(0.5).cost("forward", "published")
    with pytest.raises(ValueError, match="by solves"):
        bs.linearize(np.sin)(0.5).cost("markowitz", "solves")
