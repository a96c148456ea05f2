"""Choices by hash, the same across versions, machines and orders."""

from __future__ import annotations

import xxhash


def keyed_hash(key: str, seed: int) -> int:
    """Return 64 bits from which a choice is made.

    Args:
        key: purpose and subject of the choice, such as `turn:` and a sample's id.
    """
    return xxhash.xxh3_64_intdigest(key.encode(), seed)
