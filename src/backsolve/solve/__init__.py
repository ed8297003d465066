"""Ways to solve `(I − L) dx = D dp`, one per file."""

from . import messages as messages
from . import semiring as semiring
from . import ways as ways
from .budget import eager_budget as eager_budget
from .checkpoint import checkpoint as checkpoint
from .forward import forward_substitute as forward_substitute
from .reverse import back_substitute as back_substitute
from .within import loop_within as loop_within
