# Written by `pytest tests/test_source.py --update-golden`.
# ruff: noqa
import numpy as np


def grad_neuron(w0, x0, w1, x1, w2):
    s0 = w0 * x0
    s1 = w1 * x1
    s2 = s0 + s1
    s3 = s2 + w2
    s4 = -s3
    s5 = np.exp(s4)
    s6 = 1 + s5
    neuron = 1 / s6
    grad_neuron = 1.0
    grad_s6 = grad_neuron * (-neuron / s6)
    grad_s5 = grad_s6
    grad_s4 = grad_s5 * s5
    grad_s3 = -grad_s4
    grad_w2 = grad_s3
    grad_s2 = grad_s3
    grad_s0 = grad_s2
    grad_s1 = grad_s2
    grad_w1 = grad_s1 * x1
    grad_x1 = grad_s1 * w1
    grad_w0 = grad_s0 * x0
    grad_x0 = grad_s0 * w0
    return grad_w0
