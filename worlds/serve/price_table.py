"""Price tables: what a million tokens of a model cost, and what an hour of a sandbox costs, as the user states them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final, TypeVar

import yaml

from trajmill.schemas import ConfigError
from trajmill.synthesis.spending import Prices

_SECTIONS: Final = ("currency", "models", "sandboxes")
DEFAULT: Final = "default"
"""Name of the model, or of the sandbox, that counts where none of its own is named."""


@dataclass(frozen=True, slots=True)
class ModelPrice:
    """What a model costs and how fast it is.

    Attributes:
        prompt: a million tokens that are asked.
        completion: a million that are answered.
        cached: a million that are asked and were asked the step before, where that is cheaper; None as `prompt`.
        prompt_per_s: tokens a second that are read.
        completion_per_s: tokens a second that are written.
        latency_s: seconds of a request beside these.
    """

    prompt: float = 0.0
    completion: float = 0.0
    cached: float | None = None
    prompt_per_s: float | None = None
    completion_per_s: float | None = None
    latency_s: float = 0.0

    @property
    def prices(self) -> Prices:
        """Of its tokens, none of which counts as cached."""
        return Prices(self.prompt, self.completion)


@dataclass(frozen=True, slots=True)
class SandboxPrice:
    """What a real sandbox costs and how fast it is.

    Attributes:
        hour: of one.
        start_s: seconds until it can be used, once an episode.
        step_s: seconds of a step, where logs do not tell it; None is not known.
        idle_s: seconds of a step in which it waits for the agent, and is paid.
    """

    hour: float = 0.0
    start_s: float = 0.0
    step_s: float | None = None
    idle_s: float = 0.0


@dataclass(frozen=True, slots=True)
class PriceTable:
    """Prices by name: of models, and of sandboxes by domain."""

    currency: str = "USD"
    models: Mapping[str, ModelPrice] = field(default_factory=dict)
    sandboxes: Mapping[str, SandboxPrice] = field(default_factory=dict)

    def model(self, name: str) -> ModelPrice | None:
        """The price of a model by its name, with or without `@revision`, else the default's; None if there is none."""
        own = self.models.get(name) or self.models.get(name.rpartition("@")[0])
        return own or self.models.get(DEFAULT)

    def sandbox(self, domain: str) -> SandboxPrice | None:
        """That of a domain's sandbox, else the default's; None if there is none."""
        return self.sandboxes.get(domain) or self.sandboxes.get(DEFAULT)


def read_price_table(path: str) -> PriceTable:
    """The table in a file of YAML or JSON.

    Raises:
        ConfigError: it cannot be read, or says what no price table says.
    """
    try:
        values = yaml.safe_load(Path(path).read_text("utf-8"))
    except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
        raise ConfigError(f"{path} cannot be read as a price table: {str(error).splitlines()[0]}") from error
    if not isinstance(values, dict) or (unknown := sorted(map(str, values.keys() - set(_SECTIONS)))):
        named = f" has '{unknown[0]}', and" if isinstance(values, dict) and unknown else ""
        raise ConfigError(f"{path}{named} is no price table; it holds {', '.join(_SECTIONS)}.")
    models = _entries(path, "models", values.get("models"), ModelPrice)
    sandboxes = _entries(path, "sandboxes", values.get("sandboxes"), SandboxPrice)
    return PriceTable(str(values.get("currency", "USD")), models, sandboxes)


_Price = TypeVar("_Price", ModelPrice, SandboxPrice)


def _entries(path: str, section: str, given: Any, kind: type[_Price]) -> dict[str, _Price]:
    if not isinstance(given, dict | None):
        raise ConfigError(f"{path}: {section} holds prices by name.")
    names = [one.name for one in fields(kind)]
    found = {}
    for key, values in (given or {}).items():
        where = f"{path}: {section}.{key}"
        if not isinstance(values, dict) or (unknown := sorted(map(str, values.keys() - set(names)))):
            told = f" has no '{unknown[0]}'" if isinstance(values, dict) else " is no price"
            raise ConfigError(f"{where}{told}; there are: {', '.join(names)}.")
        for name, value in values.items():
            good = not isinstance(value, bool) and isinstance(value, int | float) and 0 <= value < float("inf")
            if not good or (value == 0 and name.endswith("_per_s")):
                raise ConfigError(f"{where}.{name}: '{value}' is no number that was wanted there.")
        found[str(key)] = kind(**{name: float(value) for name, value in values.items()})
    return found
