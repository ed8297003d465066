"""The chooser: what it takes, that it is right, and that it really goes that way."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve.backends.native.pricing import counted
from backsolve.hooks import hooks
from backsolve.ir import Program, Type
from backsolve.rewrite import rewrite_for_machines
from backsolve.rewrite.clean import drop_unused
from backsolve.solve import auto, compressed, many, ways
from backsolve.solve.eliminate import Graph
from backsolve.solve.prices import Priced
from backsolve.solve.tariff import CHEAP, EAGER, elimination_prices, plain_prices
from backsolve.solve.work import Work, work_of
from backsolve.trace import stage

RNG = np.random.default_rng(0)
W = RNG.normal(size=(300, 300))


@pytest.fixture(autouse=True)
def by_prices_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """What they leave in doubt is timed otherwise: see test_measured."""
    monkeypatch.setattr(hooks, "timed", lambda programs: None)


def waves(x: Any) -> Any:
    return np.sin(x) * np.exp(-x) + x**2


def stencil(u: Any) -> Any:
    v = np.concatenate([[0.0], u, [0.0]])
    return (v[:-2] - 2 * v[1:-1] + v[2:]) / 1e-2 + np.exp(u)


def network(x: Any) -> Any:
    return np.tanh(W @ np.tanh(W @ x))


CASES = [
    (waves, np.linspace(0, 1, 800), "eliminate"),
    (stencil, np.linspace(0, 1, 700), "eliminate"),
    (lambda x: np.tanh(W[:60, :60] @ np.tanh(W[:60, :60] @ x)), np.linspace(0, 1, 60), "forward"),
    (lambda x: np.outer(x, x) @ np.linspace(0, 1, 900).reshape(3, 300), np.ones(3), "forward"),
    (waves, np.linspace(0, 1, 20), "forward"),  # as cheap, and less to look after
    (waves, np.linspace(0, 1, 200), "reverse"),  # as cheap, and no axes to move
    (lambda x: waves(x).sum(), np.linspace(0, 1, 900), "reverse"),
    (lambda t: waves(t * np.linspace(0, 1, 900)), 0.5, "forward"),
    (lambda x: np.cumsum(np.sin(x)), np.linspace(0, 1, 20), "forward"),  # back, it is turned twice
    (lambda x: np.cumsum(np.sin(x)), np.linspace(0, 1, 400), "forward"),
    (lambda x: np.exp(x) / np.exp(x).sum(), np.linspace(0, 1, 20), "forward"),
]


@pytest.mark.parametrize("k", range(len(CASES)))
def test_what_is_chosen_is_what_runs(k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    f, x, expected = CASES[k]
    by_hand = bs.jacobian(f, method="forward")(x)
    ran = []

    def watched(name: str, original: Any) -> Any:
        def run(*args: Any, **kwargs: Any) -> Any:
            ran.append(name)
            return original(*args, **kwargs)

        return run

    for name in ("forward", "reverse"):
        original = getattr(many, f"{name}_jacobian")
        monkeypatch.setattr(many, f"{name}_jacobian", watched(name, original))
    monkeypatch.setattr(ways, "jacobian_entries", watched("eliminate", ways.jacobian_entries))
    np.testing.assert_allclose(bs.jacobian(f)(x), by_hand, rtol=1e-12, atol=1e-12)
    assert ran == [expected]
    ran.clear()
    np.testing.assert_allclose(bs.linearize(f)(x).jacobian(), by_hand, rtol=1e-12, atol=1e-12)
    assert ran == [expected]
    assert bs.explain_cost(f, x).chosen == expected


def test_nothing_is_applied_for_a_price(monkeypatch: pytest.MonkeyPatch) -> None:
    system = bs.linearize(network)(np.ones(300))
    plain = plain_prices(system.rows, system.parameters, system.outputs)
    for name in ("matmul", "multiply", "einsum", "dot"):
        monkeypatch.setattr(np, name, None)
    for row in system.rows:  # the kinds of rows are known now: no formula is run
        monkeypatch.setattr(type(row.primitive), "block", None)
    assert plain_prices(system.rows, system.parameters, system.outputs) == plain


def test_prices_of_orders_are_what_the_system_counts() -> None:
    system = bs.linearize(network, merge=False)(np.ones(300))
    found = elimination_prices(Graph(system))
    assert {p.order for p in found} <= set(CHEAP)
    for p in found:
        assert p.multiplications == system.cost(p.order, "operators")
        assert p.plan is not None
        assert p.multiplications == system.cost(list(p.plan), "operators")
    for p in plain_prices(system.rows, system.parameters, system.outputs):
        # by solves the first factor is free where the seed is a number
        assert p.multiplications == 300 * (2 * 300 * 300 + 2 * 300)
        assert p.passes == 300


def test_a_structure_is_decided_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    original = auto.elimination_prices
    monkeypatch.setattr(
        auto, "elimination_prices", lambda *a, **k: asked.append(1) or original(*a, **k)
    )
    monkeypatch.setattr(auto, "_decided", {})
    for k in range(3):
        x = np.linspace(k, 1, 700)
        np.testing.assert_allclose(
            bs.jacobian(waves)(x), np.diag(bs.jvp(waves, [x], [0 * x + 1])[1])
        )
    assert asked == [1]
    bs.jacobian(waves)(np.linspace(0, 1, 701))
    bs.jacobian(stencil)(np.linspace(0, 1, 700))
    assert asked == [1, 1, 1]


def test_solves_are_priced_for_the_seeds_that_reach_a_row() -> None:
    def f(a: Any, b: Any) -> Any:
        return np.sin(a), np.cos(b) * np.exp(b)

    system = bs.linearize(f)(np.ones(3), np.ones(5))
    reverse, forward = plain_prices(system.rows, system.parameters, system.outputs)
    # No seed of a reaches what b alone goes into, nor back.
    expected = 3 * 3 + 5 * (4 * 5)
    assert reverse.multiplications == forward.multiplications == expected


# ---- inside jit


def seconds_of(program: Program) -> float:
    found = hooks.seconds_of(program)
    assert found is not None
    return found


def staged(f: Any, x: Any, method: str = "auto") -> Program:
    """What is compiled for the Jacobian, without what nothing uses."""
    x = np.asarray(x)
    J = bs.jacobian(f, method=method)
    return drop_unused(stage(lambda x: [J(x)], [Type(x.shape, x.dtype)])[0])


def executed(f: Any, x: Any, method: str = "auto") -> Work:
    return work_of(staged(f, x, method).equations)


def gathered(x: Any) -> Any:
    return np.sin(x[::3]) * x[1::3] * x[2::3]


@pytest.mark.parametrize("f", [stencil, gathered, lambda x: waves(np.roll(x, 1) + np.roll(x, -3))])
def test_compiled_code_multiplies_each_entry_once(f: Any) -> None:
    x = np.linspace(0.1, 1, 900)
    chosen = executed(f, x)
    assert chosen.multiplications <= 10 * x.size  # as many as the pattern has entries, or so
    for way in ("forward", "reverse"):
        assert executed(f, x, way).multiplications >= 100 * chosen.multiplications
    expected = bs.jacobian(f, method="reverse")(x)
    np.testing.assert_allclose(bs.jit(bs.jacobian(f))(x), expected, rtol=1e-12, atol=1e-12)


def test_compiled_products_of_matrices_begin_at_the_narrow_end() -> None:
    weights = [RNG.normal(size=s) / 20 for s in ((400, 3), (3, 400), (400, 3), (3, 400))]

    def f(x: Any) -> Any:
        for A in reversed(weights):
            x = np.tanh(A @ x)
        return x

    x = np.linspace(0, 1, 400)
    least = 400 * 400 * 3
    assert executed(f, x).inner < 1.5 * least
    for way in ("forward", "reverse"):
        assert executed(f, x, way).inner > 3 * least
    np.testing.assert_allclose(
        bs.jit(bs.jacobian(f))(x), bs.jacobian(f, method="reverse")(x), rtol=1e-9, atol=1e-14
    )


@pytest.mark.parametrize(
    ("f", "x", "way"),
    [
        (lambda x: np.log(np.exp(x).sum()), np.linspace(0, 1, 900), "reverse"),
        (lambda x: np.tanh(W @ np.tanh(W[:, :2] @ x)), np.linspace(0, 1, 2), "forward"),
        (lambda x: np.exp(x) / np.exp(x).sum(), np.linspace(0, 1, 300), "reverse"),
        (lambda x: np.cumsum(np.sin(x)), np.linspace(0, 1, 300), "reverse"),
        (lambda x: np.where(x > 0, np.sqrt(x), np.roll(x, 1)), np.linspace(0, 1, 900), "forward"),
    ],
)
def test_compiled_code_goes_a_plain_way_where_that_is_cheapest(f: Any, x: Any, way: str) -> None:
    assert executed(f, x) == executed(f, x, way)
    np.testing.assert_allclose(
        bs.jit(bs.jacobian(f))(x), bs.jacobian(f, method=way)(x), rtol=1e-12, atol=1e-14
    )


VARIED = [
    (waves, 10),
    (waves, 300),
    (stencil, 10),
    (stencil, 100),
    (gathered, 90),
    (lambda x: np.tanh(W[:10, :10] @ x), 10),
    (lambda x: x + np.sin(W[:26, :26] @ x), 26),
    (lambda x: (np.cumsum(x) - np.cumsum(x).mean()) ** 2, 40),
    (lambda x: waves(x).sum(), 500),
    (lambda x: W @ np.maximum(W @ x, 0.0), 300),  # eye @ W is known
    (lambda x: np.tanh(W[:200, :3] @ np.tanh(W[:3, :200] @ x)), 200),
    (lambda x: np.where(x > 0, np.sqrt(x), np.roll(x, 1)), 60),
]


@pytest.mark.parametrize("k", range(len(VARIED)))
def test_compiled_code_never_takes_more_than_a_plain_way(k: int) -> None:
    f, n = VARIED[k]
    x = np.linspace(0.1, 1, n)
    chosen, *plain = (seconds_of(staged(f, x, way)) for way in ("auto", "forward", "reverse"))
    assert chosen <= min(plain) / 0.97


@pytest.mark.parametrize(
    ("nanoseconds", "way"),
    [  # of reverse, forward and elimination in two orders
        ((40.0, 39.2, 39.0, 39.0), "forward"),
        ((40.0, 39.8, 39.0, 39.0), "reverse"),  # as cheap
        ((40.0, 41.0, 28.0, 60.0), "eliminate"),
        ((40.0, 41.0, 31.0, 60.0), "reverse"),  # what is spared cannot be told at this size
        ((4000.0, 4100.0, 3500.0, 3500.0), "reverse"),  # nor so small a part of it
        ((4000.0, 4100.0, 3300.0, 9000.0), "eliminate"),
        ((4000.0, 4100.0, 9000.0, 3300.0), "eliminate"),
    ],
)
def test_what_is_told_from_prices_by_steps(
    nanoseconds: tuple[float, ...], way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = iter(nanoseconds)
    monkeypatch.setattr(hooks, "seconds_of", lambda program: next(told) * 1e-9)
    taken: list[str] = []
    chosen = auto._by_steps

    def watched(*given: Any) -> Any:
        price = chosen(*given)
        taken.append(price.way)
        return price

    monkeypatch.setattr(auto, "_by_steps", watched)
    staged(lambda x: np.tanh(W[:3, :12] @ x), np.linspace(0, 1, 12))
    assert taken == [way]
    assert next(told, None) is None


def test_inside_of_vmap_the_whole_batch_is_priced(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is best for one example need not be for many; what they share is no batch."""
    priced: list[Program] = []

    def told(program: Program) -> float:
        priced.append(program)
        return 1.0

    monkeypatch.setattr(hooks, "seconds_of", told)
    layer = lambda w, x: np.tanh(w @ x)
    J = bs.vmap(bs.jacobian(layer, argnums=1), in_axes=(None, 0))
    types = [Type((3, 12), np.dtype(float)), Type((50, 12), np.dtype(float))]
    stage(lambda w, x: [J(w, x)], types)
    assert len(priced) >= 2
    for program in priced:
        assert {v.type.shape for v in program.inputs} == {(3, 12), (50, 12)}
        assert [a.type.shape for a in program.outputs] == [(50, 3, 12)]


@pytest.mark.parametrize("wrap", [bs.jit, lambda J: bs.jit(bs.vmap(J))], ids=["alone", "batched"])
def test_what_is_priced_is_what_is_compiled(wrap: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stable forms are recognised in what is recorded aside as they are in what is kept."""
    chosen: list[Any] = []
    original = auto._by_steps
    monkeypatch.setattr(
        auto, "_by_steps", lambda *args: chosen.append(original(*args)) or chosen[-1]
    )

    def f(x: Any) -> Any:
        for _ in range(3):
            e = np.exp(np.sin(x) + x)
            x = e / e.sum()
        return x

    J = wrap(bs.jacobian(f))
    J(RNG.normal(size=(300, 4)) if wrap is not bs.jit else RNG.normal(size=4))
    (special,) = J._known.values()
    seconds = hooks.seconds_of(special.program)
    assert seconds == pytest.approx(chosen[-1].seconds, rel=0.02)


def test_a_layer_is_scaled_once() -> None:
    """W scaled row by row is the Jacobian: back it would be multiplied with a diagonal."""
    f, x = lambda x: np.tanh(W[:40, :40] @ x), np.linspace(0, 1, 40)
    chosen, ahead, back = (executed(f, x, w) for w in ("auto", "forward", "reverse"))
    assert chosen.inner == ahead.inner == 40**2  # of W @ x itself
    assert back.inner == 40**2 + 40**3


@pytest.mark.parametrize("f", [waves, stencil])
def test_few_entries_are_put_on_zeros(f: Any) -> None:
    n = 100
    names = [e.primitive.name for e in staged(f, np.linspace(0, 1, n)).equations]
    assert names.count("scatter_add") == 1
    assert "gather" not in names
    found = counted(rewrite_for_machines(staged(f, np.linspace(0, 1, n)))).counts
    assert 0 < found["scatter"] + found["store apart"] <= 3 * n  # as the pattern has entries
    assert (
        found["single operation"] + found["operation"] < n * n / 10
    )  # nothing goes over the whole matrix


def test_pricing_leaves_nothing_in_what_is_recorded() -> None:
    f = lambda x: np.exp(x) / np.exp(x).sum()
    x = np.linspace(0, 1, 300)
    kinds = [Type(x.shape, x.dtype)]
    lengths = []
    for way in ("auto", "reverse"):
        J = bs.jacobian(f, method=way)
        program = stage(lambda x, J=J: [J(x)], kinds)[0]
        lengths.append(sum(v.type.size > x.size for e in program.equations for v in e.outputs))
    assert lengths[0] == lengths[1]


@pytest.mark.parametrize(
    ("f", "n"),
    [
        (lambda x: np.tanh(W[:2, :5] @ np.tanh(W[:5, :16] @ np.tanh(W[:16, :4] @ x))), 4),
        (lambda x: (W[:5, :5] @ np.reshape(np.tanh(W[:55, :4] @ x), (5, 11))).ravel(), 4),
        (lambda x: (W[:3, :3] @ np.reshape(x[:18] * np.sin(x[18:36]), (3, 6))).ravel(), 37),
    ],
)
def test_sums_along_short_rows_are_seen(f: Any, n: int) -> None:
    """Products with a last axis of 3 or 5 are no vectors: the way without them is taken."""
    x = np.linspace(0.1, 1, n)
    counts = {
        way: counted(rewrite_for_machines(staged(f, x, way))).counts["short sum"]
        for way in ("auto", "forward", "reverse")
    }
    assert counts["auto"] <= min(counts["forward"], counts["reverse"])


def test_jacobians_inside_of_loops_are_priced(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a loop's body reads from around it is an argument of what is priced."""
    priced = []
    original = hooks.seconds_of
    monkeypatch.setattr(
        hooks, "seconds_of", lambda program: priced.append(original(program)) or priced[-1]
    )

    def f(x: Any) -> Any:
        inner = lambda s: bs.jacobian(lambda y: np.tanh(W[:4, :4] @ y) * s[0, 0])(x)
        return bs.fori_loop(0, 3, lambda k, s: s + inner(s), np.ones((4, 4)))

    x = np.linspace(0, 1, 4)
    np.testing.assert_allclose(bs.jit(f)(x), f(x), rtol=1e-12)
    assert len(priced) >= 2
    assert None not in priced


def test_what_has_no_native_form_is_chosen_by_its_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hooks, "seconds_of", lambda program: None)
    x = np.linspace(0, 1, 300)
    one_way = lambda x: np.log(np.exp(x).sum())
    assert executed(one_way, x).multiplications <= executed(one_way, x, "reverse").multiplications
    assert executed(stencil, x).multiplications <= 10 * x.size


def test_chosen_compiled_code_is_differentiated() -> None:
    x = np.linspace(0.1, 1, 400)
    v = np.sin(np.arange(400.0))

    def length(method: str) -> Any:
        return lambda x: ((bs.jacobian(stencil, method=method)(x) @ v) ** 2).sum()

    np.testing.assert_allclose(
        bs.jit(bs.grad(length("auto")))(x), bs.grad(length("reverse"))(x), rtol=1e-9
    )
    np.testing.assert_allclose(bs.grad(bs.jit(length("auto")))(x), bs.grad(length("reverse"))(x))


# ---- one solve for each colour


@pytest.mark.parametrize("wrap", [lambda J: J, bs.jit])
def test_colours_take_as_many_solves(wrap: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seeds = []

    def watched(original: Any) -> Any:
        return lambda system, S: seeds.append(len(S[0])) or original(system, S)

    for name in ("forward_images", "reverse_images"):
        monkeypatch.setattr(compressed, name, watched(getattr(compressed, name)))
    x = np.linspace(0, 1, 50)
    found = wrap(bs.jacobian(stencil, method="colour"))(x)
    assert seeds == [3]
    np.testing.assert_allclose(found, bs.jacobian(stencil, method="reverse")(x))
    assert [p.passes for p in bs.explain_cost(stencil, x).prices if p.way == "colour"] == [3]


def test_colours_of_several_arguments_and_results() -> None:
    def f(x: Any, y: Any) -> Any:
        return x * y[1:], {"sum": x.sum() + y[0], "same": x}

    args = np.linspace(1, 2, 4), np.linspace(2, 3, 5)
    found, expected = (bs.jacobian(f, (0, 1), m)(*args) for m in ("colour", "reverse"))
    for a, b in zip(*[bs.tree.flatten(x)[0] for x in (found, expected)], strict=True):
        np.testing.assert_allclose(a, b)


def test_infinities_behind_zeros_do_not_spread() -> None:
    def f(x: Any) -> Any:
        return np.where(x > 0, np.sqrt(x), 0.0) + np.sqrt(x * x + 1) * np.cos(x)

    x = np.linspace(-1, 1, 801)
    x[400] = 0.0
    with np.errstate(invalid="ignore"):
        J = bs.jacobian(f)(x)
        expected = bs.jacobian(f, method="reverse")(x)
    assert np.isfinite(J).all()
    np.testing.assert_allclose(J, expected)


def test_several_outputs_some_of_them_constant() -> None:
    def f(x: Any) -> Any:
        y = waves(x)
        return y, np.ones(2), y, x

    x = np.linspace(0, 1, 700)
    for a, b in zip(bs.jacobian(f)(x), bs.jacobian(f, method="reverse")(x), strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, atol=1e-12)


def test_the_table() -> None:
    costs = bs.explain_cost(waves, np.linspace(0, 1, 1000))
    lines = str(costs).splitlines()
    assert lines[0].split() == ["way", "multiplications", "bytes", "passes", "chosen"]
    assert lines[1].startswith("eliminate, ")
    assert "✓ in the order" in lines[1]
    assert {p.way for p in costs.prices} == {"forward", "reverse", "eliminate", "colour", "scan"}
    assert [line for line in lines if "✓" in line] == lines[1:2]
    priced = [p.seconds for p in costs.prices[1:]]
    assert priced == sorted(priced)


def test_the_table_says_why_a_way_does_not_apply() -> None:
    def notes(f: Any, x: Any) -> dict[str, str]:
        return {p.way: p.note for p in bs.explain_cost(f, x).prices}

    held = bs.checkpoint(waves)
    x = np.ones(3)
    assert "is not known" in notes(lambda x: held(x) * 2, x)["eliminate"]
    assert "has no blocks" in notes(lambda x: held(x) * 2, x)["colour"]
    assert "too large" in notes(lambda x: held(x) * 2, np.ones(600))["eliminate"]
    assert "100%" in notes(lambda x: x.sum() * x, x)["colour"]
    assert "no recurrence" in notes(waves, x)["scan"]
    step = lambda h, x: 0.5 * h + x
    chain = lambda x: bs.recurrence(step, 0.0, x, method="scan")
    assert "one row" in notes(chain, np.ones(8))["scan"]


def test_orders_that_list_too_much_are_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products of full matrices of which every entry is listed: refused with the reason, and never chosen."""
    monkeypatch.setattr("backsolve.operators.entries.joining._MOST", 100)
    monkeypatch.setattr("backsolve.operators.entries.joining._FEW", 1 << 40)
    at = RNG.permutation(64)
    f = lambda x: np.sin(np.sin(x.ravel()[at]).reshape(8, 8) @ W[:8, :8]).ravel()[at] @ W[:64, :64]
    x = np.linspace(0, 1, 64).reshape(8, 8)
    costs = bs.explain_cost(f, x)
    assert any("single entries" in p.note for p in costs.prices)
    assert costs.prices[0].way in ("forward", "reverse")
    with pytest.raises(bs.errors.UnsupportedError, match="single entries"):
        bs.jacobian(f, method="eliminate", order="forward")(x)


S8 = W[:8, :8] @ W[:8, :8].T + 8 * np.eye(8)


@pytest.mark.parametrize(
    ("f", "x"),
    [
        (lambda b: np.linalg.cholesky(S8 + np.diag(b * b)), np.linspace(0, 1, 8)),
        (lambda b: np.linalg.eigvalsh(S8 + np.outer(b, b)), np.linspace(0, 1, 8)),
        (lambda b: np.linalg.eigh(S8 + np.outer(b, b))[1] ** 2, np.linspace(0, 1, 8)),
        (lambda x: np.maximum(x[:, None], x).sum(1), np.linspace(0, 1, 30)),
        (lambda x: np.tanh(x @ W[:16, :32]) @ W[:32, :32], W[:6, :16]),
    ],
    ids=["cholesky", "values", "vectors", "pairs", "layers"],
)
def test_what_blocks_take_to_be_written_by_entries_is_counted(f: Any, x: Any) -> None:
    """Products inside of blocks, contractions, matrices: eliminating these takes 1.4 to 3.7 times as long."""
    costs = bs.explain_cost(f, x)
    assert costs.prices[0].way in ("forward", "reverse")
    ways = {p.way for p in costs.prices if np.isfinite(p.seconds)}
    assert "eliminate" in ways


def test_contractions_and_matrices_are_counted_where_they_are_written() -> None:
    x = np.linspace(0, 1, 8)
    for f, nests in ((np.sin, 0), (lambda x: W[:8, :8] @ x, 1), (lambda x: (W[:8, :8] @ x) * x, 1)):
        graph = Graph(bs.linearize(f)(x))
        (price, *_) = elimination_prices(graph, ("forward",))
        assert Priced(graph).nests == nests
        without = EAGER._replace(nest=0)
        (less, *_) = elimination_prices(graph, ("forward",), without)
        assert price.seconds - less.seconds == pytest.approx(nests * EAGER.nest, abs=1e-12)


def test_a_plan_for_other_places_may_list_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """Decided for a permutation; that all read a full row is not part of a structure."""
    n = 900
    x = np.linspace(0, 1, n)

    def reading(at: Any) -> Any:
        return lambda x: np.exp(np.concatenate([np.sin(x).sum()[None], x[1:] ** 2])[at] / n)

    with monkeypatch.context() as m:
        m.setattr(auto, "_decided", {})
        bs.jacobian(reading(RNG.permutation(n)))(x)
        assert [p.way for p in auto._decided.values()] == ["eliminate"]
        m.setattr("backsolve.operators.entries.joining._MOST", 10 * n)
        m.setattr("backsolve.operators.entries.joining._FEW", 1 << 40)
        f = reading(np.r_[np.zeros(n - 1, int), 5])
        found = bs.jacobian(f)(x)
        assert len(auto._decided) == 1
        with pytest.raises(bs.errors.UnsupportedError, match="single entries"):
            bs.jacobian(f, method="eliminate")(x)
    np.testing.assert_allclose(found, bs.jacobian(f, method="forward")(x), rtol=1e-12)


def test_a_gaussian_process_is_priced_and_planned_in_little_memory() -> None:
    """Rows of matrices, permuted: products had been listed 400³ at a time."""
    X = RNG.normal(size=(20, 3))
    distances = ((X[:, None] - X) ** 2).sum(-1)

    def loss(h: Any) -> Any:
        K = np.exp(h[0] - distances * np.exp(h[1])) + np.exp(h[2]) * np.eye(20)
        half = np.linalg.solve(np.linalg.cholesky(K), X[:, 0])
        return half @ half + np.log(np.linalg.det(K))

    h = np.array([0.1, -0.2, 0.3])
    tracemalloc.start()
    bs.explain_cost(bs.grad(loss), h)
    sparse = bs.hessian(loss, sparse=True)(h).toarray()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_allclose(sparse, bs.hessian(loss)(h), rtol=1e-8)
    assert peak < 200e6


@pytest.mark.parametrize(
    ("f", "way"), [(waves, "forward"), (lambda x: waves(x).sum(), "reverse")], ids=["square", "one"]
)
def test_sizes_decide_where_a_call_has_no_blocks(f: Any, way: str) -> None:
    """Of as many ahead as back, ahead: there is nothing to store."""
    s = bs.linearize(bs.jit(f))(np.linspace(0, 1, 4))
    assert auto.is_opaque(s.rows)
    outputs = [y for y in s.outputs if y is not None]
    price = auto.choose(
        s.rows, s.parameters, outputs, record=False, is_staged=False, system=lambda: s
    )
    assert price.way == way


def test_sizes_of_parameters_are_part_of_a_structure() -> None:
    """A call has no rows between it and its parameters: only these tell 1 → 1 from 4 → 1."""
    f = bs.jit(lambda x: waves(x).sum())
    for n, way in ((1, "forward"), (4, "reverse"), (1, "forward")):
        s = bs.linearize(f)(np.linspace(0, 1, n))
        outputs = [y for y in s.outputs if y is not None]
        price = auto.choose(
            s.rows, s.parameters, outputs, record=False, is_staged=False, system=lambda s=s: s
        )
        assert price.way == way


def test_what_was_chosen_is_found_again(monkeypatch):
    """By one Jacobian, for rows of the same kinds and shapes: these alone are compared then."""
    asked = []
    real = auto._by_structure
    monkeypatch.setattr(auto, "_by_structure", lambda *given: asked.append(1) or real(*given))
    swap = [False]

    def f(x):
        a, b = np.sin(x), np.cos(x)
        return (b, a)[swap[0]] * a

    J = bs.jacobian(f)
    for n in (5, 5, 6, 5, 6):
        x = np.linspace(0.1, 1.0, n)
        np.testing.assert_allclose(J(x), np.diag(np.cos(2 * x)), atol=1e-15)
    assert len(asked) == 2
    # Other rows are read then: it may be another way's turn, but the numbers are right.
    swap[0] = True
    np.testing.assert_allclose(J(x), np.diag(np.sin(2 * x)), atol=1e-15)
