"""Exceptions out of compiled code, through both entries."""

from __future__ import annotations

import gc
import tracemalloc

import numpy as np
import pytest
from llvmlite import ir

import backsolve as bs
from backsolve.backends.native import compile as native
from backsolve.backends.native import sharing
from backsolve.backends.native.failure import CODE, FINE, fail_if


class Failing(native.Schedule):
    """Two exceptions that any step may raise: codes 1 and 2."""

    def __init__(self, program, **options):
        super().__init__(program, **options)
        assert self.fail(IndexError, "the first number is 13") == 1
        assert self.fail(KeyError, "the first number is «14»") == 2
        assert self.fail(IndexError, "the first number is 13") == 1


def failing_kernel(module, name, *rest):
    """The kernel behind a function that looks at the first number of its first buffer."""
    inner = emit_kernel(module, name, *rest)
    function = ir.Function(
        module, ir.FunctionType(CODE, inner.function_type.args), name + "checked"
    )
    b = ir.IRBuilder(function.append_basic_block("entry"))
    first = b.load(function.args[0])
    for code, unlucky in ((1, 13.0), (2, 14.0)):
        fail_if(b, b.fcmp_ordered("==", first, ir.Constant(first.type, unlucky)), code)
    b.call(inner, function.args)
    b.ret(FINE)
    return function


emit_kernel = sharing.emit_kernel


@pytest.mark.parametrize("fast", [True, False])
def test_codes_become_exceptions(monkeypatch, fast):
    if fast and not native.knows_layout():
        pytest.skip("the fast entry does not know this interpreter's objects")
    monkeypatch.setattr(native, "Schedule", Failing)
    monkeypatch.setattr(sharing, "emit_kernel", failing_kernel)
    monkeypatch.setattr(native, "knows_layout", lambda: fast)
    f = bs.jit(lambda x: (x * 2, x + 1, x.sum()))
    np.testing.assert_array_equal(f(np.array([1.0, 2.0]))[0], [2, 4])
    for _ in range(2):
        with pytest.raises(IndexError, match="the first number is 13"):
            f(np.array([13.0, 2.0]))
        with pytest.raises(KeyError, match="«14»"):
            f(np.array([14.0, 2.0]))
        np.testing.assert_array_equal(f(np.array([12.0, 2.0]))[1], [13, 3])


def test_a_failed_run_releases_its_outputs(monkeypatch):
    monkeypatch.setattr(native, "Schedule", Failing)
    monkeypatch.setattr(sharing, "emit_kernel", failing_kernel)
    f = bs.jit(lambda x: (x * 2, np.sum(x.reshape(100, 100), axis=-1)))
    x = np.full(10_000, 13.0)

    def fail():
        with pytest.raises(IndexError):
            f(x)

    fail()
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(20):
            fail()
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] - before < x.nbytes
    finally:
        tracemalloc.stop()
