"""Where other libraries are met: SciPy's solvers, other libraries' arrays."""
