"""grad_report: right derivatives pass, wrong ones are found and named, rough points are told apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve.testing import grad_report

X = np.array([0.5, -1.5, 2.0])


def by_hand(forward: Any, slope: Any) -> Any:
    """A function whose derivative is what somebody wrote."""

    class Hand(bs.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return forward(x)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            return slope(x) * g

    return Hand.apply


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.sin(x) * x,
        lambda x: np.sum(np.conj(x) * x),
        lambda x: x[:, None] @ x[None, :],
        lambda x: np.sum(np.abs(x) ** 2) / 3,
    ],
)
def test_right_derivatives_pass(f: Any, dtype: str) -> None:
    report = grad_report(f, [X.astype(dtype)], order=2)
    assert report.is_right, str(report)
    assert not report.rough


@pytest.mark.parametrize(
    ("f", "x"),
    [
        (lambda x: (1 - np.cos(x)) / x**2, 1e-3),  # cancels
        (lambda x: np.log(x), 1e-9),
        (lambda x: np.exp(x), 300.0),
        (lambda x: 1e-20 * np.sin(x), 1.0),
        (lambda x: np.sin(x), 1e6),
        (lambda x: np.abs(x) ** 1.5, 1e-3),
        (lambda x: np.abs(x), 1e-3),
        (lambda x: np.sum(np.linalg.inv(np.array([[1.0, 1.0], [1.0, 1.0]]) + x * np.eye(2))), 1e-4),
    ],
)
def test_hard_but_right_ones_pass(f: Any, x: float) -> None:
    report = grad_report(f, [x])
    assert report.is_right, str(report)
    assert not report.rough


@pytest.mark.parametrize("off", [1e-6, 0.01, -2.0])
def test_a_wrong_entry_is_found(off: float) -> None:
    """The derivative by the second entry alone is off."""
    wrong = by_hand(np.sin, lambda x: np.cos(x) * (1 + off))

    def f(p: Any) -> Any:
        return np.sum(p["w"] ** 2) + wrong(p["w"][1])

    report = grad_report(f, [{"w": X, "n": 3}], names=["p"])
    assert not report.is_right
    assert {(e.mode, e.input) for e in report.wrong} == {
        ("forward", "p['w'][1]"),
        ("reverse", "p['w'][1]"),
    }
    entry = report.wrong[0]
    assert entry.expected == pytest.approx(2 * X[1] + np.cos(X[1]), rel=1e-9)
    assert entry.got == pytest.approx(2 * X[1] + np.cos(X[1]) * (1 + off))
    assert entry.ratio > 1
    assert "✗ order 1, forward: 2 of 3 agree" in str(report)
    assert "p['w'][1]" in str(report)


def test_a_wrong_result_is_named() -> None:
    wrong = by_hand(np.sin, lambda x: 2 * np.cos(x))
    report = grad_report(lambda x: (x**2, np.stack([x[0], wrong(x[1])])), [X])
    assert {(e.output, e.input) for e in report.wrong} == {("result 1[1]", "0[1]")}


def test_only_one_mode_may_be_wrong() -> None:
    class Half(bs.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return np.sin(x)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return 0.5 * np.cos(ctx.saved_tensors[0]) * g

        @staticmethod
        def jvp(ctx: Any, t: Any) -> Any:
            return np.cos(ctx.saved_tensors[0]) * t

    report = grad_report(Half.apply, [X])
    assert {e.mode for e in report.wrong} == {"reverse"}
    assert "All are 0.5 times what differences say." in str(report)
    assert grad_report(Half.apply, [X], modes=["forward"]).is_right


def test_second_derivatives_that_are_lost_are_found() -> None:
    lost = by_hand(np.sin, lambda x: bs.stop_gradient(np.cos(x)))
    assert grad_report(lost, [0.7]).is_right
    report = grad_report(lost, [0.7], order=2)
    assert {e.order for e in report.wrong} == {2}
    assert {e.way for e in report.wrong} == {
        *("forward over forward", "reverse over forward"),
        *("forward over reverse", "reverse over reverse"),
    }
    assert "These are 0 although the function varies" in str(report)


def test_a_lost_sign_is_told() -> None:
    assert "wrong sign" in str(grad_report(by_hand(np.sin, lambda x: -np.cos(x)), [0.7]))


def test_in_a_large_argument_the_culprit_is_found_by_halving() -> None:
    wrong = by_hand(np.sin, lambda x: 2 * np.cos(x))
    x = np.linspace(0.1, 1.0, 5000)
    report = grad_report(lambda x: np.sum(x**2) + wrong(x[3217]), [x], most=4)
    assert {e.input for e in report.wrong} == {"0[3217]"}
    assert len(report.entries) < 30


def test_a_long_sum_hides_no_small_error() -> None:
    """A bound of its rounding would: it grows with the number of terms."""
    wrong = by_hand(np.sin, lambda x: 1.0001 * np.cos(x))
    x = np.linspace(0.1, 1.0, 100_000)
    report = grad_report(lambda x: np.sum(wrong(x)), [x], most=3)
    assert not report.is_right
    assert len({e.input for e in report.wrong}) >= 3
    assert grad_report(lambda x: np.sum(np.sin(x)), [x], most=3).is_right


def test_every_entry_on_demand() -> None:
    x = np.linspace(0.1, 1.0, 100)
    assert len(grad_report(np.sum, [x], most=None, modes=["reverse"]).entries) == 100


def test_many_results_are_checked_by_a_weighted_sum() -> None:
    report = grad_report(lambda x: np.outer(x, np.arange(20.0)), [X])
    assert report.is_right
    assert {e.output for e in report.entries} == {"a weighted sum of the 60 results"}


@pytest.mark.parametrize(
    ("f", "x", "kind", "is_right"),
    [
        (np.abs, 0.0, "kink", True),
        (lambda x: np.maximum(x, 0.0), 0.0, "kink", True),
        (lambda x: np.maximum(x, 0.0) * 1e-12, 0.0, "kink", True),
        (by_hand(np.abs, lambda x: 0 * x + 3.0), 0.0, "kink", False),
        (np.round, 0.5, "jump", True),
        (np.sqrt, 0.0, "edge", True),
        (np.log, 0.0, None, None),
    ],
)
def test_rough_points_are_named(f: Any, x: float, kind: str | None, is_right: bool | None) -> None:
    with np.errstate(all="ignore"):
        if kind is None:
            with pytest.raises(ValueError, match="not finite"):
                grad_report(f, [x])
            return
        report = grad_report(f, [x])
    assert [e.flaw.kind for e in report.rough if e.flaw] == [kind]
    assert report.is_right == is_right


def test_slopes_of_a_kink() -> None:
    (entry,) = grad_report(lambda x: np.where(x > 1, 3 * x, x + 2), [1.0]).rough
    assert entry.flaw is not None
    assert entry.flaw.left == pytest.approx(1)
    assert entry.flaw.right == pytest.approx(3)


def test_what_cannot_be_checked() -> None:
    with pytest.raises(ValueError, match="nothing varies"):
        grad_report(lambda n: n * 2.0, [3])
    with pytest.raises(ValueError, match="no floating-point number"):
        grad_report(lambda x: x > 0, [3.0])
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="other numbers when it is called again"):
        grad_report(lambda x: x * rng.normal(), [3.0])


def test_progress_is_told() -> None:
    seen: list[tuple[int, int]] = []
    grad_report(np.sum, [X], progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 3), (2, 3), (3, 3)]
