"""PriceRegressor and PriceFeatures: scikit-learn's own checks, and their use with its tools."""

import pickle
import subprocess
import sys
from copy import deepcopy

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

import pricekit as pk
from pricekit.errors import ConfigError

SMALL = {"backbone.vocab_size": 300, "backbone.buckets": 64, "backbone.width": 4, "backbone.members": 2}
SMALL |= {"training.refit": False, "features": ["fast15"]}
TREES = {"features": ["fast15", "trees"], "feature_options.trees.rounds": 8}

FAILS = {
    "check_sample_weight_equivalence_on_dense_data": "a row of weight 2 is one row in a batch, and two rows are two"
}
"""Checks of scikit-learn that cannot pass, each with the reason."""


FEATURES_FAIL = FAILS | {
    "check_transformer_general": "training rows get columns from models that have not seen them, new rows from all",
    "check_transformer_data_not_an_array": "likewise",
    "check_methods_subset_invariance": "a vector alone differs from that in a batch by rounding in float32, 2e-7",
}
"""The same for `PriceFeatures`."""


def small_features(folds=2, vectors=3, **parameters) -> pk.PriceFeatures:
    settings = SMALL | parameters.pop("settings", {})
    options = {"epochs": 1, "max_length": 64, **parameters}
    return pk.PriceFeatures(folds=folds, vectors=vectors, settings=settings, **options)


def small(**parameters) -> pk.PriceRegressor:
    return pk.PriceRegressor(epochs=1, max_length=64, settings=SMALL, **parameters)


@pytest.fixture(scope="module")
def catalog() -> pd.DataFrame:
    return pk.make_catalog(150, seed=6)


@pytest.fixture(scope="module")
def fitted(catalog) -> pk.PriceRegressor:
    model = small().set_params(settings=SMALL | TREES)
    return model.fit(catalog[["catalog_content"]], catalog["price"])


@pytest.mark.slow  # some eighty fits
@parametrize_with_checks([small()], expected_failed_checks=lambda estimator: FAILS)
def test_scikit_learn_estimator_checks(estimator, check):
    check(estimator)


@pytest.mark.slow  # some eighty cross-validations
@parametrize_with_checks([small_features()], expected_failed_checks=lambda estimator: FEATURES_FAIL)
def test_scikit_learn_checks_of_the_transformer(estimator, check):
    check(estimator)


def test_it_predicts_prices_and_how_sure_they_are(fitted, catalog, raises):
    rows = catalog[["catalog_content"]]
    prices = fitted.predict(rows)
    assert prices.shape == (150,)
    assert (prices > 0).all()
    low, high = fitted.predict_interval(rows, level=0.8).T
    assert (low < prices).all()
    assert (prices < high).all()
    quantiles = fitted.predict_quantiles(rows, [0.1, 0.5, 0.9])
    assert quantiles[:, [0, 2]].tolist() == np.column_stack([low, high]).tolist()
    assert (np.diff(quantiles) >= 0).all()
    released = fitted.predict_release(rows, within=20, confidence=0.5)
    assert (released.dtype, released.all()) == (bool, True)
    assert not fitted.predict_release(rows, within=1.0001, confidence=0.5).any()
    with raises(ConfigError, "confidence"):
        fitted.predict_release(rows, within=2, confidence=0.9999)
    assert fitted.score(rows, catalog["price"]) <= 1
    assert fitted.metrics_["smape"] > 0


def test_weights_move_prices_towards_rows_that_count(catalog, raises):
    rows = pd.DataFrame({"sample_weight": ["tea"] * 100, "price": [f"box {n % 5}" for n in range(100)]})
    dear = np.arange(100) % 2 == 1
    y = np.where(dear, 40.0, 10.0) + np.arange(100) / 1000
    found = [
        small(metric="mae").set_params(epochs=4).fit(rows, y, sample_weight=weight).predict(rows[:1])[0]
        for weight in (np.where(dear, 1.0, 9.0), np.where(dear, 9.0, 1.0))
    ]
    assert found[0] < found[1]
    with raises(ValueError):
        small().fit(rows, y, sample_weight=-np.ones(100))
    with raises(ValueError):
        small().fit(rows, y, sample_weight=[1.0])


@pytest.mark.parametrize("copied", [deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_a_copy_predicts_the_same_without_any_folder(fitted, catalog, copied):
    rows = catalog[["catalog_content"]]
    expected = fitted.predict(rows)
    assert np.array_equal(copied(fitted).predict(rows), expected)


def test_a_pickled_estimator_predicts_without_torch(fitted, catalog, tmp_path):
    rows = catalog[["catalog_content"]][:5]
    (tmp_path / "model.pkl").write_bytes(pickle.dumps((fitted, rows)))
    code = (
        "import pickle, sys\n"
        "class Absent:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name.partition('.')[0] == 'torch': raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Absent())\n"
        "model, rows = pickle.load(open(sys.argv[1], 'rb'))\n"
        "print(*model.predict(rows))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "model.pkl")], capture_output=True, text=True, check=True
    )
    assert [float(price) for price in done.stdout.split()] == pytest.approx(fitted.predict(rows))


def test_a_changed_bundle_is_refused(fitted, catalog, raises):
    broken = deepcopy(fitted)
    broken.bundle_ = {**broken.bundle_, "model.onnx": broken.bundle_["model.onnx"] + b"\0"}
    with raises(pk.PricekitError):
        broken.predict(catalog[["catalog_content"]])


def test_texts_are_rows_too(catalog):
    texts = catalog["catalog_content"].tolist()
    model = small().fit(texts, catalog["price"])
    assert np.array_equal(model.predict(texts[:5]), model.predict(np.array(texts[:5])))


def test_a_column_called_price_is_an_ordinary_column(catalog):
    rows = catalog[["catalog_content"]].assign(price=1)
    assert small().fit(rows, catalog["price"]).predict(rows).shape == (150,)


@pytest.mark.slow
def test_scikit_learn_tools_accept_the_estimator(catalog):
    rows, price = catalog[["catalog_content"]], catalog["price"]
    pipeline = make_pipeline(FunctionTransformer(lambda frame: frame), small())
    search = GridSearchCV(pipeline, {"priceregressor__loss": ["smape", "focal-smape"]}, cv=2).fit(rows, price)
    assert search.best_params_["priceregressor__loss"] in ("smape", "focal-smape")
    assert len(cross_val_score(small(), rows, price, cv=2)) == 2
    scaled = TransformedTargetRegressor(small(), func=lambda p: p / 10, inverse_func=lambda p: p * 10)
    assert scaled.fit(rows, price).predict(rows).shape == (150,)


def test_the_estimator_works_in_a_pipeline(catalog):
    rows, price = catalog[["catalog_content"]], catalog["price"]
    pipeline = make_pipeline(FunctionTransformer(lambda frame: frame), small()).fit(rows, price)
    assert pipeline.predict(rows[:3]).shape == (3,)


def test_invalid_training_data_is_a_value_error(catalog):
    rows, price = catalog[["catalog_content"]], catalog["price"]
    for wrong_rows, wrong_price in (
        (rows, None),
        (rows, price[:5]),
        (rows[:0], price[:0]),
        (np.ones(5), price[:5]),
    ):
        with pytest.raises(ValueError):  # noqa: PT011 (scikit-learn's messages)
            small().fit(wrong_rows, wrong_price)


def test_a_clone_has_the_parameters_and_is_not_fitted(fitted):
    copy = clone(fitted)
    assert copy.get_params() == fitted.get_params()
    assert not hasattr(copy, "bundle_")


def test_another_engine_is_opened_when_it_is_set(fitted, catalog, raises):
    copy = deepcopy(fitted)
    copy.predict(catalog[["catalog_content"]][:2])
    with raises(
        pk.PricekitError,
        "engine",
        kind="engine",
        name="nonsense",
        candidates=["ort-cpu", "ort-cuda", "ort-tensorrt", "ort-tensorrt-rtx"],
    ):
        copy.set_params(engine="nonsense").predict(catalog[["catalog_content"]][:2])


@pytest.mark.slow
def test_a_series_with_a_missing_text_is_texts(catalog):
    texts = catalog["catalog_content"].where(catalog.index != 7)
    model = small().fit(texts, catalog["price"])
    assert model.predict(texts).shape == (150,)


def test_a_frame_without_columns_is_refused(catalog, raises):
    with raises(ValueError):
        small().fit(catalog[[]], catalog["price"])


def test_without_scikit_learn_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.base", None)
    monkeypatch.delitem(sys.modules, "pricekit.estimator")
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'pricekit\[sklearn\]'"):
        _ = pk.PriceRegressor


@pytest.fixture(scope="module")
def noise() -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Pairs of near-duplicates with one random price, which no text explains."""
    half = pk.make_catalog(300, seed=8)["catalog_content"]
    rows = pd.DataFrame({"catalog_content": [*half, *(half + " New")]})
    log_price = np.tile(np.random.default_rng(0).normal(2, 1, len(half)), 2)
    features = small_features(epochs=8, settings={"backbone.width": 8})
    return features, rows, log_price


@pytest.fixture(scope="module")
def of_noise(noise) -> tuple[np.ndarray, np.ndarray]:
    """The columns of the training rows: as a pipeline gets them, and as of models most of which have seen them."""
    features, rows, log_price = noise
    unseen = features.fit_transform(rows, np.exp(log_price))
    return unseen, features.transform(rows)


def explained(columns: np.ndarray, log_price: np.ndarray) -> float:
    """Return the share of the variance of the log price that a linear model of the columns explains in its own rows."""
    inputs = np.column_stack([columns, np.ones(len(columns))])
    residual = log_price - inputs @ np.linalg.lstsq(inputs, log_price, rcond=None)[0]
    return 1 - residual.var() / log_price.var()


def test_the_columns_of_training_rows_know_nothing_of_their_prices(noise, of_noise):
    _, rows, log_price = noise
    unseen, seen = of_noise
    by_chance = unseen.shape[1] / (len(rows) / 2)  # pairs count once
    assert explained(unseen, log_price) < 3 * by_chance
    assert explained(seen, log_price) > 10 * by_chance  # so the test would see a leak
    assert abs(np.corrcoef(unseen[:, 0], log_price)[0, 1]) < 0.2 < np.corrcoef(seen[:, 0], log_price)[0, 1]


@pytest.fixture(scope="module")
def transformer(catalog) -> tuple[pk.PriceFeatures, np.ndarray]:
    features = small_features()
    price = catalog["price"].where(catalog.index != 3, 0)  # a row that cannot be trained on
    return features, features.fit_transform(catalog[["catalog_content"]], price)


def test_new_rows_get_the_mean_of_the_models(transformer, catalog):
    features, unseen = transformer
    rows = catalog[["catalog_content"]]
    seen = features.transform(rows)
    assert unseen.shape == seen.shape == (150, 4)
    assert features.get_feature_names_out().tolist() == ["log_price", "vector_0", "vector_1", "vector_2"]
    assert features.metrics_["smape"] > 0
    correlations = [np.corrcoef(unseen[:, place], seen[:, place])[0, 1] for place in range(2)]
    assert min(correlations) > 0.5  # the vectors of the models have one meaning
    assert not np.isclose(unseen[[2, 4]], seen[[2, 4]]).any()
    assert unseen[3] == pytest.approx(seen[3], rel=1e-4, abs=1e-5)
    assert features.transform(rows[7:8]) == pytest.approx(seen[7:8], rel=1e-4, abs=1e-5)


def test_the_vectors_of_training_rows_have_their_mean_at_zero_and_are_sorted_by_variance(transformer):
    _, unseen = transformer
    assert np.delete(unseen, 3, 0)[:, 1:].mean(0) == pytest.approx([0, 0, 0], abs=1e-5)
    assert (np.diff(unseen[:, 1:].var(0)) <= 1e-9).all()


@pytest.mark.parametrize("copied", [deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_a_copy_transforms_the_same_without_any_folder(transformer, catalog, copied):
    rows = catalog[["catalog_content"]]
    assert np.array_equal(copied(transformer[0]).transform(rows), transformer[0].transform(rows))


@pytest.mark.slow
def test_a_pipeline_and_a_frame_get_the_columns(catalog):
    rows, price = catalog[["catalog_content"]].set_index(catalog.index + 9), catalog["price"]
    columns = small_features(vectors=0).set_output(transform="pandas")
    pipeline = make_pipeline(columns, LinearRegression()).fit(rows, np.asarray(price))
    assert pipeline.predict(rows[:3]).shape == (3,)
    frame = pipeline[0].transform(rows)
    assert (frame.columns.tolist(), frame.index.tolist()) == (["log_price"], rows.index.tolist())


def test_settings_with_which_a_row_would_be_seen_are_refused(catalog, raises):
    rows, price = catalog[["catalog_content"]].assign(year=range(150)), catalog["price"]
    with raises(ConfigError, "settings"):
        small_features(settings={"columns.time": "year"}).fit(rows, price)
    with raises(ConfigError, "vectors"):
        small_features(vectors=-1).fit(rows, price)
    with raises(ConfigError, "vectors", "backbone"):
        pk.PriceFeatures(backbone="mlp").fit(rows, price)
    with raises(ConfigError, "folds"):
        small_features(folds=1).fit(rows, price)
