"""Manifolds that parameters stay on: what a tangent is, as operators, and how to move along one.

Matrices are the last two axes; leading axes are points beside each other.

>>> import numpy as np
>>> import backsolve as bs
>>> x = bs.on(Sphere(), np.array([1.0, 0.0]))
>>> bs.grad(lambda x: x[0] + 2 * x[1])(x)  # nothing along x itself
array([0., 2.])
"""

from ..declared import Point as Point
from ..declared import on as on
from .base import Manifold as Manifold
from .factored import Factored as Factored
from .factored import LowRank as LowRank
from .linear import Complex as Complex
from .linear import Diagonal as Diagonal
from .linear import Euclidean as Euclidean
from .linear import Skew as Skew
from .linear import Symmetric as Symmetric
from .low_rank import FixedRank as FixedRank
from .operators import TangentBasis as TangentBasis
from .operators import TangentProjection as TangentProjection
from .orthogonal import SpecialOrthogonal as SpecialOrthogonal
from .orthogonal import Stiefel as Stiefel
from .positive import PositiveDefinite as PositiveDefinite
from .simplex import Simplex as Simplex
from .spheres import Oblique as Oblique
from .spheres import Sphere as Sphere
