import numpy as np
import pytest
import torch

from pricekit.features.preprocess import Inputs
from pricekit.nets.inference import predict, torch_engine
from pricekit.testing.data import FEATURES
from pricekit.testing.models import small_model
from pricekit.text.tokens import Tokens

LENGTHS = [3, 1, 5, 2, 4, 7, 2]


@pytest.fixture
def inputs():
    offsets = np.cumsum([0, *LENGTHS])
    tokens = Tokens(np.arange(offsets[-1], dtype=np.int32) % 9, offsets)
    features = np.random.default_rng(0).normal(size=(len(LENGTHS), FEATURES)).astype(np.float32)
    return Inputs(tokens, features, 0)


def test_rows_keep_their_order_whatever_the_batches(inputs):
    torch.manual_seed(0)
    model = small_model()
    engine = torch_engine(model)
    alone = [engine(inputs.batch(np.array([row])))[0] for row in range(len(LENGTHS))]
    for size in (1, 3, 100):
        moved = []
        prices = predict(model, inputs, size, advance=lambda units, note="", moved=moved: moved.append(units))
        assert prices == pytest.approx(alone, rel=1e-5)
        assert sum(moved) == len(LENGTHS)
    assert prices.dtype == np.float32
    assert not model.training


def test_many_rows_are_priced_in_parts(inputs, monkeypatch):
    torch.manual_seed(0)
    model, read = small_model(), []
    expected = predict(model, inputs, 2)
    monkeypatch.setattr("pricekit.nets.inference.WINDOW_ROWS", 3)
    batch = Inputs.batch
    monkeypatch.setattr(Inputs, "batch", lambda self, rows: read.append(rows.tolist()) or batch(self, rows))
    assert predict(model, inputs, 2) == pytest.approx(expected, rel=1e-5)
    assert [{row // 3 for row in rows} for rows in read] == [{0}, {0}, {1}, {1}, {2}]


def test_prices_need_no_more_memory_than_there_is(inputs, monkeypatch):
    torch.manual_seed(0)
    model = small_model()
    expected = predict(model, inputs, 100)
    forward, sizes = model.forward, []

    def full(**batch):
        sizes.append(len(batch["features"]))
        if sizes[-1] > 2:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory")
        return forward(**batch)

    monkeypatch.setattr(model, "forward", full)
    assert predict(model, inputs, 100) == pytest.approx(expected, rel=1e-5)
    assert max(size for size in sizes if size <= 2) == 2
    monkeypatch.setattr(model, "forward", lambda **_: (_ for _ in ()).throw(MemoryError()))
    with pytest.raises(MemoryError):
        predict(model, inputs, 100)
