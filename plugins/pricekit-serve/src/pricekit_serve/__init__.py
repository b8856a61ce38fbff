"""An HTTP server for pricekit's bundles.

command.py   `pricekit serve`
server.py    serve: the socket, signals, and an orderly end
application.py  app: models and routes as an ASGI app
access.py    what surrounds every request: id, token, log, metrics, errors; token.py reads the token
routes.py    the addresses; protocol.py those of the Open Inference Protocol; openapi.py describes them; page.py
bodies.py    bodies of requests to values; rows.py and arrow.py values to checked rows
answers.py   what is asked for each row, and the answer
queue.py     rows of several requests are priced together
models.py    bundles by name: open, and replaced by newer ones
limits.py, errors.py, metrics.py
"""

from typing import TYPE_CHECKING, Any

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
