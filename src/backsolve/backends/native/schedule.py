"""From a Program to steps: fused loop nests and matrix products over buffers.

Equations are taken in order. Element-wise ones join an open kernel of the same domain (its loops run
over the same shape) whenever all they read is there before it; so chains, broadcasts and reductions
become one pass. What lives in memory, and where, is in placement.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...ir import Equation, Program, Shape, Type, Var, type_of
from . import elsewhere
from .accumulate import count_uses, defer, lower_sum
from .attention import LOWER as ATTENTION
from .bounds import ANY, EXACT, bounds_after
from .checks import LOWER as CHECKS
from .cholesky import LOWER as FACTORS
from .decompositions import LOWER as DECOMPOSITIONS
from .eigenvalues import LOWER as EIGENVALUES
from .elimination import LOWER as ELIMINATION
from .equations import LOWER as EQUATIONS
from .failure import Failures, placed
from .fourier import LOWER as FOURIER
from .indexing import LOWER as INDEXING
from .kernel import Kernel
from .lapack import LOWER as LINEAR
from .numbers.integer import OUTGROWS, OVERFLOW, is_python_integer
from .numbers.refusals import is_possible, refusal
from .pieces import find_pieces
from .placement import Placement
from .recompute import compute_again
from .regions import LOWER as REGIONS
from .scans import LOWER as SCANS
from .shapes import LOWER as SHAPES
from .sorting import LOWER as SORTING
from .squaring import LOWER as SQUARING
from .stacks import Stacks
from .support import DTYPES, REDUCTIONS, Unsupported, fits, is_native_elementwise
from .views import View
from .windows import LOWER as WINDOWS

if TYPE_CHECKING:
    from .array_regions.inside import Inside
    from .convolving import Adjoint

# Equations that are lowered in a file of their own.
LOWER = {
    **{**SHAPES, **WINDOWS, **ATTENTION, **INDEXING, **SCANS, **SORTING, **CHECKS},
    **{**FACTORS, **LINEAR, **DECOMPOSITIONS, **EIGENVALUES, **ELIMINATION, **EQUATIONS},
    **{**FOURIER, **SQUARING},
}
MAX_STATEMENTS = 512  # in one kernel: of more, too many live in spilled registers


def _types(program: Program) -> list[Type]:
    constants = [v for v, _ in program.constants]
    made = [v for e in program.equations for v in e.outputs]
    return [type_of(a) for a in (*program.inputs, *constants, *made, *program.outputs)]


class Schedule(Placement):
    def __init__(self, program: Program, inside: Inside | None = None, unsafe: bool = False):
        super().__init__(program, inside)
        self.failures: Failures = Failures(unsafe) if inside is None else self.root.failures
        self.stacks: Stacks = Stacks() if inside is None else self.root.stacks
        self.sites: list[int] = []  # places of this region that make stacks
        self.callees: dict[Any, Any] = {} if inside is None else self.root.callees
        self.register_callees: Any = None  # of the root: functions (registers/calls.py)
        self.called: list[Any] = []  # of the root: what NumPy is called back for
        self.uses = count_uses(program.equations, program.outputs)
        self.deferred: dict[Var, Equation] = {}  # parts that wait for their sum (accumulate.py)
        self.folded: dict[Var, Adjoint] = {}  # products that wait for their fold (convolving.py)
        self.readers: dict[Var, list[Equation]] = {}
        for e in program.equations:
            for a in e.inputs:
                if type(a) is Var:
                    self.readers.setdefault(a, []).append(e)
        self.makers = {v: e for e in program.equations for v in e.outputs}
        self.pieces = find_pieces(self)
        self.matrices: dict[Any, View] = {}  # copies of operands of products, in one piece
        self.factors: dict[Any, tuple[View, View]] = {}  # of matrices, by elimination or Schur
        for t in _types(program):
            if t.dtype not in DTYPES:
                raise Unsupported(f"dtype {t.dtype}")
        self.place_inputs()
        for self.now, e in enumerate(program.equations):
            self._lower(e)
        self.place_outputs()

    def fail(self, kind: type[Exception], message: str, may_go: bool = False) -> int:
        """The code with which a step makes the program raise this exception.

        0 for a check that `may_go`, if nobody wants it.
        """
        return 0 if may_go and self.failures.unsafe else self.failures.code(kind, message)

    def unsupported(self, what: str) -> Exception:
        return Unsupported(what)

    def _lower(self, e: Equation) -> None:
        name = e.primitive.name
        if name in REGIONS:
            REGIONS[name](self, e)
            return
        if not all(fits(a, e) for a in e.inputs):
            raise Unsupported(f"{name} with a Python number that its dtype cannot hold")
        if is_python_integer(e) and name not in (*EXACT, *OUTGROWS):
            raise Unsupported(f"{name} of Python integers, which have no bounds,")
        if e.outputs[0] in self.pieces:
            return
        if not defer(self, e) and not (name == "add" and lower_sum(self, e)):
            self.lower_now(e)

    def lower_now(self, e: Equation) -> None:
        name = e.primitive.name
        if name in LOWER:
            LOWER[name](self, e)
        elif name in REDUCTIONS:
            self._lower_reduction(e)
        elif is_native_elementwise(e):
            self.lower_elementwise(e)
        else:
            elsewhere.lower(self, e)

    def lower_elementwise(self, e: Equation) -> None:
        out = e.outputs[0]
        at = self.join(out.shape, e.inputs)
        kernel = self.kernel(at)
        kernel.statements.append(e)
        kernel.made.add(out)
        self.home[out] = at
        bounds = bounds_after(self, e)
        if bounds != ANY:
            self.ranges[out] = bounds
        elif is_python_integer(e) and e.primitive.name in OUTGROWS:
            kernel.refusals[out] = self.fail(OVERFLOW[0], placed(OVERFLOW[1], e.where))
        refused = refusal(e)
        if refused is not None and is_possible(refused, *self.range_of(e.inputs[-1])):
            kernel.refusals[out] = self.fail(refused[0], placed(refused[1], e.where))

    def join(
        self, domain: Shape, inputs: Any, axes: tuple[int, ...] | None = None, after: int = -1
    ) -> int:
        """The latest kernel over `domain` that can take a statement on `inputs`, or a new one.

        It stands behind step `after`.
        """
        variables = [a for a in inputs if type(a) is Var and a not in self.numbers]
        for at in range(len(self.steps) - 1, max(after, self.barrier), -1):
            kernel = self.steps[at]
            if not isinstance(kernel, Kernel) or kernel.domain != domain:
                continue
            if len(kernel.statements) >= MAX_STATEMENTS:
                continue
            if axes is not None and kernel.axes not in (None, axes):
                continue
            if all(self._reaches(a, at) for a in variables):
                break
        else:
            at = len(self.steps)
            kernel = Kernel(domain)
            self.steps.append(kernel)
        for a in variables:
            if a in kernel.made or a in kernel.loads or compute_again(self, a, kernel, at):
                continue
            kernel.loads[a] = self.view_of(a).broadcast(domain)  # stored by the kernel it lives in
        return at

    def _reaches(self, a: Var, at: int) -> bool:
        """Whether kernel `at` can read `a`: from its own registers, or from memory filled before it."""
        home = self.home.get(a)
        if home == at:
            return a in self.kernel(at).made
        if a in self.views:
            return self.ready[self.views[a].buffer] < at
        return home is not None and home < at

    def _lower_reduction(self, e: Equation) -> None:
        (a,), out = e.inputs, e.outputs[0]
        axes, keepdims = e.params["axis"], e.params["keepdims"]
        domain = type_of(a).shape
        at = self.join(domain, e.inputs, axes)
        kernel = self.kernel(at)
        view = self.new_buffer(out.shape, out.dtype)
        kept = (
            view
            if keepdims
            else view.reshape(tuple(1 if k in axes else n for k, n in enumerate(domain)))
        )
        assert kept is not None
        how = REDUCTIONS[e.primitive.name]
        kernel.reductions.append((how, a, kept.broadcast(domain)))
        kernel.axes = axes
        self.views[out] = view
        self.ready[view.buffer] = at
