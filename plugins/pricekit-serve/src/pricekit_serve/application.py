"""The ASGI app: models, routes, and what surrounds them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware

from pricekit.plugin.runners import Keys, read_trust
from pricekit_serve.access import Access, Permission, Record, refuse
from pricekit_serve.limits import Limits
from pricekit_serve.metrics import Metrics
from pricekit_serve.models import Models, named
from pricekit_serve.routes import Routes
from pricekit_serve.sketches import SECONDS, Sketches
from pricekit_serve.tracing import Tracing

DEFAULT_LIMITS = Limits()


def app(
    bundles: str | Path | Mapping[str, str | Path],
    *,
    engine: str = "auto",
    token: str | None = None,
    hosts: Iterable[str] | None = None,
    limits: Limits = DEFAULT_LIMITS,
    watch: float | None = None,
    sketches: str | Path | None = None,
    trust: Keys | None = None,
) -> Starlette:
    """Return an ASGI app that prices rows with bundles.

    Args:
        bundles: the folder or the address of a bundle, or several by name; the first one answers `/predict`.
        engine: in which the bundles are opened; "auto" is the fastest on this machine.
        token: that clients must send as `Authorization: Bearer TOKEN`; None: all may ask.
        hosts: names by which clients may call a server without a token, besides its IP addresses, so that no page on
            the web can do so with DNS rebinding, such as `["localhost"]`; None: any.
        limits: of requests, batches and the queue; `max_connections` is that of `serve` alone.
        watch: seconds between looks whether the files of a bundle have changed; None: do not look.
        sketches: a folder for sketches of what is priced, which `pricekit.drift` reads; None: keep none.
        trust: a PEM file with a public key, or several: open only bundles that one of them has signed.

    Returns:
        The app; `app.state.models` has its `Models`, `app.state.record` what counts and logs.

    Raises:
        BundleError, PluginError: a bundle cannot be opened, or its self-test fails.
        ConfigError: there is no bundle, or a name cannot be used.

    Example:
        >>> import pricekit as pk, pricekit_serve
        >>> report = pk.train(pk.make_catalog(200), epochs=1).export("bundle")
        >>> application = pricekit_serve.app("bundle", engine="ort-cpu")
        >>> [model.name for model in application.state.models.all()]
        ['bundle']
    """
    metrics = Metrics()
    record = Record(metrics)
    kept = None if sketches is None else Sketches(Path(sketches), metrics)
    models = Models(named(bundles), engine, limits, metrics, kept, read_trust(trust))

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        work = [] if watch is None else [_watch(models, watch)]
        work += [] if kept is None else [_write(kept)]
        try:
            async with _meanwhile(work):
                yield
        finally:
            record.tell()
            if kept is not None:
                await asyncio.to_thread(kept.finish)

    found = Starlette(
        routes=Routes(models, limits, metrics).all(),
        middleware=[
            Middleware(
                Access,
                permission=Permission(token, hosts),
                record=record,
                tracing=Tracing(),
                stopping=lambda: models.stopping,
            )
        ],
        exception_handlers={HTTPException: refuse},
        lifespan=lifespan,
    )
    found.router.redirect_slashes = False
    found.state.models, found.state.record = models, record
    return found


@asynccontextmanager
async def _meanwhile(work: Iterable[Coroutine[Any, Any, None]]) -> AsyncIterator[None]:
    """Do work that never ends while the block runs."""
    tasks = [asyncio.create_task(each) for each in work]
    yield
    for task in tasks:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _write(sketches: Sketches) -> None:
    """Write the sketches from time to time."""
    while True:
        await asyncio.sleep(SECONDS)
        await asyncio.to_thread(sketches.write)


async def _watch(models: Models, seconds: float) -> None:
    """Reload bundles whose files have changed and are the same at two looks, so that nobody still writes them."""
    before: dict[str, object] = {}
    while True:
        await asyncio.sleep(seconds)
        now = await asyncio.to_thread(models.changed)
        if settled := [name for name, states in now.items() if before.get(name) == states]:
            await asyncio.to_thread(models.reload, settled)
        before = {name: states for name, states in now.items() if name not in settled}
