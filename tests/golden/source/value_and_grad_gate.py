# Written by `pytest tests/test_source.py --update-golden`.
# ruff: noqa
from scipy.special import expit as sigmoid


def value_and_grad_gate(w0, x0, w1, x1, w2):
    s0 = w0 * x0
    s1 = w1 * x1
    s2 = s0 + s1
    s3 = s2 + w2
    gate = sigmoid(s3)
    grad_gate = 1.0
    grad_s3 = grad_gate * (gate * (1 - gate))
    grad_w2 = grad_s3
    grad_s2 = grad_s3
    grad_s0 = grad_s2
    grad_s1 = grad_s2
    grad_w1 = grad_s1 * x1
    grad_x1 = grad_s1 * w1
    grad_w0 = grad_s0 * x0
    grad_x0 = grad_s0 * w0
    return gate, (grad_w0, grad_w1, grad_w2)
