"""Compiled code on disk: found again, never trusted without its seal, never in the way."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import weakref

import numpy as np
import pytest

import backsolve as bs
from backsolve.backends.native import build, disk

posix = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no mode bits")


@pytest.fixture(autouse=True)
def _nothing_in_memory(monkeypatch):
    """Code that other tests still hold is not found."""
    monkeypatch.setattr(build, "_engines", weakref.WeakValueDictionary())


def compile_once(scale=2.0):
    """Where the code came from; the function is gone afterwards, and its code out of memory."""
    f = bs.jit(lambda x: np.tanh(x) * scale + x)
    x = np.linspace(-1, 1, 5)
    np.testing.assert_allclose(f(x), np.tanh(x) * scale + x)
    (made,) = f.stats()["specialisations"]
    hits = f.stats()["disk_cache_hits"]
    assert hits == (made["code"] == "disk")
    del f
    gc.collect()
    return made["code"]


def test_found_again(folder):
    assert [compile_once(), compile_once(), compile_once(3.0)] == ["built", "disk", "built"]
    assert len(list(folder.glob("*.object"))) == 2


def test_in_memory_while_another_function_has_it(folder):
    make = lambda: bs.jit(lambda x: x * 5.0)
    f, g = make(), make()
    f(np.ones(3))
    g(np.ones(3))
    assert [h.stats()["specialisations"][0]["code"] for h in (f, g)] == ["built", "memory"]
    del f
    gc.collect()
    np.testing.assert_array_equal(g(np.ones(3)), [5, 5, 5])


PROGRAM = """
import sys
import numpy as np, backsolve as bs
rng = np.random.default_rng(0)
X, w = rng.normal(size=(40, 30)), rng.normal(size=(30, 20))
def f(w, v):
    h = np.tanh(X @ w)
    return np.sum(np.where(h > 0, h, np.exp(h))) * 2.5 + np.sum(v[np.array([2, 0, 2])])
step = bs.jit(bs.value_and_grad(f, argnums=(0, 1)))
value, grads = step(w, np.arange(3.0))
print(step.stats()["specialisations"][0]["code"], float(value), float(grads[0].sum()))
try:
    bs.jit(lambda v, i: v[i])(np.arange(3.0), np.array([7]))
except IndexError as e:
    print(e)
"""


def test_in_another_process(folder):
    """Nothing in the code depends on the process, its addresses or its seed for hashing."""
    lines = []
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        lines.append(done.stdout.split(maxsplit=1))
    assert [origin for origin, _ in lines] == ["built", "disk"]
    assert lines[0][1] == lines[1][1]
    assert "out of bounds" in lines[0][1]


@pytest.mark.parametrize(
    "damage", [lambda c: c[:-1], lambda c: c[:20], lambda c: c[:-9] + b"!" + c[-8:]]
)
def test_a_damaged_file_is_built_again(folder, damage):
    compile_once()
    (path,) = folder.glob("*.object")
    path.write_bytes(damage(path.read_bytes()))
    assert compile_once() == "built"
    assert compile_once() == "disk"


def test_a_file_under_another_name_or_secret_is_not_loaded(folder):
    compile_once(2.0)
    (first,) = folder.glob("*.object")
    compile_once(3.0)
    (second,) = set(folder.glob("*.object")) - {first}
    second.write_bytes(first.read_bytes())
    assert compile_once(3.0) == "built"
    (folder / "secret").write_bytes(b"x" * 32)
    disk._open.clear()
    assert compile_once(2.0) == "built"


@pytest.mark.parametrize("left", [b"", b"x" * 16])
def test_a_damaged_secret_is_replaced(folder, left):
    compile_once()
    (folder / "secret").write_bytes(left)
    disk._open.clear()
    assert [compile_once(), compile_once()] == ["built", "disk"]


@posix
def test_modes(folder):
    compile_once()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {p.stat().st_mode & 0o777 for p in folder.iterdir()} == {0o600}


@posix
@pytest.mark.parametrize(("name", "mode"), [(".", 0o777), (".", 0o720), ("secret", 0o644)])
def test_what_others_can_touch_is_not_used(folder, name, mode):
    compile_once()
    (folder / name).chmod(mode)
    disk._open.clear()
    assert disk.disk() is None
    assert compile_once() == "built"


@posix
def test_what_belongs_to_others_is_not_used(folder, monkeypatch):
    compile_once()
    disk._open.clear()
    owner = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: owner + 1)
    assert disk.disk() is None


def test_off(monkeypatch):
    monkeypatch.setenv("BACKSOLVE_CACHE_DIR", "")
    assert disk.disk() is None
    assert [compile_once(), compile_once()] == ["built", "built"]


def test_no_folder_can_be_made(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("BACKSOLVE_CACHE_DIR", str(tmp_path / "file" / "cache"))
    monkeypatch.setattr(disk, "_open", {})
    assert compile_once() == "built"


def test_the_oldest_go_first(folder, monkeypatch):
    files = disk.disk()
    monkeypatch.setattr(disk, "LIMIT", 10_000)
    monkeypatch.setattr(disk, "SWEEP", 1)
    for k in range(6):
        files.write(f"{k}", bytes(3000))
        os.utime(folder / f"{k}.object", (k, k))
        assert files.read("0") == bytes(3000)  # used: it stays
        if k != 0:
            os.utime(folder / "0.object", (100, 100))
    assert sorted(p.stem for p in folder.glob("*.object")) == ["0", "4", "5"]


def test_the_key_tells_machines_apart(folder, monkeypatch):
    compile_once()
    monkeypatch.setattr(build, "here", lambda: "another processor")
    assert compile_once() == "built"


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="XDG's folders")
def test_the_default_place(tmp_path, monkeypatch):
    monkeypatch.delenv("BACKSOLVE_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert disk.folder() == tmp_path / "backsolve"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert disk.folder() == tmp_path / "home" / ".cache" / "backsolve"
