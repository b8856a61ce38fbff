"""Prediction of table files: every row once and in order, resuming, and atomic outputs."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from filelock import SoftFileLease

from pricekit.errors import ConfigError, DataError
from pricekit.model import opened_model
from pricekit.predict import files
from pricekit.predict.predictor import Predictor


@pytest.fixture(scope="module")
def predictor(bundle):
    return Predictor.load(bundle)


@pytest.fixture(scope="module")
def texts(catalog):
    return pd.read_csv(catalog)["catalog_content"].tolist()


@pytest.mark.parametrize("suffix", ["csv", "tsv", "parquet", "jsonl"])
def test_every_row_gets_one_price_in_order(predictor, texts, catalog, tmp_path, monkeypatch, suffix):
    monkeypatch.setattr(files, "WINDOW", 64)  # several windows
    out = tmp_path / f"prices.{suffix}"
    assert opened_model(predictor).predict_file(catalog, out) == 400
    read = {"parquet": pd.read_parquet, "jsonl": lambda p: pd.read_json(p, lines=True)}
    found = read.get(suffix, lambda p: pd.read_csv(p, sep="\t" if suffix == "tsv" else ","))(out)
    assert found["sample_id"].astype(str).tolist() == pd.read_csv(catalog)["sample_id"].astype(str).tolist()
    assert found["price"].to_numpy() == pytest.approx(predictor.predict(texts), rel=1e-5)
    assert [p.name for p in tmp_path.iterdir()] == [out.name]


class Failing:
    """An engine that fails after some rows, and counts those that it priced."""

    def __init__(self, predictor, after=10**9):
        self.price_batch, self.after, self.rows = predictor.members[0].engine.price_batch, after, 0

    def __call__(self, batch):
        self.rows += len(batch["features"])
        if self.rows > self.after:
            raise KeyboardInterrupt
        return self.price_batch(batch)


@pytest.fixture
def suffix():
    return "csv"


@pytest.fixture
def interrupted(predictor, catalog, tmp_path, monkeypatch, suffix, logged):
    """Return the output path of an interrupted prediction with three finished windows."""
    monkeypatch.setattr(files, "WINDOW", 64)
    out = tmp_path / f"prices.{suffix}"
    with pytest.raises(KeyboardInterrupt):
        opened_model(_with(predictor, Failing(predictor, 200))).predict_file(catalog, out)
    assert "predict again with resume to continue" in logged().splitlines()[-1]
    return out


def _with(predictor, price_batch):
    member = predictor.members[0]
    engine = replace(member.engine, price_batch=price_batch, streams=1)
    return replace(predictor, members=(replace(member, engine=engine),))


def test_a_failure_in_the_middle_leaves_no_output(interrupted):
    assert not interrupted.exists()
    assert [path.name for path in interrupted.parent.iterdir()] == [".prices.csv.parts"]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_an_interrupted_prediction_is_resumed(predictor, catalog, interrupted):
    engine = Failing(predictor)
    assert opened_model(_with(predictor, engine)).predict_file(catalog, interrupted, resume=True) == 400
    assert engine.rows == 400 - 192
    assert [path.name for path in interrupted.parent.iterdir()] == [interrupted.name]
    whole = interrupted.with_stem("whole")
    opened_model(predictor).predict_file(catalog, whole)
    assert interrupted.read_bytes() == whole.read_bytes()


@pytest.mark.parametrize(
    "change", ["not asked for", "a different model", "a different table", "a different limit"]
)
def test_windows_of_another_prediction_are_not_used(predictor, catalog, interrupted, change, logged):
    engine, options = Failing(predictor), {"resume": change != "not asked for"}
    other = _with(predictor, engine)
    if change == "a different model":
        other = replace(other, digest="x")
    if change == "a different table":
        catalog = shutil.copy(catalog, interrupted.with_name("copy.csv"))
    if change == "a different limit":
        options["limit"] = 300
    rows = opened_model(other).predict_file(Path(catalog), interrupted, **options)
    assert engine.rows == rows
    reason = {"not asked for": "resume would keep them"}.get(change, f"it used {change}")
    assert f"deleting 3 windows of an interrupted prediction: {reason}." in logged()
    assert not interrupted.with_name(".prices.csv.parts").exists()


def test_an_incomplete_window_is_priced_again(predictor, catalog, interrupted):
    parts = interrupted.with_name(".prices.csv.parts")
    (parts / ".part-000003.parquet.6dc16e64.1f.0123.tmp").write_bytes(b"half")
    with pytest.raises(KeyboardInterrupt):
        opened_model(_with(predictor, Failing(predictor, 200))).predict_file(catalog, interrupted)
    engine = Failing(predictor)
    opened_model(_with(predictor, engine)).predict_file(catalog, interrupted, resume=True)
    assert engine.rows == 400 - 192
    assert not parts.exists()


@pytest.mark.parametrize("damage", ["truncated", "a changed bit", "without a digest"])
def test_a_damaged_window_and_those_after_it_are_priced_again(
    predictor, catalog, interrupted, damage, logged
):
    (part,) = interrupted.with_name(".prices.csv.parts").glob("part-000001-*.parquet")
    content = bytearray(part.read_bytes())
    if damage == "truncated":
        part.write_bytes(content[:-9])
    elif damage == "a changed bit":
        content[len(content) // 3] ^= 1
        part.write_bytes(content)
    else:
        part.rename(part.with_name("part-000001.parquet"))
    engine = Failing(predictor)
    opened_model(_with(predictor, engine)).predict_file(catalog, interrupted, resume=True)
    assert engine.rows == 400 - 64
    assert (damage == "without a digest") != (f"{part} was altered or damaged" in logged())
    alone = interrupted.with_name("alone.csv")
    opened_model(predictor).predict_file(catalog, alone)
    assert interrupted.read_text() == alone.read_text()


@pytest.mark.parametrize("change", ["grown", "gone"])
def test_a_table_that_changes_while_it_is_priced_is_refused(predictor, catalog, tmp_path, change, raises):
    table = Path(shutil.copy(catalog, tmp_path / "t.csv"))
    price_batch = predictor.members[0].engine.price_batch

    def meddling(batch):
        if change == "grown":
            table.write_bytes(catalog.read_bytes() + b"x,late,1\n")
        else:
            table.unlink(missing_ok=True)
        return price_batch(batch)

    with raises(DataError):
        opened_model(_with(predictor, meddling)).predict_file(table, tmp_path / "prices.csv")
    assert {path.name for path in tmp_path.iterdir()} <= {"t.csv"}


def test_files_that_appear_during_the_prediction_are_named(predictor, catalog, tmp_path, logged):
    shutil.copy(catalog, tmp_path / "1.csv")
    price_batch = predictor.members[0].engine.price_batch

    def meddling(batch):
        shutil.copy(catalog, tmp_path / "2.csv")
        return price_batch(batch)

    pattern, out = tmp_path / "*.csv", tmp_path / "prices.csv"
    assert opened_model(_with(predictor, meddling)).predict_file(pattern, out) == 400
    message = logged()
    assert "1 file of" in message
    assert "2.csv; the output does not include them" in message


def test_a_missing_table_is_an_error_of_pricekit(predictor, tmp_path, raises):
    with raises(DataError, "table"):
        opened_model(predictor).predict_file(tmp_path / "nowhere.csv", tmp_path / "prices.csv")


@pytest.mark.parametrize("there", [True, False])
def test_the_file_that_an_output_links_to_is_written(predictor, catalog, tmp_path, there):
    (tmp_path / "there").mkdir()
    if there:
        (tmp_path / "there" / "real.csv").write_text("old")
    out = tmp_path / "prices.csv"
    out.symlink_to(tmp_path / "there" / "real.csv")
    opened_model(predictor).predict_file(catalog, out)
    assert out.is_symlink()
    assert len(pd.read_csv(tmp_path / "there" / "real.csv")) == 400
    assert len(list(tmp_path.rglob("*"))) == 3


def test_an_output_is_a_file_in_an_existing_folder(predictor, catalog, tmp_path, raises):
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "link.csv").symlink_to(tmp_path / "nowhere" / "real.csv")
    (tmp_path / "round.csv").symlink_to(tmp_path / "round.csv")
    opened_model(predictor).predict_file(catalog, tmp_path / "round.csv")  # what leads nowhere is replaced
    with raises(DataError, "out"):
        opened_model(predictor).predict_file(catalog, tmp_path / "pipe.csv")
    with raises(DataError, "out"):
        opened_model(predictor).predict_file(catalog, tmp_path / "link.csv")


def test_an_output_s_name_is_text(predictor, catalog, tmp_path, raises):
    with raises(DataError, "out"):
        opened_model(predictor).predict_file(catalog, tmp_path / os.fsdecode(b"o\xff.csv"))


def test_an_output_s_name_leaves_room_for_a_temporary_one(predictor, catalog, tmp_path, raises):
    assert opened_model(predictor).predict_file(catalog, tmp_path / f"{'y' * 220}.csv") == 400
    for letter in ("y", "ä"):
        with raises(DataError, "out"):
            opened_model(predictor).predict_file(
                catalog, tmp_path / f"{letter * (221 if letter == 'y' else 111)}.csv"
            )


def test_many_small_files_share_one_window(predictor, catalog, tmp_path, monkeypatch):
    frame = pd.read_csv(catalog).head(150)
    for number in range(30):
        part = frame.iloc[5 * number : 5 * number + 5]
        if number >= 20:  # of another type, which must not become one with the others'
            part = part.assign(sample_id=[f"0{row}" for row in part.index])
        part.to_parquet(tmp_path / f"{number:02d}.parquet")
    sizes, prepare = [], Predictor.prepare
    monkeypatch.setattr(
        Predictor, "prepare", lambda self, table: sizes.append(len(table)) or prepare(self, table)
    )
    monkeypatch.setattr(files, "WINDOW", 64)
    opened_model(predictor).predict_file(tmp_path, tmp_path / "prices.csv")
    assert sizes == [60, 40, 50]
    found = pd.read_csv(tmp_path / "prices.csv", dtype=str)
    assert found["sample_id"].tolist() == [
        *map(str, frame["sample_id"].head(100)),
        *(f"0{row}" for row in range(100, 150)),
    ]
    monkeypatch.setattr(files, "WINDOW_BYTES", 1)
    sizes.clear()
    opened_model(predictor).predict_file(tmp_path, tmp_path / "prices.csv")
    assert sizes == [5] * 30


def test_windows_without_spreads_are_priced_again_and_those_with_them_are_resumed(
    predictor, catalog, interrupted, logged
):
    options, whole = {"interval": 0.8, "quantiles": [0.5]}, interrupted.with_stem("whole")
    opened_model(predictor).predict_file(catalog, whole, **options)
    with pytest.raises(KeyboardInterrupt):
        opened_model(_with(predictor, Failing(predictor, 200))).predict_file(
            catalog, interrupted, resume=True, **options
        )
    assert "it used a different spread of each price" in logged()
    engine = Failing(predictor)
    opened_model(_with(predictor, engine)).predict_file(catalog, interrupted, resume=True, **options)
    assert engine.rows == 400 - 192
    assert interrupted.read_bytes() == whole.read_bytes()


def test_finished_windows_are_kept_if_the_output_cannot_be_written(
    predictor, catalog, interrupted, monkeypatch, logged, raises
):
    def refuse(*_):
        raise DataError("no space")

    engine = Failing(predictor)
    with monkeypatch.context() as patch:
        patch.setattr(files, "write_prices", refuse)
        with raises(DataError):
            opened_model(_with(predictor, engine)).predict_file(catalog, interrupted, resume=True)
    assert "predict again with resume" in logged().splitlines()[-1]
    again = Failing(predictor)
    opened_model(_with(predictor, again)).predict_file(catalog, interrupted, resume=True)
    assert (engine.rows, again.rows) == (400 - 192, 0)


def test_windows_outlive_a_folder_that_cannot_be_read_for_a_while(
    predictor, catalog, interrupted, monkeypatch, raises
):
    def fail(*_):
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_text", fail)
        with raises(DataError):
            opened_model(predictor).predict_file(catalog, interrupted, resume=True)
    engine = Failing(predictor)
    opened_model(_with(predictor, engine)).predict_file(catalog, interrupted, resume=True)
    assert engine.rows == 400 - 192


def test_a_prediction_works_on_a_file_system_without_locks(predictor, catalog, tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise NotImplementedError

    monkeypatch.setattr(SoftFileLease, "acquire", refuse)
    assert opened_model(predictor).predict_file(catalog, tmp_path / "prices.csv", limit=9) == 9


def test_two_predictions_do_not_write_one_output(predictor, catalog, tmp_path, monkeypatch, raises):
    monkeypatch.setattr(files, "WINDOW", 64)
    out, price_batch = tmp_path / "prices.csv", predictor.members[0].engine.price_batch

    def meddling(batch):
        with raises(DataError, "out"):
            opened_model(predictor).predict_file(catalog, out, limit=100)
        return price_batch(batch)

    opened_model(_with(predictor, meddling)).predict_file(catalog, out)
    alone = tmp_path / "alone.csv"
    opened_model(predictor).predict_file(catalog, alone)
    assert out.read_text() == alone.read_text()
    assert {path.name for path in tmp_path.iterdir()} == {"prices.csv", "alone.csv"}


def test_a_linked_folder_of_windows_is_not_touched(predictor, catalog, tmp_path, raises):
    other = tmp_path / "spark"
    other.mkdir()
    (other / "part-00000-abc.parquet").touch()
    parts = tmp_path / ".prices.csv.parts"
    parts.symlink_to(other)
    with raises(DataError):
        opened_model(predictor).predict_file(catalog, tmp_path / "prices.csv")
    parts.unlink()
    other.rename(parts)  # a folder with other files
    opened_model(predictor).predict_file(catalog, tmp_path / "prices.csv")
    assert (parts / "part-00000-abc.parquet").exists()


@pytest.mark.parametrize("suffix", ["csv", "parquet", "jsonl"])
def test_whole_numbers_with_gaps_are_still_ids(predictor, catalog, tmp_path, monkeypatch, suffix):
    monkeypatch.setattr(files, "WINDOW", 64)
    ids = pd.Series(range(9007199254740993, 9007199254740993 + 150), dtype="Int64")
    ids[100] = pd.NA
    pd.read_csv(catalog).head(150).assign(sample_id=ids).to_parquet(tmp_path / "in.parquet")
    out = tmp_path / f"out.{suffix}"
    opened_model(predictor).predict_file(tmp_path / "in.parquet", out)
    read = {"csv": pd.read_csv, "parquet": pd.read_parquet, "jsonl": _read_jsonl}[suffix]
    found = read(out, dtype_backend="numpy_nullable")["sample_id"]
    assert found.astype("Int64").equals(ids.rename("sample_id"))


def _read_jsonl(path, dtype_backend):
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return pd.DataFrame({"sample_id": pd.array([row["sample_id"] for row in rows], dtype="Int64")})


def test_ids_of_several_types_are_text(predictor, catalog, tmp_path):
    frame = pd.read_csv(catalog).head(4)
    folder = tmp_path / "in"
    folder.mkdir()
    frame.head(2).assign(sample_id=[7, 8]).to_parquet(folder / "a.parquet")
    frame.tail(2).assign(sample_id=["X9", "7"]).to_parquet(folder / "b.parquet")
    opened_model(predictor).predict_file(folder, tmp_path / "out.parquet")
    assert pd.read_parquet(tmp_path / "out.parquet")["sample_id"].tolist() == ["7", "8", "X9", "7"]


def test_a_failure_before_the_first_window_leaves_nothing(predictor, catalog, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        opened_model(_with(predictor, Failing(predictor, 0))).predict_file(catalog, tmp_path / "prices.csv")
    assert list(tmp_path.iterdir()) == []


def test_windows_and_hidden_folders_are_not_data(predictor, catalog, tmp_path):
    frame = pd.read_csv(catalog).head(6)
    for folder in (".out.parquet.parts", "_temporary", "day=1"):
        (tmp_path / folder).mkdir()
        frame.to_parquet(tmp_path / folder / "x.parquet")
    assert opened_model(predictor).predict_file(tmp_path, tmp_path / "out.parquet", limit=100) == 6
    (tmp_path / "out.parquet").unlink()
    assert opened_model(predictor).predict_file(tmp_path / "*/*.parquet", tmp_path / "out.csv") == 6
    assert opened_model(predictor).predict_file(tmp_path / "_*/*.parquet", tmp_path / "out.csv") == 6
    assert opened_model(predictor).predict_file(tmp_path / "d*/../day=1/*.parquet", tmp_path / "out.csv") == 6


@pytest.mark.parametrize("empty", ["a", "b", "c"])
def test_files_without_rows_are_skipped(predictor, catalog, tmp_path, empty, logged, raises):
    frame = pd.read_csv(catalog).head(12)
    for name in "abc":
        frame.head(0 if name == empty else 6).to_csv(tmp_path / f"{name}.csv", index=False)
    (tmp_path / "d.csv").touch()
    (tmp_path / "e.jsonl").touch()
    count = opened_model(predictor).predict_file(tmp_path / "[abcde].*", tmp_path / "out.csv")
    assert count == 12
    assert [Path(line.split(" ")[0]).name for line in logged().splitlines()[:-1]] == [
        f"{empty}.csv",
        "d.csv",
        "e.jsonl",
    ]
    for name in "abc":
        frame.head(0).to_csv(tmp_path / f"{name}.csv", index=False)
    with raises(DataError, "table"):
        opened_model(predictor).predict_file(tmp_path / "[abc].csv", tmp_path / "out.csv")


@pytest.mark.parametrize("pattern", ["parts", "parts/*.parquet", "par*/day=*/*", "**/*.parquet"])
def test_a_folder_or_a_pattern_is_one_table(predictor, catalog, tmp_path, pattern):
    frame = pd.read_csv(catalog).head(120)
    for number, day in enumerate(["day=1", "day=2"]):
        folder = tmp_path / "parts" if "*.parquet" in pattern else tmp_path / "parts" / day
        folder.mkdir(parents=True, exist_ok=True)
        frame.iloc[60 * number : 60 * number + 60].to_parquet(folder / f"{number}.parquet")
    frame.head(0).to_parquet(tmp_path / "parts" / "none.parquet")
    opened_model(predictor).predict_file(tmp_path / pattern, tmp_path / "prices.csv")
    found = pd.read_csv(tmp_path / "prices.csv")
    assert found["sample_id"].tolist() == frame["sample_id"].tolist()
    assert found["price"].to_numpy() == pytest.approx(
        predictor.predict(frame["catalog_content"].tolist()), rel=1e-5
    )


def test_row_numbers_continue_from_file_to_file(predictor, catalog, tmp_path):
    for number in range(3):
        pd.read_csv(catalog)[["catalog_content"]].head(5).to_csv(tmp_path / f"t{number}.csv", index=False)
    opened_model(predictor).predict_file(tmp_path / "t*.csv", tmp_path / "prices.csv", limit=12)
    assert pd.read_csv(tmp_path / "prices.csv")["row"].tolist() == [*range(12)]


@pytest.mark.parametrize("without", [0, 1])
def test_row_numbers_never_mix_with_ids(predictor, catalog, tmp_path, without, raises):
    frame = pd.read_csv(catalog).head(5)
    for number in range(2):
        columns = ["catalog_content"] if number == without else ["sample_id", "catalog_content"]
        frame[columns].to_csv(tmp_path / f"t{number}.csv", index=False)
    with raises(DataError, "id", column="sample_id"):
        opened_model(predictor).predict_file(tmp_path / "t*.csv", tmp_path / "prices.csv")


@pytest.mark.parametrize("path", ["empty", "no*.csv"])
def test_a_folder_or_pattern_without_files_is_an_error(predictor, tmp_path, path, raises):
    (tmp_path / "empty").mkdir()
    with raises(DataError, "table"):
        opened_model(predictor).predict_file(tmp_path / path, tmp_path / "prices.csv")


@pytest.mark.parametrize(
    ("name", "options"),
    [("price", {}), ("price_low", {"interval": 0.5}), ("price_0.5", {"quantiles": [0.5]})],
)
def test_an_id_column_with_an_output_name_is_an_error_before_the_work(
    predictor, catalog, tmp_path, name, options, raises
):
    with raises(DataError, "id"):
        opened_model(predictor).predict_file(catalog, tmp_path / "prices.csv", id=name, **options)
    assert list(tmp_path.iterdir()) == []


def test_an_interval_that_the_model_lacks_is_refused_before_the_work(predictor, catalog, tmp_path, raises):
    with raises(ConfigError, "interval", "quantiles", "within"):
        opened_model(replace(predictor, intervals=None)).predict_file(
            catalog, tmp_path / "prices.csv", interval=0.5
        )
    assert list(tmp_path.iterdir()) == []


def test_paths_may_be_text_and_columns_are_named(predictor, texts, tmp_path):
    table = "sku;title\n" + "".join(f'{n};"{text}"\n' for n, text in enumerate(["Grüner Tee", "jam"]))
    (tmp_path / "t.csv").write_bytes(table.encode("latin-1"))
    out = str(tmp_path / "out.csv")
    options = {"text": "title", "id": "sku", "encoding": "latin-1", "delimiter": ";"}
    assert opened_model(predictor).predict_file(str(tmp_path / "t.csv"), out, **options) == 2
    found = pd.read_csv(out)
    assert found["sku"].tolist() == [0, 1]
    assert found["price"].to_numpy() == pytest.approx(predictor.predict(["Grüner Tee", "jam"]), rel=1e-5)
    (tmp_path / "bare.csv").write_text("7,tea\n8,jam\n")
    assert opened_model(predictor).predict_file(
        tmp_path / "bare.csv", out, text=["title"], id="sku", columns=["sku", "title"]
    )
    assert pd.read_csv(out)["sku"].tolist() == [7, 8]


def test_a_missing_id_column_becomes_row_numbers_with_a_warning(predictor, catalog, tmp_path, logged):
    pd.read_csv(catalog)[["catalog_content"]].to_csv(tmp_path / "t.csv", index=False)
    opened_model(predictor).predict_file(tmp_path / "t.csv", tmp_path / "p.csv")
    assert pd.read_csv(tmp_path / "p.csv").iloc[:, 0].tolist() == list(range(400))
    assert "row number" in logged()


def test_unknown_categories_and_empty_texts_are_priced_and_counted(predictor, tmp_path, logged):
    rows = {"sample_id": ["a", "b"], "catalog_content": ["Brand: Nobody\nCategory: Unheard Of", ""]}
    pd.DataFrame(rows).to_csv(tmp_path / "t.csv", index=False)
    assert opened_model(predictor).predict_file(tmp_path / "t.csv", tmp_path / "p.csv") == 2
    assert logged().splitlines()[0] == "1 of 2 rows have no text; they are priced anyway."


def test_prediction_imports_no_torch(bundle, catalog, tmp_path):
    code = (
        "import sys; from pathlib import Path; import pricekit;"
        "pricekit.load(sys.argv[1]).predict_file(Path(sys.argv[2]), Path(sys.argv[3]));"
        "assert not {'torch', 'transformers', 'onnx', 'sklearn'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, bundle, catalog, tmp_path / "p.csv"], check=True)
    assert len(pd.read_csv(tmp_path / "p.csv")) == 400


def test_the_table_itself_is_never_overwritten(predictor, catalog, tmp_path, raises):
    table = tmp_path / "t.csv"
    table.write_bytes(catalog.read_bytes())
    with raises(DataError, "out"):
        opened_model(predictor).predict_file(table, tmp_path / "." / "t.csv")
    assert table.read_bytes() == catalog.read_bytes()
