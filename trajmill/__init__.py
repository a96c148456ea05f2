"""Curate interaction logs into training shards for language world models.

This module is the public API; everything else may change between releases. Names are loaded on first use, so that
`import trajmill` costs next to nothing.
"""

import os
from importlib import import_module

TYPE_CHECKING = False  # type checkers know the name; typing itself takes longer to load than all of this

# pyarrow reads this when it is loaded. Its bundled allocators reserve a gigabyte of address space and never give
# freed addresses back, which a limit on data (`ulimit -d`) counts.
os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")

# numpy reads this when it is loaded. OpenBLAS would start one spinning thread per core; the problems solved here are
# small, and one thread gives the same result on any number of cores.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

if TYPE_CHECKING:
    from trajmill.app.api import plan, run, scan_shards, sniff
    from trajmill.connectors.connector import Connector
    from trajmill.pipelines.recipe.recipe_file import load_recipe
    from trajmill.quality.signal import Signal
    from trajmill.schemas import (
        REJECT_SCHEMA,
        SCHEMA_VERSION,
        TRANSITION_SCHEMA,
        ConfigError,
        ContractError,
        ParseError,
        ShardError,
        TrajmillError,
        json_schema,
        scan_transitions,
        verdict_schema,
    )

__all__ = [
    "REJECT_SCHEMA",
    "SCHEMA_VERSION",
    "TRANSITION_SCHEMA",
    "ConfigError",
    "Connector",
    "ContractError",
    "ParseError",
    "ShardError",
    "Signal",
    "TrajmillError",
    "json_schema",
    "load_recipe",
    "plan",
    "run",
    "scan_shards",
    "scan_transitions",
    "sniff",
    "verdict_schema",
]

if not TYPE_CHECKING:
    _MODULES = {
        "Connector": "trajmill.connectors.connector",
        "Signal": "trajmill.quality.signal",
        "load_recipe": "trajmill.pipelines.recipe.recipe_file",
        "plan": "trajmill.app.api",
        "run": "trajmill.app.api",
        "scan_shards": "trajmill.app.api",
        "sniff": "trajmill.app.api",
    }

    def __getattr__(name):
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(_MODULES.get(name, "trajmill.schemas")), name)
        globals()[name] = value
        return value

    def __dir__():
        return sorted({*globals(), *__all__})
