"""Optimisers that PyTorch has, too, with settings, and a problem on which both are run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

DATA = Path(__file__).parent / "pytorch.npz"
STEPS = 12
_rng = np.random.default_rng(0)
A, B = _rng.normal(size=(6, 4)), _rng.normal(size=(6, 3))
START = {"w": _rng.normal(size=(4, 3)), "v": np.array([0.3, -0.4])}
SETTINGS: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {"lr": 0.01}),
    ("SGD", {"lr": 0.01, "momentum": 0.9}),
    ("SGD", {"lr": 0.01, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.01, "momentum": 0.9, "nesterov": True}),
    ("Adam", {}),
    ("Adam", {"amsgrad": True, "weight_decay": 0.1}),
    ("AdamW", {}),
    ("AdamW", {"lr": 0.05, "betas": (0.8, 0.9), "weight_decay": 0.3}),
    ("Adamax", {"weight_decay": 0.1}),
    ("NAdam", {}),
    ("NAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("RAdam", {}),
    ("RAdam", {"betas": (0.8, 0.9), "weight_decay": 0.1}),
    ("RMSprop", {}),
    ("RMSprop", {"momentum": 0.5, "centered": True, "weight_decay": 0.1}),
    ("Adagrad", {"lr_decay": 0.1, "weight_decay": 0.1}),
    ("Adagrad", {"initial_accumulator_value": 0.5}),
    ("Adadelta", {"weight_decay": 0.1}),
    ("Adafactor", {}),
    ("Adafactor", {"lr": 0.5, "weight_decay": 0.1, "d": 2.0}),
]
SCHEDULES: list[tuple[str, str, tuple[Any, ...], dict[str, Any]]] = [
    # our name, PyTorch's, our arguments behind the rate, PyTorch's arguments
    ("step", "StepLR", (7, 0.5), {"step_size": 7, "gamma": 0.5}),
    ("multistep", "MultiStepLR", ((3, 9), 0.2), {"milestones": (3, 9), "gamma": 0.2}),
    ("exponential", "ExponentialLR", (0.9,), {"gamma": 0.9}),
    ("linear", "LinearLR", (10, 0.05), {"start_factor": 1.0, "end_factor": 0.5, "total_iters": 10}),
    ("polynomial", "PolynomialLR", (10, 2.0), {"total_iters": 10, "power": 2.0}),
    ("cosine", "CosineAnnealingLR", (20, 0.01), {"T_max": 20, "eta_min": 0.01}),
    ("cosine_restarts", "CosineAnnealingWarmRestarts", (4, 2), {"T_0": 4, "T_mult": 2}),
    ("one_cycle", "OneCycleLR", (20,), {"max_lr": 0.1, "total_steps": 20}),
]
RATE = 0.1


def name_of(name: str, settings: dict[str, Any]) -> str:
    return f"{name}({', '.join(f'{k}={v}' for k, v in settings.items())})"
