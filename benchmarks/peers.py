"""The honest peers of `bag`: what a competent notebook would try first, each tuned on its own training rows.

Prices are float64 in the table's currency; every function sees the prices of training rows only.
"""

from collections.abc import Sequence

import numpy as np
from lightgbm import LGBMRegressor
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import Ridge

Prices = NDArray[np.float64]
Features = NDArray[np.float32]

ALPHAS = (0.3, 0.5, 0.7, 1.0, 1.4, 2.0, 3.0)
SVD_DIMENSIONS = 100


def constant(train_price: Prices, n: int) -> Prices:
    """The one price that minimises SMAPE on the training rows, n times: (n,)."""
    grid = np.geomspace(train_price.min(), train_price.max(), 500)
    scores = [_smape(np.full_like(train_price, price), train_price) for price in grid]
    return np.full(n, grid[int(np.argmin(scores))])


def ridge(
    train_texts: Sequence[str], train_price: Prices, test_texts: Sequence[str], seed: int = 0
) -> Prices:
    """TF-IDF of words and word pairs, then ridge regression on log price: (n,).

    The penalty is the one with the best SMAPE on a held-out fifth of the training rows; the model is then
    fitted on all of them.
    """
    train, test = _tfidf(train_texts, test_texts)
    fit, held = _inner_split(len(train_price), seed)
    log_price = np.log(train_price)

    def score(alpha: float) -> float:
        model = Ridge(alpha=alpha).fit(train[fit], log_price[fit])
        return _smape(np.exp(model.predict(train[held])), train_price[held])

    best = min(ALPHAS, key=score)
    return np.exp(Ridge(alpha=best).fit(train, log_price).predict(test))


def svd_lightgbm(
    train_texts: Sequence[str],
    train_features: Features,
    train_price: Prices,
    test_texts: Sequence[str],
    test_features: Features,
    seed: int = 0,
) -> Prices:
    """TF-IDF reduced by a truncated SVD, beside the features (N, K), then boosted trees on log price: (n,).

    The objective, squared or absolute error, is the one with the better SMAPE on a held-out fifth of the
    training rows; the model is then fitted on all of them.
    """
    train_text, test_text = _tfidf(train_texts, test_texts)
    svd = TruncatedSVD(SVD_DIMENSIONS, random_state=seed).fit(train_text)
    train = np.hstack([svd.transform(train_text), train_features])
    test = np.hstack([svd.transform(test_text), test_features])
    fit, held = _inner_split(len(train_price), seed)
    log_price = np.log(train_price)

    def score(objective: str) -> float:
        model = _boosted(objective, seed).fit(train[fit], log_price[fit])
        return _smape(np.exp(np.asarray(model.predict(train[held]))), train_price[held])

    best = min(("l2", "l1"), key=score)
    return np.exp(np.asarray(_boosted(best, seed).fit(train, log_price).predict(test), dtype=np.float64))


def _boosted(objective: str, seed: int) -> LGBMRegressor:
    return LGBMRegressor(
        objective=objective,
        learning_rate=0.03,
        n_estimators=1000,
        num_leaves=31,
        min_child_samples=20,
        subsample=0.8,
        subsample_freq=1,
        colsample_bytree=0.5,
        random_state=seed,
        verbose=-1,
    )


def _tfidf(train_texts: Sequence[str], test_texts: Sequence[str]) -> tuple[csr_matrix, csr_matrix]:
    # The pattern keeps words of one character: "6" of "pack of 6" says more about a price than most words.
    vectorizer = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, min_df=2, token_pattern=r"\b\w+\b")
    return vectorizer.fit_transform(train_texts), vectorizer.transform(test_texts)


def _inner_split(n: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    order = np.random.default_rng(seed).permutation(n)
    return order[n // 5 :], order[: n // 5]


def _smape(predicted: Prices, actual: Prices) -> float:
    return float(200 * np.mean(np.abs(predicted - actual) / (np.abs(predicted) + np.abs(actual))))
