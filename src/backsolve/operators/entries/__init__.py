"""Maps given by their non-zero entries, and their algebra: what eliminating rows of a system needs.

Read in this order: terms.py (what an entry is and how a set of them is written), meet.py (the product of two),
entries.py (the operator), written.py (any operator in this form), pairs.py (complex ones).
"""

from .entries import Entries as Entries
from .pairs import Pair as Pair
from .pairs import is_complex as is_complex
from .pairs import pair_of as pair_of
from .pairs import places_of as places_of
from .pairs import without_complex_parts as without_complex_parts
from .terms import Term as Term
from .written import entries_of as entries_of
from .written import number as number
