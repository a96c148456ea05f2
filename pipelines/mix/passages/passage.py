"""Passages, rows of a corpus that are passed through: texts or conversations; with the columns of their files.

Nothing here reads a file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from unicodedata import is_normalized, normalize

import pyarrow as pa
import xxhash

from trajmill.pipelines.recipe.passages import Kind
from trajmill.quality.fingerprint import Lanes, text_hashes

_MESSAGE: Final = pa.struct([("role", pa.string()), ("content", pa.string()), ("loss", pa.bool_())])
_COMMON: Final = [
    pa.field("id", pa.string(), metadata={"doc": "component/, then the row's own id, or 32 hex digits of its content"}),
    pa.field("source", pa.string(), metadata={"doc": "the corpus, as the recipe names it"}),
    pa.field("licence", pa.string(), metadata={"doc": "SPDX id or expression"}),
    pa.field("uri", pa.string(), metadata={"doc": "the file, relative to the root it was found under"}),
    pa.field("row", pa.int64(), metadata={"doc": "0-based row; in JSON Lines the byte offset of its line"}),
    pa.field("group", pa.string(), metadata={"doc": "16 hex digits; rows of one group are never parted between pools"}),
    pa.field("text_bytes", pa.int64(), metadata={"doc": "UTF-8 bytes of its text or of its messages"}),
    pa.field("tokens", pa.int64(), metadata={"doc": "of its text or of its messages, under judge.tokenizer"}),
    pa.field("loss_tokens", pa.int64(), metadata={"doc": "those of them that bear the loss"}),
]

PASSAGE_SCHEMAS: Final[Mapping[Kind, pa.Schema]] = {
    "text": pa.schema([*_COMMON, ("text", pa.string())]),
    "messages": pa.schema(
        [
            *_COMMON,
            pa.field("tools", pa.string(), metadata={"doc": "JSON text: definitions of the tools", "null": "no tools"}),
            ("messages", pa.list_(_MESSAGE)),
        ]
    ),
}
"""Columns of a component's parts; `loss` is true on the assistant's messages and null on all others."""

_WORLD_MODEL: Final = pa.field(
    "world_model", pa.string(), metadata={"doc": "name@revision", "null": "none answered it"}
)


def passage_schema(kind: Kind, *, simulated: bool) -> pa.Schema:
    """Return the columns of a component's parts.

    Args:
        simulated: whether the parts may hold rows that a world model answered, which then name it.
    """
    schema = PASSAGE_SCHEMAS[kind]
    return schema.append(_WORLD_MODEL) if simulated else schema


KEY_SCHEMA: Final = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("high", pa.uint64(), nullable=False, metadata={"doc": "with `low`: hash of what it says, normalized"}),
        pa.field("low", pa.uint64(), nullable=False),
        pa.field("exact", pa.uint64(), nullable=False, metadata={"doc": "hash of what it says, letter by letter"}),
        pa.field("pieces", pa.int32(), nullable=False, metadata={"doc": "texts or messages, rows of its sketch"}),
        pa.field("row", pa.int64(), nullable=False, metadata={"doc": "as in the part"}),
    ]
)
"""Schema of the keys that decisions over all components need of each passage, in the order of the file."""

_PIECES: Final = "\x1e"
_WITHIN: Final = "\x1f"


@dataclass(frozen=True, slots=True)
class Message:
    """Message of one speaker, with the role `system`, `user`, `assistant` or `tool`. A text has no role."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Passage:
    """A row.

    Attributes:
        row: 0-based number of the row; in JSON Lines its byte offset.
        licence: SPDX id or expression.
        messages: messages of a conversation; a text has a single one without a role.
        native_id: the row's own id, if the recipe names a column for it.
        tools: JSON text of the tools' definitions.
        window: in a text that was cut, the 0-based number of the piece.
        document: in a text that was cut, the hash of the whole.
        world_model: the world model that answered it, as `name@revision`; None if none did.
    """

    row: int
    licence: str
    messages: tuple[Message, ...]
    native_id: str | None = None
    tools: str | None = None
    window: int = 0
    document: int | None = None
    world_model: str | None = None

    @property
    def size(self) -> int:
        """Number of its characters."""
        return sum(len(message.content) for message in self.messages)


def join_text(messages: Sequence[Message]) -> str:
    """Join the messages of a passage, with their roles, into one text."""
    return _PIECES.join(f"{message.role}{_WITHIN}{message.content}" for message in messages)


def normalize_text(text: str) -> str:
    """Normalize a text for comparison: composed characters (NFC), and one blank for any white space."""
    composed = text if is_normalized("NFC", text) else normalize("NFC", text)
    return " ".join(composed.split())


def hashes(passages: Sequence[Sequence[Message]]) -> tuple[Lanes, Lanes]:
    """Return 128-bit hashes of passages, normalized and exact, each of shape (passages, 2)."""
    plain = [
        join_text([Message(message.role, normalize_text(message.content)) for message in messages])
        for messages in passages
    ]
    exact = [join_text(messages) for messages in passages]
    return text_hashes(pa.array(plain, pa.string())), text_hashes(pa.array(exact, pa.string()))


def group_name(source: str, passage: Passage, key: int) -> str:
    """Return the group of a passage, from its own id in its corpus, or its content.

    Pieces of a document share a group.
    """
    if passage.native_id is None:
        return f"{key if passage.document is None else passage.document:016x}"
    return f"{xxhash.xxh3_64_intdigest(f'{source}{_PIECES}{passage.native_id}'.encode()):016x}"


def own_name(passage: Passage, content: str) -> str:
    """Return a passage's name in its component: its own id with the number of a later piece, or its content's hash."""
    if passage.native_id is None:
        return content
    return f"{passage.native_id}@{passage.window}" if passage.window else passage.native_id


def passage_node(component: str, group: str) -> int:
    """Return the node of a group of passages, by which later runs find its pool. Pieces of one document share it."""
    return xxhash.xxh3_64_intdigest(f"passage\x1e{component}\x1e{group}".encode())
