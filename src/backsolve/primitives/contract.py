"""contract: loops over products, `Y[h,i,j] += A[h,i,k] · B[h,j,k]`, and the swap rule.

`subscripts` is written as for einsum ("hik,hjk->hij"), and means the loop nest literally: every
label is a loop, the output is added into. So a label may stand twice in the output (only the
diagonal is written) and an output label may be absent from all inputs (the same number is written
along it, its length given by `sizes`): that makes the nests closed under swapping output and input.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import Type
from ..lanes import binary_lane
from ..operators import Contraction
from ..operators.contraction import _LETTERS
from ..operators.nests import MATRIX, label_sizes, run_nest, split_subscripts
from ..primitive import primitive
from .batching import rank


def _block(i: int, s: Any, row: Any) -> Any:
    params, parents = row.params, row.parents
    operands: tuple[Any, ...]
    if len(parents) == 2:
        operands = (s[1], None) if i else (None, s[2])
    else:
        operands = tuple([None if k == i else s[k + 1] for k in range(len(parents))])
    return Contraction(params["subscripts"], i, operands, parents[i], params["sizes"])


def _type(*types: Type, subscripts: str, sizes: Any) -> Type:
    known = label_sizes(subscripts, [t.shape for t in types], sizes)
    _, output = split_subscripts(subscripts)
    return Type(tuple(known[c] for c in output), np.result_type(*[t.dtype for t in types]))


def _batch(prim: Any, size: int, args: Any, batched: Any, params: Any) -> Any:
    inputs, output = split_subscripts(params["subscripts"])
    new = next(c for c in _LETTERS if c not in params["subscripts"])
    labels = [new + x if b else x for x, b in zip(inputs, batched, strict=True)]
    assert all(rank(a) == len(x) for a, x in zip(args, labels, strict=True))
    return prim(*args, subscripts=f"{','.join(labels)}->{new}{output}", sizes=params["sizes"])


contract = primitive(
    "contract",
    run_nest,
    blocks=_block,
    wants=lambda i, n: [k for k in range(1, n + 1) if k != i + 1],
    type=_type,
    batch=_batch,
    text="contract[{subscripts}]({args})",
    code="np.einsum('{subscripts}', {args})",
)


def _lane(subscripts: str, run: Any) -> Any:
    params = {"subscripts": subscripts, "sizes": ()}
    return binary_lane(contract, run, keep=((2,), (1,)), params=params)


# The fast lanes of a @ b, by ranks; and of outer products.
MATMUL = {
    (2, 2): _lane(MATRIX, np.matmul),
    (2, 1): _lane("ab,b->a", np.matmul),
    (1, 2): _lane("b,bc->c", np.matmul),
    (1, 1): _lane("b,b->", np.matmul),
}
outer_product = _lane("i,j->ij", np.multiply.outer)
