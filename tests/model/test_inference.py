import numpy as np
import pytest
import torch

from pricekit.model.inference import predict, torch_engine
from pricekit.preprocess import Inputs
from pricekit.testing.data import FEATURES
from pricekit.testing.models import small_model
from pricekit.tokens import Tokens

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
