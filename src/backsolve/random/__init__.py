"""Random numbers as pure functions of an explicit state (Philox, NumPy's own stream).

>>> import backsolve as bs
>>> state = bs.random.key(1)
>>> first, second = bs.random.split(state)
>>> bs.random.normal(first, (2,)).shape
(2,)
"""

from ..blame import guarded as _guarded
from . import continuous as _continuous
from . import discrete as _discrete
from . import philox as _philox
from .philox import State as State

uniform = _guarded(_continuous.uniform)
normal = _guarded(_continuous.normal)
exponential = _guarded(_continuous.exponential)
laplace = _guarded(_continuous.laplace)
gumbel = _guarded(_continuous.gumbel)
gamma = _guarded(_continuous.gamma)
beta = _guarded(_continuous.beta)
dirichlet = _guarded(_continuous.dirichlet)
truncated_normal = _guarded(_continuous.truncated_normal)
multivariate_normal = _guarded(_continuous.multivariate_normal)
integers = _guarded(_discrete.integers)
bernoulli = _guarded(_discrete.bernoulli)
categorical = _guarded(_discrete.categorical)
poisson = _guarded(_discrete.poisson)
binomial = _guarded(_discrete.binomial)
permutation = _guarded(_discrete.permutation)
choice = _guarded(_discrete.choice)
bits = _guarded(_philox.bits)
fold_in = _guarded(_philox.fold_in)
key = _guarded(_philox.key)
split = _guarded(_philox.split)
