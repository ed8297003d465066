# Written by `pytest tests/test_source.py --update-golden`.
# ruff: noqa
import numpy as np


def neuron(w0, x0, w1, x1, w2):
    s0 = w0 * x0
    s1 = w1 * x1
    s2 = s0 + s1
    s3 = s2 + w2
    s4 = -s3
    s5 = np.exp(s4)
    s6 = 1 + s5
    neuron = 1 / s6
    return neuron
