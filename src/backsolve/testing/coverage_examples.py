"""Arguments to try NumPy's functions with (coverage.py)."""

from __future__ import annotations

from typing import Any

import numpy as np

_rng = np.random.default_rng(4)
_square = _rng.normal(size=(3, 3))
VALUES: dict[str, Any] = {  # they vary
    "u": _rng.uniform(0.2, 0.8, size=4),
    "w": _rng.uniform(0.2, 0.8, size=4),
    "x": _rng.normal(size=(3, 4)),
    "m": _square @ _square.T + np.eye(3),
    "t": _rng.normal(size=3),
    "a": _rng.normal(size=(2, 3, 4)),
    "s": np.float64(0.6),
    "z": _rng.normal(size=4) + 1j * _rng.normal(size=4),
}
WHOLE: dict[str, Any] = {  # they do not
    "i": np.array([[2, 0], [1, 2]]),
    "k": np.array([3, 1, 2, 2]),
    "b": np.array([True, False, True, True]),
    "c": np.array([1, 7], np.uint8),
}


def written(f: Any, a: Any, *args: Any) -> Any:
    """`a` after a function wrote into it."""
    a = a * 1
    f(a, *args)
    return a


COMMON = (
    *("f(u)", "f(m)", "f(z)", "f(a)", "f([u, w])", "f(u, w)", "f(m, t)", "f(m, m)", "f(t, t)"),
    *("f(x, 1)", "f(u, 2)", "f(2, u)", "f(u, w, u)", "f(2, u, w)", "f(2, 3, u)", "f(u, w, u, w)"),
    *("f(1, 2, u, w)", "f(1, 2, 3, u)", "f(1, 1, u, w, u)", "f(1, 1, 1, u, w)"),
    *("f(k)", "f(b)", "f(i)", "f(c)", "f(k, k)", "f(b, u)", "f(u, k)", "f(k, u)", "f(k, k, u)"),
    *("f((i, i), (3, 4))", "f(i, (3, 4))"),
)
EXAMPLES = {
    "numpy.apply_along_axis": "f(np.cumsum, 0, x)",
    "numpy.apply_over_axes": "f(np.sum, x, 0)",
    "numpy.array_split": "f(u, 3)",
    "numpy.astype": "f(u, np.float32)",
    "numpy.bincount": "f([0, 2, 1, 1], u)",
    "numpy.broadcast_to": "f(u, (3, 4))",
    "numpy.choose": "f([0, 1, 1, 0], [u, w])",
    "numpy.compress": "f([True, False, True], x, 0)",
    "numpy.copyto": "written(f, u, w)",
    "numpy.delete": "f(u, 1)",
    "numpy.dsplit": "f(a, 2)",
    "numpy.einsum": "f('ij,j->i', m, t)",
    "numpy.einsum_path": "f('ij,j->i', m, t)",
    "numpy.extract": "f([True, False, True, True], u)",
    "numpy.fill_diagonal": "written(f, m, s)",
    "numpy.full_like": "f(u, s)",
    "numpy.histogram": "f(u, 2, weights=w)",
    "numpy.histogram2d": "f(u, w, 2, weights=u)",
    "numpy.histogramdd": "f(x, 2)",
    "numpy.insert": "f(u, 1, s)",
    "numpy.interp": "f(s, [0.0, 0.5, 0.9, 1.0], u)",
    "numpy.is_busday": "f(k)",
    "numpy.linalg.multi_dot": "f([m, m, t])",
    "numpy.linalg.tensorinv": "f(np.reshape(m, (3, 3, 1)), 1)",
    "numpy.linalg.tensorsolve": "f(m, t)",
    "numpy.moveaxis": "f(a, 0, 1)",
    "numpy.pad": "f(u, 1)",
    "numpy.partition": "f(u, 1)",
    "numpy.percentile": "f(u, 30)",
    "numpy.nanpercentile": "f(u, 30)",
    "numpy.nanquantile": "f(u, 0.3)",
    "numpy.quantile": "f(u, 0.3)",
    "numpy.piecewise": "f(u, [u > 0.5], [np.sin, np.cos])",
    "numpy.place": "written(f, u, [True, False, True, False], w)",
    "numpy.polyfit": "f(u, w, 1)",
    "numpy.put": "written(f, u, [0, 1], w)",
    "numpy.put_along_axis": "written(f, u, np.array([1]), s, 0)",
    "numpy.putmask": "written(f, u, [True, False, True, False], w)",
    "numpy.repeat": "f(u, 2)",
    "numpy.reshape": "f(u, (2, 2))",
    "numpy.resize": "f(u, 6)",
    "numpy.roll": "f(u, 1)",
    "numpy.rollaxis": "f(a, 1)",
    "numpy.select": "f([u > 0.5], [w], 0.0)",
    "numpy.split": "f(u, 2)",
    "numpy.swapaxes": "f(a, 0, 1)",
    "numpy.take": "f(u, [0, 2])",
    "numpy.take_along_axis": "f(u, np.array([1, 0]), 0)",
    "numpy.tensordot": "f(m, m)",
    "numpy.tile": "f(u, 2)",
    "numpy.vsplit": "f(a, 2)",
    "numpy.hsplit": "f(u, 2)",
    "numpy.where": "f(u > 0.5, u, w)",
    "numpy.linalg.matrix_power": "f(m, 3)",
    "numpy.linalg.svd": "f(m, full_matrices=False)",
    "numpy.vecmat": "f(t, m)",
    "numpy.linalg.cross": "f(t, 2 * t)",
    "numpy.cross": "f(t, 2 * t)",
    "numpy.save": "f('tensor.npy', u)",
    "numpy.savez": "f('tensor.npz', u)",
    "numpy.savez_compressed": "f('tensor.npz', u)",
    "numpy.savetxt": "f('tensor.txt', u)",
    "numpy.may_share_memory": "f(u, w)",
    "numpy.shares_memory": "f(u, w)",
    "numpy.unravel_index": "f(k, (2, 2))",
}
