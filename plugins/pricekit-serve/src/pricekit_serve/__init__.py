"""An HTTP server for pricekit's bundles.

command.py      `pricekit serve`
server.py       serve: the socket, signals, and an orderly end
application.py  app: models and routes as an ASGI app
access/         connections with limits, who may ask, what is kept of each request, and answers to errors
routes/         what answers at each address: the own interface, the Open Inference Protocol, its description, a page
requests/       bodies of requests: read within limits, parsed without trust, and turned into checked rows
models/         open bundles by name, replaced by newer ones; the queues that price their rows; answers
limits.py, errors.py, metrics.py, tracing.py
"""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from pricekit_serve.application import app
    from pricekit_serve.limits import Limits
    from pricekit_serve.server import serve

__all__ = ["Limits", "app", "serve"]


def __getattr__(name: str) -> Any:
    """Import a public name when it is used: `pricekit serve --help` needs none of them."""
    from importlib import import_module

    homes = {"Limits": "limits", "app": "application", "serve": "server"}
    if name not in homes:
        raise AttributeError(f"module 'pricekit_serve' has no attribute '{name}'")
    return getattr(import_module(f"pricekit_serve.{homes[name]}"), name)
