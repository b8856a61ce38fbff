"""The page on which people price a product or a table: one HTML file that asks no other server for anything."""

from __future__ import annotations

import base64
import hashlib
import re
from importlib.resources import files

PAGE = files("pricekit_serve.routes").joinpath("page.html").read_bytes()


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
