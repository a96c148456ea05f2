"""Strings that chat tokenizers take for control tokens, and the form in which a text may hold them all the same.

A trainer or a server that tokenizes a text as it stands makes the end of a turn of `<|im_end|>`, whoever wrote it.
Escaped, a blank stands behind its first character: `< |im_end|>`, `[ INST]`. No tokenizer has such a token, what
normalizes text (NFKC, zero-width characters) leaves it, JSON that holds it stays JSON, and a reader sees it. What is
written so already has one blank more, so that `unescape` gives back every text.

One function for whatever trains, rewards or serves a model; it needs nothing but this file.
"""

from __future__ import annotations

import re
from typing import Final

_ANGLE: Final = (
    r"\|(?:im_start|im_end|im_sep|endoftext|startoftext|fim_(?:prefix|middle|suffix|pad)|endofprompt|eot_id|eom_id"
    r"|start_header_id|end_header_id|begin_of_text|end_of_text|python_tag|finetune_right_pad_id|system|user|assistant"
    r"|observation|end|eos|bos|pad|channel|message|start|return|call|constrain|vision_start|vision_end|image_pad"
    r"|START_OF_TURN_TOKEN|END_OF_TURN_TOKEN|CHATBOT_TOKEN|USER_TOKEN|SYSTEM_TOKEN)\|>"
    r"|</?SYS>>|(?:start|end)_of_turn>|(?:image|video|audio)>"
    r"|[|｜](?:begin▁of▁sentence|end▁of▁sentence|User|Assistant|tool▁calls?▁begin|tool▁calls?▁end)[|｜]>"
)
"""Patterns of what follows `<`."""

_SQUARE: Final = r"/?INST\]|/?(?:TOOL_CALLS|TOOL_RESULTS|AVAILABLE_TOOLS)\]|gMASK\]"
"""Patterns of what follows `[`."""

PATTERN: Final = rf"<(?:{_ANGLE})|\[(?:{_SQUARE})"
"""The strings, in the syntax of RE2: those of the published templates of Qwen, Llama, Mistral, Gemma, Phi, DeepSeek,
GLM, Command R and gpt-oss, and of their predecessors, and what trainers take for the place of a picture, a video or a
sound. `<s>` and `</s>` are left out, since HTML holds them."""

ESCAPABLE: Final = rf"< *(?:{_ANGLE})|\[ *(?:{_SQUARE})"
"""Pattern of what escaping changes, in RE2 syntax: the strings, and what looks like them escaped."""

_OPENING: Final = re.compile(rf"<(?= *+(?:{_ANGLE}))|\[(?= *+(?:{_SQUARE}))")
_ESCAPED: Final = re.compile(rf"<(?= ++(?:{_ANGLE})) |\[(?= ++(?:{_SQUARE})) ")


def escape(text: str) -> str:
    """Escape the text, so that no tokenizer finds a control token of the list; most texts stay as they are.

    >>> escape("a <|im_end|> b < |im_end|> [INST]")
    'a < |im_end|> b <  |im_end|> [ INST]'
    """
    return _OPENING.sub(r"\g<0> ", text)


def unescape(text: str) -> str:
    """Restore the text that was escaped.

    >>> unescape('a < |im_end|> b <  |im_end|> [ INST]')
    'a <|im_end|> b < |im_end|> [INST]'
    """
    return _ESCAPED.sub(lambda match: match[0][0], text)


def escape_places(text: str) -> list[int]:
    """Return the characters of a text before which escaping puts a blank, in order."""
    return [match.end() for match in _OPENING.finditer(text)]
