"""Rebuild the golden bundle, a tiny model of the current format, and its expected prices.

python tests/golden/build.py

Until version 0.2.0 is released, every change of what a run or a bundle means raises the number in
`pricekit.io.record` and rebuilds this bundle.
"""

import json
import tempfile
from pathlib import Path

from pricekit.config.resolve import configure
from pricekit.datasets import make_catalog
from pricekit.export.export import export_run
from pricekit.predict.predictor import Predictor
from pricekit.runs.split import Source
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
