"""Hessians, Gauss–Newton and Fisher matrices as operators: made by one run, applied by substitution.

A run of the gradient gives a system whose forward substitution is the Hessian's product; a run of the model
gives one whose forward and back substitution are J and Jᵀ, so that Gauss–Newton's matrix is Jᵀ H J, H the
Hessian of the loss in the model's outputs alone. No matrix is formed; nothing is run again for another vector.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import tree
from ..api import grad, hvp, jacobian, linearize
from ..api.curved import points_of, tangents_like
from ..declared import no_points
from ..errors import ConvergenceError, DTypeError, ShapeError, StructureError, UnsupportedError
from ..hooks import hooks
from ..ir import Type
from ..operators import Operator
from ..operators.base import parts
from ..optim.linear import conjugate_gradients
from ..primitives.checks import stop_if
from ..random import key as random_key
from ..solve.krylov import norm
from ..solve.packing import Packing, plain
from ..solve.rows import type_of_value
from ..system import System
from ..tensor import Staged, Tensor
from ..vary import ArgNums
from .ahead import hessian_diagonal
from .arguments import in_reals, is_complex, no_complex, of_chosen
from .blocks import Folded, on_blocks, solve_blocks
from .kronecker import kronecker_blocks
from .metrics import Metrics


class Curvature(Operator):
    """Symmetric, from differentials of the parameters to their adjoints; takes and gives their form.

    At points of a metric of their own it goes from tangents to tangents, as `hvp` does, and is symmetric in it.
    """

    __slots__ = ("_blocks", "_diagonal", "_metrics", "_times", "at", "name")

    def __init__(
        self,
        name: str,
        at: Any,  # the parameters
        times: Callable[[Any], Any],
        diagonal: Callable[[], Any],
        blocks: Callable[..., list[Any]] | None = None,  # by the axis of examples, and how
        metrics: Metrics | None = None,
    ):
        self.name, self.at, self._metrics = name, at, metrics or Metrics(())
        self._times, self._diagonal, self._blocks = times, diagonal, blocks

    @property
    def in_type(self) -> Any:
        leaves, _ = tree.flatten(self.at)
        types = tuple([Type(np.shape(x), _dtype(x)) for x in leaves])
        return types[0] if _is_number(self.at) else types

    @property
    def out_type(self) -> Any:
        return self.in_type

    @property
    def structure(self) -> frozenset[str]:
        return frozenset() if self._metrics else frozenset(["symmetric"])

    @property
    def T(self) -> Operator:
        if self._metrics:
            raise UnsupportedError(
                f"{self!r} is its own adjoint in the metric of its points alone; take bs.on(…, "
                "coordinates=True), whose coordinates are orthonormal"
            )
        return self

    def apply(self, t: Any) -> Any:
        return self._on_leaves(
            lambda leaves, form: tree.flatten(self._times(form.unflatten(leaves)))[0], t
        )

    def _on_leaves(self, f: Callable[[list[Any], tree.Structure], list[Any]], t: Any) -> Any:
        """f of the leaves of a vector, in the order of the parameters; in the form of the vector.

        It has the form of the parameters, or is a list of as many arrays.
        """
        mine, structure = tree.flatten(self.at)
        given, form = tree.flatten_like(t, structure)
        if [np.shape(x) for x in given] != [np.shape(x) for x in mine]:
            raise ShapeError(
                f"{self!r} takes vectors of the form of the parameters, of shapes "
                f"{[np.shape(x) for x in mine]}, got {[np.shape(x) for x in given]}"
            )
        if form != structure and isinstance(t, dict):
            raise StructureError(
                f"{self!r} takes vectors of the form of the parameters, got the keys {list(t)}"
            )
        _, own = tree.flatten(t)
        return own.unflatten(tree.flatten_like(form.unflatten(f(given, structure)), own)[0])

    def __call__(self, t: Any) -> Any:
        return self.apply(t)

    def diagonal(self) -> Any:
        """Its diagonal, in the form of the parameters."""
        no_complex(tree.flatten(self.at)[0], "the diagonal")
        if self._metrics:
            raise UnsupportedError(
                f"the diagonal of {self!r} is by entries, which are no coordinates of a manifold: take that at "
                "bs.on(…, coordinates=True)"
            )
        return self._diagonal()

    def trace(self) -> Any:
        leaves, _ = tree.flatten(self.diagonal())
        return sum(np.sum(x) for x in leaves)

    def solve(
        self, b: Any, damping: float = 0.0, tolerance: float = 1e-10, most: int = 1000
    ) -> Any:
        """x with (A + damping) x = b, by conjugate gradients: for a positive definite A; else an error."""
        no_points(b, "`solve`")

        def solved(leaves: list[Any], form: tree.Structure) -> list[Any]:
            leaves = [_side(x, t) for x, t in zip(leaves, parts(self.in_type), strict=True)]
            # as reals: of complex parameters the matrix is linear over the reals only
            packing = Packing([type_of_value(x) for x in leaves], "right-hand sides")
            metrics = self._metrics

            def lowered(tangent: Any) -> Any:
                return packing.pack(tree.flatten(metrics.lowered(tangent))[0])

            def times(v: Any) -> Any:
                t = form.unflatten(packing.unpack(v))
                return lowered(self._times(t)) + damping * (lowered(t) if metrics else v)

            vector = lowered(metrics.checked(form.unflatten(leaves)))
            x = conjugate_gradients(times, vector, tolerance, most)
            _check_solved(times, x, vector, tolerance)
            return packing.unpack(x)

        return self._on_leaves(solved, b)

    def kfac(
        self,
        examples: int | None = 0,
        *,
        fold_biases: bool = False,
        draws: int | None = None,
        key: Any = None,
    ) -> Kfac:
        """K-FAC's approximation: T · A ⊗ G for each parameter, A of what its layer reads, G of what it gives.

        `examples` is the axis of the model's outputs that counts them; None if all are of one example. See
        curvature/kronecker.py for what is left out; `.factors` has A, G and T, and says whether they are exact.
        With `fold_biases`, a weight and the bias behind it have one block. Of many outputs, `draws` takes so
        many random seeds for G, by the state `key` of backsolve.random, instead of two for each output.
        """
        drawn = None if draws is None else (draws, random_key(0) if key is None else key)
        if self._blocks is None:
            raise UnsupportedError(
                f"{self!r} is no Jᵀ H J and has no Kronecker factors: take bs.gauss_newton or bs.fisher"
            )
        no_complex(tree.flatten(self.at)[0], "kfac")
        return Kfac(self.at, self._blocks(examples, fold_biases, drawn))

    def __repr__(self) -> str:
        return f"{self.name}({self.shape[0]} × {self.shape[1]})"


class Kfac(Curvature):
    """A block for each parameter, most of them T · A ⊗ G: an approximation (curvature/kronecker.py)."""

    __slots__ = ("blocks",)

    def __init__(self, at: Any, blocks: list[Any]):
        super().__init__("KFAC", at, self._apply_blocks, self._diagonals)
        self.blocks = blocks

    @property
    def factors(self) -> Any:
        """The blocks, in the form of the parameters; each has `apply`, `solve` and `is_exact`."""
        return tree.flatten(self.at)[1].unflatten(self.blocks)

    def solve(self, b: Any, damping: float = 0.0, tolerance: float = 0.0, most: int = 0) -> Any:
        """x with (A + damping) x = b, block by block and without iteration."""
        return self._on_leaves(lambda leaves, _: solve_blocks(self.blocks, leaves, damping), b)

    def _apply_blocks(self, t: Any) -> Any:
        return on_blocks(self.blocks, lambda block, x: block.apply(x), t)

    def _diagonals(self) -> Any:
        def shaped(block: Any, x: Any) -> Any:
            found = block.diagonal()
            return found if isinstance(block, Folded) else np.reshape(found, np.shape(x))

        return on_blocks(self.blocks, shaped, self.at)


def hessian_operator(f: Callable[..., Any], argnums: int = 0) -> Callable[..., Curvature]:
    """The Hessian at a point as an operator: `H = hessian_operator(f)(x)`, then `H @ v`, `H.solve(b)`, …

    >>> H = hessian_operator(lambda x: np.sum(x**3) + x[0] * x[1])(np.array([1.0, 2.0]))
    >>> H @ np.array([1.0, 0.0]), H.diagonal(), H.trace()
    (array([6., 1.]), array([ 6., 12.]), np.float64(18.0))
    """
    _check_one_argument("hessian_operator", argnums)

    @functools.wraps(f)
    def run(*args: Any, **kwargs: Any) -> Curvature:
        g, (at,) = of_chosen("hessian_operator", f, args, kwargs, argnums)
        diagonal = lambda: hessian_diagonal(g)(at)
        if points_of(at):
            times = lambda v: hvp(g)(at, v)
            return Curvature("Hessian", tangents_like(at), times, diagonal, metrics=Metrics(at))
        return Curvature("Hessian", at, linearize(grad(g))(at).forward, diagonal)

    return run


def gauss_newton(model: Callable[..., Any], loss: Callable[..., Any]) -> Callable[..., Curvature]:
    """Jᵀ H J at `(parameters, *inputs, target=…)`: J of model(parameters, *inputs), H of loss(outputs, target).

    Without `target`, of loss(outputs). It is the Hessian of the loss without the curvature of the model:
    positive semi-definite where the loss is convex in the outputs.

    >>> t = np.array([0.0, 1.0, 2.0])
    >>> G = gauss_newton(lambda p: p[0] + p[1] * t, lambda z: 0.5 * np.sum(z**2))(np.zeros(2))
    >>> G @ np.array([1.0, 0.0]), G.diagonal()
    (array([3., 3.]), array([3., 5.]))
    """

    def run(parameters: Any, *inputs: Any, target: Any = None) -> Curvature:
        def outputs(p: Any) -> Any:
            return hooks.users(model)(p, *inputs)

        def cost(z: Any) -> Any:
            mine = hooks.users(loss)
            return mine(z) if target is None else mine(z, target)

        return _sandwich("GaussNewton", outputs, cost, parameters)

    return run


# Log-partition functions: their Hessian is Fisher's information in the natural parameters.
_FAMILIES: dict[str, Callable[[Any], Any]] = {
    "categorical": lambda z: np.sum(_logsumexp(z)),
    "bernoulli": lambda z: np.sum(np.logaddexp(0.0, z)),
    "poisson": lambda z: np.sum(np.exp(z)),
    "normal": lambda z: 0.5 * np.sum(z * z),
}


def fisher(model: Callable[..., Any], family: Any = "categorical") -> Callable[..., Curvature]:
    """Fisher's information in the parameters of a model of natural parameters, summed over its outputs.

    `family`: "categorical" (logits along the last axis), "bernoulli" (logits), "poisson" (logarithms of
    rates), "normal" (means, of variance 1), or a log-partition function of the outputs. For a model that gives
    the losses of examples, "normal" is the empirical Fisher matrix Σ g gᵀ.

    >>> F = fisher(lambda p: p * np.array([1.0, 2.0]), "normal")(3.0)
    >>> F @ 1.0
    5.0
    """
    partition = _FAMILIES.get(family) if isinstance(family, str) else family
    if not callable(partition):
        names = ", ".join(f'"{name}"' for name in _FAMILIES)
        raise ValueError(f"family must be one of {names} or a function, got {family!r}")

    def run(parameters: Any, *inputs: Any) -> Curvature:
        outputs = lambda p: hooks.users(model)(p, *inputs)
        return _sandwich("Fisher", outputs, partition, parameters)

    return run


def _sandwich(
    name: str, outputs: Callable[[Any], Any], loss: Callable[[Any], Any], at: Any
) -> Curvature:
    z, real, cost = outputs(at), outputs, loss
    if any(map(is_complex, tree.flatten(z)[0])):
        real, cost, z = in_reals(outputs, loss, z)
    inner = linearize(real)(at)
    outer = linearize(grad(cost))(z)
    metrics = Metrics(at)

    def times(v: Any) -> Any:
        return metrics.raised(inner.backward(outer.forward(inner.forward(metrics.checked(v)))))

    return Curvature(
        name,
        tangents_like(at),
        times,
        lambda: _diagonal_of(inner, outer, real, at),
        lambda *how: kronecker_blocks(outputs, loss, _plain(at), *how),
        metrics,
    )


def _diagonal_of(inner: System, outer: System, outputs: Callable[[Any], Any], at: Any) -> Any:
    """Σ_ab J_ak H_ab J_bk: by J, outputs × parameters, not by the square of the parameters."""
    leaves, structure = tree.flatten(tangents_like(at))

    def flat(p: Any) -> Any:
        parts = [np.reshape(x, (-1,)) for x in tree.flatten(outputs(p))[0]]
        return np.concatenate(parts) if len(parts) > 1 else parts[0]

    columns, _ = tree.flatten(jacobian(flat)(at))
    H = _dense(outer)
    found = []
    for J, x in zip(columns, leaves, strict=True):
        matrix = np.reshape(J, (H.shape[0], int(np.size(x))))
        found.append(np.reshape(np.sum(matrix * (H @ matrix), axis=0), np.shape(x)))
    return structure.unflatten(found)


def _dense(outer: System) -> Any:
    blocks: list[Any] = tree.flatten(outer.jacobian())[0]
    sizes = [t.size for t in outer.out_types]
    rows = [
        np.concatenate(
            [
                np.reshape(b, (sizes[i], n))
                for b, n in zip(blocks[i * len(sizes) : (i + 1) * len(sizes)], sizes, strict=True)
            ],
            axis=1,
        )
        for i in range(len(sizes))
    ]
    return np.concatenate(rows, axis=0)


def _logsumexp(z: Any) -> Any:
    top = np.max(z, axis=-1, keepdims=True)
    top = top.detach() if isinstance(top, Tensor) else top
    return np.log(np.sum(np.exp(z - top), axis=-1)) + top[..., 0]


def _plain(at: Any) -> Any:
    if points_of(at):
        raise UnsupportedError(
            "Kronecker factors are of all entries, and tangents of a declared parameter are fewer: "
            'take optim.NaturalGradient(loss, method="kfac"), which solves within them'
        )
    return at


def _check_solved(times: Callable[[Any], Any], x: Any, b: Any, tolerance: float) -> None:
    """Conjugate gradients end at a direction of no curvature, or after so many rounds, with what they have."""
    x, b = plain(x), plain(b)
    left, size = norm(b - plain(times(x))), norm(b)
    most = max(100 * tolerance, 1000 * np.finfo(b.dtype).eps) * size
    message = (
        "conjugate gradients did not solve A x = b: they are for a positive definite A; give a damping that "
        "makes it so, more rounds (most=…), or a larger tolerance"
    )
    if isinstance(left, Staged):
        stop_if(~(left <= most), "ArithmeticError", message)
    elif not left <= most:
        raise ConvergenceError(f"{message}. |A x − b| is {float(left):.3g}, |b| {float(size):.3g}")


def _side(b: Any, t: Type) -> Any:
    """A right-hand side: complex where its parameter is, real where that is."""
    b = np.asarray(b) if isinstance(b, float | int | complex) else b
    if t.dtype.kind != "c" and b.dtype.kind == "c":
        raise DTypeError(
            f"a right-hand side must be real where its parameter is ({t.dtype}), got {b.dtype}: solve for the "
            "real and the imaginary part one by one"
        )
    return b.astype(np.result_type(b.dtype, t.dtype)) if t.dtype.kind == "c" else b


def _dtype(x: Any) -> np.dtype[Any]:
    plain = np.dtype(complex if isinstance(x, complex) else float)
    found: np.dtype[Any] = x.dtype if hasattr(x, "dtype") else plain
    return found


def _is_number(x: Any) -> bool:
    return isinstance(x, np.ndarray | np.generic | float | complex | Tensor)


def _check_one_argument(what: str, argnums: ArgNums) -> None:
    if not isinstance(argnums, int | np.integer):
        raise StructureError(
            f"`{what}` is by one argument, got argnums={argnums!r}: put several into a tuple or dict"
        )
