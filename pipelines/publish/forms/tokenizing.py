"""Token ids of conversations and documents, and the tokens that bear the loss. Only here do spans become tokens.

A conversation is assembled from parts. `transformers` renders the tokenizer's chat template with a placeholder for each
content. The text between placeholders is encoded with control tokens, each content as plain text. A control string in
an observation therefore never becomes a control token, and a template that trims contents (`| trim`) trims only
placeholders, so leading and trailing whitespace of screens is kept. Changes that a template makes by inspecting a
content, such as cutting out reasoning, are not made.

A token bears the loss if it is entirely inside the spans, where touching spans count as one. A straddler, which is
partly inside, does not, and is counted. The token that ends a turn or a document bears the loss if the character before
it does.

`transformers` is imported when a tokenizer is opened, and never contacts the Hub.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from trajmill.pipelines.publish.forms.stored_samples import Message, Span
from trajmill.schemas import ConfigError

Ids = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]

IGNORED: Final = -100
"""Label of a token without loss."""

_ENDS: Final = ("<|endoftext|>", "<|end_of_text|>", "</s>")
"""Names of the token between documents, if they are control tokens; otherwise it is the tokenizer's `eos_token`."""

_PROBE: Final = " a\n  b "
_SHOWN_BYTES: Final = (*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100))
_BYTES: Final = {chr(byte): byte for byte in _SHOWN_BYTES} | {
    chr(0x100 + number): byte for number, byte in enumerate(byte for byte in range(256) if byte not in _SHOWN_BYTES)
}
"""Byte of each character by which byte-level tokenizers write bytes."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """A sample as tokens.

    Attributes:
        loss: flags of the tokens that bear the loss.
        straddlers: number of tokens that are partly inside a span and so bear none.
        ends: in a conversation, the end of each message, after the control token that closes it.
        trained: in a conversation, whether each message bears any loss.
    """

    ids: Ids
    loss: Mask
    straddlers: int
    ends: tuple[int, ...] = ()
    trained: tuple[bool, ...] = ()

    @property
    def labels(self) -> Ids:
        """The ids with `IGNORED` in place of those without loss."""
        return np.where(self.loss, self.ids, np.int32(IGNORED)).astype(np.int32)

    def cut(self, window: int) -> Tokens | None:
        """Cut the tokens after the last trained turn that ends within the window.

        The result is None if nothing of it bears the loss.
        """
        if len(self.ids) <= window:
            return self if self.loss.any() else None
        fitting = [end for end, trained in zip(self.ends, self.trained, strict=True) if trained and end <= window]
        if not fitting:
            return None
        end, turns = fitting[-1], self.ends.index(fitting[-1]) + 1
        return Tokens(self.ids[:end], self.loss[:end], self.straddlers, self.ends[:turns], self.trained[:turns])


@dataclass(frozen=True, slots=True)
class Encoded:
    """A plain text as tokens: ids, and the characters [begin, end) of each. Tokens of one character share its range."""

    ids: Ids
    begins: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]

    def inside(self, spans: Iterable[Span]) -> tuple[Mask, int]:
        """Return (flags of the tokens entirely inside the spans, number of tokens partly inside)."""
        joined = join_spans(spans)
        if not joined or not len(self.ids):
            return np.zeros(len(self.ids), np.bool_), 0
        first, last = (np.array([span[side] for span in joined], np.int64) for side in (0, 1))
        at = np.searchsorted(first, self.begins, side="right") - 1
        within = (at >= 0) & (self.begins < last[at]) & (self.ends <= last[at]) & (self.ends > self.begins)
        following = np.searchsorted(last, self.begins, side="right")
        met = (following < len(first)) & (first[np.minimum(following, len(first) - 1)] < self.ends)
        return within, int(np.count_nonzero(met & ~within & (self.ends > self.begins)))


def join_spans(spans: Iterable[Span]) -> list[tuple[int, int]]:
    """Join spans [begin, end) that touch, in order."""
    joined: list[tuple[int, int]] = []
    for span in sorted((span.begin, span.end) for span in spans):
        if joined and span[0] <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], span[1]))
        elif span[1] > span[0]:
            joined.append(span)
    return joined


def has_loss_at_end(text: str, spans: Iterable[Span]) -> bool:
    """Return True if the last character of a text bears the loss."""
    joined = join_spans(spans)
    return bool(joined) and bool(text) and joined[-1][1] >= len(text)


@dataclass(frozen=True)
class _Frame:
    """Tokens that a template puts around the contents of a conversation, with one piece more than contents."""

    pieces: tuple[Ids, ...]
    closings: tuple[int, ...]
    """For each content, the number of tokens of the next piece that close its turn, up to the first control token."""


@dataclass
class Tokenizing:
    """A tokenizer with a chat template.

    Args:
        path: a `tokenizer.json`, or a folder with one that `transformers` can read.
        chat_template: file of a Jinja template that replaces the folder's.

    Raises:
        ConfigError: there is no usable tokenizer.
    """

    path: str
    chat_template: str | None = None
    _frames: dict[tuple[str, ...], _Frame] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self._whole = _open(Path(self.path))
        if self.chat_template is not None:
            self._whole.chat_template = _read(Path(self.chat_template), "--chat-template")
        backend = self._whole.backend_tokenizer
        self._control = {token.content: number for number, token in backend.get_added_tokens_decoder().items()}
        self._control_ids = frozenset(
            number for text, number in self._control.items() if text.strip() and number is not None
        )
        self._plain = _plain(backend.to_str())
        shown = self._plain.decode(self._plain.encode(_PROBE, add_special_tokens=False).ids)
        if shown != _PROBE:
            raise ConfigError(f"tokenizer: {self.path} does not keep whitespace: it makes {shown!r} of {_PROBE!r}.")
        self.size = int(max(backend.get_vocab(with_added_tokens=True).values())) + 1

    @property
    def digest(self) -> str:
        """Sha256 of the tokenizer's behavior, whatever files it came from."""
        return hashlib.sha256(self._whole.backend_tokenizer.to_str().encode()).hexdigest()

    @property
    def template(self) -> str:
        """The chat template; empty if there is none."""
        template = self._whole.chat_template
        return template if isinstance(template, str) else ""

    @property
    def template_digest(self) -> str:
        """Sha256 of the chat template; empty if there is none."""
        return hashlib.sha256(self.template.encode()).hexdigest() if self.template else ""

    @property
    def end_of_document(self) -> int:
        """The token between documents.

        Raises:
            ConfigError: the tokenizer has none.
        """
        name = next((name for name in _ENDS if name in self._control), self._whole.eos_token)
        if name is None:
            raise ConfigError(f"tokenizer: {self.path} has no token that ends a document ({', '.join(_ENDS)}).")
        return int(self._whole.convert_tokens_to_ids(name))

    @property
    def padding(self) -> int:
        """The padding token."""
        return int(self._whole.pad_token_id) if self._whole.pad_token_id is not None else self.end_of_document

    def save(self, folder: str) -> None:
        """Write tokenizer and chat template as a folder that `transformers` reads."""
        self._whole.save_pretrained(folder)

    def control_strings(self, text: str) -> int:
        """Count the control tokens that a text would hold if it were not encoded as plain text."""
        return sum(text.count(token) for token in self._control if token.strip())

    def decoded(self, ids: Iterable[int]) -> str:
        """Decode ids to text, control tokens included."""
        return str(self._whole.backend_tokenizer.decode([int(token_id) for token_id in ids], skip_special_tokens=False))

    def plain(self, text: str) -> Encoded:
        """Encode a text as tokens without control tokens.

        Raises:
            ConfigError: the tokenizer still makes a control token of it.
        """
        encoding = self._plain.encode(text, add_special_tokens=False)
        ids = np.array(encoding.ids, np.int32)
        if not self._control_ids.isdisjoint(encoding.ids):
            raise ConfigError(f"tokenizer: {self.path} makes control tokens of plain text, so it cannot be used here.")
        offsets = np.array(encoding.offsets, np.int64).reshape(-1, 2)
        return Encoded(ids, offsets[:, 0], offsets[:, 1])

    def starts(self, text: str) -> list[int]:
        """Return the offset of each token when a trainer passes the text to the tokenizer unchanged."""
        return [begin for begin, _ in self._whole.backend_tokenizer.encode(text, add_special_tokens=False).offsets]

    def document(self, text: str, spans: Sequence[Span]) -> Tokens:
        """Encode a text, with the token that ends a document after it."""
        encoded = self.plain(text)
        loss, straddlers = encoded.inside(spans)
        ids = np.append(encoded.ids, np.int32(self.end_of_document))
        return Tokens(ids, np.append(loss, has_loss_at_end(text, spans)), straddlers)

    def conversation(self, messages: Sequence[Message]) -> Tokens:
        """Encode a conversation.

        Raises:
            ConfigError: there is no chat template, or it does not show each content once and in order.
        """
        frame = self._frame(tuple(message.role for message in messages))
        ids, loss = [frame.pieces[0]], [np.zeros(len(frame.pieces[0]), np.bool_)]
        length, straddlers, ends, trained = len(frame.pieces[0]), 0, list[int](), list[bool]()
        for message, piece, closing in zip(messages, frame.pieces[1:], frame.closings, strict=True):
            encoded = self.plain(message.content)
            bears, partly = encoded.inside(message.spans)
            behind = np.zeros(len(piece), np.bool_)
            behind[:closing] = has_loss_at_end(message.content, message.spans)
            ids += [encoded.ids, piece]
            loss += [bears, behind]
            ends.append(length + len(encoded.ids) + closing)
            trained.append(bool(bears.any()))
            length += len(encoded.ids) + len(piece)
            straddlers += partly
        return Tokens(np.concatenate(ids), np.concatenate(loss), straddlers, tuple(ends), tuple(trained))

    def require_template(self) -> None:
        """Raise ConfigError if there is no chat template."""
        if not self.template:
            raise ConfigError(f"{self.path} has no chat template. Give one with --chat-template.")

    def shown(
        self, messages: Sequence[dict[str, Any]], *, ask: bool = False, tools: list[dict[str, Any]] | None = None
    ) -> str:
        """The text that the template makes of messages and tools; `ask` has it end where an answer begins.

        Raises:
            ConfigError: there is no template, or it refuses them.
        """
        self.require_template()
        try:
            return str(
                self._whole.apply_chat_template(list(messages), tools, tokenize=False, add_generation_prompt=ask)
            )
        except Exception as error:  # the template's own refusals are of any class
            roles = ", ".join(message["role"] for message in messages[:3])
            raise ConfigError(f"The chat template of {self.path} refuses {roles}, …: {error}") from error

    def _frame(self, roles: tuple[str, ...]) -> _Frame:
        if roles not in self._frames:
            marks = [f"@@content-{number:06d}-of-trajmill@@" for number in range(len(roles))]
            rest = self.shown([{"role": role, "content": mark} for role, mark in zip(roles, marks, strict=True)])
            texts = []
            for mark in marks:
                before, separator, rest = rest.partition(mark)
                texts += [before] if separator else []
            texts.append(rest)
            if len(texts) <= len(marks) or any(mark in text for text in texts for mark in marks):
                raise ConfigError(f"The chat template of {self.path} does not show each content once, in order.")
            pieces = [self.with_control(text) for text in texts]
            self._frames[roles] = _Frame(tuple(pieces), tuple(self._closing(piece) for piece in pieces[1:]))
        return self._frames[roles]

    def frame_texts(self, roles: tuple[str, ...]) -> list[tuple[str, str]]:
        """Return the template's text before each content and after the last, as (end of the turn before, the rest)."""
        frame = self._frame(roles)
        cuts = (0, *frame.closings)
        return [
            (self.decoded(piece[:closing]), self.decoded(piece[closing:]))
            for piece, closing in zip(frame.pieces, cuts, strict=True)
        ]

    def bytes_of_tokens(self) -> dict[int, bytes] | None:
        """Return the bytes of each token of a byte-level tokenizer; None for any other."""
        whole = self._whole.backend_tokenizer
        if "ByteLevel" not in json.dumps(json.loads(whole.to_str())["decoder"]):
            return None
        added = whole.get_added_tokens_decoder()
        bytes_of = {number: token.content.encode() for number, token in added.items()}
        for token, number in whole.get_vocab(with_added_tokens=False).items():
            bytes_of.setdefault(number, bytes(_BYTES.get(character, 0x3F) for character in token))
        return bytes_of

    def with_control(self, text: str) -> Ids:
        """Encode a text as tokens, control tokens among them."""
        return np.array(self._whole.backend_tokenizer.encode(text, add_special_tokens=False).ids, np.int32)

    def split_turn(self, text: str) -> tuple[list[int], list[int], list[int]]:
        """Split the ids of a message as the template shows it: up to the token that closes it, that token, the rest.

        The last control token closes it; without one nothing does.
        """
        ids = self.with_control(text).tolist()
        last = next((number for number in reversed(range(len(ids))) if ids[number] in self._control_ids), len(ids))
        return ids[:last], ids[last : last + 1], ids[last + 1 :]

    def knows(self, ids: Iterable[int]) -> bool:
        """Return True if the tokenizer has a token for each id."""
        return all(self._whole.backend_tokenizer.id_to_token(token_id) is not None for token_id in ids)

    def without_control(self, text: str) -> str:
        """Remove the control tokens from a text."""
        for token in self._control:
            text = text.replace(token, "") if token.strip() else text
        return text

    def _closing(self, piece: Ids) -> int:
        """Count the tokens up to and including the first control token; 0 if there is none."""
        positions = [position for position, token in enumerate(piece.tolist()) if token in self._control_ids]
        return positions[0] + 1 if positions else 0


def _open(path: Path) -> Any:
    """Open the tokenizer with `transformers`."""
    os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")  # that there is no PyTorch, which is not needed
    from transformers import AutoTokenizer, PreTrainedTokenizerFast
    from transformers.utils import logging

    logging.set_verbosity_error()
    try:
        if path.is_file():
            return PreTrainedTokenizerFast(tokenizer_file=str(path))
        if not path.is_dir():
            raise ConfigError(f"--tokenizer: '{path}' is neither a tokenizer.json file nor a folder with one.")
        tokenizer = AutoTokenizer.from_pretrained(str(path), local_files_only=True)
    except (OSError, ValueError, KeyError) as error:
        raise ConfigError(f"--tokenizer: '{path}' cannot be read: {error}") from error
    if not getattr(tokenizer, "is_fast", False):
        raise ConfigError(f"--tokenizer: '{path}' has no tokenizer.json, without which characters have no tokens.")
    return tokenizer


def _plain(serialized: str) -> Any:
    """Build the tokenizer without control tokens, added affixes, truncation and padding.

    Runs of whitespace that some tokenizers have as added tokens are kept, since they control nothing.
    """
    from tokenizers import Tokenizer

    values = json.loads(serialized)
    values["added_tokens"] = [token for token in values["added_tokens"] if not token["content"].strip()]
    values["post_processor"] = values["truncation"] = values["padding"] = None
    return Tokenizer.from_str(json.dumps(values))


def _read(path: Path, option: str) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{option}: '{path}' cannot be read: {error}") from error
