"""A served model that has intervals and comparables, and one that reads several columns."""

from pathlib import Path

import jsonschema
import pandas as pd
import pytest
from pricekit_serve import Limits, app
from pricekit_serve.openapi import document
from starlette.testclient import TestClient

import pricekit as pk
from conftest import TINY
from pricekit.plugin.runners import Predictor


@pytest.fixture(scope="session")
def served(run, catalog, tmp_path_factory) -> Path:
    """A bundle with intervals and comparables; read only."""
    out = tmp_path_factory.mktemp("served") / "shop"
    pk.load(run).export(out, with_comparables=catalog)
    return out


@pytest.fixture(scope="session")
def wide(tmp_path_factory) -> Path:
    """A bundle that reads the columns title and size; read only."""
    folder = tmp_path_factory.mktemp("wide")
    made = pk.make_catalog(200)
    titles = made["catalog_content"].str.split("\n").str[0].str.removeprefix("Item Name: ")
    sizes = [f"{n % 9 + 1} kg" for n in range(200)]
    table = pd.DataFrame({"title": titles, "size": sizes, "price": made["price"]})
    pk.train(table, text=["title", "size"], config=TINY).export(folder / "wide")
    return folder / "wide"


@pytest.fixture(scope="session")
def predictor(served) -> Predictor:
    return Predictor.load(served, "ort-cpu")


@pytest.fixture(scope="session")
def texts(catalog) -> list[str]:
    return pd.read_csv(catalog)["catalog_content"].tolist()


@pytest.fixture
def client(served):
    with TestClient(app(served, engine="ort-cpu")) as found:
        yield found


@pytest.fixture
def rows(texts):
    return lambda count: [{"catalog_content": text} for text in texts[:count]]


@pytest.fixture(scope="session")
def conforms(served):
    """Check JSON against a schema of the description of the interface."""
    models = app(served, engine="ort-cpu").state.models.all()
    components = document(models, Limits())["components"]

    def check(content, schema):
        jsonschema.validate(content, {"$ref": f"#/components/schemas/{schema}", "components": components})

    return check
