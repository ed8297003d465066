# Written by `pytest tests/test_source.py --update-golden`.
# ruff: noqa
import numpy as np


def grad_loss(params, x, y):
    # params_W: float64[3,4], params_b: float64[4], params_v: float64[4], x: float64[5,3], y:
    # float64[5]
    params_W = params["W"]
    params_b = params["b"]
    params_v = params["v"]
    s0 = x @ params_W
    s1 = s0 + params_b
    s2 = np.tanh(s1)
    s3 = s2 @ params_v
    s4 = s3 - y
    grad_loss = 1.0
    grad_s6 = grad_loss * 0.2
    grad_s5 = np.broadcast_to(grad_s6, (5,))
    grad_s4 = grad_s5 * (2 * s4)
    grad_s3 = grad_s4
    grad_params_v = s2.T @ grad_s3
    grad_s2 = np.outer(grad_s3, params_v)
    grad_s1 = grad_s2 * (1 - s2 * s2)
    grad_params_b = np.sum(grad_s1, axis=0)
    grad_s0 = grad_s1
    grad_params_W = x.T @ grad_s0
    return {"W": grad_params_W, "b": grad_params_b, "v": grad_params_v}
