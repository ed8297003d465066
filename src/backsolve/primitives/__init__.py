"""The tables: one row per primitive, grouped by kind. Importing this package fills the registry."""

from ..array_methods import install_operators
from ..primitive import PRIMITIVES
from . import adjugate as adjugate
from . import attention as attention
from . import bessel as bessel
from . import chains as chains
from . import contract as contract
from . import convolution as convolution
from . import discrete as discrete
from . import distributions as distributions
from . import eigen as eigen
from . import elementwise as elementwise
from . import elliptic as elliptic
from . import equations as equations
from . import expansions as expansions
from . import factors as factors
from . import fourier as fourier
from . import index as index
from . import integrals as integrals
from . import linalg as linalg
from . import order as order
from . import orthogonal as orthogonal
from . import reduce as reduce
from . import scan as scan
from . import selection as selection
from . import shape as shape
from . import singular as singular
from . import softmax as softmax
from . import special as special
from . import windows as windows

install_operators()
OWN = frozenset(PRIMITIVES)  # rows of users come later
