"""bs.loops: every nest against Python's own loops, with derivatives, batches and compiled."""

from __future__ import annotations

import itertools
import math
import re

import numpy as np
import pytest

import backsolve as bs
from backsolve.errors import IndexingError, NestError, ShapeError
from backsolve.testing import check_grads

rng = np.random.default_rng(4)
normal = lambda *shape: rng.normal(size=shape)
positive = lambda *shape: rng.uniform(0.5, 2.0, size=shape)
FUNCTIONS = {
    "sin": np.sin, "exp": np.exp, "tanh": np.tanh, "sqrt": np.sqrt, "log": np.log,
    "maximum": max, "where": lambda c, a, b: a if c else b,
}  # fmt: skip
COMBINE = {
    "+=": lambda a, b: a + b,
    "-=": lambda a, b: a - b,
    "*=": lambda a, b: a * b,
    "max=": max,
    "min=": min,
}
START = {"+=": 0, "-=": 0, "*=": 1, "max=": -math.inf, "min=": math.inf}


def python_loops(text, ranges, shapes, **arrays):
    """What the nests mean: `ranges` says how far every letter runs, `shapes` how large new arrays are."""
    names = dict(arrays)
    for line in re.split(r"[;\n]", text):
        if not line.strip():
            continue
        left, how, right = re.fullmatch(
            r"(.*?)(\bmax=|\bmin=|[-+*]?=)(?!=)(.*)", line.strip()
        ).groups()
        name, _, at = left.strip().partition("[")
        if name not in names:
            names[name] = np.full(shapes.get(name, ()), START.get(how, 0.0), float)
        names[name] = np.array(names[name], float)
        letters = [c for c in ranges if re.search(rf"\b{c}\b", line)]
        right, _, condition = (
            (right, None, "True") if " else " in right else right.partition(" if ")
        )
        condition = condition or "True"
        for values in itertools.product(*[range(ranges[c]) for c in letters]):
            scope = {**FUNCTIONS, **names, **dict(zip(letters, values, strict=True))}
            if not eval(condition, scope):
                continue
            place = eval(f"({at.strip()[:-1]},)" if at else "()", scope)
            new = eval(right, scope)
            names[name][place] = new if how == "=" else COMBINE[how](names[name][place], new)
    return names


# name: (text, arrays that vary, other arrays, sizes given, ranges, shapes)
NESTS = {
    "inner product": ("z += x[i] * y[i]", dict(x=normal(4), y=normal(4)), {}, {}, dict(i=4), {}),
    "matrix and vector": (
        "y[j] += W[j,i] * x[i]",
        dict(W=normal(3, 4), x=normal(4)), {}, {}, dict(i=4, j=3), dict(y=(3,)),
    ),
    "batched product": (
        "Y[h,i,j] += A[h,i,k] * B[h,j,k]",
        dict(A=normal(2, 3, 4), B=normal(2, 5, 4)), {}, {}, dict(h=2, i=3, j=5, k=4), dict(Y=(2, 3, 5)),
    ),
    "outer, long names": (
        "Y[row, col] = a[row] * b[col]",
        dict(a=normal(2), b=normal(3)), {}, {}, dict(row=2, col=3), dict(Y=(2, 3)),
    ),
    "three factors": (
        "Y[i] += A[i,j] * B[j,k] * x[k]",
        dict(A=normal(2, 3), B=normal(3, 4), x=normal(4)), {}, {}, dict(i=2, j=3, k=4), dict(Y=(2,)),
    ),
    "products and sums": (
        "Y[i] += 2 * A[i,k] * x[k] / s - x[k] + b[i]",
        dict(A=normal(3, 4), x=normal(4), s=1.7, b=normal(3)), {}, {}, dict(i=3, k=4), dict(Y=(3,)),
    ),
    "distances": (
        "D[i,j] += (X[i,k] - C[j,k])**2",
        dict(X=normal(4, 2), C=normal(3, 2)), {}, {}, dict(i=4, j=3, k=2), dict(D=(4, 3)),
    ),
    "softmax": (
        "m[i] max= X[i,j]; e[i,j] = exp(X[i,j] - m[i]); s[i] += e[i,j]; Y[i,j] = e[i,j] / s[i]",
        dict(X=normal(3, 4)), {}, {}, dict(i=3, j=4), dict(m=(3,), e=(3, 4), s=(3,), Y=(3, 4)),
    ),
    "convolution": (
        "Y[i] += A[i + r] * w[r]", dict(A=normal(7), w=normal(3)), {}, {}, dict(i=5, r=3), dict(Y=(5,)),
    ),
    "two dimensions, channels, stride": (
        "Y[n,o,i,j] += X[n,c,2*i + r,j + s] * W[o,c,r,s]",
        dict(X=normal(2, 2, 6, 5), W=normal(3, 2, 3, 2)), {}, {},
        dict(n=2, o=3, c=2, i=2, j=4, r=3, s=2), dict(Y=(2, 3, 2, 4)),
    ),
    "many channels": (
        "Y[o,i] += X[c,i + r] * W[o,c,r]",
        dict(X=normal(2, 7), W=normal(5, 2, 3)), {}, {}, dict(o=5, i=5, c=2, r=3), dict(Y=(5, 5)),
    ),
    "transposed convolution": (
        "Y[i + r] += A[i] * w[r]", dict(A=normal(4), w=normal(3)), {}, {}, dict(i=4, r=3), dict(Y=(6,)),
    ),
    "padded convolution": (
        "Y[i] += (A[i + r - 1] if 0 <= i + r - 1 < 5 else 0) * w[r]",
        dict(A=normal(5), w=normal(3)), {}, dict(i=5), dict(i=5, r=3), dict(Y=(5,)),
    ),
    "max-pooling": (
        "Y[i,j] max= A[2*i + r,2*j + s]",
        dict(A=normal(5, 6)), {}, dict(r=2, s=2), dict(i=2, j=3, r=2, s=2), dict(Y=(2, 3)),
    ),
    "overlapping pooling": (
        "Y[i] max= A[2*i + r]", dict(A=normal(7)), {}, dict(r=3), dict(i=3, r=3), dict(Y=(3,)),
    ),
    "differences": ("D[i] = A[i + 1] - A[i]", dict(A=normal(5)), {}, {}, dict(i=4), dict(D=(4,))),
    "backwards": (
        "Y[i] = A[4 - i] * x[i]", dict(A=normal(5), x=normal(5)), {}, {}, dict(i=5), dict(Y=(5,)),
    ),
    "embedding": (
        "Y[i,j] = E[at[i],j]",
        dict(E=normal(4, 3)), dict(at=np.array([1, 0, 1, 3, 1])), {}, dict(i=5, j=3), dict(Y=(5, 3)),
    ),
    "picked entries": (
        "loss -= log(P[i, label[i]])",
        dict(P=positive(4, 3)), dict(label=np.array([2, 0, 1, 1])), {}, dict(i=4), {},
    ),
    "histogram": (
        "H[at[i]] += x[i]",
        dict(x=normal(6)), dict(at=np.array([1, 0, 1, 3, 1, 0])), dict(H=5), dict(i=6), dict(H=(5,)),
    ),
    "rows of a histogram": (
        "H[j,at[i]] += x[i,j] * y[i]",
        dict(x=normal(4, 2), y=normal(4)), dict(at=np.array([1, 0, 1, 2])), dict(H=(2, 3)),
        dict(i=4, j=2), dict(H=(2, 3)),
    ),
    "segment maximum": (
        "M[at[i]] max= x[i]",
        dict(x=normal(6)), dict(at=np.array([1, 0, 1, 2, 1, 0])), dict(M=3), dict(i=6), dict(M=(3,)),
    ),
    "conditions": (
        "Y[i] += sin(A[i,j]) if A[i,j] > 0 else tanh(b[j])",
        dict(A=normal(3, 4), b=normal(4)), {}, {}, dict(i=3, j=4), dict(Y=(3,)),
    ),
    "trailing condition": (
        "Y[i,j] += A[i,k] * B[k,j] if i <= j and k != 1",
        dict(A=normal(3, 3), B=normal(3, 3)), {}, {}, dict(i=3, j=3, k=3), dict(Y=(3, 3)),
    ),
    "causal mask on a product": (
        "Y[i,j] += A[i,k] * B[k,j] if i <= j",
        dict(A=normal(3, 2), B=normal(2, 3)), {}, {}, dict(i=3, j=3, k=2), dict(Y=(3, 3)),
    ),
    "smallest and product": (
        "m min= x[i]; p *= x[i] * (x[i] + m)",
        dict(x=positive(4)), {}, {}, dict(i=4), {},
    ),
    "letters as numbers": (
        "Y[i] += x[k]**k * (i + 1)", dict(x=positive(4)), {}, dict(i=2), dict(i=2, k=4), dict(Y=(2,)),
    ),
    "diagonal and trace": (
        "t += A[i,i]; D[i,j] = A[i,j] - (t if i == j else 0)",
        dict(A=normal(3, 3)), {}, {}, dict(i=3, j=3), dict(D=(3, 3)),
    ),
    "written diagonal": (
        "D[i,i] += x[i] * y[k]", dict(x=normal(3), y=normal(2)), {}, {}, dict(i=3, k=2), dict(D=(3, 3)),
    ),
    "into a given array": (
        "Y[i,1] += x[i] * s", dict(x=normal(3), Y=normal(3, 2), s=2.0), {}, {}, dict(i=3), {},
    ),
    "every other entry": (
        "Y[2*i] = x[i]; Y[2*i + 1] = -x[i]",
        dict(x=normal(3)), {}, dict(Y=6), dict(i=3), dict(Y=(6,)),
    ),
    "along an anti-diagonal": (
        "Y[i + j] max= A[i,j]", dict(A=normal(3, 2)), {}, {}, dict(i=3, j=2), dict(Y=(4,)),
    ),
}  # fmt: skip


def case(name):
    text, varying, others, sizes, ranges, shapes = NESTS[name]
    expected = python_loops(text, ranges, shapes, **varying, **others)

    def run(*values):
        return bs.loops(text, sizes=sizes, **dict(zip(varying, values, strict=True)), **others)

    target = re.split(r"[;\n]", text)[-1].strip()
    return run, list(varying.values()), expected[re.match(r"\w+", target)[0]]


@pytest.mark.parametrize("name", NESTS)
class TestNests:
    def test_means_what_python_loops_mean(self, name):
        run, args, expected = case(name)
        np.testing.assert_allclose(run(*args), expected, rtol=1e-12, atol=1e-12)

    def test_derivatives_of_two_orders_in_both_modes(self, name):
        run, args, _ = case(name)
        check_grads(run, tuple(args), order=2)

    def test_compiles(self, name):
        run, args, expected = case(name)
        f = bs.jit(run)
        np.testing.assert_allclose(f(*args), expected, rtol=1e-11, atol=1e-12)
        assert [s["native"] for s in f.stats()["specialisations"]] == [True]
        total = lambda *values: np.sum(np.sin(run(*values)))
        places = tuple(range(len(args)))
        found = bs.jit(bs.grad(total, argnums=places))(*args)
        for a, b in zip(found, bs.grad(total, argnums=places)(*args), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)

    def test_batches(self, name):
        run, args, _ = case(name)
        stacked = [np.stack([np.asarray(a), np.asarray(a) * 1.1]) for a in args]
        found = bs.vmap(run)(*stacked)
        for k in range(2):
            one = run(*[a[k] for a in stacked])
            np.testing.assert_allclose(found[k], one, rtol=1e-11, atol=1e-12)


class TestSwapRule:
    """The backpropagation loops that bs.source writes, run as nests themselves."""

    @pytest.mark.parametrize("name", [n for n in NESTS if n != "every other entry"])
    def test_gives_the_gradient(self, name):
        run, args, expected = case(name)
        text, varying, others, sizes, ranges, _ = NESTS[name]
        target = re.match(r"\w+", re.split(r"[;\n]", text)[-1].strip())[0]
        seed = np.asarray(normal(*np.shape(expected)))[()]
        wanted = dict(zip(varying, bs.vjp(run, *args)[1](seed), strict=True))
        wanted.pop(target, None)
        back = str(bs.source(text)) + "last = 0"
        shapes = {f"{n}_grad": np.shape(x) for n, x in varying.items()}
        shapes[f"{target}_ties"] = np.shape(expected)
        known = {n: x for n, x in {**sizes, **ranges, **shapes}.items() if n in back}
        given = {**varying, **others, f"{target}_grad": seed}
        found = bs.loops(back, sizes=known, **given)
        assert wanted
        for n, g in wanted.items():
            np.testing.assert_allclose(found[f"{n}_grad"], g, rtol=1e-9, atol=1e-11)

    def test_the_nest_of_the_notes(self):
        assert str(bs.source("Y[h,i,j] += A[h,i,k] * B[h,j,k]")).splitlines()[2:] == [
            "A_grad[h,i,k] += Y_grad[h,i,j] * B[h,j,k]",
            "B_grad[h,j,k] += A[h,i,k] * Y_grad[h,i,j]",
        ]
        # a term that is added in every round of k
        assert "for k: b_grad[i] += Y_grad[i]" in bs.source("Y[i] += A[i,k] + b[i]")
        assert str(bs.source("z += x[i] * y[i]")).splitlines()[2:] == [
            "x_grad[i] += z_grad * y[i]",
            "y_grad[i] += x[i] * z_grad",
        ]

    def test_functions_show_the_nests_of_their_products(self):
        f = lambda A, B: np.sum(bs.loops("Y[h,i,j] += A[h,i,k] * B[h,j,k]", A=A, B=B) ** 2)
        text = bs.source(bs.grad(f, argnums=(0, 1)), normal(2, 3, 4), normal(2, 5, 4))
        assert "# s0[h,i,j] += A[h,i,k] * B[h,j,k]\n" in text
        assert "# grad_A[h,i,k] += grad_s0[h,i,j] * B[h,j,k]\n" in text
        assert "# grad_B[h,j,k] += A[h,i,k] * grad_s0[h,i,j]\n" in text

    def test_what_has_no_one_adjoint_is_an_error(self):
        with pytest.raises(bs.errors.UnsupportedError, match="assigned twice"):
            bs.source("Y[i] = x[i]; Y[i] = Y[i]**2")
        with pytest.raises(bs.errors.UnsupportedError, match="differentiates all functions"):
            bs.source("Y[i] = gammaln(x[i])")


class TestResults:
    def test_what_no_later_statement_reads_is_returned(self):
        x = np.array([1.0, 2.0])
        found = bs.loops("s += x[i]; Y[i] = x[i] / s; n += 1 if x[i] > 1", x=x)
        assert list(found) == ["Y", "n"]
        np.testing.assert_allclose(found["Y"], x / 3)
        assert found["n"] == 1

    def test_a_given_array_is_added_to_and_not_changed(self):
        Y, x = np.ones(3), np.arange(3.0)
        assert list(bs.loops("Y[i] += x[i]", Y=Y, x=x)) == [1, 2, 3]
        assert list(Y) == [1, 1, 1]
        assert list(bs.loops("Y[i] max= x[i]", Y=Y, x=x)) == [1, 1, 2]
        assert list(bs.loops("Y[1] = 5", Y=Y)) == [1, 5, 1]
        assert list(bs.loops("Y[i] = x[i] if x[i] > 1", Y=Y, x=x)) == [1, 1, 2]

    def test_an_array_may_be_changed_entry_by_entry(self):
        assert list(bs.loops("Y[i] = x[i] + 1; Y[i] = Y[i]**2", x=np.arange(3))) == [1, 4, 9]

    def test_a_letter_runs_as_far_as_each_statement_lets_it(self):
        found = bs.loops("m min= x[i]; p *= x[i] * x[i + 1] - m", x=np.array([2, 3, 4]))
        assert found == (2 * 3 - 2) * (3 * 4 - 2)

    def test_loops_may_be_named(self):
        assert bs.loops("for i, k: s += x[i]", x=np.arange(3), sizes=dict(k=2)) == 6
        assert bs.loops("for i: Y[i] = x[i]", x=np.arange(3)).tolist() == [0, 1, 2]

    def test_tensors_come_back_as_tensors(self):
        x = bs.tensor(np.arange(3.0), requires_grad=True)
        y = bs.loops("y += x[i] * x[i]", x=x)
        y.backward()
        np.testing.assert_allclose(x.grad, 2 * np.arange(3.0))

    def test_brackets_may_go_over_lines_and_comments_are_left_out(self):
        text = """
            # the cost of a line
            Y[i] = (a * x[i]
                    + b)   # and no noise
        """
        assert list(bs.loops(text, a=2, b=1, x=np.arange(3))) == [1, 3, 5]


class TestIndices:
    def test_any_whole_number_is_an_index(self):
        x = np.arange(4)
        assert bs.loops("Y[i] = x[i // 2]", x=x, sizes=dict(i=6)).tolist() == [0, 0, 1, 1, 2, 2]
        assert bs.loops("Y[i] = x[(i + 1) % 4]", x=x, sizes=dict(i=4)).tolist() == [1, 2, 3, 0]
        assert bs.loops("Y[i // 2] += x[i]", x=x, sizes=dict(Y=2)).tolist() == [1, 5]
        assert bs.loops("Y[i] = x[n - 1 - i]", x=x, n=4).tolist() == [3, 2, 1, 0]

    def test_what_a_condition_on_data_excludes_is_not_read(self):
        f = lambda x, M: bs.loops("Y[i] = x[i - 1] if M[i] > 0 else 0", x=x, M=M)
        x, M = np.array([1.0, 2.0, 3.0]), np.array([-1.0, 1.0, 1.0])
        for g in (f, bs.jit(f), lambda x, M: f(bs.tensor(x), bs.tensor(M)).value):
            assert g(x, M).tolist() == [0, 1, 2]
            with pytest.raises(IndexError):
                g(x, -M)

    def test_indices_may_be_staged_and_batched(self):
        E, at = normal(7, 3), rng.integers(0, 7, (2, 5))
        f = lambda at: bs.loops("Y[i,j] = E[at[i],j]", E=E, at=at)
        np.testing.assert_array_equal(bs.vmap(f)(at), E[at])
        np.testing.assert_array_equal(bs.jit(f)(at[0]), E[at[0]])

    def test_inside_a_staged_loop(self):
        @bs.jit
        def largest_direction(A, n):
            v = np.ones(A.shape[0])
            for _ in range(n):
                v = bs.loops("w[i] += A[i,j] * v[j]; s += w[i]**2; u[i] = w[i] / sqrt(s)", A=A, v=v)
            return v

        A = normal(5, 5)
        A = A @ A.T
        expected = np.linalg.eigh(A)[1][:, -1]
        np.testing.assert_allclose(abs(largest_direction(A, 300)), abs(expected), rtol=1e-6)


class TestNoTerms:
    none = np.zeros((2, 0))

    def test_sums_are_zero(self):
        assert bs.loops("Y[i] += A[i,j] * A[i,j]", A=self.none).tolist() == [0, 0]
        assert bs.loops("Y[i] += 1", sizes=dict(i=0)).tolist() == []
        assert bs.loops("s += 3 if k < 9", sizes=dict(k=0)) == 0

    def test_others_are_what_changes_nothing(self):
        assert bs.loops("Y[i] *= A[i,j]", A=self.none).tolist() == [1, 1]
        assert bs.loops("Y[i] max= A[i,j]", A=self.none).tolist() == [-np.inf] * 2
        assert bs.loops("Y[i] min= A[i,j]", A=self.none).tolist() == [np.inf] * 2
        assert (
            bs.loops("Y[i] max= A[i,j] if A[i,j] > 9", A=np.ones((2, 2))).tolist() == [-np.inf] * 2
        )

    def test_a_window_longer_than_the_array(self):
        assert bs.loops("Y[i] += A[i + r] * w[r]", A=np.ones(2), w=np.ones(4)).shape == (0,)

    def test_an_empty_window(self):
        A, w = np.ones(3), np.ones(0)
        assert bs.loops("Y[i] += A[i + r] * w[r]", A=A, w=w, sizes=dict(i=3)).tolist() == [0, 0, 0]


class TestDTypes:
    @pytest.mark.parametrize(
        "dtype", [np.int8, np.int64, np.float32, np.float64, np.complex128, bool]
    )
    def test_as_numpy(self, dtype):
        A = np.ones((2, 3)).astype(dtype)
        B = np.ones((3, 2)).astype(dtype)
        assert bs.loops("Y[i] += A[i,k]", A=A).dtype == A.sum(1).dtype
        assert bs.loops("Y[i,j] += A[i,k] * B[k,j]", A=A, B=B).dtype == A.sum().dtype
        assert bs.loops("Y[i,j] = A[i,j]", A=A).dtype == dtype
        if dtype is not np.complex128:
            assert bs.loops("Y[i] max= A[i,k]", A=A).dtype == dtype

    def test_letters_and_numbers_give_way(self):
        x = np.ones(3, np.float32)
        assert bs.loops("Y[i] = x[i] * i + 0.5", x=x).dtype == np.float32
        assert bs.loops("Y[i] = i + 1", sizes=dict(i=3)).tolist() == [1, 2, 3]

    def test_complex_gradients(self):
        f = lambda A, x: np.sum(np.abs(bs.loops("y[i] += A[i,k] * x[k]", A=A, x=x)) ** 2)
        A, x = normal(2, 3) + 1j * normal(2, 3), normal(3) + 1j * normal(3)
        expected = bs.grad(lambda A, x: np.sum(np.abs(A @ x) ** 2), argnums=(0, 1))(A, x)
        for a, b in zip(bs.grad(f, argnums=(0, 1))(A, x), expected, strict=True):
            np.testing.assert_allclose(a, b)


ERRORS = {
    "a conflict": ("Y[i] = A[i] * B[i]", dict(A=np.ones(3), B=np.ones(4)), ShapeError, "3 by A[i]"),
    "no range": ("Y[i] max= A[2*i + r]", dict(A=np.ones(3)), NestError, "sizes=dict(i=…)"),
    "out of range": ("Y[i] = A[i + 1] * B[i]", dict(A=np.ones(3), B=np.ones(3)), IndexingError, "1…3"),
    "negative": ("Y[i] = A[i] * A[i - 1]", dict(A=np.ones(3)), IndexingError, "-1"),
    "a constant": ("Y[i] = A[i,3]", dict(A=np.ones((3, 3))), IndexingError, "3…3"),
    "gathered": ("Y[i] = A[at[i]]", dict(A=np.ones(3), at=np.array([0, 3])), IndexingError, "3"),
    "scattered": ("Y[at[i]] += 1", dict(Y=np.ones(3), at=np.array([0, 3])), IndexingError, "3"),
    "guarded wrongly": ("Y[i] = A[i + 1] if i < 3 else 0", dict(A=np.ones(3)), NestError, "sizes"),
    "rank": ("Y[i] = A[i]", dict(A=np.ones((3, 3))), ShapeError, "2 axes"),
    "no name": ("Y[i] = A[i] * b", dict(A=np.ones(3)), NestError, "b is no array"),
    "no array": ("Y[i] = B[i]", {}, NestError, "B is no array"),
    "an array without indices": ("Y[i] = A[i] + B", dict(A=np.ones(3), B=np.ones(3)), NestError, "B[i]"),
    "a sum by =": ("Y[i] = A[i,k]", dict(A=np.ones((3, 3))), NestError, "k stands only on the right"),
    "a recurrence": ("Y[i + 1] = Y[i]", dict(Y=np.ones(3)), NestError, "order"),
    "a slice": ("Y[i] = A[i,:]", dict(A=np.ones((3, 3))), NestError, "one number"),
    "a syntax error": ("Y[i] = A[i] +", dict(A=np.ones(3)), NestError, "no expression"),
    "no assignment": ("A[i] == 3", dict(A=np.ones(3)), NestError, "expected Y[i,j]"),
    "a function": ("Y[i] = cumsum(A[i])", dict(A=np.ones(3)), NestError, "element-wise"),
    "a matrix product": ("Y[i] = A[i] @ A[i]", dict(A=np.ones(3)), NestError, "loops of a product"),
    "an unknown shape": ("H[at[i]] += 1", dict(at=np.array([0, 3])), NestError, "sizes=dict(H="),
    "nothing": ("  # no statement", {}, NestError, "empty"),
    "an open bracket": ("Y[i = 3", {}, NestError, "bracket"),
}  # fmt: skip


class TestErrors:
    @pytest.mark.parametrize("name", ERRORS)
    def test_shows_the_statement(self, name):
        text, arrays, kind, said = ERRORS[name]
        with pytest.raises(kind) as caught:
            bs.loops(text, **arrays)
        assert said in str(caught.value)
        if name != "nothing":
            assert text in str(caught.value)

    def test_a_guard_that_lets_a_bad_read_through(self):
        with pytest.raises(IndexingError, match="axis of length 3"):
            bs.loops("Y[i] = A[i + 1] if i < 3 else 0", A=np.ones(3), sizes=dict(i=4))

    def test_sizes_of_what_is_not_there(self):
        with pytest.raises(NestError, match="'q'"):
            bs.loops("Y[i] = A[i]", A=np.ones(3), sizes=dict(q=2))

    def test_fewer_rounds_than_the_array_has_entries(self):
        assert bs.loops("s += A[i]", A=np.arange(5), sizes=dict(i=3)) == 3
        with pytest.raises(IndexingError, match="axis 0 of length 5"):
            bs.loops("s += A[i]", A=np.arange(5), sizes=dict(i=6))

    def test_compiled_code_looks_at_gathered_indices(self):
        f = bs.jit(lambda A, at: bs.loops("Y[i] = A[at[i]]", A=A, at=at))
        with pytest.raises(IndexError):
            f(np.ones(3), np.array([0, 7]))


def matrix_product(A, B):
    Y = np.zeros((A.shape[0], B.shape[1]))
    for i in range(A.shape[0]):
        for j in range(B.shape[1]):
            for k in range(A.shape[1]):
                Y[i, j] += A[i, k] * B[k, j]
    return Y


def inner_products(A, B):
    Y = np.zeros((A.shape[0], B.shape[1]))
    for i in range(A.shape[0]):
        for j in range(B.shape[1]):
            s = 0.0
            for k in range(A.shape[1]):
                s += A[i, k] * B[k, j]
            Y[i, j] = s
    return Y


def batched_product(A, B):
    Y = np.zeros((A.shape[0], A.shape[1], B.shape[1]))
    for h in range(A.shape[0]):
        for i in range(A.shape[1]):
            for j in range(B.shape[1]):
                for k in range(A.shape[2]):
                    Y[h, i, j] += A[h, i, k] * B[h, j, k]
    return Y


def convolution(A, w):
    Y = np.zeros(A.shape[0] - w.shape[0] + 1)
    for i in range(A.shape[0] - w.shape[0] + 1):
        for r in range(w.shape[0]):
            Y[i] += A[i + r] * w[r]
    return Y


def differences(A):
    Y = np.zeros(A.shape[0] // 2)
    for i in range(A.shape[0] // 2):
        Y[i] = A[2 * i] - A[2 * i + 1]
    return Y


def embedding(E, at):
    Y = np.zeros((at.shape[0], E.shape[1]))
    for i in range(at.shape[0]):
        for j in range(E.shape[1]):
            Y[i, j] = E[at[i], j]
    return Y


def pooling(A):
    Y = np.zeros((A.shape[0] // 2, A.shape[1] // 2))
    for i in range(A.shape[0] // 2):
        for j in range(A.shape[1] // 2):
            m = -np.inf
            for r in range(2):
                for s in range(2):
                    m = max(m, A[2 * i + r, 2 * j + s])
            Y[i, j] = m
    return Y


def smallest(X):
    Y = np.zeros(X.shape[0])
    for i in range(X.shape[0]):
        m = X[i, 0]
        for j in range(X.shape[1]):
            m = min(m, X[i, j])
        Y[i] = m
    return Y


def softmax(X):
    Y = np.zeros(X.shape)
    for i in range(X.shape[0]):
        top = X[i, 0]
        for j in range(X.shape[1]):
            top = max(top, X[i, j])
        s = 0.0
        for j in range(X.shape[1]):
            s += np.exp(X[i, j] - top)
        for j in range(X.shape[1]):
            Y[i, j] = np.exp(X[i, j] - top) / s
    return Y


def histogram(x, at):
    H = np.zeros(5)
    for i in range(x.shape[0]):
        H[at[i]] += x[i]
    return H


def product(x):
    p = 1.0
    for i in range(x.shape[0]):
        p *= x[i]
    return p


def turned(P, w):
    Y = np.zeros((P.shape[0], 2))
    for i in range(P.shape[0]):
        r = np.sqrt(P[i, 0] ** 2 + P[i, 1] ** 2 + w)
        Y[i, 0] = np.cos(r) * P[i, 0] - np.sin(r) * P[i, 1]
        Y[i, 1] = np.sin(r) * P[i, 0] + np.cos(r) * P[i, 1]
    return Y


# the loops, their arguments, the nest, the names of its arrays, sizes
PAIRS = {
    matrix_product: ((normal(21, 20), normal(20, 22)), "Y[i,j] += A[i,k] * B[k,j]", "A B", {}),
    inner_products: ((normal(21, 20), normal(20, 22)), "Y[i,j] += A[i,k] * B[k,j]", "A B", {}),
    batched_product: (
        (normal(3, 21, 20), normal(3, 22, 20)), "Y[h,i,j] += A[h,i,k] * B[h,j,k]", "A B", {},
    ),
    convolution: ((normal(30), normal(4)), "Y[i] += A[i + r] * w[r]", "A w", {}),
    differences: ((normal(20),), "Y[i] = A[2*i] - A[2*i + 1]", "A", {}),
    embedding: (
        (normal(11, 12), rng.integers(0, 11, 20)), "Y[i,j] = E[at[i],j]", "E at", {},
    ),
    pooling: ((normal(20, 22),), "Y[i,j] max= A[2*i + r,2*j + s]", "A", dict(r=2, s=2)),
    smallest: ((normal(10, 12),), "Y[i] min= X[i,j]", "X", {}),
    softmax: (
        (normal(10, 12),),
        "m[i] max= X[i,j]; s[i] += exp(X[i,j] - m[i]); Y[i,j] = exp(X[i,j] - m[i]) / s[i]", "X", {},
    ),
    histogram: ((normal(20), rng.integers(0, 5, 20)), "H[at[i]] += x[i]", "x at", dict(H=5)),
    product: ((positive(20),), "p *= x[i]", "x", {}),
    turned: (
        (normal(20, 2), 1.5),
        "r[i] = sqrt(P[i,0]**2 + P[i,1]**2 + w);"
        "Y[i,k] = cos(r[i]) * P[i,k] + (2*k - 1) * sin(r[i]) * P[i,1 - k]",
        "P w", dict(k=2),
    ),
}  # fmt: skip


class TestPythonLoops:
    """The same nests as Python's loops under jit: no loop is left, and products are products."""

    @staticmethod
    def both(f):
        args, text, names, sizes = PAIRS[f]
        nest = lambda *xs: bs.loops(text, sizes=sizes, **dict(zip(names.split(), xs, strict=True)))
        return f, nest, args

    @pytest.mark.parametrize("f", PAIRS, ids=lambda f: f.__name__)
    def test_values_and_gradients(self, f):
        f, nest, args = self.both(f)
        np.testing.assert_allclose(bs.jit(f)(*args), nest(*args), rtol=1e-10)
        total = lambda g: bs.jit(bs.grad(lambda *xs: np.sum(np.sin(g(*xs)))))
        np.testing.assert_allclose(total(f)(*args), total(nest)(*args), rtol=1e-8, atol=1e-12)

    @pytest.mark.parametrize("f", PAIRS, ids=lambda f: f.__name__)
    def test_no_loop_is_left(self, f):
        f, nest, args = self.both(f)
        compiled = [bs.jit(g) for g in (f, nest)]
        for g in compiled:
            g(*args)
            assert "loop" not in g.lower(*args).stages["steps"]
        counts = [g.stats()["specialisations"][0]["products"] for g in compiled]
        assert counts[0] == counts[1]

    def test_a_product_is_one_step(self):
        for f in (matrix_product, inner_products, batched_product):
            f, nest, args = self.both(f)
            steps = [bs.jit(g).lower(*args).stages["steps"] for g in (f, nest)]
            assert steps[0] == steps[1]
            assert steps[0].count("product") == len(steps[0].splitlines()) == 1

    def test_the_first_of_equal_entries_gets_the_derivative_in_a_loop(self):
        x = np.array([[1.0, *[3.0] * 11]] * 9)
        expected = np.zeros_like(x)
        expected[:, 1] = -1
        np.testing.assert_array_equal(bs.jit(bs.grad(lambda x: np.sum(smallest(-x))))(x), expected)

    def test_no_nan_is_the_largest_in_a_loop(self):
        x = normal(10, 12)
        x[2, 3] = x[4, 0] = np.nan
        np.testing.assert_array_equal(bs.jit(smallest)(x), smallest(x))

    def test_a_short_loop_around_loops_is_no_copy_of_them(self):
        A, B = normal(3, 21, 20), normal(3, 22, 20)
        assert bs.jit(batched_product).lower(A, B).stages["steps"].count("product") == 1

        def rotated(P, R):  # a nest of few rounds is straight code in the loop around it
            Y = np.zeros(P.shape)
            for n in range(P.shape[0]):
                for i in range(3):
                    for j in range(3):
                        Y[n, i] += R[i, j] * P[n, j]
            return Y

        P, R = normal(20, 3), normal(3, 3)
        np.testing.assert_allclose(bs.jit(rotated)(P, R), P @ R.T)
