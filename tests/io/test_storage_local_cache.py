from pathlib import Path

from platformdirs import user_cache_path

from pricekit.io.storage import Address, cache_folder, working_path


def test_the_variable_moves_the_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("PRICEKIT_CACHE", str(tmp_path / "mine"))
    assert cache_folder() == tmp_path / "mine"
    monkeypatch.delenv("PRICEKIT_CACHE")
    assert cache_folder() == user_cache_path("pricekit")


def test_a_local_output_is_its_own_working_path():
    with working_path(Path("a/b.csv")) as path:
        assert path == Path("a/b.csv")


def test_a_remote_output_has_a_place_that_depends_on_its_address(tmp_path):
    one, again, other = (working_path(Address(f"s3://{bucket}/x.csv")) for bucket in "aab")
    with one as first, again as second, other as third:
        assert first == second != third
        assert first.name == "x.csv"
        first.touch()
    assert first.is_file()
    assert not third.parent.exists()


def test_a_stream_has_a_temporary_place():
    with working_path(Address("-")) as one, working_path(Address("-")) as other:
        assert one != other
        assert one.parent.is_dir()
    assert not one.parent.exists()
