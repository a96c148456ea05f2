"""Keys of forgotten data: keyed hashes that recognize it when it returns, without revealing it.

With the salt, one can only test whether a guessed id or the bytes of a log are among them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from secrets import token_hex
from typing import Final

from trajmill.pipelines.storage.folders import Folder

NAME: Final = "generations/tombstones.json"
"""Path in the output folder."""

TRAJECTORY: Final = "trajectory"
LOG: Final = "log"
FILE: Final = "file"
_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class Tombstones:
    """Keyed hashes of forgotten data."""

    salt: str = field(default_factory=lambda: token_hex(_BYTES))
    keys: frozenset[str] = frozenset()

    @classmethod
    def read(cls, out: Folder) -> Tombstones:
        """Read the tombstones of an output folder; empty if nothing was ever forgotten."""
        data = out.found(NAME)
        if data is None:
            return cls()
        values = json.loads(data)
        return cls(values["salt"], frozenset(values["keys"]))

    def write(self, out: Folder) -> None:
        """Write the tombstones into an output folder, readable by the user alone."""
        data = json.dumps({"salt": self.salt, "keys": sorted(self.keys)}, indent=0).encode() + b"\n"
        out.write(NAME, data, private=True)

    def adding(self, kind: str, values: Iterable[str]) -> Tombstones:
        """The same with more.

        Args:
            kind: `TRAJECTORY` for ids, `LOG` for digests of logs' bytes, or `FILE` for where their files lie.
        """
        return Tombstones(self.salt, self.keys | {self._key(kind, value) for value in values})

    def hold(self, kind: str, value: str) -> bool:
        """Return True if the value was forgotten."""
        return bool(self.keys) and self._key(kind, value) in self.keys

    def _key(self, kind: str, value: str) -> str:
        key = bytes.fromhex(self.salt)
        return hashlib.blake2b(f"{kind}:{value}".encode(), key=key, digest_size=_BYTES).hexdigest()
