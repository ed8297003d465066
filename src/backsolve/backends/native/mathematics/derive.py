"""The coefficients of `coefficients.py`, derived: minimax polynomials and constants in parts.

    python src/backsolve/backends/native/mathematics/derive.py   (needs mpmath)

A polynomial p(u) ≈ g(u) on [a, b] minimises  max |w(u) (g(u) − p(u))|,  where the weight w turns the
error of p into the relative error of the function it serves. Remez' exchange: p interpolates g with
an error ±E of alternating signs at degree + 2 points; the points move to the extrema of the error
until it is level. The degree is the least that meets the error asked for each format.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np

mp.mp.dps = 60
Function = Callable[[Any], Any]


@dataclass(frozen=True)
class Approximation:
    name: str
    formula: str
    g: Function
    a: Any
    b: Any
    weight: Function
    error: dict[str, float]  # the exponent of two of the error asked, by format


def remez(g: Function, a: Any, b: Any, degree: int, weight: Function) -> tuple[list[Any], Any]:
    """The coefficients and the error, the worst weighted one, of the best polynomial."""
    n = degree + 2
    grid = [(a + b) / 2 - (b - a) / 2 * mp.cos(mp.pi * (k + 0.5) / (16 * n)) for k in range(16 * n)]
    values = [(g(u), weight(u)) for u in grid]
    picks = [16 * k + 8 for k in range(n)]
    for _ in range(40):
        rows = [
            [grid[i] ** j for j in range(degree + 1)] + [(-1) ** k / values[i][1]]
            for k, i in enumerate(picks)
        ]
        solution = mp.lu_solve(mp.matrix(rows), mp.matrix([values[i][0] for i in picks]))
        c, level = [solution[j] for j in range(degree + 1)], abs(solution[degree + 1])
        errors = [w * (y - mp.polyval(c[::-1], u)) for u, (y, w) in zip(grid, values, strict=True)]
        worst = max(abs(e) for e in errors)
        if worst < level * mp.mpf("1.02"):
            break
        picks = _extrema(errors, n)
    return c, worst


def _extrema(errors: list[Any], n: int) -> list[int]:
    """One point of largest error in every run of one sign, and n of these runs, the ends dropped."""
    runs: list[int] = []
    for i, e in enumerate(errors):
        if runs and (e > 0) == (errors[runs[-1]] > 0):
            if abs(e) > abs(errors[runs[-1]]):
                runs[-1] = i
        else:
            runs.append(i)
    while len(runs) > n:
        runs.pop(0 if abs(errors[runs[0]]) < abs(errors[runs[-1]]) else -1)
    return runs


def series(f: Function) -> Function:
    """f near its removable singularity at 0, where the formula cancels: with more digits."""

    def evaluate(u: Any) -> Any:
        with mp.workdps(160):
            return f(u if abs(u) > mp.mpf(10) ** -25 else mp.mpf(10) ** -25)

    return evaluate


def on_square(f: Function) -> Function:
    """f as a function of u = z²."""
    return series(lambda u: f(mp.sqrt(u)))


def scaled_erfcx(c: Any) -> Function:
    """(1 + 2 x) exp(x²) erfc(x) as a function of t = (x − c)/(x + c)."""

    def evaluate(t: Any) -> Any:
        x = c * (1 + t) / (1 - t)
        return (1 + 2 * x) * mp.exp(x * x) * mp.erfc(x)

    return evaluate


def both(double: float, single: float) -> dict[str, float]:
    return {"float64": double, "float32": single}


HALF_LN2 = mp.log(2) / 2 * mp.mpf("1.001")
QUARTER_PI2 = (mp.pi / 4 * mp.mpf("1.02")) ** 2  # a little over (π/4)²: n is rounded from a product
S2 = ((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)) ** 2 * mp.mpf("1.001")  # s = f/(2+f), 1 + f ≤ √2
TAN_PI_8_2 = mp.tan(mp.pi / 8) ** 2 * mp.mpf("1.001")
ERFCX_CENTRE = {"float64": mp.mpf("4.75"), "float32": mp.mpf("3")}
ERFCX_END = {"float64": 28, "float32": mp.mpf("10.5")}


def log_tail(s: Any) -> Any:
    """(log((1+s)/(1−s)) − 2 s)/s³ = 2/3 + 2/5 s² + …"""
    return (2 * mp.atanh(s) - 2 * s) / s**3


def approximations() -> Iterator[Approximation]:
    one: Function = lambda u: mp.mpf(1)
    yield Approximation(
        "EXP", "(exp r − 1 − r)/r², |r| ≤ ln 2 / 2",
        series(lambda r: (mp.exp(r) - 1 - r) / r**2), -HALF_LN2, HALF_LN2,
        lambda r: r**2 / abs(mp.expm1(r)), both(-55.5, -26),
    )  # fmt: skip
    yield Approximation(
        "EXP_WIDE", "(exp r − 1 − r)/r², |r| ≤ ln 2",
        series(lambda r: (mp.exp(r) - 1 - r) / r**2), -2 * HALF_LN2, 2 * HALF_LN2,
        lambda r: r**2 / mp.exp(r), both(-56, -26),
    )  # fmt: skip
    yield Approximation(
        "COTH", "(h coth h − 1)/h² in u = h², |h| ≤ ln 2 / 2",
        on_square(lambda h: (h * mp.coth(h) - 1) / h**2), mp.mpf(0), HALF_LN2**2,
        lambda u: u, both(-56, -26),
    )  # fmt: skip
    yield Approximation(
        "EXP2", "(2^r − 1)/r − ln 2, over r, |r| ≤ 1/2",
        series(lambda r: ((mp.mpf(2) ** r - 1) / r - mp.log(2)) / r), mp.mpf(-0.501), mp.mpf(0.501),
        lambda r: r**2, both(-57, -28),
    )  # fmt: skip
    yield Approximation(
        "LOG", "(log((1+s)/(1−s)) − 2 s)/s³ in u = s²", on_square(log_tail), mp.mpf(0), S2,
        lambda u: u, both(-58, -29),
    )  # fmt: skip
    yield Approximation(
        "LOG_LONG", "((log((1+s)/(1−s)) − 2 s)/s³ − 2/3)/s² in u = s²",
        on_square(lambda s: (log_tail(s) - mp.mpf(2) / 3) / s**2), mp.mpf(0), S2,
        lambda u: u**2, {"float64": -70},
    )  # fmt: skip
    yield Approximation(
        "LOG_SHORT", "the same as LOG, for float32 results computed in float64",
        on_square(log_tail), mp.mpf(0), S2, lambda u: u, {"float64": -40},
    )  # fmt: skip
    yield Approximation(
        "EXP2_SHORT", "2^r, |r| ≤ 1/2, for float32 results computed in float64",
        lambda r: mp.mpf(2) ** r, mp.mpf(-0.501), mp.mpf(0.501), one, {"float64": -33},
    )  # fmt: skip
    accuracies: list[tuple[str, dict[str, float]]] = [
        ("", both(-57, -27)),
        ("_SHORT", {"float64": -33}),
    ]
    for name, error in accuracies:
        yield Approximation(
            "SIN" + name, "(sin r − r)/r³ in u = r², |r| ≤ 1.02 π/4",
            on_square(lambda r: (mp.sin(r) - r) / r**3), mp.mpf(0), QUARTER_PI2,
            lambda u: u, error,
        )  # fmt: skip
        yield Approximation(
            "COS" + name, "(cos r − 1 + r²/2)/r⁴ in u = r², |r| ≤ 1.02 π/4",
            on_square(lambda r: (mp.cos(r) - 1 + r**2 / 2) / r**4), mp.mpf(0), QUARTER_PI2,
            lambda u: u**2, error,
        )  # fmt: skip
    yield Approximation(
        "SINH", "(sinh x − x)/x³ in u = x², |x| ≤ 1",
        on_square(lambda x: (mp.sinh(x) - x) / x**3), mp.mpf(0), mp.mpf(1.001),
        lambda u: u, both(-58, -28.5),
    )  # fmt: skip
    yield Approximation(
        "ARCTAN", "(arctan z − z)/z³ in u = z², |z| ≤ tan π/8",
        on_square(lambda z: (mp.atan(z) - z) / z**3), mp.mpf(0), TAN_PI_8_2,
        lambda u: u, both(-58, -28.5),
    )  # fmt: skip
    yield Approximation(
        "ARCSIN", "(arcsin z − z)/z³ in u = z², |z| ≤ 1/2",
        on_square(lambda z: (mp.asin(z) - z) / z**3), mp.mpf(0), mp.mpf(0.2501),
        lambda u: u, both(-58, -28.5),
    )  # fmt: skip
    yield Approximation(
        "ERF", "erf(x)/x − 1 in u = x², |x| ≤ 1",
        on_square(lambda x: mp.erf(x) / x - 1), mp.mpf(0), mp.mpf(1.001), one, both(-57, -30),
    )  # fmt: skip
    for name, end, asked in (("float64", 6, -57), ("float32", 4, -28)):
        yield Approximation(
            "ERF_LOG", f"−log erfc x in t = x − 1, 1 ≤ x ≤ {end}",
            lambda t: -mp.log(mp.erfc(1 + t)), mp.mpf(0), mp.mpf(end) - 1,
            lambda t: mp.erfc(1 + t), {name: asked},
        )  # fmt: skip
    yield Approximation(
        "CBRT", "m^(−1/3), 1 ≤ m ≤ 2", lambda m: mp.cbrt(m) ** -1, mp.mpf(1), mp.mpf(2),
        lambda m: mp.cbrt(m), both(-14, -8),
    )  # fmt: skip
    for name, single in (("float64", -57), ("float32", -28)):
        k, end = ERFCX_CENTRE[name], mp.mpf(ERFCX_END[name])
        yield Approximation(
            "ERFCX", f"(1 + 2 x) exp(x²) erfc(x) in t = (x − {float(k)})/(x + {float(k)}), 0.8 ≤ x ≤ {end}",
            scaled_erfcx(k),
            (mp.mpf("0.799") - k) / (mp.mpf("0.799") + k), (end - k) / (end + k), one, {name: single},
        )  # fmt: skip


DTYPES: dict[str, Any] = {"float64": np.float64, "float32": np.float32}
DIGITS = {"float64": 53, "float32": 24}


def split(x: Any, parts: int, name: str, digits: int | None = None) -> list[float]:
    """x ≈ the sum of `parts` numbers of the format; all but the last of at most `digits` bits."""
    out: list[float] = []
    for i in range(parts):
        last = i == parts - 1
        c = float(DTYPES[name](float(x)))
        if digits is not None and not last and x:
            unit = mp.mpf(2) ** (int(mp.floor(mp.log(abs(x), 2))) + 1 - digits)
            c = float(mp.floor(x / unit) * unit)
        out.append(c)
        x = x - mp.mpf(c)
    return out


def constants(name: str) -> Iterator[tuple[str, str, list[float]]]:
    # n ln 2 with |n| ≤ 1100 (150 in float32) must be exact in the first part.
    short = 40 if name == "float64" else 15
    yield "LN2", "ln 2 in parts, n times the first exact", split(mp.log(2), 2, name, short)
    yield "LN2_PAIR", "ln 2 in parts", split(mp.log(2), 2, name)
    yield "PI_2", "π/2 in parts", split(mp.pi / 2, 3, name)
    yield "PI_2_DOWN", "π/2 in parts above 0", split(mp.pi / 2, 3, name, DIGITS[name])
    yield "LOG2_E", "1/ln 2 in parts", split(1 / mp.log(2), 2, name)
    yield "LOG10_E", "1/ln 10 in parts", split(1 / mp.log(10), 2, name)
    yield "LOG10_2", "log10 2 in parts, k times the first exact", split(mp.log10(2), 2, name, short)
    yield "TWO_THIRDS", "2/3 in parts", split(mp.mpf(2) / 3, 2, name)


def two_over_pi(name: str) -> list[list[float]]:
    """Rows j of (2/π 2^(16 j)) modulo 2^(digits + 1), in parts (see reduction.py)."""
    with mp.workdps(450):
        rows = []
        for j in range((1024 if name == "float64" else 128) // 16):
            x = mp.fmod(2 / mp.pi * mp.mpf(2) ** (16 * j), mp.mpf(2) ** (DIGITS[name] + 1))
            if name == "float64":
                rows.append(split(x, 4, "float64"))
                continue
            parts = []
            for unit in (mp.mpf(2) ** -3, mp.mpf(2) ** -31):
                parts.append(float(mp.floor(x / unit) * unit))
                x -= mp.mpf(parts[-1])
            rows.append([*parts, float(x)])
        return rows


def main() -> None:
    lines = [
        '"""Minimax coefficients, lowest first, and constants in parts, by format. Written by derive.py."""',
        "",
        "# fmt: off",
        "",
    ]
    tables: dict[str, dict[str, tuple[str, list[float]]]] = {}
    for row in approximations():
        for name, asked in row.error.items():
            degree = 1
            while True:
                c, worst = remez(row.g, row.a, row.b, degree, row.weight)
                if worst < mp.mpf(2) ** asked:
                    break
                degree += 1
            print(row.name, name, degree, float(mp.log(worst, 2)), flush=True)
            note = f"{row.formula}; error 2^{float(mp.log(worst, 2)):.1f}"
            rounded = [float(DTYPES[name](float(v))) for v in c]
            tables.setdefault(row.name, {})[name] = (note, rounded)
    for name in DTYPES:
        for title, note, parts in constants(name):
            tables.setdefault(title, {})[name] = (note, parts)
    for title, by_format in tables.items():
        lines.append(f"{title} = {{")
        for name, (note, values) in by_format.items():
            lines += [f"    # {note}", f'    "{name}": (', *_rows(values, "        "), "    ),"]
        lines += ["}", ""]
    lines.append("TWO_OVER_PI = {")
    for name in DTYPES:
        lines += [f"    # {two_over_pi.__doc__}", f'    "{name}": (']
        for row_parts in two_over_pi(name):
            lines.append(f"        ({', '.join(repr(v) for v in row_parts)}),")
        lines.append("    ),")
    lines += ["}", ""]
    Path(__file__).with_name("coefficients.py").write_text("\n".join(lines))


def _rows(values: list[float], indent: str) -> Iterator[str]:
    for k in range(0, len(values), 3):
        yield indent + ", ".join(f"{v!r}" for v in values[k : k + 3]) + ","


if __name__ == "__main__":
    main()
