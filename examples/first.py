"""A first look: differentiate, see the system, fit a real curve by Gauss–Newton, check the result.

The data are Hubble's 1929 distances and velocities of 24 nebulae (Proc. Natl. Acad. Sci. 15, 168).
The fit is a straight line through the origin with a robust loss, and the solar motion with it.
"""

from __future__ import annotations

import numpy as np
from rich.console import Console
from rich.table import Table

import backsolve as bs

# distance in megaparsec, velocity in km/s
HUBBLE = np.array(
    [
        (0.032, 170), (0.034, 290), (0.214, -130), (0.263, -70), (0.275, -185), (0.275, -220),
        (0.45, 200), (0.5, 290), (0.5, 270), (0.63, 200), (0.8, 300), (0.9, -30),
        (0.9, 650), (0.9, 150), (0.9, 500), (1.0, 920), (1.1, 450), (1.1, 500),
        (1.4, 500), (1.7, 960), (2.0, 500), (2.0, 850), (2.0, 800), (2.0, 1090),
    ]
)  # fmt: skip
distance, velocity = HUBBLE.T


def residual(p):
    """Velocity = H · distance + offset, in units of the scatter."""
    return (p[0] * distance + p[1] - velocity) / 200.0


def robust_loss(p):
    """Pseudo-Huber: quadratic near zero, linear far away."""
    r = residual(p)
    return np.sum(np.sqrt(1.0 + r * r) - 1.0)


def newton(f, p, steps=50):
    gradient, hessian = bs.grad(f), bs.hessian(f)
    for k in range(1, steps + 1):
        g = gradient(p)
        if np.linalg.norm(g) < 1e-10:
            return p, k
        p = p - np.linalg.solve(hessian(p), g)
    raise RuntimeError("Newton's method did not converge")


def main() -> None:
    out = Console()

    def f(x):
        return np.log(x[0]) + x[0] * x[1] - np.sin(x[1])

    x = np.array([2.0, 5.0])
    out.print("[bold]1. Plain NumPy code differentiates[/]")
    out.print(f"   f = log x₀ + x₀ x₁ − sin x₁,  ∇f(2, 5) = {bs.grad(f)(x)}\n")

    out.print("[bold]2. The differential is an object[/]")
    print(bs.linearize(f)(x), end="\n\n")

    out.print("[bold]3. Fit Hubble's law (1929)[/]")
    p, steps = newton(robust_loss, np.array([300.0, 0.0]))
    exact, numeric = bs.grad(robust_loss)(p + 1), bs.numeric.grad(robust_loss, p + 1)
    table = Table("quantity", "value")
    table.add_row("Hubble constant, km/s per Mpc", f"{p[0]:.1f}")
    table.add_row("offset, km/s", f"{p[1]:.1f}")
    table.add_row("Newton steps", str(steps))
    table.add_row("loss", f"{robust_loss(p):.4f}")
    table.add_row("gradient against differences", f"{np.abs(exact - numeric).max():.1e}")
    out.print(table)


if __name__ == "__main__":
    main()
