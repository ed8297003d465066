"""Optimisers: settings with `init` and `update`, pure functions over containers of arrays."""

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
