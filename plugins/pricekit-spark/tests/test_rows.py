"""Windows of Arrow batches, without Spark."""

import pyarrow as pa
import pytest
from pricekit_spark.parcel import last_words
from pricekit_spark.rows import PriceRows, windows

import pricekit as pk
from pricekit.plugin.runners import Job, Uncertainty, open_predictor


def _batches(*sizes):
    return [pa.record_batch({"n": pa.array(range(size), pa.int64())}) for size in sizes]


@pytest.mark.parametrize(
    ("sizes", "found"),
    [
        ([], []),
        ([0, 0], []),
        ([3, 3, 3], [[3, 3, 2], [1]]),
        ([20], [[8], [8], [4]]),
        ([8, 0, 8], [[8], [8]]),
    ],
)
def test_windows_do_not_depend_on_batches(sizes, found):
    assert [[len(batch) for batch in window] for window in windows(iter(_batches(*sizes)), rows=8)] == found


def test_wide_rows_are_priced_sooner():
    assert [len(window) for window in windows(_batches(4, 4, 4), rows=8, size=10)] == [
        1,
        1,
        1,
    ]


def test_prices_are_those_of_one_call_and_no_batch_grows(bundle, catalog):
    model = open_predictor(bundle, "ort-cpu")
    job = Job.of(model, uncertainty=Uncertainty(0.9, (0.5,), 10, 0.5))
    rows = pa.Table.from_pandas(pk.make_catalog(60, seed=1).drop(columns="price"), preserve_index=False)
    priced = list(PriceRows(lambda: job)(rows.to_batches(max_chunksize=7)))
    assert [len(batch) for batch in priced] == [7] * 8 + [4]
    found, expected = pa.Table.from_batches(priced), model.predict(rows, 0.9, [0.5], 10, 0.5)
    assert found.select(rows.column_names) == rows
    for name in expected:
        assert found[name].to_pylist() == expected[name].tolist()


def test_an_empty_partition_opens_no_model():
    assert list(PriceRows(lambda: pytest.fail("opened"))([])) == []


JAVA = "An error occurred.\n: java.lang.IllegalStateException: stopped.\n\tat a.b\n"
PYTHON = (
    'Job aborted: Exception: failed\nTraceback:\n  File "a.py", line 1\n    import b\nImportError: no b\n'
)


@pytest.mark.parametrize(
    ("said", "found"),
    [(JAVA, "java.lang.IllegalStateException: stopped"), (PYTHON, "ImportError: no b"), ("", "ValueError")],
)
def test_the_last_words_of_a_task_are_one_line(said, found):
    assert last_words(ValueError(said)) == found
