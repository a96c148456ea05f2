"""The YAML head of a dataset card: what `datasets` and the Hub read of it.

Each configuration names the digest of the mix: `datasets` keeps what it has read of a local folder under the folder's
own name and the configurations of its card, and would take the shards of another run for those that it knows.

Source: the Hub's pages on dataset cards, and `datasets.Features`, whose form of YAML `features` writes.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import yaml

from trajmill.pipelines.mix.sample_columns import SAMPLE_SCHEMAS
from trajmill.pipelines.publish.dataset import Config, Dataset
from trajmill.pipelines.publish.licences import OTHER, on_hub

_SIZES: Final = ((10**3, "n<1K"), (10**4, "1K<n<10K"), (10**5, "10K<n<100K"), (10**6, "100K<n<1M"), (10**7, "1M<n<10M"))
_LARGER: Final = ((10**8, "10M<n<100M"), (10**9, "100M<n<1B"))
_LARGEST: Final = "n>1B"
_TASKS: Final = {"cpt": "text-generation", "sft": "text-generation", "rl": "reinforcement-learning"}
_WIDE: Final = 10_000


def card_head(dataset: Dataset) -> str:
    """The head with its two rulers, as text."""
    configs = dataset.configs()
    card = dataset.recipe.card
    stated = {"license": card.license} if card.license != OTHER else on_hub(dataset.licences)
    tasks = dict.fromkeys(_TASKS[config.name] for config in configs if config.name in _TASKS)
    values: dict[str, Any] = {
        "pretty_name": card.pretty_name,
        **stated,
        "language": [one.strip() for one in card.language.split(",")],
        "tags": list(card.tags),
        "task_categories": list(tasks),
        "size_categories": [size_category(dataset.samples)],
        "dataset_info": [_info(config) for config in configs],
        "configs": [_config(config, dataset.digest, is_first=not place) for place, config in enumerate(configs)],
    }
    return f"---\n{yaml.safe_dump(values, sort_keys=False, allow_unicode=True, width=_WIDE)}---\n"


def size_category(samples: int) -> str:
    """How many samples there are, in the Hub's words."""
    return next((word for bound, word in (*_SIZES, *_LARGER) if samples < bound), _LARGEST)


def _info(config: Config) -> dict[str, Any]:
    size = sum(file.bytes for file in config.files)  # as stored: how large rows are in memory is for readers to say
    return {
        "config_name": config.name,
        "features": features(SAMPLE_SCHEMAS[config.name]),
        "splits": [{"name": config.split, "num_bytes": size, "num_examples": config.samples}],
        "download_size": size,
        "dataset_size": size,
    }


def _config(config: Config, digest: str, *, is_first: bool) -> dict[str, Any]:
    return {
        "config_name": config.name,
        "description": f"mix {digest[:16]}",
        **({"default": True} if is_first else {}),
        "data_files": [{"split": config.split, "path": config.path}],
    }


def features(schema: pa.Schema) -> list[dict[str, Any]]:
    """The columns as a card names them."""
    return [{"name": field.name, **_typed(field.type)} for field in schema]


def _typed(kind: pa.DataType) -> dict[str, Any]:
    if pa.types.is_list(kind):
        item = kind.value_type
        return {"list": features(pa.schema(list(item))) if pa.types.is_struct(item) else str(item)}
    if pa.types.is_struct(kind):
        return {"struct": features(pa.schema(list(kind)))}
    return {"dtype": str(kind)}
