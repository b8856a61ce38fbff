"""Folders of vision models: complete ones, and ones that lack weights."""

import json

import numpy as np
import pytest
from pricekit_images.encoder import Encoder
from pricekit_images.weights import _read_once, read_weights

from pricekit.plugin import ConfigError

torch = pytest.importorskip("torch")

from safetensors.torch import load_file, save_file  # noqa: E402
from transformers import (  # noqa: E402
    SiglipConfig,
    SiglipModel,
    ViTConfig,
    ViTForImageClassification,
    ViTModel,
)

SIZE = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
CONFIG = ViTConfig(image_size=32, patch_size=16, **SIZE)


@pytest.fixture
def vit(tmp_path):
    torch.manual_seed(0)
    ViTModel(CONFIG).save_pretrained(tmp_path / "vit")
    return tmp_path / "vit"


def keep(folder, wanted):
    file = folder / "model.safetensors"
    kept = {name: tensor for name, tensor in load_file(file).items() if wanted(name)}
    save_file(kept or {"unrelated": torch.zeros(3)}, file, metadata={"format": "pt"})


def vector_of(folder, image):
    _read_once.cache_clear()
    graph, facts = read_weights(folder, 0)
    return Encoder(graph, facts).encode(image)


def test_without_weights_of_the_pooler_the_vector_is_the_mean_over_all_places(tmp_path):
    torch.manual_seed(0)
    model = ViTForImageClassification(CONFIG).eval()
    model.save_pretrained(tmp_path / "vit")
    image = torch.rand(1, 3, 32, 32)
    with torch.no_grad():
        expected = model.vit(pixel_values=image).last_hidden_state.mean(1)[0]
    for seed in range(2):
        torch.manual_seed(seed)
        assert np.allclose(vector_of(tmp_path / "vit", image.numpy()), expected, atol=1e-5)


def test_a_complete_model_gives_its_own_summary(vit):
    image = torch.rand(1, 3, 32, 32)
    with torch.no_grad():
        expected = ViTModel.from_pretrained(vit).eval()(pixel_values=image).pooler_output[0]
    assert np.allclose(vector_of(vit, image.numpy()), expected, atol=1e-5)


@pytest.mark.parametrize(
    "wanted",
    [
        lambda name: ".1." not in name,
        lambda name: False,
    ],
    ids=["a layer", "all"],
)
def test_missing_weights_are_refused(vit, wanted, raises):
    keep(vit, wanted)
    with raises(ConfigError, "settings"):
        vector_of(vit, None)


def test_weights_of_another_shape_are_named(vit, raises):
    config = json.loads((vit / "config.json").read_text())
    (vit / "config.json").write_text(json.dumps(config | {"intermediate_size": 48}))
    with raises(ConfigError, "settings"):
        vector_of(vit, None)


def test_the_text_model_beside_a_vision_model_may_be_missing(tmp_path, raises):
    text = SIZE | {"vocab_size": 50, "bos_token_id": 1, "eos_token_id": 2}
    vision = SIZE | {"image_size": 32, "patch_size": 16}
    SiglipModel(SiglipConfig(vision_config=vision, text_config=text)).save_pretrained(tmp_path)
    keep(tmp_path, lambda name: name.startswith("vision_model."))
    assert vector_of(tmp_path, np.zeros((1, 3, 32, 32), np.float32)).shape == (16,)
    keep(tmp_path, lambda name: "vision_model.embeddings" not in name)
    with raises(ConfigError, "settings"):
        vector_of(tmp_path, None)


def test_a_vision_config_that_is_no_object_is_refused(vit, raises):
    (vit / "config.json").write_text('{"model_type": "siglip", "vision_config": "large"}')
    with raises(ConfigError, "settings"):
        vector_of(vit, None)
