"""explore, explain, check and bench: what they do with functions, and what they say of wrong names."""

from __future__ import annotations

import json
import re
import sys
import types
from pathlib import Path

import numpy as np
import pytest

import backsolve as bs
from backsolve.cli import main, peers
from backsolve.cli.targets import load_function
from backsolve.cli.timing import clock, measured

MORE = """
import numpy as np
from numpy import exp


def helper(x):
    return exp(-x) * np.sin(x)


def calls(x, n):
    for _ in range(n):
        x = helper(x)
    return x.sum()


def crashes(x):
    return x[7]


def named(x, *, scale, shift=1.0):
    return x * scale + shift


def nested(p, n):
    return {"a": p["w"] ** n, "b": p["w"].sum() * p["b"]}


def fills(x):
    y = np.zeros(3)
    for i in range(3):
        y[i] = x[i] ** 2
    return y


def draws(x):
    return x * np.random.normal()


def edge(x):
    return np.sqrt(x)


def whole(x):
    return 3


number = 3.0


class Model:
    @staticmethod
    def loss(x):
        return x * x
"""


@pytest.fixture(autouse=True)
def more(folder: Path) -> None:
    (folder / "more.py").write_text(MORE)


def said(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> str:
    found = main(list(arguments))
    out, err = capsys.readouterr()
    assert found == status, out + err
    return err if status and err else out


# ---- names


@pytest.mark.parametrize("target", ["more.py:calls", "./more.py:calls"])
def test_a_file_is_loaded_by_its_path(target: str) -> None:
    assert load_function(target)(np.zeros(2), 1) == 0


def test_a_file_elsewhere_and_its_neighbours(folder: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "sub" / "near_by.py").write_text("def g(x):\n    return 2 * x\n")
    (folder / "sub" / "numpy.py").write_text("from near_by import g\nf = lambda x: g(x)\n")
    assert load_function("sub/numpy.py:f")(1.0) == 2.0  # named like a library, and harmless
    assert np.ones(1) == 1


def test_a_method_of_a_class() -> None:
    assert load_function("more.py:Model.loss")(3.0) == 9.0


@pytest.mark.parametrize(
    ("target", "text"),
    [
        ("model", "names no function: write module:function or path/to/file.py:function, such as"),
        ("model:", "has no function ''"),
        ("gone.py:f", "there is no file gone.py"),
        ("modle.py:f", "did you mean 'model.py'?"),
        ("more.py:helpr", "did you mean 'helper'?"),
        ("more.py:zzzzz", "it has helper, calls, crashes"),
        ("more.py:number", "is a float, not a function"),
        ("broken.py:f", "broken.py:2: "),
        ("raises.py:f", "raised ZeroDivisionError"),
        ("raises.py:f", "raises.py:1: x = 1 / 0"),
        ("needs.py:f", "needs.py imports 'not_there_at_all', which is not installed"),
        ("ends.py:f", 'under if __name__ == "__main__":'),
    ],
)
def test_wrong_names_are_explained(
    target: str, text: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "broken.py").write_text("x = 1\ndef f(:\n")
    (folder / "raises.py").write_text("x = 1 / 0\n")
    (folder / "needs.py").write_text("import not_there_at_all\n")
    (folder / "ends.py").write_text("raise SystemExit(0)\n")
    assert text in said(capsys, "check", target, "--args", "1.0", status=1)


# ---- arguments


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["more.py:calls"], "add --args <x> <n>, or in its file calls.example_args = (<x>, <n>,)"),
        (["more.py:calls", "--args", "1.0"], "calls(x, n) cannot be called with (1.0): missing"),
        (["more.py:named", "--args", "1.0", "scael=2.0"], "did you mean 'scale'?"),
        (["more.py:crashes", "--args", "np.ones(3)"], "raised IndexError: index 7"),
        (["more.py:crashes", "--args", "np.ones(3)"], "return x[7]"),
        (["more.py:calls", "--args", "np.ones(3)", "2", "--wrt", "n"], "2 holds no float"),
        (["more.py:calls", "--args", "np.ones(3)", "2", "--wrt", "z"], "there are x, n"),
        (["more.py:whole", "--args", "1.0"], "gives no floating-point number"),
        (["more.py:draws", "--args", "1.0"], "pass it the state of its random numbers"),
        (["model.py:loss", "--order", "0"], "--order must be 1, 2, 3 or 4"),
    ],
)
def test_wrong_arguments_are_explained(
    arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert text in said(capsys, "check", *arguments, status=1)


ODD = """
import sys
def nothing(x):
    pass
def word(x):
    return "word"
def later(x):
    yield x
def leaves(x):
    sys.exit(3)
def constant():
    return 2.0
"""


@pytest.mark.parametrize("command", ["explain", "check", "explore", "bench"])
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("nothing", r"is a `return` missing\?|gives no floating-point number"),
        ("word", r"of type str|got a str|gives no floating-point number"),
        ("later", r"of type generator|got a generator|gives no floating-point number"),
        ("leaves", r"raised SystemExit: 3\n    at .*odd\.py:10: sys\.exit\(3\)"),
        ("constant", r"takes no arguments"),
    ],
)
def test_odd_functions_are_explained(
    command: str, name: str, text: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "odd.py").write_text(ODD)
    given = ["--args", "1.0"] if name != "constant" else []
    found = said(capsys, command, f"odd.py:{name}", *given, status=1)
    assert re.search(text, found)
    assert "main(" not in found  # who started the command is no place in the function


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["explor"], "did you mean 'explore'?"),
        (["check"], "See `backsolve check --help`."),
        (["check", "model.py:loss", "--fast"], "backsolve check: unrecognized arguments: --fast"),
        (["check", "model.py:loss", "--args", "-np.ones(2)"], "write '(-np.ones(2))'"),
    ],
)
def test_wrong_words_are_explained(
    arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(arguments)
    assert text in capsys.readouterr().err


def test_debug_shows_the_traceback() -> None:
    with pytest.raises(ValueError, match="raised IndexError"):
        main(["check", "more.py:crashes", "--args", "np.ones(3)", "--debug"])


def test_arguments_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "check", "more.py:named", "--args", "2.0", "scale=3.0")
    assert text.startswith("named(x=2.0, scale=3.0)")
    assert "1 of 1 agree" in text
    text = said(capsys, "check", "more.py:calls", "--args", "n=2", "x=np.ones(2)")
    assert text.startswith("calls(x: float64[2], n=2)")


def test_what_begins_with_a_minus(capsys: pytest.CaptureFixture[str]) -> None:
    assert "named(x=-2.0, scale=1.0)" in said(
        capsys, "check", "more.py:named", "--args", "-2.0", "scale=1.0"
    )
    args = ["--args", "(-np.ones(2))", "1"]
    assert "calls(x: float64[2], n=1)" in said(capsys, "check", "more.py:calls", *args)


def test_only_some_arguments_vary(capsys: pytest.CaptureFixture[str]) -> None:
    assert "8 of 8 agree" in said(capsys, "check", "model.py:loss")
    assert "2 of 2 agree" in said(capsys, "check", "model.py:loss", "--wrt", "w")
    assert "4 of 4 agree" in said(capsys, "check", "model.py:loss", "--wrt", "y,0")


# ---- check


def test_check_of_nested_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    args = ["--args", "{'w': np.ones(2), 'b': 0.5}", "3", "--order", "2"]
    text = said(capsys, "check", "more.py:nested", *args)
    ways = re.findall(r"✓ order (\d), (.*): (\d+) of \3 agree", text)
    assert [w for _, w, _ in ways] == [
        *("forward", "reverse"),
        *("forward over forward", "reverse over forward"),
        *("forward over reverse", "reverse over reverse"),
    ]


def test_check_names_the_edge_of_a_domain(capsys: pytest.CaptureFixture[str]) -> None:
    with np.errstate(all="ignore"):
        text = said(capsys, "check", "more.py:edge", "--args", "0.0")
    assert "result by x: the edge of its domain, beyond which it is not finite" in text


# ---- explain


def test_explain_tells_every_part(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "explain", "model.py:loss", "--what", "all")
    heads = re.findall(r"^── (\w+)$", text, re.MULTILINE)
    assert heads == ["paths", "cost", "trace", "rounding", "source"]
    f = load_function("model.py:loss")
    args = f.example_args
    gradient = bs.grad(f)(*args)
    assert f"w[1]          {gradient[1]:.16g}" in text
    assert str(bs.explain_cost(f, *args)) in text
    assert "\n    return (grad_w, grad_x, grad_y)" in text
    assert str(Path.cwd()) not in text


def test_explain_of_many_results_leaves_out_what_needs_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    args = ["more.py:nested", "--args", "{'w': np.ones(2), 'b': 0.5}", "3"]
    assert "one number as its result" in said(capsys, "explain", *args)
    assert "one number" in said(capsys, "explain", *args, "--what", "paths", status=1)
    assert "--what 'pahts' is none of paths" in said(
        capsys, "explain", *args, "--what", "pahts", status=1
    )


# ---- explore


def test_explore_writes_the_page_and_opens_it(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    assert said(capsys, "explore", "model.py:loss", "--no-open") == "loss.html\n"
    assert opened == []
    text = said(capsys, "explore", "model.py:loss", "--out", "pages/a.html")
    assert text.split() == ["pages/a.html"]
    assert opened == [(folder / "pages" / "a.html").as_uri()]
    page = (folder / "pages" / "a.html").read_text(encoding="utf-8")
    scene = re.search(r'<script type="application/json" id="scene">(.*?)</script>', page)
    assert scene is not None
    assert json.loads(scene[1])
    path = Path(said(capsys, "explore", "model.py:loss").strip())
    assert path.is_file()
    assert opened[-1] == path.as_uri()


# ---- bench


def test_bench_prints_times_and_ratios(capsys: pytest.CaptureFixture[str]) -> None:
    for target, args in (
        ("more.py:calls", ["np.ones(3)", "2"]),
        ("more.py:fills", ["np.ones(3)"]),
        ("more.py:nested", ["{'w': np.ones(2), 'b': 0.5}", "3"]),
    ):
        text = said(capsys, "bench", target, "--args", *args, "--seconds", "0.05", "--no-peers")
        time = r"[\d.,]+ (?:ns|µs|ms|s) ± \d+%"
        assert re.search(rf"^NumPy +{time} +–$", text, re.MULTILINE), text
        assert re.search(rf"^backsolve +– +{time} +[\d.,]+ ×", text, re.MULTILINE), text
        assert re.search(rf"^backsolve.jit +{time} +{time}$", text, re.MULTILINE), text
        assert "left out" not in text
    assert "--seconds must be above 0" in said(
        capsys, "bench", "model.py:loss", "--seconds", "0", status=1
    )


def test_times_keep_three_digits_where_they_round_up_to_the_next_unit() -> None:
    units = {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1.0}
    for seconds in np.geomspace(1e-9, 1e3, 20_001):
        number, unit = clock(float(seconds)).split()
        assert len(number.replace(".", "")) <= 3 or (number == "1,000" and unit == "s"), number
        half = 0.5 if unit == "ns" else 0.0051 * 10 ** np.floor(np.log10(seconds / units[unit]))
        assert abs(float(number.replace(",", "")) - seconds / units[unit]) <= max(half, 0.0051)
    assert [clock(s) for s in (999.4e-9, 999.6e-6, 9.996e-6, 0.9996)] == [
        "999 ns",
        "1.00 ms",
        "10.0 µs",
        "1.00 s",
    ]


def test_all_contestants_get_their_turns() -> None:
    calls = {"a": 0, "b": 0}

    def run(name: str) -> None:
        calls[name] += 1

    times = measured({name: lambda name=name: run(name) for name in calls}, 0.0)
    assert {t.turns for t in times.values()} == {3}
    assert all(t.seconds > 0 and t.noise >= 0 for t in times.values())
    assert min(calls.values()) > 3


def test_the_same_code_with_the_names_of_another_library() -> None:
    """A library that counts what is asked of it, and otherwise is NumPy."""
    other = types.ModuleType("other")
    seen: list[str] = []

    def counted(name: str) -> None:
        def call(*args: object) -> object:
            seen.append(name)
            return getattr(np, name)(*args)

        setattr(other, name, call)

    for name in ("exp", "sin", "sum"):
        counted(name)
    f = load_function("more.py:calls")
    x = np.array([0.5, 1.0])
    assert peers.translated(f, other)(x, 2) == f(x, 2)
    assert seen == ["exp", "sin", "exp", "sin"]
    with pytest.raises(TypeError, match="no plain function"):
        peers.translated(np.sin, other)


def test_peers_agree_or_are_left_out(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = (6.0, {"w": np.ones(2), "b": 0.5})
    assert peers.agrees(ours, (6.0, {"b": 0.5, "w": np.ones(2)}))
    assert not peers.agrees(ours, (6.0, {"b": 0.5, "w": np.ones(2) * 1.01}))
    assert not peers.agrees(ours, (6.0, {"w": np.ones(3), "b": 0.5}))
    right = {"value": lambda: 9.0, "value and gradient": lambda: (9.0, (6.0,))}
    wrong = {**right, "value and gradient": lambda: (9.0, (7.0,))}

    def fails(*_: object) -> object:
        raise RuntimeError("not here\nand more")

    made = {"one": lambda *_: right, "two": lambda *_: wrong, "three": fails}
    monkeypatch.setattr(peers, "installed", lambda: list(made))
    monkeypatch.setattr(peers, "peer", lambda name, *rest: made[name](*rest))
    text = said(capsys, "bench", "more.py:Model.loss", "--args", "3.0", "--seconds", "0.01")
    assert re.search(r"^one  ", text, re.MULTILINE)
    assert "two is left out: it computes other numbers\n" in text
    assert "three is left out: RuntimeError: not here\n" in text


@pytest.mark.parametrize("name", peers.NAMES)
def test_an_installed_peer_runs_the_same_function(name: str) -> None:
    pytest.importorskip(name)
    f = load_function("model.py:loss")
    ours = bs.value_and_grad(f, (0,))(*f.example_args)
    with peers.in_64_bits():
        timed = peers.peer(name, f, f.example_args, (0,))
        assert peers.agrees(ours, timed["value and gradient"]())
        np.testing.assert_allclose(timed["value"](), ours[0])


def test_jax_keeps_its_own_settings(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    jax = pytest.importorskip("jax")
    monkeypatch.setattr(peers, "installed", lambda: ["jax"])
    f = "more.py:Model.loss"
    before = jax.config.jax_enable_x64
    try:
        jax.config.update("jax_enable_x64", False)
        text = said(capsys, "bench", f, "--args", "3.0", "--seconds", "0.01")
        assert re.search(r"^jax  ", text, re.MULTILINE), text
        assert not jax.config.jax_enable_x64
    finally:
        jax.config.update("jax_enable_x64", before)


def test_the_user_path_is_not_left_in_modules() -> None:
    load_function("more.py:calls")
    assert "more" not in sys.modules
