"""What each row of the table is in the operators of ONNX."""

from __future__ import annotations

from . import bessel as bessel
from . import contract as contract
from . import elementwise as elementwise
from . import factors as factors
from . import formulas as formulas
from . import index as index
from . import reduce as reduce
from . import rounds as rounds
from . import shape as shape
from . import special as special
from . import windows as windows
from .base import FORMULAS as FORMULAS
from .base import ROWS as ROWS
