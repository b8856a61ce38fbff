import json
import shutil
from contextlib import contextmanager

import onnx
import pytest
import torch
from torch import nn

from pricekit.errors import ExportError, TrainingError
from pricekit.export import export as export_module
from pricekit.export.export import export_run
from pricekit.io.progress import use_reporter
from pricekit.runs.opened import open_run


def test_the_graph_contains_the_link_and_the_normalisation(bundle):
    graph = onnx.load(bundle / "model.onnx").graph
    assert [i.name for i in graph.input] == ["input_ids", "attention_mask", "features"]
    assert [o.name for o in graph.output] == ["price"]
    assert {"Exp", "Log1p", "Log"} & {node.op_type for node in graph.node} >= {"Exp"}
    for value in graph.input:
        assert value.type.tensor_type.shape.dim[0].dim_param  # any batch size
    assert not [t for t in graph.initializer if t.external_data]


class BranchesOnData(nn.Module):
    """An encoder that no exporter can trace."""

    hidden_size, members = 1, 1

    def forward(self, input_ids, attention_mask):
        total = (input_ids * attention_mask).sum(1, keepdim=True).float()
        return total if total.sum().item() > 3 else -total


def test_nothing_is_published_when_torch_cannot_export(run, tmp_path, monkeypatch):
    opened = open_run(run)
    opened.model.encoder, opened.model.members = BranchesOnData(), 1
    opened.model.heads = nn.ModuleList([nn.Linear(1 + len(opened.preprocessor.features.names), 1)])
    monkeypatch.setattr(export_module, "open_run", lambda path: opened)
    with pytest.raises(ExportError, match="torch cannot export the encoder BranchesOnData"):
        export_run(run, tmp_path / "bundle")
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_published_when_the_graph_differs(run, tmp_path, monkeypatch, raises):
    def careless(model, example, path, export=export_module.export_graph, **options):
        with torch.no_grad():
            model.heads[0][-1].bias += 0.01
            export(model, example, path, **options)
            model.heads[0][-1].bias -= 0.01

    monkeypatch.setattr(export_module, "export_graph", careless)
    with raises(ExportError, precision="fp32"):
        export_run(run, tmp_path / "bundle")
    assert list(tmp_path.iterdir()) == []


def test_a_bundle_is_replaced_only_when_asked(run, bundle, tmp_path, raises):
    out = shutil.copytree(bundle, tmp_path / "bundle")
    with raises(ExportError, "overwrite", "out"):
        export_run(run, out)
    report = export_run(run, out, overwrite=True)
    verified = json.loads((out / "manifest.json").read_text())["verified"]
    assert verified["batch_sensitivity_relative_difference"] == report.batch_sensitivity
    assert verified["batch_sensitivity_share_of_sd"] == report.batch_sensitivity_share_of_sd


@pytest.mark.parametrize("manifest", [None, '{"name": "my extension"}'])
def test_a_folder_that_is_not_a_bundle_is_never_replaced(run, tmp_path, manifest, raises):
    (tmp_path / "mine.txt").write_text("x")
    if manifest:
        (tmp_path / "manifest.json").write_text(manifest)
    with raises(ExportError, "out"):
        export_run(run, tmp_path, overwrite=True)
    assert (tmp_path / "mine.txt").read_text() == "x"


def test_a_foreign_file_in_a_bundle_is_kept(run, bundle, tmp_path):
    out = shutil.copytree(bundle, tmp_path / "bundle")
    (out / "prices.csv").write_text("x")
    (out / "9-model.onnx").write_text("of a bundle with more members")
    export_run(run, out, overwrite=True)
    assert (out / "prices.csv").read_text() == "x"
    assert {file.name for file in out.iterdir()} == {file.name for file in bundle.iterdir()} | {"prices.csv"}


@pytest.mark.parametrize("place", [".", ".."])
def test_a_bundle_does_not_replace_the_run_that_it_is_made_from(run, tmp_path, place, raises):
    copy = shutil.copytree(run, tmp_path / "cv" / "run")
    with raises(ExportError, "out"):
        export_run(copy, copy / place, overwrite=True)
    assert (copy / "best.safetensors").exists()


def test_a_folder_that_is_not_a_run_is_rejected(tmp_path, raises):
    with raises(TrainingError):
        export_run(tmp_path, tmp_path / "bundle")


class Recorder:
    """Records the bars that are shown: for each title the total and the units done."""

    def __init__(self):
        self.bars = {}

    @contextmanager
    def bar(self, title, total, done):
        units = [done]
        yield lambda more, note="": units.append(more)
        self.bars[title] = (total, sum(units))


@pytest.mark.parametrize(
    ("precision", "conversion"),
    [
        ("fp16", {"measuring the ranges of tensors", "comparing float16 with float32"}),
        ("int8", set()),
    ],
)
def test_every_stage_has_a_bar_that_reaches_its_end(run, tmp_path, precision, conversion):
    recorder = Recorder()
    with use_reporter(recorder):
        export_run(run, tmp_path / "b", precision=precision)
    verification = {
        f"verifying the {precision} graph: {part}"
        for part in ("batch shapes", "sample rows", "rows alone and together")
    }
    assert set(recorder.bars) == {"exporting the graph", "pricing with the model", *conversion, *verification}
    for total, done in recorder.bars.values():
        assert done == total


def test_a_model_that_prices_no_more_has_no_weights_in_memory(run):
    model = open_run(run).model
    kept = list(model.parameters())  # as torch's exporter keeps them
    export_module._free_weights(model)
    assert {weight.untyped_storage().nbytes() for weight in kept} == {0}
    assert {weight.device.type for weight in model.parameters()} == {"meta"}
