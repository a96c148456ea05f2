"""YAML documents as plain values with places, read by PyYAML's C loader; untrusted, so no tag creates an object.

Only strings, numbers, booleans, nulls and binary scalars, sequences and mappings are read. Dates and numbers that JSON
lacks (`.inf`) stay text. Tags of these types may have a single exclamation mark, as Ruby writes them (`!binary`). An
alias is expanded up to a size; a document of aliases of aliases is refused. Values are built from the parser's events
one by one, since the loader's own tree of nodes takes a level of the C stack for each level of nesting, and a crafted
document can exhaust it.
"""

from __future__ import annotations

from base64 import b64decode
from dataclasses import dataclass
from typing import Any, Final

import yaml

from trajmill.connectors.reading.values import readable
from trajmill.schemas import ParseError

LEVELS: Final = 160
"""Largest nesting of a document."""

EXPANSION: Final = 8
"""Largest size of a document with expanded aliases, in multiples of its own size."""

NODES: Final = 1 << 20
"""Largest number of values in a document; each takes some hundred bytes in memory."""

_LEAST: Final = 1 << 20
_PREFIX: Final = "tag:yaml.org,2002:"
_TEXT: Final = frozenset({"str", "timestamp", "merge", "value", "python/unicode", "python/str"})
_BOOLS: Final = {"yes": True, "no": False, "true": True, "false": False, "on": True, "off": False}


def _standard(tag: str) -> str:
    """Return a tag with the standard's prefix in place of Ruby's single exclamation mark."""
    return _PREFIX + tag[1:] if tag.startswith("!") else tag


@dataclass(slots=True)
class _Open:
    """Open sequence or mapping; `key` is the mapping's key that waits for its value."""

    made: Any
    anchor: str | None
    size: int = 1
    key: str | None = None


class YamlDocument:
    """YAML document whose top level is a mapping.

    Attributes:
        value: Mapping.
        places: Byte offsets of the elements of each member that is a sequence.

    Raises:
        ParseError: The data is not one YAML document or no mapping, too deep or too large, or a tag would create an
            object.
    """

    def __init__(self, data: bytes, uri: str) -> None:
        self._uri = uri
        self._data = data
        self._limit = max(EXPANSION * len(data), _LEAST)
        self._text = "" if data.isascii() else data.decode("utf-8-sig", "surrogateescape")
        self._begin = 3 if data.startswith(b"\xef\xbb\xbf") else 0
        self._passed = (0, 0)
        self._nodes = 0
        self._open: list[_Open] = []
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._done: list[Any] = []
        self.places: dict[str, list[int]] = {}
        loader = yaml.CSafeLoader(readable(data).encode())
        try:
            while loader.check_event():
                self._take(loader.get_event(), loader)
        except (yaml.YAMLError, UnicodeError) as error:
            raise self._failure(error) from None
        finally:
            loader.dispose()
        if len(self._done) != 1 or not isinstance(self._done[0], dict):
            raise ParseError(uri, 0, "bad_record", "wanted one YAML document that is a mapping")
        self.value: dict[str, Any] = self._done[0]

    def _take(self, event: yaml.Event | None, loader: yaml.CSafeLoader) -> None:
        if isinstance(event, yaml.NodeEvent):
            self._nodes += 1
            if self._nodes > NODES:
                raise self._error(event, "too_many_values", f"it has more than {NODES} values")
        if isinstance(event, yaml.ScalarEvent):
            self._place(event)
            value = self._scalar(event, loader)
            self._add(value, event.anchor, len(event.value) + 1)
        elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            self._place(event)
            maps = isinstance(event, yaml.MappingStartEvent)
            plain = _PREFIX + ("map" if maps else "seq")
            if event.tag is not None and _standard(event.tag) != plain:
                raise self._error(event, "bad_tag", f"wanted plain values, met {event.tag:.80}")
            if len(self._open) >= LEVELS:
                raise self._error(event, "nested_too_deeply", f"nested more than {LEVELS} levels deep")
            self._open.append(_Open({} if maps else [], event.anchor))
        elif isinstance(event, yaml.CollectionEndEvent):
            done = self._open.pop()
            self._add(done.made, done.anchor, done.size)
        elif isinstance(event, yaml.AliasEvent):
            self._place(event)
            if event.anchor not in self._anchors:
                raise self._error(event, "bad_alias", "an alias that names nothing, or what it stands within")
            value, size = self._anchors[event.anchor]
            self._add(value, None, size)
            if sum(container.size for container in self._open) > self._limit:
                raise self._error(event, "alias_bomb", f"with its aliases it is over {EXPANSION} times as long")

    def _place(self, event: yaml.Event) -> None:
        """Record the beginning of an element of a sequence that is a member of the document."""
        if len(self._open) == 2 and isinstance(self._open[1].made, list):
            self.places.setdefault(self._open[0].key or "", []).append(self._offset(event))

    def _add(self, value: Any, anchor: str | None, size: int) -> None:
        if anchor is not None:
            self._anchors[anchor] = value, size
        if not self._open:
            self._done.append(value)
            return
        within = self._open[-1]
        within.size += size
        if isinstance(within.made, list):
            within.made.append(value)
        elif within.key is None:
            within.key = value if isinstance(value, str) else str(value)[:256]
        else:
            within.made[within.key] = value
            within.key = None

    def _scalar(self, event: yaml.ScalarEvent, loader: yaml.CSafeLoader) -> Any:
        text: str = event.value
        tag = event.tag
        if tag is None or tag == "!":
            tag = loader.resolve(  # type: ignore[no-untyped-call]
                yaml.ScalarNode, text, event.implicit
            )
        kind = _standard(tag).removeprefix(_PREFIX)
        if kind in _TEXT:
            return text
        if kind == "null":
            return None
        if kind == "bool":
            return _BOOLS.get(text.lower(), text)
        try:
            if kind == "int":
                return int(text)
            if kind == "float":
                return float(text)
            if kind == "binary":
                return b64decode(text.encode("ascii"))
        except ValueError:
            return text
        raise self._error(event, "bad_tag", f"wanted plain values, met {tag:.80}")

    def _offset(self, event: yaml.Event) -> int:
        index = int(event.start_mark.index) if event.start_mark is not None else 0
        if self._text:
            before, offset = self._passed if index >= self._passed[0] else (0, 0)
            offset += len(self._text[before:index].encode("utf-8", "surrogateescape"))
            self._passed = index, offset
            index = offset
        return min(index + self._begin, len(self._data))

    def _error(self, event: yaml.Event, reason: str, detail: str) -> ParseError:
        return ParseError(self._uri, self._offset(event), reason, detail)

    def _failure(self, error: Exception) -> ParseError:
        mark = getattr(error, "problem_mark", None)
        position = getattr(mark, "index", getattr(error, "position", len(self._data)))
        position = max(0, position)
        if self._text:
            position = len(self._text[:position].encode("utf-8", "surrogateescape"))
        at = min(position + self._begin, len(self._data))
        reason = "truncated" if mark is not None and at >= len(self._data.rstrip()) else "bad_yaml"
        detail = " ".join(str(error).split())[:300]
        return ParseError(self._uri, at, reason, f"wanted YAML: {detail}", excerpt=self._data[max(0, at - 512) :])
