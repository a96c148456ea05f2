"""Finished run as input of synthesis: the manifest of its shards, and the recipe's rendering and token settings."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from trajmill.pipelines.render.pieces import View
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.ownership import RUN
from trajmill.pipelines.storage.units import MANIFEST, read_manifest
from trajmill.quality.settings import ESTIMATE
from trajmill.quality.tokens import TokenCounter
from trajmill.schemas import ConfigError, ShardError
from trajmill.schemas.manifest import Manifest


@dataclass(frozen=True)
class RecordedRun:
    """Output folder of `trajmill run`; if it has no record of the run, the recipe counts as empty."""

    folder: Folder

    @cached_property
    def shards(self) -> Manifest:
        """Manifest of the run's shards.

        Raises:
            ConfigError: The shards are not finished.
        """
        manifest = read_manifest(self.folder / "shards", MANIFEST)
        if manifest is None:
            raise ConfigError(
                f"'{self.folder.url}' holds no finished shards; wanted is the output folder of `trajmill run`."
            )
        return manifest

    def check_apart(self, out: Folder) -> None:
        """Check that an output folder is outside the run's folder, which holds only files of the run.

        Raises:
            ConfigError: The output folder is within the run's folder.
        """
        if f"{out.path()}/".startswith(f"{self.folder.path()}/"):
            raise ConfigError(f"{out.path()} is within the run's own folder. Choose another --out.")

    @cached_property
    def _recipe(self) -> Mapping[str, Any]:
        try:
            recipe = json.loads(self.folder.read(RUN))["recipe"]
        except (ShardError, OSError, ValueError, KeyError, TypeError):
            return {}
        return recipe if isinstance(recipe, dict) else {}

    def counter(self) -> TokenCounter:
        """Return the token counter of the run.

        Raises:
            ConfigError: The tokenizer's file is missing.
        """
        return TokenCounter(self._recipe.get("judge", {}).get("tokenizer", ESTIMATE))

    @property
    def templates(self) -> Path | None:
        """Folder of the user's own templates, if the recipe names one."""
        folder = self._recipe.get("mix", {}).get("templates")
        return None if folder is None else Path(folder)

    @property
    def view(self) -> View:
        """View of turns according to the recipe."""
        mix, names = self._recipe.get("mix", {}), ("harness", "edits", "actions", "observation_chars", "mcp")
        options = {name: mix[name] for name in names if name in mix}
        return View(**options, escapes=mix.get("control_tokens") == "escape")
