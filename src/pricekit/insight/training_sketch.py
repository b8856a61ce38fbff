"""A sketch from training rows and held-out rows."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from tokenizers import Tokenizer

from pricekit.features import brand_category
from pricekit.features.fit import some_rows
from pricekit.features.preprocess import Inputs, Preprocessor
from pricekit.insight.domain import sketch_vectors, vectors_of
from pricekit.insight.fields import (
    BRAND,
    LEAST_ROWS,
    TEXT,
    brands_of,
    documents_of,
    fields_of,
    frequent_brands,
    sketch_field,
)
from pricekit.insight.shares import difference
from pricekit.insight.sketch import (
    LONGEST_NAME,
    MOST_FEATURES,
    MOST_OTHER_COLUMNS,
    MOST_SCORES,
    MOST_WORDS,
    PriceSketch,
    Sketch,
    distribution_of,
    three_digits,
)
from pricekit.metrics import SMAPE
from pricekit.table import Table
from pricekit.text.labelled_lines import as_strings

MOST_ROWS = 10_000
"""Larger tables are sampled to this number of rows, with a fixed seed."""
SEED = 0
REMEMBERED = 0.05
"""Features whose held-out rows have a higher PSI are no part of a row's vector."""


Own = Mapping[str, tuple[float, float]]
"""PSI and distance of each feature between held-out and training rows, less what chance gives."""


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
    own, then_rows, now_rows = {}, some_rows(len(inputs)), some_rows(len(held_out))
    features, held_out = inputs.features[then_rows], held_out[now_rows]
    for place, name in enumerate(preprocessor.features.names):
        then = distribution_of(features[:, place])
        shift = difference(np.array(then.rows), then.count(held_out[:, place]), ordered=True)
        own[name] = round(shift.psi, 4), round(shift.distance, 4)
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
    chosen = some_rows(len(table), MOST_ROWS)
    rows, features = table.take(chosen), inputs.features[chosen]
    documents = documents_of(rows.text.tolist())
    names = preprocessor.features.names
    distributions = {}
    for name in [name for name in names if len(name) <= LONGEST_NAME][:MOST_FEATURES]:
        psi, distance = own.get(name, (0.0, 0.0))
        distribution = distribution_of(features[:, names.index(name)])
        distributions[name] = distribution.model_copy(update={"own": psi, "own_distance": distance})
    scored = [name for name, each in distributions.items() if each.own < REMEMBERED][:MOST_SCORES]
    places = [names.index(name) for name in scored]
    vectors = vectors_of(documents, features[:, places], [distributions[name] for name in scored])
    order = np.lexsort((np.array(documents.vocabulary, object), -documents.rows))
    kept = order[documents.rows[order] >= LEAST_ROWS][:MOST_WORDS]
    words = {documents.vocabulary[word]: int(documents.rows[word]) for word in kept}
    unknown_words = documents.outside(words)
    tokens = some_rows(len(inputs))
    ids = inputs.tokens.ids if len(tokens) == len(inputs) else inputs.tokens.take(tokens).ids
    unknown_tokens = is_unknown(ids, preprocessor.tokenizer)
    label = brand_category.common_label(as_strings(rows.text))
    others = _others(preprocessor)
    fields = {name: sketch_field(values) for name, values in fields_of(rows, others).items()}
    for name in {TEXT, *preprocessor.features.vectors} & fields.keys():
        fields[name] = fields[name].model_copy(update={"values": {}})
    if brands := frequent_brands(rows.text, label):
        fields[BRAND] = sketch_field(brands_of(rows.text, label, brands))
    return Sketch(
        rows=len(rows),
        label=label,
        features=distributions,
        text_length=distribution_of(rows.text.str.len().to_numpy()),
        words=words,
        rare=int(documents.rows[order[len(kept) :]].max(initial=0)),
        unknown_words=float(unknown_words.mean()) if len(unknown_words) else 0.0,
        unknown_tokens=None if unknown_tokens is None else float(unknown_tokens.mean()),
        others=others,
        fields=fields,
        vector=sketch_vectors(vectors, scored),
        prices=prices,
    )


def _others(preprocessor: Preprocessor) -> list[str]:
    """Return the columns besides the text that features declare."""
    declared, text = preprocessor.features.columns, preprocessor.columns.text
    return [name for name in declared if name not in text and len(name) <= LONGEST_NAME][:MOST_OTHER_COLUMNS]


def is_unknown(ids: np.ndarray, tokenizer: Tokenizer) -> np.ndarray | None:
    """Return which tokens, (N,), a tokenizer does not know, bool (N,); None if it has no token for them."""
    token = getattr(tokenizer.model, "unk_token", None)
    number = None if token is None else tokenizer.token_to_id(token)
    return None if number is None else ids == number
