"""What is done to modules after they are made."""

from . import parametrizations as parametrizations
from .declaring import declare as declare
from .parametrizations import register_parametrization as register_parametrization
from .parametrizations import remove_parametrizations as remove_parametrizations
from .parametrizations import spectral_norm as spectral_norm
from .parametrizations import weight_norm as weight_norm
