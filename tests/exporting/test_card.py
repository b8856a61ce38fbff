import pandas as pd

from conftest import tiny_config
from pricekit.datasets import make_catalog
from pricekit.exporting.export import export_run
from pricekit.runs.source import Source
from pricekit.runs.train import train


def test_names_from_the_table_cannot_change_the_card(tmp_path):
    odd = "text`\n# Click <here>\x1b[2J`"
    frame = make_catalog(200).rename(columns={"catalog_content": odd})
    config = tiny_config({"columns": {"text": [odd], "price": "price"}, "training": {"epochs": 1}})
    train(Source(pd.DataFrame(frame)), config, tmp_path / "run")
    export_run(tmp_path / "run", tmp_path / "bundle")
    card = (tmp_path / "bundle" / "README.md").read_text()
    assert r"text from `text' # Click <here>\x1b[2J'`; price from `price`" in card
