"""The model card of a bundle."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pricekit.runs.ensemble import Ensemble
from pricekit.runs.folder import Run

_CARD = """# {backbone} price model

Predicts the price of a product from its catalogue text. Made with pricekit {version}.

## How good it is

On {valid:,} validation rows that it was not trained on (they chose the best epoch, so expect
new rows to score a little worse):

{metrics}
## What it was made from

- {train:,} rows of `{table}`; text from {text}; price from `{price}`
- backbone `{backbone}`, features {features}, loss `{loss}`, policy `{policy}`
- best epoch {best_epoch}, seed {seed}

{precision}
{use}
The graph `model.onnx` takes `input_ids` and `attention_mask`, int64 (batch, length), and `features`,
float32 (batch, {columns}); it gives `price`, float32 (batch,), in the currency of the training table.

{limits}"""

_ENSEMBLE = """# Ensemble price model

Predicts the price of a product from its catalogue text: the weighted mean of what {models}, in logs.
Made with pricekit {version}.

## How good it is

On {valid:,} rows that its members were not trained on. The prediction of each row used weights that were fitted
without it:

{metrics}
## What it was made from

Rows of `{table}`; text from {text}; price from `{price}`.

| member | weight | SMAPE on its own held-out rows |
|---|---|---|
{members}

{precision}
{use}
{limits}"""

_METRICS = """| metric | value |
|---|---|
| SMAPE, percent, 0 to 200 | {smape:.2f} |
| SMAPE of the best constant price | {constant:.2f} |
| median absolute percentage error | {mdape:.1f} |
| mean absolute error, in the table's currency | {mae:.2f} |
"""

_PRECISION = {
    "fp32": "The graph computes in float32.",
    "fp16": "The graph has weights of float16, for GPUs; prices differ a little from those of float32.",
    "int8": "The graph multiplies in 8 bits: prices differ from those of float32, and a row's depends a little on the "
    "rows that are priced with it.",
}

_USE = """## How to use it

```
pip install "pricekit[cpu]"
pricekit predict THIS_FOLDER products.csv --out prices.csv
```
"""

_LIMITS = """## What it cannot do

It knows the texts and the price level of its training rows. Prices of other kinds of products, other
currencies or other times are extrapolation. Compare it with known prices before relying on it:
`pricekit evaluate THIS_FOLDER table.csv`.
"""


def ensemble_card(ensemble: Ensemble, facts: Mapping[str, Any]) -> str:
    """Return the card of an ensemble as Markdown."""
    columns = ensemble.members[0][0].config.columns
    members = [
        f"| `{run.config.backbone.name}`, seed {run.config.seed} | {weight:.3f} | {run.facts['metrics']['smape']:.2f} |"
        for run, weight in ensemble.members
    ]
    return _ENSEMBLE.format(
        models="1 model predicts" if len(members) == 1 else f"{len(members)} models predict",
        version=facts["pricekit_version"],
        valid=facts["rows"]["valid"],
        metrics=_metrics(facts),
        table=facts["table"],
        text=", ".join(f"`{name}`" for name in columns.text),
        price=columns.price,
        members="\n".join(members),
        precision=_PRECISION[facts["precision"]] + "\n",
        use=_USE,
        limits=_LIMITS,
    )


def model_card(run: Run, facts: Mapping[str, Any]) -> str:
    """Return the card as Markdown."""
    config = run.config
    return _CARD.format(
        backbone=config.backbone.name,
        version=facts["pricekit_version"],
        valid=facts["rows"]["valid"],
        train=facts["rows"]["train"],
        metrics=_metrics(facts),
        table=facts["table"],
        text=", ".join(f"`{name}`" for name in config.columns.text),
        price=config.columns.price,
        features=", ".join(f"`{name}`" for name in config.features) or "none",
        loss=config.loss.name,
        policy=config.policy.name,
        best_epoch=facts["best_epoch"],
        seed=config.seed,
        columns=len(run.preprocessor.features.names),
        precision=_PRECISION[facts["precision"]] + "\n",
        use=_USE,
        limits=_LIMITS,
    )


def _metrics(facts: Mapping[str, Any]) -> str:
    metrics, constant = facts["metrics"], facts["constant_smape"]
    return _METRICS.format(
        smape=metrics["smape"], mdape=metrics["mdape"], mae=metrics["mae"], constant=constant
    )
