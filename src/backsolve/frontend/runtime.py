"""The names that rewritten code finds in `_bs_`."""

from __future__ import annotations

from .aliases import method as method
from .branches import both as both
from .branches import choose as choose
from .branches import compare as compare
from .branches import contains as contains
from .branches import either as either
from .branches import if_ as if_
from .branches import negated as negated
from .branches import none_of as none_of
from .calls import call as call
from .checks import assigned as assigned
from .checks import holds as holds
from .comprehensions import listed as listed
from .comprehensions import many as many
from .comprehensions import rows as rows
from .comprehensions import total as total
from .iterables import indexable as indexable
from .iterables import item as item
from .iterables import unpacked as unpacked
from .loops import for_ as for_
from .loops import while_ as while_
from .scope import made as made
from .scope import rebinding as rebinding
from .writes import in_place as in_place
from .writes import raised as raised
from .writes import slice as slice
from .writes import store as store
from .writes import update as update
