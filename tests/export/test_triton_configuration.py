"""The configuration against Triton's own schema."""

import importlib.util
from pathlib import Path

import pytest
from google.protobuf import text_format
from hypothesis import given
from hypothesis import strategies as st

from pricekit.export.triton import Interface, quoted


def _schema():
    """Load the schema from Triton's client package, without the package itself, which needs gRPC."""
    found = importlib.util.find_spec("tritonclient")
    if found is None:
        pytest.skip("tritonclient is not installed: pip install tritonclient", allow_module_level=True)
    file = Path(found.submodule_search_locations[0], "grpc", "model_config_pb2.py")
    spec = importlib.util.spec_from_file_location("model_config_pb2", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SCHEMA = _schema()


def _parsed(text):
    return text_format.Parse(text, SCHEMA.ModelConfig())


def test_the_configuration_is_valid_and_names_every_column():
    configuration = _parsed(Interface(("title", 'size "in"\n', "größe"), 0.95).configuration("tea"))
    assert (configuration.name, configuration.backend, configuration.max_batch_size) == ("tea", "python", 256)
    inputs = [(each.name, each.data_type, list(each.dims)) for each in configuration.input]
    assert inputs == [(name, SCHEMA.TYPE_STRING, [1]) for name in ("title", 'size "in"\n', "größe")]
    outputs = [(each.name, each.data_type, list(each.dims)) for each in configuration.output]
    assert outputs == [
        *((name, SCHEMA.TYPE_FP32, [1]) for name in ("price", "price_low", "price_high")),
        ("release", SCHEMA.TYPE_BOOL, [1]),
        ("quantiles", SCHEMA.TYPE_FP32, [-1]),
    ]
    assert configuration.version_policy.HasField("all")
    assert configuration.HasField("dynamic_batching")
    values = {key: value.string_value for key, value in configuration.parameters.items()}
    assert values == {"engine": "ort-cpu", "interval": "0.9"}


def test_the_level_is_one_that_the_model_has():
    assert 'string_value: "0.75"' in Interface(("text",), 0.75).configuration("a")
    assert "interval" not in Interface(("text",), 0).configuration("a")


def test_a_model_without_intervals_returns_prices_only():
    configuration = _parsed(Interface(("text",), None).configuration("tea"))
    assert [each.name for each in configuration.output] == ["price"]
    assert dict(configuration.parameters).keys() == {"engine"}


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_name_of_a_column_survives(name):
    assert _parsed(f"name: {quoted(name)}").name == name


def test_the_configuration_for_the_bare_graph_in_the_documents_is_valid():
    page = Path(__file__).parents[2].joinpath("docs", "export.md").read_text("utf-8")
    text = page.partition("```protobuf\n")[2].partition("```")[0]
    configuration = _parsed(text)
    assert configuration.backend == "onnxruntime"
    assert [each.name for each in configuration.input] == ["input_ids", "attention_mask", "features"]
