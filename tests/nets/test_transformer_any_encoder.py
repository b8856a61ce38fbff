"""Backbone `encoder`: any family of transformers, from a folder of weights."""

import json
import shutil

import pytest
import torch
from tokenizers import Tokenizer, models

from pricekit.core.loader import registry
from pricekit.errors import ConfigError
from pricekit.text.tokens import encode, pad_id_of
from tests.nets.tiny_weights import KINDS, TEXTS


@pytest.fixture
def copy(folders, tmp_path):
    return lambda kind: shutil.copytree(folders(kind), tmp_path / "weights")


def backbone_of(folder, **options):
    return registry().create("backbone", "encoder", {"weights": str(folder), **options})


def built(backbone):
    tokenizer = backbone.tokenizer(TEXTS)
    tokens = encode(tokenizer, TEXTS, 32, pad_id_of(tokenizer))
    architecture = json.loads(json.dumps(backbone.architecture(tokenizer)))
    return tokenizer, architecture, backbone.encoder(architecture, tokenizer, tokens)


def batch_of(tokenizer, lengths=(20, 7)):
    ids = torch.full((len(lengths), max(lengths)), pad_id_of(tokenizer))
    mask = torch.zeros_like(ids)
    for row, length in enumerate(lengths):
        ids[row, :length] = torch.arange(length) % 200 + 6
        mask[row, :length] = 1
    return ids, mask


@pytest.mark.parametrize("kind", KINDS)
def test_each_family_is_built_trained_and_opened_without_its_weights(folders, kind):
    backbone = backbone_of(folders(kind))
    tokenizer, architecture, encoder = built(backbone)
    assert backbone.max_length in (258, 256, None)  # RoBERTa's positions begin after the padding id
    ids, mask = batch_of(tokenizer)
    encoder.eval()
    found = encoder(ids, mask)
    assert found.shape == (2, encoder.hidden_size)
    other = torch.where(mask == 1, ids, 5)
    assert torch.allclose(found, encoder(other, mask), atol=1e-6)
    assert torch.allclose(found[1:], encoder(ids[1:, :7], mask[1:, :7]), atol=1e-5)
    with torch.autocast("cpu", torch.bfloat16):
        halved = encoder(ids, mask)
    assert halved.dtype == torch.float32
    assert torch.allclose(found, halved, atol=0.1)
    again = backbone_of("no/such/place/at/all").encoder(architecture, tokenizer, None)
    assert [p.requires_grad for p in again.parameters()] == [p.requires_grad for p in encoder.parameters()]
    again.load_state_dict(encoder.state_dict())
    assert torch.equal(again.eval()(ids, mask), found)
    places = [tensor.data_ptr() for tensor in encoder.state_dict().values() if tensor.numel()]
    assert len(set(places)) == len(places)  # safetensors stores no tensor under two names
    found.sum().backward()
    of_layers = {id(p) for layer in encoder.layers for p in layer.parameters()}
    assert id(encoder.embedding.weight) in {id(p) for p in encoder.layers[0].parameters()}
    assert len(encoder.layers) == (2 if kind == "albert" else 3)
    learned = [
        name for name, p in encoder.named_parameters() if p.grad is not None and id(p) not in of_layers
    ]
    assert all("norm" in name.lower() or ".ln." in name for name in learned)  # of the last layer's output


def test_the_weights_of_the_folder_are_loaded(folders):
    from safetensors.torch import load_file

    _, _, encoder = built(backbone_of(folders("xlm-roberta")))
    stored = load_file(folders("xlm-roberta") / "model.safetensors")
    own = encoder.model.state_dict()
    assert stored.keys() <= own.keys()
    assert all(torch.equal(own[name], tensor) for name, tensor in stored.items())


def test_pooling_and_prefix_come_from_the_files_of_sentence_transformers(copy):
    folder = copy("bert")
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(
        json.dumps(
            {
                "word_embedding_dimension": 32,
                "pooling_mode_cls_token": True,
                "pooling_mode_mean_tokens": False,
            }
        )
    )
    prompts = {"prompts": {"query": "tea: ", "document": "x"}, "default_prompt_name": "query"}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    tokenizer, architecture, encoder = built(backbone_of(folder))
    assert (architecture["pooling"], encoder.pooling) == ("cls", "cls")
    plain = backbone_of(folder, prefix="", pooling="lead")
    assert built(plain)[2].pooling == "lead"
    known = plain.tokenizer(TEXTS)
    assert tokenizer.encode("green").ids == known.encode("tea: green").ids != known.encode("green").ids


@pytest.mark.parametrize("stored", [{"pooling_mode_max_tokens": True}, {"pooling_mode_mean_tokens": True}])
def test_another_pooling_is_replaced_by_the_mean_and_said(copy, caplog, stored):
    folder = copy("bert")
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(stored))
    assert built(backbone_of(folder))[2].pooling == "mean"
    assert ("pooling_mode_max_tokens" in caplog.text) == ("pooling_mode_max_tokens" in stored)


def changed(**values):
    def change(folder):
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | values))

    return change


def pickled(folder):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def prompts(**values):
    text = json.dumps({"prompts": {"query": "query: "}} | values)
    return lambda folder: (folder / "config_sentence_transformers.json").write_text(text)


def tokenizer_of(**ids):
    def change(folder):
        known = Tokenizer(models.WordLevel(ids, unk_token="tea"))
        known.save(str(folder / "tokenizer.json"))
        changed(pad_token_id=None)(folder)

    return change


def without_a_shard(folder):
    (folder / "model.safetensors").rename(folder / "model-1.safetensors")
    names = {"a": "model-1.safetensors", "b": "model-2.safetensors", "c": "model-3.safetensors"}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": names}))


BAD = {
    "own code": changed(model_type="magicbert", auto_map={"AutoModel": "modeling.MagicBert"}),
    "decoder": changed(model_type="gpt2"),
    "seq2seq": changed(model_type="bart"),
    "padding": changed(model_type="fnet"),
    "length": changed(model_type="longformer"),
    "other family": changed(model_type="distilbert"),
    "number": changed(model_type=3),
    "pickled": pickled,
    "no tokenizer": lambda folder: (folder / "tokenizer.json").unlink(),
    "bad tokenizer": lambda folder: (folder / "tokenizer.json").write_text("{}"),
    "no weights": lambda folder: (folder / "model.safetensors").unlink(),
    "bad pooling": lambda folder: (
        (folder / "1_Pooling").mkdir(),
        (folder / "1_Pooling" / "config.json").write_text("{"),
    ),
    "heads": changed(num_attention_heads=5),
    "text as a size": changed(hidden_size="x"),
    "text as a length": changed(max_position_embeddings="512"),
    "activation": changed(hidden_act="nix"),
    "padding id": changed(pad_token_id=999),
    "padding as text": changed(pad_token_id="0"),
    "prompts": prompts(default_prompt_name=["a"]),
    "other tokenizer": tokenizer_of(tea=0, cup=300),
    "no padding": tokenizer_of(tea=5, cup=299),
    "vocabulary": changed(vocab_size=400),
    "width": changed(intermediate_size=48),
    "no shard": without_a_shard,
    "bad index": lambda folder: (pickled(folder), (folder / "model.safetensors.index.json").write_text("[]")),
}


OTHER_FAMILIES = ("own code", "decoder", "seq2seq", "padding", "length")


@pytest.mark.parametrize("name", BAD)
def test_weights_that_cannot_be_used_are_one_clear_error(copy, name, raises):
    folder = copy("bert")
    BAD[name](folder)
    also = {"prompts": ("settings",)} | dict.fromkeys(OTHER_FAMILIES, ("backbone",))
    with raises(ConfigError, "weights", *also.get(name, ())):
        built(backbone_of(folder))


@pytest.mark.parametrize("key", ["attn_implementation", "_attn_implementation"])
def test_the_attention_of_the_machine_that_wrote_the_weights_does_not_count(copy, key):
    folder = copy("bert")
    changed(**{key: "flash_attention_2"})(folder)
    backbone = backbone_of(folder)
    assert "flash" not in json.dumps(built(backbone)[1])


def test_without_weights_the_error_says_what_is_needed(raises):
    with raises(ConfigError, "weights"):
        registry().create("backbone", "encoder", {}).tokenizer(TEXTS)


def test_dropout_is_set_for_any_family(folders):
    for kind in ("bert", "modernbert", "t5", "distilbert"):
        _, _, encoder = built(backbone_of(folders(kind), dropout=0.25))
        rates = {module.p for module in encoder.modules() if isinstance(module, torch.nn.Dropout)}
        assert 0.25 in rates
