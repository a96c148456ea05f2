"""The small tokenizer of the tests: byte-level BPE with control tokens and splitting as Qwen's, trained on `samples`.

`python -m tests.golden.tokenizer` writes `tests/fixtures/tokenizer`. It is no tokenizer to train a model with: it
stands for those that are, which are not ours to ship.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from tests.conftest import ROOT

FOLDER: Final = ROOT / "tests" / "fixtures" / "tokenizer"
SIZE: Final = 2_000
_FILE_CHARACTERS: Final = 20_000
_SPLIT: Final = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_SPECIAL: Final = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
_MARKS: Final = ("<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")
"""Control strings that are no special tokens in Qwen's: a tokenizer told to split special tokens leaves these whole."""

_TEMPLATE: Final = """\
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' }}
{%- if message.role == 'assistant' %}
{%- generation %}{{ message.content + '<|im_end|>' }}{% endgeneration %}
{{- '\\n' }}
{%- else %}
{{- message.content + '<|im_end|>\\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""


def texts() -> Iterator[str]:
    """The beginning of every sample that is text."""
    for path in sorted((ROOT / "samples").rglob("*")):
        if path.is_file() and path.suffix != ".py":
            try:
                yield path.read_text("utf-8")[:_FILE_CHARACTERS]
            except UnicodeDecodeError:
                continue


def trained() -> Tokenizer:
    """The tokenizer."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_SPLIT), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    words = SIZE - len(_SPECIAL) - len(_MARKS)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(
        texts(), trainers.BpeTrainer(vocab_size=words, initial_alphabet=alphabet, show_progress=False)
    )
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in _SPECIAL])
    tokenizer.add_tokens([AddedToken(token, special=False, normalized=False) for token in _MARKS])
    return tokenizer


def write(folder: Path) -> None:
    """Writes the tokenizer as `transformers` reads it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text(trained().to_str(pretty=False) + "\n", "utf-8")
    (folder / "chat_template.jinja").write_text(_TEMPLATE, "utf-8")
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "clean_up_tokenization_spaces": False,
        "model_max_length": 262_144,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    write(FOLDER)
