"""Names and messages of all checks; creating the list runs nothing."""

import subprocess
import sys
from typing import Annotated

import pytest
from pydantic import BaseModel, Field

from pricekit.config import Search
from pricekit.core.registry import KINDS
from pricekit.errors import PluginError
from pricekit.testing import Check, CheckFailed, check_feature, checks_of


def never():
    raise AssertionError("the plugin was made")


@pytest.mark.parametrize("kind", KINDS)
def test_a_list_runs_nothing_and_its_names_are_distinct(kind, raises):
    checks = checks_of(kind, never)
    assert len({str(check) for check in checks}) == len(checks) >= 6
    for check in checks:
        with raises(CheckFailed):
            check()


def test_an_unknown_kind_is_an_error(raises):
    with raises(PluginError):
        checks_of("metric", never)


def test_a_check_has_a_name_and_is_callable():
    called = []
    check = Check("of mine", lambda: called.append(1))
    check()
    assert (str(check), called) == ("of mine", [1])


def test_a_missing_library_is_named_with_its_extra(monkeypatch, raises):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "pricekit.testing.models", raising=False)
    monkeypatch.delitem(sys.modules, "pricekit.testing.loss", raising=False)
    with raises(PluginError):
        checks_of("loss", never)


def test_a_failure_names_the_location_in_the_plugin(raises):
    class Fails:
        names = ("a",)

        def fit(self, table):
            return [].index(table)

        def transform(self, table, state):
            """Never reached."""

    check = next(c for c in check_feature(Fails) if c.name == "state is JSON")
    with raises(CheckFailed) as raised:
        check()
    assert isinstance(raised.value.__cause__, ValueError)


def test_an_interrupt_is_not_caught():
    def interrupted():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        check_feature(interrupted)[0]()


def test_importing_it_imports_nothing_heavy():
    code = (
        "import sys, pricekit.testing as t; t.check_feature(object); t.check_engine(object);"
        "heavy = {'torch', 'transformers', 'onnx', 'onnxruntime', 'pytest'} & set(sys.modules); assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(("high", "valid"), [(9, True), (90, False)])
def test_the_range_of_an_option_contains_valid_values_only(high, valid, raises):
    class Counts:
        names = ("a",)

        class Options(BaseModel):
            most: Annotated[int, Search(1, high)] = Field(5, ge=1, le=10)
            rate: Annotated[float | None, Search(times=3)] = None

        def __init__(self, options):
            """Without a use for them."""

        def fit(self, table):
            return {}

        def transform(self, table, state):
            """Never called."""

    check = next(c for c in check_feature(Counts) if c.name == "has transform")
    if valid:
        check()
        return
    with raises(CheckFailed):
        check()
