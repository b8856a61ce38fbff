"""The Python functions: frames and paths, temporary and named folders, resuming, and invalid inputs."""

import gc
import logging

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import pricekit as pk
from pricekit.errors import ConfigError, DataError, PricekitError, TrainingError
from pricekit.evaluation.scores import facts_of

TINY = {
    "epochs": 1,
    "max_length": 64,
    "refit": False,
    "features": ["fast15", "columns"],
    "settings": {"backbone.vocab_size": 500, "backbone.buckets": 64, "backbone.width": 4},
}


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return pk.make_catalog(200, seed=4)


@pytest.fixture(scope="module")
def trained(frame, tmp_path_factory) -> pk.Model:
    return pk.train(frame, out=tmp_path_factory.mktemp("api") / "run", **TINY)


def test_a_run_of_a_frame_and_of_its_file_are_the_same(frame, trained, tmp_path):
    frame.to_parquet(tmp_path / "table.parquet")
    of_file = pk.train(tmp_path / "table.parquet", out=str(tmp_path / "run"), **TINY)
    assert of_file.metrics == trained.metrics
    assert of_file.held_out.equals(trained.held_out)
    assert facts_of(trained.path)["table"] == "DataFrame"


def test_a_run_without_a_folder_lives_as_long_as_its_object(frame):
    run = pk.train(frame, **TINY)
    folder = run.path
    assert (folder / "run.json").is_file()
    del run
    gc.collect()
    assert not folder.exists()


def test_a_failed_training_leaves_no_temporary_folder(monkeypatch, tmp_path, frame):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(ConfigError):
        pk.train(frame, settings={"training.epochs": 0})
    assert list(tmp_path.iterdir()) == []


def test_a_run_is_scored_exported_and_loaded(trained, frame, tmp_path):
    assert trained.evaluate().rows == len(trained.held_out)
    assert trained.evaluate(frame[:50]).rows == 50
    trained.export(tmp_path / "bundle")
    model = pk.load(tmp_path / "bundle", engine="ort-cpu")
    prices = model.predict(frame)
    assert prices.dtype == np.float32
    assert prices == pytest.approx(trained.predict(frame), rel=1e-4)
    between = model.predict(frame, interval=0.8)
    assert (between["price_low"] < between["price"]).all()
    assert (between["price"] < between["price_high"]).all()
    assert pk.bundles.inspect(tmp_path / "bundle").manifest["table"] == "DataFrame"


def test_a_file_is_priced_like_a_frame(trained, frame, tmp_path):
    frame.to_csv(tmp_path / "new.csv", index=False)
    assert trained.predict_file(tmp_path / "new.csv", tmp_path / "prices.csv") == len(frame)
    written = pd.read_csv(tmp_path / "prices.csv")["price"]
    assert written.to_numpy() == pytest.approx(trained.predict(frame), rel=1e-4)


def test_runs_are_compared_combined_and_cross_validated(trained, frame, tmp_path):
    other = pk.train(frame, loss="focal-smape", **TINY)
    comparison = pk.compare(trained, other)
    assert len(comparison.to_frame()) == 2
    both = pk.ensemble([trained, other], out=tmp_path / "both")
    assert sum(member["weight"] for member in both.members) == pytest.approx(1)
    assert both.predict(frame[:3]).shape == (3,)
    cv = pk.cross_validate(frame, out=tmp_path / "cv", folds=2, **TINY)
    assert len(cv.runs) == 2
    assert sorted(cv.held_out["row"]) == list(range(len(frame)))
    assert cv.evaluate(worst=3).worst["error"].is_monotonic_decreasing


def test_a_finished_run_is_resumed_with_its_own_settings(frame, tmp_path, raises):
    pk.train(frame, out=tmp_path / "run", **TINY)
    again = pk.train(frame, out=tmp_path / "run", resume=True)
    assert facts_of(again.path)["best_epoch"] == 1
    with raises(ConfigError, "epochs"):
        pk.train(frame, out=tmp_path / "run", resume=True, epochs=3, seed=0)
    with raises(ConfigError, "out"):
        pk.train(frame, resume=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine.txt").write_text("mine")
    with raises(TrainingError, "out"):
        pk.train(frame, out=tmp_path / "other", resume=True)


def test_the_same_call_with_resume_starts_and_continues_a_run(frame, tmp_path, logged, raises):
    call = {"out": tmp_path / "run", "resume": True, **TINY}
    first = pk.train(frame, **call)
    assert "there is no run in" in logged()
    assert pk.train(frame, **call).metrics == first.metrics
    cv = {"out": tmp_path / "cv", "resume": True, "folds": 2, **TINY}
    scores = pk.cross_validate(frame, **cv).metrics
    assert pk.cross_validate(frame, **cv).metrics == scores
    with raises(ConfigError, "folds"):
        pk.cross_validate(frame, **cv | {"folds": 3})


def test_settings_may_be_dotted_nested_or_a_file(frame, tmp_path, raises):
    (tmp_path / "run.toml").write_text("[training]\nepochs = 2\n[backbone]\nwidth = 4\nbuckets = 64\n")
    run = pk.train(
        frame, config=tmp_path / "run.toml", settings={"backbone": {"vocab_size": 500}, "max_length": 32}
    )
    assert len((run.path / "metrics.jsonl").read_text().splitlines()) == 2
    assert "max_length = 32\n" in (run.path / "config.toml").read_text()
    with raises(ConfigError, "settings"):
        pk.train(frame, settings="training.epochs=2")


def test_an_unknown_option_names_the_nearest_one(frame, raises):
    with raises(TypeError):
        pk.train(frame, epoch=2)


def test_nothing_is_printed(frame, capfd):
    pk.train(frame, **TINY).evaluate()
    out, err = capfd.readouterr()
    assert (out, err) == ("", "")


def test_actions_are_logged(frame, caplog):
    caplog.set_level(logging.INFO, "pricekit")
    pk.train(frame, **TINY)
    assert "170" in caplog.text  # rows to train on


UNUSABLE = {
    "empty": (lambda f: f[:0], {}),
    "no text column": (lambda f: f.drop(columns="catalog_content"), {}),
    "no price column": (lambda f: f.drop(columns="price"), {}),
    "too few rows": (lambda f: f[:5], {}),
    "columns of one name": (lambda f: pd.concat([f, f[["price"]]], axis=1), {}),
    "MultiIndex columns": (lambda f: f.set_axis(pd.MultiIndex.from_product([["a"], f.columns]), axis=1), {}),
    "prices that are no numbers": (lambda f: f.assign(price="dear"), {}),
    "negative prices": (lambda f: f.assign(price=-1.0), {}),
    "a number": (lambda f: 5, {}),
    "no such file": (lambda f: "missing.csv", {}),
    "a column that is not there": (lambda f: f, {"text": ["titel"]}),
    "a decimal mark that is none": (lambda f: f, {"decimal": "x"}),
    "no such policy": (lambda f: f, {"policy": "quickest"}),
    "no such setting": (lambda f: f, {"settings": {"training.epoch": 1}}),
    "no such backbone option": (lambda f: f, {"settings": {"backbone.wide": 1}}),
}


@pytest.mark.parametrize("case", UNUSABLE)
def test_unusable_input_raises_one_error_and_leaves_nothing(frame, tmp_path, case):
    make, options = UNUSABLE[case]
    with pytest.raises(PricekitError) as raised:
        pk.train(make(frame.copy()), out=tmp_path / "run", **{**TINY, **options})
    assert len(str(raised.value)) > 20
    assert "--" not in str(raised.value)
    assert not (tmp_path / "run").exists()


def test_an_existing_out_is_not_changed(frame, trained, tmp_path, raises):
    (tmp_path / "notes.txt").write_text("mine")
    for out, parameters in ((tmp_path, ("out",)), (trained.path, ("resume", "overwrite", "out"))):
        with raises(TrainingError, *parameters):
            pk.train(frame, out=out, **TINY)
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert pk.load(trained.path).metrics == trained.metrics


def test_equal_prices_train_with_a_warning(frame, caplog):
    run = pk.train(frame.assign(price=5.0), **TINY)
    assert "all prices are 5" in caplog.text
    assert run.predict(frame[:3]) == pytest.approx(5, rel=0.01)


KINDS = {
    "arrow": pa.Table.from_pandas,
    "categorical": lambda f: f.assign(catalog_content=f["catalog_content"].astype("category")),
    "nullable": lambda f: f.convert_dtypes(),
    "pyarrow": lambda f: f.convert_dtypes(dtype_backend="pyarrow"),
    "MultiIndex rows": lambda f: f.set_index(["sample_id", f.index], drop=False),
    "written prices": lambda f: f.assign(price=[f"${price:,.2f}" for price in f["price"]]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_frame_trains_the_same_model(frame, trained, kind):
    assert pk.train(KINDS[kind](frame), **TINY).metrics["smape"] == pytest.approx(trained.metrics["smape"])


def test_a_polars_frame_trains_the_same_model(frame, trained):
    polars = pytest.importorskip("polars")
    run = pk.train(polars.from_pandas(frame), **TINY)
    assert run.metrics["smape"] == pytest.approx(trained.metrics["smape"])
    assert run.predict(polars.from_pandas(frame[:3])).shape == (3,)


def test_texts_of_any_kind_are_priced_alike(trained, frame):
    texts = frame["catalog_content"].tolist()[:5]
    expected = trained.predict(texts)
    for kind in (np.array(texts), np.array(texts, object), pd.Series(texts), pa.array(texts), tuple(texts)):
        assert np.array_equal(trained.predict(kind), expected)
    for wrong in (["a", 1], "a", 5, [None]):
        with pytest.raises(DataError):
            trained.predict(wrong)


def test_a_table_is_read_as_all_functions_read_it(tmp_path, frame, raises):
    (tmp_path / "t.csv").write_text("tea;2,50\njam;3,10\n")
    names = {"columns": ["title", "eur"], "text": "title", "price": "eur", "decimal": ","}
    rows = pk.read_table(tmp_path / "t.csv", **names)
    assert (rows.text.tolist(), rows.price.tolist()) == (["tea", "jam"], [2.5, 3.1])
    assert len(pk.read_table(frame, limit=7)) == 7
    renamed = frame.rename(columns={"catalog_content": "title"})
    rows = pk.read_table(renamed, text="title")
    assert rows.text.tolist() == frame["catalog_content"].tolist()
    assert rows.price.tolist() == frame["price"].tolist()  # the column is guessed
    with raises(DataError, "text", column="titel"):
        pk.read_table(frame, text="titel")


def test_compare_ranks_more_than_two_and_folders(frame, tmp_path, raises):
    for loss in ("smape", "log-l1", "log-l2"):
        pk.train(frame, out=tmp_path / "runs" / loss, loss=loss, **TINY)
    first, second, third = (pk.load(tmp_path / "runs" / name) for name in ("smape", "log-l1", "log-l2"))
    two = pk.compare(first, second)
    assert set(two.verdicts) == {str(second.path)}
    assert len(pk.compare(first, second, third).entries) == 3
    assert len(pk.compare(tmp_path / "runs").entries) == 3
    assert {one.path for one in pk.compare(tmp_path / "runs", metric="rmsle").entries} == {
        first.path,
        second.path,
        third.path,
    }
    assert pk.compare(first, second, latency=True).best.seconds_per_row > 0
    with raises(ConfigError, "models"):
        pk.compare()


def test_a_parquet_folder_is_one_table_to_predict(trained, frame, tmp_path):
    (tmp_path / "parts").mkdir()
    for part in range(2):
        frame[part::2].to_parquet(tmp_path / "parts" / f"{part}.parquet")
    assert trained.predict_file(tmp_path / "parts", tmp_path / "prices.parquet", interval=0.8) == len(frame)
    assert list(pd.read_parquet(tmp_path / "prices.parquet")) == [
        "sample_id",
        "price",
        "price_low",
        "price_high",
    ]


def test_features_are_those_of_the_model(trained, frame):
    features = trained.features(frame)
    assert features.columns[0] == "sample_id"
    assert "value" in features
    assert len(features) == 200
    assert np.isfinite(features.drop(columns="sample_id")).all().all()


def test_fewer_than_two_runs_are_not_compared(trained, tmp_path, raises):
    with raises(ConfigError, "models"):
        pk.compare(trained)
    with raises(ConfigError, "runs"):
        pk.ensemble([trained, trained], out=tmp_path / "both")
    assert not (tmp_path / "both").exists()


def test_options_of_a_table_need_one(trained, raises):
    with raises(ConfigError, "price"):
        trained.evaluate(price="price")


def test_options_of_wrong_types_and_ranges_are_explained(trained, frame, tmp_path, raises):
    for options in ({"limit": 0}, {"text": 5}, {"settings": 5}, {"settings": {5: 1}}, {"features": [1]}):
        with raises(ConfigError, *options):
            pk.train(frame, out=tmp_path / "run", **options)
    with raises(ConfigError, "precision"):
        trained.export(tmp_path / "bundle", precision="fp8")
    with raises(ConfigError, "interval"):
        trained.predict(frame[:3], interval=90)
    with raises(DataError, "table"):
        trained.predict_file(frame, tmp_path / "prices.csv")


def test_one_teacher_and_one_unpriced_table_need_no_list(trained, frame):
    student = pk.train(
        frame, unpriced=pk.make_catalog(30, seed=9).drop(columns="price"), teacher=trained, **TINY
    )
    assert facts_of(student.path)["rows"]["pseudo_labelled"] > 0


def test_the_runs_of_a_temporary_cross_validation_outlive_its_object(frame):
    runs = pk.cross_validate(frame, folds=2, **TINY).runs
    gc.collect()
    assert all((run.path / "run.json").is_file() for run in runs)


NO_PATHS = [None, 5, b"run", "", "a\0b", ["run"], {}]


@pytest.mark.parametrize("given", NO_PATHS, ids=repr)
@pytest.mark.parametrize(
    ("call", "parameter"),
    [
        (pk.load, "path"),
        (pk.Model, "path"),
        (pk.CrossValidation, "path"),
        (pk.Tuning, "path"),
        (pk.bundles.inspect, "bundle"),
        (lambda path: pk.compare(path, "run"), "models"),
        (lambda path: pk.ensemble([path, "run"]), "runs"),
        (lambda path: pk.pretrain("a.csv", path, backbone="transformer"), "out"),
        (lambda path: pk.train("a.csv", teacher=[path], unpriced="b.csv"), "teacher"),
    ],
)
def test_what_is_no_path_is_one_error_that_names_the_parameter(call, parameter, given, raises):
    with raises(ConfigError, parameter):
        call(given)


@pytest.mark.parametrize("out", ["table.csv/run", "n" * 300])
def test_a_folder_that_the_system_refuses_is_one_error(frame, tmp_path, out, raises):
    (tmp_path / "table.csv").touch()
    with raises(PricekitError):
        pk.train(frame, out=tmp_path / out, **TINY)
    assert [file.name for file in tmp_path.iterdir()] == ["table.csv"]


@pytest.mark.parametrize(
    ("options", "parameter"),
    [
        ({"config": 5}, "config"),
        ({"delimiter": 5}, "delimiter"),
        ({"encoding": 5}, "encoding"),
        ({"currency": 5}, "currency"),
        ({"policy": ["quick"]}, "policy"),
        ({"features": 5}, "features"),
        ({"text": [5]}, "text"),
        ({"price": 5}, "price"),
    ],
)
def test_an_option_of_the_wrong_type_is_one_error_that_names_it(frame, options, parameter, raises):
    with raises(ConfigError, parameter):
        pk.train(frame, **options)


def test_numbers_of_numpy_are_numbers(frame):
    options = {"epochs": np.int64(1), "limit": np.int64(60), "max_length": np.int64(32)}
    run = pk.train(frame, **options, settings=TINY["settings"] | {"training.batch_size": np.int32(16)})
    assert facts_of(run.path)["rows"]["train"] + facts_of(run.path)["rows"]["valid"] == 60


@pytest.mark.parametrize(("name", "value"), [("batch_size", 0), ("epochs", 1.5), ("learning_rate", "x")])
def test_options_of_pretraining_are_checked_before_the_work(frame, tmp_path, name, value, raises):
    frame.to_csv(tmp_path / "table.csv", index=False)
    with raises(ConfigError, name):
        pk.pretrain(tmp_path / "table.csv", tmp_path / "out", backbone="transformer", **{name: value})
    assert [file.name for file in tmp_path.iterdir()] == ["table.csv"]


@pytest.mark.parametrize("limit", [0, -1, "3"])
def test_a_limit_is_a_whole_number_above_0_everywhere(trained, frame, tmp_path, limit, raises):
    frame.to_csv(tmp_path / "table.csv", index=False)
    with raises(ConfigError, "limit"):
        pk.read_table(frame, limit=limit)
    with raises(ConfigError, "limit"):
        trained.predict_file(tmp_path / "table.csv", tmp_path / "out.csv", limit=limit)


def test_prices_beyond_float32_are_set_aside(frame, raises):
    price = frame["price"].where(frame.index != 3, 1e300).where(frame.index != 4, 1e-300)
    with raises(DataError, "text", "price", reasons={"price not finite": 200}):
        pk.train(frame.assign(price=1e300), **TINY)
    assert len(pk.train(frame.assign(price=price), **TINY).held_out) > 10
