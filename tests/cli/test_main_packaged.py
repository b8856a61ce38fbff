"""Commands that packages add."""

import pytest

from pricekit.cli import main

COMMAND = """
import click
from pricekit.plugin.commands import show_data

print("noise")

@click.command()
@click.argument("rows", type=int)
def shelf(rows):
    \"""Count shelves.\"""
    show_data(f"{rows} rows fit")

sign = "not a command"
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Install a package with these entry points and sources, in the form that pip uses."""

    def put(name, points, **sources):
        for module, source in sources.items():
            (tmp_path / f"{module}.py").write_text(source)
        facts = tmp_path / f"{name}-1.0.dist-info"
        facts.mkdir()
        (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (facts / "entry_points.txt").write_text(f"[{main.GROUP}]\n{points}\n")
        monkeypatch.syspath_prepend(tmp_path)

    return put


def test_a_package_adds_a_command(pricekit, install):
    install("price-shelf", "shelf = price_shelf:shelf", price_shelf=COMMAND)
    assert pricekit("shelf", "3") == (0, "3 rows fit\n", "noise\n")
    assert "--log-format" in pricekit("shelf", "--help")[1]
    assert "shelf" not in pricekit("--help")[1]  # which imports no package


def test_a_built_in_command_keeps_its_name(pricekit, install):
    install("price-shelf", "inspect = price_shelf:shelf", price_shelf=COMMAND)
    assert "Count shelves" not in pricekit("bundle", "inspect", "--help")[1]


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("gone_away:shelf", "No module named 'gone_away'. Install what is missing, or upgrade price-shelf"),
        ("price_shelf:sign", "names a str; expected a click.Command: price_shelf:sign"),
    ],
)
def test_a_command_that_cannot_be_loaded_is_named(pricekit, install, target, reason):
    install("price-shelf", f"shelf = {target}", price_shelf=COMMAND)
    code, _, err = pricekit("shelf", "3")
    assert (code, reason in err) == (3, True), err


def test_a_known_command_says_which_package_it_needs(pricekit, monkeypatch):
    monkeypatch.setattr(main, "PACKAGES", {"weigh": "Weigh products."})
    code, _, err = pricekit("weigh", "bundle")
    assert (code, "pip install pricekit-weigh" in err) == (3, True)
    assert "Weigh products" not in pricekit("--help")[1]


def test_installed_packages_are_listed(pricekit, install, monkeypatch):
    monkeypatch.setattr(main, "PACKAGES", {"weigh": "Weigh products."})
    install("pricekit-weigh", "weigh = pricekit_weigh:shelf", pricekit_weigh=COMMAND)
    assert "Weigh products." in pricekit("--help")[1]
    assert pricekit("weigh", "2")[1] == "2 rows fit\n"


def test_a_misspelled_name_is_corrected(pricekit):
    code, _, err = pricekit("serv", "bundle")
    assert (code, "Did you mean 'serve'?" in err) == (2, True)
