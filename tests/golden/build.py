"""Rebuild the golden bundle: a tiny model of schema version 1, and its expected prices.

python tests/golden/build.py

The folder v0.1 is not rebuilt: version 0.1 wrote it, from the same table (`make_catalog(200, seed=1)`), and
v0.1/prices.json holds the prices that version 0.1 then gave for `TEXTS`.

    pricekit train golden.csv --out run-0     with the settings `TINY`
    pricekit train golden.csv --out run-1     with features fast15 and numbers, loss focal-smape, 8 epochs
    pricekit ensemble run-0 run-1 --out ensemble
    pricekit export run-0 --out bundle-fp16 --precision fp16
    pricekit export run-0 --out bundle-int8 --precision int8
    pricekit export ensemble --out bundle-ensemble

`ensemble/members/0` and `ensemble/members/1` are copies of the two runs. ensemble.json holds their names
instead of their paths.
"""

import json
import tempfile
from pathlib import Path

from pricekit.config.resolve import configure
from pricekit.datasets import make_catalog
from pricekit.exporting.export import export_run
from pricekit.prediction.predictor import Predictor
from pricekit.runs.source import Source
from pricekit.runs.train import train

HERE = Path(__file__).parent
TINY = {
    "backbone": {"name": "bag", "vocab_size": 300, "buckets": 64, "width": 2, "members": 2},
    "features": ["ultra25"],
    "head": {"widths": [4], "dropout": [0.0]},
    "training": {"epochs": 2},
    "max_length": 64,
}
TEXTS = [
    "Item Name: Tunderby Green Tea, 20 Count (Pack of 3)\nValue: 60.0\nUnit: Count\n",
    "Item Name: Quillmoor Olive Oil 16.9 Fl Oz\nProduct Description: Cold pressed.\nValue: 16.9\nUnit: Fl Oz\n",
    "",
    "plain words without a label",
]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        table, run = Path(folder) / "golden.csv", Path(folder) / "run"
        make_catalog(200, seed=1).to_csv(table, index=False)
        train(Source(table), configure([TINY]), run)
        export_run(run, HERE / "bundle", overwrite=True)
    prices = Predictor.load(HERE / "bundle").predict(TEXTS).tolist()
    (HERE / "prices.json").write_text(json.dumps({"texts": TEXTS, "prices": prices}, indent=1) + "\n")


if __name__ == "__main__":
    main()
