"""History: what was measured after each epoch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..hooks import hooks


class History:
    """Rows, one an epoch, each a dict; `history["loss"]` is a column.

    >>> history = History([{"epoch": 1, "loss": 0.5}, {"epoch": 2, "loss": 0.25, "val_loss": 0.3}])
    >>> history["loss"]
    [0.5, 0.25]
    >>> history.best("loss")
    {'epoch': 2, 'loss': 0.25, 'val_loss': 0.3}
    >>> print(history)
    epoch    loss  val_loss
        1     0.5
        2    0.25       0.3
    """

    def __init__(self, rows: list[dict[str, Any]] | None = None):
        self.rows = rows if rows is not None else []

    def __getitem__(self, name: str) -> list[Any]:
        if name not in self.names:
            raise KeyError(f"nothing is called {name!r}; measured were {', '.join(self.names)}")
        return [row[name] for row in self.rows if name in row]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def names(self) -> list[str]:
        """Columns, in the order in which they came up."""
        return list(dict.fromkeys(name for row in self.rows for name in row))

    @property
    def last(self) -> dict[str, Any]:
        """The latest row; empty before the first."""
        return dict(self.rows[-1]) if self.rows else {}

    def best(self, name: str) -> dict[str, Any]:
        """The first row with the best value of a column."""
        self[name]
        better = max if is_higher_better(name) else min
        return dict(better((r for r in self.rows if name in r), key=lambda r: r[name]))

    def cells(self) -> list[list[str]]:
        """The table that is printed, its head first."""
        names = self.names
        return [names, *[[_text(row.get(name)) for name in names] for row in self.rows]]

    def __str__(self) -> str:
        table = self.cells()
        names = table[0]
        widths = [max(len(line[k]) for line in table) for k in range(len(names))]
        lines = [
            "  ".join(cell.rjust(w) for cell, w in zip(line, widths, strict=True)).rstrip()
            for line in table
        ]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<History of {len(self)} epochs: {', '.join(self.names)}>"

    def _repr_html_(self) -> str | None:
        return hooks.notebook("html", self)


def is_higher_better(name: str) -> bool:
    """Of losses and errors less is better, of all else more."""
    low = ("loss", "error", "mae", "mse", "rmse", "perplexity", "seconds", "nll")
    return not any(name.removeprefix("val_").endswith(end) for end in low)


def _text(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
