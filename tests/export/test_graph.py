"""Exported attention, compared with torch's own."""

import errno
from types import SimpleNamespace

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch
from torch import nn

from pricekit.errors import ExportError
from pricekit.export.graph import OPSET, TRANSLATIONS, export_graph
from pricekit.nets.lstm import Lstm, LstmEncoder
from pricekit.predict.ort import GRAPH_INPUTS


class Attention(nn.Module):
    def __init__(self, kind, scale):
        super().__init__()
        self.kind, self.scale = kind, scale

    def forward(self, query, key, value, mask):
        given = {"none": None, "bool": mask > 0, "float": (1 - mask) * -30.0}[self.kind]
        return nn.functional.scaled_dot_product_attention(query, key, value, given, scale=self.scale)


@pytest.mark.filterwarnings("ignore")  # of the exporter itself
@pytest.mark.parametrize("kind", ["none", "bool", "float"])
@pytest.mark.parametrize("scale", [None, 0.7])
def test_attention_equals_that_of_torch(tmp_path, kind, scale):
    torch.manual_seed(0)
    query, key, value = (torch.randn(3, 2, 5, 4) for _ in range(3))
    mask = torch.ones(3, 1, 5, 5)
    mask[1, :, :, 3:] = 0
    model, path = Attention(kind, scale).eval(), tmp_path / "m.onnx"
    batch = torch.export.Dim("batch")
    shapes = {name: {0: batch} for name in ("query", "key", "value", "mask")}
    torch.onnx.export(
        model,
        (query, key, value, mask),
        path,
        input_names=list(shapes),
        dynamic_shapes=shapes if kind != "none" else None,
        opset_version=OPSET,
        dynamo=True,
        external_data=False,
        verbose=False,
        custom_translation_table=TRANSLATIONS,
    )
    session = ort.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])
    names = {put.name for put in session.get_inputs()}
    given = {"query": query, "key": key, "value": value, "mask": mask}
    found = session.run(None, {name: tensor.numpy() for name, tensor in given.items() if name in names})[0]
    assert found == pytest.approx(model(query, key, value, mask).numpy(), abs=1e-5)
    kinds = [node.op_type for node in onnx.load(path).graph.node]
    assert "IsNaN" not in kinds
    assert np.sum([kind == "MatMul" for kind in kinds]) == 2


class Recurrent(nn.Module):
    """Takes and returns what a graph of pricekit does."""

    encoder = loss = None

    def __init__(self):
        super().__init__()
        self.lstm = LstmEncoder(300, Lstm.Options(embedding=4, width=3, layers=2))

    def merged(self):
        return self

    def forward(self, input_ids, attention_mask, features):
        return self.lstm(input_ids, attention_mask).sum(1) + features.sum(1)


def test_an_lstm_is_one_operation_in_every_export_of_a_process(tmp_path):
    torch.manual_seed(0)
    model = Recurrent().eval()
    batch, shorter = lstm_batch(3, 9), lstm_batch(2, 4)
    expected = model(*(torch.from_numpy(shorter[name]) for name in GRAPH_INPUTS)).detach().numpy()
    for number in range(2):
        path = tmp_path / f"{number}.onnx"
        export_graph(model, batch, path)
        assert [node.op_type for node in onnx.load(path).graph.node].count("LSTM") == 4
        session = ort.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])
        assert session.run(None, shorter)[0] == pytest.approx(expected, abs=1e-6)


def lstm_batch(rows, length):
    """Return a batch in which one row is shorter than the others."""
    generator = np.random.default_rng(rows)
    mask = np.ones((rows, length), np.int64)
    mask[-1, length // 2 :] = 0
    ids = generator.integers(0, 300, (rows, length))
    features = generator.normal(size=(rows, 2)).astype(np.float32)
    return {"input_ids": ids, "attention_mask": mask, "features": features}


@pytest.mark.parametrize(
    ("cause", "raised"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), OSError),
        (KeyboardInterrupt(), KeyboardInterrupt),
        (MemoryError(), MemoryError),
        (ValueError("no kernel"), ExportError),
    ],
)
def test_a_full_disk_or_an_interrupt_is_not_blamed_on_the_model(monkeypatch, tmp_path, cause, raised):
    def export(*_, **__):
        try:
            raise cause
        except BaseException as error:
            raise RuntimeError("translation failed") from error

    monkeypatch.setattr(torch.onnx, "export", export)
    model = SimpleNamespace(eval=lambda: model, merged=lambda: model, encoder=None, loss=None)
    batch = {name: np.ones((2, 2), np.float32) for name in ("input_ids", "attention_mask", "features")}
    with pytest.raises(raised) as found:
        export_graph(model, batch, tmp_path / "m.onnx")
    assert raised is ExportError or "encoder" not in str(found.value)
