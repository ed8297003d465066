"""Ways to solve `(I − L) dx = D dp`, one per file."""

from . import messages as messages
from . import ways as ways
from .checkpoint import checkpoint as checkpoint
from .forward import forward_substitute as forward_substitute
from .reverse import back_substitute as back_substitute
