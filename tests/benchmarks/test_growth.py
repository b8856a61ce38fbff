import pytest
from growth import Cost, cost, exponent, lines


def test_the_exponent_is_that_of_a_power_law():
    rows = [10, 100, 1000]
    assert exponent(rows, [3 * count**1.5 for count in rows]) == pytest.approx(1.5)


def test_sizes_and_exponents_are_shown():
    found = lines([Cost(10, 1.0, 10**9, 10**6), Cost(1000, 100.0, 10**9, 10**7)])
    assert found[0] == ["10", "1.0", "10", "1.00", "1.0"]
    assert found[-1] == ["exponent", "1.00", "", "0.00", "0.50"]


def test_a_command_is_watched(bundle, catalog, tmp_path):
    out = tmp_path / "prices.csv"
    found = cost(400, out, "predict", bundle, catalog, "--out", out, "--engine", "ort-cpu")
    assert found.disk == out.stat().st_size
    assert found.seconds > 0
    assert found.memory > 50_000_000  # an interpreter with numpy and pandas


def test_a_command_that_fails_ends_the_benchmark(tmp_path, capfd, raises):
    with raises(SystemExit):
        cost(1, tmp_path, "check", "nothing")
