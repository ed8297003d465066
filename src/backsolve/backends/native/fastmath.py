"""Arithmetic without NumPy's promises: what `bs.jit(f, fastmath=True)` compiles with.

LLVM may then reorder sums and products, multiply by reciprocals, and take it that no NaN, infinity or
negative zero occurs. Functions such as exp keep their formulas: their error bounds rest on the order of
operations.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir


class FastModule(ir.Module):
    """A module whose kernels are built by a FastBuilder."""


class FastBuilder(ir.IRBuilder):
    def fadd(self, lhs: Any, rhs: Any, name: str = "", flags: Any = ()) -> Any:
        return super().fadd(lhs, rhs, name, flags=("fast",))

    def fsub(self, lhs: Any, rhs: Any, name: str = "", flags: Any = ()) -> Any:
        return super().fsub(lhs, rhs, name, flags=("fast",))

    def fmul(self, lhs: Any, rhs: Any, name: str = "", flags: Any = ()) -> Any:
        return super().fmul(lhs, rhs, name, flags=("fast",))

    def fdiv(self, lhs: Any, rhs: Any, name: str = "", flags: Any = ()) -> Any:
        return super().fdiv(lhs, rhs, name, flags=("fast",))


def builder_in(module: ir.Module, block: Any) -> ir.IRBuilder:
    """The builder for a kernel of that module."""
    return FastBuilder(block) if isinstance(module, FastModule) else ir.IRBuilder(block)
