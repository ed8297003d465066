"""Connectionist temporal classification: the probability of a sequence of labels that may be stretched.

A path through time reads labels and blanks: before, between and behind L labels there are L + 1 blanks, so
it goes through 2L + 1 states. α[s] is the logarithm of the probability of all paths that are in state s now:

    α'[s] = log(e^α[s] + e^α[s−1] + e^α[s−2]) + log p(label of s),

where the third term is there only between two labels that differ.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...control import scan
from ...errors import ShapeError
from ...numpy._register import array, dtype_of, ndim_of, shape_of
from ...tensor import Staged
from ._reduction import indices, reduced
from .ctc_paths import eager_paths


def ctc_loss(
    log_probs: Any,
    targets: Any,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Any:
    """−log of the probability of the targets (N, S), given log_probs (T, N, C); also without N.

    Targets may also stand one behind the other in one long sequence. The mean is that of losses over lengths of
    targets. A target too long for its input costs ∞, or 0 with `zero_infinity`. The derivative is that of this
    formula; PyTorch's differs by a term that vanishes where log_probs come from log_softmax.
    """
    x, t = array(log_probs), array(targets)
    single = ndim_of(x) == 2
    if single:
        x = np.expand_dims(x, 1)
    if ndim_of(x) != 3:
        raise ShapeError(f"ctc_loss takes log_probs (T, N, C) or (T, C), got shape {shape_of(x)}")
    time, batch, classes = shape_of(x)
    if not 0 <= blank < classes:
        raise IndexError(f"ctc_loss: blank must be one of {classes} classes, got {blank}")
    most = shape_of(t)[-1] if ndim_of(t) else 0
    given = _lengths("input_lengths", input_lengths, batch, time)
    lengths = _lengths("target_lengths", target_lengths, batch, most)
    labels = _labels(t, lengths, single, blank, classes)
    terms = -_log_likelihood(x, labels, given, lengths, blank)
    if zero_infinity:
        terms = np.where(np.isposinf(terms), 0, terms)
    if reduction == "mean":
        terms = terms / np.maximum(lengths, 1).astype(dtype_of(x))
    terms = reduced("ctc_loss", terms, reduction)
    return terms[0] if single and reduction == "none" else terms


def _lengths(argument: str, given: Any, batch: int, most: int) -> Any:
    lengths = array(given)
    lengths = np.asarray(lengths) if not hasattr(lengths, "shape") else lengths
    if ndim_of(lengths) == 0:
        lengths = np.reshape(lengths, (1,))
    if shape_of(lengths) != (batch,):
        raise ShapeError(
            f"ctc_loss: {argument} must be one number for each of {batch} examples, got shape "
            f"{shape_of(lengths)}"
        )
    return indices("ctc_loss", argument, lengths, 0, most + 1)


def _labels(t: Any, lengths: Any, single: bool, blank: int, classes: int) -> Any:
    """(N, S), with blanks behind the end of each target."""
    if single and ndim_of(t) == 1:
        t = np.expand_dims(t, 0)
    batch = shape_of(lengths)[0]
    if ndim_of(t) == 1:
        ends = np.cumsum(lengths)
        most = shape_of(t)[0]
        if not isinstance(lengths, Staged):
            most = int(np.max(np.asarray(lengths), initial=0))
            if int(np.sum(np.asarray(lengths))) > shape_of(t)[0]:
                raise ShapeError(
                    f"ctc_loss: targets hold {shape_of(t)[0]} labels, target_lengths ask for more"
                )
        places = np.expand_dims(ends - lengths, -1) + np.arange(most)
        t = np.append(t, blank)[np.minimum(places, shape_of(t)[0])]
    if ndim_of(t) != 2 or shape_of(t)[0] != batch:
        raise ShapeError(
            f"ctc_loss takes targets (N, S) for N = {batch}, or one sequence, got shape {shape_of(t)}"
        )
    behind = np.arange(shape_of(t)[1]) >= np.expand_dims(lengths, -1)
    indices("ctc_loss", "targets", t, 0, classes, behind)
    return np.where(behind, blank, t)


def _log_likelihood(x: Any, labels: Any, given: Any, lengths: Any, blank: int) -> Any:
    time, batch, _ = shape_of(x)
    most = shape_of(labels)[1]
    states = 2 * most + 1
    between = np.full((batch, most + 1), blank)
    read = np.stack([between[:, :-1], labels.astype(between.dtype)], axis=-1)
    read = np.concatenate([np.reshape(read, (batch, 2 * most)), between[:, -1:]], axis=1)
    odd = np.arange(states) % 2 == 1
    before = np.concatenate([np.full((batch, 2), blank), read], axis=1)[:, :states]
    skips = np.logical_and(odd, np.not_equal(read, before))

    def formula(x: Any) -> Any:
        emitted = x[:, np.arange(batch)[:, None], read]
        emitted = np.where(np.arange(time)[:, None, None] < given[:, None], emitted, 0)
        return staged_paths(emitted, skips, given)

    if any(isinstance(a, Staged) for a in (x, read, given)):
        alpha = formula(x)
    else:
        read, skips, given = np.asarray(read), np.asarray(skips), np.asarray(given)
        is_read = np.zeros(shape_of(x)[1:], bool)
        is_read[np.arange(batch)[:, None], read] = True
        is_read = np.logical_and(np.arange(time)[:, None, None] < given[:, None], is_read)
        x = np.where(is_read, x, 0)  # the others have no part in it, whatever they are
        alpha = eager_paths(formula, x, read, skips, given)
    rows = np.arange(batch)
    last = alpha[rows, 2 * lengths]
    label = alpha[rows, np.maximum(2 * lengths - 1, 0)]
    return np.where(lengths > 0, np.logaddexp(last, label), last)


def staged_paths(emitted: Any, skips: Any, given: Any) -> Any:
    """α behind the last step of each example."""
    time, batch, states = shape_of(emitted)
    # In front of time all stands in state 0: from there a path begins with a blank or the first label.
    start = np.where(np.arange(states) == 0, 0.0, -np.inf).astype(dtype_of(emitted))
    nowhere = np.full((batch, 2), -np.inf, dtype_of(emitted))

    def step(alpha: Any, entry: Any) -> Any:
        k, logs = entry
        behind = np.concatenate([nowhere, alpha], axis=1)
        one, two = behind[:, 1 : states + 1], np.where(skips, behind[:, :states], -np.inf)
        moved = np.logaddexp(np.logaddexp(alpha, one), two) + logs
        return np.where(np.expand_dims(k < given, -1), moved, alpha), ()

    start = np.broadcast_to(start, (batch, states))
    alpha, _ = scan(step, start, (np.arange(time), emitted))
    return alpha
