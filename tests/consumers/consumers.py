"""The consumers by name, and what each trains of a finished run's shards, held against the spans.

Each has a script in `scripts/` that stands alone: it reads what was exported with the consumer's own code, and writes
the ids of each sample with which of them are trained. Versions are those that the forms were tried with. Consumers of
the same packages that follow each other share an environment.
"""

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import orjson

from benchmarks.environment import environment, run_checked
from tests.consumers.meaning import Compared, Meaning
from tests.consumers.rewards import Rewarded, rewarded
from trajmill.pipelines.publish.forms.forms import FORMS, export_form
from trajmill.pipelines.publish.forms.stored_samples import Conversation, Message, Span, StoredShards
from trajmill.pipelines.publish.forms.tokenizing import Tokenizing
from trajmill.schemas import ConfigError

SAMPLES: Final = 1_000
"""Samples of a domain that are compared at most."""

_TORCH: Final = "torch==2.13.0"
_TRL: Final = ("torch==2.15.0", "trl==1.16.0", "transformers==5.24.0", "google-re2")
_VERL: Final = ("torch==2.15.0", "pyarrow", "numpy", "omegaconf", "transformers==5.10.4", "verl==0.9.1", "google-re2")
QUIET: Final = {
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
        script: that reads it, if it is not of its name.
        whole: which answers are meant as a whole, of forms that know no spans: `all`, `targets`, or each `last`.
    """

    form: str
    pool: str
    packages: tuple[str, ...]
    loose: tuple[str, ...] = ()
    window: int | None = None
    script: str = ""
    whole: Literal["", "all", "targets", "last"] = ""


_DATATROVE: Final = ("datatrove[processing,io]==0.10.1", "tokenizers==0.23.3", "orjson", "zstandard")
_MEGATRON: Final = (_TORCH, "megatron-core==0.16.1", "numpy", "pybind11", "setuptools")
_SWIFT: Final = (_TORCH, "ms-swift==4.6.0", "torchvision")
_FACTORY: Final = (_TORCH, "llamafactory==0.9.5")

CONSUMERS: Final[Mapping[str, Consumer]] = {
    "datasets": Consumer("ids", "sft", ("datasets==5.2.0",)),
    "datatrove": Consumer("jsonl", "cpt", _DATATROVE),
    "megatron-core": Consumer("megatron", "cpt", _MEGATRON),
    "olmo-core": Consumer("olmo", "cpt", (_TORCH, "ai2-olmo-core==3.0.0")),
    "trl": Consumer("ids", "sft", _TRL),
    "trl-grpo": Consumer("rl", "rl", _TRL),
    "trl-last": Consumer("sft_last", "sft", _TRL, script="trl", whole="last"),
    "trl-whole": Consumer("trainers", "sft", _TRL, whole="all"),
    "verl": Consumer("ids", "sft", _VERL),
    "verl-rl": Consumer("rl", "rl", _VERL),
    "verl-whole": Consumer("trainers", "sft", _VERL, whole="all"),
    "llamafactory": Consumer("llamafactory", "sft", _FACTORY, window=32_768),
    "llamafactory-whole": Consumer("trainers", "sft", _FACTORY, whole="all"),
    "ms-swift": Consumer("swift", "sft", _SWIFT),
    "ms-swift-whole": Consumer("trainers", "sft", _SWIFT, whole="targets"),
    "axolotl": Consumer("ids", "sft", (_TORCH, "axolotl==0.19.0")),
}


def script_of(name: str) -> str:
    """The file in `scripts/` that reads for a consumer; underscores stand for hyphens."""
    return f"{(CONSUMERS[name].script or name).replace('-', '_')}.py"


def compared_with(
    path: str, name: str, tokenizing: Tokenizing, python: str
) -> dict[str, Compared] | dict[str, Rewarded]:
    """What a consumer trains of each domain, or of RL what it makes of its rows.

    Args:
        path: the run's folder.
        name: of `CONSUMERS`.
        tokenizing: the tokenizer that it is given.
        python: that has its packages.

    Raises:
        ConfigError: it cannot read what it is given.
    """
    consumer = CONSUMERS[name]
    with tempfile.TemporaryDirectory(prefix="trajmill-export-") as folder:
        form = f"{folder}/form"
        tokenizing.save(f"{folder}/tokenizer")
        export_form(path, consumer.form, form, f"{folder}/tokenizer", window=consumer.window)
        script = Path(__file__).parent / "scripts" / script_of(name)
        trained_path = f"{folder}/trained.jsonl"
        run_checked(
            [python, "-P", str(script), form, f"{folder}/tokenizer", trained_path, str(SAMPLES)],
            **{**os.environ, **QUIET, "HF_HOME": f"{folder}/cache", "MODELSCOPE_CACHE": f"{folder}/cache"},
        )
        with open(trained_path, "rb") as lines:
            if consumer.pool == "rl":
                return rewarded(path, map(orjson.loads, lines), SAMPLES)
            return _compared(_meaning(path, consumer, tokenizing), map(orjson.loads, lines))


def _compared(meaning: Meaning, rows: Iterable[Mapping[str, Any]]) -> dict[str, Compared]:
    """What rows of a consumer train, by domain; those of packs of several domains do not say theirs."""
    results = {domain: Compared(left_out=min(SAMPLES, count)) for domain, count in meaning.counts.items()}
    for row in rows:
        domain = row.get("domain") or meaning.domain(row["ids"])
        result = results.setdefault(domain, Compared())
        if result.samples + result.others < SAMPLES:
            meaning.compare(row["ids"], row["trained"], result)
    for result in results.values():
        result.left_out = max(0, result.left_out - result.samples - result.others)
    return dict(sorted(results.items()))


def tried(path: str, names: Sequence[str], tokenizing: Tokenizing) -> Iterator[tuple[str, Outcome]]:
    """Try consumers one after the other: yields (name, what it trains of each domain, or why it reads nothing).

    Args:
        path: the run's folder.
        names: of `CONSUMERS`.
        tokenizing: the tokenizer that they are given.
    """
    for (packages, loose), group in groupby(names, lambda name: (CONSUMERS[name].packages, CONSUMERS[name].loose)):
        wanted = list(group)
        try:
            with environment(packages, loose) as python:
                while wanted:
                    yield wanted[0], _outcome(path, wanted.pop(0), tokenizing, python)
        except ConfigError as error:
            yield from ((name, error) for name in wanted)


def _outcome(path: str, name: str, tokenizing: Tokenizing, python: str) -> Outcome:
    try:
        return compared_with(path, name, tokenizing, python)
    except ConfigError as error:
        return error


def _meaning(path: str, consumer: Consumer, tokenizing: Tokenizing) -> Meaning:
    shards, meaning = StoredShards(path), Meaning(tokenizing)
    for file in shards.files(consumer.pool):
        if consumer.pool == "cpt":
            meaning.add_documents(shards.documents(file))
            continue
        samples = shards.conversations(file)
        if consumer.whole:
            samples = (conversation for sample in samples for conversation in _whole(sample, consumer.whole))
        elif FORMS[consumer.form].windowed and consumer.window is not None:
            samples = _cut(samples, tokenizing, consumer.window)
        meaning.add_conversations(samples)
    return meaning


def _cut(samples: Iterable[Conversation], tokenizing: Tokenizing, window: int) -> Iterator[Conversation]:
    """The conversations as a form cuts them to a window."""
    for sample in samples:
        cut = tokenizing.conversation(sample.messages).cut(window)
        if cut is not None:
            yield replace(sample, messages=sample.messages[: len(cut.ends)])


def _whole(sample: Conversation, mode: str) -> Iterator[Conversation]:
    """The conversation with whole answers meant; or up to each of its targets, which alone is meant."""
    if mode == "last":
        for number, message in enumerate(sample.messages):
            if message.spans:
                before = [Message(message.role, message.content) for message in sample.messages[:number]]
                yield replace(sample, messages=(*before, _meant(message)))
        return
    answers = [message.role == "assistant" and (mode == "all" or bool(message.spans)) for message in sample.messages]
    messages = [_meant(message) if meant else message for message, meant in zip(sample.messages, answers, strict=True)]
    yield replace(sample, messages=tuple(messages))


def _meant(message: Message) -> Message:
    return Message(message.role, message.content, (Span(0, len(message.content)),))
