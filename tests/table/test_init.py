"""The exported names of the table package."""

from __future__ import annotations

import pytest

import pricekit.table


@pytest.mark.parametrize(("old", "new"), [("Reading", "ReadOptions"), ("AS_FOUND", "DEFAULT_READ_OPTIONS")])
def test_names_of_version_0_1_warn(old: str, new: str) -> None:
    with pytest.warns(DeprecationWarning, match=rf"pricekit\.table\.{old} is now pricekit\.table\.{new};"):
        assert getattr(pricekit.table, old) is getattr(pricekit.table, new)


def test_unknown_names_raise_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = pricekit.table.nothing


def test_all_exported_names_exist() -> None:
    assert all(hasattr(pricekit.table, name) for name in pricekit.table.__all__)
