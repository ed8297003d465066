"""Optimisers: settings with `init` and `update`, pure functions over containers of arrays."""

from . import schedules as schedules
from .adaptive import Adadelta as Adadelta
from .adaptive import Adagrad as Adagrad
from .adaptive import Adam as Adam
from .adaptive import Adamax as Adamax
from .adaptive import AdamW as AdamW
from .adaptive import NAdam as NAdam
from .adaptive import RAdam as RAdam
from .adaptive import RMSprop as RMSprop
from .base import Optimizer as Optimizer
from .base import State as State
from .descent import SGD as SGD
from .descent import Lion as Lion
from .large import LAMB as LAMB
from .large import Adafactor as Adafactor
from .matrices import Muon as Muon
from .matrices import Shampoo as Shampoo
from .wrappers import Accumulated as Accumulated
from .wrappers import Average as Average
from .wrappers import Clipped as Clipped
from .wrappers import Groups as Groups
from .wrappers import clip_grad_norm as clip_grad_norm
from .wrappers import clip_grad_value as clip_grad_value
