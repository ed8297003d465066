"""More random statements for structured programs: nests, truths, second names, asserts, comprehensions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .fuzz_control_values import Scope, condition, index, number, part, vector

if TYPE_CHECKING:
    from .fuzz_control_blocks import Writer


def nest(w: Writer, s: Scope) -> None:
    """A dict with a list and an array in it, and what changes in them."""
    if not s.nests or s.chance(0.3):
        name = w.name("q")
        made = s.pick(
            ["np.zeros(3)", f"np.full(3, {number(s, 1)})", f"np.ones(3) * {number(s, 1)}"]
        )
        w.write(
            f'{name} = {{"p": [{number(s, 1)}, {number(s, 1)}], "y": {made}, "t": ({number(s, 1)}, 0)}}'
        )
        s.nests.append(name)
        return
    q = s.pick(s.nests)
    forms = ['{q}["p"][{k}] = {e}', '{q}["p"][{k}] += {e}', '{q}["y"][{i}] = {e}']
    forms += [
        '{q}["y"][{i}] *= {e}',
        '{q}["p"] = [{q}["p"][1], {e}]',
        '{q}["t"] = ({e}, {q}["t"][1] + 1)',
    ]
    forms += ['{q}["y"] = {q}["y"] * 0.5 + {e}']
    w.write(s.pick(forms).format(q=q, k=s.below(2), i=index(s, 3), e=number(s)))


def truth(w: Writer, s: Scope) -> None:
    if s.flags and s.chance(0.75):
        t = s.pick(s.flags)
        form = s.pick(["{t} = not {t}", "{t} = {t} and {c}", "{t} = {t} or {c}", "{t} = {c}"])
        w.write(form.format(t=t, c=condition(s, 1)))
        return
    name = w.name("t")
    w.write(f"{name} = {s.pick(['True', 'False', condition(s, 1)])}")
    s.flags.append(name)


def asserted(w: Writer, s: Scope) -> None:
    """What holds, at these arguments and near them."""
    tests = [f"abs({number(s, 1)}) < 1e6", f"{number(s, 1)} < 1e6 or {condition(s, 1)}"]
    tests += [f"{i} >= 0" for i in s.whole]
    w.write(f"assert {s.pick(tests)}" + s.pick(["", ', "too large"']))


def other_name(w: Writer, s: Scope) -> None:
    """A second name of an array, or of a part of one: jit may refuse what follows."""
    arrays = [(v, n) for v, n in s.vectors.items() if v not in s.views]
    if not arrays:
        return
    y, n = s.pick(arrays)
    name = w.name("y")
    if s.chance(0.6):
        w.write(f"{name} = {y}")
        s.vectors[name] = n
        return
    width = 1 + s.below(n)
    w.write(f"{name} = {y}[{part(s, n, width)}]")
    s.vectors[name] = width
    s.views.add(name)


def collected(w: Writer, s: Scope) -> None:
    """An array made by a comprehension over many or few."""
    name, i = w.name("y"), w.name("i")
    n = s.pick([3, 20])
    inner = s.inner()
    inner.whole[i] = n
    e = f"{number(inner, 1)} * 1.0 + {s.pick(s.floats or ['0.5'])} * 0.1"
    w.write(f"{name} = np.array([{e} for {i} in range({n})])")
    s.vectors[name] = n


def summed(s: Scope) -> str:
    """A number made by a comprehension."""
    i = f"i{s.below(1000) + 1000}"
    inner = s.inner()
    n = s.pick([3, 20])
    inner.whole[i] = n
    e = number(inner, 1)
    forms = [f"sum({e} for {i} in range({n})) * 0.05", f"max([{e} * 1.0 for {i} in range({n})])"]
    if s.vectors:
        y, m = s.pick(list(s.vectors.items()))
        forms.append(f"sum([{i} * {i} for {i} in {y}]) * 0.1")
        forms.append(f"sum(p * q for p, q in zip({y}, {vector(s, m, 0)})) * 0.1")
    return str(s.pick(forms))
