"""Choices by hash: the same over versions, machines and orders."""

from __future__ import annotations

import xxhash


def keyed_hash(key: str, seed: int) -> int:
    """64 bits that choices are made from.

    Args:
        key: what is chosen for and whom, such as `turn:` and a sample's id.
        seed: of the recipe.
    """
    return xxhash.xxh3_64_intdigest(key.encode(), seed)
