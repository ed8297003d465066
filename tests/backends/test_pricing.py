"""What a Program takes, told from its steps."""

from __future__ import annotations

import platform
from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve.backends.native import pricing, rates
from backsolve.backends.native.compile import scheduled
from backsolve.backends.native.elementwise import LONG
from backsolve.backends.native.lattice_products import LatticeProduct
from backsolve.backends.native.nests import MOST_ROUNDS, TINY, TOGETHER, has_masks, lanes
from backsolve.backends.native.pricing import (
    ROUNDS,
    _pieces,
    counted,
    seconds_of,
)
from backsolve.backends.native.rates import FUNCTIONS, RATES
from backsolve.backends.native.support import Unsupported
from backsolve.backends.native.tiles import registers
from backsolve.backends.native.tiling import Pack
from backsolve.hooks import hooks
from backsolve.ir import Program, Type
from backsolve.rewrite import rewrite_for_machines
from backsolve.trace import stage

FLOAT = np.dtype(float)
W = np.random.default_rng(0).normal(size=(64, 64))


def program(f: Any, *shapes: tuple[int, ...], dtype: Any = FLOAT) -> Program:
    kinds = [Type(shape, np.dtype(dtype)) for shape in shapes]
    return rewrite_for_machines(stage(lambda *x: [f(*x)], kinds)[0])


def counts(f: Any, *shapes: tuple[int, ...]) -> Any:
    return counted(program(f, *shapes)).counts


def price(f: Any, *shapes: tuple[int, ...]) -> float:
    return seconds_of(program(f, *shapes))


def test_a_fused_loop_is_counted_once() -> None:
    width = lanes(FLOAT)
    found = counts(lambda x: np.exp(x) * 2 + 1, (5 * width + 1,))
    assert found["step"] == 1
    assert found["function"] == found["load"] == found["store"] == 5
    assert found["operation"] == 10
    assert found["single function"] == found["single store"] == 1  # what is left over
    assert found["row"] == 0


def test_what_does_not_lie_side_by_side_is_seen() -> None:
    found = counts(lambda x: np.transpose(np.exp(x)), (24, 40))
    assert found["load apart"] + found["store apart"] == 24 * 40
    assert counts(np.exp, (24, 40))["load apart"] == 0


def test_what_does_not_change_along_rows_is_done_once_a_row() -> None:
    found = counts(lambda x, y: x[:, None] * y, (7,), (64 * lanes(FLOAT),))
    assert found["row"] == 7
    assert found["single load"] == 7
    assert found["load"] == found["store"] == found["operation"] == 7 * 64


def test_sums_in_memory_along_rows_that_are_no_vectors() -> None:
    """Shorter ones are written out; where vectors are no longer than these, there are none."""
    single, added = np.dtype(np.float32), lambda x: (x * x).sum(0)
    width = lanes(single)
    short, whole = (program(added, (90, n), dtype=single) for n in (width - 1, width))
    is_short = width - 1 > MOST_ROUNDS
    assert counted(short).counts["short sum"] == (90 * (width - 1) if is_short else 0)
    assert counted(whole).counts["short sum"] == 0
    if is_short:
        assert seconds_of(short) > seconds_of(whole)


def test_ends_of_short_rows_are_masked_vectors() -> None:
    width = lanes(FLOAT)
    product = lambda x, y: x * y
    found = counts(product, (50, 13), (13,))
    if has_masks():
        assert found["masked"] == found["operation"] == 50 * -(-13 // width)
        assert found["single operation"] == 0
    else:
        assert found["masked"] == 0
        assert found["operation"] == 50 * (13 // width)
        assert found["single operation"] == 50 * (13 % width)
    assert counts(product, (50, 8), (8,))["masked"] == 0
    assert counts(product, (50, TINY + width + 1), (TINY + width + 1,))["single operation"] == 50


def test_a_product_that_is_only_added_is_a_factor_of_the_sum() -> None:
    shape = (64 * lanes(FLOAT),)
    found = counts(lambda x, y: x * y + y, shape, shape)
    assert found["factor"] == found["operation"] == 64
    found = counts(lambda x, y: (x * y) * (x * y + y), shape, shape)  # read twice
    assert found["factor"] == 0
    assert found["operation"] == 3 * 64
    assert counts(lambda x, y: x * y - x * x, shape, shape)["factor"] == 64  # one of the two
    assert counts(lambda x, y: (x * y).sum(), shape, shape)["factor"] == 64
    assert counts(lambda x: x * 3.0 + 2.0, shape)["factor"] == 0  # a number would be copied first


def test_zeros_that_are_added_again_are_left_out() -> None:
    shape = (64 * lanes(FLOAT),)
    f = lambda x, y: ((x - y) + 0.0) + 0.0
    assert counts(f, shape, shape)["operation"] == 2 * 64
    text = str(bs.jit(f).lower(np.ones(shape), np.ones(shape)).stages["llvm"])
    assert text.count(" fadd ") == text.count(" fsub ") > 0  # so does LLVM


def test_rows_that_lie_across_many_pages() -> None:
    turned = lambda x, y: x.T + y
    what = "load across pages"
    assert counts(turned, (700, 701), (701, 700))[what] == 700 * 701
    assert 0.3 < counts(turned, (250, 251), (251, 250))[what] / (250 * 251) < 0.6  # 1.5 MB
    assert counts(turned, (200, 201), (201, 200))[what] == 0  # all of it stays near
    assert counts(lambda x: x.T + 1.0, (250, 251))[what] == 0
    assert counts(lambda x: x.T.copy(), (700, 701))[what] == 0  # of loads alone many are under way
    assert counts(lambda x, y: x + y, (700, 701), (700, 701))[what] == 0
    few = lambda x: np.swapaxes(x, 1, 2) + 1.0
    assert counts(few, (1000, 30, 31))[what] == 0  # a row is over soon


@pytest.mark.parametrize(
    ("n", "is_crowded"),
    # Of 256 places for four lines each, rows of 1,024 bytes come to 16, of 1,280 to 64, of 1,040 to all.
    [(128, True), (130, False), (160, False), (192, True), (352, True), (368, False), (1101, True)],
)
def test_lines_that_push_each_other_out(n: int, is_crowded: bool) -> None:
    assert counts(lambda x: x.T + 1.0, (n, n))["load from few sets"] == is_crowded * n * n
    assert counts(lambda x: x + 1.0, (n, n))["load from few sets"] == 0


def test_numbers_of_one_line_are_read_together() -> None:
    every_other = counts(lambda x: x[::2] + 1.0, (1 << 20,))
    assert every_other["load apart"] == 1 << 19
    assert every_other["load from few sets"] == every_other["load across pages"] == 0
    apart = counts(lambda x: x[::64] + 1.0, (1 << 20,))
    assert apart["load from few sets"] == apart["load across pages"] == 1 << 14


def test_rates_are_of_the_family_of_the_processor() -> None:
    is_arm = platform.machine() in ("aarch64", "arm64")
    assert {what: seconds[is_arm] for what, seconds in rates._RATES.items()} == RATES
    assert all(len(seconds) == 2 and min(seconds) >= 0 for seconds in rates._RATES.values())


def test_a_chain_waits_for_itself() -> None:
    """Forty sums of products, one after the other or pair by pair."""

    def chain(x: Any, y: Any) -> Any:
        for _ in range(40):
            x = x * y + y
        return x

    def pairs(x: Any, y: Any) -> Any:
        parts = [(x + float(k)) * y for k in range(40)]
        while len(parts) > 1:
            odd = parts[-1:] if len(parts) % 2 else []
            parts = [a + b for a, b in zip(parts[::2], parts[1::2], strict=False)] + odd
        return parts[0]

    short, long = (12 * lanes(FLOAT),), (120 * lanes(FLOAT),)
    waited = counts(chain, short, short)["waited"]
    assert waited > 5 * counts(pairs, short, short)["waited"]
    assert waited < 12 * 80  # of 80 statements several rounds are at work
    # Four vectors side by side wait half as long each.
    machine = registers()
    share = 0.5 if machine is not None and machine.by_lane else 1.0
    assert counts(chain, long, long)["waited"] == pytest.approx(10 * share * waited)


def test_terms_of_tiles_wait_for_each_other() -> None:
    found = counts(lambda a, b: a @ b, (2, 448), (448, 6))
    if found["tile"]:
        assert found["term of a tile"] == 448 * found["tile"]


def test_panels_and_tiles_that_do_not_fill_their_vectors() -> None:
    product = program(lambda a, b: a @ b.T, (32, 64), (45, 64))
    found, machine = counted(product).counts, registers()
    if any(isinstance(step, Pack) for step in scheduled(product)[0].steps):
        assert found["packed"] == 64 * 45
    if found["tile"] and machine is not None:
        whole = 0 if machine.masks else -(-32 // machine.rows)
        assert found["tile in part"] == whole
    assert counts(lambda a, b: a @ b, (32, 64), (64, 48))["tile in part"] == 0


def test_large_products_pack_their_matrices() -> None:
    found = counts(lambda a, b: a @ b, (512, 512), (512, 512))
    assert found["by BLAS"] or found["load apart"] >= 512 * 512


def test_products_by_blas_with_a_matrix_in_columns() -> None:
    found = counts(lambda a, b: a @ b.T, (2, 448), (49, 448))
    assert found["turned by BLAS"] == 2 * 49 * found["by BLAS"]
    assert counts(lambda a, b: a @ b, (2, 448), (448, 49))["turned by BLAS"] == 0


def test_a_scan_along_lines_waits_and_one_across_does_not() -> None:
    along, across = (counts(lambda a, k=k: np.cumsum(a, k), (200, 200)) for k in (1, 0))
    assert along["waiting"] == across["running"] == 200 * 200
    assert RATES["waiting"] > 2 * RATES["running"]


def test_what_is_swept_in_parts_is_stored_at_hand() -> None:
    softmax = lambda x: np.exp(x) / np.sum(np.exp(x), -1, keepdims=True)
    swept, whole = counts(softmax, (5000, 40)), counts(softmax, (4, 40))
    assert swept["store at hand"] == swept["store"] == 5000 * 40 / lanes(FLOAT)
    assert whole["store at hand"] == 0


def test_entries_that_are_added_to_the_same_place_wait_for_each_other() -> None:
    def added(at: Any) -> Any:
        return bs.grad(lambda x: np.sin(x[at]).sum())

    at = np.repeat(np.arange(50), 8)
    found = counts(added(at), (100,))
    assert found["scatter"] == 400
    assert found["same place"] == 350
    assert counts(added(np.tile(np.arange(50), 8)), (100,))["same place"] == 0
    assert found["cleared"] == 100 / lanes(FLOAT)


@pytest.mark.parametrize(
    ("less", "more", "shape"),
    [
        (lambda x: x + 1, lambda x: np.sin(x) + 1, (100,)),
        (lambda x: x + 1, lambda x: np.transpose(x) + 1, (60, 60)),
        (lambda x: x @ W, lambda x: np.tanh(x @ W) @ W, (64, 64)),
        (lambda x: x.sum(), lambda x: np.cumsum(x), (500,)),
        (lambda x: x * 2, lambda x: x[np.arange(300)[::-1] ** 2 % 300] * 2, (300,)),
        (lambda x: np.exp(x), lambda x: np.linalg.inv(np.exp(x)), (20, 20)),
        (lambda x: np.exp(x).sum(), lambda x: np.exp(x) / np.exp(x).sum(1)[:, None], (900, 900)),
    ],
)
def test_more_work_has_a_higher_price(less: Any, more: Any, shape: tuple[int, ...]) -> None:
    assert 0 < price(less, shape) < price(more, shape)


def test_a_price_is_the_same_each_time() -> None:
    f = lambda x: np.exp(x) / np.exp(x).sum(1)[:, None] @ W
    assert len({price(f, (300, 64)) for _ in range(3)}) == 1


def test_what_has_no_native_form() -> None:
    half = program(lambda x: x + x, (3,), dtype=np.longdouble)
    with pytest.raises(Unsupported):
        seconds_of(half)
    assert hooks.seconds_of(half) is None


def settled(x: Any) -> Any:
    return bs.while_loop(lambda y: np.max(np.abs(np.cos(y) - y)) > 1e-10, np.cos, x)


def root_of(x: Any) -> Any:
    return bs.while_loop(lambda y: abs(y * y - x) > 1e-12, lambda y: (y + x / y) / 2, x)


def test_a_loop_of_unknown_length_is_priced_as_some_tens_of_rounds() -> None:
    again = lambda n: lambda x: bs.fori_loop(0, n, lambda k, y: np.cos(y), x)
    for shape in ((1000,), ()):
        f = settled if shape else root_of
        assert price(again(3), *[shape]) < price(f, shape) < price(again(300), shape)
    a_round = 2 * price(np.cos, (1000,))  # in its test, too
    assert price(settled, (1000,)) == pytest.approx(ROUNDS * a_round, rel=0.1)


def test_a_call_is_no_part_of_a_price() -> None:
    """It takes the same for every Program: beside it, small ones would all seem to be as cheap."""
    assert price(lambda x: x + 1, (1,)) < 5e-9


def test_a_branch_is_priced_as_the_longest_of_its_ways() -> None:
    either = lambda x: bs.cond(x[0] > 0, settled, lambda x: x + 1, x)
    assert price(either, (1000,)) == pytest.approx(price(settled, (1000,)), rel=0.1)


def test_lines_that_a_round_uses_up_are_read_together() -> None:
    """All eight columns of a matrix in one loop down its rows, or one of them alone."""
    added = lambda x: sum(x[:, k] * float(k + 2) for k in range(8))
    found = counts(added, (500, 8))
    assert found["load together"] == 8 * 500
    assert found["load apart"] == 0
    assert counts(lambda x: x[:, 3] * 2.0, (500, 8))["load apart"] == 500


def test_lines_that_are_written_in_part() -> None:
    """All columns of a matrix, or one: each comes to every line of it, unless those are in the first cache."""

    def columns(n: int) -> Any:
        return lambda x: np.stack([x * float(k + 2) for k in range(n)], 1)

    few, many = (counts(columns(n), (4000,)) for n in (4, 20))
    assert (few["store apart"], many["store apart"]) == (4 * 4000, 20 * 4000)
    assert (few["line stored"], many["line stored"]) == (4000 / 2, 20 * 4000 / 8)
    assert counts(columns(4), (40,))["line stored"] == 0
    one = counts(lambda x: x[:, 3] * 2.0, (4000, 20))
    assert one["line loaded"] == 4000  # not one for a number and a half


def test_rows_that_are_put_together_from_columns() -> None:
    """LLVM turns up to eight vectors in registers; of more each number is taken out of its vector."""

    def rows(*columns: Any) -> Any:
        return np.stack([c * c for c in columns], 1)

    assert counts(rows, *[(400,)] * 8)["store from columns"] == 0
    assert counts(rows, *[(400,)] * 9)["store from columns"] == 9 * 400


def test_short_rows_are_written_out() -> None:
    """A thousand points in the plane are one loop over the points."""
    turned = np.array([[0.6, -0.8], [0.8, 0.6]])
    width = lanes(FLOAT)
    found = counts(lambda x, y: x * y + turned[0], (160 * width, 2), (160 * width, 2))
    assert found["operation"] + found["factor"] == 2 * 2 * 160
    assert found["load apart"] == 2 * 2 * 160 * width
    assert found["store apart"] == 2 * 160 * width
    assert found["row"] == found["masked"] == found["single operation"] == 0
    by_lines = counts(
        lambda x, y: x[:, :, None] * y[:, None, :], (160 * width, 2), (160 * width, 3)
    )
    assert by_lines["operation"] == 6 * 160
    assert by_lines["load apart"] == (2 + 3) * 160 * width  # each once
    summed = counts(lambda x, y: (x * y).sum(1), (160 * width, 3), (160 * width, 3))
    assert summed["operation"] == summed["factor"] == 3 * 160
    assert summed["total"] == summed["short sum"] == 0


def test_gaps_between_what_is_stored() -> None:
    def placed(x: Any) -> Any:
        y = bs.tensor(np.zeros((400, 4)))
        y[:, 1] = x
        return y

    assert counts(placed, (400,))["store with gaps"] == 400


def test_gathers_from_other_lines_of_a_large_array() -> None:
    at = np.random.default_rng(3).permutation(40)[:29]
    taken = lambda x: np.transpose(x[:, at]) * 2.0
    assert counts(taken, (6000, 40))["gather far apart"] == 6000 * 29
    assert counts(taken, (60, 40))["gather far apart"] == 0


def test_a_small_array_comes_from_afar_once() -> None:
    """A mask of 40 × 40 for each of 1,000 points stays in the first cache, through all slices of a sweep."""
    mask = np.random.default_rng(1).random((40, 40))

    def softmax(x: Any) -> Any:
        powers = np.exp(x[:, :, None] * mask)
        return powers / powers.sum(-1, keepdims=True)

    found = counts(softmax, (1000, 40))
    vectors = 1000 * 40 * 40 / lanes(FLOAT)
    assert found["store at hand"] > 0.9 * vectors  # a sweep
    assert found["written near"] == found["written far"] == found["written farther"] == vectors
    assert found["near"] < 0.05 * vectors


def test_operands_that_are_no_matrices_are_put_into_panels() -> None:
    """The second axis of a batch is multiplied: its columns lie apart."""
    b = np.random.default_rng(2).random((5, 5))
    product = program(lambda x: np.einsum("ij,njk->nik", b, x), (1000, 5, 125))
    placed = counted(product).counts["placed"]
    if any(isinstance(step, LatticeProduct) for step in scheduled(product)[0].steps):
        assert placed == 5 * 125_000  # a number at a time: lines of 5 fill no vector
    else:  # the array is turned before it is multiplied
        assert placed == 0


def test_narrow_products_by_blas_cost_more_for_each_multiplication() -> None:
    narrow, wide = (counts(lambda a, b: a @ b.T, (200, 90), (n, 90)) for n in (4, 64))
    if narrow["by BLAS"]:
        assert narrow["narrow by BLAS"] == 200 * 90
    assert wide["narrow by BLAS"] == 0
    assert [_pieces(n) for n in (1, 3, 4, 7, 8, 11, 15, 16, 40)] == [1, 2, 1, 3, 1, 3, 4, 0, 0]


def test_functions_differ_and_a_sine_and_its_cosine_share_their_work() -> None:
    shape = (64 * lanes(FLOAT),)
    assert counts(np.exp, shape)["function"] == 64
    assert counts(np.arctan2, shape, shape)["function"] == pytest.approx(64 * FUNCTIONS["arctan2"])
    one = counts(np.sin, shape)["function"]
    both = counts(lambda x: np.sin(x) + np.cos(x), shape)["function"]
    apart = counts(lambda x, y: np.sin(x) + np.cos(y), shape, shape)["function"]
    assert one < both < apart == pytest.approx(2 * one)
    assert FUNCTIONS.keys() <= LONG


def test_rows_that_are_summed_up_together_are_moved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    small = W[:16, :16]
    sums = lambda v: np.maximum(v[:, :, None], small).sum(1)  # no product, which tiles would take
    found = {}
    for is_arm in (True, False):
        monkeypatch.setattr(pricing, "IS_ARM", is_arm)
        found[is_arm] = counts(sums, (2, 16))
    for what in ("store", "row", "row added"):
        assert 0 < TOGETHER * found[True][what] == found[False][what]
    moved = {is_arm: each["load"] for is_arm, each in found.items()}
    once = found[False]["store"]  # what is added to; the matrix is read in each round
    assert moved[False] - moved[True] == once - once / TOGETHER


def few(v: Any) -> Any:
    return (v[:, :4, None] * W[:4, :16]).sum(1)


def guarded(v: Any) -> Any:
    return np.where(v[:, :, None] > 0, W[:16, :64], 0.0).sum(1)


def functions(v: Any) -> Any:
    return np.sqrt(v[:, :, None] * W[:16, :16]).sum(1)


def not_shared(v: Any) -> Any:
    return (v * v[::-1]).sum(1)


def rows_of_three(v: Any) -> Any:
    return (v[:, :, None] * W[:16, :3]).sum(1)


@pytest.mark.parametrize("f", [few, guarded, functions, not_shared, rows_of_three])
def test_other_rows_are_moved_one_by_one(f: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for is_arm in (True, False):
        monkeypatch.setattr(pricing, "IS_ARM", is_arm)
        found.append(counts(f, (32, 16)))
    assert found[0] == found[1]


def test_a_cube_is_two_products() -> None:
    shape = (64 * lanes(FLOAT),)
    cube = counts(lambda x: x**3, shape)
    assert (cube["operation"], cube["function"]) == (2 * 64, 0)
    assert counts(lambda x: x**3.5, shape)["function"] == pytest.approx(64 * FUNCTIONS["power"])


def test_functions_of_functions_wait_for_each_other() -> None:
    shape = (12 * lanes(FLOAT),)
    chain = counts(lambda x: np.exp(np.tanh(np.exp(-x))), shape)["waited"]
    aside = counts(lambda x: np.exp(x) + np.tanh(x) + np.exp(-x), shape)["waited"]
    assert chain > 2 * aside
    assert aside > 20 * counts(lambda x: x * 2 + 1, shape)["waited"]


def test_a_product_in_tiles_begins_late() -> None:
    found = counts(lambda a, b: a @ b, (2, 448), (448, 6))
    assert found["by tiles"] == (1 if found["tile"] else 0)


def test_a_scan_of_large_arrays_waits_for_memory() -> None:
    running = lambda x: np.cumsum(x, -1)
    assert counts(running, (1000, 40, 40))["waiting far"] == 1000 * 40 * 40
    assert counts(running, (100, 40, 40))["waiting far"] == 0
