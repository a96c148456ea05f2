"""Choices by hash: the same key makes the same choice, whatever else there is to choose for."""

from __future__ import annotations

import xxhash


def keyed_hash(key: str, seed: int) -> int:
    """64 bits that choices by hash are made from; stable over versions and machines."""
    return xxhash.xxh3_64_intdigest(key.encode(), seed)
