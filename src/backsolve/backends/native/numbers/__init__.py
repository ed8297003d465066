"""Arithmetic on one entry, by kind of number."""
