"""The readme as an index shows it: what it links to and its pictures lie in the repository, by whole addresses."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class ReadmeHook(MetadataHookInterface):
    """Gives the metadata the readme of the root, with addresses below the project's home page."""

    def update(self, metadata: dict[str, Any]) -> None:
        """See the base class."""
        text = Path(self.root, "README.md").read_text("utf-8")
        shown = with_addresses(text, metadata["urls"]["Homepage"])
        metadata["readme"] = {"content-type": "text/markdown", "text": shown}


def with_addresses(text: str, home: str) -> str:
    """Markdown whose pictures and links name files by paths, with addresses on the branch main of a repository."""
    raw = home.replace("https://github.com/", "https://raw.githubusercontent.com/")
    pictured = re.sub(r"(!\[[^\]]*\])\((?!https?:|#)([^)]+)\)", rf"\1({raw}/main/\2)", text)
    return re.sub(r"(?<=\])\((?!https?:|#)([^)]+)\)", rf"({home}/blob/main/\1)", pictured)
