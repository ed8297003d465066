"""Regions in registers: loops, branches and calls of few numbers as straight code.

Scalars are registers, what a loop carries are phi nodes, small arrays are arrays of registers, and large
ones stay where they lie and are read and written in place: code as a C compiler makes it. plan.py says
whether a region is of this kind and which arrays may be overwritten; emitter.py, arrays.py and control.py
write the code; step.py makes it a step of the schedule.
"""

from .step import fits, lower

__all__ = ["fits", "lower"]
