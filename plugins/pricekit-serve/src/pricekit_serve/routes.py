"""The addresses of the server, and their answers."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
from collections.abc import Callable, Iterable
from functools import partial
from importlib.resources import files
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pricekit_serve.answers import UNCERTAINTY, Answer, Wanted, answer, as_json
from pricekit_serve.bodies import JSON, JSON_LINES, Bodies, parse_json, parse_json_lines
from pricekit_serve.description import describe, describe_in_full
from pricekit_serve.errors import RequestError, invalid
from pricekit_serve.limits import Limits
from pricekit_serve.metrics import Metrics
from pricekit_serve.models import Model, Models
from pricekit_serve.openapi import document
from pricekit_serve.protocol import JSON_BYTES, Inference, model_metadata, server_metadata
from pricekit_serve.rows import ARROW, Rows, rows_of_arrow, rows_of_json

PAGE = files("pricekit_serve").joinpath("page.html").read_bytes()


def _allowed(tag: str) -> str:
    """Return the source of a content security policy that allows the only block of this tag in the page."""
    block = re.search(rf"<{tag}>(.*?)</{tag}>".encode(), PAGE, re.S)
    assert block is not None
    return f"'sha256-{base64.b64encode(hashlib.sha256(block[1]).digest()).decode()}'"


PAGE_POLICY = {
    "content-security-policy": "default-src 'none'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    f"frame-ancestors 'none'; script-src {_allowed('script')}; style-src {_allowed('style')}",
    "referrer-policy": "no-referrer",
}
"""Headers of the page: its own script and style run, and nothing else does."""


_FORMATS = {
    JSON: Answer.to_json,
    **dict.fromkeys(JSON_LINES, Answer.to_json_lines),
    ARROW: Answer.to_arrow,
}
"""How an answer is written, by the type of the request."""
_ROWS_AT_ONCE = 64
Written = TypeVar("Written")
KEYS = ("rows", *UNCERTAINTY, "explain", "comparables")


class Routes:
    """The addresses of a server, and the functions that answer there.

    Args:
        models: that it serves.
        limits: of requests.
        metrics: of the server.
    """

    def __init__(self, models: Models, limits: Limits, metrics: Metrics) -> None:
        self._models, self._limits, self._metrics = models, limits, metrics
        self._bodies = Bodies(limits)
        self._document: tuple[list[tuple[str, str]], bytes] | None = None
        self._descriptions: WeakKeyDictionary[Model, dict[str, Any]] = WeakKeyDictionary()
        self._describing = asyncio.Lock()

    def all(self) -> list[Route]:
        """Return all routes."""
        post, get = ["POST"], ["GET"]
        version = "/v2/models/{name}/versions/{version}"
        return [
            Route("/predict", self.predict, methods=post),
            Route("/models", self.models, methods=get),
            Route("/models/{name}", self.model, methods=get),
            Route("/models/{name}/predict", self.predict, methods=post),
            Route("/v2", self.server, methods=get),
            Route("/v2/health/live", self.live, methods=get),
            Route("/v2/health/ready", self.ready, methods=get),
            *(Route(path, self.metadata, methods=get) for path in ("/v2/models/{name}", version)),
            *(Route(f"{path}/ready", self.ready, methods=get) for path in ("/v2/models/{name}", version)),
            *(Route(f"{path}/infer", self.infer, methods=post) for path in ("/v2/models/{name}", version)),
            Route("/metrics", self.metrics, methods=get),
            Route("/openapi.json", self.openapi, methods=get),
            Route("/", self.page, methods=get),
        ]

    async def predict(self, request: Request) -> Response:
        """Price the rows of a request, in the format in which it gives them."""
        model = self._model(request)
        kind = content_type(request)
        query = dict(request.query_params)
        read = partial(_read_request, kind=kind, model=model, limits=self._limits, query=query)
        async with self._bodies.parsed(request, read) as (rows, wanted):
            request.state.rows = len(rows)
            priced = await answer(model, rows, wanted, self._limits)
        return Response(await self._in_turn(priced, _FORMATS[kind]), media_type=kind)

    async def infer(self, request: Request) -> Response:
        """Price tensors of texts."""
        model, json_bytes = self._model(request), request.headers.get(JSON_BYTES)
        read = partial(Inference.read, json_bytes=json_bytes, model=model, limits=self._limits)
        async with self._bodies.parsed(request, read) as inference:
            request.state.rows = len(inference.rows)
            priced = await answer(model, inference.rows, inference.wanted, self._limits)
        body, json_size = await self._in_turn(priced, inference.answer)
        if json_size is None:
            return Response(body, media_type=JSON)
        return Response(body, headers={JSON_BYTES: str(json_size)}, media_type="application/octet-stream")

    async def _in_turn(self, priced: Answer, write: Callable[[Answer], Written]) -> Written:
        """Return what a function makes of an answer; a thread calls it if there are many rows or details."""
        if len(priced.price) <= _ROWS_AT_ONCE and not priced.details:
            return write(priced)
        return await self._bodies.in_turn(0, write, priced)

    async def models(self, request: Request) -> Response:
        """List the models with their columns."""
        return _json({"models": [describe(model) for model in self._models.all()]})

    async def model(self, request: Request) -> Response:
        """Describe a model with the fields of a form and an example."""
        model = self._model(request)
        async with self._describing:  # requests at the same time read the products once
            if model not in self._descriptions:
                self._descriptions[model] = await asyncio.to_thread(describe_in_full, model)
        return _json(self._descriptions[model])

    async def server(self, request: Request) -> Response:
        """Describe the server."""
        return _json(server_metadata())

    async def metadata(self, request: Request) -> Response:
        """Describe a model's tensors."""
        return _json(model_metadata(self._model(request)))

    async def live(self, request: Request) -> Response:
        """Say that the process answers."""
        return _json({"live": True})

    async def ready(self, request: Request) -> Response:
        """Say whether the server, and the model that is named, take new requests."""
        named = {"name": self._model(request).name} if "name" in request.path_params else {}
        return _json(named | {"ready": self._models.ready}, 200 if self._models.ready else 503)

    async def metrics(self, request: Request) -> Response:
        """Return the metrics."""
        return Response(self._metrics.text(), media_type=self._metrics.content_type)

    async def openapi(self, request: Request) -> Response:
        """Describe this interface."""
        models = self._models.all()
        versions = [(model.name, model.version) for model in models]
        if self._document is None or self._document[0] != versions:
            self._document = versions, as_json(document(models, self._limits))
        return Response(self._document[1], media_type=JSON)

    async def page(self, request: Request) -> Response:
        """Return the page on which people price a product or a table."""
        return Response(PAGE, media_type="text/html; charset=utf-8", headers=PAGE_POLICY)

    def _model(self, request: Request) -> Model:
        return self._models.get(request.path_params.get("name"), request.path_params.get("version"))


def content_type(request: Request) -> str:
    """Return the type of the body, by default JSON; raises RequestError if it is another."""
    kind, _, parameters = request.headers.get("content-type", JSON).partition(";")
    kind = str(kind).strip().lower()
    charset = parameters.strip().lower().removeprefix("charset=").strip('"')
    if kind not in (JSON, *JSON_LINES, ARROW) or charset not in ("", "utf-8", "utf8"):
        kinds = ", ".join((JSON, *JSON_LINES, ARROW))
        raise RequestError(415, f"the Content-Type is not one of {kinds}, in UTF-8")
    return kind


def _read_request(
    body: bytes, kind: str, model: Model, limits: Limits, query: dict[str, str]
) -> tuple[Rows, Wanted]:
    """Return the rows of a body, and what is requested: in the JSON document, or else in the query."""
    known, most = model.columns, limits.max_rows
    _check_query(query, kind)
    if kind == JSON:
        content = parse_json(body, known.most_values(most))
        if not isinstance(content, dict):
            raise RequestError(422, 'the body is not an object such as {"rows": [...]}')
        if unknown := [key for key in content if key not in KEYS]:
            raise invalid(unknown[0], f"is unknown; expected {', '.join(KEYS)}")
        return rows_of_json(content.get("rows"), known, most), Wanted.of(content, model)
    wanted = Wanted.of({key: _value(key, text) for key, text in query.items()}, model)
    if kind in JSON_LINES:
        return rows_of_json(parse_json_lines(body, known.most_values(most)), known, most), wanted
    return rows_of_arrow(body, known, most), wanted


def _check_query(query: Iterable[str], kind: str) -> None:
    """Raise RequestError for a name in the query that would change nothing in the answer to a body of this type."""
    options = KEYS[1:]
    for key in query:
        if kind == JSON and key in KEYS:
            raise invalid(
                key, f'is in the query; with a JSON body, set the field "{key}" of the body instead'
            )
        if kind == JSON:
            raise invalid(key, f"is unknown in the query; a JSON body has the fields {', '.join(KEYS)}")
        if key not in options:
            raise invalid(key, f"is unknown in the query; expected {', '.join(options)}")
        if kind == ARROW and key not in UNCERTAINTY:
            raise invalid(
                key, "cannot be used with Arrow, whose answer has prices only; send JSON or JSON lines"
            )


def _value(key: str, text: str) -> Any:
    lists = key in UNCERTAINTY and UNCERTAINTY[key].is_numbers
    try:
        return parse_json((f"[{text}]" if lists else text).encode("utf-8", "replace"), 1000 if lists else 10)
    except RequestError:
        expected = "numbers that are joined by commas" if lists else "a number, true or false"
        raise invalid(key, f"is not {expected}") from None


def _json(content: Any, status: int = 200) -> Response:
    return Response(as_json(content), status, media_type=JSON)
