"""The cache of fitted features."""

from dataclasses import replace
from types import MappingProxyType

import numpy as np
import pytest
from pydantic import Field

from pricekit.datasets import make_catalog
from pricekit.features import fit
from pricekit.features.fit import fit_features
from pricekit.features.fitted import LOCAL
from pricekit.features.table_cache import read_entry, trim, write_entry
from pricekit.features.trees import Trees
from pricekit.table import read_usable

OPTIONS = {"trees": {"rounds": 5, "words": 20}}


@pytest.fixture
def table():
    return read_usable(make_catalog(60, seed=3))[0]


@pytest.fixture
def fits(monkeypatch):
    """The number of fits of price features."""
    done = []
    monkeypatch.setattr(
        fit,
        "fit_out_of_fold",
        lambda *a, call=fit.fit_out_of_fold, **k: done.append(1) or call(*a, **k),
    )
    return done


def _fit(table, folder, options=OPTIONS, known=MappingProxyType({})):
    return fit_features(["trees"], options, table, known, cache=folder)


def test_a_feature_is_fitted_once_and_then_read(table, tmp_path, fits):
    first, columns = _fit(table, tmp_path)
    again, same = _fit(table, tmp_path)
    assert len(fits) == 1
    assert again.to_json() == first.to_json()
    assert np.array_equal(columns["trees_log_price"], same["trees_log_price"])
    assert np.array_equal(first.transform(table), again.transform(table))


@pytest.mark.parametrize(
    "change",
    [
        lambda t: replace(t, text=t.text + "!"),
        lambda t: replace(t, price=t.price * 2),
        lambda t: replace(t, weight=np.linspace(0.1, 1, len(t))),
        lambda t: replace(t, group=np.arange(len(t)) // 2),
        lambda t: replace(t, time=np.arange(len(t), dtype=float)),
        lambda t: replace(t, cluster=np.arange(len(t)) // 3),
        lambda t: t.take(np.arange(len(t))[::-1]),
    ],
    ids=["texts", "prices", "weights", "groups", "times", "duplicates", "order"],
)
def test_other_rows_are_fitted_again(table, tmp_path, fits, change):
    _fit(table, tmp_path)
    _fit(change(table), tmp_path)
    assert len(fits) == 2


def test_other_options_and_columns_that_are_known_are_fitted_again(table, tmp_path, fits):
    _fit(table, tmp_path)
    _fit(table, tmp_path, {"trees": {"rounds": 6, "words": 20}})
    known = {"trees_log_price": np.ones(len(table), np.float32)}
    _, columns = _fit(table, tmp_path, known=known)
    assert len(fits) == 3
    assert np.array_equal(columns["trees_log_price"], known["trees_log_price"])


@pytest.mark.parametrize("damage", ["cut", "altered", "other"])
def test_a_damaged_entry_is_ignored_and_replaced(table, tmp_path, fits, damage):
    first, _ = _fit(table, tmp_path)
    (file,) = tmp_path.iterdir()
    content = file.read_bytes()
    if damage == "other":
        file.unlink()
        write_entry(file, {"else": np.ones(3)}, "")
    else:
        file.write_bytes(
            content[:99] if damage == "cut" else content[:-9] + bytes([content[-9] ^ 1]) + content[-8:]
        )
    again, _ = _fit(table, tmp_path)
    assert len(fits) == 2
    assert again.to_json() == first.to_json()
    assert file.read_bytes() == content


def test_a_cache_that_cannot_be_written_is_not_needed(table, tmp_path, logged):
    (tmp_path / "cache").write_text("a file")
    assert _fit(table, tmp_path / "cache")[0].parts
    assert "the feature 'trees' is not cached" in logged()


def test_values_that_cannot_be_hashed_are_not_cached(table, tmp_path, logged):
    lists = replace(table, frame=table.frame.assign(tags=[["a"]] * len(table)))
    assert _fit(lists, tmp_path / "cache")[0].parts
    assert "a column cannot be hashed" in logged()
    assert not (tmp_path / "cache").exists()


def test_a_feature_that_reads_files_is_fitted_each_time(table, tmp_path, fits, monkeypatch):
    """The files may have changed, which the name of an entry does not tell."""
    monkeypatch.setattr(Trees, "reads_files", True, raising=False)
    _fit(table, tmp_path)
    _fit(table, tmp_path)
    assert len(fits) == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("weights", "times"), [("encoder.onnx", 2), ("", 1)])
def test_a_feature_with_a_local_option_is_fitted_each_time_if_it_is_set(
    table, tmp_path, fits, monkeypatch, weights, times
):
    class Options(Trees.Options):
        weights: str = Field("", json_schema_extra={LOCAL: True})

    monkeypatch.setattr(Trees, "Options", Options)
    options = {"trees": OPTIONS["trees"] | {"weights": weights}}
    _fit(table, tmp_path, options)
    _fit(table, tmp_path, options)
    assert len(fits) == times


def test_a_cache_is_trimmed_to_the_files_that_were_used_last(tmp_path):
    files = [tmp_path / f"{name}.safetensors" for name in "abc"]
    for age, file in enumerate(files):
        write_entry(file, {"x": np.zeros(1000, np.float32)}, "")
        import os

        os.utime(file, (age, age))
    read_entry(files[0])
    trim(tmp_path, 2 * files[0].stat().st_size)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.safetensors", "c.safetensors"]
