"""The folder of a tokenizer as models of Qwen have it, made of what packages on PyPI bring: `dashscope`, `trl`.

    python -m benchmarks.published_tokenizer out/qwen [--template qwen2_5]

`dashscope` holds Qwen's ranks of byte pairs (`qwen.tiktoken`); `trl` holds copies of its chat templates. Names and
numbers of control tokens are those of Qwen 2.5 and 3. Both packages are installed without what they ask for into an
environment that is removed afterwards; nothing of them stays but the folder.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Final

import typer
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from benchmarks.environment import environment

_SHOWN_BYTES: Final = (*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100))
_HIDDEN_BYTES: Final = sorted({*range(256)} - {*_SHOWN_BYTES})
_CHARACTERS: Final = {byte: chr(byte) for byte in _SHOWN_BYTES} | {
    byte: chr(0x100 + number) for number, byte in enumerate(_HIDDEN_BYTES)
}
"""The character that byte-level tokenizers write each byte as."""

PACKAGES: Final = ("dashscope==2.0.2", "trl==1.16.0")
PATTERN: Final = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
FIRST_CONTROL: Final = 151_643
CONTROL: Final = (
    *("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>", "<|object_ref_end|>", "<|box_start|>"),
    *("<|box_end|>", "<|quad_start|>", "<|quad_end|>", "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>"),
    *("<|image_pad|>", "<|video_pad|>", "<tool_call>", "</tool_call>", "<|fim_prefix|>", "<|fim_middle|>"),
    *("<|fim_suffix|>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>", "<tool_response>", "</tool_response>"),
    *("<think>", "</think>"),
)
"""In the order of their numbers."""


def ranks(text: str) -> dict[bytes, int]:
    """The number of each sequence of bytes, of lines of base64 and number."""
    pairs = (line.split() for line in text.splitlines() if line)
    return {base64.b64decode(token): int(number) for token, number in pairs}


def merges(numbers: Mapping[bytes, int]) -> Iterator[tuple[bytes, bytes]]:
    """The pair that each token of several bytes is merged of, by number.

    It is what merging its bytes leaves where the token itself is not known yet.
    """
    for token, number in sorted(numbers.items(), key=lambda item: item[1]):
        if len(token) > 1:
            left, right = _merge(token, numbers, number)
            yield left, right


def _merge(token: bytes, numbers: Mapping[bytes, int], bound: int) -> list[bytes]:
    """The bytes of a token, merged as far as tokens of numbers below the bound do."""
    parts = [token[at : at + 1] for at in range(len(token))]
    while True:
        mergeable = [
            (number, at)
            for at in range(len(parts) - 1)
            if (number := numbers.get(parts[at] + parts[at + 1], bound)) < bound
        ]
        if not mergeable:
            return parts
        _, at = min(mergeable)
        parts[at : at + 2] = [parts[at] + parts[at + 1]]


def tokenizer(token_numbers: Mapping[bytes, int]) -> Tokenizer:
    """The tokenizer of ranks, byte for byte as Qwen's own."""

    def written(token: bytes) -> str:
        return "".join(_CHARACTERS[byte] for byte in token)

    vocabulary = {written(token): number for token, number in token_numbers.items()}
    pairs = [(written(left), written(right)) for left, right in merges(token_numbers)]
    built = Tokenizer(models.BPE(vocabulary, pairs, fuse_unk=False, byte_fallback=False, ignore_merges=False))
    built.normalizer = normalizers.NFC()
    built.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PATTERN), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    built.decoder = decoders.ByteLevel()
    built.add_special_tokens([AddedToken(name, normalized=False, special=name.startswith("<|")) for name in CONTROL])
    numbers = [built.token_to_id(name) for name in CONTROL]
    if numbers != list(range(FIRST_CONTROL, FIRST_CONTROL + len(CONTROL))):
        raise SystemExit(f"control tokens have other numbers than Qwen's: {numbers[0]} and following")
    return built


def write(
    out: Annotated[Path, typer.Argument(help="The folder that is written.")],
    template: Annotated[str, typer.Option(help="A chat template of trl, such as qwen3_training.")] = "qwen2_5",
) -> None:
    """Write tokenizer.json, tokenizer_config.json and chat_template.jinja."""
    with environment((), PACKAGES) as python:
        (site,) = Path(python).parent.parent.glob("lib/python*/site-packages")
        token_ranks = ranks((site / "dashscope" / "resources" / "qwen.tiktoken").read_text("ascii"))
        shown = (site / "trl" / "chat_templates" / f"{template}.jinja").read_text("utf-8")
    out.mkdir(parents=True, exist_ok=True)
    tokenizer(token_ranks).save(str(out / "tokenizer.json"))
    (out / "chat_template.jinja").write_text(shown, "utf-8")
    config = {
        "tokenizer_class": "Qwen2TokenizerFast",
        "bos_token": None,
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "unk_token": None,
        "clean_up_tokenization_spaces": False,
        "model_max_length": 131_072,
    }
    (out / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    typer.run(write)
