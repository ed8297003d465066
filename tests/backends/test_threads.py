"""The threads of compiled code: ranges, codes, nesting, many callers, forks, exits, settings."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest
from llvmlite import binding, ir

import backsolve as bs
from backsolve.backends.native import blas, threads
from backsolve.backends.native.build import machine
from backsolve.backends.native.pool_code import BODY, CODE, INT, POINTER, Word

# A context: the address of an int64 array of n rows of 4, and a number that a body may use.
Context = ctypes.c_int64 * 2


def body(module, name, emit):
    """A body that runs `emit(b, row, i, worker, number)` for each of its indices; its code is of the last."""
    function = ir.Function(module, BODY, name)
    context, low, high, worker = function.args
    b = ir.IRBuilder(function.append_basic_block("entry"))
    words = b.bitcast(context, INT.as_pointer())
    base = b.inttoptr(b.load(words), INT.as_pointer())
    number = b.load(b.gep(words, [INT(1)]))
    entry, loop, after = b.block, b.append_basic_block("loop"), b.append_basic_block("after")
    b.branch(loop)
    b.position_at_end(loop)
    i = b.phi(INT)
    i.add_incoming(low, entry)
    code = emit(b, b.gep(base, [b.mul(i, INT(4))]), i, worker, number)
    following = b.add(i, INT(1))
    i.add_incoming(following, b.block)
    b.cbranch(b.icmp_signed("<", following, high), loop, after)
    b.position_at_end(after)
    b.ret(code)
    return function


def add(b, row, column, value):
    place = b.gep(row, [INT(column)])
    b.store(b.add(b.load(place), value), place)


def mark(b, row, i, worker, number):
    """How often, by which worker, which index."""
    for column, value in enumerate((INT(1), worker, i)):
        add(b, row, column, value)
    return CODE(0)


def fail(b, row, i, worker, number):
    """Code worker + 7 from the workers that are in the bits of `number`."""
    add(b, row, 0, INT(1))
    bit = b.and_(b.lshr(number, worker), INT(1))
    return b.trunc(b.mul(bit, b.add(worker, INT(7))), CODE)


def meet(b, row, i, worker, number):
    """Worker 0 returns when all three others have begun, who work on so long that it falls asleep."""
    begun = b.inttoptr(number, INT.as_pointer())
    add(b, row, 0, INT(1))
    first = b.icmp_signed("==", worker, INT(0))
    with b.if_then(b.not_(first)):
        b.atomic_rmw("add", begun, INT(1), "seq_cst")
    turns = b.select(first, INT(1 << 33), INT(1 << 20))
    before, wait, after = b.block, b.append_basic_block("wait"), b.append_basic_block("after")
    b.branch(wait)
    b.position_at_end(wait)
    left = b.phi(INT)
    left.add_incoming(turns, before)
    all_here = b.icmp_signed("==", b.load_atomic(begun, "acquire", 8), INT(3))
    fewer = b.sub(left, INT(1))
    left.add_incoming(fewer, wait)
    over = b.icmp_signed("==", fewer, INT(0))
    b.cbranch(b.or_(over, b.and_(first, all_here)), after, wait)
    b.position_at_end(after)
    return b.zext(b.and_(first, over), CODE)


def nest(b, row, i, worker, number):
    """`mark` over a row's own 1 · 4 numbers, in a parallel call of its own."""
    with b.goto_entry_block():
        inner = b.alloca(INT, size=2)
    b.store(b.ptrtoint(row, INT), inner)
    b.call(
        threads.parallel(b.module),
        [b.module.get_global("mark"), b.bitcast(inner, POINTER), INT(1), number],
    )
    return CODE(0)


def caller(module, name, function, run=threads.parallel):
    """`int call_name(context, n, most)`"""
    call = ir.Function(module, ir.FunctionType(CODE, [POINTER, INT, INT]), f"call_{name}")
    b = ir.IRBuilder(call.append_basic_block("entry"))
    b.ret(b.call(run(module), [function, *call.args]))


def compile_bodies():
    """`compiled.mark(n, most)`: the rows and the code."""
    module = ir.Module("bodies")
    for name, emit in (("mark", mark), ("fail", fail), ("meet", meet), ("nest", nest)):
        caller(module, name, body(module, name, emit))
    caller(module, "spread", module.get_global("mark"), threads.spread)
    caller(module, "ranges", module.get_global("mark"), threads.ranges)
    told = ir.Function(module, ir.FunctionType(INT, [INT, INT]), "told")
    b = ir.IRBuilder(told.append_basic_block("entry"))
    b.ret(b.call(threads.workers(module), told.args))
    parsed = binding.parse_assembly(str(module))
    engine = binding.create_mcjit_compiler(parsed, machine())
    engine.finalize_object()

    class Compiled:
        def __init__(self):
            kind = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
            self.workers = kind(engine.get_function_address("told"))
            self.engine = engine

        def __getattr__(self, name):
            signature = [ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64]
            # With the GIL (PYFUNCTYPE) and without it.
            address = engine.get_function_address(f"call_{name}")
            kinds = [ctypes.PYFUNCTYPE(*signature), ctypes.CFUNCTYPE(*signature)]
            calls = [kind(address) for kind in kinds]

            def call(n, most=threads.MOST_THREADS, number=0, gil=False):
                rows = np.zeros((max(n, 0), 4), np.int64)
                context = Context(rows.ctypes.data, number)
                code = calls[0 if gil else 1](ctypes.addressof(context), n, most)
                return rows, code

            return call

    return Compiled()


compiled = pytest.fixture(compile_bodies, scope="module")


@pytest.fixture(autouse=True)
def _keep_setting():
    before = threads._chosen
    yield
    bs.set_threads(bs.get_threads() if before is None else before)
    threads._chosen = before
    threads.limit_blas()


def expected(n, ranges):
    """As `mark` leaves it: the ranges of np.array_split."""
    rows = np.zeros((n, 4), np.int64)
    for k, part in enumerate(np.array_split(np.arange(n), ranges)):
        rows[part, 0], rows[part, 1], rows[part, 2] = 1, k, part
    return rows


@pytest.mark.parametrize("number", [1, 2, 3, 8, 33])
@pytest.mark.parametrize("gil", [True, False])
def test_every_index_once_by_its_worker(compiled, number, gil):
    bs.set_threads(number)
    for n in (1, 2, 3, 7, 8, 100, 1001):
        for most in (1, 2, 5, 1000):
            ranges = min(number, most, n)
            assert compiled.workers(n, most) == ranges
            for _ in range(3):
                rows, code = compiled.mark(n, most, gil=gil)
                assert code == 0
                np.testing.assert_array_equal(rows, expected(n, ranges))


def test_no_index_and_no_limit(compiled):
    bs.set_threads(4)
    for n in (0, -3):
        assert compiled.workers(n, 4) == 0
        assert compiled.mark(n)[1] == 0
    for most in (0, -1):  # the work is done all the same
        assert compiled.workers(5, most) == 1
        np.testing.assert_array_equal(compiled.mark(5, most)[0], expected(5, 1))


@pytest.mark.parametrize(("failing", "first"), [(0, 0), (0b1000, 10), (0b0110, 8), (0b1111, 7)])
def test_the_code_of_the_first_range_that_fails(compiled, failing, first):
    bs.set_threads(4)
    for _ in range(100):
        rows, code = compiled.fail(40, number=failing)
        assert code == first
        assert rows[:10, 0].sum() == 10
    assert compiled.fail(3, most=1, number=0b1)[1] == 7


def test_workers_run_beside_the_caller(compiled):
    bs.set_threads(4)
    for _ in range(20):
        begun = ctypes.c_int64(0)
        rows, code = compiled.meet(4, number=ctypes.addressof(begun))
        assert code == 0, "the caller waited for workers that never began"
        assert begun.value == 3
        np.testing.assert_array_equal(rows[:, 0], 1)


def test_a_body_may_call_again(compiled):
    bs.set_threads(4)
    for inner in (1, 4):
        rows, code = compiled.nest(50, number=inner)
        assert code == 0
        np.testing.assert_array_equal(rows[:, 0], 1)


def test_many_python_threads_at_once(compiled):
    wrong = []

    def use():
        for n in range(1, 300):
            rows, code = compiled.mark(n)
            if code or not np.array_equal(rows[:, [0, 2]], expected(n, 1)[:, [0, 2]]):
                wrong.append(n)

    def change():
        for n in range(100):
            bs.set_threads(1 + n % 5)

    users = [threading.Thread(target=f) for f in (use, use, use, use, change)]
    for user in users:
        user.start()
    for user in users:
        user.join()
    assert not wrong


def test_the_number_may_change_at_any_time(compiled):
    for number in (2, 7, 3, 12, 1, 12):
        bs.set_threads(number)
        assert bs.get_threads() == number
        np.testing.assert_array_equal(compiled.mark(100)[0], expected(100, number))


def test_as_many_ranges_as_asked_for(compiled):
    bs.set_threads(2)
    for asked, made in ((1, 1), (4, 4), (200, 100)):
        np.testing.assert_array_equal(compiled.ranges(100, asked)[0], expected(100, made))
        with threads.pool().paused():
            np.testing.assert_array_equal(compiled.ranges(100, asked)[0], expected(100, made))


def fork_within_a_job():
    """For a process of its own: libraries that other tests have loaded do not survive a fork."""
    compiled = compile_bodies()
    bs.set_threads(4)
    compiled.mark(100)
    pool = threads.pool()
    assert pool.words[Word.STARTED] >= 3
    pool.words[Word.BUSY] = 1  # as if another thread were in the middle of a job
    child = os.fork()
    if child == 0:
        fresh = pool.words[Word.STARTED] == 0 and pool.words[Word.BUSY] == 0
        right = np.array_equal(compiled.mark(100)[0], expected(100, 4))
        bs.set_threads(5)
        grown = np.array_equal(compiled.mark(100)[0], expected(100, 5))
        started = pool.words[Word.STARTED] == 4
        os._exit(0 if fresh and right and grown and started else 1)
    pool.words[Word.BUSY] = 0
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    np.testing.assert_array_equal(compiled.mark(100)[0], expected(100, 4))
    print("done")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_starts_afresh():
    code = f"import runpy; runpy.run_path({__file__!r})['fork_within_a_job']()"
    assert run(code) == "done"


def test_a_busy_pool_runs_the_same_ranges_serially(compiled):
    bs.set_threads(4)
    with threads.pool().paused():
        np.testing.assert_array_equal(compiled.mark(10)[0], expected(10, 4))
        assert compiled.fail(40, number=0b1100)[1] == 9
        np.testing.assert_array_equal(compiled.spread(10)[0], expected(10, 1))
    np.testing.assert_array_equal(compiled.spread(10)[0], expected(10, 4))


@pytest.mark.parametrize("wrong", [0, -1, 1025, True])
def test_numbers_that_are_refused(wrong):
    with pytest.raises(
        ValueError, match=r"needs a number of threads from 1 to 1024 \(got .*\); 1 "
    ):
        bs.set_threads(wrong)


@pytest.mark.parametrize("wrong", [1.5, "2", None])
def test_things_that_are_refused(wrong):
    with pytest.raises(TypeError, match=r"needs a number of threads from 1 to 1024 \(got .*\); 1 "):
        bs.set_threads(wrong)


def test_numpy_integers_count():
    bs.set_threads(np.int64(2))
    assert bs.get_threads() == 2


def run(code, **environment):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_default_is_the_cores_that_may_be_used():
    printed = run("import backsolve as bs; print(bs.get_threads())", BACKSOLVE_NUM_THREADS="")
    assert 1 <= int(printed) <= (os.cpu_count() or 1)


def test_the_environment_variable():
    code = """
        import sys
        import backsolve as bs
        assert bs.get_threads() == 3
        assert "llvmlite" not in sys.modules
        from backsolve.backends.native import blas, threads
        from backsolve.backends.native.pool_code import Word
        assert threads.pool().words[Word.THREADS] == 3
        blas.pointer("dgemm")
        found = threads._blas()
        print(found is None or found[0]() == 3)
        bs.set_threads(2)
        print(bs.get_threads(), found is None or found[0]() == 2)
    """
    assert run(code, BACKSOLVE_NUM_THREADS=" 3 ").split() == ["True", "2", "True"]


@pytest.mark.parametrize("wrong", ["0", "many", "-1", "2.0"])
def test_an_environment_variable_that_is_refused(wrong):
    code = """
        import backsolve as bs
        try:
            bs.get_threads()
        except (TypeError, ValueError) as error:
            print(error)
    """
    printed = run(code, BACKSOLVE_NUM_THREADS=wrong)
    assert printed.startswith("the environment variable BACKSOLVE_NUM_THREADS needs a number")
    assert wrong in printed


EXIT = """
    import ctypes, os, sys, time
    import backsolve as bs
    from llvmlite import binding, ir
    from backsolve.backends.native import threads
    from backsolve.backends.native.build import machine
    from backsolve.backends.native.pool_code import BODY, CODE, INT, POINTER, Word
    bs.set_threads(6)
    module = ir.Module("exit")
    body = ir.Function(module, BODY, "body")
    ir.IRBuilder(body.append_basic_block("entry")).ret(CODE(0))
    call = ir.Function(module, ir.FunctionType(CODE, []), "call")
    b = ir.IRBuilder(call.append_basic_block("entry"))
    b.ret(b.call(threads.parallel(module), [body, INT(0).inttoptr(POINTER), INT(60), INT(6)]))
    engine = binding.create_mcjit_compiler(binding.parse_assembly(str(module)), machine())
    engine.finalize_object()
    f = ctypes.CFUNCTYPE(ctypes.c_int)(engine.get_function_address("call"))
    assert f() == 0
    assert threads.pool().words[Word.STARTED] == 5
    time.sleep({pause})
    print("done")
"""


@pytest.mark.parametrize("pause", [0, 0.05])
def test_workers_do_not_hold_up_the_exit(pause):
    """While they still spin, and when they sleep."""
    assert run(EXIT.format(pause=pause)) == "done"


def test_products_keep_to_one_thread_inside_a_job_and_get_theirs_back(compiled):
    blas.pointer("dgemm")
    found = threads._blas()
    if found is None:
        pytest.skip("SciPy's BLAS is not OpenBLAS: its threads cannot be set")
    get, _ = found
    module = ir.Module("asks")
    pool = threads.pool()

    def ask(b, row, i, worker, number):
        address = INT(pool.words[Word.BLAS_GET])
        signature = ir.FunctionType(ir.IntType(32), [])
        asked = b.call(b.inttoptr(address, signature.as_pointer()), [])
        add(b, row, 0, b.zext(asked, INT))
        return CODE(0)

    caller(module, "ask", body(module, "ask", ask))
    engine = binding.create_mcjit_compiler(binding.parse_assembly(str(module)), machine())
    engine.finalize_object()
    signature = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    call = signature(engine.get_function_address("call_ask"))
    bs.set_threads(2)
    for most, inside in ((2, 1), (1, 2)):
        rows = np.zeros((10, 4), np.int64)
        context = Context(rows.ctypes.data, 0)
        assert call(ctypes.addressof(context), 10, most) == 0
        np.testing.assert_array_equal(rows[:, 0], inside)
        assert get() == 2


PRODUCTS = {
    "rows": ("ik,kj->ij", (300, 200), (200, 100)),
    "columns": ("ik,kj->ij", (100, 200), (200, 300)),
    "the first turned": ("ki,kj->ij", (200, 300), (200, 100)),
    "the second turned": ("ik,jk->ij", (70, 200), (300, 200)),
    "a vector": ("ik,k->i", (1000, 500), (500,)),
    "one column": ("ik,kj->ij", (1000, 500), (500, 1)),
    "fewer lines than threads": ("ik,kj->ij", (2, 60_000), (60_000, 3)),
    "a stack": ("zik,zkj->zij", (35, 30, 48), (35, 48, 40)),
    "a stack of two axes": ("yzik,zykj->yzij", (5, 7, 40, 48), (7, 5, 48, 30)),
    "one matrix for a stack": ("zik,kj->zij", (35, 64, 48), (48, 80)),
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", PRODUCTS)
def test_large_products_on_any_number_of_threads(name, dtype):
    subscripts, *shapes = PRODUCTS[name]
    rng = np.random.default_rng(3)
    a, b = (rng.normal(size=shape).astype(dtype) for shape in shapes)
    f = bs.jit(lambda a, b: np.einsum(subscripts, a, b))
    expected = np.einsum(subscripts, a, b, optimize=True)
    tolerance = 1e-3 if dtype is np.float32 else 1e-9
    for number in (1, 2, 3, 7):
        bs.set_threads(number)
        np.testing.assert_allclose(f(a, b), expected, rtol=tolerance, atol=tolerance)
    assert f.stats()["specialisations"][0]["native"]


def test_only_large_products_are_spread():
    blas.pointer("dgemm")
    f = bs.jit(lambda a, b: a @ b)
    for size in (32, 256):
        a = np.ones((size, size))
        spread = "backsolve_spread" in f.lower(a, a).stages["llvm"]
        assert spread == (size == 256 and threads.limits_blas())
