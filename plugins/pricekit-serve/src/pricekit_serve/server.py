"""A server for the app: a socket, signals, and an orderly end."""

from __future__ import annotations

import asyncio
import gc
import logging
import math
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn
from starlette.datastructures import State

from pricekit import use_reporter
from pricekit.plugin import ConfigError, describe_failure, logger, shorten
from pricekit.plugin.runners import Keys, finish_first
from pricekit_serve.access import VARIABLE, Record, is_local, read_token
from pricekit_serve.application import DEFAULT_LIMITS, app
from pricekit_serve.connections import Connection, Connections, Listener, connection_limit
from pricekit_serve.limits import Limits
from pricekit_serve.models import Models

_KEEP_ALIVE = 75
"""Seconds that an idle connection stays open: more than those of load balancers, so that they meet no closed one."""
_MARGIN = 2
"""Seconds for the answer itself."""
_SWITCH_SECONDS = 0.0005
"""A thread that prices gives way to the one that reads requests this soon, instead of after 5 ms."""


def serve(
    bundle: str | Path | Mapping[str, str | Path],
    *,
    host: str = "127.0.0.1",
    port: int = 8080,
    engine: str = "auto",
    token_file: str | Path | None = None,
    without_token: bool = False,
    allow_hosts: Sequence[str] = (),
    watch: float | None = None,
    sketches: str | Path | None = None,
    trust: Keys | None = None,
    drain: float = 1.0,
    limits: Limits = DEFAULT_LIMITS,
) -> None:
    """Answer requests until SIGTERM or SIGINT. SIGHUP opens the bundles again.

    After SIGTERM, the server is no longer ready, but answers for `drain` seconds. Then it accepts no connections, and
    returns when the requests that have begun are answered. Only the main thread can handle signals.

    Args:
        bundle: the folder or the address of a bundle, or several by name; the first one answers `/predict`.
        host: the address on which it listens. By default, only programs on this machine reach it.
        port: 0 is a free one, which the log names.
        engine: in which the bundles are opened; "auto" is the fastest on this machine.
        token_file: a file with the token that clients must send; default: the environment variable PRICEKIT_TOKEN.
        without_token: answer clients without a token, even if other machines can reach `host`.
        allow_hosts: names by which clients may call a server without a token, such as that of a proxy; localhost, the
            name in `host` and IP addresses always work.
        watch: seconds between looks whether the files of a bundle have changed; None: do not look.
        sketches: a folder for sketches of what is priced, which `pricekit.drift` reads; None: keep none.
        trust: a PEM file with a public key, or several: open only bundles that one of them has signed.
        drain: seconds.
        limits: of requests, batches and the queue.

    Raises:
        BundleError, PluginError: a bundle cannot be opened, or its self-test fails.
        ConfigError: a value cannot be used, the port is taken, others can read the token file, or there is no token
            for clients on other machines.
    """
    _require_main_thread()
    token = read_token(token_file)
    _check_access(host, token, without_token)
    with ExitStack() as stack:
        stack.enter_context(use_reporter(None))
        kept: dict[str, Any] = {"watch": watch, "sketches": sketches, "trust": trust}
        hosts = ("localhost", host, *allow_hosts)
        application = app(bundle, engine=engine, token=token, hosts=hosts, limits=limits, **kept)
        gc.collect()
        gc.freeze()  # the models' objects stay, and no collection needs to look at them
        stack.callback(gc.unfreeze)
        listening = stack.enter_context(_listen(host, port))
        config = uvicorn.Config(
            application,
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            lifespan="on",
            ws="none",
            timeout_keep_alive=_KEEP_ALIVE,
            timeout_graceful_shutdown=graceful_seconds(limits),
        )
        address = f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}"
        if token is None and not is_local(host):
            logger.warning(f"everyone who reaches {address} can ask for prices")
        for part in (finish_first(), _own_log(), _quick_turns()):
            stack.enter_context(part)
        run = _Run(uvicorn.Server(config), application.state, limits, drain, address)
        run.until_stopped(listening)
    logger.info("the server ends")


def graceful_seconds(limits: Limits) -> int:
    """Return how long requests that have begun may take at the end: the time for a body, and that for its prices."""
    return math.ceil(2 * limits.timeout) + _MARGIN


def _check_access(host: str, token: str | None, without_token: bool) -> None:
    """Raise ConfigError unless the token settings fit a host that other machines can reach."""
    if token is None and not without_token and not is_local(host):
        raise ConfigError(
            f"there is no token, and everyone who reaches the host {host} could ask for prices; expected a token, or "
            "that everyone may",
            parameters=("token_file", "without_token"),
        )
    if token is not None and without_token:
        raise ConfigError(
            f"there is a token, from a file or the environment variable {VARIABLE}, and the server is to answer "
            "without one; expected one of the two",
            parameters=("token_file", "without_token"),
        )


def _require_main_thread() -> None:
    if threading.current_thread() is not threading.main_thread():
        raise ConfigError(
            "serve was called in another thread than the main one, where it cannot handle signals; run `app` with a "
            "server of your own there"
        )


class _Run:
    """A running server, and what it does at signals."""

    def __init__(
        self, server: uvicorn.Server, state: State, limits: Limits, drain: float, address: str
    ) -> None:
        self._server, self._limits, self._drain, self._address = server, limits, drain, address
        self._models: Models = state.models
        self._record: Record = state.record
        self._connection_limit = connection_limit(limits)

    def until_stopped(self, listening: socket.socket) -> None:
        """Answer requests until a signal."""
        asyncio.run(self._main(listening))

    async def _main(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._report)
        serving = asyncio.create_task(self._server.serve(sockets=[]))
        while not self._server.started and not serving.done():
            await asyncio.sleep(0.005)
        connections = Connections(self._connection_limit, self._record)

        def connection() -> Connection:
            server = self._server
            options = {"config": server.config, "server_state": server.server_state}
            app_state = server.lifespan.state
            return Connection(self._limits, connections, self._record, app_state=app_state, **options)

        listener = Listener(listening, connections, connection, self._record)
        self._server.servers.append(listener)  # type: ignore[arg-type]  # uvicorn closes it
        handlers = {signal.SIGTERM: self._stop, signal.SIGINT: self._stop}
        if hasattr(signal, "SIGHUP"):
            handlers[signal.SIGHUP] = self._reload
        with _handling({number: _in(loop, handler) for number, handler in handlers.items()}):
            names = ", ".join(f"{model.name} {model.version}" for model in self._models.all())
            logger.info(f"serving {names} at {self._address}")
            await serving

    def _report(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Log what asyncio could not do, instead of a traceback each time."""
        del loop
        cause = context.get("exception")
        message = f"{context['message']}: {cause!r}" if cause else context["message"]
        self._record.rarely("failures of connections", shorten(message, 1000), {}, logging.ERROR)

    def _stop(self, number: int) -> None:
        """Say that the server is not ready, and end it after a while; at the second signal, at once."""
        if self._models.stopping or number == signal.SIGINT:
            self._server.force_exit = self._server.should_exit
            self._server.should_exit = True
        else:
            logger.info(f"stopping: no longer ready, and no new connections after {self._drain:g} s")
            asyncio.get_running_loop().call_later(self._drain, setattr, self._server, "should_exit", True)
        self._models.stopping = True

    def _reload(self, number: int) -> None:
        del number
        asyncio.get_running_loop().run_in_executor(None, self._models.reload)


def _in(loop: asyncio.AbstractEventLoop, handler: object) -> object:
    def handle(number: int, frame: FrameType | None) -> None:
        del frame
        loop.call_soon_threadsafe(handler, number)  # type: ignore[arg-type]

    return handle


@contextmanager
def _handling(handlers: Mapping[int, object]) -> Iterator[None]:
    """Handle signals while the block runs. asyncio's own handlers would take the signals from `pricekit`'s program."""
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}  # type: ignore[arg-type]
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _listen(host: str, port: int) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        reason = describe_failure(error) if isinstance(error, OSError) else str(error)
        raise ConfigError(
            f"the server cannot listen on {host}:{port}: {reason}", parameters=("host", "port")
        ) from None
    # Connections inherit the protocol. Only if it is named, asyncio lets them send the parts of an answer at once;
    # otherwise the second part waits 40 ms.
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, listening.detach()) as named:
        yield named


@contextmanager
def _own_log() -> Iterator[None]:
    """Let uvicorn's warnings go where pricekit's messages go."""
    theirs = logging.getLogger("uvicorn")
    before = theirs.level
    theirs.setLevel(logging.WARNING)
    for handler in logger.handlers:
        theirs.addHandler(handler)
    try:
        yield
    finally:
        theirs.setLevel(before)
        for handler in logger.handlers:
            theirs.removeHandler(handler)


@contextmanager
def _quick_turns() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_SECONDS)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
