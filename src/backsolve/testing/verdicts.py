"""What grad_report found: entries, each with its verdict, and the report as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .smoothness import Roughness

_LINES = 20  # entries that are printed


@dataclass(frozen=True)
class Entry:
    """A derivative of `output` by `input`: by differences, as computed, and how far they may be apart."""

    chain: tuple[str, ...]  # what was differentiated before, the first derivative last
    mode: str
    output: str
    input: str
    expected: float
    got: float
    allowed: float
    flaw: Roughness | None

    @property
    def order(self) -> int:
        return len(self.chain) + 1

    @property
    def way(self) -> str:
        return " over ".join([self.mode, *self.chain])

    @property
    def error(self) -> float:
        return abs(self.got - self.expected)

    @property
    def ratio(self) -> float:
        """The error beside what differences and rounding allow: above 1 it is one."""
        if not np.isfinite(self.got):
            return np.inf
        return self.error / self.allowed if self.allowed else np.inf if self.error else 0.0

    @property
    def is_wrong(self) -> bool:
        """Off by more than may be; at a kink, outside of its two slopes. Jumps and edges have no truth."""
        if self.flaw is None:
            return not self.ratio <= 1
        if self.flaw.kind != "kink":
            return False
        low, high = sorted((self.flaw.left, self.flaw.right))
        slack = 1e-6 * max(abs(low), abs(high))
        return not low - slack <= self.got <= high + slack

    def __str__(self) -> str:
        if self.flaw is None:
            return (
                f"{self.output} by {self.input}: expected {self.expected:.10g}, got {self.got:.10g}"
            )
        left, right = self.flaw.left, self.flaw.right
        why = {
            "kink": f"a kink, slope {left:.6g} on the left and {right:.6g} on the right",
            "jump": "a jump: there is no derivative",
            "edge": "the edge of its domain, beyond which it is not finite",
        }[self.flaw.kind]
        return f"{self.output} by {self.input}: {why}; {self.way} mode takes {self.got:.6g}"


@dataclass(frozen=True)
class Report:
    entries: tuple[Entry, ...]

    @property
    def is_right(self) -> bool:
        return not self.wrong

    @cached_property
    def wrong(self) -> list[Entry]:
        """The worst first."""
        found = [e for e in self.entries if e.is_wrong]
        return sorted(found, key=lambda e: (e.order, -np.nan_to_num(e.ratio, nan=np.inf)))

    @cached_property
    def rough(self) -> list[Entry]:
        """Where the function is not smooth, told once for all modes."""
        found = {(e.chain, e.output, e.input): e for e in reversed(self.entries) if e.flaw}
        return list(reversed(found.values()))

    def __str__(self) -> str:
        blocks = [_summary(self)]
        if self.wrong:
            hint = _hint(self.wrong)
            blocks.append("wrong:\n" + _table(self.wrong) + (f"\n{hint}" if hint else ""))
        if self.rough:
            lines = [f"  {e}" for e in self.rough[:_LINES]]
            blocks.append("\n".join(["not smooth at this point:", *lines, *_more(self.rough)]))
        return "\n\n".join(blocks)


def _summary(report: Report) -> str:
    lines = []
    for order, way in dict.fromkeys((e.order, e.way) for e in report.entries):
        those = [e for e in report.entries if (e.order, e.way) == (order, way)]
        smooth = [e for e in those if e.flaw is None]
        right = sum(not e.is_wrong for e in smooth)
        rough = len(those) - len(smooth)
        worst = max((e.ratio for e in smooth), default=0.0)
        lines.append(
            f"{'✓' if not any(e.is_wrong for e in those) else '✗'} order {order}, {way}: "
            f"{right:,} of {len(smooth):,} agree with differences"
            + (f", {rough:,} not smooth" if rough else "")
            + (f"; largest error {worst:.2g} of what is allowed" if smooth else "")
        )
    return "\n".join(lines)


def _table(entries: Sequence[Entry]) -> str:
    lines = [("mode", "of", "by", "differences", "got", "error", "beside allowed")]
    for e in entries[:_LINES]:
        lines.append(
            (e.way, e.output, e.input, f"{e.expected:.10g}", f"{e.got:.10g}", f"{e.error:.1e}",
             f"{e.ratio:.1e} ×")
        )  # fmt: skip
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    rows = [
        "  " + "  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]
    return "\n".join([*rows, *_more(entries)])


def _more(entries: Sequence[Entry]) -> list[str]:
    return [f"  … {len(entries) - _LINES:,} more"] if len(entries) > _LINES else []


def _hint(wrong: Sequence[Entry]) -> str:
    """What the numbers look like, if all look the same."""
    first = [e for e in wrong if e.order == wrong[0].order and e.expected]
    if not first:
        return ""
    if all(e.got == 0 for e in first):
        return (
            "These are 0 although the function varies: was a value taken out of the program "
            "(stop_gradient, .value, a derivative written by hand)?"
        )
    shares = np.array([e.got / e.expected for e in first])
    if len(set(np.round(shares, 4))) == 1 and np.all(np.isfinite(shares)):
        of = "They have the wrong sign." if np.allclose(shares, -1, rtol=1e-4) else ""
        if len(first) > 1 or of:
            return of or f"All are {shares[0]:.5g} times what differences say."
    return ""
