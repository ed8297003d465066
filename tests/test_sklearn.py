"""Estimators: scikit-learn's own checks, pipelines, searches, and learning in parts."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_iris
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from backsolve.sklearn import MLPClassifier, MLPRegressor

# With these, scikit-learn's checks ask for what is not in every environment.
NEEDS_MORE = {
    "check_array_api_input",  # SCIPY_ARRAY_API=1
    "check_classifier_data_not_an_array",  # pandas
    "check_regressor_data_not_an_array",
}


@pytest.mark.parametrize("kind", [MLPClassifier, MLPRegressor])
def test_all_checks_of_scikit_learn(kind: Any) -> None:
    estimator = kind((16,), learning_rate_init=0.02, max_iter=60)
    found = check_estimator(estimator, on_skip=None, on_fail="raise")
    skipped = {check["check_name"] for check in found if check["status"] == "skipped"}
    assert skipped <= NEEDS_MORE
    assert sum(check["status"] == "passed" for check in found) >= 50


def test_a_pipeline_in_a_search() -> None:
    x, y = load_iris(return_X_y=True)
    pipeline = make_pipeline(
        StandardScaler(), MLPClassifier((8,), learning_rate_init=0.02, random_state=0)
    )
    search = GridSearchCV(
        pipeline, {"mlpclassifier__alpha": [0.0, 0.01], "mlpclassifier__max_iter": [2, 60]}, cv=3
    )
    search.fit(x, y)
    assert search.best_params_["mlpclassifier__max_iter"] == 60
    assert search.best_score_ > 0.9


def test_numbers_are_predicted() -> None:
    x, y = load_diabetes(return_X_y=True)
    model = MLPRegressor((16,), learning_rate_init=0.01, max_iter=40, random_state=0)
    assert np.mean(cross_val_score(model, x, y, cv=3)) > 0.35
    two = model.fit(x, np.stack([y, -y], 1)).predict(x)
    assert two.shape == (442, 2)
    np.testing.assert_allclose(two[:, 0], -two[:, 1], atol=60)


def test_compiled_and_as_written_learn_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = load_iris(return_X_y=True)
    settings: Any = {"hidden_layer_sizes": (8,), "max_iter": 30, "random_state": 3}
    plain = MLPClassifier(**settings).fit(x, y)
    monkeypatch.setattr("backsolve.sklearn._WORTH_COMPILING", 0)
    compiled = MLPClassifier(**settings).fit(x, y)
    np.testing.assert_allclose(plain.predict_proba(x), compiled.predict_proba(x), rtol=1e-9)
    assert plain.n_iter_ == 30
    assert len(plain.loss_curve_) == 30


def test_learning_in_parts() -> None:
    x, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(150)
    x, y = x[order], y[order]
    model = MLPClassifier((16,), learning_rate_init=0.02, batch_size=50, random_state=0)
    for _ in range(20):
        for k in range(3):
            part = slice(50 * k, 50 * (k + 1))
            model.partial_fit(x[part], y[part], classes=[0, 1, 2])
    assert model.score(x, y) > 0.93
    assert model.n_iter_ == 60
    # a copy, by pickle too, goes on as the original does, and apart from it
    others = [copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
    before = model.predict_proba(x)
    for other in others:
        np.testing.assert_array_equal(other.predict_proba(x), before)
        other.partial_fit(x[:50], y[:50])
    np.testing.assert_array_equal(model.predict_proba(x), before)
    for a, b in zip(
        others[0].model_.state_dict().values(), others[1].model_.state_dict().values(), strict=True
    ):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(others[0].predict_proba(x), others[1].predict_proba(x))
    with pytest.raises(ValueError, match="is none of the classes"):
        model.partial_fit(x[:2], [0, 7])


def test_single_precision_stays() -> None:
    x, y = load_iris(return_X_y=True)
    model = MLPClassifier((4,), max_iter=2).fit(x.astype(np.float32), y)
    assert model.predict_proba(x.astype(np.float32)).dtype == np.float32
    assert model.model_[1].weight.dtype == np.float32


def test_settings_that_do_not_fit() -> None:
    x, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="activation must be one of"):
        MLPClassifier(activation="swish").fit(x, y)
    with pytest.raises(ValueError, match="max_iter must be"):
        MLPRegressor(max_iter=0).fit(x, y)
