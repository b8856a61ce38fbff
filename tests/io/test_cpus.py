import math
import os
import time

import pytest

from pricekit.io import cpus
from pricekit.io.cpus import available_memory, cpu_quota, in_threads, limit_spinning, usable_cpus


@pytest.fixture
def cgroup(tmp_path):
    """Return a function that writes a membership file and the group files, and returns the quota."""

    def write(membership, **files):
        (tmp_path / "cgroup").write_text(membership)
        for name, text in files.items():
            file = tmp_path / "fs" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return cpu_quota(tmp_path / "cgroup", tmp_path / "fs")

    return write


def test_a_quota_of_version_2(cgroup):
    assert cgroup("0::/pods/a\n", **{"pods/a/cpu.max": "150000 100000\n"}) == 1.5


def test_the_smallest_quota_on_the_way_to_the_root_counts(cgroup):
    files = {"pods/a/cpu.max": "max 100000\n", "pods/cpu.max": "50000 100000\n", "cpu.max": "200000 100000\n"}
    assert cgroup("0::/pods/a\n", **files) == 0.5


def test_a_container_sees_its_own_group_as_the_root(cgroup):
    assert cgroup("0::/host/path/that/is/hidden\n", **{"cpu.max": "300000 100000\n"}) == 3


def test_a_quota_of_version_1(cgroup):
    files = {
        "cpu,cpuacct/box/cpu.cfs_quota_us": "250000\n",
        "cpu,cpuacct/box/cpu.cfs_period_us": "100000\n",
        "cpuset/box/cpu.max": "1 100000",
    }
    assert cgroup("4:cpuset:/box\n3:cpu,cpuacct:/box\n", **files) == 2.5


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"cpu.max": "max 100000\n"},
        {"cpu.max": "?\n"},
        {"cpu.cfs_quota_us": "-1\n", "cpu.cfs_period_us": "100000\n"},
    ],
)
def test_no_quota(cgroup, files):
    assert cgroup("0::/\n", **files) == math.inf


def test_no_control_groups(tmp_path):
    assert cpu_quota(tmp_path / "absent", tmp_path) == math.inf


@pytest.mark.parametrize(("quota", "expected"), [(math.inf, 4), (9.0, 4), (1.5, 2), (0.2, 1)])
def test_usable_cpus_are_limited_by_affinity_and_quota(monkeypatch, quota, expected):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2, 3}, raising=False)
    monkeypatch.setattr(cpus, "cpu_quota", lambda membership, root: quota)
    assert usable_cpus() == expected


def test_without_affinity_every_cpu_counts(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    monkeypatch.setattr(cpus, "cpu_quota", lambda membership, root: math.inf)
    assert usable_cpus() == 3


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, "1000"),
        ({"GOMP_SPINCOUNT": "7"}, "7"),
        ({"OMP_WAIT_POLICY": "ACTIVE"}, None),
    ],
)
def test_the_wait_policy_of_the_user_takes_precedence(monkeypatch, given, expected):
    environment = dict(given)
    monkeypatch.setattr(os, "environ", environment)
    limit_spinning()
    assert environment.get("GOMP_SPINCOUNT") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("MemTotal: 9 kB\nMemAvailable:    5 kB\n", 5120), ("MemTotal: 9 kB\n", math.inf), (None, math.inf)],
)
def test_the_memory_that_is_available(tmp_path, monkeypatch, text, expected):
    monkeypatch.setattr(cpus, "_MEMORY", tmp_path / "meminfo")
    if text:
        (tmp_path / "meminfo").write_text(text)
    assert available_memory() == expected


@pytest.mark.parametrize("count", [1, 3])
def test_results_of_threads_come_in_order(monkeypatch, count):
    monkeypatch.setattr(cpus, "usable_cpus", lambda: count)
    read = []

    def items():
        for number in range(20):
            read.append(number)
            yield number

    found = in_threads(lambda number: time.sleep(0.001 * (number % 3)) or 2 * number, items())
    assert next(found) == 0
    assert len(read) <= count + 1
    assert list(found) == list(range(2, 40, 2))


@pytest.mark.parametrize("count", [1, 3])
def test_an_error_in_a_thread_is_raised(monkeypatch, count):
    monkeypatch.setattr(cpus, "usable_cpus", lambda: count)
    found = in_threads(lambda number: 1 / number, [2, 0, 4])
    assert next(found) == 0.5
    with pytest.raises(ZeroDivisionError):
        list(found)
