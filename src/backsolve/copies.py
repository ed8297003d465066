"""Objects that nothing changes: a copy of one is the object itself."""

from __future__ import annotations

from typing import Any

from .errors import UnsupportedError


class Unchanging:
    """It holds compiled code or functions, which cannot be pickled; `instead` says what to do."""

    instead: str

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: Any) -> Any:
        return self

    def __reduce__(self) -> Any:
        raise UnsupportedError(self.instead)
