"""The public transformations. Each gives a function fresh rows, runs it, and solves its system."""

from .batching import vmap as vmap
from .gradients import grad as grad
from .gradients import jvp as jvp
from .gradients import stop_gradient as stop_gradient
from .gradients import value_and_grad as value_and_grad
from .gradients import vjp as vjp
from .jacobians import hessian as hessian
from .jacobians import hvp as hvp
from .jacobians import jacobian as jacobian
from .systems import backslash as backslash
from .systems import linearize as linearize
