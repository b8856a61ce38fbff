"""A plugin whose class does not derive from the base class of its kind gets the defaults of that class."""

from types import SimpleNamespace

import numpy as np
import pluggy
import pytest
import torch
from torch import nn

from pricekit import plugin
from pricekit.core.registry import Entry, Registry, completed
from pricekit.errors import PluginError


class Length:
    """A feature without the base class."""

    names = ("length",)

    def __init__(self, factor: float = 1) -> None:
        self.factor = factor

    def transform(self, table, state):
        return np.full((1, 1), self.factor, np.float32)


def test_a_class_without_the_base_class_gets_its_defaults():
    made = completed("feature", Length(3))
    assert isinstance(made, Length)
    assert isinstance(made, plugin.Feature)
    assert (made.names, made.columns, made.uses_price, made.fit(None)) == (("length",), (), False, {})
    assert made.transform(None, {}) == 3
    assert type(made).__name__ == "Length"
    assert type(made) is type(
        completed("feature", Length())
    )  # one class, so that both can be pickled and compared
    assert not isinstance(Length(), plugin.Feature)  # the author's class stays as it is


def test_a_class_with_the_base_class_stays_as_it_is():
    class Own(plugin.Feature):
        names = ("a",)

    assert type(completed("feature", Own())) is Own


def test_a_network_without_the_base_class_is_still_one():
    class Absolute(nn.Module):
        central = False

        def __init__(self):
            super().__init__()
            self.register_buffer("scale", torch.ones(()))

        def forward(self, raw, price):
            return (raw - price.log()).abs().mean()

        def to_price(self, raw):
            return raw.exp()

    made = completed("loss", Absolute())
    assert (made.central, set(made.state_dict())) == (False, {"scale"})
    assert made(torch.zeros(2, 1), torch.ones(2, 1)) == 0
    made.fit(torch.ones(3))


def test_a_class_with_slots_cannot_be_completed(raises):
    class Slotted:
        __slots__ = ("names",)

    with raises(PluginError):
        completed("feature", Slotted())


@pytest.mark.parametrize("thing", [SimpleNamespace(names=("a",)), np.float32(3), len, None], ids=str)
def test_an_object_of_no_class_of_the_author_is_refused(thing):
    with pytest.raises(PluginError, match=r"is no engine: .*; derive it from pricekit.plugin.Engine"):
        completed("engine", thing)


def test_a_function_may_create_a_plugin_and_gets_the_defaults(tmp_path, monkeypatch):
    source = "class Own:\n    names = ('a',)\ndef make():\n    return Own()\n"
    (tmp_path / "made_by_function.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    known = Registry(pluggy.PluginManager("pricekit"))
    known.add([Entry("feature", "own", "made_by_function:make", "", "mine", "1")])
    made = known.create("feature", "own")
    assert (made.names, made.columns, made.fit(None)) == (("a",), (), {})


def test_a_loss_names_its_bases_in_the_order_that_uses_terms():
    with pytest.raises(TypeError, match=r"write class Wrong\(plugin.Loss, nn.Module\), in this order"):

        class Wrong(nn.Module, plugin.Loss):
            def terms(self, raw, price):
                return raw

    class Right(plugin.Loss, nn.Module):
        def terms(self, raw, price):
            return raw - price

    assert Right()(torch.ones(2, 1), torch.zeros(2, 1)) == 1
