"""What became of a Program is found on disk before it is rewritten, and never for another Program."""

from __future__ import annotations

import gc
from importlib import import_module

import numpy as np
import pytest

import backsolve as bs
from backsolve import ir, trace
from backsolve.backends.native import build, recipes, threads
from backsolve.primitive import P

SPECIALISE = import_module(
    "backsolve.compiled.specialise"
)  # the package has a function of that name
x = np.linspace(-1, 1, 5)


@pytest.fixture
def rewritten(folder, monkeypatch):
    """The Programs that were rewritten."""
    made = []
    inner = SPECIALISE.rewrite
    monkeypatch.setattr(SPECIALISE, "rewrite", lambda p: made.append(p) or inner(p))
    return made


def run(f, *args, **options):
    """The result, and where the code came from; it is out of memory afterwards."""
    jitted = bs.jit(f, **options)
    result = jitted(*[np.array(a) for a in args])
    (made,) = jitted.stats()["specialisations"]
    del jitted
    gc.collect()
    return result, made["code"]


def loss(x):
    w = np.array([0.5, 2.0, -1.0, 0.25, 3.0])
    total = np.sum(np.tanh(x) * w)
    for k in range(3):
        total = np.where(total > k, total * 1.5, total) + x[k]
    return total


def test_found_before_anything_is_rewritten(rewritten):
    first, origin = run(bs.grad(loss), x)
    assert (origin, len(rewritten)) == ("built", 1)
    second, origin = run(bs.grad(loss), x)
    assert (origin, len(rewritten)) == ("disk", 1)
    np.testing.assert_array_equal(first, second)


def test_loops_branches_and_calls_have_keys(rewritten):
    def power(x, n):
        return x if n == 0 else x * power(x, n - 1)

    def f(x):
        total = 0.0
        while np.sum(x) < 10.0:
            x = x + 1.0
            total = total + power(x, 3)[0] if x[0] > 0.5 else total - 1.0
        return total * x

    results = [run(f, x)[0] for _ in range(2)]
    assert len(rewritten) == 1
    np.testing.assert_array_equal(*results)
    np.testing.assert_allclose(results[0], f(x))


def test_what_is_recalled_can_be_shown_and_differentiated(rewritten):
    texts = []
    for _ in range(2):
        f = bs.jit(loss)
        value = f(x)
        lowered = f.lower(x)
        texts.append([lowered.stages[name] for name in ("program", "rewritten", "steps")])
        gradient = bs.grad(f)(x)
        stats = {k: v for k, v in f.stats()["specialisations"][0].items() if k != "code"}
        del stats["compile_seconds"], f
        texts[-1].append((float(value), gradient.tolist(), stats))
        gc.collect()
    assert texts[0] == texts[1]


@pytest.mark.parametrize(
    "others",
    [
        lambda: (lambda x: x * 2.0, lambda x: x * 3.0),
        lambda: (lambda x: x * 0.0, lambda x: x * -0.0),
        lambda: (
            lambda x: x + np.array([0.0, 1, 2, 3, 4]),
            lambda x: x + np.array([0.0, 1, 2, 3, 5]),
        ),
        lambda: (lambda x: x[1:3], lambda x: x[2:4]),
        lambda: (lambda x: x.astype(np.float32), lambda x: x.astype(np.int32)),
        lambda: (lambda x: x - x[::-1], lambda x: x[::-1] - x),
        lambda: (lambda x: (x, x + 1), lambda x: (x + 1, x)),
    ],
)
def test_other_programs(rewritten, others):
    f, g = others()
    for h in (f, g, f, g):
        np.testing.assert_array_equal(np.asarray(run(h, x)[0]), np.asarray(h(x)))
    assert len(rewritten) == 2


def test_other_settings(rewritten):
    f = lambda x: x * 2.0 + 1.0
    run(f, x)
    for options in ({"donate": 0}, {"fastmath": True}, {"unsafe": True}):
        run(f, x, **options)
        run(f, x, **options)
    assert len(rewritten) == 4
    threads.set_threads(threads.get_threads() + 1)
    try:
        run(f, x)
    finally:
        threads.set_threads(threads.get_threads() - 1)
    assert len(rewritten) == 5


def test_another_state_of_the_package(rewritten, monkeypatch):
    run(loss, x)
    monkeypatch.setattr(build, "package", lambda: "one of them was changed")
    assert run(loss, x)[1] == "disk"  # by its text
    assert len(rewritten) == 2


def test_large_constants_are_not_kept(rewritten, folder, monkeypatch):
    monkeypatch.setattr(recipes, "LARGE", 32)
    run(loss, x)
    assert not list(folder.glob("*.recipe"))
    assert run(loss, x)[1] == "disk"
    assert len(rewritten) == 2


def test_rows_of_users_have_no_key(folder):
    assert recipes._function(np.tanh) == "tanh"
    assert recipes._function(np.frompyfunc(lambda a: a, 1, 1)) is None
    assert recipes._function(np.vectorize(lambda a: a)) is None
    assert recipes._function(lambda a: a) is None


def test_rows_of_one_name_with_other_functions(folder, monkeypatch):
    program, _ = trace.stage(lambda a: [np.tanh(a)], [ir.type_of(x)])
    first = recipes.key_of(program)
    monkeypatch.setattr(P.tanh, "run", np.sin)
    assert recipes.key_of(program) not in (None, first)


@pytest.mark.parametrize("damage", [lambda c: c[:-1], lambda c: c[:-9] + b"!" + c[-8:]])
def test_a_damaged_recipe_is_not_read(rewritten, folder, damage):
    run(loss, x)
    (path,) = folder.glob("*.recipe")
    path.write_bytes(damage(path.read_bytes()))
    assert run(loss, x)[1] == "disk"
    assert len(rewritten) == 2
    run(loss, x)
    assert len(rewritten) == 2


def test_a_recipe_under_another_name_is_not_read(rewritten, folder):
    run(lambda x: x * 2.0, x)
    (first,) = folder.glob("*.recipe")
    run(lambda x: x * 3.0, x)
    (second,) = set(folder.glob("*.recipe")) - {first}
    second.write_bytes(first.read_bytes())
    np.testing.assert_array_equal(run(lambda x: x * 3.0, x)[0], x * 3.0)


def test_code_that_is_gone_is_built_again(rewritten, folder):
    run(loss, x)
    for path in folder.glob("*.object"):
        path.unlink()
    assert run(loss, x)[1] == "built"


def test_recursion_finds_the_end_of_the_stack_again(rewritten):
    def down(x, n):
        return x * 2.0 if n <= 0.0 else down(x + 1.0, n - 1.0) * 0.5

    f = lambda x: down(x, np.sum(x) + 5.0)
    results = [run(f, x)[0] for _ in range(2)]
    assert len(rewritten) == 1
    np.testing.assert_array_equal(*results)


def test_the_tape_of_a_recursion_is_found_again(rewritten):
    """Its layouts are numbered anew in each process, and by each recording."""

    def down(x, n):
        return np.sum(np.sin(x)) if n <= 0.0 else down(np.exp(-x), n - 1.0) * x[0]

    results = [run(bs.grad(down), x, 4.0)[0] for _ in range(2)]
    assert len(rewritten) == 1
    np.testing.assert_array_equal(*results)
    np.testing.assert_allclose(results[0], bs.grad(down)(x, 4.0), rtol=1e-12)


def test_functions_outside_are_found_again(rewritten):
    from scipy.special import gammaln

    def f(a):
        return np.sum(gammaln(np.linalg.cholesky(a @ a.T + 200 * np.eye(100)) + 1.0))

    a = np.random.default_rng(0).normal(size=(100, 100))
    results = [run(f, a)[0] for _ in range(2)]
    assert len(rewritten) == 1
    assert results[0] == results[1]
    np.testing.assert_allclose(results[0], f(a))
