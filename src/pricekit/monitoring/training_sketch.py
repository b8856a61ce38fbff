"""A sketch from training rows and held-out rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from tokenizers import Tokenizer

from pricekit.errors import PluginError
from pricekit.explanation.attribution import others_read
from pricekit.features import fit
from pricekit.metrics import SMAPE
from pricekit.monitoring.domain import sketch_vectors, vectors_of
from pricekit.monitoring.fields import (
    BRAND,
    LEAST_ROWS,
    TEXT,
    Documents,
    brands_of,
    common_label,
    documents_of,
    fields_of,
    frequent_brands,
    sketch_field,
)
from pricekit.monitoring.shares import difference
from pricekit.monitoring.sketch import (
    LONGEST_NAME,
    MOST_FEATURES,
    MOST_OTHERS,
    MOST_SCORES,
    MOST_WORDS,
    Distribution,
    FieldSketch,
    PriceSketch,
    Sketch,
    distribution_of,
    three_digits,
)
from pricekit.preprocess import Inputs, Preprocessor, without_price
from pricekit.table import Table
from pricekit.tokens import Tokens

MOST_ROWS = 10_000
"""Of more rows, so many are drawn by chance, with a fixed seed."""
SEED = 0
REMEMBERED = 0.05
"""Features whose held-out rows have a higher PSI are no part of a row's vector."""


Own = Mapping[str, tuple[float, float]]
"""PSI and distance of each feature between held-out and training rows, less what chance gives."""


def some_rows(count: int) -> np.ndarray:
    """Return the numbers of all rows, or of those that were drawn by chance, ascending."""
    if count <= MOST_ROWS:
        return np.arange(count)
    return np.sort(np.random.default_rng(SEED).choice(count, MOST_ROWS, replace=False))


def first_sketch(
    table: Table,
    inputs: Inputs,
    preprocessor: Preprocessor,
    *,
    held_out: np.ndarray,
    predicted: np.ndarray,
    price: np.ndarray,
) -> Sketch:
    """Return the sketch of training rows, with what held-out rows say about the model.

    Args:
        table: N training rows.
        inputs: their model inputs; the columns of features that learn from prices are out of fold.
        preprocessor: of the model.
        held_out: the features of the held-out rows, (M, K).
        predicted: prices of the held-out rows, (M,).
        price: their true prices, (M,).
    """
    own, then_rows, now_rows = {}, fit.some_rows(len(inputs)), fit.some_rows(len(held_out))
    features, held_out = inputs.features[then_rows], held_out[now_rows]
    for place, name in enumerate(preprocessor.features.names):
        then = distribution_of(features[:, place])
        found = difference(np.array(then.rows), then.count(held_out[:, place]), ordered=True)
        own[name] = round(found.psi, 4), round(found.distance, 4)
    return _sketch(table, inputs, preprocessor, own, prices_of(predicted, price))


def second_sketch(first: Sketch, table: Table, inputs: Inputs, preprocessor: Preprocessor) -> Sketch:
    """Return the sketch of all rows, after a second training on them; held-out rows are those of the first one.

    Args:
        first: the sketch of the first training.
        table: all rows.
        inputs: their model inputs.
        preprocessor: of the second training.
    """
    own = {name: (each.own, each.own_distance) for name, each in first.features.items()}
    return _sketch(table, inputs, preprocessor, own, first.prices)


def prices_of(predicted: np.ndarray, price: np.ndarray) -> PriceSketch:
    """Return the sketch of predicted prices, (N,), with their SMAPE; `price` are the true prices, (N,)."""
    terms = SMAPE.terms(predicted, price)
    return PriceSketch(
        predicted=distribution_of(three_digits(predicted)),
        smape=round(float(terms.mean()), 4),
        deviation=round(float(terms.std()), 4),
    )


def _sketch(
    table: Table, inputs: Inputs, preprocessor: Preprocessor, own: Own, prices: PriceSketch | None
) -> Sketch:
    chosen = some_rows(len(table))
    rows, features = table.take(chosen), inputs.features[chosen]
    documents = documents_of(rows.text.tolist())
    names = preprocessor.features.names
    kept = [name for name in names if len(name) <= LONGEST_NAME][:MOST_FEATURES]
    distributions = {name: _of_feature(features[:, names.index(name)], own.get(name)) for name in kept}
    scored = [name for name, each in distributions.items() if each.own < REMEMBERED][:MOST_SCORES]
    places = [names.index(name) for name in scored]
    vectors = vectors_of(documents, features[:, places], [distributions[name] for name in scored])
    words, rare = _words(documents)
    label = common_label(rows.text)
    others = _others(rows, preprocessor)
    return Sketch(
        rows=len(rows),
        label=label,
        features=distributions,
        text_length=distribution_of(rows.text.str.len().to_numpy()),
        words=words,
        rare=rare,
        unknown_words=_share(documents.outside(words)),
        unknown_tokens=unknown_tokens(_some_ids(inputs.tokens), preprocessor.tokenizer),
        others=others,
        fields=_fields(rows, label, others),
        vector=sketch_vectors(vectors, scored),
        prices=prices,
    )


def _some_ids(tokens: Tokens) -> np.ndarray:
    """Return the token ids of all rows, or of some of many."""
    rows = fit.some_rows(len(tokens))
    return tokens.ids if len(rows) == len(tokens) else tokens.take(rows).ids


def _of_feature(values: np.ndarray, own: tuple[float, float] | None) -> Distribution:
    psi, distance = own or (0.0, 0.0)
    return distribution_of(values).model_copy(update={"own": psi, "own_distance": distance})


def _others(rows: Table, preprocessor: Preprocessor) -> list[str]:
    """Return the columns besides the text that features may read; [] if no feature reads any."""
    columns = preprocessor.columns
    found: Sequence[str]
    try:
        found = others_read(
            rows, columns, lambda some: preprocessor.features.transform(without_price(some, columns))
        )
    except PluginError:  # a feature cannot do without them
        found = [str(name) for name in rows.frame if name not in (*columns.text, columns.price, columns.id)]
    return [name for name in found if len(name) <= LONGEST_NAME][:MOST_OTHERS]


def _words(documents: Documents) -> tuple[dict[str, int], int]:
    """Return the rows of the most frequent words, and the most rows of any other word."""
    order = np.lexsort((np.array(documents.vocabulary, object), -documents.rows))
    least = documents.rows[order] >= LEAST_ROWS
    kept = order[least][:MOST_WORDS]
    rest = documents.rows[order[len(kept) :]]
    words = {documents.vocabulary[word]: int(documents.rows[word]) for word in kept}
    return words, int(rest.max(initial=0))


def _fields(rows: Table, label: str, others: Sequence[str]) -> dict[str, FieldSketch]:
    fields = {name: sketch_field(values) for name, values in fields_of(rows, others).items()}
    fields[TEXT] = fields[TEXT].model_copy(update={"values": {}})
    if names := frequent_brands(rows.text, label):
        fields[BRAND] = sketch_field(brands_of(rows.text, label, names))
    return fields


def unknown_tokens(ids: np.ndarray, tokenizer: Tokenizer) -> float | None:
    """Return the share of tokens that a tokenizer does not know; None if it has no token for them."""
    unknown = is_unknown(ids, tokenizer)
    return None if unknown is None else _share(unknown)


def is_unknown(ids: np.ndarray, tokenizer: Tokenizer) -> np.ndarray | None:
    """Return which tokens, (N,), a tokenizer does not know, bool (N,); None if it has no token for them."""
    token = getattr(tokenizer.model, "unk_token", None)
    number = None if token is None else tokenizer.token_to_id(token)
    return None if number is None else ids == number


def _share(which: np.ndarray) -> float:
    return float(which.mean()) if len(which) else 0.0
