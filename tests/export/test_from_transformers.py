"""Bundles of regressors that transformers has trained, compared with transformers itself."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer

import pricekit as pk
from pricekit.datasets import make_catalog
from pricekit.errors import BundleError, ConfigError, DataError, ExportError
from pricekit.export.from_transformers import Link, open_regressor
from pricekit.table import Columns, table_of_texts
from tests.export.regressors import NEW, outputs, write_regressor

LENGTH = 64
SCALED = {"mean": 2.7, "std": 0.9}
TARGETS = {
    "log": (SCALED, lambda output: np.exp(output * 0.9 + 2.7)),
    "log1p": ({}, lambda output: np.maximum(np.expm1(output), 0.01)),
    "price": ({"mean": 100, "std": 5}, lambda output: np.maximum(output * 5 + 100, 0.01)),
}
"""Options of each target, and prices as users compute them."""


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Return a function from a family to a folder of a regressor, which it writes once."""
    models = {}

    def folder_of(kind):
        if kind not in models:
            models[kind] = write_regressor(tmp_path_factory.mktemp(kind) / "model", kind)
        return models[kind]

    return folder_of


@pytest.fixture(scope="module")
def bert(folders, tmp_path_factory):
    """The bundle of a BERT; read only."""
    out = tmp_path_factory.mktemp("bundles") / "bert"
    pk.bundles.from_transformers(folders("bert"), out, target="log", max_length=LENGTH, **SCALED)
    return out


@pytest.fixture(scope="module")
def priced(folders):
    """Products whose prices a BERT knows, but for noise."""
    table = make_catalog(150, seed=4)
    known = np.exp(outputs(folders("bert"), table["catalog_content"].tolist(), LENGTH).numpy() * 0.9 + 2.7)
    return table.assign(price=known * np.exp(np.random.default_rng(0).normal(0, 0.02, len(table))))


def check_prices(folder, bundle, target):
    expected = TARGETS[target][1](outputs(folder, NEW, LENGTH).numpy())
    model = pk.load(bundle, engine="ort-cpu")
    prices = model.predict(NEW)
    assert np.allclose(prices, expected, rtol=1e-4)
    assert prices.std() > 0.01
    assert model.self_test().difference < 1e-5


def test_prices_of_a_bert_with_a_standardised_log_price(folders, bert):
    check_prices(folders("bert"), bert, "log")


def test_the_command_exports_a_distilbert_with_all_that_a_bundle_may_have(
    folders, pricekit, priced, tmp_path
):
    priced.to_csv(tmp_path / "products.csv", index=False)
    folder, out, table = str(folders("distilbert")), str(tmp_path / "tea"), str(tmp_path / "products.csv")
    code, _, err = pricekit(
        *("export", "--from-hf", folder, "--target", "log1p", "--max-length", str(LENGTH), "--out", out),
        *("--triton", str(tmp_path / "models"), "--with-comparables", table),
    )
    assert code == 0, err
    check_prices(folders("distilbert"), out, "log1p")
    config = (tmp_path / "models" / "tea" / "config.pbtxt").read_text()
    assert "price_low" not in config
    assert "interval" not in config
    assert len(pk.load(out).comparables(priced, k=2, limit=1)[0].products) == 2
    code, shown, err = pricekit("bundle", "inspect", out)
    assert code == 0, err
    assert "DistilBertForSequenceClassification" in shown


def test_a_roberta_reads_a_column_with_a_name_and_what_differs_is_said(
    folders, priced, tmp_path, caplog, raises
):
    twice = priced["catalog_content"].str.replace(" ", "  ", n=1)
    table = priced.assign(title=twice).rename(columns={"price": "eur"})
    options = {
        "target": "price",
        "max_length": LENGTH,
        "sample": table,
        "text": "title",
        **TARGETS["price"][0],
    }
    with raises(
        DataError, "price", column="price", candidates=["sample_id", "catalog_content", "eur", "title"]
    ):
        pk.bundles.from_transformers(folders("roberta"), tmp_path / "b", **options)
    pk.bundles.from_transformers(folders("roberta"), tmp_path / "b", price="eur", **options)
    check_prices(folders("roberta"), tmp_path / "b", "price")
    model = pk.load(tmp_path / "b")
    assert (model.columns.text, model.columns.price) == (("title",), "eur")
    assert len(model.predict(table.drop(columns="eur"))) == 150
    assert "transformers gives 150 of 150 texts other tokens" in caplog.text
    assert "check the target, its mean and its standard deviation" in caplog.text


@pytest.mark.parametrize("target", TARGETS)
def test_a_price_is_positive_and_finite_whatever_the_output(target):
    prices = Link(target, 0.0, 1.0).to_price(torch.tensor([-1e30, -1.0, 0.0, 1e30]))
    assert (prices > 0).all()
    assert prices.isfinite().all()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["albert", "deberta-v2", "electra", "modernbert", "mpnet", "xlm-roberta"])
def test_prices_of_other_families_are_those_of_transformers(folders, tmp_path, kind):
    pk.bundles.from_transformers(folders(kind), tmp_path / "b", target="log", max_length=LENGTH, **SCALED)
    check_prices(folders(kind), tmp_path / "b", "log")


def edit(folder, name, **values):
    file = folder / name
    file.write_text(json.dumps(json.loads(file.read_text()) | values))


def pickled(folder):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def without_head(folder):
    kept = {
        name: t for name, t in load_file(folder / "model.safetensors").items() if "classifier" not in name
    }
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})


def link_outside(folder):
    elsewhere = folder.parent / "secret.json"
    (folder / "tokenizer.json").rename(elsewhere)
    (folder / "tokenizer.json").symlink_to(elsewhere)


def index_outside(folder):
    (folder / "model.safetensors").rename(folder.parent / "stolen.safetensors")
    index = {"metadata": {}, "weight_map": {"classifier.weight": "../stolen.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


MALICIOUS_CODE = """
from pathlib import Path
Path(__file__).with_name("ran").touch()
class Model: pass
"""


def own_code(folder):
    (folder / "modeling.py").write_text(MALICIOUS_CODE)
    edit(folder, "config.json", auto_map={"AutoModelForSequenceClassification": "modeling.Model"})


def own_tokenizer_code(folder):
    (folder / "modeling.py").write_text(MALICIOUS_CODE)
    edit(folder, "tokenizer_config.json", auto_map={"AutoTokenizer": ["modeling.Model", None]})


WRONG = {
    "no folder": shutil.rmtree,
    "no config": lambda f: (f / "config.json").unlink(),
    "damaged config": lambda f: (f / "config.json").write_text("{"),
    "config of numbers": lambda f: (f / "config.json").write_text("[1]"),
    "unknown family": lambda f: edit(f, "config.json", model_type="myown"),
    "decoder": lambda f: edit(f, "config.json", model_type="gpt2"),
    "sequence to sequence": lambda f: write_regressor(f, "t5"),
    "classifier": lambda f: edit(f, "config.json", id2label={"0": "low", "1": "high"}),
    "several labels": lambda f: edit(f, "config.json", problem_type="multi_label_classification"),
    "another model": lambda f: edit(f, "config.json", architectures=["BertForMaskedLM"]),
    "no head": without_head,
    "quantized": lambda f: edit(f, "config.json", quantization_config={"quant_method": "gptq", "bits": 4}),
    "pickled": pickled,
    "damaged weights": lambda f: (f / "model.safetensors").write_bytes(b"x" * 99),
    "no tokenizer": lambda f: (f / "tokenizer.json").unlink(),
    "damaged tokenizer": lambda f: (f / "tokenizer.json").write_text("{}"),
    "damaged tokenizer config": lambda f: (f / "tokenizer_config.json").write_text("{"),
    "length that is no number": lambda f: edit(f, "tokenizer_config.json", model_max_length="long"),
    "no length": lambda f: edit(f, "tokenizer_config.json", model_max_length=0),
    "architectures that are no names": lambda f: edit(f, "config.json", architectures=[7]),
    "adapter": lambda f: (f / "adapter_config.json").write_text('{"base_model_name_or_path": "/"}'),
    "link outside": link_outside,
    "index outside": index_outside,
    "own code": own_code,
    "own tokenizer code": own_tokenizer_code,
}


@pytest.mark.parametrize("what", WRONG)
def test_a_folder_that_cannot_be_used_is_one_clear_error(folders, tmp_path, what, raises):
    folder = shutil.copytree(folders("bert"), tmp_path / "model")
    WRONG[what](folder)
    with raises(ConfigError, "folder"):
        pk.bundles.from_transformers(folder, tmp_path / "b", target="log")
    assert not (tmp_path / "b").exists()
    assert not (folder / "ran").exists()


@pytest.mark.parametrize(
    ("options", "parameters"),
    [
        ({}, ["target"]),
        ({"target": "log10"}, ["target"]),
        ({"target": "log", "std": 0.0}, ["std"]),
        ({"target": "log", "mean": float("nan")}, ["mean"]),
        ({"target": "log", "max_length": 259}, ["max_length"]),
        ({"target": "log", "precision": "fp8"}, ["precision"]),
        ({"target": "log", "with_embeddings": True}, ["with_embeddings"]),
        ({"target": "log", "precision": "int8"}, ["sample", "precision"]),
    ],
)
def test_options_that_cannot_be_used_are_named(folders, tmp_path, options, parameters, raises):
    with raises(ConfigError, *parameters):
        pk.bundles.from_transformers(folders("bert"), tmp_path / "b", **options)


def tokens_of(folder, texts, max_length=None):
    """What a bundle of the folder reads."""
    preprocessor = open_regressor(folder, Link("log", 0, 1), Columns("text"), max_length).preprocessor
    tokens = preprocessor(table_of_texts(texts)).tokens
    return [ids.tolist() for ids in np.split(tokens.ids, tokens.offsets[1:-1])]


def test_texts_are_cut_as_tokenizer_json_says_or_as_asked(folders, tmp_path):
    assert max(map(len, tokens_of(folders("distilbert"), NEW))) == 258  # positions
    folder = shutil.copytree(folders("distilbert"), tmp_path / "model")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer(NEW, truncation=True, max_length=17)  # as in a training
    tokenizer.save_pretrained(folder)
    assert tokens_of(folder, NEW) == tokenizer(NEW, truncation=True, max_length=17)["input_ids"]
    assert tokens_of(folder, NEW, 40) == tokenizer(NEW, truncation=True, max_length=40)["input_ids"]
    edit(folder, "tokenizer_config.json", model_max_length=12)
    assert max(map(len, tokens_of(folder, NEW))) == 12


def test_a_vocabulary_becomes_a_fast_tokenizer(folders, tmp_path):
    folder = shutil.copytree(folders("bert"), tmp_path / "model")
    words = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        "tea",
        "##s",
        "item",
        "name",
        ":",
        "count",
        "green",
    ]
    (folder / "vocab.txt").write_text("\n".join(words))
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer_config.json").write_text(
        '{"tokenizer_class": "BertTokenizer", "do_lower_case": true}'
    )
    assert tokens_of(folder, ["Teas: TEA \u00e9t\u00e9"]) == [[2, 5, 6, 9, 5, 1, 3]]


def test_a_tokenizer_that_cuts_the_beginning_is_refused(folders, tmp_path, raises):
    folder = shutil.copytree(folders("bert"), tmp_path / "model")
    edit(folder, "tokenizer_config.json", truncation_side="left")
    with raises(ExportError, "folder"):
        pk.bundles.from_transformers(folder, tmp_path / "b", target="log", max_length=LENGTH)
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize("precision", ["fp16", "int8"])
def test_other_precisions_are_verified_on_the_rows_of_a_table(
    folders, bert, priced, tmp_path, precision, caplog
):
    caplog.set_level("INFO", "pricekit")
    options = {"target": "log", "max_length": LENGTH, "precision": precision, "sample": priced, **SCALED}
    report = pk.bundles.from_transformers(folders("bert"), tmp_path / "b", **options)
    assert 0 < report.smape_change < 0.3
    assert "SMAPE on 150 rows of the sample is 1." in caplog.text
    assert "constant price" not in caplog.text
    assert (
        sum(f.stat().st_size for f in (tmp_path / "b").glob("*.onnx")) < (bert / "model.onnx").stat().st_size
    )
    exact, rounded = (pk.load(each, engine="ort-cpu").predict(priced) for each in (bert, tmp_path / "b"))
    assert np.allclose(exact, rounded, rtol=0.1)


def test_what_users_do_with_a_bundle_works(bert, priced, tmp_path):
    model = pk.load(bert, engine="ort-cpu")
    assert (model.metrics, model.currency, model.members) == ({}, None, [])
    assert "accuracy unknown" in repr(model)
    assert model.evaluate(priced).metrics["smape"] < 3
    assert "release" not in model.evaluate(priced, worst=2).worst
    (explanation,) = model.explain(["Item Name: Green Tea, 20 Count"])
    factors = np.prod([phrase.factor for phrase in explanation.phrases()])
    assert np.isclose(explanation.base * factors, explanation.price)
    assert len(model.comparables(priced, among=priced, k=3, limit=2)) == 2
    assert model.features(priced).shape == (150, 1)
    priced.drop(columns="price").to_csv(tmp_path / "new.csv", index=False)
    assert model.predict_file(tmp_path / "new.csv", tmp_path / "prices.csv") == 150
    model.report(priced, out=tmp_path / "priced.html")
    model.report(tmp_path / "new.csv", out=tmp_path / "unpriced.html")
    assert pk.bundles.inspect(bert, self_test=True).manifest["transformers"]["target"] == "log"


def test_what_needs_the_training_table_is_one_clear_error(bert, priced, tmp_path, raises):
    model = pk.load(bert)
    with raises(ConfigError, "interval", "quantiles", "within"):
        model.predict(NEW, interval=0.9)
    with raises(BundleError):
        model.drift(priced)
    with raises(DataError):
        model.evaluate()
    with raises(ConfigError, "among"):
        model.comparables(priced)
    priced.to_csv(tmp_path / "new.csv", index=False)
    with raises(BundleError):
        model.predict_file(tmp_path / "new.csv", tmp_path / "prices.csv", watch=tmp_path / "w.json")


def test_the_card_and_the_inventory_say_where_it_comes_from(bert):
    card = (bert / "README.md").read_text()
    assert "BertForSequenceClassification" in card
    assert "the log of the price, minus 2.7, divided by 0.9" in card
    assert "Unknown" in card.partition("## Quality")[2].partition("##")[0]
    weights = [
        part
        for part in json.loads((bert / "inventory.cdx.json").read_text())["components"]
        if part["type"] == "machine-learning-model"
    ]
    assert [part["name"] for part in weights] == ["a local folder"]


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("run", "--from-hf", "folder", "--target", "log"), "--from-hf"),
        (("run", "--target", "log"), "--target"),
        (("--from-hf", "folder"), "Set --target"),
        (("--from-hf", "folder", "--target", "log"), "Check --from-hf"),
    ],
)
def test_the_command_names_what_does_not_fit(pricekit, tmp_path, monkeypatch, words, hint):
    monkeypatch.chdir(tmp_path)
    code, _, err = pricekit("export", *words, "--out", "b")
    assert code == 2
    assert hint in err


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the trainer
def test_the_example_in_the_documents_runs(folders, tmp_path, monkeypatch, capsys):
    page = Path(__file__).parents[2].joinpath("docs", "export.md").read_text("utf-8")
    code = page.partition("## A regressor of transformers")[2].partition("```python\n")[2].partition("```")[0]
    monkeypatch.chdir(tmp_path)
    exec(code.replace("distilbert/distilbert-base-uncased", str(folders("distilbert"))), {})
    assert "SMAPE" in capsys.readouterr().out
