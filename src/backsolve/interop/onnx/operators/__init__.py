"""ONNX's operators, by kind. Importing this fills the table."""

from . import control as control
from . import convolutions as convolutions
from . import elementwise as elementwise
from . import indexing as indexing
from . import losses as losses
from . import matrices as matrices
from . import models as models
from . import normalisation as normalisation
from . import order as order
from . import pooling as pooling
from . import quantisation as quantisation
from . import recurrent as recurrent
from . import reductions as reductions
from . import resizing as resizing
from . import sampling as sampling
from . import sequences as sequences
from . import shapes as shapes
from . import signals as signals
from . import training as training
from . import types as types
from .table import find as find
