"""Discrete Fourier transforms of any length (docs/design/fourier.md)."""
