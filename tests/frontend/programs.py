"""Programs as their authors write them: plain NumPy, plain loops, arrays filled entry by entry."""

import numpy as np

import backsolve as bs

rng = np.random.default_rng(0)
CASES = []


def case(*arguments):
    def add(f):
        CASES.append((f, arguments))
        return f

    return add


@case(rng.normal(size=(6, 6)) + 4 * np.eye(6), rng.normal(size=6))
def gauss_pivot(A, b):
    A = A.copy()
    b = b.copy()
    n = len(b)
    for k in range(n):
        p = k + np.argmax(np.abs(A[k:, k]))
        if p != k:
            row = A[k].copy()
            A[k] = A[p]
            A[p] = row
            t = b[k]
            b[k] = b[p]
            b[p] = t
        for i in range(k + 1, n):
            f = A[i, k] / A[k, k]
            A[i, k:] -= f * A[k, k:]
            b[i] -= f * b[k]
    x = np.zeros(n)
    for i in range(n - 1, -1, -1):
        x[i] = (b[i] - A[i, i + 1 :] @ x[i + 1 :]) / A[i, i]
    return np.sum(x**2)


@case(
    rng.normal(size=40),
    rng.normal(size=40) + 3,
    rng.normal(size=39) * 0.3,
    rng.normal(size=39) * 0.3,
)
def thomas(d, b, a, c):
    n = len(d)
    cp = np.zeros(n - 1)
    dp = np.zeros(n)
    cp[0] = c[0] / b[0]
    dp[0] = d[0] / b[0]
    for i in range(1, n):
        m = b[i] - a[i - 1] * cp[i - 1]
        if i < n - 1:
            cp[i] = c[i] / m
        dp[i] = (d[i] - a[i - 1] * dp[i - 1]) / m
    x = np.zeros(n)
    x[n - 1] = dp[n - 1]
    for i in range(n - 2, -1, -1):
        x[i] = dp[i] - cp[i] * x[i + 1]
    return x @ x


@case(rng.normal(size=(12,)), rng.normal(size=(9,)))
def softdtw(x, y):
    n, m = len(x), len(y)
    R = np.full((n + 1, m + 1), 1e10)
    R[0, 0] = 0.0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            c = (x[i - 1] - y[j - 1]) ** 2
            a, b_, d = -R[i - 1, j - 1], -R[i - 1, j], -R[i, j - 1]
            mx = max(a, b_, d)
            R[i, j] = c - (mx + np.log(np.exp(a - mx) + np.exp(b_ - mx) + np.exp(d - mx)))
    return R[n, m]


@case(np.abs(rng.normal(size=(5, 5))) + 0.1)
def floyd(D):
    D = D.copy()
    n = D.shape[0]
    for k in range(n):
        for i in range(n):
            for j in range(n):
                if D[i, k] + D[k, j] < D[i, j]:
                    D[i, j] = D[i, k] + D[k, j]
    return np.sum(D * D)


@case(2.0, 3.0)
def newton_while(a, b):
    x = a
    it = 0
    while abs(x * x * x - b) > 1e-12 and it < 100:
        x = x - (x**3 - b) / (3 * x * x)
        it += 1
    return x * a


@case(np.array([1.0, 0.5]), 0.3)
def adaptive_rk(y, mu):
    t = 0.0
    h = 0.1

    def f(y):
        return np.array([y[1], mu * (1 - y[0] ** 2) * y[1] - y[0]])

    while t < 2.0:
        if t + h > 2.0:
            h = 2.0 - t
        k1 = f(y)
        k2 = f(y + h * k1)
        ye = y + h * k1
        yn = y + h / 2 * (k1 + k2)
        err = np.max(np.abs(yn - ye))
        if err < 1e-2:
            t = t + h
            y = yn
            h = h * 1.2
        else:
            h = h * 0.5
    return np.sum(y**2)


@case(rng.normal(size=(7, 3)))
def nbody(x):
    n = x.shape[0]
    e = 0.0
    for i in range(n):
        for j in range(i + 1, n):
            r = 0.0
            for d in range(3):
                r += (x[i, d] - x[j, d]) ** 2
            e += 1 / np.sqrt(r + 0.01)
    return e


@case(rng.normal(size=(16,)))
def fft_rec(x):
    def fft(re, im):
        n = len(re)
        if n == 1:
            return re, im
        er, ei = fft(re[::2], im[::2])
        orr, oi = fft(re[1::2], im[1::2])
        k = np.arange(n // 2)
        c = np.cos(-2 * np.pi * k / n)
        s = np.sin(-2 * np.pi * k / n)
        tr = c * orr - s * oi
        ti = c * oi + s * orr
        return np.concatenate([er + tr, er - tr]), np.concatenate([ei + ti, ei - ti])

    re, im = fft(x, np.zeros(16))
    return np.sum(np.sqrt(re**2 + im**2 + 1))


@case(np.abs(rng.normal(size=(4, 4))) + 0.1, np.abs(rng.normal(size=(4, 3))) + 0.1)
def hmm(T, E):
    T = T / T.sum(1, keepdims=True)
    E = E / E.sum(1, keepdims=True)
    obs = [0, 2, 1, 1, 0, 2, 2, 1]
    a = np.ones(4) / 4 * E[:, obs[0]]
    ll = 0.0
    for o in obs[1:]:
        a = (a @ T) * E[:, o]
        s = a.sum()
        ll += np.log(s)
        a = a / s
    return ll


@case(rng.normal(size=30))
def insertion_sort(x):
    x = x.copy()
    n = len(x)
    for i in range(1, n):
        key = x[i]
        j = i - 1
        while j >= 0 and x[j] > key:
            x[j + 1] = x[j]
            j -= 1
        x[j + 1] = key
    return np.sum(x * np.arange(n))


@case(rng.normal(size=(8, 8)), rng.normal(size=8))
def cg(M, b):
    A = M @ M.T + 8 * np.eye(8)
    x = np.zeros(8)
    r = b.copy()
    p = r.copy()
    rs = r @ r
    for _ in range(50):
        Ap = A @ p
        al = rs / (p @ Ap)
        x = x + al * p
        r = r - al * Ap
        rn = r @ r
        if np.sqrt(rn) < 1e-10:
            break
        p = r + (rn / rs) * p
        rs = rn
    return b @ x


@case(rng.normal(size=50))
def upwind(u):
    u = u.copy()
    for _ in range(20):
        new = u.copy()
        for i in range(1, 49):
            if u[i] > 0:
                new[i] = u[i] - 0.1 * u[i] * (u[i] - u[i - 1])
            else:
                new[i] = u[i] - 0.1 * u[i] * (u[i + 1] - u[i])
        u = new
    return np.sum(u**2)


@case(0.5)
def bisect(p):
    lo, hi = 0.0, 4.0
    for _ in range(60):
        mid = (lo + hi) / 2
        if mid * mid - p * 3 < 0:
            lo = mid
        else:
            hi = mid
    x = bs.stop_gradient(lo)
    return x - (x * x - p * 3) / (2 * x)


@case(rng.normal(size=(6, 7)), rng.normal(size=(3, 3)))
def conv(im, k):
    out = np.zeros((4, 5))
    for i in range(4):
        for j in range(5):
            s = 0.0
            for a in range(3):
                for b in range(3):
                    s += im[i + a, j + b] * k[a, b]
            out[i, j] = max(s, 0.0)
    return np.sum(out**2)


@case(np.array([0.1, 0.2, 0.3]))
def state_dict(p):
    st = {"pos": p, "vel": np.zeros(3), "e": 0.0}
    for _ in range(100):
        acc = -st["pos"]
        st["vel"] = st["vel"] + 0.01 * acc
        st["pos"] = st["pos"] + 0.01 * st["vel"]
        st["e"] += np.sum(st["vel"] ** 2)
    return st["e"]


@case(rng.normal(size=20))
def list_app(x):
    out = []
    s = 0.0
    for i in range(20):
        s = 0.9 * s + x[i]
        out.append(np.tanh(s))
    return np.sum(np.stack(out) ** 2)


@case(rng.normal(size=20), 3)
def early_ret(x, n):
    s = 0.0
    for i in range(20):
        s += x[i] ** 2
        if s > 5.0:
            return s * np.sin(s)
    return s


@case(1.3, 0.7)
def horner(x, y):
    r = 0.0
    for c in [1.0, -2.0, 3.0, 0.5]:
        r = r * x + c * y
    return r


@case(rng.normal(size=(5, 4)))
def argminrow(X):
    tot = 0.0
    for row in X:
        best = row[0]
        for v in row[1:]:
            best = min(best, v)
        tot = tot + best**2
    return tot


@case(rng.normal(size=(10, 2)), rng.normal(size=(3, 2)))
def kmeans_loop(P, C):
    cost = 0.0
    for p in P:
        best = np.inf
        for c in C:
            d = np.sum((p - c) ** 2)
            if d < best:
                best = d
        cost += best
    return cost


@case(rng.normal(size=10), rng.normal(size=10))
def swap_inplace(x, y):
    x = x.copy()
    y = y.copy()
    for i in range(10):
        if x[i] > y[i]:
            x[i], y[i] = y[i], x[i]
    return np.sum(x * np.arange(10)) + np.sum(y**2)


@case(np.linspace(0.1, 1, 8))
def cumlog(x):
    acc = np.empty(8)
    t = 1.0
    for i, v in enumerate(x):
        t *= v
        acc[i] = np.log(t)
    return acc[-1] + acc[::2].sum()


@case(rng.normal(size=(4, 4)))
def lu_doolittle(A):
    A = A + 5 * np.eye(4)
    n = 4
    L = np.eye(n)
    U = np.zeros((n, n))
    for i in range(n):
        for k in range(i, n):
            U[i, k] = A[i, k] - sum(L[i, j] * U[j, k] for j in range(i))
        for k in range(i + 1, n):
            L[k, i] = (A[k, i] - sum(L[k, j] * U[j, i] for j in range(i))) / U[i, i]
    d = 1.0
    for i in range(n):
        d *= U[i, i]
    return np.log(np.abs(d))


@case(0.3, 1.2)
def collatzish(x, y):
    n = 0
    while x < 10:
        x = x * 1.5 if x > 1 else x + y
        n += 1
    return x / n


@case(rng.normal(size=(3, 3)), 5)
def mpow(A, n):
    R = np.eye(3)
    B = A * 0.3
    while n > 0:
        if n % 2 == 1:
            R = R @ B
        B = B @ B
        n //= 2
    return np.sum(R)


@case(rng.normal(size=12))
def running_max(x):
    m = x[0]
    out = np.zeros_like(x)
    for i in range(12):
        m = m if m > x[i] else x[i]
        out[i] = m
    return out @ out


@case(rng.normal(size=12), rng.normal(size=4))
def iir(x, a):
    y = np.zeros(12)
    for n in range(12):
        y[n] = x[n]
        for k in range(4):
            if n - k - 1 >= 0:
                y[n] -= 0.3 * a[k] * y[n - k - 1]
    return np.sum(np.abs(y))
