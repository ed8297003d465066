"""Functions of all programs: built together, and found again on disk one by one."""

from __future__ import annotations

import threading
import weakref
from typing import Any

import numpy as np
import pytest
from llvmlite import ir

import backsolve as bs
from backsolve.backends.native import build, disk, library, tiling

if tiling.registers() is None:
    pytest.skip("this processor leaves all products to BLAS", allow_module_level=True)

rng = np.random.default_rng(0)
a, b = rng.normal(size=(2, 32, 32))
alive: list[Any] = []  # code that symbols point to from now on, whatever the tests put back


@pytest.fixture
def built(tmp_path, monkeypatch):
    """The texts that are built, with nothing on disk or in memory at first."""
    monkeypatch.setenv("BACKSOLVE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(disk, "_open", {})
    forget(monkeypatch)
    texts = []
    inner = build._build
    note = lambda key, text, *rest, **more: texts.append(text) or inner(key, text, *rest, **more)
    monkeypatch.setattr(build, "_build", note)
    return texts


def forget(monkeypatch):
    """As a new process begins."""
    alive.append({})
    monkeypatch.setattr(library, "_engines", alive[-1])
    monkeypatch.setattr(library, "keys", {})
    monkeypatch.setattr(library, "_wanted", library._Wanted())
    monkeypatch.setattr(build, "_engines", weakref.WeakValueDictionary())


def functions(text):
    return text.count("define ")


def test_what_one_program_asks_for_is_built_together(built):
    np.testing.assert_allclose(bs.jit(lambda a, b: a @ b.T + b.T @ a)(a, b), a @ b.T + b.T @ a)
    of_library, program = built
    assert functions(of_library) >= 3  # tiles, panels, and the loops around them
    assert "backsolve_product" in program


def test_each_is_found_on_disk_by_its_name(built, monkeypatch):
    bs.jit(lambda a, b: a @ b.T + b.T @ a)(a, b)
    forget(monkeypatch)
    del built[:]
    np.testing.assert_allclose(bs.jit(lambda a, b: np.exp(a @ b))(a, b), np.exp(a @ b))
    assert len(built) == 1  # the program alone


def test_nothing_is_found_where_nothing_is_kept(built, monkeypatch):
    monkeypatch.setenv("BACKSOLVE_CACHE_DIR", "")
    bs.jit(lambda a, b: a @ b + 1)(a, b)
    forget(monkeypatch)
    bs.jit(lambda a, b: a @ b + 2)(a, b)
    assert len(built) == 4


def test_a_function_that_is_gone_is_built_again(built, monkeypatch, tmp_path):
    bs.jit(lambda a, b: a @ b + 1)(a, b)
    for path in (tmp_path / "cache").glob("*.object"):
        path.unlink()
    forget(monkeypatch)
    np.testing.assert_allclose(bs.jit(lambda a, b: a @ b + 2)(a, b), a @ b + 2)
    assert len(built) == 4


def ask_for(name, emit):
    library.shared(ir.Module(), name, ir.FunctionType(ir.VoidType(), []), emit)


def returns(function):
    ir.IRBuilder(function.append_basic_block()).ret_void()


def fails(function):
    function.append_basic_block()
    raise ZeroDivisionError(function.name)


def test_a_function_that_cannot_be_emitted_leaves_no_trace(built):
    ask_for("good", returns)
    ask_for("bad", fails)
    with pytest.raises(ZeroDivisionError, match="bad"):
        library.build_wanted()
    np.testing.assert_allclose(bs.jit(lambda a, b: a @ b + 3)(a, b), a @ b + 3)
    assert library.address("good")  # asked for by others, too
    ask_for("bad", returns)
    library.build_wanted()
    assert library.address("bad")


def test_a_function_that_is_no_code_leaves_no_trace(built, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(build, "load", lambda *args, **more: 1 / 0)
        ask_for("refused", returns)
        with pytest.raises(ZeroDivisionError):
            library.build_wanted()
    ask_for("refused", returns)
    library.build_wanted()
    assert library.address("refused")


def test_one_that_fails_fails_only_where_it_was_asked_for(built):
    other = threading.Thread(target=ask_for, args=("elsewhere", fails))
    other.start()
    other.join()
    library.build_wanted()
    assert "backsolve_elsewhere" not in library._engines
