"""Every worked example of the four source documents, with the documents' own numbers."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import backsolve as bs
from backsolve.operators import Diagonal, left, right

from .show.gates import Multiply


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


class TestPoster:
    """Akyürek, Edelman, Wang: backpropagation through back substitution with a backslash."""

    a, b, c, d = 2.0, 3.0, 5.0, 7.0

    def edge_weights(self):
        """Nodes 1 and 2 feed 3 (weights a, b), 3 feeds 4 (c), 4 feeds 5 (d)."""
        return {(2, 0): self.a, (2, 1): self.b, (3, 2): self.c, (4, 3): self.d}

    def test_path_weights_are_acd_and_bcd(self):
        L = bs.Block(self.edge_weights(), (5, 5))
        sink = (0.0, 0.0, 0.0, 0.0, 1.0)
        weights = bs.backslash((bs.I - L).T, sink)[:2]
        assert weights == (self.a * self.c * self.d, self.b * self.c * self.d)

    def test_forward_substitution_gives_the_same(self):
        L = bs.Block(self.edge_weights(), (5, 5))
        for source, weight in ((0, self.a), (1, self.b)):
            rhs = tuple(1.0 if k == source else 0.0 for k in range(5))
            assert bs.backslash(bs.I - L, rhs)[4] == weight * self.c * self.d

    def test_backward_order_needs_one_multiplication_fewer(self):
        system = bs.linearize(lambda x, y: (x * self.a + y * self.b) * self.c * self.d)(1.0, 1.0)
        assert system.cost("forward") == 4
        assert system.cost("reverse") == 3
        assert "multiplications: 4 forward, 3 backward" in str(system)
        np.testing.assert_allclose(system.backward(1.0), (70.0, 105.0))

    def test_scalar_mlp(self):
        rng = np.random.default_rng(1)
        n = 4
        w, b, x0 = rng.normal(size=n), rng.normal(size=n), 0.3

        def mlp(w, b):
            x = x0
            for k in range(n):
                x = np.tanh(w[k] * x + b[k])
            return x

        # dx_i = δ_i (x_{i−1} dw_i + w_i dx_{i−1} + db_i): L is sub-diagonal, D is block diagonal.
        x, delta = [x0], []
        for k in range(n):
            x.append(np.tanh(w[k] * x[-1] + b[k]))
            delta.append(1 - x[-1] ** 2)
        L = bs.Block({(k, k - 1): delta[k] * w[k] for k in range(1, n)}, (n, n))
        D = bs.Block(
            {(k, k): delta[k] * x[k] for k in range(n)} | {(k, n + k): delta[k] for k in range(n)},
            (n, 2 * n),
        )
        seed = (0.0,) * (n - 1) + (1.0,)
        adjoint = D.T @ bs.backslash((bs.I - L).T, seed)
        gw, gb = bs.grad(mlp, argnums=(0, 1))(w, b)
        np.testing.assert_allclose(adjoint[:n], gw)
        np.testing.assert_allclose(adjoint[n:], gb)
        dp = tuple(rng.normal(size=2 * n))
        ahead = bs.backslash(bs.I - L, D @ dp)[-1]
        expected = bs.jvp(mlp, (w, b), (np.array(dp[:n]), np.array(dp[n:])))[1]
        np.testing.assert_allclose(ahead, expected)

    def test_matrix_mlp_as_an_operator_system(self):
        """dX_i = Δ_i ⊙ (W_i dX_{i−1} + dW_i X_{i−1} + dB_i), solved by backslash with operators."""
        rng = np.random.default_rng(2)
        sizes, k = (3, 5, 4, 2), 6
        Ws = [rng.normal(size=(m, n)) for n, m in zip(sizes, sizes[1:], strict=False)]
        Bs = [rng.normal(size=(m, k)) for m in sizes[1:]]
        X0 = rng.normal(size=(3, k))
        target = rng.normal(size=(2, k))

        def loss(Ws, Bs):
            X = X0
            for W, B in zip(Ws, Bs, strict=True):
                X = np.tanh(W @ X + B)
            return ((X - target) ** 2).sum() / 2

        X, Delta = [X0], []
        for W, B in zip(Ws, Bs, strict=True):
            X.append(np.tanh(W @ X[-1] + B))
            Delta.append(1 - X[-1] ** 2)
        n = len(Ws)
        H = [Diagonal(D) for D in Delta]
        L = bs.Block({(i, i - 1): H[i] @ left(Ws[i], columns=k) for i in range(1, n)}, (n, n))
        D = bs.Block(
            {(i, i): H[i] @ right(X[i], rows=sizes[i + 1]) for i in range(n)}
            | {(i, n + i): H[i] for i in range(n)},
            (n, 2 * n),
        )
        seed = (*[np.zeros_like(x) for x in X[1:-1]], X[-1] - target)
        adjoint = D.T @ bs.backslash((bs.I - L).T, seed)
        gW, gB = bs.grad(loss, argnums=(0, 1))(Ws, Bs)
        for got, expected in zip(adjoint, [*gW, *gB], strict=True):
            np.testing.assert_allclose(got, expected, atol=1e-12)

    def test_operators_of_the_table(self):
        rng = np.random.default_rng(3)
        A, B, X = rng.normal(size=(4, 3)), rng.normal(size=(5, 2)), rng.normal(size=(2, 3))
        op = bs.operators.kronecker(A, B)
        np.testing.assert_allclose(op @ X, B @ X @ A.T)
        vec = X.reshape(-1, order="F")
        np.testing.assert_allclose((op @ X).reshape(-1, order="F"), np.kron(A, B) @ vec)
        G = rng.normal(size=(2, 3))
        np.testing.assert_allclose(bs.operators.inner(G) @ X, np.trace(G.T @ X))


class TestSlides:
    """Grover: computation graphs and backpropagation."""

    def test_add_then_multiply(self):
        x, y, z = (bs.tensor(v, requires_grad=True) for v in (-2.0, 5.0, -4.0))
        q = x + y
        f = q * z
        f.backward()
        assert (q.value, f.value) == (3.0, -12.0)
        assert (x.grad, y.grad, z.grad) == (-4.0, -4.0, 3.0)

    # w0 x0 + w1 x1 + w2 with the values of the original lecture: f = 0.73
    neuron = (2.0, -1.0, -3.0, -2.0, -3.0)

    def test_sigmoid_neuron_as_separate_gates(self):
        def f(w0, x0, w1, x1, w2):
            s = w0 * x0 + w1 * x1 + w2
            return 1 / (1 + np.exp(-1.0 * s))

        value, grads = bs.value_and_grad(f, argnums=range(5))(*self.neuron)
        assert round(value, 2) == 0.73
        np.testing.assert_allclose(grads, [-0.2, 0.39, -0.39, -0.59, 0.2], atol=0.01)

    def test_sigmoid_neuron_as_one_gate(self):
        from scipy.special import expit

        def f(w0, x0, w1, x1, w2):
            return expit(w0 * x0 + w1 * x1 + w2)

        grads = bs.grad(f, argnums=range(5))(*self.neuron)
        s = sigmoid(1.0)
        local = (1 - s) * s
        np.testing.assert_allclose(grads, [local * k for k in (-1, 2, -2, -3, 1)])
        assert round(local, 1) == 0.2

    def test_gates(self):
        a, b = 3.0, 4.0
        assert bs.grad(lambda a, b: 2.0 * (a + b), (0, 1))(a, b) == (2.0, 2.0)  # distributes
        assert bs.grad(lambda a, b: 5.0 * (a * b), (0, 1))(a, b) == (20.0, 15.0)  # swaps
        assert bs.grad(lambda a: 4.0 * a + 2.0 * a)(a) == 6.0  # a copy adds
        assert bs.grad(lambda a, b: 9.0 * np.maximum(a, b), (0, 1))(a, b) == (0.0, 9.0)  # routes

    def test_relu_on_vectors(self):
        x = np.array([1.0, -2.0, 3.0, -1.0])
        y, pull = bs.vjp(lambda x: np.maximum(0, x), x)
        np.testing.assert_array_equal(y, [1, 0, 3, 0])
        (g,) = pull(np.array([4.0, -1.0, 5.0, 9.0]))
        np.testing.assert_array_equal(g, [4, 0, 5, 0])
        J = bs.jacobian(lambda x: np.maximum(0, x))(x)
        np.testing.assert_array_equal(J, np.diag([1.0, 0, 1, 0]))

    def test_matrix_product(self):
        x = np.array([[2.0, 1, -3], [-3, 4, 2]])
        w = np.array([[3.0, 2, 1, -1], [2, 1, 3, 2], [3, 2, 1, -2]])
        y, pull = bs.vjp(np.matmul, x, w)
        np.testing.assert_array_equal(y, [[-1, -1, 2, 6], [5, 2, 11, 7]])
        seed = np.array([[2.0, 3, -3, 9], [-8, 1, 4, 6]])
        dx, dw = pull(seed)
        np.testing.assert_array_equal(dx, [[0, 16, -9], [-24, 9, -30]])
        np.testing.assert_array_equal(dw, x.T @ seed)

    def test_function_with_context(self):
        x, y = bs.tensor(3.0, requires_grad=True), bs.tensor(-4.0, requires_grad=True)
        z = Multiply.apply(x, y)
        z.backward()
        assert (z.value, x.grad, y.grad) == (-12.0, -4.0, 3.0)

    def test_large_product_never_forms_its_jacobian(self):
        """N=64, D=M=4096: each Jacobian would take 256 GB."""
        rng = np.random.default_rng(0)
        x = rng.normal(size=(64, 4096)).astype(np.float32)
        w = rng.normal(size=(4096, 4096)).astype(np.float32)
        arrays = x.nbytes * 2 + w.nbytes
        tracemalloc.start()
        try:
            dx, dw = bs.grad(lambda x, w: (x @ w).sum(), argnums=(0, 1))(x, w)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        np.testing.assert_allclose(dx[0], w.sum(axis=1), rtol=1e-3, atol=1e-3)
        np.testing.assert_allclose(dw[:, 0], x.sum(axis=0), rtol=1e-3, atol=1e-4)
        assert peak < 3 * arrays


class TestNotes:
    """Bellani: numerical, symbolic and automatic differentiation; control flow; vJp."""

    @staticmethod
    def f(x):
        return np.log(x[0]) + x[0] * x[1] - np.sin(x[1])

    point = np.array([2.0, 5.0])

    def test_gradient(self):
        expected = [1 / 2 + 5, 2 - np.cos(5)]
        np.testing.assert_allclose(bs.grad(self.f)(self.point), expected)

    def test_two_column_trace(self):
        text = str(bs.linearize(self.f)(self.point))
        for piece in ("log(v1)", "v1 · v3", "sin(v3)", "v5 − v6", "11.6521", "5.5", "1.71634"):
            assert piece in text

    def test_every_kind_of_control_flow(self):
        def branch(a, b, c):
            return a + b if a > 0 else a + 2 * c

        assert bs.grad(branch, (0, 1, 2))(1.0, 2.0, 3.0) == (1.0, 1.0, 0.0)
        assert bs.grad(branch, (0, 1, 2))(-1.0, 2.0, 3.0) == (1.0, 0.0, 2.0)

        def loop(x):
            y = 1.0
            for _ in range(5):
                y = y * x
            return y

        assert bs.grad(loop)(2.0) == 5 * 2.0**4

        def cube_root(a):
            x = a
            while abs(x**3 - a) > 1e-12:
                x = (2 * x + a / x**2) / 3
            return x

        assert bs.grad(cube_root)(8.0) == pytest.approx(1 / 12)

        def with_exception(x):
            try:
                if x > 1:
                    raise ValueError
                return x * 2
            except ValueError:
                return x * x

        assert bs.grad(with_exception)(3.0) == 6.0
        assert bs.grad(with_exception)(0.5) == 2.0

        def recursive(x, n):
            return x if n == 0 else np.sin(recursive(x, n - 1))

        expected = np.cos(0.5) * np.cos(np.sin(0.5)) * np.cos(np.sin(np.sin(0.5)))
        assert bs.grad(recursive)(0.5, 3) == pytest.approx(expected)

    def test_hadamard_product_pulls_without_its_jacobian(self):
        a, g = np.arange(4.0), np.array([1.0, 2, 3, 4])
        np.testing.assert_array_equal(bs.vjp(lambda x: a * x, np.ones(4))[1](g)[0], a * g)

    def test_matrix_batch(self):
        rng = np.random.default_rng(0)
        A, X, G = rng.normal(size=(3, 4)), rng.normal(size=(4, 5)), rng.normal(size=(3, 5))
        np.testing.assert_allclose(bs.vjp(lambda X: A @ X, X)[1](G)[0], A.T @ G)


class TestMcAllester:
    """Objects with value and grad; loops over scalar assignments and the swap rule."""

    def test_messages(self):
        x, y = bs.tensor(3.0, requires_grad=True), bs.tensor(4.0, requires_grad=True)
        z = x * y
        w = z + x
        w.backward()
        assert (x.grad, y.grad) == (5.0, 3.0)
        x.value = 10.0
        w.forward()
        assert (z.value, w.value) == (40.0, 50.0)
        w.backward()
        assert (x.grad, y.grad) == (5.0 + 5.0, 3.0 + 10.0)

    def test_matrix_vector_loops(self):
        rng = np.random.default_rng(0)
        W, x, g = rng.normal(size=(3, 4)), rng.normal(size=4), rng.normal(size=3)
        dW, dx = bs.vjp(lambda W, x: W @ x, W, x)[1](g)
        expected_x, expected_W = np.zeros(4), np.zeros((3, 4))
        for i in range(4):
            for j in range(3):
                expected_x[i] += W[j, i] * g[j]
                expected_W[j, i] += g[j] * x[i]
        np.testing.assert_allclose(dx, expected_x)
        np.testing.assert_allclose(dW, expected_W)

    def test_swap_rule(self):
        rng = np.random.default_rng(0)
        A, B = rng.normal(size=(2, 3, 4)), rng.normal(size=(2, 5, 4))
        Y, pull = bs.vjp(lambda A, B: np.einsum("hik,hjk->hij", A, B), A, B)
        G = rng.normal(size=Y.shape)
        dA, dB = np.zeros_like(A), np.zeros_like(B)
        value = np.zeros_like(Y)
        for h, i, j, k in np.ndindex(2, 3, 5, 4):
            value[h, i, j] += A[h, i, k] * B[h, j, k]
            dA[h, i, k] += G[h, i, j] * B[h, j, k]
            dB[h, j, k] += A[h, i, k] * G[h, i, j]
        np.testing.assert_allclose(Y, value)
        got_A, got_B = pull(G)
        np.testing.assert_allclose(got_A, dA)
        np.testing.assert_allclose(got_B, dB)
        op = bs.operators.Contraction("hik,hjk->hij", 0, (None, B), bs.ir.Type(A.shape, A.dtype))
        assert op.T.subscripts == "hij,hjk->hik"
