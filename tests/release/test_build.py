"""Wheels and source distributions are the same bytes each time, and complete."""

import hashlib
import tarfile
import zipfile

import pytest

from release import build


@pytest.fixture
def lion(monkeypatch):
    """Build one small package only."""
    pytest.importorskip("build", reason="build is not installed: pip install build hatchling")
    pytest.importorskip("hatchling", reason="hatchling is not installed: pip install build hatchling")
    monkeypatch.setattr(build, "PROJECTS", [build.ROOT / "plugins" / "pricekit-lion"])


def test_the_time_is_that_of_the_commit_or_the_given_one(monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    assert build.commit_time() == "86400"


def test_two_builds_are_equal_and_contain_the_licence(lion, monkeypatch, tmp_path):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "420000000")
    monkeypatch.setattr("sys.argv", ["build.py", str(tmp_path / "dist")])
    build.main()
    wheel, source = sorted((tmp_path / "dist").glob("pricekit*"))
    names = zipfile.ZipFile(wheel).namelist()
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert "pricekit_lion/py.typed" in names
    with tarfile.open(source) as archive:
        assert {member.mtime for member in archive} == {420000000}
    lines = (tmp_path / "dist" / "SHA256SUMS").read_text().splitlines()
    assert lines == [
        f"{hashlib.sha256(each.read_bytes()).hexdigest()}  {each.name}" for each in (wheel, source)
    ]


def test_a_file_that_differs_fails(lion, monkeypatch, tmp_path, raises):
    times = iter(["420000000", "430000000"])
    monkeypatch.setattr(build, "commit_time", lambda: next(times))
    monkeypatch.setattr("sys.argv", ["build.py", str(tmp_path / "dist")])
    with raises(SystemExit):
        build.main()


def test_the_compiled_package_is_built_for_each_machine(monkeypatch, tmp_path):
    platforms = []
    monkeypatch.setattr(build, "PROJECTS", [build.COMPILED, build.ROOT])
    monkeypatch.setattr(build, "commit_time", lambda: "420000000")
    monkeypatch.setattr(
        build.subprocess,
        "run",
        lambda command, env, **_: platforms.append((command[-1], env.get("PRICEKIT_PLATFORM"))),
    )
    assert build.build(tmp_path) == {}
    assert platforms == [
        (str(build.COMPILED), "manylinux_2_17_x86_64.manylinux2014_x86_64"),
        (str(build.COMPILED), "manylinux_2_17_aarch64.manylinux2014_aarch64"),
        (str(build.ROOT), None),
    ]


def test_files_of_an_earlier_release_stay(monkeypatch, tmp_path, raises):
    (tmp_path / "old.whl").write_text("x")
    monkeypatch.setattr("sys.argv", ["build.py", str(tmp_path)])
    with raises(SystemExit):
        build.main()
