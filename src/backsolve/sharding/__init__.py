"""One program over many devices: a mesh of them, and rules that say how arrays lie on it.

`bs.jit(f, mesh=…, shard=…)` and `bs.fit(…, mesh=…, shard=…)` take both. Arrays are brought to where the rules
say; XLA splits the program to match, and adds what has to be exchanged. Its derivative is a Program like any
other, and split likewise.
"""

from __future__ import annotations

from .describe import describe as describe
from .devices import Mesh as Mesh
from .devices import mesh as mesh
from .pipeline import Pipeline as Pipeline
from .pipeline import stages as stages
from .ready import data as data
from .ready import fully as fully
from .ready import tensor as tensor
from .rules import Rule as Rule
