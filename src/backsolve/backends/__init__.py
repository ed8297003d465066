"""The ways of running a Program other than NumPy, one package each."""
