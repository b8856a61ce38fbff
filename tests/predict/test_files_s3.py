"""From S3 to S3, while one request in twenty fails: the prediction finishes, and no row is lost or doubled.

It takes seconds, because more than a hundred requests go to a server in Python.
"""

import io

import pandas as pd
import pytest

from pricekit.model import opened_model
from pricekit.predict import files
from pricekit.predict.predictor import Predictor
from tests.io.s3_server import s3_server

FILES = 8


@pytest.fixture
def s3(catalog, monkeypatch, tmp_path):
    monkeypatch.setenv("PRICEKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("pricekit.io.storage.PAUSE_SECONDS", 0.01)
    monkeypatch.setattr("pricekit.io.storage.PART_BYTES", 2000)  # many requests for each file
    monkeypatch.setattr(files, "WINDOW", 64)
    with s3_server() as (system, faults):
        table = pd.read_csv(catalog)
        rows = len(table) // FILES
        for number in range(FILES):
            part = table[rows * number : rows * number + rows]
            system.pipe(f"shop/in/{number}.csv", part.to_csv(index=False).encode())
        system.pipe("shop/in/empty.csv", b"sample_id,catalog_content\n")
        yield system, faults


def test_one_request_in_twenty_may_fail(s3, bundle, catalog, tmp_path):
    system, faults = s3
    predictor = Predictor.load(bundle, "ort-cpu")
    opened_model(predictor).predict_file(catalog, tmp_path / "local.csv")
    faults.every(20, "503", "cut", "reset")
    assert opened_model(predictor).predict_file("s3://shop/in/*.csv", "s3://shop/out/prices.csv") == 400
    assert faults.failed >= 5
    faults.every(10**9)
    found = pd.read_csv(io.BytesIO(system.cat("shop/out/prices.csv")))
    local = pd.read_csv(tmp_path / "local.csv")
    assert found["sample_id"].tolist() == local["sample_id"].tolist()
    assert found["price"].tolist() == pytest.approx(local["price"].tolist(), rel=1e-5)
    assert system.find("shop/out") == ["shop/out/prices.csv"]
