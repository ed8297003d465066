"""Loops that end by `break`, whose test is the condition on GPUs (endings.py); the CPU plays the device."""

import re

import numpy as np
import pytest

import backsolve as bs

jax = pytest.importorskip("jax")


@pytest.fixture
def compiled(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    yield lambda f: bs.jit(f, backend="xla")
    bs.settle()


def along(f):
    """Value, both derivatives and one of a derivative, at once: XLA compiles slowly."""

    def all_of(x):
        slope = bs.grad(f)
        return f(x), slope(x), bs.jvp(f, (x,), (1.0,))[1], bs.grad(slope)(x)

    return all_of


def carries_a_truth(f, *args):
    """Whether a loop hands a truth from round to round."""
    text = f.lower(*args).stages["stablehlo"]
    loops = [line for line in text.splitlines() if "stablehlo.while(" in line]
    assert loops
    return any(re.search(r"tensor<(\d+x)*i1>", line) for line in loops)


# ---- loops whose test is the condition


def falls(x):
    v, steps = 0.0, 0
    while True:
        force = np.sin(x) - 1.0
        x = x + 0.1 * v
        steps = steps + 1
        if x <= -1.0:
            break
        v = v + 0.1 * force
    return x * v + steps


def climbs(x):
    y, z = x, 1.0
    while True:
        y = y * 1.01 + 0.002 * z
        if y < 9.0:
            z = z + 0.001 * np.cos(y)
        else:
            break
    return y * z * x


def is_over_after_the_first_round(x):
    y, z = x, x
    while True:
        y = y + np.exp(z)
        if y > 0.0:
            break
        z = z * y
    return y * z


def begins_with_what_would_end_it(x):
    y, z, k = x + 10.0, x, 0
    while True:
        y = 1.1 * (y if k > 0 else x) + 0.1 * z
        k = k + 1
        if y > 5.0:
            break
        z = z * 1.1
    return y * x + k * z


def exchanges(x):
    a, b = x, 1.0 - x
    while True:
        a, b = b, a * 0.7 + 0.01
        if np.logical_or(np.abs(b) < 0.1, b > 9.0):
            break
        a = a * 0.95
    return a * x + b * b


def returns(x):
    y, z = x, x
    while True:
        y = y * 0.8 + 0.01 * z
        if y < 0.2:
            return y * z
        z = z * y


TURNED = [
    falls,
    climbs,
    is_over_after_the_first_round,
    begins_with_what_would_end_it,
    exchanges,
    returns,
]


# ---- loops that carry a truth


def ends_in_two_places(x):
    y = x
    while True:
        y = y * 1.2
        if y > 4.0:
            break
        y = y + np.sin(x)
        if y > 3.5:
            y = -y
            break
    return y * x


def asks_what_is_not_handed_on(x):
    y = x
    while True:
        step = 0.3 * np.cos(y)
        if step < 0.01:
            break
        y = y + step
    return y * x


def may_be_over_before(x):
    total, z = x, x
    for k in range(6):
        total = total * (1.0 + 0.1 * k * z)
        if total > 1.3:
            break
        z = z + 0.1
    else:
        total = total * 3.0
    return total * x * z


def changes_what_it_has_tested(x):
    y = x
    while True:
        y = y + np.exp(x)
        if y > 4.0:
            break
        y = y * 1.1
    return y * x


def asks_what_is_rounded(x):
    y = x
    while True:
        y = y * 1.2
        if y * y - x > 4.0:
            break
        y = y + 0.1
    return y * x


def has_a_test_of_its_own(x):
    y, k = x, 0
    while k < 5:
        y = y * 1.2
        if y > 0.5:
            break
        k = k + 1
    return y * x + k


def skips(x):
    y, k = x, 0
    while True:
        k = k + 1
        if k < 3:
            continue
        y = y * 1.5
        if y > 3.0:
            break
    return y * x


LEFT = [
    ends_in_two_places,
    asks_what_is_not_handed_on,
    may_be_over_before,
    changes_what_it_has_tested,
    asks_what_is_rounded,
    has_a_test_of_its_own,
    skips,
]


@pytest.mark.parametrize(
    ("f", "carries"), [*[(f, False) for f in TURNED], *[(f, True) for f in LEFT]]
)
def test_the_test_is_the_condition_or_a_truth_is_carried(compiled, f, carries):
    derived = along(f)
    g, value = compiled(derived), compiled(f)
    for x in (0.3, 0.8):
        for y, z in zip(g(x), bs.jit(derived, backend="numpy")(x), strict=True):
            np.testing.assert_allclose(float(y), z, rtol=1e-10)
    np.testing.assert_allclose(float(value(0.3)), f(0.3), rtol=1e-12)
    assert carries_a_truth(value, 0.3) == carries


# ---- failures


def reads(x, i):
    y = 0.0
    while True:
        y = y + x[i]
        if y > 3.0:
            break
        i = i + 1
    return y * x


@pytest.mark.parametrize("start", [-9, 3])
def test_what_fails_in_the_first_round_and_later(compiled, start):
    f, x = compiled(reads), np.linspace(0.5, 1.5, 5)
    np.testing.assert_allclose(np.asarray(f(x, 0)), reads(x, 0), rtol=1e-14)
    assert not carries_a_truth(f, x, 0)
    assert np.isnan(np.asarray(f(x, start))).all()
    with pytest.raises(IndexError, match="size 5"):
        bs.settle()
