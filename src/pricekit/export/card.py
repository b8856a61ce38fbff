"""The model card of a bundle: its README.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pricekit.evaluation.scores import goal_of
from pricekit.runs.opened import Ensemble, LoadedRun
from pricekit.wording import counted, printable, shorten

CARD = "README.md"

_CARD = """# {backbone} price model

Predicts the price of a product from its catalogue text. Made with pricekit {version}.

## Quality

{held_out}

{metrics}
## Training

- {rows} of {table}; text from {text}; price from {price}{per}
- backbone `{backbone}`, features {features}, loss `{loss}`, policy `{policy}`
- best epoch {best_epoch}, seed {seed}

{precision}
{training_rows}{use}
The graph `model.onnx` takes `input_ids` and `attention_mask`, int64 (batch, length), and `features`,
float32 (batch, {columns}). It returns `price`, float32 (batch,), in the currency of the training table.

{limits}"""

_ENSEMBLE = """# Ensemble price model

Predicts the price of a product from its catalogue text: {models}.
Made with pricekit {version}.

## Quality

On {valid:,} rows that its members were not trained on. Each row was predicted with weights that were fitted
without that row{second}:

{metrics}
## Training

Rows of {table}; text from {text}; price from {price}{per}.

| member | weight | score on its own held-out rows |
|---|---|---|
{members}

{precision}
{training_rows}{use}
{limits}"""

_METRICS = """| metric | value |
|---|---|
| {title}{unit} | {score} |
| {title} of the best constant price | {constant} |
| median absolute percentage error | {mdape:.1f} |
| mean absolute error, in the table's currency | {mae:.2f} |
"""

_UNITS = {"%": ", percent", "price": ", in the table's currency", "": ""}

_HELD_OUT = """On {valid:,} validation rows that it was not trained on (they selected the best epoch, so expect
new rows to score a little worse):"""
_REFIT = """The first of two passes scored, on {valid:,} validation rows that it was not trained on (they selected the
best epoch), as below. The second pass then trained this model on all rows, for as many epochs. Its own score is not
measured; in benchmarks it was usually a little better:"""

_PRECISION = {
    "fp32": "The graph computes in float32.",
    "fp16": "The graph has float16 weights, for GPUs. Prices differ slightly from those of float32.",
    "int8": "The graph has 8-bit weights. Prices differ slightly from those of float32.",
}

_TRAINING_ROWS = """## Training rows inside

This bundle contains data of its training rows, such as their words and prices, for the features {features}.
Give it only to people who may see the training table.

"""

_TRANSFORMERS = """# {architecture} price model

Predicts the price of a product from its catalogue text. pricekit {version} exported it from weights of transformers.

## Quality

Unknown: pricekit has neither trained nor scored this model, so it has no price intervals and no sketch of its training
table. Score it on rows that it was not trained on: `pricekit evaluate THIS_FOLDER table.csv`.

## Training

- transformers' `{architecture}`; text from {text}, at most {max_length:,} tokens of it
- its output is {output}

{precision}
{usage}
The graph `model.onnx` takes `input_ids` and `attention_mask`, int64 (batch, length), and `features`,
float32 (batch, 0). It returns `price`, float32 (batch,).

{limits}"""

_SKETCH = """## Sketch of the training table

`sketch.json` contains shares of the training table, so that `pricekit drift THIS_FOLDER products.csv` can say whether
another table differs: quantiles of features and predicted prices, shares of missing fields, and how many rows have the
most frequent words and values, such as brands. It contains no row, and no word or value of fewer than five rows.

"""

_USAGE = """## Usage

```
pip install "pricekit[cpu]"     # or, in the folder of pricekit's sources: pip install ".[cpu]"
pricekit bundle inspect THIS_FOLDER --self-test
pricekit predict THIS_FOLDER products.csv --out prices.csv
```
"""

_LIMITS = """## Limits

The model has learned the texts and the price level of its training rows. Prices for other kinds of products, other
currencies or other times are extrapolations. Compare its prices with known ones before you rely on it:
`pricekit evaluate THIS_FOLDER table.csv`.
"""


_COMPARABLES = """
## Products inside

This bundle contains ids, texts and prices of {rows}, to show the most similar ones beside a price:
`pricekit comparables THIS_FOLDER products.csv`. Give it only to people who may see these products' prices.
"""


def ensemble_card(ensemble: Ensemble, facts: Mapping[str, Any]) -> str:
    """Return the card of an ensemble as Markdown."""
    columns = ensemble.members[0][0].config.columns
    refit = any("refit" in run.facts for run, _ in ensemble.members)
    members = [
        f"| `{run.config.backbone.name}`, seed {run.config.seed} | {weight:.3f} | {goal_of(run.facts)} |"
        for run, weight in ensemble.members
    ]
    return _ENSEMBLE.format(
        models="the price of its only member"
        if len(members) == 1
        else f"the weighted geometric mean of the prices of {len(members)} models",
        valid=facts["rows"]["valid"],
        second=". The predictions are of the first of two passes; the second one trained on all rows"
        if refit
        else "",
        text=", ".join(map(_code, columns.text)),
        price=_code(columns.price),
        members="\n".join(members),
        **_shared(facts),
    )


def model_card(run: LoadedRun, facts: Mapping[str, Any]) -> str:
    """Return the card as Markdown."""
    config, refit = run.config, facts.get("refit")
    held_out = (_REFIT if refit else _HELD_OUT).format(valid=facts["rows"]["valid"])
    return _CARD.format(
        backbone=config.backbone.name,
        held_out=held_out,
        rows=f"{refit['rows'] if refit else facts['rows']['train']:,} rows",
        text=", ".join(map(_code, config.columns.text)),
        price=_code(config.columns.price),
        features=", ".join(map(_code, config.features)) or "none",
        loss=config.loss.name,
        policy=config.policy.name,
        best_epoch=facts["best_epoch"],
        seed=config.seed,
        columns=len(run.preprocessor.features.names),
        **_shared(facts),
    )


def transformers_card(text: str, max_length: int, output: str, facts: Mapping[str, Any]) -> str:
    """Return the card of a regressor of transformers as Markdown; `output` says what its output is."""
    return _TRANSFORMERS.format(
        architecture=facts["transformers"]["architecture"],
        version=facts["pricekit_version"],
        text=_code(text),
        max_length=max_length,
        output=output,
        precision=_PRECISION[facts["precision"]] + "\n",
        usage=_USAGE,
        limits=_LIMITS,
    )


def comparables_section(rows: int) -> str:
    """Return the section of a bundle that contains products with prices."""
    return _COMPARABLES.format(rows=counted(rows, "product"))


def _code(name: object) -> str:
    """Return a name from a table as code in Markdown, on one line, without marks that end the code."""
    return f"`{shorten(printable(str(name)), 100).replace('`', chr(39))}`"


def _shared(facts: Mapping[str, Any]) -> dict[str, str]:
    """Return the parts of the cards of a run and of an ensemble."""
    goal, metrics = goal_of(facts), facts["metrics"]
    metric = goal.metric
    held = ", ".join(map(_code, facts.get("training_rows_in") or []))
    return {
        "version": facts["pricekit_version"],
        "metrics": _METRICS.format(
            title=metric.title,
            unit=_UNITS[metric.unit],
            score=metric.write(goal.score),
            constant=metric.write(goal.constant),
            mdape=metrics["mdape"],
            mae=metrics["mae"],
        ),
        "table": _code(facts["table"]),
        "per": f", per {facts['price_unit']}" if facts["price_unit"] else "",
        "precision": _PRECISION[facts["precision"]] + "\n",
        "training_rows": _TRAINING_ROWS.format(features=held) if held else "",
        "use": _SKETCH + _USAGE,
        "limits": _LIMITS,
    }
