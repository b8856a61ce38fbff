"""Files of all formats are priced into a folder, compressed as they are, or as CSV if their format is only read."""

import pandas as pd
from pyarrow import feather

import pricekit as pk
from tests.table.test_workbook import xlsx, xml


def test_each_file_gets_a_file_that_can_be_written(bundle, catalog, tmp_path):
    frame = pd.read_csv(catalog, dtype=str).head(8)
    source = tmp_path / "new"
    source.mkdir()
    for name in ("a.csv.gz", "b.tsv.zst", "c.jsonl.xz", "d.csv.zip"):
        path = source / name
        if "jsonl" in name:
            frame.to_json(path, orient="records", lines=True)
        elif "zst" in name:
            import pyarrow as pa

            with pa.CompressedOutputStream(path, "zstd") as file:
                file.write(frame.to_csv(index=False, sep="\t").encode())
        else:
            frame.to_csv(path, index=False)
    feather.write_feather(frame, source / "e.feather")
    xlsx(source / "f.xlsx", xml([[*frame], *frame.to_numpy().tolist()]))
    frame.to_csv(tmp_path / "same.csv", index=False)
    model, out = pk.load(bundle, engine="ort-cpu"), tmp_path / "prices"
    assert model.predict_file(source / "*", out) == 6 * 8
    names = ["a.csv.gz", "b.tsv.zst", "c.jsonl.xz", "d.csv.zip", "e.feather.csv", "f.xlsx.csv"]
    assert sorted(path.name for path in out.iterdir() if path.is_file()) == names
    model.predict_file(tmp_path / "same.csv", tmp_path / "expected.csv")
    expected = pd.read_csv(tmp_path / "expected.csv")["price"].tolist()
    for name in names:
        assert pk.read_table(out / name, text="price", id="sample_id").price.tolist() == expected
