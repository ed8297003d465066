"""The code of the threads that compiled code shares: a few functions over i64 words in memory.

Words (class Word) are all that the threads have in common. Each worker sleeps, spins or works by its own
word STATE, changed by one atomic instruction at a time:

    IDLE ──▶ ASLEEP          the worker has spun for nothing; then it waits for its lock
    IDLE, ASLEEP ──▶ CALLED  there is a job; who calls an ASLEEP worker opens its lock
    CALLED ──▶ RUNNING       the worker begins its range
    CALLED ──▶ IDLE          the caller is done with its own range first and takes this one, too
    RUNNING ──▶ IDLE         the worker is done; then it counts itself off PENDING

So a machine that is busy otherwise costs the overlap, and no wait for a worker that has yet to wake. The
caller waits for PENDING to fall to 0 as workers do: it spins, then adds ASLEEP_CALLER and waits for its
lock, which the last worker opens. Threads and locks are CPython's own, which are the system's on every
platform, need no linking and no GIL.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum
from typing import Any

from llvmlite import binding, ir

from .failure import CODE, FINE
from .threads import MOST_THREADS

INT, POINTER, VOID = ir.IntType(64), ir.IntType(8).as_pointer(), ir.VoidType()
CINT, LONG = ir.IntType(32), ir.IntType(8 * ctypes.sizeof(ctypes.c_ulong))
BODY = ir.FunctionType(CODE, [POINTER, INT, INT, INT])
LINE = 16  # words: two cache lines, as much as processors fetch at once
IDLE, ASLEEP, CALLED, RUNNING = INT(0), INT(1), INT(2), INT(3)
ASLEEP_CALLER = 1 << 32
PREFIX = "backsolve_"
RUN = ("backsolve_parallel", "backsolve_ranges", "backsolve_spread")
FROM_PYTHON = (
    "PyThread_start_new_thread",
    "PyThread_allocate_lock",
    "PyThread_acquire_lock",
    "PyThread_release_lock",
)


class Word(IntEnum):
    """The shared words; a worker's own words follow at Word.WORKERS, a LINE for each."""

    THREADS = 0  # what set_threads asked for
    SPIN = 1  # turns to wait awake
    STARTED = 2  # workers that live
    BODY = 3  # the job
    CONTEXT = 4
    COUNT = 5
    RANGES = 6
    CALLER = 7  # the lock the caller waits for
    BLAS_GET = 8  # int (*)(void), or 0
    BLAS_SET = 9  # void (*)(int)
    BLAS_THREADS = 10  # what BLAS had before the job; 0 between jobs
    BUSY = LINE
    PENDING = 2 * LINE
    WORKERS = 3 * LINE


class Own(IntEnum):
    """A worker's own words."""

    STATE = 0
    LOCK = 1
    CODE = 2


Words = ctypes.c_int64 * (Word.WORKERS + LINE * (MOST_THREADS + 1))


def emit_pool() -> ir.Module:
    module = ir.Module("backsolve_pool")
    module.triple = binding.get_default_triple()
    emit = Emitter(module)
    workers = emit.workers()
    work = emit.part()
    wake = emit.wake()
    worker = emit.worker(work, wake)
    parts = (workers, work, emit.start(worker), emit.share(work, wake))
    for name in RUN:
        emit.parallel(name, *parts)
    emit.spin()
    emit.try_lock()
    return module


@contextmanager
def loop(b: ir.IRBuilder, start: ir.Value, stop: ir.Value) -> Iterator[ir.Value]:
    """for i in range(start, stop)"""
    before = b.block
    body, after = b.append_basic_block("body"), b.append_basic_block("after")
    b.cbranch(b.icmp_signed("<", start, stop), body, after)
    b.position_at_end(body)
    i = b.phi(INT)
    i.add_incoming(start, before)
    yield i
    following = b.add(i, INT(1))
    i.add_incoming(following, b.block)
    b.cbranch(b.icmp_signed("<", following, stop), body, after)
    b.position_at_end(after)


class Emitter:
    """The functions of the pool."""

    def __init__(self, module: ir.Module) -> None:
        self.module = module
        self.words = ir.GlobalVariable(
            module, ir.ArrayType(INT, ctypes.sizeof(Words) // 8), "words"
        )
        self.words.initializer = ir.Constant(self.words.value_type, None)
        self.words.align = 8 * LINE
        self.b: ir.IRBuilder = None

    def open(self, name: str, result: ir.Type, args: Sequence[ir.Type]) -> Any:
        function = ir.Function(self.module, ir.FunctionType(result, args), name)
        self.b = ir.IRBuilder(function.append_basic_block("entry"))
        return function

    def word(self, which: int) -> ir.Value:
        return self.b.gep(self.words, [INT(0), INT(which)])

    def own(self, worker: ir.Value, which: Own) -> ir.Value:
        b = self.b
        place = b.add(b.mul(worker, INT(LINE)), INT(Word.WORKERS + which))
        return b.gep(self.word(0), [place])

    def load(self, place: ir.Value) -> ir.Value:
        return self.b.load_atomic(place, "acquire", 8)

    def store(self, value: ir.Value, place: ir.Value) -> None:
        self.b.store_atomic(value, place, "release", 8)

    def swap(self, place: ir.Value, old: ir.Value, new: ir.Value) -> ir.Value:
        """Whether it held `old`; then it holds `new`."""
        return self.b.extract_value(self.b.cmpxchg(place, old, new, "seq_cst"), 1)

    def call(self, address: ir.Value, result: ir.Type, args: Sequence[ir.Value]) -> ir.Value:
        signature = ir.FunctionType(result, [a.type for a in args])
        return self.b.call(self.b.inttoptr(address, signature.as_pointer()), args)

    def call_python(self, name: str, result: ir.Type, args: Sequence[ir.Value]) -> ir.Value:
        """One of FROM_PYTHON."""
        signature = ir.FunctionType(result, [a.type for a in args])
        known = self.module.globals.get(PREFIX + name)
        return self.b.call(known or ir.Function(self.module, signature, PREFIX + name), args)

    def open_lock(self, lock: ir.Value) -> None:
        self.call_python("PyThread_release_lock", VOID, [lock])

    def wait_for_lock(self, lock: ir.Value) -> None:
        self.call_python("PyThread_acquire_lock", CINT, [lock, CINT(1)])

    def pause(self) -> None:
        """Tell the core that this is a loop that waits."""
        name, arguments = _pause(self.module.triple)
        if name:
            signature = ir.FunctionType(VOID, [a.type for a in arguments])
            function = self.module.globals.get(name) or ir.Function(self.module, signature, name)
            self.b.call(function, arguments)

    def spin_until(self, holds: Callable[[], ir.Value]) -> ir.Value:
        """Wait awake for a while; whether it came to hold."""
        b = self.b
        before = b.block
        turns = b.load(self.word(Word.SPIN))
        look, wait, after = (b.append_basic_block(x) for x in ("look", "wait", "after"))
        b.branch(look)
        b.position_at_end(look)
        left = b.phi(INT)
        left.add_incoming(turns, before)
        held = holds()
        b.cbranch(held, after, wait)
        looked = b.block
        b.position_at_end(wait)
        self.pause()
        fewer = b.sub(left, INT(1))
        left.add_incoming(fewer, b.block)
        b.cbranch(b.icmp_signed(">", fewer, INT(0)), look, after)
        b.position_at_end(after)
        result = b.phi(ir.IntType(1))
        result.add_incoming(ir.IntType(1)(1), looked)
        result.add_incoming(ir.IntType(1)(0), wait)
        return result

    def workers(self) -> Any:
        """i64 backsolve_workers(i64 n, i64 most): how many ranges backsolve_parallel makes of n."""
        function = self.open("backsolve_workers", INT, [INT, INT])
        n, most = function.args
        least = self.minimum(self.load(self.word(Word.THREADS)), most)
        positive = self.b.select(self.b.icmp_signed("<", least, INT(1)), INT(1), least)
        bounded = self.minimum(positive, n)
        self.b.ret(self.b.select(self.b.icmp_signed("<", bounded, INT(0)), INT(0), bounded))
        return function

    def minimum(self, x: ir.Value, y: ir.Value) -> ir.Value:
        return self.b.select(self.b.icmp_signed("<", x, y), x, y)

    def part(self) -> Any:
        """i32 part(body, context, n, ranges, k): the body over the k-th of even ranges."""
        function = self.open("part", CODE, [BODY.as_pointer(), POINTER, INT, INT, INT])
        function.linkage = "internal"
        b = self.b
        body, context, n, ranges, k = function.args
        each, longer = b.sdiv(n, ranges), b.srem(n, ranges)
        low = b.add(b.mul(each, k), self.minimum(k, longer))
        size = b.add(each, b.zext(b.icmp_signed("<", k, longer), INT))
        b.ret(b.call(body, [context, low, b.add(low, size), k]))
        return function

    def wake(self) -> Any:
        """void wake(k): hand the job to workers 2k + 1 and 2k + 2, who hand it on."""
        function = self.open("wake", VOID, [INT])
        function.linkage = "internal"
        b = self.b
        first = b.add(b.shl(function.args[0], INT(1)), INT(1))
        stop = self.minimum(b.add(first, INT(2)), b.load(self.word(Word.RANGES)))
        with loop(b, first, stop) as k:
            before = b.atomic_rmw("xchg", self.own(k, Own.STATE), CALLED, "seq_cst")
            with b.if_then(b.icmp_signed("==", before, ASLEEP)):
                self.open_lock(b.load(self.own(k, Own.LOCK)))
        b.ret_void()
        return function

    def worker(self, work: Any, wake: Any) -> Any:
        """void worker(k): the life of a thread."""
        function = self.open("worker", VOID, [INT])
        function.linkage = "internal"
        b = self.b
        k = function.args[0]
        wait = b.append_basic_block("wait")
        state = self.own(k, Own.STATE)
        b.branch(wait)
        b.position_at_end(wait)
        awake = self.spin_until(lambda: b.icmp_signed("==", self.load(state), CALLED))
        with (
            b.if_then(b.not_(awake)),
            b.if_then(self.swap(state, IDLE, ASLEEP)),  # else a job came just now
        ):
            self.wait_for_lock(b.load(self.own(k, Own.LOCK)))
        run = b.append_basic_block("run")
        b.cbranch(self.swap(state, CALLED, RUNNING), run, wait)
        b.position_at_end(run)
        b.call(wake, [k])
        self.b.store(b.zext(self.job(work, k), INT), self.own(k, Own.CODE))
        self.store(IDLE, state)
        pending = b.atomic_rmw("sub", self.word(Word.PENDING), INT(1), "seq_cst")
        with b.if_then(b.icmp_signed("==", pending, INT(ASLEEP_CALLER + 1))):
            self.open_lock(b.load(self.word(Word.CALLER)))
        b.branch(wait)
        return function

    def job(self, work: Any, k: ir.Value) -> ir.Value:
        b = self.b
        body = b.inttoptr(b.load(self.word(Word.BODY)), BODY.as_pointer())
        context = b.inttoptr(b.load(self.word(Word.CONTEXT)), POINTER)
        n, ranges = b.load(self.word(Word.COUNT)), b.load(self.word(Word.RANGES))
        return b.call(work, [body, context, n, ranges, k])

    def start(self, worker: Any) -> Any:
        """i1 start(ranges): see to it that so many workers live; 0 if the system gives no more."""
        function = self.open("start", ir.IntType(1), [INT])
        function.linkage = "internal"
        b = self.b
        living = b.load(self.word(Word.STARTED))
        with loop(b, b.add(living, INT(1)), function.args[0]) as k:
            lock = self.call_python("PyThread_allocate_lock", INT, [])
            with b.if_then(b.icmp_signed("==", lock, INT(0)), likely=False):
                b.ret(ir.IntType(1)(0))
            self.wait_for_lock(lock)
            b.store(lock, self.own(k, Own.LOCK))
            self.store(IDLE, self.own(k, Own.STATE))
            thread = self.call_python("PyThread_start_new_thread", LONG, [worker, k])
            with b.if_then(b.icmp_signed("==", thread, LONG(-1)), likely=False):
                b.ret(ir.IntType(1)(0))
            b.store(k, self.word(Word.STARTED))
        b.ret(ir.IntType(1)(1))
        return function

    def parallel(self, name: str, workers: Any, work: Any, start: Any, share: Any) -> None:
        """i32 name(body, context, n, most): threads.py says how the names differ."""
        function = self.open(name, CODE, [BODY.as_pointer(), POINTER, INT, INT])
        b = self.b
        body, context, n, most = function.args
        if name == "backsolve_ranges":
            ranges = self.minimum(self.minimum(most, INT(MOST_THREADS)), n)
        else:
            ranges = b.call(workers, [n, most])
        with b.if_then(b.icmp_signed("<", ranges, INT(1)), likely=False):
            b.ret(FINE)
        with b.if_then(b.icmp_signed("==", ranges, INT(1))):
            b.ret(b.call(body, [context, INT(0), n, INT(0)]))
        with b.if_then(self.swap(self.word(Word.BUSY), INT(0), INT(1))):
            with b.if_then(b.call(start, [ranges])):
                code = b.call(share, [body, context, n, ranges])
                self.store(INT(0), self.word(Word.BUSY))
                b.ret(code)
            self.store(INT(0), self.word(Word.BUSY))
        # The pool is busy, maybe with the body that calls.
        if name == "backsolve_spread":
            b.ret(b.call(body, [context, INT(0), n, INT(0)]))
            return
        with loop(b, INT(0), ranges) as k:
            code = b.call(work, [body, context, n, ranges, k])
            with b.if_then(b.icmp_signed("!=", code, FINE), likely=False):
                b.ret(code)
        b.ret(FINE)

    def share(self, work: Any, wake: Any) -> Any:
        """i32 share(body, context, n, ranges): run a job on all workers."""
        function = self.open("share", CODE, [BODY.as_pointer(), POINTER, INT, INT])
        function.linkage = "internal"
        b = self.b
        body, context, n, ranges = function.args
        get, set_ = (b.load(self.word(x)) for x in (Word.BLAS_GET, Word.BLAS_SET))
        has_blas = b.icmp_signed("!=", set_, INT(0))
        with b.if_then(has_blas):
            threads = self.call(get, CINT, [])
            b.store(b.zext(threads, INT), self.word(Word.BLAS_THREADS))
            self.call(set_, VOID, [CINT(1)])
        b.store(b.ptrtoint(body, INT), self.word(Word.BODY))
        b.store(b.ptrtoint(context, INT), self.word(Word.CONTEXT))
        b.store(n, self.word(Word.COUNT))
        b.store(ranges, self.word(Word.RANGES))
        pending = self.word(Word.PENDING)
        self.store(b.sub(ranges, INT(1)), pending)
        b.call(wake, [INT(0)])
        code = b.alloca(CODE)
        b.store(b.call(work, [body, context, n, ranges, INT(0)]), code)
        with (
            loop(b, INT(1), ranges) as k,
            b.if_then(self.swap(self.own(k, Own.STATE), CALLED, IDLE)),
        ):
            b.call(wake, [k])
            theirs = b.call(work, [body, context, n, ranges, k])
            b.store(b.zext(theirs, INT), self.own(k, Own.CODE))
            b.atomic_rmw("sub", pending, INT(1), "seq_cst")
        done = self.spin_until(lambda: b.icmp_signed("==", self.load(pending), INT(0)))
        with b.if_then(b.not_(done)):
            before = b.atomic_rmw("add", pending, INT(ASLEEP_CALLER), "seq_cst")
            with b.if_then(b.icmp_signed("!=", before, INT(0))):
                self.wait_for_lock(b.load(self.word(Word.CALLER)))
        with loop(b, INT(1), ranges) as k:
            first = b.load(code)
            theirs = b.trunc(b.load(self.own(k, Own.CODE)), CODE)
            b.store(b.select(b.icmp_signed("==", first, FINE), theirs, first), code)
        with b.if_then(has_blas):
            self.call(set_, VOID, [b.trunc(b.load(self.word(Word.BLAS_THREADS)), CINT)])
            b.store(INT(0), self.word(Word.BLAS_THREADS))
        b.ret(b.load(code))
        return function

    def spin(self) -> None:
        """void spin(turns): to measure a turn."""
        function = self.open("spin", VOID, [INT])
        with loop(self.b, INT(0), function.args[0]):
            self.pause()
            self.load(self.word(Word.PENDING))
        self.b.ret_void()

    def try_lock(self) -> None:
        """i8 try_lock(): take the pool unless it is at work."""
        self.open("try_lock", ir.IntType(8), [])
        self.b.ret(self.b.zext(self.swap(self.word(Word.BUSY), INT(0), INT(1)), ir.IntType(8)))


def _pause(triple: str) -> tuple[str, list[ir.Value]]:
    if triple.startswith(("x86_64", "i686")):
        return "llvm.x86.sse2.pause", []
    if triple.startswith(("aarch64", "arm64")):
        return "llvm.aarch64.isb", [CINT(15)]  # `yield` does nothing on most cores
    return "", []
