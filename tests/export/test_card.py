import json

import pandas as pd
import pytest

from conftest import tiny_config
from pricekit import ensemble
from pricekit.datasets import make_catalog
from pricekit.export.export import export_run
from pricekit.runs.split import Source
from pricekit.runs.train import train


def test_names_from_the_table_cannot_change_the_card(tmp_path):
    odd = "text`\n# Click <here>\x1b[2J`"
    frame = make_catalog(200).rename(columns={"catalog_content": odd})
    config = tiny_config({"columns": {"text": [odd], "price": "price"}, "training": {"epochs": 1}})
    train(Source(pd.DataFrame(frame)), config, tmp_path / "run")
    export_run(tmp_path / "run", tmp_path / "bundle")
    card = (tmp_path / "bundle" / "README.md").read_text()
    assert r"text from `text' # Click <here>\x1b[2J'`; price from `price`" in card


@pytest.fixture(scope="module")
def with_neighbours(catalog, tmp_path_factory):
    """A run whose bundle contains training rows."""
    out = tmp_path_factory.mktemp("neighbours") / "run"
    config = tiny_config({"features": ["optimized22", "neighbours"], "training": {"epochs": 1}})
    train(Source(catalog), config, out)
    return out


def test_a_bundle_says_which_features_contain_training_rows(with_neighbours, tmp_path, pricekit):
    export_run(with_neighbours, tmp_path / "bundle")
    manifest = json.loads((tmp_path / "bundle" / "manifest.json").read_text())
    assert manifest["training_rows_in"] == ["neighbours"]
    card = (tmp_path / "bundle" / "README.md").read_text()
    assert "## Training rows inside" in card
    assert "for the features `neighbours`" in card
    code, out, _ = pricekit("bundle", "inspect", tmp_path / "bundle")
    assert code == 0
    assert "data of training rows" in " ".join(out.split())
    assert "opened" in out


def test_an_ensemble_says_which_features_contain_training_rows(with_neighbours, run, tmp_path):
    ensemble([with_neighbours, run], out=tmp_path / "both")
    export_run(tmp_path / "both", tmp_path / "bundle")
    manifest = json.loads((tmp_path / "bundle" / "manifest.json").read_text())
    assert manifest["training_rows_in"] == ["neighbours"]
    assert "## Training rows inside" in (tmp_path / "bundle" / "README.md").read_text()


def test_a_bundle_without_training_rows_says_nothing(bundle, pricekit):
    assert "training_rows_in" not in json.loads((bundle / "manifest.json").read_text())
    assert "Training rows inside" not in (bundle / "README.md").read_text()
    assert "data of training rows" not in pricekit("bundle", "inspect", bundle)[1]
