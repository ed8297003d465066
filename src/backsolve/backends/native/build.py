"""Emitted LLVM to machine code in memory: found again in this process, on disk, or built."""

from __future__ import annotations

import functools
import hashlib
import os
import struct
import sys
import threading
import weakref
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from llvmlite import binding, ir

from .disk import disk
from .halves import BETWEEN

OPTIONS = {
    "speed_level": 3,
    "loop_vectorization": True,
    "loop_unrolling": False,
}
# What a module says that holds loops in registers. Neighbouring numbers there are worth putting into vectors.
# In long straight code LLVM looks for them longer than for all else, and in loops that are vectorised
# already it makes things worse (bundle adjustment took 5.6 ms, and takes 4.4 without).
NUMBERS_IN_LOOPS = "backsolve.numbers_in_loops"
_PACKAGE = Path(__file__).parents[2]
_lock = threading.Lock()
_engines: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()


def load(text: str, in_vectors: bool = False, level: int = 3) -> tuple[Any, str]:
    """The engine that holds the code, and where it came from: "memory", "disk" or "built".

    The key is taken of the text as it was emitted, so that finding the code spares LLVM's work. Code that is
    written `in_vectors` needs no passes, but good registers.
    """
    key = key_of(text, in_vectors)
    with _lock:
        return _find(key) or (_build(key, text, level, plain=in_vectors), "built")


def load_part(name: str, emit: Callable[[], str]) -> Any:
    """The engine of a part of this package that spends its time waiting: emitted only if it is not on disk.

    It is translated as it is, in a tenth of the time.
    """
    key = hashlib.sha256(f"{here()}\n{package()}\n{name}".encode()).hexdigest()
    with _lock:
        found = _find(key)
        return found[0] if found is not None else _build(key, emit(), 0, plain=True)


def key_of(text: str, in_vectors: bool = False) -> str:
    return hashlib.sha256(f"{here()}\n{in_vectors}\n{text}".encode()).hexdigest()


def _build(key: str, text: str, level: int, plain: bool) -> Any:
    first, *rest = text.split(BETWEEN)
    target = machine(level)
    module = binding.parse_assembly(first) if plain else _optimised(first, target)
    objects = [target.emit_object(module)]
    objects += [machine(0).emit_object(binding.parse_assembly(half)) for half in rest]
    code = b"".join([struct.pack("<Q", len(x)) + x for x in objects])
    files = disk()
    if files is not None:
        files.write(key, code)
    engine = _engines[key] = _linked(code)
    return engine


def find(key: str) -> tuple[Any, str] | None:
    """The engine that holds the code of that key, and where it came from: "memory" or "disk"."""
    with _lock:
        return _find(key)


def _find(key: str) -> tuple[Any, str] | None:
    engine = _engines.get(key)
    if engine is not None:
        return engine, "memory"
    files = disk()
    code = files.read(key) if files is not None else None
    if code is None:
        return None
    engine = _engines[key] = _linked(code)
    return engine, "disk"


def llvm(text: str) -> str:
    """What LLVM makes of emitted text."""
    with _lock:
        first, *rest = text.split(BETWEEN)
        return "".join([str(_optimised(first, machine())), *rest])


def assembly(text: str) -> str:
    with _lock:
        first, *rest = text.split(BETWEEN)
        target = machine()
        texts = [target.emit_assembly(_optimised(first, target))]
        texts += [machine(0).emit_assembly(binding.parse_assembly(half)) for half in rest]
        return "".join(texts)


def note_numbers_in_loops(module: ir.Module) -> None:
    if NUMBERS_IN_LOOPS not in module.namedmetadata:
        module.add_named_metadata(NUMBERS_IN_LOOPS, module.add_metadata([]))


@functools.cache
def here() -> str:
    """All that decides whether code of another process fits this one."""
    packages = [import_module(name) for name in ("backsolve", "llvmlite", "numpy")]
    return repr(
        [
            [package.__version__ for package in packages],
            sys.version,
            binding.llvm_version_info,
            binding.get_default_triple(),
            binding.get_host_cpu_name(),
            features(),
            OPTIONS,
            BETWEEN,
        ]
    )


@functools.cache
def package() -> str:
    """This package as it is now: who works on it must not find what it did before. And which SciPy it calls."""
    found = [os.path.join(path, name) for path, _, names in os.walk(_PACKAGE) for name in names]
    scipy = find_spec("scipy")
    beside = os.path.dirname(scipy.origin or "") if scipy is not None else ""
    files = sorted(name for name in found if name.endswith(".py"))
    files += [name for name in [os.path.join(beside, "version.py")] if os.path.exists(name)]
    marks = [(name, s.st_size, s.st_mtime_ns) for name in files for s in [os.stat(name)]]
    return hashlib.sha256(repr(marks).encode()).hexdigest()


@functools.cache
def features() -> str:
    """Of the processor; with vectors of 512 bits in loops, too, where they do not slow down its clock.

    LLVM keeps to 256 bits on all of Intel's. Those with VBMI2, Ice Lake and later, run wide ones at full speed.
    And without its instructions for loads from many places where they take longer than as many loads: since
    their leak was closed (gather data sampling, 2023) on all of Intel's before AVX-VNNI, and on AMD's ever; nor
    are stores to many places faster there than as many stores.
    """
    found = binding.get_host_cpu_features()
    wide = ",-prefer-256-bit" if vector_bytes() == 64 else ""
    apart = (
        ",+prefer-no-gather,+prefer-no-scatter"
        if found.get("avx2") and not found.get("avxvnni")
        else ""
    )
    return found.flatten() + wide + apart


@functools.cache
def vector_bytes() -> int:
    """Of the vectors in loops."""
    found = binding.get_host_cpu_features()
    return 64 if found.get("avx512vbmi2") else 32 if found.get("avx") else 16


def machine(level: int = 3) -> Any:
    """The processor that this runs on; an engine takes its machine with it when it goes."""
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding.Target.from_default_triple().create_target_machine(
        opt=level,
        cpu=binding.get_host_cpu_name(),
        features=features(),
        reloc="default",
        codemodel="jitdefault",
        jit=True,
    )


def _optimised(text: str, target: Any) -> Any:
    module = binding.parse_assembly(text)
    options = binding.create_pipeline_tuning_options()
    for name, value in OPTIONS.items():
        setattr(options, name, value)
    options.slp_vectorization = NUMBERS_IN_LOOPS in text
    builder = binding.create_pass_builder(target, options)
    first = binding.create_new_module_pass_manager()
    first.add_always_inliner_pass()  # the other passes then see no function that goes into another
    for passes in (first, builder.getModulePassManager()):
        passes.run(module, builder)
        _dispose(passes)
    return module


def _dispose(passes: Any) -> None:
    """llvmlite's pass managers inherit `_dispose` from the wrong parent, and so are never freed."""
    if not passes.closed:
        binding.newpassmanagers.NewPassManager._dispose(passes)
        passes.detach()


def _linked(code: bytes) -> Any:
    engine = binding.create_mcjit_compiler(binding.parse_assembly(""), machine())
    while code:
        size = 8 + struct.unpack("<Q", code[:8])[0]
        engine.add_object_file(binding.ObjectFileRef.from_data(code[8:size]))
        code = code[size:]
    engine.finalize_object()
    return engine
