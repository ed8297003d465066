"""Kronecker factors of Jᵀ H J: a product A ⊗ G for each parameter, from one run and a few back substitutions.

A parameter W that meets a in a contraction, y_t = W a_t for t = 1 … T (examples, places of a window), has the
gradient Σ_t ȳ_t a_tᵀ. So its block of Jᵀ H J is

    Σ_tu (a_t a_uᵀ) ⊗ S_tu        with        S_tu = (∂z/∂y_t)ᵀ H (∂z/∂y_u).

K-FAC leaves out the terms t ≠ u and the blocks between parameters, and takes the product of means for the mean
of products,

    T A ⊗ G        with        A = 1/T Σ_t a_t a_tᵀ        G = 1/T Σ_t S_tt.

That is the block itself if T = 1, or if all S_tt are alike: in a linear model with squares. A parameter that is
added meets a = 1; one that is added to W a can be folded into W's block as one more column, which meets 1, so
that A and the block have what lies between the two. One that enters in another way (read twice, scaled entry by
entry) has its block in full.

S takes a back substitution for each output, twice. Where outputs are many, `draws` seeds q with E[q qᵀ] = H,
the Hessian of a convex loss (the gradient at a drawn label is another such q), give (∂z/∂y)ᵀ q qᵀ (∂z/∂y),
which is S in the mean.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from .. import tree
from ..api import grad, jacobian, jvp, vjp, vmap
from ..errors import ShapeError, StructureError, UnsupportedError
from ..hooks import hooks
from ..ir import Program, Type, Var
from ..operators import Operator, Reshape, Transpose
from ..primitives.checks import raise_if
from ..random import State, bernoulli
from ..solve.rows import type_of_value
from ..solve.taps import Plan, plans_of, run_tapped
from ..trace import stage
from .arguments import is_complex, no_complex
from .blocks import Block, Factors, Folded, Whole

LARGEST = 2048  # entries of a parameter without factors whose block is formed


def kronecker_blocks(
    outputs: Callable[[Any], Any],
    loss: Callable[[Any], Any],
    at: Any,
    examples: int | None,
    fold: bool = False,
    draws: tuple[int, State] | None = None,
) -> list[Block]:
    """The blocks of all leaves of the parameters `at`, in order; a Folded one stands at both of its leaves.

    `draws` is how many seeds to draw for S, and a state of backsolve.random.
    """
    leaves, structure = tree.flatten(at)
    no_complex(leaves, "kfac")

    def flat(*parts: Any) -> Any:
        return _one_array(hooks.rewritten(outputs)(structure.unflatten(parts)))

    program, _ = stage(flat, [type_of_value(x) for x in leaves], lasting=True)
    # Factors of a complex layer would have to know what of it is read: its real part, its size, all of it?
    plans = [
        None if e.outputs[0].dtype.kind == "c" else plan
        for plan, e in zip(plans_of(program, sums=True), program.equations, strict=True)
    ]
    taps = {p.leaf: (p, e.outputs[0]) for p, e in zip(plans, program.equations, strict=True) if p}
    (z,), met = run_tapped(program, plans, leaves, {})
    split = _Examples(z, examples)
    H = split.curvature(loss, z)

    def shifted(*zeros: Any) -> Any:
        return run_tapped(program, plans, leaves, dict(zip(taps, zeros, strict=True)))[0][0]

    found: dict[int, Block] = {}
    if taps:
        zeros = [np.zeros(y.shape, y.dtype) for _, y in taps.values()]
        if draws is None:
            ahead, c = [split.units, np.moveaxis(H, 2, 0)], split.width
        else:
            ahead, c = [_drawn(H, *draws)], draws[0]
        seeds = np.concatenate([*ahead, split.probes])
        adjoints = vmap(lambda q: vjp(shifted, *zeros)[1](split.joined(q)))(seeds)
        biases = _biases(program, taps) if fold else {}
        for (k, (plan, _)), adjoint in zip(taps.items(), adjoints, strict=True):
            if k in biases.values():
                continue
            y, u = adjoint[:c], adjoint[c * (len(ahead) - 1) : c * len(ahead)]
            split.check_apart(adjoint[c * len(ahead) :])
            if k not in biases:
                found[k] = _factors(plan, leaves[k], met[k], y, u, split.count)
                continue
            bias = biases[k]
            both = _factors(plan, leaves[k], met[k], y, u, split.count, with_ones=True)
            column = _layout(taps[bias][0], leaves[bias], (), (both.G.shape[0], 1))
            matrix = Type((both.G.shape[0], both.A.shape[0]), both.G.dtype)
            alone = replace(both, into=Reshape(matrix, matrix.shape))
            found[k] = found[bias] = Folded(alone, (both.into, column), (k, bias))
    for k, x in enumerate(leaves):
        if k not in found:
            found[k] = _whole(flat, leaves, k, x, split, H)
    return [found[k] for k in range(len(leaves))]


class _Examples:
    """Outputs z as one row of `width` numbers for each of `count` examples."""

    def __init__(self, z: Any, axis: int | None):
        shape = tuple(np.shape(z))
        if axis is not None and not -len(shape) <= axis < len(shape):
            raise ShapeError(
                f"examples={axis} is no axis of the outputs, of shape {shape}; examples=None: all are of one"
            )
        self.axis = None if axis is None else axis % len(shape)
        self._moved = shape if self.axis is None else _first(shape, self.axis)
        self.count = 1 if self.axis is None else shape[self.axis]
        if not self.count:
            raise ShapeError(
                f"Kronecker factors are means over examples, and outputs of shape {shape} have none"
            )
        self.width = prod(shape) // self.count
        units = np.eye(self.width, dtype=z.dtype)[:, None, :]
        self.units = np.broadcast_to(units, (self.width, self.count, self.width))
        # signs by the binary digits of an example's number: any two examples differ in one of them
        digits = np.arange(self.count) >> np.arange((self.count - 1).bit_length() + 1)[::-1, None]
        signs = np.where(digits & 1, -1.0, 1.0)[:, :, None]
        probe = np.random.default_rng(0).normal(size=(self.count, self.width))
        self.probes = (signs * probe).astype(z.dtype)  # the first as it is

    def joined(self, rows: Any) -> Any:
        """(count, width) as outputs."""
        whole = np.reshape(rows, self._moved)
        return whole if self.axis is None else np.moveaxis(whole, 0, self.axis)

    def split(self, z: Any) -> Any:
        moved = z if self.axis is None else np.moveaxis(z, self.axis, 0)
        return np.reshape(moved, (self.count, self.width))

    def curvature(self, loss: Callable[[Any], Any], z: Any) -> Any:
        """The Hessian of the loss in the outputs of each example: (count, width, width)."""

        def product(q: Any) -> Any:
            return self.split(jvp(grad(loss), (z,), (self.joined(q),))[1])

        found = vmap(product)(np.concatenate([self.units, self.probes]))
        self.check_apart(found[self.width :])
        return np.moveaxis(found[: self.width], 0, 2)

    def check_apart(self, images: Any) -> None:
        """The probes' images: if they keep examples apart, only signs differ between them."""
        if self.count == 1:
            return
        sizes = np.abs(images)
        most = np.max(sizes)
        failed = np.max(np.abs(sizes - sizes[0])) > 1e4 * np.finfo(most.dtype).eps * most
        message = (
            "Kronecker factors are of a model and a loss that treat examples one by one, along the axis "
            "`examples` of the outputs; here one example sees others (batch norm? a layer that all share? "
            "another axis? for a single example: examples=None)"
        )
        raise_if(failed, UnsupportedError, message)


def _drawn(H: Any, count: int, state: State) -> Any:
    """Seeds (count, examples, width) with Σ q qᵀ = H in the mean: roots of H times random signs."""
    w, Q = np.linalg.eigh(H)
    roots = Q * np.sqrt(np.maximum(w, 0.0))[:, None, :]
    signs = 2 * bernoulli(state, 0.5, (count, *H.shape[:2])).astype(H.dtype) - 1
    return np.sum(roots[None] * signs[:, :, None, :], axis=-1) / np.sqrt(count).astype(H.dtype)


def _biases(program: Program, taps: dict[int, tuple[Plan, Var]]) -> dict[int, int]:
    """Weights by number, and the bias that is all that is added to what each gives."""
    reads: dict[Var, int] = {}
    for v in [v for e in program.equations for v in e.inputs] + list(program.outputs):
        if type(v) is Var:
            reads[v] = reads.get(v, 0) + 1
    makers = {y: k for k, (plan, y) in taps.items() if plan.place is not None and reads[y] == 1}
    of_sum = {e.outputs[0]: e.inputs for e in program.equations if e.primitive.name == "add"}
    found = {}
    for bias, (plan, y) in taps.items():
        if plan.place is not None:
            continue
        weight = next((makers[v] for v in of_sum[y] if type(v) is Var and v in makers), None)
        if weight is None or taps[weight][1].shape != y.shape:
            continue
        w, _, made = taps[weight][0].labels
        if [made.index(c) for c in w if c in made] == [
            plan.labels[2].index(c) for c in plan.labels[0]
        ]:
            found[weight] = bias
    return found


def _factors(
    plan: Plan, W: Any, a: Any, y: Any, u: Any, examples: int, with_ones: bool = False
) -> Factors:
    w, met, made = plan.labels
    many = [c for c in made if c not in w]
    outs, ins = [c for c in w if c in made], [c for c in w if c not in made]
    count = prod(y.shape[1 + made.index(c)] for c in many)
    y, u = (_rows(x, made, [*many, *outs], count) for x in (y, u))
    a = np.ones((count, 1), y.dtype) if a is None else _rows(a[None], met, [*many, *ins], count)[0]
    total = np.tensordot(y, u, ((0, 1), (0, 1)))
    G = (total + total.T) / (2 * count)
    into = _layout(plan, W, [w.index(c) for c in [*outs, *ins]], (G.shape[0], a.shape[1]))
    if with_ones:
        a = np.concatenate([a, np.ones((count, 1), a.dtype)], axis=1)
    return Factors(a.T @ a / count, G, count, into, (a, y, u) if count == examples else None)


def _rows(x: Any, labels: str, order: Sequence[str], count: int) -> Any:
    """(C, *labels) as (C, count, the rest)."""
    turned = np.transpose(x, (0, *[1 + labels.index(c) for c in order]))
    return np.reshape(turned, (x.shape[0], count, -1))


def _layout(plan: Plan, W: Any, order: Sequence[int], shape: tuple[int, int]) -> Operator:
    """From the parameter to a matrix, outputs × inputs."""
    into: Operator = Reshape(type_of_value(W), np.shape(W))
    for e in plan.turns:
        before = into.out_type
        turn = Transpose(before, e.params["axes"]) if e.primitive.name == "permute" else None
        into = (turn or Reshape(before, e.params["shape"])) @ into
    if plan.place is not None:
        into = Transpose(into.out_type, tuple(order)) @ into
    return Reshape(into.out_type, shape) @ into


def _whole(
    flat: Callable[..., Any], leaves: Sequence[Any], k: int, x: Any, split: _Examples, H: Any
) -> Whole:
    size = prod(np.shape(x))
    if size > LARGEST:
        raise UnsupportedError(
            f"parameter {k}, of shape {np.shape(x)}, is not read once, in one contraction or sum: its block "
            f"has no Kronecker factors, and with {size} entries it is too large to be formed"
        )

    def of_one(part: Any) -> Any:
        return split.split(flat(*[part if n == k else v for n, v in enumerate(leaves)]))

    J = np.reshape(jacobian(of_one)(x), (split.count, split.width, size))
    matrix = np.tensordot(J, H @ J, ((0, 1), (0, 1)))
    return Whole((matrix + matrix.T) / 2)


def _first(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return (shape[axis], *shape[:axis], *shape[axis + 1 :])


def _one_array(z: Any) -> Any:
    if isinstance(z, list | tuple | dict) or np.ndim(z) == 0:
        raise StructureError(
            "Kronecker factors are of a model that gives one array of outputs, examples along an axis"
        )
    if is_complex(z):
        raise UnsupportedError(
            "Kronecker factors are of real outputs: let the model give real and imaginary parts"
        )
    return z
