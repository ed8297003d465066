"""Estimators for scikit-learn: networks with fit, predict and score, for its pipelines and searches.

>>> import numpy as np
>>> from sklearn.pipeline import make_pipeline
>>> from sklearn.preprocessing import StandardScaler
>>> from backsolve.sklearn import MLPClassifier
>>> x = np.random.default_rng(0).normal(size=(200, 2))
>>> y = np.where(x[:, 0] * x[:, 1] > 0, "same", "different")
>>> pipeline = make_pipeline(StandardScaler(), MLPClassifier((32,), learning_rate_init=0.01, random_state=0))
>>> pipeline.fit(x, y).score(x, y) > 0.9
True
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "backsolve.sklearn needs scikit-learn: pip install 'backsolve[train]'"
    ) from error
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets, unique_labels
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from . import nn, random
from .data import Batches
from .optim import AdamW
from .training import EarlyStopping, fit
from .training.objective import Objective
from .training.scaling import Rescale, Standardise
from .training.step import Steps

_ACTIVATIONS = {"relu": nn.ReLU, "tanh": nn.Tanh, "logistic": nn.Sigmoid, "identity": nn.Identity}
_WORTH_COMPILING = 1000  # steps; fewer take less time as written than a compilation does
# What was compiled for `partial_fit`: not part of an estimator, which may be copied and pickled.
_compiled: weakref.WeakKeyDictionary[Any, Steps] = weakref.WeakKeyDictionary()


class _MLP(BaseEstimator):
    """Settings under scikit-learn's names. Inputs (and targets) are standardised inside.

    hidden_layer_sizes  widths of the layers between, (100,)
    activation          "relu", "tanh", "logistic" or "identity"
    alpha               weight decay of AdamW
    batch_size          examples a step; "auto" is 200, or all if these are fewer
    learning_rate_init  AdamW's rate
    max_iter            most passes over the data; fewer if the loss does not fall by `tol` for
                        n_iter_no_change of them
    shuffle             whether each pass has an order of its own
    random_state        of weights and order
    verbose             show a bar (in a terminal or notebook)
    """

    _loss: Any
    model_: Any

    def __init__(
        self,
        hidden_layer_sizes: Sequence[int] = (100,),
        activation: str = "relu",
        *,
        alpha: float = 1e-4,
        batch_size: int | str = "auto",
        learning_rate_init: float = 1e-3,
        max_iter: int = 200,
        shuffle: bool = True,
        random_state: Any = None,
        tol: float = 1e-4,
        n_iter_no_change: int = 10,
        verbose: bool = False,
    ):
        self.hidden_layer_sizes = hidden_layer_sizes
        self.activation = activation
        self.alpha = alpha
        self.batch_size = batch_size
        self.learning_rate_init = learning_rate_init
        self.max_iter = max_iter
        self.shuffle = shuffle
        self.random_state = random_state
        self.tol = tol
        self.n_iter_no_change = n_iter_no_change
        self.verbose = verbose

    # ---- what both kinds share

    def _fit(self, x: Any, y: Any, width: int, end: list[Any]) -> Any:
        seed = self._begin(x, width, end)
        size = self._size(len(x))
        batches = Batches((x, y), size, shuffle=self.shuffle, seed=seed)
        done = fit(
            self.model_, self._loss, batches,
            optimizer=self._rule(),
            epochs=self.max_iter,
            callbacks=[EarlyStopping("loss", self.n_iter_no_change, self.tol)],
            progress=self.verbose,
            compile=len(batches) * self.max_iter > _WORTH_COMPILING,
        )  # fmt: skip
        self.model_ = done.model
        self.loss_curve_ = done.history["loss"]
        self.loss_, self.n_iter_ = self.loss_curve_[-1], done.epoch
        _compiled.pop(self, None)
        self._state: Any = None
        return self

    def _partial_fit(self, x: Any, y: Any, width: int, end: list[Any]) -> Any:
        """One pass over these examples, from where the last one ended."""
        if not hasattr(self, "model_"):
            self._seed = self._begin(x, width, end)
            self.n_iter_, self.loss_curve_, self._state = 0, [], None
        steps = _compiled.get(self)
        if steps is None:
            steps = Steps(self.model_, Objective(self._loss, {}), self._rule())
            _compiled[self] = steps
        state = steps.first_state() if self._state is None else self._state
        seed = getattr(self, "_seed", 0)
        batches = Batches((x, y), self._size(len(x)), shuffle=self.shuffle, seed=seed)
        batches.epoch = self.n_iter_
        total = 0.0
        for batch in batches:
            state, loss, _, whole, _ = steps.step(state, batch, 1.0)
            if not whole:
                raise steps.explain(state, batch, "partial_fit")
            total += float(loss) * len(batch[0])
        self._state, self.model_ = state, steps.model_of(state).eval()
        self.n_iter_ += 1
        self.loss_ = total / len(x)
        self.loss_curve_ = [*self.loss_curve_, self.loss_]
        return self

    def _begin(self, x: Any, width: int, end: list[Any]) -> int:
        """First weights, and the seed of the order."""
        if self.activation not in _ACTIVATIONS:
            names = ", ".join(_ACTIVATIONS)
            raise ValueError(f"activation must be one of {names}, got {self.activation!r}")
        if self.max_iter < 1:
            raise ValueError(f"max_iter must be at least 1, got {self.max_iter}")
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        widths = [x.shape[1], *np.atleast_1d(self.hidden_layer_sizes).tolist(), width]
        keys = list(random.split(random.key(seed), len(widths)))
        layers: list[Any] = [Standardise(x)]
        for before, after, key in zip(widths, widths[1:], keys, strict=False):
            layers += [nn.Linear(before, after, key=key, dtype=x.dtype.type)]
            layers += [_ACTIVATIONS[self.activation]()]
        self.model_ = nn.Sequential(*layers[:-1], *end)
        return seed

    def _rule(self) -> AdamW:
        return AdamW(self.learning_rate_init, weight_decay=self.alpha)

    def _size(self, n: int) -> int:
        return min(200 if self.batch_size == "auto" else int(self.batch_size), n)

    def _checked(self, x: Any, y: Any, reset: bool, **more: Any) -> Any:
        kinds = (np.float64, np.float32)
        return validate_data(self, x, y, dtype=kinds, reset=reset, **more)

    def _output(self, x: Any) -> Any:
        check_is_fitted(self)
        x = validate_data(self, x, dtype=(np.float64, np.float32), reset=False)
        return np.asarray(self.model_(x))


class MLPClassifier(ClassifierMixin, _MLP):
    _loss = staticmethod(nn.functional.cross_entropy)

    __doc__ = f"""A network that tells classes apart, by cross entropy.\n\n{_MLP.__doc__}"""

    def fit(self, X: Any, y: Any) -> MLPClassifier:
        """Learn from examples X (n, features) and their classes y."""
        x, y = self._checked(X, y, reset=True)
        check_classification_targets(y)
        y = column_or_1d(y, warn=True)
        self.classes_, numbers = np.unique(y, return_inverse=True)
        return self._fit(x, numbers, len(self.classes_), [])

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> MLPClassifier:
        """One pass over some examples; the first call needs all `classes`, or examples of each."""
        first = not hasattr(self, "model_")
        x, y = self._checked(X, y, reset=first)
        check_classification_targets(y)
        y = column_or_1d(y, warn=True)
        if first:
            self.classes_ = unique_labels(y if classes is None else classes)
        unknown = np.setdiff1d(y, self.classes_)
        if unknown.size:
            raise ValueError(f"{unknown[0]!r} is none of the classes {self.classes_}")
        numbers = np.searchsorted(self.classes_, y)
        return self._partial_fit(x, numbers, len(self.classes_), [])

    def predict_log_proba(self, X: Any) -> Any:
        """Logarithms of the probability of each class: (n, classes)."""
        return np.asarray(nn.functional.log_softmax(self._output(X), 1))

    def predict_proba(self, X: Any) -> Any:
        """The probability of each class: (n, classes)."""
        return np.exp(self.predict_log_proba(X))

    def predict(self, X: Any) -> Any:
        """The most probable class of each example."""
        scores = self._output(X)
        return self.classes_[np.argmax(scores, 1)]


class MLPRegressor(RegressorMixin, _MLP):
    _loss = staticmethod(nn.functional.mse_loss)

    __doc__ = (
        f"""A network that predicts one number or several, by least squares.\n\n{_MLP.__doc__}"""
    )

    def fit(self, X: Any, y: Any) -> MLPRegressor:
        """Learn from examples X (n, features) and numbers y, (n,) or (n, outputs)."""
        x, y = self._both(X, y, reset=True)
        return self._fit(x, y, 1 if y.ndim == 1 else y.shape[1], [Rescale(y)])

    def partial_fit(self, X: Any, y: Any) -> MLPRegressor:
        """One pass over some examples; the first ones set the scale of inputs and targets."""
        x, y = self._both(X, y, reset=not hasattr(self, "model_"))
        return self._partial_fit(x, y, 1 if y.ndim == 1 else y.shape[1], [Rescale(y)])

    def predict(self, X: Any) -> Any:
        """The numbers of each example."""
        return self._output(X)

    def _both(self, X: Any, y: Any, reset: bool) -> tuple[Any, Any]:
        x, y = self._checked(X, y, reset, multi_output=True, y_numeric=True)
        y = y if y.ndim == 2 and y.shape[1] > 1 else column_or_1d(y, warn=True)
        return x, np.asarray(y, x.dtype)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
