"""A kernel that a package registers."""

import sys
import threading
from importlib.metadata import EntryPoint

import numpy as np
import pyarrow as pa
import pytest

from pricekit.core.loader import load
from pricekit.errors import PluginError
from pricekit.text import kernel as kernels
from pricekit.text.kernel import KERNEL, Kernel, ScannedWords, kernel, offer, using
from pricekit.text.labelled_lines import join_texts
from pricekit.text.words import Words

PACKAGE = """
from pricekit import plugin

class Mine(plugin.Kernel):
    version = {version}
    def __init__(self):
        {created}

@plugin.hookimpl
def pricekit_register_kernels(register):
    register("mine", "{name}:Mine", "a toy")
"""


class Sevens(Kernel):
    """Says that each text has seven words."""

    version = KERNEL

    def words(self, texts):
        each = [np.full(len(texts), 7)] * 5
        return ScannedWords(np.zeros(0, np.int64), np.zeros(0, np.uint64), *each)


@pytest.fixture
def registered(tmp_path, monkeypatch):
    def register(name, version=KERNEL, created="pass"):
        source = PACKAGE.format(name=name, version=version, created=created)
        (tmp_path / f"{name}.py").write_text(source)
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, name, raising=False)
        return load([EntryPoint(name, name, "pricekit")])

    return register


def test_a_kernel_replaces_python_where_there_is_one():
    texts = join_texts(pa.array(["green tea"], pa.large_string()))
    with using(Sevens()):
        assert Words(texts).count.tolist() == [7]
    with using(None):
        assert Words(texts).count.tolist() == [2]


def test_a_kernel_is_opened_once_when_it_is_needed(monkeypatch):
    monkeypatch.setattr(kernels, "_offer", None)
    opened, begin = [], threading.Barrier(4)

    def provide():
        opened.append(1)
        return Sevens()

    offer(provide)
    assert opened == []
    found = []
    threads = [threading.Thread(target=lambda: (begin.wait(), found.append(kernel()))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(opened), len(found), len(set(map(id, found)))) == (1, 4, 1)


def test_a_package_registers_a_kernel(registered):
    found = registered("toy_kernel")
    assert type(found.usable_kernel()).__name__ == "Mine"
    assert [entry.name for entry in found.of_kind("kernel")] == ["mine"]


@pytest.mark.parametrize(
    ("version", "created", "advice"),
    [
        (KERNEL + 1, "pass", "Upgrade pricekit"),
        (KERNEL - 1, "pass", "Upgrade toy_"),
        (KERNEL, "raise plugin.PluginError('no AVX2')", "no AVX2"),
        (KERNEL, "import does_not_exist", "does_not_exist"),
    ],
)
def test_python_computes_everything_if_a_kernel_does_not_fit(
    registered, raises, caplog, version, created, advice
):
    found = registered(f"toy_{version}_{len(created)}", version, created)
    assert found.usable_kernel() is None
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("Python computes what toy_")
    assert advice in line
    with raises(PluginError):
        found.kernel("mine")
