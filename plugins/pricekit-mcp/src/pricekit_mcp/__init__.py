"""A server of the Model Context Protocol for one folder: an assistant checks tables, trains models and prices products.

protocol.py server, serve: the tools, as the SDK of the protocol wants them
tools.py    what each tool takes, does and answers
folder.py   the one folder: what a caller names is copied out of it, and what a tool writes is copied into it
worker.py   each call in a process of its own, which ends with all processes that it has started
limits.py, command.py
"""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from pricekit_mcp.limits import Limits
    from pricekit_mcp.protocol import serve, server

__all__ = ["Limits", "serve", "server"]


def __getattr__(name: str) -> Any:
    """Import a public name when it is used: `pricekit mcp --help` needs none of them."""
    from importlib import import_module

    homes = {"Limits": "limits", "serve": "protocol", "server": "protocol"}
    if name not in homes:
        raise AttributeError(f"module 'pricekit_mcp' has no attribute '{name}'")
    return getattr(import_module(f"pricekit_mcp.{homes[name]}"), name)
