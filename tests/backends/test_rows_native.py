"""Every row runs natively in every dtype, but for what NumPy is called back for, named with its reason."""

from __future__ import annotations

import itertools
import re
import warnings
from pathlib import Path

import numpy as np
import pytest

from backsolve.primitive import PRIMITIVES
from backsolve.testing.backends import check_backend
from backsolve.testing.samples import EVERY_OTHER, cases

CALLED = ("fft", "rfft", "irfft")


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
            native = check_backend(case)
        if name in CALLED:
            assert not native, f"{case} runs natively: take it off the exceptions"
        else:
            assert native, f"{case} is computed by NumPy"


def test_the_documentation_names_what_is_called_back():
    page = Path(__file__).parents[2] / "docs" / "design" / "native.md"
    text = page.read_text(encoding="utf-8")
    paragraph = text[text.index("*What has no native form*") :].split("\n\n")[0]
    assert set(re.findall(r"`(\w+)`", paragraph)) == set(CALLED)
