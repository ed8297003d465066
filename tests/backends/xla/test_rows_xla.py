"""Every row through XLA, against NumPy; many samples as one function, for XLA compiles slowly."""

import itertools
import warnings

import numpy as np
import pytest

from backsolve.primitive import PRIMITIVES
from backsolve.testing.backends import check_together
from backsolve.testing.samples import cases

pytest.importorskip("jax")

PARTS = 10
REAL, COMPLEX = ("float32", "float64", "int64", "bool"), ("complex64", "complex128")
# What NumPy and SciPy compute on the host, of real numbers: no words of XLA's, and no formula of ours.
ON_HOST = set([])
# And of complex ones.
ON_HOST_COMPLEX = set([])


def chosen(name, dtypes):
    """One sample per dtype and metadata, with the shapes in turn."""
    found = [c for c in cases(name) if c.dtype in dtypes]
    found.sort(key=lambda c: (c.dtype, str(c.params)))
    groups = itertools.groupby(found, key=lambda c: (c.dtype, str(c.params)))
    for k, (_, group) in enumerate(groups):
        shapes = list(group)
        yield shapes[k % len(shapes)]


@pytest.mark.parametrize("dtypes", [REAL, COMPLEX], ids=["real", "complex"])
@pytest.mark.parametrize("part", range(PARTS))
def test_rows(part, dtypes):
    names = sorted(PRIMITIVES)[part::PARTS]
    samples = [case for name in names for case in chosen(name, dtypes)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", np.exceptions.ComplexWarning)
        found = check_together(samples)
    assert found <= (ON_HOST if dtypes is REAL else ON_HOST_COMPLEX)
