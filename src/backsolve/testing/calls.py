"""The calls by which rows that are not element-wise are tested; samples.py makes cases of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..operators.windows import Cut
from .domains import FLOATS
from .draws import Matrices
from .references import Shape, key_of

# Two or more arguments of different dtypes: promotion.
MIXED = ("float32+float64", "float64+complex128", "complex128+float64", "int64+float64")


@dataclass(frozen=True)
class Call:
    """Shapes of the arguments that vary (arrays stand for themselves), metadata, dtypes."""

    args: Sequence[Any]
    params: dict[str, Any] = field(default_factory=dict)
    dtypes: Sequence[str] = (*FLOATS, "int64", "bool")


def _contract(subscripts: str, *shapes: Shape, sizes: Any = ()) -> Call:
    dtypes = (*FLOATS, "int64", *(MIXED[:3] if len(shapes) > 1 else ()))
    return Call(shapes, {"subscripts": subscripts, "sizes": sizes}, dtypes)


def _over(shapes_axes: Sequence[tuple[Shape, Any]], dtypes: Sequence[str]) -> list[Call]:
    return [
        Call([s], {"axis": axis, "keepdims": keep}, dtypes)
        for s, axis in shapes_axes
        for keep in ((False, True) if s == (2, 3) else (False,))
    ]


FULL = (None, None, None)
ONE_INDEX, REPEATED = np.array([2, 0]), np.array([[0, 1], [-2, 0]])
COLUMN, LINE = np.array([[0], [2]]), np.array([1, 0, 1])
CUTS: list[tuple[Shape, Cut]] = [
    ((5,), Cut((0,), (3,), (1,), (1,))),  # overlapping
    ((7,), Cut((0,), (2,), (3,), (2,))),  # with gaps between and inside
    ((2, 6), Cut((1,), (2,), (2,), (1,))),  # side by side
    ((2, 4, 5), Cut((1, 2), (2, 3), (1, 2), (1, 1))),
    ((4, 5, 2), Cut((1, 0), (3, 2), (1, 2), (2, 1))),
    ((3, 2), Cut((0,), (3,), (1,), (1,))),  # a single window
    ((3,), Cut((0,), (4,), (1,), (1,))),  # none
    ((0, 4), Cut((1,), (2,), (1,), (1,))),
]
SPECS: list[tuple[Shape, Any]] = [
    ((3,), (1,)),
    ((4,), ((None, None, -2),)),
    ((3, 4), ((1, 3, 1), (0, 4, 2))),
    ((2, 3), (FULL, None, -1)),
    ((2, 3), ((1, 1, 1),)),
    ((), ()),
]
AXES: list[tuple[Shape, Any]] = [
    ((), ()),
    ((3,), (0,)),
    ((2, 3), (1,)),
    ((2, 3), (0, 1)),
    ((2, 1, 2), (0, 2)),
]
EMPTY: list[tuple[Shape, Any]] = [((0,), (0,)), ((2, 0), (1,)), ((2, 0), (0,))]
ALONG: list[tuple[Shape, int]] = [
    ((3,), 0),
    ((2, 3), 1),
    ((3, 2), 0),
    ((1,), 0),
    ((0,), 0),
    ((2, 0), 1),
]
NUMBERS = (*FLOATS, "int64", "bool")
SQUARES: list[Shape] = [(3, 3), (2, 2, 2), (1, 1), (0, 0), (2, 1, 1, 1), (0, 2, 2)]
RECTANGLES: list[Shape] = [*SQUARES, (3, 2), (2, 3), (2, 3, 1), (2, 0)]
SYSTEMS: list[tuple[Shape, Shape]] = [
    ((3, 3), (3, 2)),
    ((2, 2, 2), (2, 2, 1)),
    ((1, 1), (1, 1)),
    ((0, 0), (0, 2)),
    ((2, 2), (2, 0)),
]

# queries, keys and values; tests/backends/test_attention.py has those that fill tiles
HEADS: list[tuple[Shape, Shape, Shape]] = [
    ((3, 2), (3, 2), (3, 1)),
    ((2, 2, 2), (2, 3, 2), (2, 3, 2)),
    ((2, 1, 4, 1), (2, 1, 2, 1), (2, 1, 2, 2)),
    ((2, 2), (0, 2), (0, 1)),
    ((0, 2), (2, 2), (2, 1)),
]

CALLS: dict[str, list[Call]] = {
    "all": _over(AXES + EMPTY, ("bool",)),
    "any": _over(AXES + EMPTY, ("bool",)),
    "argmax": [Call([s], {"axis": k}, NUMBERS) for s, k in ALONG[:4]],
    "argmin": [Call([s], {"axis": k}, NUMBERS) for s, k in ALONG[:4]],
    "argsort": [Call([s], {"axis": k}, NUMBERS) for s, k in ALONG],
    "attention": [
        Call(list(shapes), {"scale": 0.7, "causal": causal}, ("float32", "float64"))
        for shapes in HEADS
        for causal in (False, True)
    ],
    "attention_adjoint": [
        Call(
            [q, k, v, (*q[:-1], v[-1])],
            {"which": which, "scale": 0.7, "causal": causal},
            ("float32", "float64"),
        )
        for q, k, v in HEADS
        for causal in (False, True)
        for which in (0, 1, 2)
    ],
    "banded_solve": [
        Call([Matrices(s, "bands"), t], {"lower": n, "upper": n}, FLOATS + MIXED[:3])
        for s, t, n in [
            ((3, 4), (4, 2), 1),
            ((2, 5, 3), (2, 3, 1), 2),
            ((1, 2), (2, 1), 0),
            ((3, 0), (0, 2), 1),
        ]
    ],
    "block_recurrence": [
        Call([(*s, s[-1]), s], {"reverse": r}, FLOATS + MIXED[:3])
        for s in [(4, 2), (2, 3, 2), (1, 3), (3, 1), (0, 2)]
        for r in (False, True)
    ],
    "broadcast_to": [
        Call([s], {"shape": t}, NUMBERS)
        for s, t in [((), (2,)), ((3,), (2, 3)), ((2, 1), (2, 3)), ((1,), (0,)), ((3,), (3,))]
    ],
    "cholesky": [Call([Matrices(s, "definite")], {}, FLOATS) for s in SQUARES],
    "concatenate": [
        Call([(2,), (3,)], {"axis": 0, "starts": (0, 2, 5)}, NUMBERS + MIXED),
        Call([(2, 1), (2, 0), (2, 2)], {"axis": 1, "starts": (0, 1, 1, 3)}, NUMBERS),
        Call([(2,)], {"axis": 0, "starts": (0, 2)}, NUMBERS),
    ],
    "contract": [
        _contract("ij,jk->ik", (2, 3), (3, 2)),
        _contract("ij,jk->ki", (2, 3), (3, 2)),
        _contract("ji,kj->ik", (3, 2), (2, 3)),
        _contract("i,i->", (3,), (3,)),
        _contract("ij,j->i", (2, 3), (3,)),
        _contract("i,j->ji", (2,), (3,)),
        _contract("hik,hjk->hij", (2, 1, 3), (2, 2, 3)),
        _contract("ij,ij->ij", (2, 3), (2, 3)),
        _contract(",i->i", (), (3,)),
        _contract("ij,k->k", (2, 2), (3,)),
        _contract("ij->ji", (2, 3)),
        _contract("ij->", (2, 3)),
        _contract("ii->", (3, 3)),
        _contract("ii->i", (3, 3)),
        _contract("i->ii", (3,)),
        _contract("i->ij", (2,), sizes=(("j", 3),)),
        _contract("->ii", (), sizes=(("i", 2),)),
        _contract("ij,jk,kl->il", (2, 2), (2, 3), (3, 1)),
        _contract("ij,jk->ik", (2, 0), (0, 3)),
        _contract("ij,jk->ik", (0, 2), (2, 3)),
    ],
    "convolve": [
        Call([(n,), (m,)], {"mode": mode}, (*FLOATS, "int64", *MIXED[:3]))
        for mode, n, m in [
            *[("full", 5, 3), ("full", 3, 5), ("full", 1, 1), ("full", 40, 34)],
            *[("valid", 5, 3), ("valid", 3, 3), ("valid", 70, 35), ("valid", 40, 38)],
        ]
    ],
    "cumprod": [Call([s], {"axis": k}, NUMBERS) for s, k in ALONG],
    "cumsum": [Call([s], {"axis": k}, NUMBERS) for s, k in ALONG],
    "adjugate": [Call([Matrices(s)], {}, FLOATS) for s in SQUARES],
    "det": [Call([Matrices(s)], {}, FLOATS) for s in SQUARES],
    "eig": [Call([Matrices(s, "apart")], {}, FLOATS) for s in SQUARES],
    "eigvals": [Call([Matrices(s, "apart")], {}, FLOATS) for s in SQUARES],
    "eigh": [  # the phases of complex vectors are LAPACK's choice: tests/test_decompositions.py
        Call([Matrices(s, "apart")], {"lower": lower}, FLOATS[:2])
        for s in SQUARES
        for lower in (True, False)
    ],
    "eigvalsh": [
        Call([Matrices(s, "apart")], {"lower": lower}, FLOATS)
        for s in SQUARES
        for lower in (True, False)
    ],
    "complement": [Call([Matrices(s)], {}, FLOATS) for s in RECTANGLES if s[-2] >= s[-1]],
    "expm": [Call([Matrices(s)], {}, FLOATS) for s in SQUARES],
    "det_sign": [Call([Matrices(s)], {}, FLOATS) for s in SQUARES],
    "fft": [
        Call([s], {"axes": axes, "inverse": inverse}, FLOATS)
        for s, axes in [((4,), (0,)), ((3, 5), (0, 1)), ((2, 3, 1), (1,)), ((2, 0), (0,))]
        for inverse in (False, True)
    ],
    "gather": [
        Call([(3,), ONE_INDEX], {}, NUMBERS),
        Call([(3, 2), ONE_INDEX], {}, NUMBERS),
        Call([(3, 2), REPEATED], {}, NUMBERS),
        Call([(3, 2), COLUMN, LINE], {}, NUMBERS),
        Call([(3, 2), np.array(1)], {}, NUMBERS),
        Call([(3,), np.zeros(0, int)], {}, NUMBERS),
    ],
    "irfft": [
        Call([s], {"n": n, "axis": axis}, FLOATS)
        for s, n, axis in [((3,), 4, 0), ((3, 2), 5, 0), ((2, 1), 1, 1), ((0, 2), 2, 1)]
    ],
    "inv": [Call([Matrices(s)], {}, FLOATS) for s in SQUARES],
    "lu": [Call([Matrices(s, "apart")], {}, FLOATS) for s in SQUARES],
    "pinv": [Call([Matrices(s, "apart")], {"rcond": 1e-6}, FLOATS) for s in RECTANGLES],
    "pivots": [Call([Matrices(s)], {}, FLOATS) for s in RECTANGLES],
    "qr": [Call([Matrices(s, "apart")], {}, FLOATS) for s in RECTANGLES if s[-2] >= s[-1]],
    "svd": [Call([Matrices(s, "apart")], {}, FLOATS[:2]) for s in RECTANGLES],
    "svdvals": [Call([Matrices(s, "apart")], {}, FLOATS) for s in RECTANGLES],
    "log_abs_det": [Call([Matrices(s)], {}, FLOATS) for s in SQUARES],
    "log_softmax": [Call([s], {"axis": k}, ("float32", "float64")) for s, k in AXES + EMPTY],
    "logsumexp": _over(AXES, FLOATS) + _over(EMPTY, ("float32", "float64")),
    "first_max": _over([*AXES, ((2, 0), (0,))], (*FLOATS, "int64")),
    "max": _over([*AXES, ((2, 0), (0,))], (*FLOATS, "int64")),
    "min": _over([*AXES, ((2, 0), (0,))], (*FLOATS, "int64")),
    "norm": _over(AXES + EMPTY, FLOATS),
    "permute": [
        Call([s], {"axes": k}, NUMBERS)
        for s, k in [((), ()), ((2, 3), (1, 0)), ((2, 3, 1), (2, 0, 1)), ((0, 2), (1, 0))]
    ],
    "prod": _over(AXES + EMPTY, NUMBERS),
    "recurrence": [
        Call([s, s], {"axis": k, "reverse": r}, FLOATS + MIXED[:3])
        for s, k in ALONG
        for r in (False, True)
    ],
    "rfft": [
        Call([s], {"axis": axis}, FLOATS[:2])
        for s, axis in [((4,), 0), ((5, 2), 0), ((2, 1), 1), ((0, 3), 1)]
    ],
    "reshape": [
        Call([s], {"shape": t}, NUMBERS)
        for s, t in [((), (1, 1)), ((6,), (2, 3)), ((2, 3), (3, 2)), ((1,), ()), ((2, 0), (0,))]
    ],
    "scatter_add": [
        Call([(2,), ONE_INDEX], {"shape": (3,)}, NUMBERS[:-1]),
        Call([(2, 2), REPEATED], {"shape": (3,)}, NUMBERS[:-1]),
        Call([(2, 2), ONE_INDEX], {"shape": (3, 2)}, NUMBERS[:-1]),
        Call([(2, 3), COLUMN, LINE], {"shape": (3, 2)}, NUMBERS[:-1]),
        Call([(0,), np.zeros(0, int)], {"shape": (3,)}, NUMBERS[:-1]),
    ],
    "scatter_set": [
        Call([(3,), (2,), ONE_INDEX], {}, (*NUMBERS, "float32+float64", "complex128+float64")),
        Call([(3,), (2, 2), REPEATED], {}, NUMBERS),
        Call([(3, 2), (2, 2), ONE_INDEX], {}, NUMBERS),
        Call([(3, 2), (2, 2, 2), REPEATED], {}, FLOATS),
        Call([(3, 2), (2, 3), COLUMN, LINE], {}, NUMBERS),
        Call([(3,), (0,), np.zeros(0, int)], {}, NUMBERS),
    ],
    "ranked": [
        Call([s], {"axis": k, "ranks": ranks}, NUMBERS)
        for s, k, ranks in [
            ((5,), 0, (2,)),
            ((3, 4), 1, (1, 2, 3)),
            ((3, 4), 0, (0, 2)),
            ((0, 2), 1, (1,)),
        ]
    ],
    "searchsorted": [
        Call([np.array([-1.0, 0.5, 2.0]), s], {"side": side}, NUMBERS)
        for s in [(), (3,), (2, 2), (0,)]
        for side in ("left", "right")
    ],
    "softmax": [Call([s], {"axis": k}, ("float32", "float64")) for s, k in AXES + EMPTY],
    "slice": [Call([s], {"spec": spec}, NUMBERS) for s, spec in SPECS],
    "slice_update": [
        Call([s, v], {"spec": spec}, (*NUMBERS, "float32+float64", "complex128+float64"))
        for s, spec in SPECS
        for v in dict.fromkeys([np.zeros(s)[key_of(spec)].shape, ()])
    ],
    "solve": [Call([Matrices(s), t], {}, FLOATS + MIXED[:3]) for s, t in SYSTEMS],
    "sqrtm": [Call([Matrices(s, "definite")], {}, FLOATS) for s in SQUARES],
    "sum": _over(AXES + EMPTY, NUMBERS),
    "sylvester": [
        Call([Matrices((*s, m, m)), Matrices((*s, n, n)), (*s, m, n)], {}, FLOATS + MIXED[:3])
        for s, m, n in [((), 3, 2), ((2,), 2, 2), ((), 1, 1), ((), 0, 2)]
    ],
    "triangular_solve": [
        Call([Matrices(s), t], {"lower": lower, "unit": unit}, FLOATS + MIXED[:3])
        for s, t in SYSTEMS
        for lower, unit in [(True, False), (False, False), (True, True), (False, True)]
    ],
    "fold": [Call([cut.shape(s)], {"cut": cut, "shape": s}, NUMBERS) for s, cut in CUTS],
    "windows": [Call([s], {"cut": cut}, NUMBERS) for s, cut in CUTS],
    "unslice": [
        Call([np.zeros(s)[key_of(spec)].shape], {"spec": spec, "shape": s}, NUMBERS)
        for s, spec in SPECS
    ],
}
