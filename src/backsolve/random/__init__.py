"""Random numbers as pure functions of an explicit state (Philox, NumPy's own stream).

>>> import backsolve as bs
>>> state = bs.random.key(1)
>>> first, second = bs.random.split(state)
>>> bs.random.normal(first, (2,)).shape
(2,)
"""

from .distributions import bernoulli as bernoulli
from .distributions import beta as beta
from .distributions import binomial as binomial
from .distributions import categorical as categorical
from .distributions import choice as choice
from .distributions import dirichlet as dirichlet
from .distributions import exponential as exponential
from .distributions import gamma as gamma
from .distributions import gumbel as gumbel
from .distributions import integers as integers
from .distributions import laplace as laplace
from .distributions import multivariate_normal as multivariate_normal
from .distributions import normal as normal
from .distributions import permutation as permutation
from .distributions import poisson as poisson
from .distributions import truncated_normal as truncated_normal
from .distributions import uniform as uniform
from .philox import State as State
from .philox import bits as bits
from .philox import fold_in as fold_in
from .philox import key as key
from .philox import split as split
