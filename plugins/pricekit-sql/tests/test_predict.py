"""Predictions into a table: every row once, whatever is killed, cut or full."""

import random
import shutil
import signal
import subprocess
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pandas as pd
import pytest

import pricekit as pk
from pricekit.plugin import DataError

ROWS = 20_100
"""Several windows."""


@pytest.fixture(scope="module")
def products(server, bundle):
    """A table of the server, and its prices."""
    frame = pk.make_catalog(300, seed=2).drop(columns="price")
    frame = pd.concat([frame] * (ROWS // 300), ignore_index=True)
    frame["sample_id"] = [f"P{number:06d}" for number in range(len(frame))]
    with server.connect() as connection, connection.cursor() as cursor:
        import pyarrow as pa

        cursor.adbc_ingest("products", pa.Table.from_pandas(frame, preserve_index=False), mode="replace")
    prices = pk.load(bundle).predict(frame)
    yield dict(zip(frame["sample_id"], prices.astype(float), strict=True))
    server.execute("DROP TABLE products")


def prices_in(server, table):
    rows = server.execute(f"SELECT sample_id, price FROM {table}")
    prices = dict(rows)
    assert len(prices) == len(rows)
    return prices


def same(actual, expected):
    assert actual.keys() == expected.keys()
    assert max(abs(price / expected[row] - 1) for row, price in actual.items()) < 1e-5


def watched(server, table):
    """Return the number of rows in a table; None while it does not exist, or the server is down."""
    try:
        return server.execute(f"SELECT count(*) FROM {table}")[0][0]
    except Exception:
        return None


def test_a_database_is_priced_like_a_frame(server, table, products, bundle):
    rows = pk.load(bundle).predict_file(server.address("products"), server.address(table))
    assert rows == ROWS
    same(prices_in(server, table), products)


@pytest.mark.parametrize("scheme", ["sqlite", "duckdb"])
def test_prices_come_from_files_and_go_into_databases(scheme, bundle, tmp_path):
    frame = pk.make_catalog(100, seed=3)
    frame.to_csv(tmp_path / "new.csv", index=False)
    model, address = pk.load(bundle), f"{scheme}:///{tmp_path}/prices.{scheme}?table=prices"
    model.predict_file(tmp_path / "new.csv", address, interval=0.8)
    rows = pk.read_table(address, text="sample_id", id="sample_id", price="price_high").frame
    assert sorted(map(int, rows["sample_id"])) == frame["sample_id"].tolist()
    assert (rows["price_low"] < rows["price_high"]).all()


@pytest.mark.parametrize("moment", [0.0, 0.5])
def test_a_killed_client_is_repeated(moment, server, table, products, started, bundle):
    """A moment is the share of rows that are written; 0 is before the first one."""
    process = started("predict", bundle, server.address("products"), "--out", server.address(table))
    while process.poll() is None and (watched(server, table) or 0) <= moment * ROWS - 1:
        time.sleep(0.01)
    if not moment:
        time.sleep(random.Random(5).uniform(0.5, 2))
    process.send_signal(signal.SIGKILL)
    process.wait()
    written = watched(server, table) or 0
    pk.load(bundle).predict_file(
        server.address("products"), server.address(table), resume=True, on_conflict="error"
    )
    assert written <= ROWS
    same(prices_in(server, table), products)


def test_a_resumed_prediction_keeps_its_rows(server, table, products, started, bundle):
    """Rows that were added since the first attempt are of another moment."""
    process = started("predict", bundle, server.address("products"), "--out", server.address(table))
    while not watched(server, table):
        time.sleep(0.01)
    process.kill()
    process.wait()
    server.execute("INSERT INTO products VALUES ('later', 'Green tea')")
    try:
        model = pk.load(bundle)
        model.predict_file(server.address("products"), server.address(table), resume=True)
        same(prices_in(server, table), products)
        model.predict_file(server.address("products"), server.address(table))
        assert prices_in(server, table).keys() - products.keys() == {"later"}
    finally:
        server.execute("DELETE FROM products WHERE sample_id = 'later'")


@pytest.mark.parametrize("moment", [0, ROWS // 3])
def test_a_killed_server_is_waited_for(moment, server, table, products, started, bundle):
    process = started("predict", bundle, server.address("products"), "--out", server.address(table))
    while process.poll() is None and (watched(server, table) or -1) < moment:
        time.sleep(0.01)
    server.kill()
    server.start()
    output, _ = process.communicate(timeout=90)
    assert process.returncode == 0, output
    same(prices_in(server, table), products)


def writes(server, pattern="INSERT"):
    """Return the processes of the server that wait for a lock."""
    query = f"""SELECT pid FROM pg_stat_activity WHERE application_name = 'pricekit' AND wait_event_type = 'Lock'
        AND query LIKE '{pattern}%'"""
    return [pid for (pid,) in server.execute(query)]


@contextmanager
def held_up(server, table, bundle, parameters=""):
    """Yield while a prediction waits for the row 'P000100', which another connection has locked; then it must end."""
    pk.load(bundle).predict_file(server.address("products"), server.address(table))
    other = server.connect()
    other.adbc_connection.set_autocommit(False)
    cursor = other.cursor()
    cursor.execute(f"UPDATE {table} SET price = 1 WHERE sample_id = 'P000100'")
    server.execute(f"UPDATE {table} SET price = 2 WHERE sample_id IN ('P000050', 'P000150')")
    with ThreadPoolExecutor(1) as pool:
        prediction = pool.submit(
            pk.load(bundle).predict_file,
            server.address("products"),
            server.address(table, parameters=parameters),
        )
        try:
            while not writes(server):
                assert not prediction.done(), prediction.result()
                time.sleep(0.01)
            yield cursor
        finally:
            other.commit()
            cursor.close()
            other.close()
        assert prediction.result(timeout=90) == ROWS


def test_a_deadlock_is_tried_again(server, table, products, bundle):
    with held_up(server, table, bundle) as other:
        other.execute("SET deadlock_timeout = '60s'")  # so that the prediction is the one that gives way
        other.execute(f"UPDATE {table} SET price = 1 WHERE sample_id = 'P000050'")
    same(prices_in(server, table), products)


def test_a_conflict_of_transactions_is_tried_again(server, table, products, bundle):
    serializable = "&options=-c%20default_transaction_isolation=serializable"
    with held_up(server, table, bundle, serializable):
        pass
    same(prices_in(server, table), products)


def test_a_lost_connection_is_tried_again(server, table, products, bundle):
    with held_up(server, table, bundle):
        (process,) = writes(server)
        server.execute(f"SELECT pg_terminate_backend({process})")
    same(prices_in(server, table), products)


def test_two_predictions_write_one_table(server, table, products, bundle):
    model, addresses = (
        pk.load(bundle),
        [server.address(table), server.address(table, parameters="&application_name=other")],
    )
    with ThreadPoolExecutor(2) as pool:
        rows = list(pool.map(lambda out: model.predict_file(server.address("products"), out), addresses))
    assert rows == [ROWS, ROWS]
    same(prices_in(server, table), products)


@pytest.fixture
def small_disk(server, tmp_path):
    """A folder of half a megabyte, and what makes it larger."""
    folder = server.folder / uuid.uuid4().hex
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=512k,mode=777,uid=65534", "pricekit", str(folder)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("this user may not mount a small disk")

    def grow():
        subprocess.run(["mount", "-o", "remount,size=200m", str(folder)], check=True)

    yield folder, grow
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_of_the_server_is_one_error_and_resumed(server, table, products, bundle, small_disk):
    folder, grow = small_disk
    server.execute(f"CREATE TABLESPACE small LOCATION '{folder}'")
    server.execute(
        f"CREATE TABLE {table} (sample_id text, price double precision, filler text) TABLESPACE small"
    )
    server.execute(f"ALTER TABLE {table} ADD PRIMARY KEY (sample_id) USING INDEX TABLESPACE small")
    try:
        model = pk.load(bundle)
        with pytest.raises(DataError, match="No space left on device"):
            model.predict_file(server.address("products"), server.address(table))
        grow()
        model.predict_file(server.address("products"), server.address(table), resume=True)
        same(prices_in(server, table), products)
    finally:
        server.execute(f"DROP TABLE {table}", "DROP TABLESPACE small")


def test_a_full_disk_of_the_client_is_one_error(
    server, table, products, bundle, small_disk, pricekit, monkeypatch
):
    folder, grow = small_disk
    monkeypatch.setenv("PRICEKIT_CACHE", str(folder))
    words = ("predict", bundle, server.address("products"), "--out", server.address(table))
    code, _, errors = pricekit(*words)
    assert code == 4, errors
    assert "No space left on device" in errors
    assert watched(server, table) is None
    grow()
    code, _, errors = pricekit(*words)
    assert code == 0, errors
    same(prices_in(server, table), products)


def test_an_id_that_occurs_twice_is_refused(server, table, bundle, tmp_path):
    frame = pk.make_catalog(50, seed=4)
    pd.concat([frame, frame.head(3)]).to_parquet(tmp_path / "new.parquet")
    with pytest.raises(DataError, match="3 ids of the table stand for several rows"):
        pk.load(bundle).predict_file(tmp_path / "new.parquet", server.address(table))
    assert watched(server, table) is None


def test_a_table_without_ids_is_refused(server, table, bundle, tmp_path):
    pk.make_catalog(50, seed=4).drop(columns="sample_id").to_csv(tmp_path / "new.csv", index=False)
    with pytest.raises(DataError, match="has no id column"):
        pk.load(bundle).predict_file(tmp_path / "new.csv", server.address(table))


def test_another_price_is_a_conflict_only_if_it_is_asked_for(server, table, products, bundle):
    model = pk.load(bundle)
    model.predict_file(server.address("products"), server.address(table))
    server.execute(f"UPDATE {table} SET price = 1 WHERE sample_id = 'P020099'")
    with pytest.raises(DataError, match="another price for the id 'P020099'"):
        model.predict_file(server.address("products"), server.address(table), on_conflict="error")
    model.predict_file(server.address("products"), server.address(table))
    same(prices_in(server, table), products)


def test_a_training_and_a_check_read_a_table_once(server, table, tmp_path):
    frame = pk.make_catalog(200, seed=5)
    import pyarrow as pa

    with server.connect() as connection, connection.cursor() as cursor:
        cursor.adbc_ingest(table, pa.Table.from_pandas(frame, preserve_index=False), mode="create")
    report = pk.check(server.address(table))
    assert (report.rows, report.price, report.text) == (200, "price", ("catalog_content",))
    settings = {"backbone.vocab_size": 300, "backbone.width": 8, "training.refit": False}
    model = pk.train(
        server.address(table), out=tmp_path / "run", epochs=1, features="fast15", settings=settings
    )
    assert model.evaluate(server.address(table)).rows == 200
    assert str(server.folder) not in "".join(
        file.read_text("utf-8") for file in (tmp_path / "run").glob("*.json") if file.is_file()
    )


def test_threads_that_read_leave_none_behind(server, products, bundle):
    before = threading.active_count()
    pk.read_table(server.address("products"), limit=5, text="catalog_content")
    assert threading.active_count() <= before
