"""The command: a real server, its signals, and what it refuses at the start."""

import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import fields
from functools import cached_property
from pathlib import Path

import click
import numpy as np
import pytest
from pricekit_serve import serve
from pricekit_serve.command import serve as command
from pricekit_serve.limits import Limits
from pricekit_serve.server import _listen, graceful_seconds

from pricekit.plugin import ConfigError
from pricekit.plugin.runners import WAIT_SECONDS

ROW = {"catalog_content": "Green Tea, 20 Count"}


def finish(connection):
    """Return the status and the content of the answer."""
    answer = connection.getresponse()
    found = answer.status, json.loads(answer.read())
    connection.close()
    return found


class Server:
    """`pricekit serve` in a process of its own, on a free port."""

    def __init__(self, *arguments, **environment):
        words = [sys.executable, "-m", "pricekit", "serve", *map(str, arguments)]
        words += ["--port", "0", "--engine", "ort-cpu", "--log-format", "json"]
        self.process = subprocess.Popen(
            words, stderr=subprocess.PIPE, text=True, env=os.environ | environment
        )
        self.lines = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stderr:
            self.lines.append(json.loads(line))
        self.process.stderr.close()

    @cached_property
    def port(self):
        return int(re.search(r"at http://127\.0\.0\.1:(\d+)$", self.said("serving "))[1])

    def said(self, words):
        """Wait for a line of the log."""
        for _ in range(1200):
            if found := [line["message"] for line in list(self.lines) if words in line["message"]]:
                return found[0]
            assert self.process.poll() is None, self.lines
            time.sleep(0.05)
        raise AssertionError(self.lines)

    def begin(self, method="GET", path="/v2/health/ready", body=None):
        """Send a request; return its connection."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        headers = {"content-type": "application/json"}
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        return connection

    def ask(self, *request):
        return finish(self.begin(*request))

    def price(self, rows):
        status, found = self.ask("POST", "/predict", {"rows": rows})
        assert status == 200, found
        return found

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        return self.process.wait(60)


@pytest.fixture
def started():
    servers = []

    def start(*arguments, **environment):
        servers.append(Server(*arguments, **environment))
        assert servers[-1].port
        return servers[-1]

    yield start
    for server in servers:
        server.process.kill()
        server.process.wait(60)


@pytest.mark.parametrize("binary", [True, False])
def test_tritons_client_finds_all_that_it_asks_for(served, started, predictor, texts, binary):
    triton = pytest.importorskip("tritonclient.http", reason="pip install 'tritonclient[http]'")
    server = started(f"tea={served}")
    with triton.InferenceServerClient(f"127.0.0.1:{server.port}") as client:
        assert client.is_server_live()
        assert client.is_server_ready()
        assert client.is_model_ready("tea")
        assert not client.is_model_ready("wine")
        about = client.get_server_metadata()
        assert set(about) == {"name", "version", "extensions"}
        metadata = client.get_model_metadata("tea")
        (version,) = metadata["versions"]
        assert client.is_model_ready("tea", version)
        (column,) = metadata["inputs"]
        tensor = triton.InferInput(column["name"], [5], column["datatype"])
        tensor.set_data_from_numpy(np.array(texts[:5], np.object_), binary_data=binary)
        outputs = [
            triton.InferRequestedOutput(each["name"], binary_data=binary) for each in metadata["outputs"]
        ]
        parameters = {"interval": "0.8", "within": "3", "confidence": "0.5"}
        answer = client.infer("tea", [tensor], version, outputs, parameters=parameters)
        expected = predictor.predict(texts[:5], interval=0.8, within=3, confidence=0.5)
        kinds = {"FP32": np.float32, "BOOL": np.bool_}
        for output in metadata["outputs"]:
            column = answer.as_numpy(output["name"])
            assert (column.shape, column.dtype) == ((5,), kinds[output["datatype"]])
            np.testing.assert_allclose(column, expected[output["name"]], rtol=1e-6)
        assert answer.get_response()["model_version"] == version


def test_sigterm_first_turns_readiness_off_and_then_answers_what_has_begun(served, started, texts, raises):
    server = started(served, "--drain", "2.5")  # longer than other commands have after a signal
    assert server.ask() == (200, {"ready": True})
    rows = [{"catalog_content": text} for text in texts] * 20
    begun = server.begin("POST", "/predict", {"rows": rows})
    server.process.send_signal(signal.SIGTERM)
    server.said("stopping: no longer ready")
    assert server.ask() == (503, {"ready": False})
    assert len(server.price([ROW])["rows"]) == 1  # requests that come in spite of it are answered
    status, found = finish(begun)
    assert (status, len(found["rows"])) == (200, len(rows))
    assert server.process.wait(60) == 0
    with raises(OSError):
        server.ask()
    assert "Traceback" not in str(server.lines)


def test_an_interrupt_ends_the_server_without_a_pause(served, started):
    server = started(served, "--drain", "60")
    assert server.stop(signal.SIGINT) == 0


def test_sighup_opens_the_bundle_again_and_refuses_a_damaged_one(served, bundle, started, tmp_path):
    path = tmp_path / "current"
    shutil.copytree(bundle, path)
    server = started(f"tea={path}")
    old = server.price([ROW])
    (path / "tokenizer.json").write_text("{}")
    server.process.send_signal(signal.SIGHUP)
    server.said("the model tea stays, because its new bundle is refused")
    assert server.price([ROW]) == old
    shutil.rmtree(path)
    shutil.copytree(served, path)
    server.process.send_signal(signal.SIGHUP)
    server.said("the model tea is now")
    new = server.price([ROW])
    assert (new["model"], new["version"] != old["version"]) == ("tea", True)
    assert server.stop() == 0


def test_concurrent_clients_get_the_prices_of_the_predictor(served, started, predictor, texts):
    server, found = started(served), {}

    def ask(number):
        for text in texts[number : number + 10]:
            found[text] = server.price([{"catalog_content": text}])["rows"][0]["price"]

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(0, 80, 10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = dict(zip(texts[:80], predictor.predict(texts[:80]).tolist(), strict=True))
    assert found == pytest.approx(expected, rel=1e-6)


def test_a_raw_connection_cannot_break_it(served, started):
    server = started(served)
    for data in (
        b"\x16\x03\x01\x02",
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST /predict HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        b"G" * 99_999,
    ):
        with socket.create_connection(("127.0.0.1", server.port)) as raw:
            raw.sendall(data)
            raw.shutdown(socket.SHUT_WR)
            while raw.recv(1 << 16):
                pass
    assert server.price([ROW])
    assert "Traceback" not in str(server.lines)


def raw_answer(port, *parts):
    """Send parts of a request; return everything that the server sends before it closes the connection."""
    found = b""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as raw:
        with suppress(OSError):  # the server may close it before all parts are sent
            for part in parts:
                raw.sendall(part)
        with suppress(ConnectionResetError):
            while received := raw.recv(1 << 16):
                found += received
    return found


def test_heads_of_requests_are_bounded(served, started):
    server = started(served, "--timeout", "4")
    whole = b"POST /predict HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
    for parts, status in (
        ((b"GET / HTTP/1.1\r\nA: ", *[b"x" * 9_999] * 40), 431),  # a header without end
        ((whole.replace(b"\r\n\r\n{}", b"\r\nTransfer-Encoding: x\r\n\r\n{}"),), 400),
        ((b"\0\0\0\0 / \r\n\r\n",), 400),
        ((b"GET / HTTP/1.1\r\nHo",), 408),  # nothing follows
        (
            (whole, b"GET / HTTP/1.1\r\nHo"),
            422,
        ),  # the answer to the first request comes before that to the second
    ):
        answer = raw_answer(server.port, *parts)
        assert answer.startswith(b"HTTP/1.1 %d " % status), answer[:200]
        head, _, body = answer.partition(b"\r\n\r\n")
        assert b"application/json" in head
        assert b'"error":' in body
    assert server.price([ROW])


def test_requests_that_have_begun_may_take_their_whole_time_after_sigterm():
    """The body and the prices may each take the whole limit, and containers wait for both, and for sketches."""
    assert graceful_seconds(Limits(timeout=2.5)) > 5
    root = Path(__file__).parents[3] / "deploy"
    for file, pattern, drain in (
        ("compose.yaml", r"stop_grace_period: (\d+)s", 1),
        ("kubernetes/serve.yaml", r"terminationGracePeriodSeconds: (\d+)", 15),
    ):
        found = re.search(pattern, (root / file).read_text("utf-8"))
        assert int(found[1]) > drain + graceful_seconds(Limits()) + WAIT_SECONDS


def test_what_cannot_be_served_is_one_paragraph(pricekit, served, tmp_path, monkeypatch):
    token = tmp_path / "token"
    token.write_text("x" * 20)
    token.chmod(0o644)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for arguments, code, words in (
            ((tmp_path,), 1, "manifest.json"),
            ((served, "--token-file", token), 2, "chmod 600"),
            (
                (served, "--host", "0.0.0.0"),
                2,
                "there is no token, and everyone who reaches the host 0.0.0.0",
            ),
            ((served, "--host", "0.0.0.0"), 2, "Set --token-file, or add --without-token"),
            ((served, "--port", port), 2, f"cannot listen on 127.0.0.1:{port}"),
            ((served, "--queue-rows", 5), 2, "Check --queue-rows, or set --max-rows"),
            ((served, served), 2, "Two bundles have the name 'shop'"),
            ((f"a={served}", f"a={served}"), 2, "Two bundles have the name 'a'"),
            ((f"a b={served}",), 2, "the name of a model is 'a b'"),
            ((), 2, "Missing argument"),
        ):
            found, _, err = pricekit("serve", *arguments, *(() if "--port" in arguments else ("--port", 0)))
            assert (found, words in err) == (code, True), err


def test_other_machines_need_a_token_or_permission(served, monkeypatch, logged, raises):
    monkeypatch.setattr("pricekit_serve.server._Run.until_stopped", lambda self, listening: None)
    monkeypatch.delenv("PRICEKIT_TOKEN", raising=False)
    for host in ("0.0.0.0", "::", "10.1.2.3", "shop.example"):
        with raises(ConfigError, "token_file", "without_token"):
            serve(served, host=host, port=0)
    serve(served, host="0.0.0.0", port=0, engine="ort-cpu", without_token=True)
    assert "everyone who reaches http://0.0.0.0" in logged()
    serve(served, host="127.0.0.2", port=0, engine="ort-cpu")
    monkeypatch.setenv("PRICEKIT_TOKEN", "0123456789abcdef")
    serve(served, host="0.0.0.0", port=0, engine="ort-cpu")
    with raises(ConfigError, "token_file", "without_token"):
        serve(served, port=0, without_token=True)
    monkeypatch.delenv("PRICEKIT_TOKEN")
    serve(served, port=0, engine="ort-cpu")
    assert "everyone" not in logged()
    with raises(ConfigError, "host", "port"):
        serve(served, host="host.invalid", port=0, without_token=True)
    with ThreadPoolExecutor(1) as pool, raises(ConfigError):
        pool.submit(serve, served, port=0).result()


def test_connections_send_the_parts_of_an_answer_at_once():
    with _listen("127.0.0.1", 0) as listening:
        assert listening.proto == socket.IPPROTO_TCP  # by which asyncio knows that it may set TCP_NODELAY


def test_the_documents_use_options_of_the_command():
    root = Path(__file__).parents[3]
    options = {flag for parameter in command.params for flag in parameter.opts}
    assert "--token-file" in options
    for document in (root / "docs" / "serving.md", root / "plugins" / "pricekit-serve" / "README.md"):
        lines = [line for line in document.read_text("utf-8").splitlines() if "pricekit serve " in line]
        used = {flag for line in lines for flag in re.findall(r"(?<![\w-])--[a-z-]+", line)}
        assert used <= {*options, "--log-format", "--quiet"}, document


def test_each_limit_is_an_option_and_an_attribute(pricekit):
    _, out, _ = pricekit("serve", "--help")
    for each in fields(Limits):
        assert f"--{each.name.replace('_', '-')} " in out
        assert f"        {each.name}: " in Limits.__doc__


def test_the_help_needs_no_model(pricekit):
    code, out, _ = pricekit("serve", "--help")
    assert (code, "pricekit serve bundle --port 8080" in out) == (0, True)
    assert isinstance(command, click.Command)
    loaded = "import sys, pricekit_serve.command; print({'numpy', 'starlette', 'pyarrow'} & {*sys.modules})"
    assert subprocess.check_output([sys.executable, "-c", loaded], text=True).strip() == "set()"
