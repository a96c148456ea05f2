"""Strings that chat tokenizers read as control tokens, and a reversible escape for texts that hold them.

A trainer or a server that tokenizes a text as is turns `<|im_end|>` into the end of a turn, whoever wrote it. The
escape puts a blank behind its first character: `< |im_end|>`, `[ INST]`. No tokenizer has such a token, text
normalization (NFKC, zero-width characters) preserves it, JSON stays JSON, and a reader sees it. Text that already has
this form gets one more blank, so that `unescape` restores every text.

Trainers, rewards and servers share this file; it has no dependencies.
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
"""Patterns of the rest of a control string behind `<`."""

_SQUARE: Final = r"/?INST\]|/?(?:TOOL_CALLS|TOOL_RESULTS|AVAILABLE_TOOLS)\]|gMASK\]"
"""Patterns of the rest of a control string behind `[`."""

PATTERNS: Final = (rf"<(?:{_ANGLE})", rf"\[(?:{_SQUARE})")
"""Patterns of the control strings, in RE2 syntax, by their first character: RE2 then looks for that alone, at a
multiple of the speed.
"""

PATTERN: Final = "|".join(PATTERNS)
"""Pattern of the control strings, in RE2 syntax.

It covers the published templates of Qwen, Llama, Mistral, Gemma, Phi, DeepSeek, GLM, Command R and gpt-oss and their
predecessors, and the placeholders of trainers for a picture, a video or a sound. `<s>` and `</s>` are left out, since
HTML holds them.
"""

ESCAPABLE: Final = (rf"< *(?:{_ANGLE})", rf"\[ *(?:{_SQUARE})")
"""Patterns of the texts that escaping changes, by their first character: control strings, and their escaped form."""

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
    """Return the character offsets at which escaping inserts a blank, in order."""
    return [match.end() for match in _OPENING.finditer(text)]
