r"""Symbolic differentiation: from a formula to the formula of its derivative.

A Python function of scalars becomes an expression, the rules of calculus make another one of it:

    Expr := Symbol(name, index) | Number(value) | Call(primitive, Expr*, **metadata)

>>> import numpy as np
>>> def f(x1, x2):
...     return np.log(x1) + x1 * x2 - np.sin(x2)
>>> expr = trace(f)
>>> expr
log(x1) + x1 * x2 - sin(x2)
>>> gradient(f)
{'x1': 1 / x1 + x2, 'x2': x1 - cos(x2)}
>>> expr.diff("x1")(x1=2.0, x2=5.0)
5.5

One formula, one place. There is no table of derivatives here: the rules are the blocks of the
primitives' rows. The row of sin says `lambda a: Diagonal(np.cos(a))`; it is called on a symbolic
operand, the Diagonal with cos(a) inside is applied to a symbolic differential t, and what is
recorded on the way, `t * cos(a)`, is the chain rule for sin (see derive.py). So a new primitive has
a symbolic derivative from the day it has a row.

Expression swell. Written as a tree, a derivative repeats what it has in common; with common
sub-expressions shared it does not, and `size` shows the difference:

>>> d = diff(trace(lambda x: np.sin(np.exp(x))), "x")
>>> d
exp(x) * cos(exp(x))
>>> size(d), size(d, shared=True)
(6, 4)
>>> print(*assignments(d), sep="\n")
t1 = exp(x)
t2 = t1 * cos(t1)

What no rule can see through is control flow: `if x > 0` needs a number, and an expression has none.
That is an error here (TracedValueError) and no difficulty for bs.grad, which runs the program.

Reading order: expr.py, simplify.py, staging.py, derive.py, walk.py, text.py.
"""

from .derive import diff as diff
from .expr import Call as Call
from .expr import Expr as Expr
from .expr import Number as Number
from .expr import Symbol as Symbol
from .staging import gradient as gradient
from .staging import trace as trace
from .text import assignments as assignments
from .walk import share as share
from .walk import size as size
