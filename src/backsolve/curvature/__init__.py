"""Second derivatives by structure: operators, sums and diagonals of Hessians that are never formed."""

from .ahead import hessian_diagonal as hessian_diagonal
from .ahead import hessian_trace as hessian_trace
from .ahead import laplacian as laplacian
from .blocks import Factors as Factors
from .operators import Curvature as Curvature
from .operators import Kfac as Kfac
from .operators import fisher as fisher
from .operators import gauss_newton as gauss_newton
from .operators import hessian_operator as hessian_operator
from .samples import per_sample_grad as per_sample_grad
from .samples import per_sample_norms as per_sample_norms
