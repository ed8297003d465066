"""backsolve export: a function, or its gradient, as a file for other programs: ONNX, StableHLO."""

from __future__ import annotations

import argparse
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from ..api import grad
from ..working import Working
from . import calling
from .folder import read_description, read_model

HELP = "write a function or its gradient as an ONNX or StableHLO file"
ABOUT = f"""\
Write a function, a module or a gradient as a file that other programs run, for arguments of the types of those
given.

  backsolve export model.py:net --args x.npy --onnx net.onnx --batch
  backsolve export model.py:loss --args 'np.ones(3)' 2.0 --grad --onnx slope.onnx
  backsolve export model.py:loss --stablehlo loss.mlir
  backsolve export runs/digits --onnx digits.onnx --batch          # the model of a run

ONNX needs pip install 'backsolve[onnx]', StableHLO pip install 'backsolve[xla]'. A path that ends in .mlir gets
StableHLO as text, any other a program that jax.export.deserialize reads.

{calling.TEACHING}"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    calling.add_arguments(parser)
    parser.add_argument("--onnx", metavar="FILE", help="write an ONNX model")
    parser.add_argument("--stablehlo", metavar="FILE", help="write StableHLO")
    parser.add_argument(
        "--grad", action="store_true", help="of the gradient (by --wrt) instead of the function"
    )
    parser.add_argument(
        "--batch", action="store_true",
        help="let the first axis of all arrays have any length (ONNX)",
    )  # fmt: skip


def run(options: argparse.Namespace) -> int:
    if not options.onnx and not options.stablehlo:
        raise ValueError("name a file to write: --onnx FILE or --stablehlo FILE")
    if options.batch and not options.onnx:
        raise ValueError("--batch is for --onnx")
    if Path(options.function).is_dir():
        f, args, what = _model(options)
        blamed: AbstractContextManager[Any] = nullcontext()
    else:
        call = calling.call_of(options, is_varied=options.grad)
        f, args = grad(call.f, call.argnums) if options.grad else call.f, call.args
        what = f"the gradient of {call}" if options.grad else str(call)
        blamed = calling.blaming(call)
    with blamed, Working("exporting"):
        if options.onnx:
            from ..interop import onnx

            onnx.save(f, options.onnx, *args, batch=options.batch)
        if options.stablehlo:
            from ..interop import stablehlo

            stablehlo.save(f, options.stablehlo, *args)
    for path in filter(None, (options.onnx, options.stablehlo)):
        print(f"{what}: {path}, {Path(path).stat().st_size:,} bytes")
    return 0


def _model(options: argparse.Namespace) -> tuple[Any, tuple[Any, ...], str]:
    """The model of a run, as it predicts, and one example of the shape that it takes."""
    if options.grad or options.args is not None:
        raise ValueError(
            "of a run the model is written, for the shape it was trained on: no --grad, no --args"
        )
    folder = Path(options.function)
    description = read_description(folder)
    example = np.zeros((1, *description["shape"]), np.float32)
    return read_model(folder, description), (example,), f"the model of {folder}"
