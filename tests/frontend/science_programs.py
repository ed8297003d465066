"""Programs of science and engineering: searches, filters, walks and adaptive steps."""

import numpy as np
from programs import case

rng = np.random.default_rng(2)


@case(np.array([1.0, 0.0]), 0.4, 2.0)
def embedded_runge_kutta(y, mu, end):
    def slope(t, y):
        return np.array([y[1], mu * (1 - y[0] ** 2) * y[1] - y[0] + 0.1 * np.sin(t)])

    table = [[], [1 / 2], [0.0, 3 / 4], [2 / 9, 1 / 3, 4 / 9]]
    t, h, steps = 0.0, 0.1, 0
    while t < end and steps < 1000:
        if t + h > end:
            h = end - t
        ks = []
        for row in table:
            at = y
            for a, k in zip(row, ks):  # noqa: B905
                at = at + h * a * k
            ks.append(slope(t + h * sum(row), at))
        third = y + h * sum(b * k for b, k in zip(table[3], ks))  # noqa: B905
        second = y + h * sum(b * k for b, k in zip([7 / 24, 1 / 4, 1 / 3, 1 / 8], ks))  # noqa: B905
        error = np.sqrt(np.sum((third - second) ** 2))
        if error < 1e-3:
            t = t + h
            y = third
        h = h * min(2.0, max(0.2, 0.9 * (1e-3 / (error + 1e-15)) ** 0.33))
        steps += 1
    return y[0] * y[1]


@case(np.abs(rng.normal(size=(9, 9))) + 0.1)
def shortest_paths(w):
    n = len(w)
    near = np.full(n, 1e9)
    near[0] = 0.0
    done = np.zeros(n, dtype=bool)
    for _ in range(n):
        u, best = -1, np.inf
        for v in range(n):
            if not done[v] and near[v] < best:
                best, u = near[v], v
        if u < 0:
            break
        done[u] = True
        for v in range(n):
            other = near[u] + w[u, v]
            if not done[v] and other < near[v]:
                near[v] = other
    return np.sum(near * np.arange(n))


@case(rng.normal(size=(3, 3)), rng.normal(size=(12, 3)))
def best_path(change, seen):
    n, k = seen.shape
    score = np.zeros((n, k))
    back = np.zeros((n, k), dtype=int)
    score[0] = seen[0]
    for t in range(1, n):
        for j in range(k):
            best = -1e30
            for i in range(k):
                s = score[t - 1, i] + change[i, j]
                if s > best:
                    best = s
                    back[t, j] = i
            score[t, j] = best + seen[t, j]
    path = np.zeros(n, dtype=int)
    path[n - 1] = np.argmax(score[n - 1])
    for t in range(n - 2, -1, -1):
        path[t] = back[t + 1, path[t + 1]]
    return sum(seen[t, path[t]] * (t + 1) for t in range(n)) + np.max(score[n - 1])


@case(rng.normal(size=10), rng.normal(size=(10, 12)) * 0.3, 0.9)
def particle_filter(seen, noise, decay):
    n = noise.shape[1]
    x = np.zeros(n)
    likelihood = 0.0
    for t in range(len(seen)):
        x = decay * x + noise[t]
        w = np.exp(-0.5 * (seen[t] - x) ** 2)
        total = np.sum(w)
        likelihood += np.log(total / n)
        below = np.cumsum(w / total)
        chosen = np.zeros(n, dtype=int)
        i = 0
        for j in range(n):
            while i < n - 1 and below[i] < (0.37 + j) / n:
                i += 1
            chosen[j] = i
        x = x[chosen]
    return likelihood


@case(rng.normal(size=(20, 3)), rng.normal(size=7), rng.normal(size=8))
def decision_tree(x, limits, leaves):
    feature = np.array([0, 1, 2, 0, 1, 2, 0])
    total = 0.0
    for i in range(len(x)):
        node = 0
        while node < 7:
            node = 2 * node + (1 if x[i, feature[node]] < limits[node] else 2)
        total += leaves[node - 7] * x[i, 0]
    return total


@case(2.0, 0.5, 0.1)
def controller(kp, ki, kd):
    x = v = integral = cost = 0.0
    last = None
    for _ in range(100):
        e = 1.0 - x
        integral += e * 0.02
        change = 0.0 if last is None else (e - last) / 0.02
        u = kp * e + ki * integral + kd * change
        if u > 1.5:
            u = 1.5
            integral -= e * 0.02
        elif u < -1.5:
            u = -1.5
        v += 0.02 * (u - 0.5 * v)
        x += 0.02 * v
        last = e
        cost += abs(e) * 0.02
    return cost


@case(100.0, 0.2, rng.normal(size=(10, 20)))
def knock_out(start, sigma, normals):
    paths, steps = normals.shape
    paid = 0.0
    for k in range(paths):
        s = start
        alive = True
        for t in range(steps):
            s = s * np.exp(-0.5 * sigma**2 / steps + sigma * np.sqrt(1 / steps) * normals[k, t])
            if s > 125.0 or s < 70:
                alive = False
                break
        if alive and s > 98.0:
            paid += s - 98.0
        elif not alive:
            paid += 0.1 * s
    return paid / paths


@case(rng.normal(size=15))
def under_a_skyline(heights):
    n = len(heights)
    stack = np.zeros(n, dtype=int)
    top, area = 0, 0.0
    for i in range(n):
        while top > 0 and heights[stack[top - 1]] > heights[i]:
            top -= 1
            area += heights[stack[top]] * (i - stack[top])
        stack[top] = i
        top += 1
    while top > 0:
        top -= 1
        area += heights[stack[top]] * (n - stack[top])
    return area
