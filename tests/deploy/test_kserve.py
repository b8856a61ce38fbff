"""The manifests for KServe against the classes that KServe and Kubernetes generate from their schemas."""

import re
from copy import deepcopy
from pathlib import Path

import pytest
import yaml

MANIFESTS = list(
    yaml.safe_load_all(Path(__file__).parents[2].joinpath("deploy", "kserve.yaml").read_text("utf-8"))
)
PLAIN = {"str": str, "int": int, "float": (int, float), "bool": bool}
VERSIONS = {"ServingRuntime": "serving.kserve.io/v1alpha1", "InferenceService": "serving.kserve.io/v1beta1"}


@pytest.fixture(scope="module")
def problems():
    """Return a function that lists what is wrong with a manifest."""
    kserve = pytest.importorskip("kserve", reason="KServe is not installed; it needs another pandas")
    modules = [kserve.models, pytest.importorskip("kubernetes.client")]

    def mistakes(value, kind, place):
        inner = re.fullmatch(r"[Ll]ist\[(.*)\]|[Dd]ict[(\[]str, (.*)[)\]]", kind)
        if kind == "object":  # a number or a text
            return []
        if kind in PLAIN:
            fits = isinstance(value, PLAIN[kind]) and (kind == "bool" or not isinstance(value, bool))
            return [] if fits else [f"{place} is no {kind}"]
        if inner and inner[1]:
            if not isinstance(value, list):
                return [f"{place} is no list"]
            return [each for n, one in enumerate(value) for each in mistakes(one, inner[1], f"{place}[{n}]")]
        if not isinstance(value, dict):
            return [f"{place} is no object"]
        if inner:
            return [each for key, one in value.items() for each in mistakes(one, inner[2], f"{place}.{key}")]
        model = next(getattr(module, kind) for module in modules if hasattr(module, kind))
        names = {written: name for name, written in model.attribute_map.items()}
        wrong = [f"{place}.{key} is unknown" for key in value.keys() - names.keys()]
        known = {names[key]: one for key, one in value.items() if key in names}
        try:
            model(**known)
        except ValueError as error:  # a required value is missing
            wrong.append(f"{place}: {error}")
        for name, one in known.items():
            wrong += mistakes(one, model.openapi_types[name], f"{place}.{model.attribute_map[name]}")
        return wrong

    def check(manifest):
        kind = manifest["kind"]
        other_version = [] if manifest["apiVersion"] == VERSIONS[kind] else ["another apiVersion"]
        version = manifest["apiVersion"].rpartition("/")[2].capitalize()
        return other_version + mistakes(manifest, f"{version}{kind}", kind)

    return check


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda manifest: manifest["kind"])
def test_a_manifest_fits_the_schema(problems, manifest):
    assert problems(manifest) == []


@pytest.mark.parametrize(
    ("number", "place", "value"),
    [
        (0, ("spec", "supportedModelFormat"), []),
        (0, ("spec", "supportedModelFormats", 0, "autoSelect"), "yes"),
        (0, ("spec", "protocolVersions"), "v2"),
        (0, ("spec", "containers", 0, "readinessProbe", "httpGet", "path"), 7),
        (0, ("spec", "containers", 0, "readinessProbe", "httpGet", "port"), None),
        (0, ("spec", "containers", 0, "resources", "limits"), "2Gi"),
        (0, ("spec", "volumes", 0, "emptydir"), {}),
        (1, ("spec", "predictor", "minReplicas"), "2"),
        (1, ("spec", "predictor", "model", "modelFormat"), None),
        (1, ("spec", "predictor", "model", "storageURI"), "s3://shop"),
    ],
)
def test_a_mistake_is_found(problems, number, place, value):
    manifest = deepcopy(MANIFESTS[number])
    *path, last = place
    inside = manifest
    for step in path:
        inside = inside[step]
    inside[last] = value
    if value is None:
        del inside[last]
    assert problems(manifest)  # without the mistake, there are none


def test_the_service_uses_the_runtime_and_its_format():
    runtime, service = MANIFESTS
    model = service["spec"]["predictor"]["model"]
    assert model["runtime"] == runtime["metadata"]["name"]
    assert model["modelFormat"]["name"] in [each["name"] for each in runtime["spec"]["supportedModelFormats"]]
    assert model["protocolVersion"] in runtime["spec"]["protocolVersions"]


def test_the_runtime_serves_the_folder_of_kserve_under_the_name_of_the_service():
    (container,) = MANIFESTS[0]["spec"]["containers"]
    assert container["name"] == "kserve-container"
    assert container["args"][:2] == ["serve", "{{.Name}}=/mnt/models"]
    port = int(container["args"][container["args"].index("--port") + 1])
    probes = [container[f"{kind}Probe"]["httpGet"]["port"] for kind in ("readiness", "liveness")]
    assert [port, *probes] == 3 * [container["ports"][0]["containerPort"]]
