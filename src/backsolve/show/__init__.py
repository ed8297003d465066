"""Pictures: `bs.show(f, *args)` makes a page on which one sees a program, its gradient and its system.

Reading order: scene.py, what is shown; data.py, the same as JSON; page.py. The page itself is written in
TypeScript, in web/, and built into static/ by `make web`. All but this file is loaded when the first
picture is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..hooks import hooks
from ..working import Working

if TYPE_CHECKING:
    from ..vary import ArgNums
    from .drawing import Picture
    from .page import Page
    from .trace import Trace


class Show:
    """`bs.show`."""

    def __call__(
        self,
        f: Callable[..., Any],
        *args: Any,
        argnums: ArgNums | None = None,
        seed: Any = None,
        path: Any = None,
        **kwargs: Any,
    ) -> Page:
        """A page about `f` at its arguments: its graph, its matrix, and both substitutions step by step.

        The page is one file that needs nothing else; it is written to `path`, if one is given, and
        `page.save(path)` and `page.open()` do so later. In a notebook it is shown where it stands.
        Gradients are those of the sum of the outputs, or as `seed` weighs them. Parameters are all real and
        complex numbers of the arguments, or of those that `argnums` names, and what a model trains; integers, a
        model's state and keyword arguments, which go to `f`, are constants.

        >>> import numpy as np
        >>> show = Show()
        >>> show(lambda x: np.log(x[0]) + x[0] * x[1], np.array([2.0, 5.0]))
        <Page f: 5 rows, 1 parameter>
        """
        from .data import page_data
        from .page import Page, write_page
        from .scene import scene_of

        with Working("drawing"):
            scene = scene_of(f, args, argnums, seed, kwargs)
            text = write_page(scene.title, "explorer", page_data(scene))
        rows, parameters = len(scene.system.rows), len(scene.system.parameters)
        about = f"{rows} row{'s' * (rows != 1)}, {parameters} parameter{'s' * (parameters != 1)}"
        return Page(scene.title, text, about, path)

    def graph(
        self,
        f: Callable[..., Any],
        *args: Any,
        argnums: ArgNums | None = None,
        seed: Any = None,
        **kwargs: Any,
    ) -> Picture:
        """The graph, for papers (`.save("f.svg")`, `.png`) and terminals (`print`).

        >>> import numpy as np
        >>> print(Show().graph(lambda x, y: x * y + np.sin(x), 2.0, 3.0))
                        value     gradient
        x               2.0       2.58385   → v1, v2
        y               3.0       2.0       → v1
        v1  x · y       6.0       1.0       → v3
        v2  sin(x)      0.909297  1.0       → v3
        v3  v1 + v2     6.9093    1.0       → result
        """
        from .graph import graph_of
        from .scene import scene_of

        with Working("drawing"):
            return graph_of(scene_of(f, args, argnums, seed, kwargs))

    def matrix(
        self,
        f: Callable[..., Any],
        *args: Any,
        argnums: ArgNums | None = None,
        seed: Any = None,
        **kwargs: Any,
    ) -> Picture:
        """The blocks of I − L, parameters first.

        >>> import numpy as np
        >>> print(Show().matrix(lambda x, y: x * y + np.sin(x), 2.0, 3.0))
         x     I   2.0
         y     ·     I   3.0
        v1 −Diag −Diag     I   6.0
        v2 −Diag     ·     ·     I   0.909297
        v3     ·     ·    −I    −I     I   6.9093
        """
        from .matrix import matrix_of
        from .scene import scene_of

        with Working("drawing"):
            return matrix_of(scene_of(f, args, argnums, seed, kwargs))

    def trace(
        self,
        f: Callable[..., Any],
        *args: Any,
        argnums: ArgNums | None = None,
        seed: Any = None,
        **kwargs: Any,
    ) -> Trace:
        """The two-column trace: values ahead, adjoints back; also as LaTeX (`.latex`) for papers.

        >>> print(Show().trace(lambda x, y: x * y + x, 2.0, 3.0))
        (I − L) dx = D dp      2 rows, 2 parameters, 4 blocks
          v1 = x · y   6.0  v̄2 = 1             1.0
          v2 = v1 + x  8.0  v̄1 = v̄2            1.0
                            x̄ = v̄2 + v̄1 · 3.0  4.0
                            ȳ = v̄1 · 2.0       2.0
          multiplications: 0 forward, 2 backward
        """
        from .scene import scene_of
        from .trace import Trace

        with Working("drawing"):
            return Trace(scene_of(f, args, argnums, seed, kwargs))


show = Show()


def _notebook(form: str, x: Any) -> str | None:
    from .notebooks import shown

    return shown(form, x)


hooks.notebook = _notebook
