"""Tokens, request ids, the log, metrics, failures and timeouts."""

import asyncio
import logging
import threading
from concurrent.futures import Future

import pytest
from pricekit_serve import Limits, app
from pricekit_serve.access import read_token
from pricekit_serve.queues import CallQueue, PriceQueue
from starlette.testclient import TestClient

from pricekit.plugin import ConfigError, PluginError

TOKEN = "0123456789abcdef0123"
ROWS = {"rows": [{"catalog_content": "Secret Tea, 20 Count"}]}


@pytest.fixture(scope="module")
def guarded(served):
    with TestClient(app(served, engine="ort-cpu", token=TOKEN)) as found:
        yield found


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Bearer",
        "Bearer ",
        "Bearer x",
        f"Basic {TOKEN}",
        TOKEN,
        f"Bearer {TOKEN}x",
        f"Bearer {TOKEN[:-1]}",
        "Bearer é",
    ],
)
def test_a_wrong_token_is_refused(guarded, header):
    headers = {"authorization": header.encode("latin-1")}
    for method, path in (("POST", "/predict"), ("GET", "/models"), ("GET", "/metrics"), ("GET", "/nothing")):
        answer = guarded.request(method, path, headers=headers)
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
        assert TOKEN not in answer.text


def test_the_token_opens_and_health_needs_none(guarded):
    assert (
        guarded.post("/predict", json=ROWS, headers={"authorization": f"bearer {TOKEN}"}).status_code == 200
    )
    for path in ("/v2/health/live", "/v2/health/ready", "/"):
        assert guarded.get(path).status_code == 200


@pytest.fixture(scope="module")
def local(served):
    """A server without a token that knows one name."""
    with TestClient(app(served, engine="ort-cpu", hosts=["localhost", "Shop.example"])) as found:
        yield found


@pytest.mark.parametrize(
    ("host", "known"),
    [
        ("localhost", True),
        ("LOCALHOST:8080", True),
        ("localhost.:8080", True),
        ("shop.example", True),
        ("127.0.0.1:8080", True),
        ("10.1.2.3", True),
        ("[::1]:8080", True),
        ("evil.example", False),
        ("evil.example:8080", False),
        ("localhost.evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("[evil.example]", False),
        ("evil@localhost", False),
        ("localhost:8080:evil", False),
        ("2130706433", False),
        ("", False),
    ],
)
def test_a_page_cannot_read_a_server_under_its_own_name(local, host, known):
    """With DNS rebinding, the name of the page leads to this machine."""
    for method, path in (("POST", "/predict"), ("GET", "/models"), ("GET", "/metrics"), ("GET", "/nothing")):
        answer = local.request(method, path, headers={"host": host})
        assert (answer.status_code == 421) == (not known)
    for path in ("/v2/health/live", "/v2/health/ready", "/"):
        assert local.get(path, headers={"host": host}).status_code == 200


def test_each_host_of_a_request_must_be_known(local):
    headers = [("host", "localhost"), ("host", "evil.example")]
    assert local.get("/models", headers=headers).status_code == 421


@pytest.mark.parametrize(
    ("origin", "same"),
    [
        ("http://localhost:8080", True),
        ("https://shop.example", True),
        ("http://localhost:3000", False),
        ("http://localhost", False),
        ("http://127.0.0.1:8080", False),
        ("http://evil.example", False),
        ("http://evil.example:8080", False),
        ("https://shop.example.evil.example", False),
        ("null", False),
        ("", False),
    ],
)
def test_a_page_of_another_site_cannot_send_a_request(local, origin, same):
    headers = {"host": "localhost:8080", "origin": origin}
    assert local.post("/predict", json=ROWS, headers=headers).status_code == (200 if same else 403)


def test_a_server_with_a_token_has_any_name(guarded):
    headers = {"host": "evil.example", "origin": "http://evil.example", "authorization": f"Bearer {TOKEN}"}
    assert guarded.post("/predict", json=ROWS, headers=headers).status_code == 200


def test_a_token_comes_from_a_private_file_or_the_environment(tmp_path, monkeypatch, raises):
    monkeypatch.delenv("PRICEKIT_TOKEN", raising=False)
    assert read_token(None) is None
    monkeypatch.setenv("PRICEKIT_TOKEN", TOKEN)
    assert read_token(None) == TOKEN
    monkeypatch.setenv("PRICEKIT_TOKEN", "")  # a secret that is missing must not open the server
    with raises(ConfigError) as caught:
        read_token(None)
    assert caught.value.parameters == ()  # the command line would say "Set --token-file"
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}y\n")
    file.chmod(0o600)
    assert read_token(file) == f"{TOKEN}y"
    for mode in (0o640, 0o604, 0o620, 0o660):
        file.chmod(mode)
        with raises(ConfigError, "token_file"):
            read_token(file)


@pytest.mark.parametrize("content", [b"", b"short", b"\xff" * 20, b"two words of a token", b"\x1b[2J" * 9])
def test_a_useless_token_is_an_error(tmp_path, content, raises):
    file = tmp_path / "token"
    file.write_bytes(content)
    file.chmod(0o600)
    with raises(ConfigError, "token_file"):
        read_token(file)
    with raises(ConfigError, "token_file"):
        read_token(tmp_path / "gone")


def test_each_request_has_an_id_and_one_line_without_its_text(client, caplog):
    caplog.set_level(logging.DEBUG, "pricekit")
    own = client.post("/predict", json=ROWS, headers={"x-request-id": "order-7"})
    assert own.headers["x-request-id"] == "order-7"
    forged = client.post("/predict", json={"rows": 3}, headers={"x-request-id": "a\tb" + "x" * 99})
    assert len(forged.headers["x-request-id"]) == 16
    assert forged.json()["request_id"] == forged.headers["x-request-id"]
    lines = [record for record in caplog.records if getattr(record, "facts", {}).get("path") == "/predict"]
    assert [record.facts["status"] for record in lines] == [200, 422]
    assert [record.facts["request_id"] for record in lines] == ["order-7", forged.headers["x-request-id"]]
    assert lines[0].facts["rows"] == 1
    assert "Secret" not in caplog.text


def test_metrics_count_requests_rows_and_batches(client, predictor):
    client.post("/predict", json=ROWS)
    client.post("/predict", json={"rows": 3})
    text = client.get("/metrics").text
    for line in (
        'pricekit_requests_total{route="predict",status="200"} 1.0',
        'pricekit_requests_total{route="predict",status="422"} 1.0',
        'pricekit_rows_total{model="shop"} 1.0',
        'pricekit_batch_rows_count{model="shop"} 1.0',
        'pricekit_queue_seconds_count{model="shop"} 1.0',
        'pricekit_queue_rows{model="shop"} 0.0',
        f'pricekit_model{{digest="{predictor.digest}",engine="ort-cpu",model="shop"}} 1.0',
        'pricekit_request_seconds_count{route="predict"} 2.0',
    ):
        assert line in text


@pytest.mark.parametrize(
    ("error", "answer", "logged"),
    [
        (ZeroDivisionError("secret cause"), "the server failed", "ZeroDivisionError: secret cause (line "),
        (PluginError("the feature 'x' failed"), "the model cannot price", "the feature 'x' failed"),
        (MemoryError(), "the server failed", "MemoryError"),
    ],
)
def test_a_failure_is_a_sentence_and_its_cause_is_logged_once(
    served, monkeypatch, caplog, error, answer, logged
):
    with TestClient(app(served, engine="ort-cpu")) as client:

        def fail(self, rows, times):
            raise error

        monkeypatch.setattr(PriceQueue, "_price", None, raising=False)
        monkeypatch.setattr(PriceQueue, "price", fail)
        found = client.post("/predict", json=ROWS)
        assert client.get("/v2/health/ready").status_code == 200
    assert found.status_code == 500
    assert answer in found.json()["error"]
    assert "secret" not in found.text
    assert "Traceback" not in found.text
    said = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(said) == 1
    assert logged in said[0].getMessage()


def test_a_failure_of_the_model_in_the_queue_is_a_500(client, monkeypatch):
    model = client.app.state.models.get(None)

    def fail(rows):
        raise PluginError("the engine ended")

    monkeypatch.setattr(model.queue, "_price", fail)
    answers = [client.post("/predict", json=ROWS).status_code for _ in range(2)]
    assert answers == [500, 500]


def test_a_slow_answer_is_given_up(served, monkeypatch):
    with TestClient(app(served, engine="ort-cpu", limits=Limits(timeout=0.2))) as client:
        waiting = []

        def never(self, *work):
            waiting.append(Future())
            return waiting[-1]

        monkeypatch.setattr(PriceQueue, "price", never)
        monkeypatch.setattr(CallQueue, "call", lambda self, function, times: [never(self)])
        answer = client.post("/predict", json=ROWS | {"explain": True})
    assert (answer.status_code, "within 0.2 seconds" in answer.json()["error"]) == (504, True)
    assert [each.cancelled() for each in waiting] == [True, True]


def test_a_full_queue_says_when_to_come_back(served):
    limits = Limits(max_rows=2, queue_rows=2)
    with TestClient(app(served, engine="ort-cpu", limits=limits)) as client:
        model = client.app.state.models.get(None)
        model.queue._waiting = 2
        answer = client.post("/predict", json=ROWS)
        model.queue._waiting = 0
        assert client.post("/predict", json=ROWS).status_code == 200
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")


def test_explanations_have_a_queue_of_their_own_that_says_when_to_come_back(served):
    free = threading.Event()
    with TestClient(app(served, engine="ort-cpu", limits=Limits(queue_explanations=16))) as client:
        model = client.app.state.models.get(None)
        held = model.details.call(lambda _: free.wait(20), 16)
        for options in ({"explain": True}, {"comparables": 1}):
            answer = client.post("/predict", json=ROWS | options)
            assert (answer.status_code, int(answer.headers["retry-after"]) > 0) == (429, True)
        assert client.post("/predict", json=ROWS).status_code == 200  # prices do not wait for explanations
        free.set()
        assert [each.result(20) for each in held] == [True] * 16
        assert client.post("/predict", json=ROWS | {"explain": True}).status_code == 200


async def talked(application, messages, headers=()):
    """Call the app with the messages of a client, and return what it sends."""
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/predict",
        "query_string": b"",
        "headers": list(headers),
    }
    scope |= {"http_version": "1.1", "scheme": "http", "server": ("x", 1), "client": None, "root_path": ""}
    sent, left = [], list(messages)

    async def receive():
        if not left:
            await asyncio.sleep(60)
        return left.pop(0)

    async def send(message):
        sent.append(message)

    await application(scope, receive, send)
    return sent


def asked(*request):
    return asyncio.run(talked(*request))


def test_a_body_that_does_not_come_is_given_up(served):
    sent = asked(
        app(served, engine="ort-cpu", limits=Limits(timeout=0.1)),
        [{"type": "http.request", "body": b'{"rows"', "more_body": True}],
    )
    assert sent[0]["status"] == 408


def test_a_client_that_goes_away_gets_nothing(served, caplog):
    caplog.set_level(logging.INFO, "pricekit")
    assert asked(app(served, engine="ort-cpu"), [{"type": "http.disconnect"}]) == []
    assert [record.facts["status"] for record in caplog.records if hasattr(record, "facts")] == [499]


def test_an_answer_before_the_body_ends_the_connection(guarded, client):
    known = {"authorization": f"Bearer {TOKEN}"}
    for method, path, headers in (
        ("POST", "/predict", {}),
        ("PUT", "/predict", known),
        ("POST", "/nothing", known),
        ("GET", "/v2", known),
        ("POST", "/predict", known | {"content-type": "text/plain"}),
        ("POST", "/predict", known | {"content-encoding": "gzip"}),
        ("POST", "/predict", known | {"content-length": "9" * 15}),
    ):
        for content in (b"{}", iter([b"{}"])):
            answer = guarded.request(method, path, headers=headers, content=content)
            assert answer.headers["connection"] == "close", path
    assert "connection" not in guarded.get("/predict").headers
    assert "connection" not in client.post("/predict", content=b"{}").headers


def test_requests_that_never_come_share_a_line(served, caplog):
    caplog.set_level(logging.INFO, "pricekit")
    application = app(served, engine="ort-cpu")
    record = application.state.record

    async def gone():
        for _ in range(30):
            await talked(application, [{"type": "http.disconnect"}])
        record.refused(408, "the head is not complete", 3.0, "order-7")
        record.refused(408, "the head is not complete", 3.0, "order-8")
        for _ in range(600):
            record.closed("room", "there are 5 connections")
        record.tell()
        record.tell()

    asyncio.run(gone())
    lines = [each.getMessage() for each in caplog.records if "self-test" not in each.getMessage()]
    assert [line for line in lines if " 499 " in line] == [next(line for line in lines if " 499 " in line)]
    assert "incomplete requests (499, the connection ended): 29 more in 10 seconds" in lines
    assert "incomplete requests (408, Request Timeout): 1 more in 10 seconds" in lines
    assert "connections closed (room): 599 more in 10 seconds" in lines
    assert len(lines) == 6


def test_answers_end_their_connections_while_the_server_stops(client):
    assert "connection" not in client.post("/predict", json=ROWS).headers
    client.app.state.models.stopping = True
    assert client.post("/predict", json=ROWS).headers["connection"] == "close"
    assert client.get("/v2/health/ready").headers["connection"] == "close"
