"""The consumers by name, and what each trains of a finished run's shards, held against the spans.

Each has a script in `scripts/` that stands alone: it reads what was exported with the consumer's own code, and writes
the ids of each sample with which of them are trained. Versions are those that the forms were tried with.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeAlias

import orjson

from pipelines.publish.consumers.environment import called, environment
from pipelines.publish.consumers.meaning import Compared, Meaning
from pipelines.publish.consumers.rewards import Rewarded, rewarded
from pipelines.publish.forms.forms import FORMS, export_form
from pipelines.publish.forms.stored_samples import Conversation, StoredShards
from pipelines.publish.forms.tokenizing import Tokenizing
from schemas import ConfigError

SAMPLES: Final = 1_000
"""Samples of a domain that are compared at most."""

_TORCH: Final = "torch==2.13.0"
_TRL: Final = (_TORCH, "trl==1.16.0", "transformers==5.16.1")
_VERL: Final = (_TORCH, "pyarrow", "numpy", "omegaconf", "transformers==5.10.0", "verl==0.9.1")
_QUIET: Final = {
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "WANDB_MODE": "disabled",
    "AXOLOTL_DO_NOT_TRACK": "1",
    "CUDA_VISIBLE_DEVICES": "",
}


Outcome: TypeAlias = "dict[str, Compared] | dict[str, Rewarded] | ConfigError"


@dataclass(frozen=True, slots=True)
class Consumer:
    """Who reads the shards.

    Attributes:
        form: that is exported for it.
        pool: that is compared.
        packages: of its environment.
        loose: packages without what they ask for.
        window: tokens that the form is cut to, where it needs that.
    """

    form: str
    pool: str
    packages: tuple[str, ...]
    loose: tuple[str, ...] = ()
    window: int | None = None


CONSUMERS: Final[Mapping[str, Consumer]] = {
    "datasets": Consumer("ids", "sft", ("datasets==5.2.0",)),
    "datatrove": Consumer(
        "jsonl", "cpt", ("datatrove[processing,io]==0.10.1", "tokenizers==0.23.3", "orjson", "zstandard")
    ),
    "mosaicml-streaming": Consumer("mds", "cpt", (_TORCH, "mosaicml-streaming==0.13.0")),
    "megatron-core": Consumer("megatron", "cpt", (_TORCH, "megatron-core==0.16.1", "numpy", "pybind11", "setuptools")),
    "olmo-core": Consumer("olmo", "cpt", (_TORCH, "ai2-olmo-core==3.0.0")),
    "trl": Consumer("ids", "sft", _TRL),
    "verl": Consumer("ids", "sft", _VERL),
    "llamafactory": Consumer("llamafactory", "sft", (_TORCH, "llamafactory==0.9.5"), window=4_096),
    "ms-swift": Consumer("swift", "sft", (_TORCH, "ms-swift==4.6.0", "torchvision")),
    "axolotl": Consumer("axolotl", "sft", (_TORCH, "axolotl==0.19.0")),
    "verl-rl": Consumer("rl", "rl", (*_VERL, "google-re2")),
    "trl-grpo": Consumer("rl", "rl", (*_TRL, "google-re2")),
}


def compared_with(
    path: str, consumer: Consumer, name: str, tokenizer: str, chat_template: str | None = None
) -> dict[str, Compared] | dict[str, Rewarded]:
    """What a consumer trains of each domain, or of RL what it makes of its rows.

    Args:
        path: the run's folder.
        consumer: who it is.
        name: its script, with hyphens for underscores.
        tokenizer: folder of the tokenizer that it is given.
        chat_template: a file, in place of the tokenizer's own.

    Raises:
        ConfigError: it cannot read what it is given.
    """
    tokenizing = Tokenizing(tokenizer, chat_template)
    found: dict[str, Compared] = {}
    with tempfile.TemporaryDirectory(prefix="trajmill-export-") as folder:
        form = f"{folder}/form"
        export_form(path, consumer.form, form, tokenizer, chat_template, consumer.window)
        tokenizing.save(f"{folder}/tokenizer")
        script = Path(__file__).parent / "scripts" / f"{name.replace('-', '_')}.py"
        with environment(consumer.packages, consumer.loose) as python:
            told = f"{folder}/trained.jsonl"
            called(
                [python, "-P", str(script), form, f"{folder}/tokenizer", told, str(SAMPLES)],
                **{**os.environ, **_QUIET, "HF_HOME": f"{folder}/cache"},
            )
        with open(told, "rb") as lines:
            if consumer.pool == "rl":
                return rewarded(path, map(orjson.loads, lines), SAMPLES)
            meaning = _meaning(path, consumer, tokenizing)
            for line in lines:
                row = orjson.loads(line)
                meaning.compare(row["ids"], row["trained"], found.setdefault(row["domain"], Compared()))
    return found


def tried(
    path: str, names: Sequence[str], tokenizer: str | None, chat_template: str | None = None
) -> Iterator[tuple[str, Outcome]]:
    """(consumer, what it trains of each domain, or why it reads nothing) of each, one after the other.

    Args:
        path: the run's folder.
        names: of `CONSUMERS`, or `all`.
        tokenizer: folder of the tokenizer that they are given.
        chat_template: a file, in place of the tokenizer's own.

    Raises:
        ConfigError: there is no such consumer, or what is needed of all of them is missing.
    """
    wanted = list(CONSUMERS) if "all" in names else list(names)
    unknown = [name for name in wanted if name not in CONSUMERS]
    if unknown:
        raise ConfigError(f"There is no consumer '{unknown[0]}'; there are: {', '.join(CONSUMERS)}, all.")
    if tokenizer is None:
        raise ConfigError("--consumer needs --tokenizer: the folder of the tokenizer that is handed to it.")
    StoredShards(path)
    return _tried(path, wanted, tokenizer, chat_template)


def _tried(path: str, names: Sequence[str], tokenizer: str, chat_template: str | None) -> Iterator[tuple[str, Outcome]]:
    for name in names:
        try:
            yield name, compared_with(path, CONSUMERS[name], name, tokenizer, chat_template)
        except ConfigError as error:
            yield name, error


def _meaning(path: str, consumer: Consumer, tokenizing: Tokenizing) -> Meaning:
    shards, meaning = StoredShards(path), Meaning(tokenizing)
    for file in shards.files(consumer.pool):
        if consumer.pool == "cpt":
            meaning.add_documents(shards.documents(file))
        elif FORMS[consumer.form].windowed and consumer.window is not None:
            meaning.add_conversations(_cut(shards.conversations(file), tokenizing, consumer.window))
        else:
            meaning.add_conversations(shards.conversations(file))
    return meaning


def _cut(samples: Iterable[Conversation], tokenizing: Tokenizing, window: int) -> Iterator[Conversation]:
    """The conversations as a form cuts them to a window."""
    for sample in samples:
        held = tokenizing.conversation(sample.messages).cut(window)
        if held is not None:
            yield replace(sample, messages=sample.messages[: len(held.ends)])
