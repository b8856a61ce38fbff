"""Preparing a pretraining."""

from dataclasses import replace

import numpy as np
import torch

from pricekit.runs.pretraining import PretrainSettings, create_backbone, prepare_job

TINY = PretrainSettings(
    "transformer",
    {"width": 16, "layers": 1, "heads": 2, "vocab_size": 300},
    max_length=24,
    epochs=2,
    batch_size=8,
    learning_rate=0.01,
)


def test_facts_are_read_first_where_training_reads_them_first():
    texts = [f"Item Name: tea {n}\n{'long prose ' * 9}\nValue: {n}" for n in range(20)]
    found = {}
    for facts_first in (False, True):
        settings = replace(TINY, facts_first=facts_first)
        start = prepare_job(create_backbone(settings), settings, texts, torch.device("cpu"))
        row = start.train.take(np.array([0]))
        found[facts_first] = start.tokenizer.decode(row.ids.tolist()).replace(" ", "")
    assert "value" not in found[False]
    assert found[True].index("value") < found[True].index("prose")
