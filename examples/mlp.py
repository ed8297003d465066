"""A multi-layer perceptron on measurements of tumours: benign or malignant, by 30 numbers each.

The Wisconsin data of scikit-learn; standardised, one third kept for testing.
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_breast_cancer

import backsolve as bs
from backsolve import nn, optim


def main(steps: int = 30) -> float:
    data = load_breast_cancer()
    x = ((data.data - data.data.mean(axis=0)) / data.data.std(axis=0)).astype(np.float32)
    order = np.random.default_rng(0).permutation(len(x))
    train, test = order[:380], order[380:]

    nn.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(30, 64),
        nn.GELU(),
        nn.Dropout(0.2),
        nn.Linear(64, 64),
        nn.GELU(),
        nn.Linear(64, 2),
    )
    fitted = bs.fit(
        model,
        nn.CrossEntropyLoss(label_smoothing=0.05),
        (x[train], data.target[train]),
        optimizer=optim.AdamW(lr=3e-3, weight_decay=1e-2),
        epochs=steps,
        metrics=["accuracy"],
        validation=(x[test], data.target[test]),
    )
    scores = fitted.predict(x[test])
    wrong = test[np.argmax(scores, axis=1) != data.target[test]]
    print(f"test accuracy {fitted.metrics['val_accuracy']:.1%}; wrong: tumours {wrong.tolist()}")

    # Which measurement would have changed the verdict most? The gradient in the input tells.
    model = fitted.model
    slope = bs.grad(lambda x: np.sum(model(x)[:, 0] - model(x)[:, 1]))(x[test])
    strongest = np.argsort(-np.abs(slope).mean(axis=0))[:3]
    print("decisive:", ", ".join(str(data.feature_names[k]) for k in strongest))
    return float(fitted.metrics["val_accuracy"])


if __name__ == "__main__":
    main()
