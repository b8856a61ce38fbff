"""Short forms of the loads of benchmarks/serving_load.py: every answer is checked."""

from collections import Counter

import pytest
from load.hostile import OPTIONS, Attack, attacks, run
from load.restarts import reloads, stops
from load.server import request, rows_body, serving
from load.silent import beside

GOOD = Attack("afterwards", (request(rows_body(["tea"])),), (200,))


def test_attacks_are_drawn_with_a_seed():
    found = attacks(600, 3)
    assert found == attacks(600, 3) != attacks(600, 4)
    kinds = Counter(attack.kind for attack in found)
    assert min(kinds[kind] for kind in ("wrong value", "nesting", "encoding", "framing", "pipelining")) > 40
    assert kinds["slow body"] == 12


def test_wrong_answers_are_found(served):
    with serving(str(served), OPTIONS) as server:
        found = run(server.port, [GOOD, Attack("status", GOOD.parts, (422,))])
    assert [problem.split(":")[0] for problem in found] == ["status"]


@pytest.mark.parametrize("count", [60, pytest.param(500, marks=pytest.mark.slow)])
def test_hostile_requests_get_the_right_statuses(served, count):
    chosen = [each for each in attacks(count, 0) if count > 60 or each.kind != "slow body"]
    with serving(str(served), OPTIONS) as server:
        assert run(server.port, chosen) == []
        assert run(server.port, [GOOD]) == []
        assert server.process.poll() is None
        assert not [line for line in server.lines if "Traceback" in line]


@pytest.mark.parametrize(
    ("files", "silent", "seconds"),
    [(128, 80, 1), pytest.param(128, 1000, 10, marks=pytest.mark.slow)],
)
def test_silent_clients_keep_nobody_out(served, texts, files, silent, seconds):
    sizes = {"silent": silent, "trickling": silent, "clients": 5}
    found = beside(str(served), texts[:100], seconds=seconds, files=files, **sizes)
    assert found.problems == {}
    assert len(found.seconds) > 5
    assert found.health
    assert found.most < files
    assert found.log < 100


@pytest.mark.slow
def test_sigterm_under_load_loses_nothing(served, texts):
    found = stops(str(served), texts, times=2)
    assert (found.wrong, found.lost, found.why) == (0, 0, [])
    assert found.answered > 10


@pytest.mark.slow
def test_reloads_under_load_lose_nothing(served, bundle, texts):
    found = reloads([str(bundle), str(served)], texts, times=4)
    assert (found.wrong, found.lost, found.why) == (0, 0, [])
    assert len(found.versions) == 2
