"""Detection of secrets and personal data: all finders, behind one scan that marks the regions where they are called.

The scan runs one automaton over many texts at once, as they follow each other in an Arrow buffer. Finders look only in
the regions that it marks. Every find contains a match of the trigger of its kind, so no find is lost.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any, Final, TypeVar

import numpy as np

from trajmill.quality.scrubbing import (
    base64_bodies,
    context,
    hex_bodies,
    logins,
    numbers,
    own_form,
    people,
    personal,
    sighted,
    statements,
    structures,
)
from trajmill.quality.scrubbing.kinds import KINDS, Encoded, Finds, Kind, Loose, Span, Viewed
from trajmill.quality.scrubbing.matching import compile_pattern
from trajmill.quality.scrubbing.personal import USER_BYTES, is_common_account, line_prompts
from trajmill.quality.scrubbing.views import View, views

_HOME: Final = re.compile(rb"/(home|Users)/([A-Za-z](?:[A-Za-z0-9_-]{0,30}[A-Za-z0-9_])?)(?=[/\s\"',;)\]])")
_BEFORE: Final = frozenset(b"\n\t\"'`=:(,")
_AFTER_SPACE: Final = frozenset(b"$#%:,;|&'\"=abcdfghijklmnopqrsuvwxyz-0123456789")
"""Bytes that may precede a space before a path; the `T` and `D` of an HTTP method are excluded."""

_HOST: Final = re.compile(rb"@[A-Za-z][A-Za-z0-9-]{0,62}:[~/]")
_SLASH_BYTE: Final = ord("/")


def plain_names(data: bytes, start: int, begin: int, end: int, wanted: frozenset[Kind]) -> list[Span]:
    """Return the names in the home folder or prompt that a trigger at `start` marks; empty if a finder has to decide.

    Args:
        data: Texts, one after the other.
        start: Offset of the trigger: the slash of a home folder, or the last letter of a user name.
        begin: Beginning of the text; spans are relative to it.
        end: End of the text.
        wanted: Kinds to look for.
    """
    if data[start] == _SLASH_BYTE:
        return _plain_home(data, start, begin, end)
    host = _HOST.match(data, start + 1, end)
    if host is None:
        return []
    shown = max(begin, start - USER_BYTES, data.rfind(b"\n", begin, start) + 1)
    at, moved = start + 1 - shown, shown - begin
    return [
        Span(moved + first, moved + last, kind, stays)
        for middle, first, last, kind, stays in line_prompts(data[shown : host.end()], wanted)
        if middle == at
    ]


def _plain_home(data: bytes, start: int, begin: int, end: int) -> list[Span]:
    if start == begin:
        return []
    before = data[start - 1]
    if before not in _BEFORE and not (before == 0x20 and start > begin + 1 and data[start - 2] in _AFTER_SPACE):
        return []
    match = _HOME.match(data, start, end)
    if match is None or is_common_account(match[2]):
        return []
    return [Span(start - begin, match.end() - begin, "home", kept=len(match[1]) + 2)]


BEFORE: Final = 256
AFTER: Final = 128
"""Largest distance before and after the beginning of a trigger at which its find may begin."""

STRIDE: Final = 512
"""Bytes after a trigger in which no further trigger is looked for, since the region covers them."""

SHORT: Final = 4096
"""Largest text, in bytes, that forms a single region, since a search for the end of the region costs more."""

TRIGGER_BYTES: Final = 512
"""Largest length of a trigger in real text; a URL with user and password is the longest."""

_SCANS: Final = (("forms",), ("words",), ("people", "numbers", "bodies"))
"""Groups of triggers that one automaton scans for, in the order of the finders.

The triggers of `forms` begin with fixed letters. A single automaton would multiply the states, and nearly every
position of a new text would create new ones; one for the last four groups takes twice the time of two over real logs.
"""

_NESTING: Final = 3
_RANK: Final = {kind: rank for rank, kind in enumerate(KINDS)}

Find = Span | Loose | Encoded
AnyFind = TypeVar("AnyFind", Span, Encoded)
Finder = Callable[[bytes, int, int], Iterator[Find]]
Region = tuple[int, int]
Sight = tuple[Callable[[], View], list[Region]]
"""Function that makes a view of a text, and the regions that the scan marked in the view."""


_PASSED: Final = 4
"""Number of matches to skip one by one before a new search skips the rest, which costs as much."""


class _Hits:
    """Matches of a pattern, from left to right.

    Args:
        pattern: Compiled pattern.
        data: Bytes to search.
        at: First offset at which a match may begin.
        limit: End of the data.

    Attributes:
        start: Beginning of the current match; `limit` after the last one.
        end: End of the current match.
    """

    __slots__ = ("_data", "_limit", "_matches", "_pattern", "end", "start")

    def __init__(self, pattern: Any, data: bytes, at: int, limit: int) -> None:
        self._pattern = pattern
        self._data = data
        self._limit = limit
        self.start: int
        self.end: int
        self._search(at)

    def go_to(self, at: int) -> None:
        """Move to the first match that begins at `at` or later."""
        for _ in range(_PASSED):
            if self.start >= at or self.end > at:
                break
            self._step()
        if self.start < at:
            self._search(at)

    def _search(self, at: int) -> None:
        self._matches = self._pattern.finditer(self._data, at, self._limit)
        self._step()

    def _step(self) -> None:
        match = next(self._matches, None)
        self.start, self.end = match.span() if match else (self._limit, self._limit)


def _start_of(hits: _Hits) -> int:
    return hits.start


_SLASH: Final = ord("/")


def _past_common(data: bytes, start: int, begin: int, end: int) -> int:
    """Return the offset after a home folder or prompt of a common account; 0 if none begins at `start`."""
    return personal.common_home(data, start, end) or personal.common_prompt(data, start, begin)


class Detection:
    """Finders of some kinds.

    Instances are stateless; `of` shares them.

    Args:
        kinds: Kinds, in order of precedence.
        nesting: Levels of base64 within base64 to decode.
    """

    def __init__(self, kinds: tuple[Kind, ...], nesting: int = _NESTING) -> None:
        self._kinds = frozenset(kinds)
        self._inner = Detection.of(kinds, nesting - 1).finds if nesting else _nothing
        chosen = _finders(self._kinds, self._inner)
        groups: dict[str, list[tuple[bytes, Finder]]] = {group: [] for scan in _SCANS for group in scan}
        for group, trigger, finder in chosen:
            groups[group].append((trigger, finder))
        self._groups = [
            (_any_of(rows), [(compile_pattern(trigger), finder) for trigger, finder in rows])
            for rows in groups.values()
            if rows
        ]
        scans = ([row for group in scan for row in groups[group]] for scan in _SCANS)
        self._scans = [_any_of(rows) for rows in scans if rows]

    def seeks(self, kind: Kind) -> bool:
        """Check whether the detection looks for a kind."""
        return kind in self._kinds

    @staticmethod
    @lru_cache(maxsize=64)
    def of(kinds: tuple[Kind, ...], nesting: int = _NESTING) -> Detection:
        """Return the cached detection of these kinds."""
        return Detection(kinds, nesting)

    def regions(
        self, data: bytes, offsets: Sequence[int], names: dict[int, list[Span]] | None = None, *, common: bool = False
    ) -> dict[int, list[Region]]:
        """Return text number → disjoint, ordered regions (start, end) of the text in which a find may begin.

        Args:
            data: Texts, one after the other.
            offsets: Beginning of each text, and the end of the last one.
            names: Receives, by text, the names in home folders and prompts that need no finder; None leaves them to the
                finders.
            common: True to mark home folders and prompts of common accounts too.
        """
        regions_of_texts: dict[int, list[Region]] = {}
        starts = np.asarray(offsets, np.int64)
        for text in (*base64_bodies.beginnings(data, starts), *hex_bodies.beginnings(data, starts)):
            regions_of_texts[text] = [(0, min(STRIDE, offsets[text + 1] - offsets[text]))]
        data, bounds = _separate(data, offsets)
        at, limit = 0, len(data)
        scans = [_Hits(scan, data, at, limit) for scan in self._scans]
        while at < limit:
            for hits in scans:
                if hits.start < at:
                    hits.go_to(at)
            hits = min(scans, key=_start_of)
            start, end = hits.start, hits.end
            if start >= limit:
                break
            first = bisect_right(bounds, start + 1) - 1
            begin, text_end = bounds[first], bounds[first + 1] - 1
            if data[start] == _SLASH or data.startswith(b"@", start + 1):
                passed = 0 if common else _past_common(data, start, begin, text_end)
                if not passed and names is not None:
                    plain = plain_names(data, start, begin, text_end, self._kinds)
                    if plain:
                        names.setdefault(first, []).extend(plain)
                        passed = max(start + 2, begin + plain[-1].end)
                if passed:
                    at = passed
                    continue
            last = first if end <= bounds[first + 1] else bisect_left(bounds, end, first) - 1
            for text in range(first, last + 1):
                begin, text_end = bounds[text], bounds[text + 1] - 1
                if text_end - begin <= SHORT:
                    at = text_end
                    regions_of_texts[text] = [(0, text_end - begin)]
                    continue
                at = min(max(start, begin) + STRIDE, text_end)
                region = max(begin, start - BEFORE) - begin, min(at + AFTER, text_end) - begin
                _join(regions_of_texts.setdefault(text, []), region)
        return regions_of_texts

    def sights(self, data: bytes, offsets: Sequence[int]) -> dict[int, list[Sight]]:
        """Return text number → its views, each with the regions of the view in which a find may begin."""
        sights_of_texts: dict[int, list[Sight]] = {}
        for seen in views(data, offsets):
            regions = self.regions(seen.data, seen.bounds, common=True)  # the text may cut such a name
            for position, number in enumerate(seen.numbers):
                sights_of_texts.setdefault(number, []).append((partial(seen.of, position), regions.get(position, [])))
        return sights_of_texts

    def finds(
        self,
        text: bytes,
        regions: Iterable[Region] | None = None,
        sights: Iterable[Sight] = (),
        names: Sequence[Span] = (),
    ) -> Finds:
        """Find values in the given regions, views and names of the text; without regions, anywhere in the text."""
        if regions is None:
            regions = self.regions(text, (0, len(text))).get(0, ())
            sights = self.sights(text, (0, len(text))).get(0, ())
        if names and not (regions or sights):
            return Finds(tuple(sorted(names, key=_start)))
        spans, loose, encoded = self._found(text, regions)
        if names:
            spans += set(names).difference(spans)
        viewed = []
        for view_of, some in sights:
            view = view_of()
            finds_of_view = self._found(view.data, some)
            if not view.wrapped:
                sighted.add_plain(text, view, finds_of_view, spans, loose, encoded)
            viewed.append(Viewed(view, _settle(view.data, *sighted.only_in_view(view, finds_of_view))))
        return _settle(text, spans, loose, encoded, tuple(viewed))

    def _found(self, text: bytes, regions: Iterable[Region]) -> tuple[list[Span], list[Loose], list[Encoded]]:
        """Collect all finds in these regions of a text, by type."""
        spans: list[Span] = []
        loose: list[Loose] = []
        encoded: list[Encoded] = []
        for lo, hi in regions:
            shown = text[lo : hi + TRIGGER_BYTES] if lo else b"\n" + text[: hi + TRIGGER_BYTES]
            for find in self._finds_in(text, lo, hi, shown):
                if isinstance(find, Span):
                    spans.append(find)
                elif isinstance(find, Loose):
                    loose.append(find)
                else:
                    encoded.append(find)
        return spans, loose, encoded

    def _finds_in(self, text: bytes, lo: int, hi: int, shown: bytes) -> Iterator[Find]:
        """Yield the finds in a region; `shown` contains all bytes that can trigger one."""
        for any_of, finders in self._groups:
            if any_of.search(shown):
                for trigger, finder in finders:
                    if trigger.search(shown):
                        yield from finder(text, lo, hi)


def _settle(
    text: bytes, spans: list[Span], loose: list[Loose], encoded: list[Encoded], viewed: tuple[Viewed, ...] = ()
) -> Finds:
    disjoint = _without_overlap(spans, _precedence)
    suspects = [
        suspect
        for suspect in loose
        if _holds_any(suspect, disjoint) or suspect.accepts(text[suspect.start : suspect.end])
    ]
    suspects.sort(key=_precedence)
    return Finds(disjoint, tuple(suspects), _without_overlap(encoded, _announced), viewed)


def _holds_any(suspect: Loose, spans: Sequence[Span]) -> bool:
    """Check whether a span overlaps the suspect, of which only the remaining part is then judged."""
    position = bisect_left(spans, suspect.end, key=_start)
    return position > 0 and spans[position - 1].end > suspect.start


def _separate(data: bytes, offsets: Sequence[int]) -> tuple[bytes, list[int]]:
    """Insert a line feed before each text and return the new offsets; few triggers match across a line feed."""
    if len(offsets) == 2:
        return b"\n" + data[offsets[0] : offsets[1]], [1, offsets[1] - offsets[0] + 2]
    texts = [data[begin:end] for begin, end in pairwise(offsets)]
    return b"\n".join((b"", *texts)), [offset - offsets[0] + number for number, offset in enumerate(offsets, 1)]


def _nothing(_: bytes) -> Finds:
    return Finds()


def _join(regions: list[Region], region: Region) -> None:
    if regions and region[0] <= regions[-1][1]:
        regions[-1] = (regions[-1][0], max(region[1], regions[-1][1]))
    else:
        regions.append(region)


def _any_of(rows: Iterable[tuple[bytes, Finder]]) -> Any:
    """Compile the triggers of some finders into one automaton."""
    return compile_pattern(b"|".join(b"(?:" + trigger + b")" for trigger, _ in rows), 128, groups=False)


def _finders(kinds: frozenset[Kind], inner: base64_bodies.Inner) -> list[tuple[str, bytes, Finder]]:
    """Return (group, trigger, finder) for each finder of the kinds, and for encoded bodies, which serve all kinds.

    In a region, one automaton per group decides whether the finders of the group are called.
    """
    every: tuple[tuple[str, set[Kind], bytes, Finder], ...] = (
        ("forms", {"token", "cloud_key"}, own_form.ISSUED_TRIGGER, partial(own_form.find_issued, wanted=kinds)),
        ("forms", {"jwt"}, own_form.JWT_TRIGGER, own_form.signatures),
        ("forms", {"private_key"}, own_form.PEM_TRIGGER, own_form.private_keys),
        ("words", {"url_password"}, context.URL_TRIGGER, context.url_passwords),
        ("people", {"email"}, personal.EMAIL_TRIGGER, personal.emails),
        ("numbers", {"ip"}, personal.IP_TRIGGER, personal.addresses),
        ("forms", {"iban"}, numbers.IBAN_TRIGGER, numbers.ibans),
        ("numbers", {"card"}, numbers.CARD_TRIGGER, numbers.cards),
        ("forms", {"ssn"}, numbers.SSN_TRIGGER, numbers.social_security),
        ("numbers", {"phone"}, numbers.PHONE_TRIGGER, numbers.phones),
        ("people", {"person"}, people.PERSON_TRIGGER, people.persons),
        ("numbers", {"device"}, people.DEVICE_TRIGGER, people.devices),
        ("people", {"host", "home"}, personal.HOST_TRIGGER, partial(personal.prompts, wanted=kinds)),
        ("people", {"host"}, personal.HOST_NAME_TRIGGER, personal.host_names),
        ("people", {"home"}, personal.HOME_TRIGGER, personal.homes),
        ("people", {"home"}, personal.LISTING_TRIGGER, personal.listings),
        ("words", {"header"}, context.HEADER_TRIGGER, partial(context.headers, inner=inner)),
        ("words", {"assignment"}, context.ASSIGNMENT_TRIGGER, partial(context.assignments, inner=inner)),
        ("forms", {"assignment"}, logins.TRIGGER, partial(logins.passwords, inner=inner)),
        ("forms", {"assignment"}, statements.TRIGGER, statements.find_stated),
        ("words", {"assignment"}, structures.TRIGGER, structures.find_structured),
    )
    chosen = [(group, trigger, finder) for group, serves, trigger, finder in every if serves & kinds]
    codecs = (base64_bodies, hex_bodies)
    return [*chosen, *(("bodies", codec.TRIGGER, partial(codec.bodies, inner=inner)) for codec in codecs)]


def _precedence(find: Span | Loose) -> tuple[int, int, int]:
    return _RANK[find.kind], find.start - find.end, find.start


def _announced(body: Encoded) -> tuple[bool, int]:
    return not body.announced, body.start


def _start(find: Span | Encoded) -> int:
    return find.start


def _without_overlap(finds: Sequence[AnyFind], rank: Callable[[AnyFind], Any]) -> tuple[AnyFind, ...]:
    """Return the finds in order of position; of overlapping finds, the one with the lowest rank is kept."""
    if len(finds) < 2:
        return tuple(finds)
    ordered = sorted(finds, key=_start)
    if all(find.end <= following.start for find, following in pairwise(ordered)):
        return tuple(ordered)
    finds = sorted(finds, key=rank)
    chosen: list[AnyFind] = []
    cluster: list[int] = []
    end = 0
    for position in sorted(range(len(finds)), key=lambda position: finds[position].start):
        if finds[position].start >= end:
            chosen += _apart([finds[number] for number in sorted(cluster)])
            cluster = []
        cluster.append(position)
        end = max(end, finds[position].end)
    return tuple(chosen + _apart([finds[number] for number in sorted(cluster)]))


def _apart(finds: Sequence[AnyFind]) -> list[AnyFind]:
    """Choose the finds that overlap no earlier find of the sequence, in order of position."""
    chosen: list[AnyFind] = []
    taken: list[Region] = []
    for find in finds:
        at = bisect_left(taken, (find.start, find.end))
        if (not at or taken[at - 1][1] <= find.start) and (at == len(taken) or find.end <= taken[at][0]):
            taken.insert(at, (find.start, find.end))
            chosen.append(find)
    return sorted(chosen, key=_start)
