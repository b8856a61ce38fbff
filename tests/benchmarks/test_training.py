"""The training benchmark on a tiny encoder: its counts and reports, not its speed."""

import json

import numpy as np
import pytest
import torch
import training_speed
from speed.peers import PEERS, TokenisedWhenFetched
from speed.training import _switches, measure
from speed.workload import (
    fresh_model,
    make_workload,
    matmul_peak,
    own_epoch,
    padding,
    read_workload_table,
    training_flops,
)

from pricekit.config.resolve import configure
from pricekit.errors import ConfigError

CPU = torch.device("cpu")
TINY = {
    "backbone": {"name": "transformer", "vocab_size": 300, "width": 16, "layers": 1, "heads": 2},
    "features": ["fast15"],
    "max_length": 48,
    "training": {"batch_size": 8, "learning_rate": 1e-3, "gradient_accumulation_steps": 2},
}


@pytest.fixture(scope="module")
def workload():
    config = configure([TINY])
    return make_workload(config, read_workload_table(None, config).take(np.arange(40)), 40)


def test_the_workload_is_the_rows_asked_for(workload):
    assert workload.rows == len(workload.table) == 40
    lengths = workload.examples.inputs.tokens.lengths
    assert workload.tokens == lengths.sum()
    assert lengths.max() <= 48
    assert 1 <= padding(workload) < 1.5


def test_padding_is_counted_as_the_batches_are(workload):
    full = make_workload(configure([TINY, {"speed": {"pad_to_multiple_of": 48}}]), workload.table, 40)
    assert padding(full) == pytest.approx(40 * 48 / workload.tokens)


def test_flops_are_six_per_weight_of_a_linear_layer(workload):
    weights = 4 * 16 * 16 + 2 * 16 * 64  # attention, then the two of the block
    assert training_flops(workload.model) == 6 * weights


def test_an_epoch_trains_every_row_once(workload, monkeypatch):
    session, run = own_epoch(workload)
    before = session.job.model.state_dict()["heads.0.0.weight"].clone()
    seen = []
    monkeypatch.setattr(session.stepper, "take", lambda batches, key: seen.append(batches) or torch.zeros(()))
    run()
    prices = np.concatenate([b["price"].numpy() for step in seen for _, b, _ in step])
    assert sorted(prices) == sorted(workload.examples.price.astype(np.float32))
    assert torch.equal(before, workload.model.state_dict()["heads.0.0.weight"])


def test_the_seed_loop_pads_each_text_to_the_full_length(workload):
    rows = TokenisedWhenFetched(workload)
    assert len(rows) == 40
    tokens = workload.examples.inputs.tokens
    for row in (0, 7):
        found = rows[row]
        assert found["input_ids"].shape == (48,)
        expected = tokens.ids[tokens.offsets[row] : tokens.offsets[row + 1]]
        assert found["input_ids"][: len(expected)].tolist() == expected.tolist()
        assert int(found["attention_mask"].sum()) == len(expected)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", PEERS)
def test_a_peer_trains_on_all_rows_and_does_not_change_the_workload(workload, name, monkeypatch):
    before = {n: t.clone() for n, t in workload.model.state_dict().items()}
    counted = []
    original = type(workload.model).training_loss

    def counting(self, **batch):
        counted.append(len(batch["price"]))
        loss = original(self, **batch)
        assert loss.isfinite()
        return loss

    monkeypatch.setattr(type(workload.model), "training_loss", counting)
    run = PEERS[name][1](workload, "fp32", CPU)
    run()
    assert sum(counted) == 40
    assert all(torch.equal(t, before[n]) for n, t in workload.model.state_dict().items())


@pytest.mark.filterwarnings("ignore")
def test_a_measurement_has_a_line_for_each_contender_and_switch(workload, monkeypatch):
    monkeypatch.setattr(
        "speed.training.SWITCHES",
        {
            "sorting by length": {"speed": {"sort_window": 1}},
            "impossible": {"speed": {"precision": "fp16"}},
        },
    )
    found = measure(workload, ["bare"], 1, ablate=True)
    assert found.own.rows_per_second * workload.tokens == pytest.approx(
        found.own.tokens_per_second * workload.rows
    )
    assert [line.name for line in found.peers] == ["torch alone, same batches"]
    lines = {line.name: line for line in found.switches}
    assert set(lines) == {"sorting by length", "impossible", "padding to the batch's longest"}
    assert "needs a CUDA GPU" in lines["impossible"].note
    assert 0 < found.facts["share of it"] < 1
    assert matmul_peak("fp32", CPU, workload.config.speed, size=64, rounds=1) > 0


def test_contenders_have_equal_but_separate_weights(workload):
    batch = {n: torch.from_numpy(a) for n, a in workload.examples.inputs.batch(np.arange(4)).items()}
    one, other = fresh_model(workload).eval(), fresh_model(workload).eval()
    expected = workload.model.eval()(**batch)
    assert torch.equal(one(**batch), expected)
    with torch.no_grad():
        for parameter in one.parameters():
            parameter.zero_()
    assert torch.equal(other(**batch), expected)


def test_only_switches_with_an_effect_are_changed(workload):
    names = set(_switches(workload, "fp32", CPU))
    assert {"sorting by length", "no gradient checkpointing", "no compile"} <= names
    assert not names & {"gradient checkpointing", "compile", "worker processes", "TF32", "bf16"}
    layer = {"speed": {"gradient_checkpointing": True, "sort_window": 1}}
    other = make_workload(configure([TINY, layer]), workload.table, 40)
    names = set(_switches(other, "fp32", CPU))
    assert "gradient checkpointing" in names
    assert not names & {"no gradient checkpointing", "sorting by length"}


COMMAND = (
    *("--backbone", "transformer", "--set", "backbone.width=16", "--set", "backbone.layers=1"),
    *("--set", "backbone.vocab_size=300", "--set", "features=['fast15']", "--max-length", "32"),
    *("--set", "training.batch_size=8", "--rows", "16", "--repeats", "1"),
)


def test_json_contains_every_metric(capsys):
    training_speed.main([*COMMAND, "--peer", "bare", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert found["facts"]["rows of a round"] == 16
    assert found["facts"]["tokens computed for each real one, whole table"] >= 1
    assert [line["name"] for line in found["peers"]] == ["torch alone, same batches"]
    assert found["peers"][0]["times"] > 0
    assert found["switches"] == []


@pytest.mark.slow
def test_rows_come_from_a_table(capsys, catalog):
    training_speed.main([str(catalog), *COMMAND])
    out = capsys.readouterr().out
    assert "real tokens/s" in out
    assert "tokens computed for each real one" in out


@pytest.mark.slow
def test_a_token_budget_is_timed(capsys):
    training_speed.main([*COMMAND, "--set", "training.batch_tokens=128", "--json"])
    assert json.loads(capsys.readouterr().out)["own"]["rows_per_second"] > 0


def test_bag_has_no_peers(raises):
    with raises(ConfigError):
        training_speed.main(["--rows", "16", "--peer", "hf", "--set", "backbone.vocab_size=500"])
