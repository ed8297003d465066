"""What each row of the table is in the words of JAX: `ROWS[name](machine, equation, inputs)`.

A row that is absent, or gives NotImplemented, runs on the host (elsewhere.py).
"""

from __future__ import annotations

from . import contract as contract
from . import elementwise as elementwise
from . import formulas as formulas
from . import fourier as fourier
from . import index as index
from . import linalg as linalg
from . import networks as networks
from . import order as order
from . import reduce as reduce
from . import shape as shape
from . import special as special
from . import windows as windows
from .base import ROWS as ROWS
