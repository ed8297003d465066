"""Tables of rules by the names of rows, filled by decorators where the rules stand."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Rule = TypeVar("Rule")


class Table(dict[str, Rule]):
    """
    >>> rules: Table[Callable[[float], float]] = Table()
    >>> @rules.row("square", "power of two")
    ... def square(x: float) -> float:
    ...     return x * x
    >>> rules["square"](3.0), sorted(rules)
    (9.0, ['power of two', 'square'])
    """

    def row(self, *names: str) -> Callable[[Rule], Rule]:
        """Enter a rule under these names, each of which has one."""

        def enter(rule: Rule) -> Rule:
            for name in names:
                assert name not in self, name
                self[name] = rule
            return rule

        return enter
