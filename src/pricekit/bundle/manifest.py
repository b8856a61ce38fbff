"""The facts about a bundle in `manifest.json`; its JSON schema is docs/bundle.schema.json.

python -m pricekit.bundle.manifest > docs/bundle.schema.json
"""

from __future__ import annotations

import json
from typing import Literal

from pydantic import AliasChoices, BaseModel, Field, field_validator

SCHEMA_VERSION = 2
"""The highest known version: 2 has several members, or rearranged texts; any other bundle is written as 1."""

MOST_MEMBERS = 64

TOLERANCE = 1e-6
"""The largest difference of the sum of the members' weights from 1."""


class FileFacts(BaseModel):
    """Hash and size of a file."""

    sha256: str = Field(description="of its contents, in hexadecimal")
    bytes: int = Field(ge=0, description="its size")


class PluginFacts(BaseModel):
    """A plugin that the model was trained with; prediction needs only the features."""

    kind: str
    name: str
    package: str
    version: str


class Verified(BaseModel):
    """How the graph compares with its model."""

    shapes: list[tuple[int, int]] = Field(description="rows and tokens of each batch")
    max_relative_difference: float = Field(description="the largest relative difference of a price")
    smape_change: float | None = Field(
        None, description="on the sample rows, in points, against torch float32"
    )
    batch_sensitivity_relative_difference: float | None = Field(
        None,
        validation_alias=AliasChoices("batch_sensitivity_relative_difference", "company_relative_difference"),
        description="largest relative difference between a row's price alone and in a batch; bundles of version 0.1 "
        "call it company_relative_difference",
    )
    batch_sensitivity_share_of_sd: float | None = Field(
        None,
        validation_alias=AliasChoices("batch_sensitivity_share_of_sd", "company_share_of_sd"),
        description="the same for log prices, as a share of their standard deviation; bundles of version 0.1 call it "
        "company_share_of_sd",
    )


class MemberFacts(BaseModel):
    """One of several models whose log prices are averaged by weight."""

    weight: float = Field(gt=0, le=1, description="of its log price; those of all members sum to 1")
    model: str = Field(description="its graph: a name among the files")
    tokenizer: str = Field(description="its tokenizer")
    preprocess: str = Field(description="its columns, length and features")
    metrics: dict[str, float] | None = Field(None, description="on its own held-out rows")
    verified: Verified | None = None


class Manifest(BaseModel, extra="allow"):
    """The facts that readers of bundles rely on; a manifest may contain others."""

    schema_version: int = Field(ge=1, description="a reader refuses a higher version than it knows")
    files: dict[str, FileFacts] = Field(description="every file but the manifest, by its name in the folder")
    members: list[MemberFacts] | None = Field(
        None,
        min_length=1,
        max_length=MOST_MEMBERS,
        description="of schema version 2: the models whose log prices are averaged",
    )
    pricekit_version: str | None = Field(None, description="the version that wrote the bundle")
    created: str | None = Field(None, description="date and time of the export, ISO 8601, UTC")
    precision: Literal["fp32", "fp16", "int8"] | None = Field(None, description="of the graph's products")
    float32_nodes: list[str] | None = Field(
        None,
        description="nodes of an fp16 graph that stay in float32 because they would overflow; for "
        "several graphs, each name starts with the member's number",
    )
    opset: int | None = Field(None, description="of the graph")
    table: str | None = Field(
        None, description="name of the file that the model was trained on, without folders"
    )
    currency: str | None = Field(None, description="of the predicted prices, as found in the training table")
    rows: dict[str, int] | None = Field(None, description="trained on, validated on, unusable")
    best_epoch: int | None = Field(None, description="the epoch whose weights these are")
    metrics: dict[str, float] | None = Field(None, description="on the validation rows")
    constant_smape: float | None = Field(None, description="of the best constant price, on the same rows")
    plugins: list[PluginFacts] | None = None
    verified: Verified | None = None

    @field_validator("members")
    @classmethod
    def _weights_sum_to_one(cls, members: list[MemberFacts] | None) -> list[MemberFacts] | None:
        if members and abs(sum(member.weight for member in members) - 1) > TOLERANCE:
            raise ValueError("the weights of the members do not sum to 1")
        return members


def json_schema() -> str:
    """Return the JSON schema of the manifest."""
    return json.dumps(Manifest.model_json_schema(), indent=2) + "\n"


if __name__ == "__main__":
    print(json_schema(), end="")
