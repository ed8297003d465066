"""Loops, branches and calls that work on arrays, compiled, against their meaning in plain Python."""

import numpy as np
import pytest

import backsolve as bs
import backsolve.numpy as bnp
from backsolve.backends.native.compile import compile_program
from backsolve.ir import Equation, Program, Type, Var, type_of
from backsolve.primitives.control import BRANCH, LOOP
from backsolve.regions import INDEX, Branches, Loop
from backsolve.rewrite import rewrite_for_machines
from backsolve.trace import evaluate, stage


class Outline:
    """A Program that is written down equation by equation."""

    def __init__(self, *arrays):
        self.arrays = arrays
        self.inputs = [Var(type_of(a)) for a in arrays]
        self.equations = []
        self.constants = []

    def add(self, primitive, inputs, params, types):
        made = tuple(Var(t) for t in types)
        self.equations.append(Equation(made, primitive, tuple(inputs), params))
        return made

    def constant(self, value):
        var = Var(type_of(value))
        self.constants.append((var, value))
        return var

    def run(self, f, *inputs):
        """Put the equations of a function here."""
        program = staged(f, [type_of(a) for a in inputs])
        names = dict(zip(program.inputs, inputs, strict=True))
        self.constants.extend(program.constants)
        for e in program.equations:
            atoms = tuple(names.get(a, a) if type(a) is Var else a for a in e.inputs)
            self.equations.append(Equation(e.outputs, e.primitive, atoms, e.params))
        found = tuple(names.get(a, a) if type(a) is Var else a for a in program.outputs)
        return found[0] if len(found) == 1 else found

    def loop(self, loop, *inputs):
        return self.add(LOOP, inputs, {"region": loop}, loop.outputs())

    def branch(self, which, *inputs, branches):
        region = Branches(tuple(branches))
        return self.add(BRANCH, (which, *inputs), {"region": region}, region.outputs())

    def program(self, *outputs):
        """Bare numbers become arrays: a compiled program returns no Python integers."""
        outputs = [
            self.run(lambda n: n + np.zeros((), np.int64), a) if type_of(a).dtype.kind == "i" else a
            for a in outputs
        ]
        return Program(
            tuple(self.inputs), tuple(self.constants), tuple(self.equations), tuple(outputs)
        )


def types_of(*values):
    return [Type(type_of(a).shape, type_of(a).dtype) for a in values]


def staged(f, types):
    return rewrite_for_machines(stage(f, types)[0])


def body_of(f, carried, fixed=(), entries=()):
    return staged(f, [INDEX, *types_of(*carried), *types_of(*fixed), *types_of(*entries)])


def meaning(program, args):
    """A Program with regions, run by Python."""
    values = dict(zip(program.inputs, args, strict=True))
    values.update(program.constants)
    for e in program.equations:
        inputs = [values[a] if type(a) is Var else a for a in e.inputs]
        region = e.params.get("region")
        if isinstance(region, Loop):
            results = loop_meaning(region, inputs)
        elif isinstance(region, Branches):
            results = meaning(region.branches[int(inputs[0])], inputs[1:])
        else:
            results = evaluate(
                Program(
                    tuple(a for a in dict.fromkeys(e.inputs) if type(a) is Var), (), (e,), e.outputs
                ),
                [values[a] for a in dict.fromkeys(e.inputs) if type(a) is Var],
            )
        values.update(zip(e.outputs, results, strict=True))
    return [np.asarray(values[a] if type(a) is Var else a) for a in program.outputs]


def loop_meaning(loop, inputs):
    count, carried, fixed, sequences = loop.split(inputs)
    made = [Type(t.shape, t.dtype) for t in map(type_of, loop.body.outputs[loop.carried :])]
    entries = [{} for _ in made]
    rounds = 0
    while count is None or rounds < count:
        k = int(count) - 1 - rounds if loop.reverse else rounds
        if loop.goes_on is not None and not meaning(loop.goes_on, [k, *carried, *fixed])[0]:
            break
        results = meaning(loop.body, [k, *carried, *fixed, *[s[k] for s in sequences]])
        carried = results[: loop.carried]
        for store, y in zip(entries, results[loop.carried :], strict=True):
            store[int(k)] = y
        rounds += 1
    sequences = []
    for t, store in zip(made, entries, strict=True):
        whole = np.zeros((int(count), *t.shape), t.dtype)
        for k, y in store.items():
            whole[k] = y
        sequences.append(whole)
    return [*carried, *sequences, np.int64(rounds)]


def check(program, *args, tolerance=1e-12):
    native = compile_program(program)
    for _ in range(2):  # nothing is left over from one call to the next
        before = [np.array(a) for a in args]
        got = native.call(*args)
        got = got if isinstance(got, tuple) else (got,)
        for old, a in zip(before, args, strict=True):
            np.testing.assert_array_equal(old, a)
        for y, expected in zip(got, meaning(program, args), strict=True):
            assert np.asarray(y).dtype == expected.dtype
            np.testing.assert_allclose(y, expected, rtol=tolerance, atol=tolerance)
    return native


rng = np.random.default_rng(0)


def test_a_matrix_applied_again_and_again():
    A, x = rng.normal(size=(40, 40)) / 7, rng.normal(size=40)
    out = Outline(A, x)
    body = body_of(lambda k, x, A: bnp.tanh(A @ x), [x], [A])
    y, rounds = out.loop(Loop(body, 1, 1, 0, count=10), out.inputs[1], out.inputs[0])
    check(out.program(y, rounds), A, x)


def test_recurrent_network():
    T, B, n, m = 7, 5, 6, 8
    xs, h = rng.normal(size=(T, B, n)), np.zeros((B, m))
    W, U, b = rng.normal(size=(n, m)), rng.normal(size=(m, m)), rng.normal(size=m)

    def cell(k, h, W, U, b, x):
        new = bnp.tanh(x @ W + h @ U + b)
        return [new, new]

    for reverse in (False, True):
        out = Outline(xs, W, U, b)
        body = body_of(cell, [h], [W, U, b], [xs[0]])
        start = out.constant(h)
        xs_, *weights = out.inputs
        last, all_, rounds = out.loop(
            Loop(body, 1, 3, 1, count=T, reverse=reverse), start, *weights, xs_
        )
        check(out.program(last, all_, rounds), xs, W, U, b)


def test_values_that_change_places():
    a, b, c = rng.normal(size=(3, 50))
    for f in (
        lambda k, a, b, c: [b, a, c],
        lambda k, a, b, c: [b, c, a],
        lambda k, a, b, c: [b, a + b, c * k],
        lambda k, a, b, c: [b[::-1], a, a + c],
        lambda k, a, b, c: [a, a, a],
    ):
        out = Outline(a, b, c)
        body = body_of(f, [a, b, c])
        results = out.loop(Loop(body, 3, 0, 0, count=5), *out.inputs)
        check(out.program(*results), a, b, c)


def test_strided_surroundings():
    A, x, s = rng.normal(size=(30, 20)), rng.normal(size=30), rng.normal(size=(4, 30, 9))
    out = Outline(A, x, s)
    A_, x_, s_ = out.inputs
    turned = out.run(lambda A: A.T[1:, ::2], A_)  # (19, 15)
    half = out.run(lambda x: x[::-2], x_)
    walked = out.run(lambda s: bnp.permute_dims(s, (2, 0, 1))[::-2, 1, ::2], s_)  # (5, 15)

    def f(k, x, A, e):
        return [x * 0.5 + bnp.sum(A, axis=0) * e + k, (A * e).sum(axis=1)]

    body = body_of(f, [np.zeros(15)], [np.zeros((19, 15))], [np.zeros(15)])
    results = out.loop(Loop(body, 1, 1, 1, count=5), half, turned, walked)
    check(out.program(*results), A, x, s)


@pytest.mark.parametrize("count", [0, 1, 4])
def test_counts_known_only_when_it_runs(count):
    x = rng.normal(size=20)
    out = Outline(np.asarray(count), x)
    n, x_ = out.inputs
    body = body_of(lambda k, x: x * 1.5 + k, [x])
    y, rounds = out.loop(Loop(body, 1, 0, 0, counted=True, reverse=True), n, x_)
    check(out.program(y, rounds), np.asarray(count), x)


def test_more_rounds_than_entries():
    xs = rng.normal(size=(5, 100))
    out = Outline(np.asarray(0), xs)
    body = body_of(lambda k, total, x: total + x * x, [xs[0]], [], [xs[0]])
    loop = Loop(body, 1, 0, 1, counted=True)
    y, _ = out.loop(loop, out.inputs[0], out.constant(np.zeros(100)), out.inputs[1])
    check(out.program(y), np.asarray(5), xs)
    with pytest.raises(IndexError, match="beyond the 5 entries"):
        compile_program(out.program(y)).call(np.asarray(6), xs)


def test_no_round_at_all():
    x = rng.normal(size=20)
    out = Outline(x)
    body = body_of(lambda k, x: [x * 1.5, x], [x])
    results = out.loop(Loop(body, 1, 0, 0, count=0), out.inputs[0])
    check(out.program(*results), x)


@pytest.mark.parametrize(
    ("count", "reverse"), [(None, False), (3, False), (3, True), (100, False), (100, True)]
)
def test_as_long_as_a_condition_holds(count, reverse):
    x = rng.normal(size=30)
    out = Outline(x)
    body = body_of(lambda k, x, f: [x * 0.7 + f, x.sum()][: 1 if count is None else 2], [x], [0.0])
    test = body_of(lambda k, x, f: (x * x).sum() > f + 1, [x], [0.0])
    body_loop = Loop(body, 1, 1, 0, goes_on=test, count=count, reverse=reverse)
    results = out.loop(body_loop, out.inputs[0], 0.0)
    check(out.program(*results), x)


def test_loops_in_loops():
    A, x = rng.normal(size=(6, 6)) / 3, rng.normal(size=6)
    inner = Outline(np.int64(0), x, A)
    k, x_, A_ = inner.inputs
    deepest = body_of(lambda j, x, A, k: bnp.sin(A @ x) + j * k, [x], [A, np.int64(0)])
    y, _ = inner.loop(Loop(deepest, 1, 2, 0, count=3), x_, A_, k)
    z = inner.run(lambda y, A: y + A.sum(axis=0), y, A_)
    out = Outline(A, x)
    last, norms, _ = out.loop(
        Loop(inner.program(z, y), 1, 1, 0, count=4), out.inputs[1], out.inputs[0]
    )
    check(out.program(last, norms), A, x)


def test_the_arguments_stay_as_they_are_and_results_are_new():
    x = rng.normal(size=30)
    out = Outline(x)
    body = body_of(lambda k, x: x + 1, [x])
    a, _ = out.loop(Loop(body, 1, 0, 0, count=3), out.inputs[0])
    b, _ = out.loop(Loop(body, 1, 0, 0, count=3), a)
    check(out.program(out.inputs[0], a, b), x)


def test_constants_of_bodies():
    x, c = rng.normal(size=(4, 30)), rng.normal(size=30)
    body = body_of(lambda k, x: bnp.sin(x) * c + bnp.arange(30) + bnp.ones(30), [x])
    out = Outline(x)
    y, _ = out.loop(Loop(body, 1, 0, 0, count=3), out.inputs[0])
    check(out.program(y), x)


def test_steps_are_shown_inside():
    x = rng.normal(size=30)
    out = Outline(x)
    body = body_of(lambda k, x: bnp.sin(x), [x])
    y, _ = out.loop(Loop(body, 1, 0, 0, count=3), out.inputs[0])
    native = check(out.program(y), x)
    assert "loop of 3 rounds:\n     for [30]: sin" in native.stages["steps"]()
    assert native.stats["flops"] == 3 * 30 * 20


def test_out_of_range_in_a_round():
    x = rng.normal(size=30)
    out = Outline(x)
    body = body_of(lambda k, x, y: x * y[k + 28], [x], [x])
    y, _ = out.loop(Loop(body, 1, 1, 0, count=3), out.inputs[0], out.inputs[0])
    with pytest.raises(IndexError, match="out of bounds"):
        compile_program(out.program(y)).call(x)


# ---- in place


def updated(x, i, v):
    x = bnp.asarray(x).copy()
    x[i] = v
    return x


def long_loops(native):
    """The kernels over whole arrays (of 1,000 entries) inside of regions."""
    lines = native.stages["steps"]().split("\n")
    return [x for x in lines if x.startswith("  ") and "[1000]" in x]


def test_entries_are_set_in_place():
    x = rng.normal(size=1000)
    out = Outline(x)
    body = body_of(lambda k, x: updated(x, 3 * k + 1, bnp.sin(x[k]) + x[k + 1]), [x])
    y, _ = out.loop(Loop(body, 1, 0, 0, count=100), out.inputs[0])
    assert not long_loops(check(out.program(y), x))


def test_slices_are_set_in_place():
    A = rng.normal(size=(1000, 3))
    out = Outline(A)

    def f(k, A):
        A = updated(A, (slice(2, 4), slice(None)), A[5:7] + k)
        return updated(A, (k, 0), A[3, 1])

    y, _ = out.loop(Loop(body_of(f, [A]), 1, 0, 0, count=100), out.inputs[0])
    text = check(out.program(y), A).stages["steps"]()
    assert "     for [1000, 3]" not in text


def test_adjoints_are_added_in_place():
    x = rng.normal(size=1000)
    out = Outline(x)
    body = body_of(lambda k, g, x: g + bs.vjp(lambda x: x[2 * k] * x[k], x)[1](1.0)[0], [x], [x])
    y, _ = out.loop(Loop(body, 1, 1, 0, count=100), out.constant(np.zeros(1000)), out.inputs[0])
    check(out.program(y), x)


def test_in_place_in_a_loop_in_a_loop():
    x = rng.normal(size=1000)
    inner = Outline(np.int64(0), x)
    k, x_ = inner.inputs
    deepest = body_of(lambda j, x, k: updated(x, 10 * k + j, x[j] + k), [x], [np.int64(0)])
    y, _ = inner.loop(Loop(deepest, 1, 1, 0, count=10), x_, k)
    out = Outline(x)
    z, _ = out.loop(Loop(inner.program(y), 1, 0, 0, count=20), out.inputs[0])
    assert not long_loops(check(out.program(z), x))


def test_an_array_that_is_read_and_overwritten():
    """The old entries are what a round reads (Warp's issues 1694 and 1697)."""
    x = rng.normal(size=50)
    out = Outline(x)
    for f in (
        lambda k, x: [updated(x, k, x.sum()), x],
        lambda k, x: [updated(x, slice(0, 49), x[1:]), x.sum()],
        lambda k, x: [x[::-1], updated(x, k, 2.0)],
        lambda k, x: [updated(updated(x, k, 2.0), k + 1, x[k]) + x, x[k]],
        lambda k, x: [bnp.cumsum(x)[::-1] / 9, x],
    ):
        out = Outline(x)
        results = out.loop(Loop(body_of(f, [x]), 1, 0, 0, count=6), out.inputs[0])
        check(out.program(*results), x)


# ---- branches


def branches_of(types, *functions):
    return [staged(f, types_of(*types)) for f in functions]


@pytest.mark.parametrize("which", [np.asarray(False), np.asarray(True)])
def test_branches(which):
    A, x = rng.normal(size=(20, 20)), rng.normal(size=20)
    programs = branches_of([A, x], lambda A, x: [A @ x, 0.0], lambda A, x: [x, x.sum()])
    out = Outline(which, A, x)
    results = out.branch(*out.inputs, branches=programs)
    check(out.program(*results), which, A, x)


def test_one_of_many_branches():
    x = rng.normal(size=20)
    functions = [lambda x, n=n: x * n for n in range(5)]
    programs = branches_of([x], *functions)
    out = Outline(np.asarray(0, np.int32), x)
    results = out.branch(*out.inputs, branches=programs)
    native = compile_program(out.program(*results))
    for n in range(5):
        np.testing.assert_array_equal(native.call(np.asarray(n, np.int32), x), x * n)
    for n in (-1, 5):
        with pytest.raises(IndexError, match="5 branches"):
            native.call(np.asarray(n, np.int32), x)


def test_a_branch_in_a_loop_updates_in_place():
    x = rng.normal(size=1000)
    body = Outline(np.int64(0), x)
    k, x_ = body.inputs
    which = body.run(lambda k, x: x[2 * k] > 0, k, x_)
    programs = branches_of(
        [np.int64(0), x], lambda k, x: [x, 0.5], lambda k, x: [updated(x, k, x[k + 1]), x[k]]
    )
    y, z = body.branch(which, k, x_, branches=programs)
    out = Outline(x)
    results = out.loop(Loop(body.program(y, z), 1, 0, 0, count=100), out.inputs[0])
    assert not long_loops(check(out.program(*results), x))


def test_a_branch_leaves_what_is_read_later():
    x = rng.normal(size=1000)
    body = Outline(np.int64(0), x)
    k, x_ = body.inputs
    which = body.run(lambda k, x: x[2 * k] > 0, k, x_)
    programs = branches_of([np.int64(0), x], lambda k, x: x, lambda k, x: updated(x, k, x[k + 1]))
    (y,) = body.branch(which, k, x_, branches=programs)
    z = body.run(lambda x, y: (x * y).sum(), x_, y)
    out = Outline(x)
    results = out.loop(Loop(body.program(y, z), 1, 0, 0, count=10), out.inputs[0])
    check(out.program(*results), x)
