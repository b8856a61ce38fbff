"""A function in a new process: its result, its error, and its end."""

import os

import pytest

from pricekit.errors import DataError, PluginError
from pricekit.io.new_process import in_new_process


def facts(argument):
    print("a plugin prints")
    return argument, os.getpid(), hash("tea")


def fails(argument):
    raise DataError("no tea", parameters=("table",), column=argument)


def ends(argument):
    os._exit(argument)


def test_the_result_comes_from_another_process_with_another_hash():
    argument, process, seed = in_new_process(f"{__name__}:facts", ["tea"])
    assert argument == ["tea"]
    assert process != os.getpid()
    assert seed != hash("tea")


def test_an_error_keeps_its_class_and_its_facts(raises):
    with raises(DataError, "table", column="title"):
        in_new_process(f"{__name__}:fails", "title")


def test_a_process_that_ends_early_is_an_error():
    with pytest.raises(PluginError, match=r"ended without a result \(exit code 7\)"):
        in_new_process(f"{__name__}:ends", 7)
