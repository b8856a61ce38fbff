"""Do what the Dockerfile says, without a container daemon, and use the result as containers would.

    python deploy/rehearse.py [PYTHON]

Executes the steps of the Dockerfile with this Python, in a temporary folder below /var/tmp instead of `/`. Then the
user 10001 runs its command with a read-only root, an empty `/tmp` and no capabilities: it needs a token, the health
check passes, a request gets the prices that a batch job gives the same rows, and SIGTERM ends the server. The bundle
is signed, and both trust only its key. PYTHON is the interpreter of an environment with KServe's client, which gets the
prices, too: KServe 0.21 needs another pandas than pricekit. Prints the size of what would be added to the base image.
Needs Linux, root for a mount namespace, openssl, and the port 8080. The base image itself is not tested.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.request import Request, urlopen

CONTEXT = Path(__file__).resolve().parents[1]
BUNDLE = CONTEXT / "tests" / "golden" / "bundle"
TEXTS = ["Item Name: Green Tea, 20 Count (Pack of 6)", "Item Name: Olive Oil, 500 ml"]
TRUST = ["--trust", "/keys/key.pub"]
TOKEN = "0123456789abcdef0123456789abcdef"
MOST_MEGABYTES = 700
BASE_MEGABYTES = 150
"""About the size of the base image on disk; compressed, it has 48 MB."""

_KSERVE = """
import asyncio, json, sys
import numpy as np
from kserve import InferenceRESTClient, InferInput, InferRequest, RESTConfig
token, *texts = sys.argv[1:]
url, headers = "http://127.0.0.1:8080", {"Authorization": f"Bearer {token}"}
client = InferenceRESTClient(RESTConfig(protocol="v2"))

async def prices():
    assert await client.is_server_ready(url, headers=headers)
    assert await client.is_model_ready(url, "bundle", headers=headers)
    for binary in (False, True):
        column = InferInput("catalog_content", [len(texts)], "BYTES")
        column.set_data_from_numpy(np.array(texts, np.object_), binary_data=binary)
        request = InferRequest("bundle", [column])
        response = await client.infer(url, request, headers=headers, model_name="bundle")
        yield response.outputs[0].as_numpy().tolist()

async def all_prices():
    return [each async for each in prices()]

print(json.dumps(asyncio.run(all_prices())))
"""
"""Returns the prices of texts as JSON and as binary tensors."""

_READ_ONLY = """
mount --make-rprivate /
mount --bind "$0/prices" "$0/prices"
mount --bind "$0/work" "$0/work"
mount -o remount,bind,ro /
mount -t tmpfs tmpfs /tmp
cd "$0/work"
exec setpriv --reuid 10001 --regid 10001 --clear-groups --no-new-privs --bounding-set=-all "$@"
"""


def instructions(text: str) -> Iterator[tuple[str, str]]:
    """Yield the instructions of a Dockerfile with their arguments, without comments."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        if line.strip():
            word, _, rest = line.strip().partition(" ")
            yield word.upper(), " ".join(rest.split())


@dataclass
class Image:
    """The image in a folder.

    Attributes:
        root: stands for `/`.
        folder: the working directory of the build.
        environment: of the final stage.
        words: what ENTRYPOINT, CMD and HEALTHCHECK run.
    """

    root: Path
    folder: Path
    environment: dict[str, str] = field(default_factory=dict)
    words: dict[str, list[str]] = field(default_factory=dict)

    def path(self, path: str) -> Path:
        """Return where a path of the image is."""
        return self.root / path.lstrip("/") if path.startswith("/") else self.folder / path

    def moved(self, text: str) -> str:
        """Return a text with the folders that exist only in the image."""
        return re.sub(r"(?<![\w/])/(opt|src|bundle|incoming|keys|prices)\b", rf"{self.root}/\1", text)

    def do(self, word: str, rest: str) -> None:
        """Execute an instruction."""
        if word == "WORKDIR":
            self.folder = self.path(rest)
            self.folder.mkdir(parents=True, exist_ok=True)
        elif word == "RUN":
            path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
            environment = os.environ | {"PATH": path}
            subprocess.run(["sh", "-ec", self.moved(rest)], cwd=self.folder, env=environment, check=True)
        elif word == "COPY" and not rest.startswith("--from"):
            *sources, target = rest.split()
            self.copy(sources, self.path(target))
        elif word == "ENV":
            self.environment |= dict(pair.split("=", 1) for pair in shlex.split(self.moved(rest)))
        elif word in ("ENTRYPOINT", "CMD", "HEALTHCHECK"):
            self.words[word] = json.loads(rest[rest.index("[") :])

    def copy(self, sources: Sequence[str], target: Path) -> None:
        """Copy files or folders of the context."""
        for name in sources:
            source = CONTEXT / name
            if source.is_dir():
                ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
                shutil.copytree(source, target, ignore=ignored, dirs_exist_ok=True)
            else:
                shutil.copy(source, target / source.name)

    def start(self, words: Sequence[str], errors: int | None = None, **more: str) -> subprocess.Popen[bytes]:
        """Start a command as in a container: read-only root, user 10001, empty /tmp."""
        command = ["unshare", "--mount", "sh", "-ec", _READ_ONLY, str(self.root)]
        environment = self.environment | {"HOME": "/"} | more
        words = [self.moved(word) for word in words]
        return subprocess.Popen([*command, *words], env=environment, stderr=errors)

    def run(self, words: Sequence[str]) -> None:
        """Run a command as in a container; raises SystemExit if it fails."""
        if code := self.start(words).wait(120):
            raise SystemExit(f"{shlex.join(words)} ended with exit code {code}")


def build(root: Path) -> Image:
    """Execute the Dockerfile."""
    image = Image(root, root)
    for word, rest in instructions((CONTEXT / "Dockerfile").read_text("utf-8")):
        image.do(word, rest)
    shutil.copytree(BUNDLE, root / "bundle")
    sign(image)
    (root / "incoming").mkdir()
    (root / "incoming" / "a.csv").write_text(
        "\n".join(["catalog_content", *(f'"{text}"' for text in TEXTS)]) + "\n"
    )
    (root / "prices").mkdir()
    os.chown(root / "prices", 10001, 10001)
    return image


def sign(image: Image) -> None:
    """Sign the bundle as docs/deployment.md says, with what the image has; raises CalledProcessError if it fails."""
    keys = image.path("/keys")
    keys.mkdir()
    for words in (
        ["openssl", "genpkey", "-algorithm", "ed25519", "-out", "key.pem"],
        ["openssl", "pkey", "-in", "key.pem", "-pubout", "-out", "key.pub"],
        [*image.words["ENTRYPOINT"], "bundle", "sign", str(image.path("/bundle")), "--key", "key.pem"],
    ):
        path = f"{image.environment['PATH']}:{os.environ['PATH']}"
        subprocess.run(words, cwd=keys, env=image.environment | {"PATH": path}, check=True)


def served_prices(image: Image, kserve: str | None) -> list[float]:
    """Return the prices of the server, after its health check; raises SystemExit if something fails."""
    command = [*image.words["ENTRYPOINT"], *image.words["CMD"], *TRUST]
    if image.start(command, subprocess.DEVNULL).wait(60) != 2:
        raise SystemExit("the server starts without a token")
    server = image.start(command, PRICEKIT_TOKEN=TOKEN)
    try:
        for _ in range(120):
            if image.start(image.words["HEALTHCHECK"], subprocess.DEVNULL).wait(30) == 0:
                break
            time.sleep(0.5)
        else:
            raise SystemExit("the server did not become healthy")
        body = json.dumps({"rows": [{"catalog_content": text} for text in TEXTS]}).encode()
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {TOKEN}"}
        request = Request("http://127.0.0.1:8080/predict", body, headers)
        rows: list[Mapping[str, float]] = json.load(urlopen(request, timeout=30))["rows"]
        prices = [row["price"] for row in rows]
        if kserve is not None:
            words = [kserve, "-c", _KSERVE, TOKEN, *TEXTS]
            output = subprocess.run(words, check=True, timeout=120, stdout=subprocess.PIPE).stdout
            for others in json.loads(output.splitlines()[-1]):
                check_equal(prices, others, "KServe's client")
    finally:
        server.send_signal(signal.SIGTERM)
    if code := server.wait(60):
        raise SystemExit(f"after SIGTERM, the server ended with exit code {code}")
    return prices


def check_equal(served: Sequence[float], others: Sequence[float], name: str) -> None:
    """Raise SystemExit if others have got different prices for the texts."""
    if any(abs(one - other) > 1e-5 * other for one, other in zip(served, others, strict=True)):
        raise SystemExit(f"the server's prices {served} differ from those of {name} {others}")


def rehearse(root: Path, kserve: str | None) -> None:
    """Build in a folder, serve, predict, and compare."""
    image = build(root)
    served = served_prices(image, kserve)
    job = ["predict", "/bundle", "/incoming/*.csv", "--out", "/prices/prices.jsonl", "--engine", "ort-cpu"]
    image.run([*image.words["ENTRYPOINT"], *job, *TRUST, "--resume", "--quiet"])
    lines = (root / "prices" / "prices.jsonl").read_text().splitlines()
    batch = [json.loads(line)["price"] for line in lines]
    check_equal(served, batch, "the batch job")
    size = sum(file.lstat().st_size for file in (root / "opt").rglob("*")) / 1e6
    print(f"healthy, prices equal {batch}, ended; {size:,.0f} MB are added to the base image")
    if size + BASE_MEGABYTES > MOST_MEGABYTES:
        raise SystemExit(f"with the base image, this is more than {MOST_MEGABYTES} MB")


def main() -> None:
    """Rehearse in a temporary folder."""
    if os.geteuid() != 0:
        raise SystemExit("a mount namespace needs root: run this as root")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        Path(folder).chmod(0o755)
        rehearse(Path(folder), next(iter(sys.argv[1:]), None))


if __name__ == "__main__":
    main()
