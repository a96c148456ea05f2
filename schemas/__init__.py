"""The contract between all packages: transitions, trajectories, rejects, verdicts and manifests.

Everything that needs Arrow is imported on first use, so that a help page or an invalid recipe does not load it.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from trajmill.schemas.domains import DOMAINS
from trajmill.schemas.errors import ConfigError, ContractError, ParseError, ShardError, TrajmillError

if TYPE_CHECKING:
    from trajmill.schemas.contract import *  # noqa: F403 - its names are listed there, once
else:

    def __getattr__(name):
        contract = import_module("trajmill.schemas.contract")
        if name not in contract.__all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return globals().setdefault(name, getattr(contract, name))


__all__ = ["DOMAINS", "ConfigError", "ContractError", "ParseError", "ShardError", "TrajmillError"]
