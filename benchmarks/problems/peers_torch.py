"""The same derivatives in PyTorch, eager, with torch.func where that is faster; float64.

`PEERS[problem, function](message)` gives the function to time. particle, saddle and det run at Python's
speed, an operation at a time, and are left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.func import grad, jacfwd, jacrev, jvp, vmap

from . import ba, gmm, ht, kmeans, llsq, lse, lstm, ode

Run = Callable[[], Any]


def tensors(args: Any) -> Any:
    if isinstance(args, dict):
        return {name: tensors(a) for name, a in args.items()}
    if isinstance(args, tuple) and any(isinstance(a, np.ndarray) for a in args):
        return tuple(tensors(a) for a in args)
    return torch.from_numpy(args) if isinstance(args, np.ndarray) else args


def backward(f: Any, parameters: Any, *rest: Any) -> Run:
    """The gradient by the tape, which is PyTorch's fastest way."""
    leaves = [p.requires_grad_() for p in parameters]
    return lambda: torch.autograd.grad(f(*leaves, *rest), leaves)


def of_hello(message: Any) -> Run:
    return backward(lambda x: x * x, [torch.tensor(float(message), dtype=torch.float64)])


def of_lse(message: Any) -> Run:
    def logsumexp(x: Any) -> Any:
        largest = x.max()
        return largest + torch.log(torch.exp(x - largest).sum())

    return backward(logsumexp, tensors(lse.prepare(message)))


def of_llsq(message: Any) -> Run:
    def objective(x: Any, t: Any) -> Any:
        polynomial = torch.linalg.vander(t, N=len(x)) @ x
        return ((torch.sign(t) - polynomial) ** 2).sum() / 2

    x, t = tensors(llsq.prepare(message))
    return backward(objective, [x], t)


def of_kmeans(message: Any) -> Run:
    def cost(c: Any, points: Any) -> Any:
        squares = (points**2).sum(1)[:, None] + (c**2).sum(1) - 2 * points @ c.T
        return squares.min(dim=1).values.sum()

    c, points = tensors(kmeans.prepare(message))

    def direction() -> Any:
        gradient = grad(lambda c: cost(c, points))
        slope, diagonal = jvp(gradient, (c,), (torch.ones_like(c),))
        return slope / diagonal

    return direction


def of_gmm(message: Any) -> Run:
    parameters, x, m, gamma = gmm.prepare(message)
    k, d = parameters[1].shape
    column, row = (torch.from_numpy(i) for i in np.triu_indices(d, 1))
    diagonal = torch.arange(d)

    def log_posterior(alpha: Any, mu: Any, q: Any, l: Any, x: Any) -> Any:
        Q = torch.zeros((k, d, d), dtype=torch.float64)
        Q[:, diagonal, diagonal] = torch.exp(q)
        Q[:, row, column] = l
        log_det = q.sum(1)
        scaled = (x - mu[:, None]) @ Q.transpose(1, 2)
        beta = (alpha + log_det)[:, None] - (scaled**2).sum(2) / 2
        likelihood = torch.logsumexp(beta, 0).sum() - len(x) * torch.logsumexp(alpha, 0)
        return likelihood - gamma**2 / 2 * (Q**2).sum() + m * log_det.sum()

    return backward(log_posterior, tensors(parameters), tensors(x))


def of_ba(message: Any) -> Run:
    cams, points, weights, features, seen_by, seen = tensors(ba.prepare(message))
    p = len(weights)

    def error(camera: Any, point: Any, weight: Any, feature: Any) -> Any:
        rotation, x = camera[:3], point - camera[3:6]
        square = (rotation**2).sum()
        angle = torch.sqrt(torch.where(square > 0, square, 1.0))
        axis = rotation / angle
        along = axis * (axis * x).sum()
        turned = torch.linalg.cross(axis, x) * torch.sin(angle)
        turned = turned + along + torch.cos(angle) * (x - along)
        seen = torch.where(square > 0, turned, x + torch.linalg.cross(rotation, x))
        flat = seen[:2] / seen[2]
        r = (flat**2).sum()
        projected = flat * (1 + camera[9] * r + camera[10] * r**2) * camera[6] + camera[7:9]
        return weight * (projected - feature)

    def sparse() -> Any:
        of_block = vmap(jacrev(error, argnums=(0, 1, 2)))
        camera, point, weight = of_block(cams[seen_by], points[seen], weights, features)
        blocks = torch.cat([camera, point, weight[:, :, None]], dim=2)
        diagonal = vmap(grad(lambda w: 1 - w**2))(weights)
        first_point = ba.CAMERA * len(cams)
        first_weight = first_point + ba.POINT * len(points)
        columns = torch.cat(
            [
                ba.CAMERA * seen_by[:, None] + torch.arange(ba.CAMERA),
                first_point + ba.POINT * seen[:, None] + torch.arange(ba.POINT),
                first_weight + torch.arange(p)[:, None],
            ],
            dim=1,
        )
        both = columns[:, None].expand(-1, 2, -1).reshape(-1)
        columns = torch.cat([both, first_weight + torch.arange(p)])
        begins = torch.cat([ba.BLOCK * torch.arange(2 * p), 2 * ba.BLOCK * p + torch.arange(p + 1)])
        return begins.int(), columns.int(), torch.cat([blocks.reshape(-1), diagonal])

    return sparse


def of_ht(message: Any) -> Run:
    theta, us, points, of, model, parents, mirrored = ht.prepare(message)
    theta, us, points, of, model = (tensors(a) for a in (theta, us, points, of, model))
    own, one = 2 if len(us) else 0, torch.eye(3, dtype=torch.float64)
    skin = model["weights"], model["base_positions"]

    def rotation_about(v: Any) -> Any:
        square = (v**2).sum()
        angle = torch.sqrt(torch.where(square > 0, square, 1.0))
        n = v / angle
        along = torch.outer(n, n)
        cross = torch.linalg.cross(one, n.expand(3, 3))
        turned = along + torch.cos(angle) * (one - along) + torch.sin(angle) * cross
        return torch.where(square < 1e-8, one, turned)

    # Which entry of θ is which angle of which bone; writing into an array has no forward mode here.
    places = np.full((len(parents), 3), len(theta))
    for finger in range(ht.FINGERS):
        at, base = 6 + ht.JOINTS * finger, 2 + ht.JOINTS * finger
        places[base, :2] = at, at + 1
        places[base + 1, 0], places[base + 2, 0] = at + 2, at + 3
    places_of = torch.from_numpy(places)

    def bone_rotations(angles: Any) -> Any:
        (cx, cz, cy), (sx, sz, sy) = torch.cos(angles).T, torch.sin(angles).T
        zero, ones = torch.zeros_like(cx), torch.ones_like(cx)
        rows = [
            [cz * cy, cz * sy * sx - sz * cx, cz * sy * cx + sz * sx, zero],
            [sz * cy, sz * sy * sx + cz * cx, sz * sy * cx - cz * sx, zero],
            [-sy, cy * sx, cy * cx, zero],
            [zero, zero, zero, ones],
        ]
        return torch.stack([torch.stack(row, dim=-1) for row in rows], dim=-2)

    def moved(by: Any) -> Any:
        turned = theta + by[own:]
        angles = torch.cat([turned, torch.zeros(1, dtype=torch.float64)])[places_of]
        relatives = model["base_relatives"] @ bone_rotations(angles)
        absolutes: list[Any] = []
        for relative, parent in zip(relatives, parents, strict=True):
            absolutes.append(relative if parent < 0 else absolutes[parent] @ relative)
        transforms = torch.stack(absolutes) @ model["inverse_base_absolutes"]
        hand = torch.einsum("vb,bij,vj->vi", skin[0], transforms[:, :3], skin[1])
        if mirrored:
            hand = hand * torch.tensor([-1.0, 1.0, 1.0], dtype=torch.float64)
        hand = hand @ rotation_about(turned[:3]).T + turned[3:6]
        if not own:
            return points - hand[of]
        a, b, c = hand[of[:, 0]], hand[of[:, 1]], hand[of[:, 2]]
        u, v = (us + by[:2])[:, :1], (us + by[:2])[:, 1:]
        return points - (u * a + v * b + (1 - u - v) * c)

    directions = torch.zeros(own + len(theta), dtype=torch.float64)
    return lambda: jacfwd(moved)(directions).reshape(-1, len(directions))


def of_lstm(message: Any) -> Run:
    parameters, state, sequence = (tensors(a) for a in lstm.prepare(message))
    bits = sequence.shape[1]

    def objective(main: Any, extra: Any) -> Any:
        gates = main.reshape(-1, 2, 4, bits)
        hidden, cell = list(state[::2]), list(state[1::2])
        total = torch.zeros((), dtype=torch.float64)
        for t in range(len(sequence) - 1):
            signal = sequence[t] * extra[0]
            for i in range(len(gates)):
                weight, bias = gates[i]
                forget = torch.sigmoid(signal * weight[0] + bias[0])
                ingate = torch.sigmoid(hidden[i] * weight[1] + bias[1])
                outgate = torch.sigmoid(signal * weight[2] + bias[2])
                change = torch.tanh(hidden[i] * weight[3] + bias[3])
                cell[i] = cell[i] * forget + ingate * change
                signal = hidden[i] = outgate * torch.tanh(cell[i])
            predicted = signal * extra[1] + extra[2]
            normalised = predicted - torch.log(2 + torch.exp(predicted).sum())
            total = total + (sequence[t + 1] * normalised).sum()
        return -total / ((len(sequence) - 1) * bits)

    return backward(objective, parameters)


def of_ode(message: Any) -> Run:
    x, s = ode.prepare(message)
    h = 2.0 / s

    def last(x: Any) -> Any:
        slope = lambda y: torch.cat([x[:1], x[1:] * y[:-1]])
        y = torch.zeros_like(x)
        for _ in range(s):
            k1 = slope(y)
            k2 = slope(y + h / 2 * k1)
            k3 = slope(y + h / 2 * k2)
            k4 = slope(y + h * k3)
            y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return y[-1]

    return backward(last, [tensors(x)])


PEERS: dict[tuple[str, str], Callable[[Any], Run]] = {
    ("hello", "double"): of_hello,
    ("gmm", "jacobian"): of_gmm,
    ("ba", "jacobian"): of_ba,
    ("lstm", "jacobian"): of_lstm,
    ("ht", "jacobian"): of_ht,
    ("kmeans", "dir"): of_kmeans,
    ("lse", "gradient"): of_lse,
    ("ode", "gradient"): of_ode,
    ("llsq", "gradient"): of_llsq,
}
