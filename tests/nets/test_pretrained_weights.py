"""Pretrained weights from a folder, and errors of such folders."""

import json
import math
import shutil
import socket

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from pricekit.errors import ConfigError
from pricekit.nets import transformer
from pricekit.nets.pretrained import find_weights
from pricekit.nets.transformer import Pretrained, PretrainedOptions
from pricekit.text.tokens import encode, pad_id_of
from tests.nets.test_contract import TEXTS, tiny


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A folder of weights written by transformers, and the original encoder."""
    torch.manual_seed(0)
    backbone = tiny(transformer.DISTILROBERTA, PretrainedOptions(random_weights=True))
    tokenizer = backbone.tokenizer(TEXTS)
    encoder = backbone.encoder(backbone.architecture(tokenizer), tokenizer, encode(tokenizer, TEXTS, 32, 1))
    folder = tmp_path_factory.mktemp("weights")
    encoder.model.save_pretrained(folder)
    tokenizer.no_padding()
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder, encoder.eval()


def opened(folder):
    return Pretrained(transformer.DISTILROBERTA, PretrainedOptions(weights=str(folder)))


def load(folder):
    backbone = opened(folder)
    tokenizer = backbone.tokenizer(TEXTS)
    tokens = encode(tokenizer, TEXTS, 32, pad_id_of(tokenizer))
    return tokenizer, backbone.encoder(backbone.architecture(tokenizer), tokenizer, tokens)


def test_tokenizer_and_weights_come_from_the_folder(saved, capfd):
    folder, encoder = saved
    tokenizer, found = load(folder)
    assert pad_id_of(tokenizer) == 1  # RoBERTa's, which tokenizer.json does not say
    assert tokenizer.encode("green tea").tokens[0] == "<s>"
    for name, tensor in encoder.state_dict().items():
        assert torch.equal(found.state_dict()[name], tensor)
    said = capfd.readouterr()
    assert (said.out, said.err) == ("", "")


def test_float16_weights_are_loaded_as_float32(saved, tmp_path):
    folder = shutil.copytree(saved[0], tmp_path / "half")
    half = {name: t.half() for name, t in load_file(folder / "model.safetensors").items()}
    save_file(half, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"dtype": "float16"}))
    _, encoder = load(folder)
    assert {p.dtype for p in encoder.parameters()} == {torch.float32}


def test_a_run_opens_where_the_weights_are_absent(saved, tmp_path):
    folder = shutil.copytree(saved[0], tmp_path / "w")
    backbone = opened(folder)
    tokenizer = backbone.tokenizer(TEXTS)
    architecture = json.loads(json.dumps(backbone.architecture(tokenizer)))
    shutil.rmtree(folder)
    again = backbone.encoder(architecture, tokenizer, None)
    again.load_state_dict(saved[1].state_dict())
    ids = torch.tensor([[0, 5, 6, 2]])
    assert torch.equal(again.eval()(ids, torch.ones_like(ids)), saved[1](ids, torch.ones_like(ids)))
    assert str(tmp_path) not in json.dumps(architecture)


def without_tensors(folder):
    kept = dict(list(load_file(folder / "model.safetensors").items())[:-3])
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})


def pickled(folder):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def of_another_family(folder):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"model_type": "bert"}))


WRONG = {
    "no config": lambda f: (f / "config.json").unlink(),
    "no tokenizer": lambda f: (f / "tokenizer.json").unlink(),
    "no weights": lambda f: (f / "model.safetensors").unlink(),
    "pickled": pickled,
    "another family": of_another_family,
    "damaged config": lambda f: (f / "config.json").write_text("{"),
    "damaged tokenizer": lambda f: (f / "tokenizer.json").write_text("{}"),
    "damaged weights": lambda f: (f / "model.safetensors").write_bytes(b"x" * 99),
    "tensors missing": without_tensors,
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_folder_is_reported_in_one_paragraph(saved, tmp_path, what, raises):
    folder = shutil.copytree(saved[0], tmp_path / "w")
    WRONG[what](folder)
    with raises(ConfigError, *(["weights", "backbone"] if what == "another family" else ["weights"])):
        load(folder)


@pytest.mark.parametrize("path", ["no/such/folder", "./here", "~/nowhere-at-all"])
def test_a_path_that_is_not_a_folder_is_not_searched_on_the_hub(path, monkeypatch, raises):
    monkeypatch.setattr("huggingface_hub.snapshot_download", None)
    with raises(ConfigError, "weights"):
        opened(path).tokenizer(TEXTS)


@pytest.mark.filterwarnings("ignore")
def test_missing_weights_without_network_cause_advice(tmp_path, monkeypatch, raises):
    def no_network(*args, **kwargs):
        raise socket.gaierror("Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", no_network)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    backbone = Pretrained(transformer.DISTILROBERTA, PretrainedOptions(weights="nobody/nothing"))
    with raises(ConfigError, "weights", "backbone", repository="nobody/nothing"):
        backbone.tokenizer(TEXTS)


def test_an_interrupted_download_is_continued(saved, tmp_path, monkeypatch):
    """Of a folder with config.json alone, the hub says that it is in the cache."""
    part = tmp_path / "part"
    part.mkdir()
    shutil.copy(saved[0] / "config.json", part)
    asked = []

    def download(repository, local_files_only, **_):
        asked.append(local_files_only)
        if not local_files_only:
            shutil.copytree(saved[0], part, dirs_exist_ok=True)
        return str(part)

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    assert find_weights("shop/encoder", "encoder") == part
    assert asked == [True, False]
    assert find_weights("shop/encoder", "encoder") == part
    assert asked == [True, False, True]


def test_an_interrupted_download_without_a_network_is_one_clear_error(saved, tmp_path, monkeypatch, raises):
    shutil.copy(saved[0] / "config.json", tmp_path)

    def download(repository, local_files_only, **_):
        if not local_files_only:
            raise ConnectionResetError("no network")
        return str(tmp_path)

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    with raises(ConfigError, "weights", "backbone", repository="shop/encoder"):
        find_weights("shop/encoder", "encoder")


def test_dropout_and_pooling_are_options(saved):
    options = PretrainedOptions(weights=str(saved[0]), dropout=0.3, pooling="cls")
    backbone = Pretrained(transformer.DISTILROBERTA, options)
    tokenizer = backbone.tokenizer(TEXTS)
    architecture = backbone.architecture(tokenizer)
    assert (architecture["hidden_dropout_prob"], architecture["attention_probs_dropout_prob"]) == (0.3, 0.3)
    encoder = backbone.encoder(architecture, tokenizer, None).eval()
    ids, mask = torch.tensor([[0, 5, 6, 2]]), torch.ones(1, 4, dtype=torch.int64)
    hidden = encoder.model(input_ids=ids, attention_mask=mask).last_hidden_state
    assert torch.equal(encoder(ids, mask), hidden[:, 0])
    encoder.pooling = "mean"
    mask[0, 3] = 0
    hidden = encoder.model(input_ids=ids, attention_mask=mask).last_hidden_state
    assert np.allclose(encoder(ids, mask).detach(), hidden[:, :3].mean(1).detach(), atol=1e-6)
    encoder.pooling = "lead"
    lead = torch.tensor([1 + 12 * math.exp(-position / 40) for position in range(3)])
    expected = torch.cat(
        [hidden[:, :3].mean(1), (hidden[0, :3] * lead[:, None]).sum(0)[None] / lead.sum()], 1
    )
    assert np.allclose(encoder(ids, mask).detach(), expected.detach(), atol=1e-6)
