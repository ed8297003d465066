"""Lets the tests here import `calls` and `references`, which are no tests."""

from __future__ import annotations

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))

# Makes the references, with PyTorch, whose networks it restates as classes: doctest would import it.
collect_ignore = ["make_model_references.py"]
