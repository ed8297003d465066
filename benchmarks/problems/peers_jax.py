"""The same derivatives in JAX, as well as it allows: jit, vmap, scan, float64; results are waited for.

`PEERS[problem, function](message)` gives the function to time. Reverse mode through a `while_loop` that the
varied value decides is an error, which the table reports.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from . import ba, det, gmm, ht, kmeans, llsq, lse, lstm, ode

jax.config.update("jax_enable_x64", True)
Run = Callable[[], Any]
wait: Callable[[Any], Any] = jax.block_until_ready  # gpu.py lets calls follow one another


def waiting(f: Any, *args: Any) -> Run:
    args = jax.tree.map(lambda x: jnp.asarray(x) if isinstance(x, np.ndarray) else x, args)
    return lambda: wait(f(*args))


def of_hello(message: Any) -> Run:
    return waiting(jax.jit(jax.grad(lambda x: x * x)), float(message))


def of_lse(message: Any) -> Run:
    def logsumexp(x: Any) -> Any:
        largest = jnp.max(x)
        return largest + jnp.log(jnp.sum(jnp.exp(x - largest)))

    return waiting(jax.jit(jax.grad(logsumexp)), *lse.prepare(message))


def of_llsq(message: Any) -> Run:
    def objective(x: Any, t: Any) -> Any:
        horner = lambda p, c: (p * t + c, None)
        polynomial, _ = lax.scan(horner, jnp.zeros_like(t), x, reverse=True)
        return jnp.sum((jnp.sign(t) - polynomial) ** 2) / 2

    return waiting(jax.jit(jax.grad(objective)), *llsq.prepare(message))


def of_kmeans(message: Any) -> Run:
    def cost(c: Any, points: Any) -> Any:
        squares = jnp.sum(points**2, 1)[:, None] + jnp.sum(c**2, 1) - 2 * points @ c.T
        return jnp.sum(jnp.min(squares, axis=1))

    @jax.jit
    def direction(c: Any, points: Any) -> Any:
        gradient = jax.grad(lambda c: cost(c, points))
        slope, diagonal = jax.jvp(gradient, (c,), (jnp.ones_like(c),))
        return slope / diagonal

    return waiting(direction, *kmeans.prepare(message))


def of_gmm(message: Any) -> Run:
    def log_posterior(parameters: Any, x: Any, m: int, gamma: float) -> Any:
        """Up to a constant."""
        alpha, mu, q, l = parameters
        k, d = q.shape
        column, row = np.triu_indices(d, 1)
        Q = jnp.zeros((k, d, d)).at[:, np.arange(d), np.arange(d)].set(jnp.exp(q))
        Q = Q.at[:, row, column].set(l)
        log_det = jnp.sum(q, axis=1)
        scaled = jnp.einsum("knj,kij->kni", x - mu[:, None], Q)
        beta = (alpha + log_det)[:, None] - jnp.sum(scaled**2, axis=2) / 2
        likelihood = jnp.sum(jax.nn.logsumexp(beta, axis=0)) - len(x) * jax.nn.logsumexp(alpha)
        return likelihood - gamma**2 / 2 * jnp.sum(Q**2) + m * jnp.sum(log_det)

    parameters, x, m, gamma = gmm.prepare(message)
    return waiting(jax.jit(jax.grad(partial(log_posterior, m=m, gamma=gamma))), parameters, x)


def of_ba(message: Any) -> Run:
    def error(camera: Any, point: Any, weight: Any, feature: Any) -> Any:
        rotation, x = camera[:3], point - camera[3:6]
        square = jnp.sum(rotation**2)
        angle = jnp.sqrt(jnp.where(square > 0, square, 1.0))
        axis = rotation / angle
        along = axis * jnp.dot(axis, x)
        turned = along + jnp.cos(angle) * (x - along) + jnp.sin(angle) * jnp.cross(axis, x)
        seen = jnp.where(square > 0, turned, x + jnp.cross(rotation, x))
        flat = seen[:2] / seen[2]
        r = jnp.sum(flat**2)
        projected = flat * (1 + camera[9] * r + camera[10] * r**2) * camera[6] + camera[7:9]
        return weight * (projected - feature)

    @jax.jit
    def sparse(cams: Any, points: Any, weights: Any, features: Any, seen_by: Any, seen: Any) -> Any:
        p = len(weights)
        of_block = jax.vmap(jax.jacrev(error, argnums=(0, 1, 2)))
        camera, point, weight = of_block(cams[seen_by], points[seen], weights, features)
        blocks = jnp.concatenate([camera, point, weight[:, :, None]], axis=2)
        diagonal = jax.vmap(jax.grad(lambda w: 1 - w**2))(weights)
        first_point = ba.CAMERA * len(cams)
        first_weight = first_point + ba.POINT * len(points)
        columns = jnp.concatenate(
            [
                ba.CAMERA * seen_by[:, None] + jnp.arange(ba.CAMERA),
                first_point + ba.POINT * seen[:, None] + jnp.arange(ba.POINT),
                first_weight + jnp.arange(p)[:, None],
            ],
            axis=1,
        )
        both = jnp.repeat(columns[:, None], 2, axis=1).reshape(-1)
        columns = jnp.concatenate([both, first_weight + jnp.arange(p)])
        begins = jnp.concatenate(
            [ba.BLOCK * jnp.arange(2 * p), 2 * ba.BLOCK * p + jnp.arange(p + 1)]
        )
        values = jnp.concatenate([blocks.reshape(-1), diagonal])
        return begins.astype(jnp.int32), columns.astype(jnp.int32), values

    return waiting(sparse, *ba.prepare(message))


def of_ht(message: Any) -> Run:
    theta, us, points, of, model, parents, mirrored = ht.prepare(message)
    own = 2 if len(us) else 0

    def rotation_about(v: Any) -> Any:
        square = jnp.sum(v**2)
        angle = jnp.sqrt(jnp.where(square > 0, square, 1.0))
        n = v / angle
        along = jnp.outer(n, n)
        turned = along + jnp.cos(angle) * (jnp.eye(3) - along)
        turned = turned + jnp.sin(angle) * jnp.cross(jnp.eye(3), n)
        return jnp.where(square < 1e-8, jnp.eye(3), turned)

    def bone_angles(theta: Any) -> Any:
        angles = jnp.zeros((len(parents), 3))
        for finger in range(ht.FINGERS):
            at, base = 6 + ht.JOINTS * finger, 2 + ht.JOINTS * finger
            angles = angles.at[base, :2].set(theta[at : at + 2])
            angles = angles.at[base + 1, 0].set(theta[at + 2]).at[base + 2, 0].set(theta[at + 3])
        return angles

    def bone_rotations(angles: Any) -> Any:
        (cx, cz, cy), (sx, sz, sy) = jnp.cos(angles).T, jnp.sin(angles).T
        zero, one = jnp.zeros_like(cx), jnp.ones_like(cx)
        rows = [
            [cz * cy, cz * sy * sx - sz * cx, cz * sy * cx + sz * sx, zero],
            [sz * cy, sz * sy * sx + cz * cx, sz * sy * cx - cz * sx, zero],
            [-sy, cy * sx, cy * cx, zero],
            [zero, zero, zero, one],
        ]
        return jnp.stack([jnp.stack(row, axis=-1) for row in rows], axis=-2)

    @jax.jit
    def jacobian(theta: Any, us: Any, points: Any, of: Any, model: Any) -> Any:
        def moved(by: Any) -> Any:
            turned = theta + by[own:]
            relatives = model["base_relatives"] @ bone_rotations(bone_angles(turned))
            absolutes: list[Any] = []
            for relative, parent in zip(relatives, parents, strict=True):
                absolutes.append(relative if parent < 0 else absolutes[parent] @ relative)
            transforms = jnp.stack(absolutes) @ model["inverse_base_absolutes"]
            names = "vb,bij,vj->vi"
            hand = jnp.einsum(names, model["weights"], transforms[:, :3], model["base_positions"])
            if mirrored:
                hand = hand * jnp.array([-1.0, 1.0, 1.0])
            hand = hand @ rotation_about(turned[:3]).T + turned[3:6]
            if not own:
                return points - hand[of]
            a, b, c = hand[of[:, 0]], hand[of[:, 1]], hand[of[:, 2]]
            u, v = (us + by[:2])[:, :1], (us + by[:2])[:, 1:]
            return points - (u * a + v * b + (1 - u - v) * c)

        return jax.jacfwd(moved)(jnp.zeros(own + len(theta))).reshape(-1, own + len(theta))

    return waiting(jacobian, theta, us, points, of, model)


def of_lstm(message: Any) -> Run:
    def objective(parameters: Any, state: Any, sequence: Any) -> Any:
        main, extra = parameters
        bits = sequence.shape[1]
        gates = main.reshape(-1, 2, 4, bits)

        def step(state: Any, now_and_next: Any) -> Any:
            now, following = now_and_next
            signal, new = now * extra[0], []
            for i in range(len(gates)):
                (wf, wi, wo, wc), (bf, bi, bo, bc) = gates[i]
                hidden, cell = state[i]
                forget, outgate = jax.nn.sigmoid(signal * wf + bf), jax.nn.sigmoid(signal * wo + bo)
                ingate, change = jax.nn.sigmoid(hidden * wi + bi), jnp.tanh(hidden * wc + bc)
                cell = cell * forget + ingate * change
                signal = outgate * jnp.tanh(cell)
                new.append(jnp.stack([signal, cell]))
            predicted = signal * extra[1] + extra[2]
            normalised = predicted - jnp.log(2 + jnp.sum(jnp.exp(predicted)))
            return jnp.stack(new), jnp.sum(following * normalised)

        start = state.reshape(-1, 2, bits)
        _, terms = lax.scan(step, start, (sequence[:-1], sequence[1:]))
        return -jnp.sum(terms) / ((len(sequence) - 1) * bits)

    return waiting(jax.jit(jax.grad(objective)), *lstm.prepare(message))


def of_ode(message: Any) -> Run:
    x, s = ode.prepare(message)
    h = 2.0 / s

    def last(x: Any) -> Any:
        slope = lambda y: jnp.concatenate([x[:1], x[1:] * y[:-1]])

        def step(y: Any, _: Any) -> Any:
            k1 = slope(y)
            k2 = slope(y + h / 2 * k1)
            k3 = slope(y + h / 2 * k2)
            k4 = slope(y + h * k3)
            return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4), None

        return lax.scan(step, jnp.zeros_like(x), None, length=s)[0][-1]

    return waiting(jax.jit(jax.grad(last)), x)


def of_det(message: Any) -> Run:
    """Recursion would be unrolled into ℓ! operations."""
    (A,), columns = det.prepare(message), np.arange(message["ell"])[None]
    return waiting(jax.jit(jax.grad(lambda A: det.minors(A, columns)[0])), A)


# ---- descent: particle and saddle

ENOUGH = 1e-5
GRADIENTS: dict[str, Any] = {"f": jax.jacfwd, "r": jax.grad}


def length(v: Any) -> Any:
    return jnp.sqrt(jnp.sum(v * v))


def argmin(f: Any, start: Any, gradient: Any) -> Any:
    def step(state: Any) -> Any:
        x, value, slope, eta, successes, _ = state
        x_new = x - eta * slope
        short = length(x_new - x) <= ENOUGH
        value_new = f(x_new)

        def accept() -> Any:
            return x_new, value_new, gradient(f)(x_new), eta, successes + 1, False

        def refuse() -> Any:
            return x, value, slope, eta / 2, 0, False

        tried = lambda: lax.cond(value_new < value, accept, refuse)
        stop = lambda: (x, value, slope, eta, successes, True)
        grow = lambda: (x, value, slope, 2 * eta, 0, False)
        return lax.cond(successes == 10, grow, lambda: lax.cond(short, stop, tried))

    going = lambda state: (length(state[2]) > ENOUGH) & ~state[5]
    first = (start, f(start), gradient(f)(start), 1e-5, 0, False)
    return lax.while_loop(going, step, first)[0]


def of_particle(modes: str, message: Any) -> Run:
    outer, inner = (GRADIENTS[mode] for mode in modes)

    def potential(x: Any, w: Any) -> Any:
        above = jnp.sqrt((x[0] - 10) ** 2 + (x[1] - (10 - w)) ** 2)
        return 1 / above + 1 / jnp.sqrt((x[0] - 10) ** 2 + x[1] ** 2)

    def miss(w: Any) -> Any:
        def step(state: Any) -> Any:
            x, velocity, acceleration = state
            velocity = velocity + 0.1 * acceleration
            acceleration = -inner(potential)(x, w)
            return x + 0.1 * velocity, velocity, acceleration

        x, velocity = jnp.array([0.0, 8.0]), jnp.array([0.75, 0.0])
        first = (x + 0.1 * velocity, velocity, -inner(potential)(x, w))
        x, velocity, _ = lax.while_loop(lambda state: state[0][1] > 0, step, first)
        return (x[0] - x[1] / velocity[1] * velocity[0]) ** 2

    return waiting(jax.jit(lambda w: argmin(miss, w, outer)), float(message["w"]))


def of_saddle(modes: str, message: Any) -> Run:
    outer, inner = (GRADIENTS[mode] for mode in modes)
    f = lambda x, y: jnp.sum(x * x) - jnp.sum(y * y)

    @jax.jit
    def saddle_point(start: Any) -> Any:
        highest = lambda x: argmin(lambda y: -f(x, y), start, inner)
        x = argmin(lambda x: f(x, highest(x)), start, outer)
        return jnp.concatenate([x, highest(x)])

    return waiting(saddle_point, np.array(message["start"], dtype=float))


PEERS: dict[tuple[str, str], Callable[[Any], Run]] = {
    ("hello", "double"): of_hello,
    ("gmm", "jacobian"): of_gmm,
    ("ba", "jacobian"): of_ba,
    ("lstm", "jacobian"): of_lstm,
    ("ht", "jacobian"): of_ht,
    ("kmeans", "dir"): of_kmeans,
    ("kmeans", "dir by products"): of_kmeans,
    ("lse", "gradient"): of_lse,
    ("ode", "gradient"): of_ode,
    ("llsq", "gradient"): of_llsq,
    ("det", "gradient"): of_det,
    ("det", "gradient by sizes"): of_det,
    **{("particle", modes): partial(of_particle, modes) for modes in ("ff", "fr", "rf", "rr")},
    **{("saddle", modes): partial(of_saddle, modes) for modes in ("ff", "fr", "rf", "rr")},
}
