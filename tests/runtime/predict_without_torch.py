"""Price a table from a bundle. Runs in an environment with only the wheel and its extra `cpu`."""

import csv
import importlib.util
import itertools
import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path

GOLDEN = Path(__file__).resolve().parents[1] / "golden"


def main() -> None:
    for name in ("torch", "transformers", "sklearn", "onnx", "safetensors"):
        if importlib.util.find_spec(name):
            sys.exit(f"{name} is installed; this must run without it")
    known = json.loads((GOLDEN / "prices.json").read_text("utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        table, out = Path(folder) / "table.csv", Path(folder) / "prices.csv"
        with table.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([["sample_id", "catalog_content"], *enumerate(known["texts"])])
        pricekit = Path(sys.executable).with_name("pricekit")
        subprocess.run([pricekit, "predict", GOLDEN / "bundle", table, "--out", out], check=True)
        subprocess.run([pricekit, "explain", GOLDEN / "bundle", table, "--limit", "2"], check=True)
        priced = Path(folder) / "priced.csv"
        with priced.open("w", newline="", encoding="utf-8") as file:
            rows = zip(itertools.count(), known["texts"], known["prices"], strict=False)
            csv.writer(file).writerows([["sample_id", "catalog_content", "price"], *rows])
        words = ["comparables", GOLDEN / "bundle", table, "--among", priced, "--limit", "2"]
        subprocess.run([pricekit, *words], check=True)
        subprocess.run([pricekit, "drift", GOLDEN / "bundle", priced], check=True)
        with out.open(newline="") as file:
            rows = list(csv.DictReader(file))
        products = Path(folder) / "products.csv"
        with products.open("w", newline="", encoding="utf-8") as file:
            teas = [[f"Tea of {name}", 20 + 7 * n % 11] for n, name in enumerate("abcdefghijklmnopqrst")]
            csv.writer(file).writerows([["catalog_content", "price"], *teas])
        refused = subprocess.run(
            [pricekit, "train", products, "--out", Path(folder) / "run"], capture_output=True, text=True
        )
    for number, (row, price) in enumerate(zip(rows, known["prices"], strict=True)):
        assert row["sample_id"] == str(number), row
        assert math.isclose(float(row["price"]), price, rel_tol=1e-4), (row, price)
    assert refused.returncode == 1, refused
    assert "pip install 'pricekit[train]'" in refused.stderr, refused.stderr
    assert "Traceback" not in refused.stderr
    print(f"{len(rows)} rows priced without torch, as expected; training asks for its extra")


if __name__ == "__main__":
    main()
