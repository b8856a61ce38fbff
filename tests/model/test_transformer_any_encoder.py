"""Backbone `encoder`: any family of transformers, from a folder of weights."""

import json
import shutil

import pytest
import torch
from tokenizers import Tokenizer, models

from pricekit.core.loader import registry
from pricekit.errors import ConfigError
from pricekit.tokens import encode, pad_id_of
from tests.model.tiny_weights import KINDS, TEXTS


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
    "own code": (
        changed(model_type="magicbert", auto_map={"AutoModel": "modeling.MagicBert"}),
        "'magicbert', which cannot be used: transformers .* does not know it, and pricekit runs no code",
    ),
    "decoder": (changed(model_type="gpt2"), "family 'gpt2', which cannot be used: it is no encoder of texts"),
    "seq2seq": (
        changed(model_type="bart"),
        "family 'bart', which cannot be used: transformers has no encoder of it",
    ),
    "padding": (
        changed(model_type="fnet"),
        "family 'fnet', which cannot be used: it mixes padding into the text",
    ),
    "length": (
        changed(model_type="longformer"),
        "'longformer', which cannot be used: its attention depends on",
    ),
    "other family": (changed(model_type="distilbert"), "lack .* tensors of 'encoder'"),
    "number": (changed(model_type=3), r"config.json is damaged \(model_type is not a text\)"),
    "pickled": (pickled, "are only pickled .pytorch_model.bin."),
    "no tokenizer": (lambda folder: (folder / "tokenizer.json").unlink(), "lack tokenizer.json"),
    "bad tokenizer": (lambda folder: (folder / "tokenizer.json").write_text("{}"), "no fast tokenizer"),
    "no weights": (lambda folder: (folder / "model.safetensors").unlink(), "lack model.safetensors"),
    "bad pooling": (
        lambda folder: (
            (folder / "1_Pooling").mkdir(),
            (folder / "1_Pooling" / "config.json").write_text("{"),
        ),
        "1_Pooling/config.json is damaged",
    ),
    "heads": (
        changed(num_attention_heads=5),
        r"config.json describes no encoder that can be built: .*\(32\) is not a multiple .* heads \(5\); download",
    ),
    "text as a size": (
        changed(hidden_size="x"),
        r"config.json describes no encoder that can be built: Field 'hidden_size' expected int, got str .value: 'x'",
    ),
    "text as a length": (
        changed(max_position_embeddings="512"),
        "config.json describes .*: Field 'max_position_embeddings' expected int",
    ),
    "activation": (
        changed(hidden_act="nix"),
        "config.json describes .*: hidden_act is 'nix', which transformers does not know; download",
    ),
    "padding id": (
        changed(pad_token_id=999),
        "config.json has pad_token_id 999 and vocab_size 300; expected null or an id that is smaller",
    ),
    "padding as text": (changed(pad_token_id="0"), "config.json has pad_token_id '0'"),
    "prompts": (
        prompts(default_prompt_name=["a"]),
        r'config_sentence_transformers.json has default_prompt_name \["a"\]; expected the name of a prompt',
    ),
    "other tokenizer": (
        tokenizer_of(tea=0, cup=300),
        "tokenizer in .* does not fit config.json: its token 'cup' has the id 300, and vocab_size is 300. Use",
    ),
    "no padding": (
        tokenizer_of(tea=5, cup=299),
        "the tokenizer in .* has no token that pads texts: config.json has pad_token_id null, and no token has",
    ),
    "vocabulary": (
        changed(vocab_size=400),
        r"do not fit their config.json: 1 tensor of another shape, .*word_embeddings.weight \[300, 32\] instead of",
    ),
    "width": (
        changed(intermediate_size=48),
        r"6 tensors of another shape, .* and 3 more. Use config.json and",
    ),
    "no shard": (without_a_shard, "lack model-2.safetensors, model-3.safetensors; expected"),
    "bad index": (
        lambda folder: (pickled(folder), (folder / "model.safetensors.index.json").write_text("[]")),
        "model.safetensors.index.json is damaged .* download the weights again",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_weights_that_cannot_be_used_are_one_clear_error(copy, name):
    folder = copy("bert")
    damage, message = BAD[name]
    damage(folder)
    with pytest.raises(ConfigError, match=message):
        built(backbone_of(folder))


@pytest.mark.parametrize("key", ["attn_implementation", "_attn_implementation"])
def test_the_attention_of_the_machine_that_wrote_the_weights_does_not_count(copy, key):
    folder = copy("bert")
    changed(**{key: "flash_attention_2"})(folder)
    backbone = backbone_of(folder)
    assert "flash" not in json.dumps(built(backbone)[1])


def test_without_weights_the_error_says_what_is_needed():
    with pytest.raises(ConfigError, match="'encoder' has no weights; name a folder with"):
        registry().create("backbone", "encoder", {}).tokenizer(TEXTS)


def test_dropout_is_set_for_any_family(folders):
    for kind in ("bert", "modernbert", "t5", "distilbert"):
        _, _, encoder = built(backbone_of(folders(kind), dropout=0.25))
        rates = {module.p for module in encoder.modules() if isinstance(module, torch.nn.Dropout)}
        assert 0.25 in rates
