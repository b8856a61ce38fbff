"""Images for pricekit: numbers from the pictures of products, as a feature."""

from __future__ import annotations

from pricekit.plugin import Register, hookimpl

pricekit_api = 1


@hookimpl
def pricekit_register_features(register: Register) -> None:
    """The feature."""
    register(
        "images",
        "pricekit_images.feature:Images",
        "size, colours, sharpness and count in a picture, or what an encoder sees in it",
    )
