"""What kernels of a GPU read and write in the steps of gpu.py, ours and JAX's, without a GPU.

    python benchmarks/gpu_bytes.py [part …] [--small] [--kernels 20]

Parts: mlp, resnet, gpt, kernels, structures. XLA compiles for an H200 ahead of time; bytes of each kernel's
operands and results are added up (all of an array, even if it changes a few entries). Where memory
decides, that is the time; which algorithms a card would pick is not seen.
Needs jax with jax-cuda12-plugin, jax-cuda12-pjrt and nvidia-cuda-nvcc-cu12 of one version, installed with
--no-deps, and torch for the weights. `--kernels` lists the largest.
"""

from __future__ import annotations

import argparse
import collections
import os
import re
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

PARTS = ("mlp", "resnet", "gpt", "kernels", "structures")
H200 = """
platform_name: "CUDA"
device_description_str: "NVIDIA H200"
dnn_version_info { major: 9 minor: 8 }
runtime_version { major: 12 minor: 8 patch: 0 }
gpu_device_info {
  cuda_compute_capability { major: 9 }
  core_count: 132  fpus_per_core: 128  clock_rate_ghz: 1.98
  threads_per_warp: 32  threads_per_block_limit: 1024  threads_per_core_limit: 2048
  registers_per_core_limit: 65536  registers_per_block_limit: 65536
  shared_memory_per_core: 233472  shared_memory_per_block: 49152  shared_memory_per_block_optin: 232448
  block_dim_limit_x: 2147483647  block_dim_limit_y: 65535  block_dim_limit_z: 65535
  memory_bandwidth: 4800000000000  l2_cache_size: 52428800  device_memory_size: 150000000000
}
"""
WIDTHS = {"pred": 1, "bf16": 2, "c64": 8, "c128": 16} | {
    f"{kind}{bits}": bits // 8 for kind in "suf" for bits in (8, 16, 32, 64)
}
# What is no kernel: names for parts of what is there already.
FREE = {"parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all"}


# ---- a card that is not there


def placed() -> Any:
    """Where arrays of an H200 lie. JAX is told not to look for a driver, and which cuDNN there would be."""
    import jax
    import jax_plugins.xla_cuda12 as plugin
    from jax._src import xla_bridge
    from jax._src.cudnn import fused_attention_stablehlo as cudnn
    from jax.experimental import topologies

    plugin._check_cuda_versions = lambda **_: None
    cudnn.check_cudnn_version = lambda: 90800
    cudnn.check_compute_capability = lambda _: True
    cudnn.is_cuda_compute_capability_equal = lambda _: False
    canonical = xla_bridge.canonicalize_platform
    xla_bridge.canonicalize_platform = lambda name: (
        "cuda" if name in ("gpu", "cuda") else canonical(name)
    )
    card = topologies.get_topology_desc(platform="cuda", target_config=H200, topology="1x1x1")
    mesh = topologies.make_mesh(card, (1,), ("card",))
    return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())


# ---- what contestants would compile


class _CaughtError(Exception):
    """A call was about to run."""


def lowered_ours(make: Callable[[], Any], place: Any) -> tuple[Any, float]:
    """What XLA would compile, and when our part began."""
    import jax

    from backsolve.backends.xla import compile as ours
    from backsolve.backends.xla.library import wide
    from backsolve.backends.xla.machine import HALF

    found: list[ours.Compiled] = []

    def caught(self: ours.Compiled, *_: Any) -> Any:
        found.append(self)
        raise _CaughtError

    ours.Compiled.call = caught
    start = run_now(make)
    jax.default_backend = lambda: "gpu"
    with wide():
        code = found[0]._build(ours._FIRST_CAPACITY)
        half = jax.numpy.dtype(found[0]._target.half)
        struct = lambda a: jax.ShapeDtypeStruct(
            a.shape, half if a.dtype == HALF else a.dtype, sharding=place
        )
        types = map(struct, found[0]._types)
        before = None if code.trail is None else struct(code.trail.before())
        return code.run.lower(([*map(struct, code.constants)], before), *types), start


def lowered_jax(make: Callable[[], Any], place: Any) -> tuple[Any, float]:
    import jax

    found: list[Any] = []
    compiled = jax.jit

    def caught(f: Any, **options: Any) -> Any:
        def call(*args: Any) -> Any:
            found.append((compiled(f, **options), args))
            raise _CaughtError

        return call

    jax.jit = caught
    start = run_now(make)
    jax.jit = compiled
    f, args = found[0]
    struct = lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=place)
    return f.lower(*jax.tree.map(struct, args)), start


def run_now(make: Callable[[], Any]) -> float:
    """When a call began; its model was made before."""
    step = make()
    start = time.perf_counter()
    try:
        step()
    except _CaughtError:
        return start
    raise AssertionError("nothing was compiled")


LOWERED = {"backsolve": lowered_ours, "jax.jit": lowered_jax}


# ---- counting


class Kernel(NamedTuple):
    nbytes: int
    kind: str
    name: str
    gives: str


def nbytes(shape: str) -> int:
    found = re.findall(r"(\w+)\[([\d,]*)\]", shape)
    return sum(
        WIDTHS.get(dtype, 0) * int(np.prod([int(n) for n in sizes.split(",") if n], dtype=float))
        for dtype, sizes in found
    )


def kernels(text: str) -> Iterator[Kernel]:
    """Those of a whole program; a loop counts as one."""
    sizes: dict[str, int] = {}
    for line in text[text.index("\nENTRY") :].splitlines()[2:]:
        m = re.match(r"\s+(?:ROOT )?(%[\w.\-]+) = (\(.*?\)|\S+) ([\w\-]+)\((.*)", line)
        if not m:
            continue
        name, shape, kind, rest = m.groups()
        sizes[name] = nbytes(shape)
        if kind not in FREE:
            read = re.findall(r"%[\w.\-]+", rest.split("), ")[0])
            target = re.search(r'custom_call_target="([^"]+)"', line)
            total = sizes[name] + sum(sizes.get(a, 0) for a in read)
            yield Kernel(total, target[1] if target else kind, name, shape)


# ---- parts


def contests(part: str, small: bool) -> Iterator[tuple[str, dict[str, Callable[[], Any]]]]:
    if part == "kernels":
        from benchmarks.kernels import KERNELS

        for title, make in KERNELS.items():
            yield title, make(1 << 16 if small else 1 << 26)[0]
        return
    if part == "structures":
        from benchmarks.structures import STRUCTURES

        for title, make in STRUCTURES.items():
            yield title, make(small)
        return
    from benchmarks.gpu import networks
    from benchmarks.networks.in_torch import state
    from benchmarks.networks.mixed import MAKERS

    title, network, settings, x, y = networks(part, small)[0]
    first = state(network, settings)
    for low in (True, False):
        given = (network, settings, first, x, y, low, "highest")
        words = "bfloat16" if low else "float32"
        yield f"{title}, {words}", {n: partial(make, *given) for n, make in MAKERS.items()}


def compare(part: str, options: Any) -> None:
    place = placed()
    for title, makers in contests(part, options.small):
        cells = []
        for name, lower in LOWERED.items():
            lowered, start = lower(makers[name], place)
            middle = time.perf_counter()
            done = lowered.compile()
            end = time.perf_counter()
            found = list(kernels(done.as_text()))
            total = sum(k.nbytes for k in found) / 1e9
            memory = done.memory_analysis().temp_size_in_bytes / 1e9
            cells += [f"{total:.2f}", str(len(found)), f"{memory:.2f}"]
            cells.append(f"{middle - start:.0f} + {end - middle:.0f}")
            show(name, found, options.kernels)
        print(f"| {title} | {' | '.join(cells)} |", flush=True)


def show(name: str, found: list[Kernel], count: int) -> None:
    if not count:
        return
    kinds = collections.Counter[str]()
    for k in found:
        kinds[k.kind] += k.nbytes
    print(f"\n{name}: {', '.join(f'{k} {n / 1e9:.2f} GB' for k, n in kinds.most_common(8))}")
    for k in sorted(found, reverse=True)[:count]:
        print(f"    {k.nbytes / 1e6:9.1f} MB  {k.kind:28.28} {k.name:36.36} {k.gives[:80]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0] if __doc__ else "")
    parser.add_argument("parts", nargs="*", metavar="part", help=", ".join(PARTS))
    parser.add_argument("--small", action="store_true", help="small sizes, to try it out")
    parser.add_argument("--kernels", type=int, default=0, help="list so many of the largest")
    parser.add_argument("--worker", action="store_true", help="internal: this process compiles")
    options = parser.parse_args()
    if options.worker:
        warnings.filterwarnings("ignore")
        compare(options.parts[0], options)
        return
    columns = [
        f"{who}: {c}" for who in ("ours", "jax.jit") for c in ("GB", "kernels", "held, GB", "s")
    ]
    print(f"| | {' | '.join(columns)} |\n|{'---|' * 9}", flush=True)
    # No card: nothing to tune on. JAX would ask for products in Triton, which it chooses by timing.
    flags = "--xla_gpu_autotune_level=0 --xla_gpu_enable_triton_gemm=false"
    quiet = {"CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "3", "JAX_PLATFORMS": ""}
    rest = [a for a in sys.argv[1:] if a not in PARTS]
    for part in options.parts or PARTS:
        command = [sys.executable, __file__, part, "--worker", *rest]
        subprocess.run(command, env={**os.environ, **quiet, "XLA_FLAGS": flags}, check=True)


if __name__ == "__main__":
    main()
