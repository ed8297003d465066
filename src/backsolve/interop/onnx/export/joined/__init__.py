"""One operator for several equations: convolutions, pools, normalisations, means, Gemm, Relu.

A recogniser looks back from an equation and gives the name of the result, or None. What was written for the
equations before is dropped, if nothing else reads it (tidy.py).
"""

from . import activations as activations
from . import convolutions as convolutions
from . import matrices as matrices
from . import means as means
from . import normalisations as normalisations
from . import pools as pools
from . import transposed as transposed
from .base import RECOGNISERS as RECOGNISERS
