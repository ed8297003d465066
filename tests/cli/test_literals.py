"""The language of --args makes what NumPy makes, and refuses everything else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from backsolve.cli.literals import parse_arguments


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("2.0", 2.0),
        ("-1.5", -1.5),
        ("-3", -3),
        ("1 + 2j", 1 + 2j),
        ("'word'", "word"),
        ("None", None),
        ("[1.0, (2, True)]", [1.0, (2, True)]),
        ("{'w': [1.0], 'n': 2}", {"w": [1.0], "n": 2}),
        ("dict(w=2.0)", {"w": 2.0}),
        ("2 * np.pi", 2 * np.pi),
        ("float32(1.5)", np.float32(1.5)),
        ("-inf", -np.inf),
    ],
)
def test_numbers_and_containers(word: str, value: Any) -> None:
    (found,), named = parse_arguments([word])
    assert found == value
    assert type(found) is type(value)
    assert named == {}


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("np.ones((3, 4))", np.ones((3, 4))),
        ("ones((2,), dtype=float32)", np.ones(2, np.float32)),
        ("zeros(3, 'complex128')", np.zeros(3, complex)),
        ("numpy.linspace(0, 1, 5)", np.linspace(0, 1, 5)),
        ("np.arange(6.0).reshape(2, 3).T", np.arange(6.0).reshape(2, 3).T),
        ("np.array([[1, 2], [3, 4]]) @ np.eye(2) - 1", np.array([[0.0, 1], [2, 3]])),
        (
            "np.random.default_rng(0).normal(size=(2, 3))",
            np.random.default_rng(0).normal(size=(2, 3)),
        ),
        ("np.eye(3).astype('float32')", np.eye(3, dtype=np.float32)),
    ],
)
def test_arrays(word: str, value: Any) -> None:
    ((found,), _) = parse_arguments([word])
    assert found.dtype == value.dtype
    np.testing.assert_array_equal(found, value)


def test_several_and_named() -> None:
    given, named = parse_arguments(["1.0, 2.0", "[3]", "n=4, m=5"])
    assert given == [1.0, 2.0, [3]]
    assert named == {"n": 4, "m": 5}


def test_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    np.save("data/x.npy", np.arange(3.0))
    Path("t.csv").write_text("a,b\n1,2\n3,4.5\n")
    Path("one.csv").write_text("1\n2\n")
    (x, table), named = parse_arguments(["data/x.npy", "t.csv", "w=one.csv"])
    np.testing.assert_array_equal(x, np.arange(3.0))
    np.testing.assert_array_equal(table, [[1, 2], [3, 4.5]])
    np.testing.assert_array_equal(named["w"], [1.0, 2.0])
    ((loaded,), _) = parse_arguments(["2 * np.load('data/x.npy')"])
    np.testing.assert_array_equal(loaded, [0, 2, 4])
    Path("bad.csv").write_text("1,2\n3,x\n")
    with pytest.raises(ValueError, match=r"bad.csv: '3,x' is no row of 2 numbers"):
        parse_arguments(["bad.csv"])
    Path("empty.csv").write_text("a,b\n")
    with pytest.raises(ValueError, match="holds no numbers"):
        parse_arguments(["empty.csv"])
    with pytest.raises(FileNotFoundError, match=r"no file gone.npy"):
        parse_arguments(["gone.npy"])
    np.save("objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="allow_pickle=False"):
        parse_arguments(["objects.npy"])


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("__import__('os').system('touch x')", "`__import__` is unknown"),
        ("open('x', 'w')", "`open` is unknown"),
        ("np.save('x', 1)", "`save` is unknown"),
        ("np.ones.__globals__", "is not among what can be written"),
        ("().__class__", "of a tuple is unknown"),
        ("np.ones(3).tofile('x')", "of a ndarray is unknown"),
        ("np.ones(3).__reduce__()", "of a ndarray is unknown"),
        ("[x for x in (1, 2)]", "is no number, array or file"),
        ("lambda: 1", "is no number, array or file"),
        ("(x := 1)", "is no number, array or file"),
        ("f'{1}'", "is no number, array or file"),
        ("9**9**9", "the exponent 387420489 is too large"),
        ("[0] * 5", "operators are for numbers and arrays"),
        ("np.oens(3)", "did you mean 'ones'"),
        ("lisnpace(0, 1, 3)", "did you mean 'linspace'"),
        ("np.ones((3,4)", "is no argument"),
        ("1)+(2", "brackets do not match"),
        ("**{'a': 1}", "has no meaning here"),
        ("np.ones(-3)", "ValueError: negative dimensions"),
        ("np.ones(3) @ np.ones(4)", "ValueError"),
        ("2.0(3)", "is no function"),
        ("word", "words stand in quotes"),
    ],
)
def test_what_is_refused(
    word: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        parse_arguments([word])
    assert text in str(caught.value)
    assert list(tmp_path.iterdir()) == []
