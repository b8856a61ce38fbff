"""The feature, from a column of images to prices without torch."""

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import pandas as pd
import pytest
from onnx import TensorProto, helper
from pricekit_images import memory, reading
from pricekit_images import weights as weights_module
from pricekit_images.feature import LOG_PRICE, MISSING, Images
from pricekit_images.statistics import NAMES
from shop import jpeg

import pricekit as pk
from pricekit.plugin import Columns, ConfigError, read_frame, table_of_texts
from pricekit.testing import check_feature

COLOURS = [(200, 30, 30), (30, 200, 30), (30, 30, 200), (120, 120, 40)]


def table_of(cells, column="image_link"):
    table = table_of_texts([f"product {n}" for n in range(len(cells))])
    return pk.read_table(pd.DataFrame({"text": table.text, column: cells}), text="text")


def images(**options):
    return Images(Images.Options(**options))


def colour_graph(values=3, shape=(1, 3, 32, 32), domain=""):
    """An encoder whose vector is the mean of each channel."""
    mean = helper.make_node("GlobalAveragePool", ["x"], ["pooled"], domain=domain)
    flat = helper.make_node("Flatten", ["pooled"], ["vector"])
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    found = helper.make_tensor_value_info("vector", TensorProto.FLOAT, [1, values])
    graph = helper.make_graph([mean, flat], "colours", [given], [found])
    opsets = [helper.make_opsetid("", 20), *([helper.make_opsetid(domain, 1)] if domain else [])]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


@pytest.fixture
def weights(tmp_path):
    path = tmp_path / "encoder.onnx"
    onnx.save(colour_graph(), path)
    return path


@pytest.fixture
def pictures(folder):
    """The names of four pictures."""
    for number, colour in enumerate(COLOURS):
        (folder / f"{number}.jpg").write_bytes(jpeg(colour))
    return [f"{number}.jpg" for number in range(4)]


def columns_of(plugin, table, state=None):
    state = plugin.fit(table) if state is None else state
    return pd.DataFrame(plugin.transform(table, state), columns=plugin.names)


def test_it_is_registered(registered, raises):
    registry = registered("images")
    assert registry.create("feature", "images").names == (MISSING, *(f"image_{name}" for name in NAMES))
    with raises(ConfigError, "settings", setting="colum"):
        registry.create("feature", "images", {"colum": "x"})


class Made:
    """Makes the plugin for each check."""

    def __init__(self, **options):
        self.options = options

    def __call__(self):
        return images(**self.options)


@pytest.mark.parametrize("number", range(len(check_feature(Images))))
@pytest.mark.parametrize("encoder", [False, True])
def test_the_plugin_passes_the_checks(pictures, weights, number, encoder):
    make = Made(weights=str(weights)) if encoder else Made()
    links = [*map(str, pictures), "", "none.jpg"]
    rows = pd.DataFrame({"catalog_content": "Tea", "image_link": links})
    check_feature(make, read_frame(rows, Columns(price=None)))[number]()


def test_each_row_has_the_statistics_of_its_picture(pictures):
    found = columns_of(images(), table_of([*pictures, pictures[0]]))
    assert found[MISSING].tolist() == [0] * 5
    assert found.iloc[0].equals(found.iloc[4])
    assert found.image_thing_red.tolist() == pytest.approx([0.8, 0.1, 0.1, 0.5, 0.8], abs=0.1)


@pytest.mark.parametrize("cell", ["", None, np.nan, "  ", "none.jpg", "../x.jpg", "ftp://x/y"])
def test_a_row_without_a_picture_has_an_indicator_and_medians(pictures, cell):
    plugin = images()
    state = plugin.fit(table_of(pictures))
    found = columns_of(plugin, table_of([cell, pictures[0]]), state)
    assert found[MISSING].tolist() == [1, 0]
    assert found.iloc[0, 1:].to_numpy() == pytest.approx(state["medians"])


def test_another_column_and_folder(pictures, folder):
    (folder / "sub").mkdir()
    (folder / "0.jpg").rename(folder / "sub" / "0.jpg")
    table = table_of([pictures[0]], "photo")
    assert columns_of(images(column="photo", root="sub"), table)[MISSING].tolist() == [0]


def test_unusable_images_are_one_warning(pictures, folder, logged):
    (folder / "bad.jpg").write_bytes(b"<svg/>")
    cells = [*pictures, "bad.jpg", "none.jpg", "none.jpg", "gone.jpg", "", ""]
    plugin = images()
    state = plugin.fit(table_of(cells))
    for _ in range(3):
        plugin.transform(table_of(cells), state)
    (line,) = logged().replace(str(folder), "FOLDER").splitlines()
    assert line == (
        "3 of 7 images cannot be used and count as missing (no such file in FOLDER: 2, an SVG drawing: 1); the "
        "first is 'bad.jpg': an SVG drawing"
    )


def test_the_warning_is_repeated_when_their_number_has_doubled(folder, logged):
    reader = images()
    state = {"medians": [0.0] * len(NAMES)}
    for number in range(16):
        reader.transform(table_of([f"{number}.jpg"]), state)
    counts = [int(line.split()[0]) for line in logged().splitlines()]
    assert counts == [1, 2, 4, 8, 16]


def test_each_image_is_read_once_in_a_training(pictures, folder, monkeypatch):
    read = []
    monkeypatch.setattr(reading, "read_file", lambda file, most: read.append(file.name) or file.read_bytes())
    plugin, table = images(), table_of(pictures * 3)
    state = plugin.fit(table)
    plugin.transform(table, state)
    assert sorted(read) == pictures
    (folder / "0.jpg").write_bytes(jpeg(COLOURS[1], size=(90, 90)))
    assert columns_of(plugin, table, state).image_log_width[0] == pytest.approx(np.log(90))
    assert len(read) == 5


def test_what_is_remembered_has_a_limit(pictures, monkeypatch):
    small = memory.Memory(200)
    monkeypatch.setattr(reading, "_memory", small)
    columns_of(images(), table_of(pictures))
    assert len(small._kept) <= 3
    monkeypatch.setattr(memory, "MOST_KEPT", 5)
    columns_of(images(), table_of([*pictures, *(f"http://10.0.0.1/{n}" for n in range(20))]))
    assert len(small._kept) <= 5


def test_an_encoder_predicts_the_log_price_of_rows_that_it_has_not_seen(folder, weights):
    rng = np.random.default_rng(0)
    colours = rng.integers(0, 256, (80, 3))
    for number, colour in enumerate(colours.tolist()):
        (folder / f"{number}.jpg").write_bytes(jpeg(tuple(colour)))
    price = np.exp(colours[:, 0] / 100 + rng.normal(0, 0.05, 80))
    table = table_of([f"{n}.jpg" for n in range(80)])
    plugin = images(weights=str(weights))
    assert plugin.uses_price
    state = plugin.fit(table.take(np.arange(60)), price[:60])
    assert isinstance(state["encoder.onnx"], bytes)
    found = columns_of(plugin, table.take(np.arange(60, 80)), state)[LOG_PRICE]
    assert np.corrcoef(found, np.log(price[60:]))[0, 1] > 0.98
    missing = columns_of(plugin, table_of(["none.jpg"]), state)
    assert missing[LOG_PRICE][0] == pytest.approx(np.log(price[:60]).mean())


@pytest.mark.parametrize("cells", [["none.jpg"] * 30, ["0.jpg"] * 30, ["0.jpg"]])
def test_fits_without_anything_to_learn_from(pictures, weights, cells):
    plugin = images(weights=str(weights))
    state = plugin.fit(table_of(cells), np.full(len(cells), 5.0))
    assert np.isfinite(plugin.transform(table_of([*cells, "1.jpg"]), state)).all()


@pytest.mark.parametrize(
    "content",
    [
        None,
        b"not a graph",
        colour_graph(domain="shop.example"),
        colour_graph(shape=(1, 1, 3)),
        colour_graph(shape=(8, 3, 32, 32)),
    ],
)
def test_an_encoder_that_cannot_be_used_is_refused(folder, tmp_path, content, raises):
    path = tmp_path / "encoder.onnx"
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.SerializeToString())
    with raises(ConfigError, "settings"):
        images(weights=str(path)).fit(table_of(["a.jpg"]), np.ones(1))


def test_an_encoder_is_read_once_for_all_folds(pictures, weights, monkeypatch):
    read = []
    tried = weights_module._tried
    monkeypatch.setattr(weights_module, "_tried", lambda path, *a: read.append(path) or tried(path, *a))
    for _ in range(3):
        images(weights=str(weights)).fit(table_of(pictures), np.ones(4))
    assert len(read) == 1
    onnx.save(colour_graph(shape=(1, 3, 16, 16)), weights)
    state = images(weights=str(weights)).fit(table_of(pictures), np.ones(4))
    assert state["encoder"]["side"] == 16
    assert len(read) == 2


@pytest.mark.parametrize(
    "change",
    [
        {"side": 10**9},
        {"side": 0},
        {"mean": [0.5]},
        {"deviation": [0, 1, 1]},
        {"mean": [np.nan] * 3},
        {"values": 10**9},
    ],
)
def test_what_a_bundle_states_of_an_encoder_has_limits(pictures, weights, change, raises):
    plugin = images(weights=str(weights))
    state = plugin.fit(table_of(pictures), np.ones(4))
    with raises(ValueError):
        images(weights="x").transform(table_of(pictures), state | {"encoder": state["encoder"] | change})


def test_a_folder_with_pickled_weights_is_refused(folder, tmp_path, raises):
    (tmp_path / "config.json").write_text('{"model_type": "vit"}')
    (tmp_path / "pytorch_model.bin").write_bytes(b"pickle")
    with raises(ConfigError, "settings"):
        images(weights=str(tmp_path)).fit(table_of(["a.jpg"]), np.ones(1))


def test_a_transformers_model_with_random_weights_becomes_a_graph(pictures, tmp_path, capfd):
    import torch
    from transformers import ViTConfig, ViTModel

    torch.manual_seed(0)
    size = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    ViTModel(ViTConfig(image_size=32, patch_size=8, **size)).save_pretrained(tmp_path / "vit")
    colours = {"image_mean": [0.5, 0.5, 0.5], "image_std": [0.25, 0.25, 0.25]}
    (tmp_path / "vit" / "preprocessor_config.json").write_text(json.dumps(colours))
    plugin = images(weights=str(tmp_path / "vit"))
    capfd.readouterr()
    state = plugin.fit(table_of(pictures * 10), np.exp(np.arange(40.0) % 4))
    assert capfd.readouterr() == ("", "")
    assert state["encoder"] == {"side": 32, "mean": [0.5] * 3, "deviation": [0.25] * 3, "values": 16}
    found = columns_of(plugin, table_of(pictures), state)[LOG_PRICE]
    assert found.tolist() == pytest.approx([0, 1, 2, 3], abs=0.3)


def serve_catalog(shop, rows=60):
    table = pk.make_catalog(rows)
    shop.pages |= {f"/{n}.jpg": jpeg(COLOURS[n % 4], size=(40 + n, 40)) for n in range(rows)}
    return table.assign(image_link=[f"{shop.url}/{n}.jpg" for n in range(rows)])


def test_ten_of_two_hundred_fail_and_some_stall(shop, folder, logged):
    cells = serve_catalog(shop, 100).image_link.tolist()
    stalled = {"/7.jpg", "/57.jpg"}

    def misbehave(handler, number):
        if shop.asked[handler.path] > 1:
            return None
        if handler.path in stalled:
            return lambda handler: time.sleep(0.6)
        return 503 if number % 20 == 0 else None

    shop.always = misbehave
    plugin = images(timeout=0.2, rate=5000)
    found = columns_of(plugin, table_of(cells), {"medians": [0.0] * len(NAMES)})
    assert not found[MISSING].any()
    assert found.image_log_width.to_numpy() == pytest.approx(np.log(40 + np.arange(100)), rel=1e-6)
    assert logged() == ""
    assert set(shop.asked.values()) == {1, 2}


def test_an_interrupt_ends_the_downloads_that_wait(shop, folder, monkeypatch):
    table = table_of(serve_catalog(shop, 60).image_link.tolist())
    plugin = images(rate=0.5, connections=4)  # 60 images would take two minutes
    state = {"medians": [0.0] * len(NAMES)}

    def interrupted(*args):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(reading, "decode", interrupted)
        with pytest.raises(KeyboardInterrupt):
            plugin.transform(table, state)
    assert sum(shop.asked.values()) < 10
    again = images(rate=5000)
    assert not columns_of(again, table, state)[MISSING].any()


READ = """
import sys
import numpy as np, pandas as pd, pricekit as pk
from pricekit_images.feature import Images
from pricekit_images.statistics import NAMES
plugin = Images(Images.Options(connections=4, rate=float(sys.argv[3])))
table = pk.read_table(pd.read_csv(sys.argv[1]), text="catalog_content")
np.save(sys.argv[2], plugin.transform(table, {"medians": [0.0] * len(NAMES)}))
"""


def test_after_a_kill_nothing_is_fetched_twice(shop, folder, tmp_path):
    table = serve_catalog(shop, 80)
    table.to_csv(tmp_path / "table.csv", index=False)

    def start(rate):
        command = [sys.executable, "-c", READ, tmp_path / "table.csv", tmp_path / "out.npy", rate]
        return subprocess.Popen(list(map(str, command)))

    killed = start(60)
    while sum(shop.asked.values()) < 20:
        time.sleep(0.01)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    before = sum(shop.asked.values())
    assert before < 80
    assert start(5000).wait() == 0
    assert not np.load(tmp_path / "out.npy")[:, 0].any()
    again = sum(shop.asked.values()) - 80
    assert again <= 4  # what was under way when it was killed


def test_from_a_table_to_prices_where_torch_is_absent(pricekit, program, shop, folder, weights, tmp_path):
    table, run, bundle = tmp_path / "products.csv", tmp_path / "run", tmp_path / "bundle"
    serve_catalog(shop, 120).to_csv(table, index=False)
    settings = ["backbone.width=8", "backbone.buckets=64", f"feature_options.images.weights={weights}"]
    settings += ["feature_options.images.rate=5000"]
    train = ["train", table, "--out", run, "--features", "optimized22,images", "--epochs", 4, "--quiet"]
    done = pricekit(*train, *(part for s in settings for part in ("--set", s)))
    assert done[0] == 0, done[2]
    assert pd.read_parquet(run / "out_of_fold.parquet").columns[-1] == LOG_PRICE
    done = pricekit("export", run, "--out", bundle)
    assert done[0] == 0, done[2]
    assert "cannot be used" not in done[2]  # the invented rows of the self-test have no images
    assert [re.sub("[0-9a-f]{64}", "HASH", file.name) for file in bundle.glob("asset-*")] == [
        "asset-HASH.onnx"
    ]
    assert str(weights.parent) not in (bundle / "preprocess.json").read_text()
    weights.unlink()
    new = tmp_path / "new.csv"
    pd.read_csv(table).assign(image_link=f"{shop.url}/new.jpg").head(30).to_csv(new, index=False)
    shop.pages["/new.jpg"] = jpeg((9, 9, 9))
    asked = sum(shop.asked.values())
    prices = tmp_path / "run.csv", tmp_path / "bundle.csv"
    assert pricekit("predict", run, new, "--out", prices[0])[0] == 0
    program("predict", bundle, new, "--out", prices[1], absent=("torch", "transformers", "onnx"))
    assert sum(shop.asked.values()) == asked + 1
    expected, found = (pd.read_csv(path)["price"].to_numpy() for path in prices)
    assert found == pytest.approx(expected, rel=1e-3)
    assert Path(bundle / "self_test.json").exists()
    pd.read_csv(table).rename(columns={"image_link": "photo"}).to_csv(new, index=False)
    for command in (
        ["predict", bundle, new, "--out", prices[1]],
        [*train[:1], new, *train[2:], "--overwrite"],
    ):
        code, _, said = pricekit(*command)
        assert code == 1
        assert "reads the column 'image_link', which the table does not have" in " ".join(said.split())
        assert "feature_options.images.column" in said
