"""Programs: recorded, printed, verified, evaluated."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import backsolve as bs
from backsolve.errors import ProgramError, StructureError
from backsolve.ir import Equation, Program, Type, Var
from backsolve.primitive import P
from backsolve.trace import evaluate, stage

FLOAT = np.dtype(float)


def recorded():
    program, _ = stage(
        lambda x, y: np.sin(x) @ (y * 2.0), [Type((3,), FLOAT), Type((3,), FLOAT)], ["x", "y"]
    )
    return program


def test_printing():
    assert str(recorded()) == (
        "program(x:float64[3], y:float64[3]):\n"
        "  v1:float64[3] = sin(x)\n"
        "  v2:float64[3] = multiply(y, 2.0)\n"
        "  v3:float64[] = contract(v1, v2, subscripts='b,b->', sizes=())\n"
        "  return v3"
    )


def test_evaluation_on_arrays_and_tensors():
    x, y = np.arange(3.0), np.ones(3)
    program = recorded().verify()
    expected = np.sin(x) @ (y * 2)
    np.testing.assert_allclose(evaluate(program, [x, y])[0], expected)
    g = bs.grad(lambda x: evaluate(program, [x, y])[0])(x)
    np.testing.assert_allclose(g, 2 * np.cos(x))


def test_constants_keep_their_history():
    def f(w):
        program, _ = stage(lambda x: x * w, [Type((), FLOAT)])
        return evaluate(program, [3.0])[0]

    assert bs.grad(f)(2.0) == 3.0


def test_verify_finds_what_is_wrong():
    program = recorded()
    x = program.inputs[0]
    undefined = Equation((Var(x.type),), P.sin, (Var(x.type),), {})
    with pytest.raises(ProgramError, match="no earlier equation"):
        dataclasses.replace(program, equations=(undefined,)).verify()
    twice = (*program.equations, program.equations[0])
    with pytest.raises(ProgramError, match="defined twice"):
        dataclasses.replace(program, equations=twice).verify()
    wrong = Equation((Var(Type((4,), FLOAT)),), P.sin, (x,), {})
    with pytest.raises(ProgramError, match=r"gives float64\[3\]"):
        dataclasses.replace(program, equations=(wrong,)).verify()
    with pytest.raises(ProgramError, match="Python scalars"):
        Program((x,), (), (Equation((Var(x.type),), P.sin, ("text",), {}),), ()).verify()


def test_verify_looks_at_what_regions_are_given():
    def run(x):
        return bs.fori_loop(0, 12, lambda k, s: bs.cond(s > 1, lambda: s, lambda: s * x), x)

    program, _ = stage(run, [Type((), FLOAT)])
    loop = program.verify().equations[-1]
    single = Var(Type((), np.dtype(np.float32)))
    given = dataclasses.replace(loop, inputs=tuple([single for _ in loop.inputs]))
    with pytest.raises(ProgramError, match=r"given a float32\[\] where it reads a float64"):
        dataclasses.replace(program, inputs=(single,), equations=(given,)).verify()


def test_weak_scalars_stay_weak():
    program, y = stage(lambda x: x * 2.0 + 1, [Type((2,), np.dtype(np.float32))])
    assert y.dtype == np.float32
    program.verify()


class TestTree:
    def test_round_trip(self):
        tree = {"a": [1, (2, None)], "b": {"c": 3}}
        leaves, structure = bs.tree.flatten(tree)
        assert leaves == [1, 2, 3]
        assert structure.unflatten(leaves) == tree
        assert structure == bs.tree.flatten(structure.unflatten("xyz"))[1]
        assert hash(structure) == hash(bs.tree.flatten(tree)[1])

    def test_forms_must_agree(self):
        with pytest.raises(StructureError):
            bs.tree.map(lambda a, b: a, {"a": 1}, {"b": 1})

    def test_own_container(self):
        class Box:
            def __init__(self, x):
                self.x = x

        bs.tree.register(Box, lambda b: (None, [b.x]), lambda meta, xs: Box(*xs))
        g = bs.grad(lambda b: b.x**2)(Box(3.0))
        assert (type(g), g.x) == (Box, 6.0)


def test_printing_loops_and_branches() -> None:
    """Below their equation, in names of their own."""

    def f(x):
        return bs.fori_loop(0, 3, lambda k, s: bs.cond(s > 1, np.sqrt, np.exp, s), x)

    assert str(bs.jit(f).lower(0.5).stages["program"]).splitlines() == [
        "program(v1:float64~[]):",
        "  v2:float64[] = cast(v1, dtype=dtype('float64'))",
        "  v3:float64[], v4:int64~[] = loop(v2, count=3)",
        "    round(v1:int64~[], v2:float64[]):",
        "      v3:bool[] = greater(v2, 1)",
        "      v4:float64[] = branch(v3, v2)",
        "        if 0(v1:float64[]):",
        "          v2:float64[] = exp(v1)",
        "          return v2",
        "        if 1(v1:float64[]):",
        "          v2:float64[] = sqrt(v1)",
        "          return v2",
        "      return v4",
        "  return v3",
    ]


def test_printing_what_is_called() -> None:
    """Once, at the end, wherever it is called from; what stops a loop before its round."""

    def halved(n):
        return n * 1.0 if n < 2 else halved(n // 2) + halved(n // 3)

    lines = str(bs.jit(halved).lower(9).stages["program"]).splitlines()
    assert sum("= call halved(" in line for line in lines) == 4
    assert [line for line in lines if line.startswith("halved")] == ["halved(v1:int64[]):"]
    text = str(
        bs.jit(lambda x: bs.while_loop(lambda s: s < 9, lambda s: s + s, x))
        .lower(1.0)
        .stages["program"]
    )
    assert text.index("goes on(") < text.index("round(")


def test_printing_what_is_done_for_a_derivative() -> None:
    """Budgets and rules of one's own are no equations, but Programs that differ in them are not the same."""

    class Five(bs.Function):
        @staticmethod
        def forward(ctx, x):
            return x * x

        @staticmethod
        def backward(ctx, g):
            return 5 * g

    def total(x):
        s = 0.0
        for v in x:
            s = np.sin(s) + v
        return s

    def squashed(x):
        return np.tanh(np.sin(x) * x)

    x = np.ones(50)
    text = lambda f: str(bs.jit(f).lower(x).stages["program"])
    assert len({text(bs.checkpoint(total, memory=m)) for m in (2000, 40000)} | {text(total)}) == 3
    assert "count=50, memory=2000)" in text(bs.checkpoint(total, memory=2000))
    for memory, said in ((2000, ", memory=2000:"), (None, ", recomputed:")):
        lines = text(lambda x, m=memory: bs.checkpoint(squashed, memory=m)(x) + 1).splitlines()
        assert f"squashed(v1:float64[50]){said}" in lines
    assert "Five(v1:float64[]), a derivative of its own:" in text(
        lambda x: bs.scan(lambda c, v: (c + Five.apply(v), c), 0.0, x)[0]
    )


def test_printing_a_function_called_program() -> None:
    def program(n):
        return n * 1.0 if n < 2 else program(n - 1) + program(n - 2)

    lines = str(bs.jit(program).lower(5).stages["program"]).splitlines()
    heads = [line for line in lines if line.startswith("program")]
    assert [h.split("(")[0] for h in heads] == ["program", "program 2"]
