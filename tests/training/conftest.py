"""Lets the tests here import `killed_run`, which is no test."""

from __future__ import annotations

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
