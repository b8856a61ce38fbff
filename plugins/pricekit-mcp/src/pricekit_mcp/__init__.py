"""A server of the Model Context Protocol for one folder: an assistant checks tables, trains models and prices products.

protocol.py server, serve: the tools, as the SDK of the protocol wants them
tools.py    what each tool takes, does and answers
folder.py   the one folder: what a caller names is copied out of it, and what a tool writes is copied into it
worker.py   each call in a process of its own, which ends with all processes that it has started
limits.py, command.py
"""

from typing import TYPE_CHECKING, Any

from pricekit_mcp.limits import Limits

__version__ = "0.1.0"

if TYPE_CHECKING:
    from pricekit_mcp.protocol import serve, server

__all__ = ["Limits", "serve", "server"]


def __getattr__(name: str) -> Any:
    """Import the server when it is used: `pricekit mcp --help` does without the package `mcp`."""
    if name not in __all__:
        raise AttributeError(f"module 'pricekit_mcp' has no attribute '{name}'")
    from pricekit_mcp import protocol

    return getattr(protocol, name)
