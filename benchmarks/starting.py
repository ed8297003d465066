"""How long it takes to begin: importing, and the first call of a compiled function in a fresh process.

    python benchmarks/starting.py

Bytecode is cached, as it is for an installed package; times over NumPy's own import, best of several.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

from harness import environment, header, machine, text, versions

IMPORTS = {"backsolve": "backsolve", "jax": "jax", "PyTorch": "torch", "autograd": "autograd"}
START = "import time, numpy as np; start = time.perf_counter(); "
END = "; print(time.perf_counter() - start)"
MODEL = (
    "f = lambda w, x: np_.mean(np_.tanh(np_.tanh(x @ w) @ w.T) ** 2); "
    "w, x = np.ones((64, 64), 'f4'), np.ones((32, 64), 'f4'); "
)
FIRST = {
    "backsolve": f"import backsolve as bs; np_ = np; {MODEL} bs.jit(bs.grad(f))(w, x)",
    "jax.jit": "import jax, jax.numpy as np_; "
    f"{MODEL} jax.block_until_ready(jax.jit(jax.grad(f))(w, x))",
}


def seconds(code: str, folder: str, cache: str) -> float:
    env = environment(1) | {"PYTHONPYCACHEPREFIX": folder, "BACKSOLVE_CACHE_DIR": cache}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-c", START + code + END]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        print(f"{machine()}; {versions(('numpy', 'jax', 'torch', 'autograd'))}\n")
        print(header("import, over NumPy's own", "seconds"))
        for name, module in IMPORTS.items():
            took = [seconds(f"import {module}", folder, folder) for _ in range(6)]
            print(f"| {name} | {text(min(took[1:]))} |", flush=True)
        print()
        columns = ("cold", "from the cache on disk")
        print(header("import, and the first call of a compiled gradient", *columns))
        for name, code in FIRST.items():
            caches = [os.path.join(folder, f"{name}{k}") for k in range(4)]
            cold = min(seconds(code, folder, cache) for cache in caches)
            again = min(seconds(code, folder, caches[0]) for _ in range(3))
            warm = text(again) if name == "backsolve" else "–"
            print(f"| {name} | {text(cold)} | {warm} |", flush=True)


if __name__ == "__main__":
    main()
