"""What a launcher says in the environment."""

import pytest

from pricekit.training.launched import launched_count, launched_rank


@pytest.mark.parametrize(
    ("environment", "rank", "count"),
    [({}, 0, 1), ({"RANK": "1", "WORLD_SIZE": "2"}, 1, 2), ({"RANK": "3"}, 0, 1)],
)
def test_rank_and_count(monkeypatch, environment, rank, count):
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert (launched_rank(), launched_count()) == (rank, count)
