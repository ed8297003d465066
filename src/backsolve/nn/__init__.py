"""Networks: functions without parameters in `functional`, layers as modules, first values in `init`."""

from . import functional as functional
from . import init as init
from . import models as models
from . import utils as utils
from .init import manual_seed as manual_seed
from .layers import *  # noqa: F403 - PyTorch's names, listed in layers/__init__.py
from .module import Module as Module
