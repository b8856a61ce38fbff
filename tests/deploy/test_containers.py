"""The Dockerfile, the compose file and the Kubernetes manifests agree with each other and with the commands."""

import re
import shutil
import tomllib
from pathlib import Path

import pytest
import yaml

from pricekit import __version__
from pricekit.cli.main import cli

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text("utf-8")
COMPOSE = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text("utf-8"))
RESOURCES = [
    resource
    for file in sorted((ROOT / "deploy" / "kubernetes").glob("*.yaml"))
    for resource in yaml.safe_load_all(file.read_text("utf-8"))
]
RUNTIME, SERVICE = yaml.safe_load_all((ROOT / "deploy" / "kserve.yaml").read_text("utf-8"))
SERVER = "\n".join(
    file.read_text("utf-8") for file in (ROOT / "plugins" / "pricekit-serve" / "src").rglob("*.py")
)
USER = 10001


def _templates():
    """Return the template of each pod, by the name of its resource."""
    templates = {}
    for resource in RESOURCES:
        spec = resource["spec"].get("jobTemplate", resource)["spec"]
        if "template" in spec:
            templates[resource["metadata"]["name"]] = spec["template"]
    return templates


PODS = {name: template["spec"] for name, template in _templates().items()}
CONTAINERS = [pod["containers"][0] for pod in PODS.values()] + RUNTIME["spec"]["containers"]


def _arguments():
    """Return what each container runs, by the name of its place."""
    (command,) = re.findall(r"^CMD (\[.*\])$", DOCKERFILE, re.M)
    return {
        "Dockerfile": yaml.safe_load(command),
        "compose": COMPOSE["services"]["predict"]["command"].replace('"', "").split(),
        "kserve": RUNTIME["spec"]["containers"][0]["args"],
        **{name: pod["containers"][0]["args"] for name, pod in PODS.items()},
    }


ARGUMENTS = _arguments()


def test_the_base_image_is_pinned_by_its_digest():
    (base,) = re.findall(r"^ARG BASE=(.*)$", DOCKERFILE, re.M)
    assert re.fullmatch(r"[a-z./]+:3\.[\d.]+-slim-\w+@sha256:[0-9a-f]{64}", base)
    assert re.findall(r"^FROM (\S+)", DOCKERFILE, re.M) == ["${BASE}", "${BASE}"]


def test_the_image_can_check_signatures():
    (extras,) = re.findall(r'install .*"\.\[([\w,]+)\]"', DOCKERFILE)
    known = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    installed = [requirement for extra in extras.split(",") for requirement in known[extra]]
    assert any(requirement.startswith("cryptography") for requirement in installed)


def test_the_rehearsal_trusts_a_key_in_a_folder_of_the_image(tmp_path):
    from deploy.rehearse import TRUST, Image

    flag, key = TRUST
    command = cli.get_command(None, "predict")
    assert flag in {option for parameter in command.params for option in parameter.opts}
    assert Image(tmp_path, tmp_path).moved(key) == f"{tmp_path}{key}"


def test_the_rehearsal_signs_with_the_command_of_the_image(tmp_path):
    """Its command is a stand-in that shows what it gets."""
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl")
    from deploy.rehearse import TRUST, Image, sign

    command = tmp_path / "opt" / "pricekit"
    command.parent.mkdir()
    command.write_text('#!/bin/sh\necho "$@" > called\n')
    command.chmod(0o755)
    image = Image(tmp_path, tmp_path, {"PATH": str(command.parent)}, {"ENTRYPOINT": ["pricekit"]})
    sign(image)
    assert (tmp_path / "keys" / "called").read_text() == f"bundle sign {tmp_path}/bundle --key key.pem\n"
    assert "PUBLIC KEY" in image.path(TRUST[1]).read_text()


def test_a_server_without_a_token_is_not_started():
    """`pricekit serve` refuses an empty variable, and would be started again and again."""
    environment = COMPOSE["services"]["serve"]["environment"]
    assert re.fullmatch(r"\$\{PRICEKIT_TOKEN:\?[^}]+\}", environment["PRICEKIT_TOKEN"])


def test_the_page_says_where_the_folders_of_the_compose_file_are():
    page = (ROOT / "docs" / "deployment.md").read_text("utf-8")
    default = re.search(r"\$\{BUNDLE:-(\./\w+)\}", COMPOSE["services"]["serve"]["volumes"][0])[1]
    assert f"`{default}` is `deploy/{default[2:]}`" in page


def test_the_build_sees_what_it_copies_and_nothing_else():
    ignored = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    assert ignored[0] == "*"
    kept = {line[1:] for line in ignored if line.startswith("!")}
    copied = re.findall(r"^COPY (?!--from)(.*) \S+$", DOCKERFILE, re.M)
    assert {name for line in copied for name in line.split()} == kept
    assert [name for name in kept if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("place", ARGUMENTS)
def test_the_commands_have_their_options(place):
    name, *arguments = ARGUMENTS[place]
    flags = [word for word in arguments if word.startswith("--")]
    assert flags
    if name == "serve":
        own = {*re.findall(r'"(--[a-z-]+)"', SERVER), "--engine", "--log-format"}
    else:
        command = cli.get_command(None, name)
        own = {flag for parameter in command.params for flag in (*parameter.opts, *parameter.secondary_opts)}
    assert [flag for flag in flags if flag not in own] == []


@pytest.mark.parametrize("name", PODS)
def test_pods_have_no_privileges_and_limits(name):
    pod = PODS[name]
    (container,) = pod["containers"]
    assert pod["automountServiceAccountToken"] is False
    assert (pod["securityContext"]["runAsUser"], pod["securityContext"]["runAsNonRoot"]) == (USER, True)
    mounts = {mount["name"]: mount for mount in container["volumeMounts"]}
    assert mounts["bundles"]["readOnly"]
    assert set(mounts) == {volume["name"] for volume in pod["volumes"]}


@pytest.mark.parametrize("container", CONTAINERS, ids=lambda container: container["name"])
def test_containers_have_no_privileges_and_limits(container):
    allowed = container["securityContext"]
    assert (allowed["allowPrivilegeEscalation"], allowed["readOnlyRootFilesystem"]) == (False, True)
    assert allowed["capabilities"] == {"drop": ["ALL"]}
    assert container["image"] == f"pricekit:{__version__}"
    assert container["resources"]["limits"]["memory"]
    assert {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}["scratch"] == "/tmp"


def test_the_runtime_of_kserve_runs_as_the_user_of_the_image():
    (container,) = RUNTIME["spec"]["containers"]
    allowed = container["securityContext"]
    assert (allowed["runAsUser"], allowed["runAsNonRoot"]) == (USER, True)
    assert SERVICE["spec"]["predictor"]["automountServiceAccountToken"] is False


@pytest.mark.parametrize("service", COMPOSE["services"])
def test_services_have_no_privileges_and_limits(service):
    found = COMPOSE["services"][service]
    assert (found["read_only"], found["cap_drop"], found["tmpfs"]) == (True, ["ALL"], ["/tmp"])
    assert found["mem_limit"]
    assert found["cpus"]


def test_the_server_comes_back_after_every_end_but_a_stop():
    assert COMPOSE["services"]["serve"]["restart"] == "unless-stopped"


def test_the_image_runs_as_the_user_of_the_manifests():
    assert f"\nUSER {USER}:{USER}\n" in DOCKERFILE


def test_probes_ask_addresses_that_the_server_has():
    probes = [
        container[f"{kind}Probe"]
        for container in CONTAINERS
        for kind in ("startup", "readiness", "liveness")
        if f"{kind}Probe" in container
    ]
    paths = {probe["httpGet"]["path"] for probe in probes}
    paths |= set(re.findall(r"127\.0\.0\.1:8080(/[\w/]+)", DOCKERFILE))
    assert paths == {"/v2/health/live", "/v2/health/ready"}
    assert [path for path in paths if f'"{path}"' not in SERVER] == []


def test_a_load_balancer_notices_the_end_in_time():
    """Not ready for longer than a period of the probe, and ended before it is killed."""
    pod = PODS["pricekit"]
    (container,) = pod["containers"]
    drain = float(container["args"][container["args"].index("--drain") + 1])
    probe = container["readinessProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] + probe["timeoutSeconds"] < drain
    assert drain * 2 < pod["terminationGracePeriodSeconds"]


def test_a_busy_second_takes_no_server_out_of_the_service():
    (container,) = PODS["pricekit"]["containers"]
    for kind in ("startup", "readiness", "liveness"):
        probe = container[f"{kind}Probe"]
        assert probe["timeoutSeconds"] > 1
        assert probe["failureThreshold"] > 1


def test_servers_stand_on_several_nodes_and_open_new_bundles():
    pod = PODS["pricekit"]
    keys = {rule["topologyKey"] for rule in pod["topologySpreadConstraints"]}
    assert keys == {"kubernetes.io/hostname", "topology.kubernetes.io/zone"}
    assert "--watch" in pod["containers"][0]["args"]


@pytest.mark.parametrize("name", PODS)
def test_a_policy_limits_the_network_of_pods(name):
    policies = {
        each["metadata"]["name"]: each["spec"] for each in RESOURCES if each["kind"] == "NetworkPolicy"
    }
    policy = policies[name]
    assert policy["podSelector"] == {"matchLabels": {"app": name}}
    assert set(policy["policyTypes"]) == {"Ingress", "Egress"}
    assert "egress" not in policy
    assert all(rule["from"] and rule["ports"] for rule in policy.get("ingress", []))


@pytest.mark.parametrize("name", PODS)
def test_pods_have_the_label_that_policies_select(name):
    assert _templates()[name]["metadata"]["labels"]["app"] == name


def test_a_job_is_repeated_only_if_that_can_help():
    (job,) = (each["spec"] for each in RESOURCES if each["kind"] == "CronJob")
    evicted, wrong = job["jobTemplate"]["spec"]["podFailurePolicy"]["rules"]
    page = (ROOT / "docs" / "deployment.md").read_text("utf-8")
    assert f"| {', '.join(map(str, wrong['onExitCodes']['values']))} | call a person" in page
    assert wrong["action"] == "FailJob"
    assert (evicted["action"], evicted["onPodConditions"]) == ("Ignore", [{"type": "DisruptionTarget"}])


def test_a_job_that_hangs_ends_before_the_next_night():
    (job,) = (each["spec"] for each in RESOURCES if each["kind"] == "CronJob")
    last = job["startingDeadlineSeconds"] + job["jobTemplate"]["spec"]["activeDeadlineSeconds"]
    assert last < 24 * 3600
