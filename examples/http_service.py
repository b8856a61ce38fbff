"""
A price service
===============

Train, export, and answer ``POST /predict`` over HTTP, with the standard library alone.

The server limits the size of a request and the number of its texts, and says what is wrong with a bad one. It trusts
its network: for the open internet, put a proxy with TLS, authentication and a limit on requests in front of it.
The package ``pricekit-serve`` is a complete server.
"""

import json
import tempfile
import threading
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pricekit as pk

MAX_BYTES, MAX_TEXTS, MAX_LENGTH = 1_000_000, 256, 20_000
"""Limits: bytes of a request, texts of a request, characters of a text."""
TIMEOUT = 10
"""Seconds that the server waits for the bytes of a request."""


# %%
# What the server accepts
# -----------------------
#
# A request is ``{"texts": ["Item Name: …"]}``. Everything else is an error with a status and a sentence.


class RequestError(Exception):
    """A request that cannot be answered, with its HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def texts_of(body: bytes) -> list[str]:
    """Return the texts of a request, checked."""
    try:
        given = json.loads(body)
    except (ValueError, RecursionError):
        raise RequestError(400, "the request is not JSON") from None
    texts = given.get("texts") if isinstance(given, dict) else None
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise RequestError(400, 'expected a JSON object such as {"texts": ["Item Name: Green Tea"]}')
    if not 1 <= len(texts) <= MAX_TEXTS:
        raise RequestError(400, f"the request has {len(texts)} texts; expected 1 to {MAX_TEXTS}")
    if any(not text.strip() or len(text) > MAX_LENGTH for text in texts):
        raise RequestError(400, f"a text is empty or too long; expected 1 to {MAX_LENGTH:,} characters")
    return texts


# %%
# The server
# ----------
#
# Each request has its own thread. The threads share the model; they take turns using the tokenizer and the engine.


class PriceHandler(BaseHTTPRequestHandler):
    """Answers `POST /predict` with the prices of texts."""

    timeout = TIMEOUT
    model: pk.Model  # set when the server starts

    def do_POST(self) -> None:
        """Answer a request, or say in one sentence why not."""
        try:
            prices = self.model.predict(texts_of(self.body()))
            self.answer(200, {"prices": [round(float(price), 2) for price in prices]})
        except RequestError as error:
            self.answer(error.status, {"error": str(error)})
        except pk.PricekitError:
            self.answer(500, {"error": "the texts cannot be priced"})

    def do_GET(self) -> None:
        """Say that this server answers no GET."""
        self.answer(405, {"error": "send POST /predict"})

    def body(self) -> bytes:
        """Return the bytes of the request, if their number and its address are right."""
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()):
            raise RequestError(411, "the request has no valid Content-Length")
        if len(length) > 12 or int(length) > MAX_BYTES:
            raise RequestError(413, f"the request is too large; expected at most {MAX_BYTES:,} bytes")
        body = self.rfile.read(int(length))
        if self.path != "/predict":
            raise RequestError(404, "there is nothing here; send POST /predict")
        return body

    def answer(self, status: int, content: dict) -> None:
        """Send a status and a JSON object, and close the connection."""
        data = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *values: object) -> None:
        """Write no line per request."""


# %%
# Train, export, start
# --------------------
#
# Port 0 lets the system choose a free port. Only programs on this machine reach ``localhost``.

with tempfile.TemporaryDirectory() as folder:
    bundle = Path(folder) / "bundle"
    settings = {"training.refit": False}
    run = pk.train(pk.make_catalog(600), features="optimized22", epochs=4, settings=settings)
    run.export(bundle)
    PriceHandler.model = pk.load(bundle, engine="ort-cpu")

server = ThreadingHTTPServer(("localhost", 0), PriceHandler)
thread = threading.Thread(target=server.serve_forever)
thread.start()

# %%
# Requests
# --------
#
# Two products in one request, then four requests that the server rejects.


def post(path: str, body: str) -> None:
    """Send a request and print the answer."""
    connection = HTTPConnection("localhost", server.server_port, timeout=30)
    connection.request("POST", path, body.encode(), {"Content-Type": "application/json"})
    response = connection.getresponse()
    print(response.status, response.read().decode())
    connection.close()


try:
    texts = ["Item Name: Green Tea, 20 Count (Pack of 6)", "Item Name: Green Tea, 20 Count"]
    post("/predict", json.dumps({"texts": texts}))
    post("/predict", "twenty bags of tea")
    post("/predict", json.dumps({"texts": "Green Tea"}))
    post("/predict", json.dumps({"texts": []}))
    post("/prices", json.dumps({"texts": texts}))
finally:
    server.shutdown()
    thread.join()
    server.server_close()
