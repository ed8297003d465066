"""Lets the tests here import `optimiser_cases`, which are no tests."""

from __future__ import annotations

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
