"""What an operator is called on a picture, and the family that gives it its colour."""

from __future__ import annotations

from ..operators import Operator, Product

_PLAIN = {"Identity", "Scale", "Broadcast", "Cast", "Reshape"}
_FAMILIES = {
    "identity": "Identity Scale Cast",
    "diagonal": "Diagonal",
    "mask": "Mask",
    "contraction": "Contraction Left Right Kronecker Matrix Convolution Inverse",
    "movement": "Slice Unslice Gather ScatterAdd Reshape Transpose Concatenate Erase EraseAt Windows Fold",
    "sum": "Broadcast SumAxes Cumsum",
}
_FAMILY_OF = {kind: family for family, kinds in _FAMILIES.items() for kind in kinds.split()}
_SHORT = {
    "Identity": "I",
    "Diagonal": "Diag",
    "Contraction": "Con",
    "Transpose": "Perm",
    "SumAxes": "Sum",
    "OperatorSum": "A+B",
    "Concatenate": "Cat",
}


def kind_of(block: Operator) -> str:
    """One word for an operator; of a product, that of the factor which says most."""
    if isinstance(block, Product):
        kinds = [kind_of(a) for a in block.factors]
        for dull in (_PLAIN, {"Identity", "Cast"}):
            telling = [k for k in kinds if k not in dull]
            if telling:
                return telling[0]
        return kinds[0]
    return getattr(block, "name", "") or type(block).__name__


def family_of(block: Operator) -> str:
    if isinstance(block, Product):
        families = [family_of(a) for a in block.factors]
        return next((f for f in families if f not in ("identity", "sum")), families[0])
    return _FAMILY_OF.get(type(block).__name__, "else")


def short_kind(block: Operator) -> str:
    """The same in four or five letters, as it stands in I − L."""
    kind = kind_of(block)
    return f"−{_SHORT.get(kind, kind if len(kind) <= 5 else kind[:4])}"
