"""The contract of every backbone, with tiny sizes and no download."""

from dataclasses import replace

import numpy as np
import onnx
import pytest
import torch

from pricekit.config import HeadConfig
from pricekit.export.graph import export_graph
from pricekit.export.precision import convert
from pricekit.nets import transformer
from pricekit.nets.losses import smape
from pricekit.nets.lstm import Lstm
from pricekit.nets.network import PriceModel
from pricekit.nets.transformer import (
    DebertaOptions,
    Pretrained,
    PretrainedOptions,
    SmallTransformer,
)
from pricekit.predict.ort import load_cpu
from pricekit.text.tokens import encode, pad_id_of, pad_rows

TEXTS = [
    f"Item Name: {word} tea, {n} oz, pack of {n}"
    for n, word in enumerate(["green", "black", "white", "oolong"])
]
TINY = {"vocab_size": 120, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}


DEBERTAS = {
    "deberta-convolution": {"position_buckets": 8, "conv_kernel_size": 3, "conv_act": "gelu"},
    "deberta-short": {"position_buckets": 8, "max_position_embeddings": 24},
    "deberta-no-buckets": {"position_buckets": -1, "max_relative_positions": 40},
    "deberta-absolute": {"relative_attention": False, "position_biased_input": True},
}
"""What the weights of another DeBERTa may say."""


def tiny(architecture, options, **numbers):
    numbers = {**architecture.numbers, **TINY, "intermediate_size": 32, **numbers}
    return Pretrained(replace(architecture, numbers=numbers), options)


def make(name):
    random = {"random_weights": True}
    if name == "lstm":
        return Lstm(Lstm.Options(vocab_size=256, embedding=6, width=5))
    if name == "transformer":
        return SmallTransformer(SmallTransformer.Options(vocab_size=256, width=16, layers=2, heads=2))
    if name == "deberta":
        return tiny(transformer.DEBERTA_V3_SMALL, DebertaOptions(**random), position_buckets=8)
    if name in DEBERTAS:
        options = DebertaOptions(**random, slice_positions=False)
        return tiny(transformer.DEBERTA_V3_SMALL, options, **DEBERTAS[name])
    pooling = {"roberta-cls": "cls", "roberta-lead": "lead"}.get(name, "mean")
    return tiny(transformer.ROBERTA_BASE, PretrainedOptions(**random, pooling=pooling))


NAMES = ["lstm", "transformer", "roberta", "roberta-cls", "roberta-lead", "deberta"]


@pytest.fixture(params=NAMES)
def built(request):
    torch.manual_seed(0)
    backbone = make(request.param)
    tokenizer = backbone.tokenizer(TEXTS)
    pad_id = pad_id_of(tokenizer)
    tokens = encode(tokenizer, TEXTS, 32, pad_id)
    architecture = backbone.architecture(tokenizer)
    encoder = backbone.encoder(architecture, tokenizer, tokens).eval()
    ids, mask = map(torch.from_numpy, pad_rows(tokens, np.arange(len(TEXTS)), pad_id))
    return backbone, tokenizer, architecture, encoder, ids, mask


def test_layers_start_at_the_input_and_contain_the_parameters(built):
    *_, encoder, _, _ = built
    layers = encoder.layers
    assert len(layers) == 3
    held = {id(p) for layer in layers for p in layer.parameters()}
    assert held == {id(p) for p in encoder.parameters()}
    first = {id(p) for p in layers[0].parameters()}
    assert any(id(p) in first for n, p in encoder.named_parameters() if "embedding" in n)


def test_the_order_of_words_counts(built):
    *_, encoder, ids, mask = built
    turned = ids.clone()
    turned[:, [2, 4]] = ids[:, [4, 2]]
    assert not torch.allclose(encoder(turned, mask), encoder(ids, mask), atol=1e-7)


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("roberta-lead", *DEBERTAS)]
"""Exports that are like the others, half a minute together."""


@pytest.mark.parametrize("built", ["transformer", "deberta", *SLOW], indirect=True)
def test_it_exports_in_every_precision(built, tmp_path):
    *_, encoder, ids, mask = built
    model = PriceModel(encoder, HeadConfig(), smape(), 2)
    features = torch.randn(len(ids), 2)
    example = {"input_ids": ids.numpy(), "attention_mask": mask.numpy(), "features": features.numpy()}
    export_graph(model, example, tmp_path / "m.onnx")
    graph = (tmp_path / "m.onnx").read_bytes()
    kinds = {node.op_type for node in onnx.load_from_string(graph).graph.node}
    if built[0].options.model_fields_set != {"random_weights", "slice_positions"}:  # of another DeBERTa
        assert "Range" not in kinds  # counted on the CPU, from a shape, for a GPU to wait for
    engines = {
        1e-4: load_cpu(graph),
        2e-2: load_cpu(convert(graph, "fp16", [example]).model),
        0.5: load_cpu(convert(graph, "int8", [example]).model),
    }
    for rows, length in ((1, 1), (4, ids.shape[1]), (2, 3), (3, 40)):
        batch = {
            "input_ids": np.resize(ids.numpy(), (rows, length)),
            "attention_mask": np.resize(mask.numpy(), (rows, length)),
            "features": features.numpy()[:rows],
        }
        batch["attention_mask"][:, 0] = 1
        batch["attention_mask"] = np.minimum.accumulate(batch["attention_mask"], axis=1)
        with torch.no_grad():
            expected = model(**{name: torch.from_numpy(array) for name, array in batch.items()})
        for tolerance, engine in engines.items():
            assert engine(batch) == pytest.approx(expected.numpy(), rel=tolerance)
    for engine in (engines[1e-4], engines[0.5]):  # in int8, scales of a batch would differ by more
        alone = [engine({name: array[i : i + 1] for name, array in example.items()}) for i in range(len(ids))]
        assert engine(example) == pytest.approx(np.concatenate(alone), rel=1e-5)


def test_the_tokenizer_is_the_same_each_time():
    for name in NAMES:
        first, second = (make(name).tokenizer(TEXTS).to_str() for _ in range(2))
        assert first == second
