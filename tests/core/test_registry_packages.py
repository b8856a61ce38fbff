from types import SimpleNamespace

import pytest

from pricekit.core import registry


@pytest.fixture
def record(monkeypatch):
    """Return a function that sets what pip recorded about the installation of pricekit."""

    def set_record(text):
        found = SimpleNamespace(read_text={"direct_url.json": text}.get)
        monkeypatch.setattr(registry, "distribution", {"pricekit": found}.__getitem__)

    return set_record


def test_a_package_of_the_sources_is_installed_from_its_folder(record, tmp_path):
    sources = tmp_path / "my sources"
    (sources / "plugins" / "pricekit-serve").mkdir(parents=True)
    (sources / "plugins" / "pricekit-serve" / "pyproject.toml").write_text("")
    record(f'{{"url": "{sources.as_uri()}", "dir_info": {{"editable": true}}}}')
    expected = f"pip install '{sources}/plugins/pricekit-serve'"
    assert registry.install_command("pricekit-serve") == expected
    assert registry.install_command("other") == "pip install other"


@pytest.mark.parametrize(
    "text",
    [
        None,
        "no json",
        '{"url": "https://example.org/pricekit.whl", "archive_info": {}}',
        '{"url": "file:///gone/pricekit.whl", "archive_info": {}}',
        '{"url": "file:///gone", "dir_info": {}}',
        '{"url": "https://example.org/pricekit", "dir_info": {}}',
    ],
)
def test_otherwise_the_index_has_it(record, text):
    record(text)
    assert registry.install_command("pricekit-serve") == "pip install pricekit-serve"


def test_pricekit_need_not_be_installed(monkeypatch):
    def absent(name):
        raise registry.PackageNotFoundError(name)

    monkeypatch.setattr(registry, "distribution", absent)
    assert registry.install_command("a") == "pip install a"
