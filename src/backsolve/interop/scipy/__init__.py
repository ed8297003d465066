"""SciPy with derivatives: its solvers, and functions of its that ask no protocol and so refuse Tensors.

`bs.scipy.minimize` and its family are here; `bs.scipy.linalg`, `.signal`, `.integrate` and `.special` hold
functions under SciPy's names and with its arguments. On plain arrays all of these are SciPy's own.
"""

from __future__ import annotations

from ...numpy import special as special
from . import integrate as integrate
from . import linalg as linalg
from . import signal as signal
from .solvers import Problem as Problem
from .solvers import curve_fit as curve_fit
from .solvers import least_squares as least_squares
from .solvers import minimize as minimize
from .solvers import problem as problem
from .solvers import root as root
from .solvers import solve_ivp as solve_ivp
