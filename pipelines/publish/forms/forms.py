"""Export forms by name, and the export of a finished run's shards."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from trajmill.pipelines.publish.forms import ids, llamafactory, rl, swift, texts, token_files
from trajmill.pipelines.publish.forms.job import FormFolder, Job
from trajmill.pipelines.publish.forms.stored_samples import StoredShards
from trajmill.pipelines.publish.forms.tokenizing import Tokenizing
from trajmill.schemas import ConfigError
from trajmill.schemas.manifest import PROGRAM_VERSION, Manifest


@dataclass(frozen=True, slots=True)
class Form:
    """Layout of shards for another tool.

    Attributes:
        tokens: whether a tokenizer is needed.
        windowed: whether samples may be cut to a window.
        packed: whether a window is required.
    """

    write: Callable[[Job], None]
    tokens: bool = True
    windowed: bool = False
    packed: bool = False


FORMS: Final[Mapping[str, Form]] = {
    "ids": Form(ids.write, windowed=True),
    "jsonl": Form(texts.jsonl, tokens=False),
    "llamafactory": Form(llamafactory.write, windowed=True, packed=True),
    "megatron": Form(token_files.megatron),
    "olmo": Form(token_files.olmo),
    "rl": Form(rl.write, tokens=False),
    "sft_last": Form(texts.sft_last, tokens=False),
    "swift": Form(swift.write, windowed=True),
    "trainers": Form(texts.trainers, tokens=False),
}


def open_tokenizer(form: str, tokenizer: str | None, chat_template: str | None) -> Tokenizing:
    """Open the tokenizer that a form needs.

    Raises:
        ConfigError: there is none.
    """
    if tokenizer is None:
        raise ConfigError(f"The form '{form}' needs --tokenizer: a tokenizer.json, or a folder with one.")
    return Tokenizing(tokenizer, chat_template)


def export_form(
    path: str,
    name: str,
    out: str,
    tokenizer: str | None = None,
    chat_template: str | None = None,
    window: int | None = None,
) -> Manifest:
    """Write the shards of a finished run in a form, and return its manifest.

    Args:
        name: one of `FORMS`.
        tokenizer: a `tokenizer.json`, or a folder with one.
        chat_template: a file that replaces the tokenizer's own template.
        window: largest number of tokens of a sample.

    Raises:
        ConfigError: the options do not fit the form or the shards.
    """
    form = FORMS[name]
    if window is not None and not form.windowed:
        raise ConfigError(f"--window: the form '{name}' is not cut to a window; the recipe bounds its samples.")
    if window is None and form.packed:
        raise ConfigError(f"The form '{name}' needs --window: the tokens of a pack.")
    if chat_template is not None and tokenizer is None:
        raise ConfigError("--chat-template goes with --tokenizer.")
    opened = open_tokenizer(name, tokenizer, chat_template) if form.tokens or tokenizer is not None else None
    shards = StoredShards(path)
    job = Job(shards, FormFolder(out), opened, window)
    form.write(job)
    models = {} if opened is None else {"tokenizer": opened.digest, "chat_template": opened.template_digest}
    models = {key: value for key, value in models.items() if value}
    content = [PROGRAM_VERSION, shards.digest, name, window, models]
    return job.out.seal(name, hashlib.sha256(json.dumps(content).encode()).hexdigest(), models)
