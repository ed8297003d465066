"""Parts of vectors, read and written by masks: nothing beyond them is touched."""

from __future__ import annotations

from llvmlite import ir

INT, CINT = ir.IntType(64), ir.IntType(32)


def load_part(b: ir.IRBuilder, place: ir.Value, count: ir.Value) -> ir.Value:
    """The first entries of a vector, and zeros. No other is read."""
    kind = place.type.pointee
    function = _of_parts(b.module, "load", kind, kind, [place.type, CINT, _mask_type(kind), kind])
    return b.call(function, [place, _align(kind), _mask(b, kind, count), ir.Constant(kind, None)])


def store_part(b: ir.IRBuilder, vector: ir.Value, place: ir.Value, count: ir.Value) -> None:
    """Its first entries. No other is written."""
    kind = vector.type
    given = [kind, place.type, CINT, _mask_type(kind)]
    function = _of_parts(b.module, "store", kind, ir.VoidType(), given)
    b.call(function, [vector, place, _align(kind), _mask(b, kind, count)])


def _of_parts(
    module: ir.Module, way: str, kind: ir.VectorType, result: ir.Type, given: list[ir.Type]
) -> ir.Function:
    name = f"llvm.masked.{way}.v{kind.count}f{8 * _nbytes(kind)}.p0"
    return module.globals.get(name) or ir.Function(module, ir.FunctionType(result, given), name)


def _mask(b: ir.IRBuilder, kind: ir.VectorType, count: ir.Value) -> ir.Value:
    lanes = ir.VectorType(INT, kind.count)
    undefined = ir.Constant(lanes, ir.Undefined)
    first = ir.Constant(ir.VectorType(CINT, kind.count), None)
    counts = b.shuffle_vector(b.insert_element(undefined, count, CINT(0)), undefined, first)
    return b.icmp_signed("<", ir.Constant(lanes, list(range(kind.count))), counts)


def _mask_type(kind: ir.VectorType) -> ir.VectorType:
    return ir.VectorType(ir.IntType(1), kind.count)


def _align(kind: ir.VectorType) -> ir.Constant:
    return CINT(_nbytes(kind))


def _nbytes(kind: ir.VectorType) -> int:
    return 8 if isinstance(kind.element, ir.DoubleType) else 4
