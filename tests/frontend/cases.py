"""Functions of numbers with all kinds of control flow in them: (function, arguments…) to be compared."""

from __future__ import annotations

import dataclasses
import functools
import math

import numpy as np

CASES = []


def case(*arguments):
    def note(f):
        CASES.extend((f, a) for a in arguments)
        return f

    return note


@case((2.0,), (-2.0,), (0.0,))
def branch(x):
    if x > 1:
        y = x * 2
    elif x < -1:
        y = -x
    else:
        y = x + 10
    return y


@case((2.0,), (-2.0,))
def early_return(x):
    if x > 0:
        return x * 3
    z = x * x
    return z + 1


@case((2.0, 3.0), (2.0, -3.0), (-2.0, 3.0))
def nested_returns(x, y):
    if x > 0:
        if y > 0:
            return x + y
        x = x * 2
    else:
        y = y * 2
    return x - y


@case((2.0, -1.0), (0.5, 4.0), (-1.0, 3.0))
def logic(x, y):
    a = 1.0 if x > 0 and y > 0 else 2.0
    b = 1.0 if x > 1 or not y > 0 else 3.0
    c = 1.0 if 0 < x < 1 < y else 4.0
    return a + 10 * b + 100 * c


@case((100.0,), (1.0,), (0.3,))
def halve(x):
    n = 0
    while x > 1:
        x = x / 2
        n = n + 1
    return x + n


@case((0.1,), (1.5,), (3.0,))
def break_out(x):
    total = 0.0
    for i in range(20):
        if total > 5:
            break
        total = total + x * i
    else:
        total = total + 100
    return total


@case((0.3,), (2.0,))
def skip(x):
    total = 0.0
    for i in range(12):
        if i * x > 3:
            continue
        total = total + i * x
        if total > 100:
            break
    return total


@case((0.3,), (2.0,), (200.0,))
def return_from_loop(x):
    s = 0.0
    for i in range(30):
        s = s + x
        if s > 10:
            return s * i
    return -s


@case((2.0,), (9.0,))
def forever(x):
    while True:
        x = x * 1.5
        if x > 50:
            break
    return x


@case((2.0,), (90.0,))
def forever_return(x):
    k = 0
    while True:
        x = x * 1.5
        k += 1
        if x > 50:
            return x + k


@case((2.0,), (9.0,))
def while_else(x):
    n = 0
    while x < 8:
        x = x + 1.5
        n += 1
        if x > 7.9:
            break
    else:
        n = n + 100
    return x + n


@case((np.arange(5.0),), (np.arange(12.0),))
def rows(v):
    s = 0.0
    for x in v:
        s = s + x * x
    return s


@case(
    (np.arange(12.0), np.ones(10)),
)
def zipped(v, w):
    s = 0.0
    for k, (x, y) in enumerate(zip(v, w)):  # noqa: B905
        s = s + k * x * y
    for x in reversed(v):
        s = s * 0.5 + x
    for i, x in enumerate(reversed(v), 3):
        s = s + i * x
    for k in range(20, 0, -3):
        s = s + k * v[0] + v[k // 2]
    return s


@case((np.arange(12.0),), (np.arange(3.0),))
def writes(v):
    n = len(v)
    y = np.zeros(n)
    z = y
    for i in range(n):
        y[i] = v[i] * 2
        if i > 0:
            y[i] += z[i - 1]
    y[1:3] = 7.0
    y[-1] += 1
    return y + z


@case((np.arange(12.0).reshape(3, 4), 1.0), (np.arange(90.0).reshape(9, 10), 2.0))
def nested_loops(A, x):
    n, m = A.shape
    B = np.zeros((n, m))
    total = 0.0
    for i in range(n):
        for j in range(m):
            if A[i, j] > 5 * x:
                B[i, j] += A[i, j] * x
            else:
                B[i, j] = -x
        total = total + B[i].sum()
    return total + B


@dataclasses.dataclass
class Ball:
    height: float
    speed: float
    bounces: int = 0


@case((1.0,), (3.0,))
def attributes(x):
    ball = Ball(x, 0.0)
    for _ in range(40):
        ball.speed = ball.speed - 0.1
        ball.height += ball.speed
        if ball.height < 0:
            ball.height = -ball.height
            ball.speed = -ball.speed * 0.9
            ball.bounces += 1
    return ball.height + ball.speed + ball.bounces


@case((1.0,), (3.0,))
def tuples_and_dicts(x):
    pair = (x, x * 2)
    d = {"a": x, "b": 0.0}
    for _ in range(15):
        a, b = pair
        pair = b, a + b * 0.1
        d["a"] = d["a"] + pair[0]
        if d["a"] > 10:
            d["b"] += 1.0
    return pair[0] + pair[1] + d["a"] * d["b"]


def helper(x, k):
    if x > k:
        return x - k
    return k - x


@case((1.0,), (3.0,))
def calls_helper(x):
    s = 0.0
    for k in range(12):
        s = s + helper(x, k)
    return s + functools.partial(helper, k=2)(x) + (lambda t: t if t > 0 else -t)(-x)


@case((1.0,), (3.0,))
def closure_state(x):
    total = 0.0

    def add(v):
        nonlocal total
        if v > 0:  # noqa: SIM108
            total = total + v
        else:
            total = total - 2 * v

    for k in range(5):
        add(x - k)
    for k in range(15):
        add(x - k)
    return total


@case((1.0,), (3.0,))
def closures_made_inside(x):
    def make(start):
        total = start

        def add(v):
            nonlocal total
            total = total + v
            return total

        return add

    s = 0.0
    for k in range(15):
        add = make(x)
        add(k)
        s = s + add(s * 0.1)
    return s


@case((2.0,), (-1.0,))
def lists_unrolled(x):
    out = []
    for k in range(12):
        out.append(x * k if x > 0 else x - k)
    return np.stack(out) if False else sum(out) + sum([v * v for v in out])


@case((2.0,), (30.0,))
def concrete_choices(x, mode="fast"):
    if mode == "fast":  # noqa: SIM108
        y = x
    else:
        y = undefined_name  # noqa: F821
    for name in ["a", "b"]:
        if name == "b":
            y = y * 2
    k = 0
    while k < 30:
        k += 1
        y = y + k
        if k == 20:
            continue
    assert y > 0, "not positive"
    return y + math.sin(x) + max(x, 3.0) + min(1.0, x) + float(x)


@case((np.array([3.0, 1.0, 2.0, 5.0, 4.0, 9.0, 7.0, 8.0, 6.0, 0.0]),))
def bubble_sort(v):
    v = v.copy()
    n = len(v)
    for i in range(n):
        for j in range(n - 1 - i):
            if v[j] > v[j + 1]:
                v[j], v[j + 1] = v[j + 1], v[j]
    return v


@case((3.0,), (11.0,))
def first_assigned_inside(x):
    for i in range(10):
        last = x * i
        if last > 20:
            break
    return last


@case((3.0,), (11.0,))
def argument_is_written(x):
    y = np.zeros(10)
    fill(y, x)
    for i in range(10):
        bump(y, i)
    return y


def fill(y, x):
    for i in range(10):
        y[i] = x * i if x > 4 else x


def bump(y, i):
    y[i] += 1.0
    y *= 1.01


@case((np.arange(12.0), np.ones(12)), (np.arange(3.0), np.ones(3)))
def sums(v, w):
    n = len(v)
    return (
        sum(v[i] * w[i] for i in range(n))
        + sum((a if a > 2 else -b for a, b in zip(v, w)), 5.0)  # noqa: B905
        + sum(k for k in range(20))
        + sum(a for a in v if n > 2)
    )


@case((3.0,), (11.0,))
def recursive(x):
    def down(t):
        if t < 1:
            return t + x
        return down(t / 2) * 1.5

    return down(x) + fibonacci(x)


def fibonacci(n):
    if n < 2:
        return n
    return fibonacci(n - 1) + fibonacci(n - 2)


@case((np.arange(16.0).reshape(4, 4) ** 1.5 % 7,))
def determinant(A):
    if len(A) == 1:
        return A[0, 0]
    total, sign = 0.0, 1.0
    for j in range(len(A)):
        minor = np.delete(A[1:], j, axis=1)
        total = total + sign * A[0, j] * determinant(minor)
        sign = -sign
    return total


@case((3.0, 4), (11.0, 12))
def array_of_vectors(x, n):
    p = np.zeros(3)
    v = np.array([1.0, 2.0, 3.0])
    for _ in range(n):
        p += v * x
        v = v * 0.9
        while p[0] > 10:
            p -= 1.0
    return p


class Model:
    def __init__(self, w):
        self.w = w
        self.count = 0

    def __call__(self, x):
        self.count += 1
        return self.step(x)

    def step(self, x):
        if x > 0:
            return x * self.w
        return x


class Deep(Model):
    def step(self, x):
        for _ in range(2):
            x = super().step(x) + 1
        return x


@case((3.0,), (-11.0,))
def methods(x):
    m = Deep(x * 2)
    s = 0.0
    for _ in range(10):
        s = s + m(x) * 0.01
    return s + m.count


@case((2.0,), (-1.0,), (0.7,))
def binds_in_a_condition(x):
    n = 0
    while (y := x * (n + 1)) < 5 and n < 10:
        n += 1
    else:
        y = y + 100
    if (z := y * x) > 3:
        y = z
    return y + n
