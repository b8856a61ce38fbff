"""Prediction by workers against one process, and kills: without a cluster, and with a single trial."""

import random

import kills
import pandas as pd
import pytest
from cluster import in_turn, lines, ways_of, write_folder

import pricekit as pk


@pytest.fixture
def table(tmp_path):
    pk.make_catalog(30).to_csv(tmp_path / "table.csv", index=False)
    return tmp_path / "table.csv"


def test_rows_are_repeated_in_partitions(table, tmp_path):
    write_folder(table, tmp_path / "new", 50, 6)
    assert len(list((tmp_path / "new").glob("day=*/*.parquet"))) == 6
    found = pd.read_parquet(tmp_path / "new")
    assert sorted(found["sample_id"]) == list(range(50))
    assert "price" not in found


def test_ways_take_turns_and_are_compared_within_a_round():
    asked = []

    def seconds(way):
        asked.append(way)
        return 1.0 / way["processes"]

    found = in_turn(ways_of("ray"), seconds, 2)
    assert asked == list(ways_of("ray").values()) * 3
    assert lines(found, 10)[0] == ["one process", "10", "1.00", "1.00"]
    assert lines(found, 10)[3] == ["two workers", "20", "2.00", "2.00"]


def test_a_killed_command_is_resumed_and_compared(bundle, table, tmp_path):
    write_folder(table, tmp_path / "new", 60, 2)
    expected = {f"prices/{name}": b"" for name in ("missing", "different")}
    words = [kills.sys.executable, "-m", "pricekit", "predict", str(bundle), str(tmp_path / "new")]
    plan = kills.Plan([*words, "--engine", "ort-cpu"], "", 2)
    found = kills.trial(plan, tmp_path / "trial", kills.kill_driver, expected, random.Random(0))
    assert found.problem.startswith("missing: prices/different, prices/missing; left: prices/_pricekit/day=0")
    again = kills.trial(
        plan, tmp_path / "trial", kills.kill_driver, kills.content(tmp_path / "trial"), random.Random(0)
    )
    assert not again.problem
    assert kills.summary([found, again])[0] == "2"


def test_differences_are_named():
    assert not kills.difference({"a": b"1"}, {"a": b"1"})
    found = kills.difference({"a": b"1", ".a.tmp": b""}, {"a": b"2", "b": b""})
    assert found == "missing: b; left: .a.tmp; different: a"
