"""Fitted features as a run and a bundle store them."""

from types import SimpleNamespace

import pytest
from pydantic import BaseModel, Field

from pricekit.features.fitted import LOCAL, FittedFeatures
from pricekit.features.fitted_feature import FittedFeature


class Options(BaseModel):
    weights: str = Field("", json_schema_extra={LOCAL: True})
    column: str = "a/b"


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("models/siglip", "siglip"),
        ("models/siglip/", "siglip"),
        ("encoder.onnx", "encoder.onnx"),
        (".", "here"),
        ("below/..", "here"),
        ("link", "link"),
        ("/", "weights"),
        ("", ""),
    ],
)
def test_a_bundle_has_the_name_of_a_file_that_only_a_fit_reads(given, stored, tmp_path, monkeypatch):
    """A name is never empty, because an option that is not set may mean other columns."""
    (tmp_path / "here" / "below").mkdir(parents=True)
    (tmp_path / "here" / "link").symlink_to("below")
    monkeypatch.chdir(tmp_path / "here")
    plugin = SimpleNamespace(names=("trees",), Options=Options)
    options = Options(weights=given).model_dump()
    fitted = FittedFeatures((FittedFeature("trees", options, plugin, {}),))
    assert fitted.to_json(portable=True)[0]["options"] == {"weights": stored, "column": "a/b"}
    assert fitted.to_json()[0]["options"] == options
