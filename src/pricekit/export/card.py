"""The model card of a bundle."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pricekit.training.run import Run

_CARD = """# {backbone} price model

Predicts the price of a product from its catalogue text. Made with pricekit {version}.

## How good it is

On {valid:,} validation rows that it was not trained on (they chose the best epoch, so expect
new rows to score a little worse):

| metric | value |
|---|---|
| SMAPE, percent, 0 to 200 | {smape:.2f} |
| SMAPE of the best constant price | {constant:.2f} |
| median absolute percentage error | {mdape:.1f} |
| mean absolute error, in the table's currency | {mae:.2f} |

## What it was made from

- {train:,} rows of `{table}`; text from {text}; price from `{price}`
- backbone `{backbone}`, features {features}, loss `{loss}`, policy `{policy}`
- best epoch {best_epoch}, seed {seed}

## How to use it

```
pip install "pricekit[cpu]"
pricekit predict THIS_FOLDER products.csv --out prices.csv
```

The graph `model.onnx` takes `input_ids` and `attention_mask`, int64 (batch, length), and `features`,
float32 (batch, {columns}); it gives `price`, float32 (batch,), in the currency of the training table.

## What it cannot do

It knows the texts and the price level of its training rows. Prices of other kinds of products, other
currencies or other times are extrapolation. Compare it with known prices before relying on it:
`pricekit evaluate THIS_FOLDER table.csv`.
"""


def model_card(run: Run, facts: Mapping[str, Any]) -> str:
    """Return the card as Markdown."""
    config, metrics = run.config, facts["metrics"]
    return _CARD.format(
        backbone=config.backbone.name,
        version=facts["pricekit_version"],
        valid=facts["rows"]["valid"],
        train=facts["rows"]["train"],
        smape=metrics["smape"],
        mdape=metrics["mdape"],
        mae=metrics["mae"],
        constant=facts["constant_smape"],
        table=facts["table"],
        text=", ".join(f"`{name}`" for name in config.columns.text),
        price=config.columns.price,
        features=", ".join(f"`{name}`" for name in config.features) or "none",
        loss=config.loss.name,
        policy=config.policy.name,
        best_epoch=facts["best_epoch"],
        seed=config.seed,
        columns=len(run.preprocessor.features.names),
    )
