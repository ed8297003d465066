"""Every row runs natively in every dtype; only a row of the user is called back (test_elsewhere.py)."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest

from backsolve.primitive import PRIMITIVES
from backsolve.testing.backends import check_backend
from backsolve.testing.samples import EVERY_OTHER, cases


def chosen(name):
    """One sample per dtype and metadata, with the shapes in turn."""
    found = sorted(cases(name, EVERY_OTHER), key=lambda c: (c.dtype, str(c.params)))
    groups = itertools.groupby(found, key=lambda c: (c.dtype, str(c.params)))
    for k, (_, group) in enumerate(groups):
        shapes = list(group)
        yield shapes[k % len(shapes)]


@pytest.mark.parametrize("name", sorted(PRIMITIVES))
def test_every_row_in_every_dtype(name):
    for case in chosen(name):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", np.exceptions.ComplexWarning)
            assert check_backend(case), f"{case} is computed by NumPy"
