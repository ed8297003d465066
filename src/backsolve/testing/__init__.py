"""Checks to call from tests: of derivatives, of operators, of rows of the table.

    check_grads(f, args)       derivatives of f against numerical differences, both modes
    grad_report(f, args)       the same entry by entry, as a report
    check_operator(A)          ⟨A u, v⟩ = ⟨u, Aᵀ v⟩, types, matrix, structure, algebra
    check_primitive("tanh")    everything that is claimed of a row, on samples made from the row

The checks raise a CheckError, which says what was expected and what came.
"""

from .grads import CheckError as CheckError
from .grads import check_grads as check_grads
from .operators import check_operator as check_operator
from .report import grad_report as grad_report
from .rows import check_case as check_case
from .rows import check_primitive as check_primitive
from .samples import Case as Case
from .samples import cases as cases
