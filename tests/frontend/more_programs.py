"""More programs as their authors write them: objects, helpers, iterators and jumps."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from programs import case

rng = np.random.default_rng(1)


@dataclass
class State:
    pos: object
    vel: object
    t: float = 0.0


class Params(NamedTuple):
    k: object
    c: object


@case(np.array([1.0, 0.2]), 0.7, 0.1)
def spring(x, k, c):
    p = Params(k, c)
    s = State(x, np.zeros(2))
    while s.t < 1.0:
        a = -p.k * s.pos - p.c * s.vel
        s.vel = s.vel + 0.05 * a
        s.pos = s.pos + 0.05 * s.vel
        s.t += 0.05
        if s.pos[0] < 0.3:
            s.vel = -s.vel
    return np.sum(s.pos**2) + s.t


class Net:
    def __init__(self, w):
        self.w = w
        self.log = []

    def layer(self, h, i):
        return np.tanh(h @ self.w[i])

    def __call__(self, h):
        for i in range(len(self.w)):
            h = self.layer(h, i)
        return h


@case(rng.normal(size=(3, 4, 4)) * 0.5, rng.normal(size=4))
def netcall(w, x):
    return np.sum(Net(w)(x) ** 2)


def helper_fact(n, x):
    if n <= 1:
        return x
    return helper_fact(n - 1, x) * np.sin(x * n)


@case(0.7)
def recursion_static(x):
    return helper_fact(6, x)


@case(rng.normal(size=(4, 3)))
def listcomp(X):
    norms = [np.sqrt(row @ row) for row in X]
    return np.sum(np.array(norms)) + len(norms)


@case(rng.normal(size=6), rng.normal(size=6))
def zipped(x, y):
    tot = 0.0
    for i, (a, b) in enumerate(zip(x, y)):  # noqa: B905
        if i % 2 == 0:
            tot += a * b
        elif a > b:
            tot -= a
        else:
            continue
        tot *= 0.9
    return tot


@case(1.5)
def chained(x):
    return x**2 if 0 < x < 1 or x >= 2 else (x if x > 1.2 and not x > 1.8 else -x)


@case(rng.normal(size=10))
def nested_break(x):
    out = 0.0
    for i in range(10):
        for j in range(10):
            if x[j] > x[i] + 0.5:
                out += x[j] * x[i]
                break
        else:
            out += 1.0
            continue
        if out > 3:
            break
    return out


@case(rng.normal(size=(5, 5)))
def jacobi_eig(A):
    A = (A + A.T) / 2
    for _ in range(6):
        for p in range(4):
            for q in range(p + 1, 5):
                if abs(A[p, q]) > 1e-12:
                    th = (A[q, q] - A[p, p]) / (2 * A[p, q])
                    t = np.sign(th) / (abs(th) + np.sqrt(th * th + 1)) if th != 0 else 1.0
                    c = 1 / np.sqrt(t * t + 1)
                    s = t * c
                    J = np.eye(5)
                    J[p, p] = c
                    J[q, q] = c
                    J[p, q] = s
                    J[q, p] = -s
                    A = J.T @ A @ J
    return np.max(np.diag(A))


@case(np.array([0.3, 0.4]))
def fixed_point(p):
    z = np.zeros(2)
    for _ in range(200):
        znew = np.tanh(0.5 * z[::-1] + p)
        if np.max(np.abs(znew - z)) < 1e-13:
            z = znew
            break
        z = znew
    return z @ z


@case(rng.normal(size=12))
def window(x):
    s = 0.0
    for i in range(2, 10):
        w = x[i - 2 : i + 3]
        s += np.max(w) - np.mean(w)
    return s


@case(rng.normal(size=(6,)), np.array([2, 0, 1, 5, 3, 4]))
def permuted(x, perm):
    y = np.empty_like(x)
    for i in range(6):
        y[perm[i]] = x[i] * i
    y[perm[:2]] += 1.0
    y[y < 0] = 0.0
    return np.sum(y**3)


@case(rng.normal(size=5))
def where_while(x):
    total = 0.0
    for v in x:
        w = v
        n = 0
        while np.abs(w) < 2.0 and n < 20:
            w = w * 1.3 + 0.1 * v
            n = n + 1
        total = total + w * n
    return total


@case(0.2, 0.9)
def deco_closure(a, b):
    scale = 2.0

    def mul(f):
        def inner(x):
            return scale * f(x)

        return inner

    @mul
    def g(x):
        if x > 0.5:
            return x * x
        return x

    return g(a) + g(b) * g(a)


@case(1.1)
def while_true(x):
    n = 0
    while True:
        x = np.cos(x)
        n += 1
        if n > 3 and x > 0.5:
            break
        if n > 50:
            return x * 100
    return x


@case(rng.normal(size=7))
def try_plain(x):
    try:
        k = int("3")
    except ValueError:
        k = 0
    with np.errstate(all="ignore"):
        y = x[k] ** 2
    return y + np.sum(x)


@case(rng.normal(size=9))
def cumulative(x):
    c = np.cumsum(x)
    p = np.zeros(10)
    p[1:] = c
    best = -np.inf
    lo = p[0]
    for i in range(1, 10):
        if p[i] - lo > best:
            best = p[i] - lo
        if p[i] < lo:
            lo = p[i]
    return best


@case(rng.normal(size=6), rng.normal(size=(6, 6)))
def power_iter(v, M):
    A = M @ M.T
    lam = 0.0
    for _ in range(30):
        w = A @ v
        nrm = np.linalg.norm(w)
        v = w / nrm
        lam = nrm
    return lam


def shrinking(x, n):
    if x < 0.01 or n > 12:
        return x
    return 0.5 * shrinking(x * 0.8, n + 1) + 0.1 * x * shrinking(x * 0.5, n + 5)


@case(0.9)
def tree_of_calls(x):
    return shrinking(x, 0)


def halving(x, n):
    if x < 0.01:
        return x
    return 0.5 * halving(x * 0.8, n + 1) + 0.1 * x * halving(x * 0.5, n + 5)


@case(0.9)
def tree_of_unknown_depth(x):
    return halving(x, 0)


@case(rng.normal(size=8))
def filtered(x):
    positive = sum(v * v for v in x if v > 0 if v < 2)
    largest = max(abs(v) for v in x)
    if any(v > 0.5 for v in x if v < 1) and all(v < 3 for v in x if v > 0):
        return positive + largest
    return positive


@case(rng.normal(size=40))
def filtered_many(x):
    return sum([np.exp(v) for v in x if v < 0.3]) * sum(1 for v in x if v > 0)
