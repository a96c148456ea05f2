"""Scrubbing of one trajectory: the secrets that its texts reveal, and the patches that hide them in each text.

First the finds of all texts are learned, then all texts are patched. A secret that one text reveals is thus hidden in
all of them, including earlier ones. This module is independent of Arrow.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby, islice, pairwise
from typing import Any, Final, TypeVar

from trajmill.quality.scrubbing import base64_bodies, hex_bodies
from trajmill.quality.scrubbing.forms import base64_forms, written_forms
from trajmill.quality.scrubbing.kinds import Encoded, Finds, Kind, Loose, Span
from trajmill.quality.scrubbing.matching import closes, opens
from trajmill.quality.scrubbing.occurrences import Forms
from trajmill.quality.scrubbing.placeholders import core_of, is_certified, placeholder
from trajmill.quality.scrubbing.sighted import is_cut, is_joined
from trajmill.quality.scrubbing.views import View

Patch = tuple[int, int, bytes]
"""Start, end, and the replacement, of the same length."""

LEARNED_FROM: Final = 8
"""Bytes from which a secret is hidden wherever it occurs; a shorter one is hidden only where it was found."""

_NAMES: Final[frozenset[Kind]] = frozenset({"home", "host", "person"})
_LEARNED: Final[frozenset[Kind]] = frozenset({"private_key", "jwt", "token", "cloud_key", *_NAMES})
_LONG: Final = 512
"""Bytes of a suspect up to which every position in it is tried as the beginning of a shorter secret."""

_SPLITTERS: Final = 200
"""Number of the shortest secrets that a longer suspect is searched for; it bounds the work that a hostile log can
cause.
"""

_CLOSE: Final = 256
"""Distance in bytes within which the context of a find decides."""

_PASSES: Final = 5
Id = TypeVar("Id")

_TELLS_USER: Final = re.compile(
    rb"(?:~|[,=]\d{1,9}\(|USER=|USERNAME=|LOGNAME=|-home-|-Users-"
    rb"|(?:\A|\n|\\n)[-dlbcps][rwxsStT-]{9}[.+@]?\s+\d+\s[^\n\\]{0,80})\Z"  # the owner in a long listing
)
_TELLS_HOST: Final = re.compile(rb"(?:@|HOSTNAME=|HOST=|Linux )\Z")
_LINE_BEGINS: Final = re.compile(rb"(?:\A|\n|\\n)\Z")
_LINE_ENDS: Final = re.compile(rb"\Z|\r?\n|\\[rn]")
_SAYS_WHO: Final = 3
"""Bytes from which a name counts if it stands alone in its line."""

_LETTER: Final = re.compile(rb"[A-Za-z0-9]")
"""Letters and digits, which `a` can always replace: its reference `&#97;` is as short as any."""

_TELLS: Final = 160
"""Bytes before a name in which its context is looked for."""


class Session:
    """Secrets of one trajectory, learned text by text.

    Args:
        key: Key of the placeholders, 16 to 64 bytes.
    """

    def __init__(self, key: bytes) -> None:
        self.key = key
        self._suspects: dict[bytes, tuple[Kind, Loose]] = {}
        self._known: dict[bytes, Kind] = {}
        self._forms: Forms | None = None
        self._fresh: dict[tuple[Kind, bytes], bytes] = {}
        self._in_base64: set[bytes] = set()
        self.crowded = False
        """True if a changed text has a suspect close to another find, so that one may be the context of the other."""

    def learn(self, text: bytes, finds: Finds) -> None:
        """Learn the finds of a text of the trajectory."""
        for span in finds.spans:
            raw = text[span.secret : span.end]
            if span.kind in _LEARNED and not span.stays and (span.kind in _NAMES or len(raw) >= LEARNED_FROM):
                self._known[raw] = span.kind
        for loose in finds.loose:
            for start, end in _left_of(loose, finds.spans):
                raw = text[start:end]
                if end - start >= LEARNED_FROM and loose.accepts(raw):
                    self._suspects.setdefault(raw, (loose.kind, loose))
        for body in finds.encoded:
            self.learn(body.data[: body.text], body.finds)
        for seen in finds.viewed:
            self.learn(seen.view.data, seen.finds)
        self._forms = None

    def learn_value(self, value: str) -> None:
        """Learn a secret of the trajectory that need not occur as a find in any text."""
        self._known[value.encode("utf-8", "replace")] = "assignment"
        self._forms = None

    @property
    def knows(self) -> bool:
        """True if a learned secret may occur in other texts too."""
        return bool(self._known or self._suspects)

    @property
    def knows_secrets(self) -> bool:
        """True if a secret other than a name was learned."""
        return bool(self._suspects) or any(kind not in _NAMES for kind in self._known.values())

    def occurrences(self, data: Any, offsets: Sequence[int]) -> Iterator[tuple[int, Span]]:
        """Return (text number, span) of each learned secret, in any escaped form; names also within words.

        Args:
            data: Texts, one after the other, as bytes or a buffer of bytes.
            offsets: Beginning of each text, and the end of the last one; no occurrence crosses them.
        """
        if self._forms is None:
            self._forms = Forms(self._forms_known())
        return self._forms.occurrences(data, offsets)

    def occurrences_in(self, text: bytes) -> list[Span]:
        """Find learned secrets in one text."""
        return [span for _, span in self.occurrences(text, (0, len(text)))]

    def _forms_known(self) -> dict[bytes, Kind]:
        """Return every form of every learned secret, with its kind."""
        kinds: dict[bytes, Kind] = {}
        for raw, kind in self._atoms().items():
            forms = written_forms(raw, partial(self._placed, kind))
            if kind not in _NAMES and LEARNED_FROM <= len(raw) < base64_bodies.SHORTEST:
                encoded = base64_forms(raw, forms[raw])
                self._in_base64.update(encoded)
                forms |= encoded
            for form, fresh in forms.items():
                if kinds.setdefault(form, kind) == kind:
                    self._fresh[kind, form] = fresh
        return kinds

    def _atoms(self) -> dict[bytes, Kind]:
        """Return the learned secrets; of a suspect that contains a shorter secret, only the remaining parts."""
        atoms = dict(self._known)
        shorter = _Shorter()
        for raw, kind in atoms.items():
            if kind not in _NAMES:
                shorter.add(raw)
        for raw, (kind, loose) in sorted(self._suspects.items(), key=lambda item: (len(item[0]), item[0])):
            for part in _split(raw, shorter.within(raw)):
                if len(part) >= LEARNED_FROM and (part == raw or loose.accepts(part)):
                    atoms.setdefault(part, kind)
                    shorter.add(part)
        return atoms

    def patches(self, text: bytes, finds: Finds, occurrences: Sequence[Span]) -> list[Patch]:
        """Return the disjoint patches of a text, in order; `occurrences` are those of this text."""
        if not (occurrences or finds.loose or finds.encoded or finds.viewed) and all(s.stays for s in finds.spans):
            return []
        if not (finds.loose or finds.encoded or finds.viewed) and _are_only_names(occurrences, finds.spans):
            return self._replaced(text, finds.spans)
        claimed: Sequence[Span] = finds.spans
        bodies: Sequence[Encoded] = ()
        seen, patches = self._seen(text, finds) if finds.viewed else ([], [])
        if occurrences or finds.loose or finds.encoded or seen:
            claimed, bodies = self._claimed(text, finds, occurrences, seen)
        for body in bodies:
            patches += self._body_patches(text, body)
        patches += self._replaced(text, claimed)
        changed = sorted(patch for patch in patches if patch[2] != text[patch[0] : patch[1]])
        self.crowded = self.crowded or (bool(changed) and (bool(seen) or _is_crowded(finds, occurrences)))
        return changed

    def _replaced(self, text: bytes, claimed: Sequence[Span]) -> list[Patch]:
        """Return the patches of the claims whose bytes change."""
        patches = []
        for span in claimed:
            if not span.stays:
                start, end = span.secret, span.end
                raw = text[start:end]
                fresh = self._placed(span.kind, raw)
                if fresh != raw:
                    patches.append((start, end, fresh))
        return patches

    def _claimed(
        self, text: bytes, finds: Finds, occurrences: Sequence[Span], seen: Sequence[Span] = ()
    ) -> tuple[list[Span], list[Encoded]]:
        """Return the secret or harmless spans of a text, disjoint and in order, and its encoded bodies outside them.

        Args:
            text: Text.
            finds: Finds of the text.
            occurrences: Occurrences of learned secrets.
            seen: Spans that a view claims.
        """
        claimed: Sequence[Span] = _with(_free(finds.spans, seen), seen)
        if finds.loose:  # What is settled stays whole, whatever it seems to hold.
            certified = _claims(text, finds.loose, claimed, lambda _, raw: is_certified(core_of(raw)))
            claimed = _with(claimed, [replace(span, stays=True) for span in certified])
        bodies = [body for body in finds.encoded if not _is_taken(body, claimed)]
        free = _free(occurrences, claimed)
        if bodies:
            free = [occurrence for occurrence in free if not self._is_inside(text, occurrence, bodies)]
        claimed = _with(claimed, [occurrence for occurrence in free if _stands_for_itself(text, occurrence)])
        if finds.loose:
            claimed = _with(claimed, _claims(text, finds.loose, claimed, lambda loose, raw: loose.accepts(raw)))
        return list(claimed), [body for body in bodies if not _is_taken(body, claimed)]

    def _is_inside(self, text: bytes, occurrence: Span, bodies: Sequence[Encoded]) -> bool:
        """Check whether the occurrence of a base64 form is inside a body, whose decoded text shows it too."""
        position = bisect_right(bodies, occurrence.start, key=_begin) - 1
        return (
            position >= 0
            and occurrence.end <= bodies[position].end
            and text[occurrence.start : occurrence.end] in self._in_base64
        )

    def _seen(self, text: bytes, finds: Finds) -> tuple[list[Span], list[Patch]]:
        """Return the spans of the text behind the secret or harmless finds of its views, and their patches."""
        claims: list[Span] = []
        patches: list[Patch] = []
        for seen in finds.viewed:
            view = seen.view
            occurrences = [
                occurrence
                for occurrence in self.occurrences_in(view.data)
                if is_joined(view, occurrence.start, occurrence.end)
            ]
            if not (occurrences or seen.finds):
                continue
            spans, bodies = self._claimed(view.data, seen.finds, occurrences)
            patched_spans = [
                (span, (span.secret, span.end, self._placed(span.kind, view.data[span.secret : span.end])))
                for span in spans
                if is_joined(view, span.start, span.end)
            ]
            patched_spans += [
                (Span(body.start, body.end, "token"), self._rewritten(view.data, body))
                for body in bodies
                if is_cut(view, body.start, body.end) and body.finds
            ]
            for span, (start, end, fresh) in patched_spans:
                shown_span = Span(*view.place(span.start, span.end), span.kind, stays=True)
                if _free([shown_span], claims) and not _is_covered(shown_span, finds):
                    claims = _with(claims, [shown_span])
                    if not span.stays:
                        patches.append(self._written(text, view, (start, end, fresh)))
        return claims, patches

    def _placed(self, kind: Kind, raw: bytes) -> bytes:
        """Return the placeholder of `raw`; for another form of a learned secret, the same placeholder in that form."""
        fresh = self._fresh.get((kind, raw))
        if fresh is None:
            fresh = self._fresh[kind, raw] = placeholder(kind, raw, self.key)
        return fresh

    def _written(self, text: bytes, view: View, patch: Patch) -> Patch:
        """Return the patch of a text for a patch of its view; if it does not fit, one with letters that do."""
        start, end, fresh = patch
        raw = view.data[start:end]
        tries = (fresh, placeholder("token", raw, self.key), _LETTER.sub(b"a", raw))
        written_patches = (view.written(text, start, end, some) for some in tries)
        return next(written_patch for written_patch in written_patches if written_patch is not None)

    def _body_patches(self, text: bytes, body: Encoded) -> Iterable[Patch]:
        inner = body.data[: body.text]
        patches = self.patches(inner, body.finds, self.occurrences_in(inner))
        codec = hex_bodies if body.hexadecimal else base64_bodies
        return codec.patch_body(text, body, patches) if patches else ()

    def _rewritten(self, text: bytes, body: Encoded) -> Patch:
        """Return the patch that replaces the whole body."""
        fresh = apply_patches(text, self._body_patches(text, body))
        return body.start, body.end, fresh[body.start : body.end]


def apply_patches(text: bytes, patches: Iterable[Patch]) -> bytes:
    """Apply the patches to the text, one after the other."""
    data = bytearray(text)
    for start, end, fresh in patches:
        data[start:end] = fresh
    return bytes(data)


def patches_until_stable(
    texts: Mapping[Id, bytes], key: bytes, find: Callable[[bytes], Finds], sensitive: Iterable[str] = ()
) -> dict[Id, list[Patch]]:
    """Return the patches of those texts of one trajectory that change, to be applied one after the other.

    One pass almost always suffices. Another pass finds more where a suspect contained the context of a find, as in
    `Cookie: a=uid=1000(carol)`.

    Args:
        texts: Texts by any key.
        key: Key as in `Session`.
        find: Returns the finds of a text.
        sensitive: Secrets that need not occur as finds in any text.
    """
    patches_of_texts: dict[Id, list[Patch]] = {}
    current = dict(texts)
    for _ in range(_PASSES):
        session = Session(key)
        for value in sensitive:
            session.learn_value(value)
        finds = {name: find(text) for name, text in current.items()}
        for name, text in current.items():
            session.learn(text, finds[name])
        fresh = {}
        for name, text in current.items():
            patches = session.patches(text, finds[name], session.occurrences_in(text))
            if patches:
                patches_of_texts.setdefault(name, []).extend(patches)
                fresh[name] = apply_patches(text, patches)
        if not fresh or not session.crowded:
            break
        current.update(fresh)
    return patches_of_texts


def _are_only_names(occurrences: Sequence[Span], spans: Sequence[Span]) -> bool:
    """Check whether the occurrences are only names that the spans claim too."""
    span_bounds = {(span.secret, span.end) for span in spans} if occurrences else ()
    return all(
        occurrence.kind in _NAMES and (occurrence.start, occurrence.end) in span_bounds for occurrence in occurrences
    )


def _is_crowded(finds: Finds, guesses: Iterable[Span]) -> bool:
    """Check whether a suspect or body is so close to another find that one may be the context of the other."""
    suspects = {(loose.start, loose.end) for loose in finds.loose} | {(body.start, body.end) for body in finds.encoded}
    suspects |= {(guess.start, guess.end) for guess in guesses if guess.kind not in _NAMES}
    if not suspects:
        return False
    bounds = sorted({(span.start, span.end) for span in finds.spans} | suspects)
    return any(
        after[0] - before[1] < _CLOSE and (before in suspects or after in suspects)
        for before, after in pairwise(bounds)
    )


def _start(span: Span) -> int:
    return span.start


def _begin(body: Encoded) -> int:
    return body.start


def _is_covered(claim: Span, finds: Finds) -> bool:
    """Check whether a find of the text itself covers the whole claim of a view."""
    return any(
        find.start <= claim.start and claim.end <= find.end
        for finds_of_kind in (finds.spans, finds.encoded)
        for find in finds_of_kind[max(0, bisect_right(finds_of_kind, claim.start, key=lambda item: item.start) - 1) :][
            :1
        ]
    )


def _with(claimed: Sequence[Span], more: Sequence[Span]) -> list[Span]:
    """Merge both in order of position; of overlapping spans in `more`, keep the first, then the longest."""
    if not more:
        return list(claimed)
    added: list[Span] = []
    for span_added in sorted(more, key=lambda span: (span.start, -span.end)):
        if not added or added[-1].end <= span_added.start:
            added.append(span_added)
    return sorted([*claimed, *added], key=_start)


def _claims(
    text: bytes, suspects: Iterable[Loose], claimed: Sequence[Span], accepts: Callable[[Loose, bytes], bool]
) -> list[Span]:
    """Return the accepted remaining parts of the suspects, disjoint; kinds in order of precedence."""
    accepted: list[Span] = []
    for _, group in groupby(suspects, key=lambda loose: loose.kind):
        taken, end = _with(claimed, accepted), 0
        for loose in sorted(group, key=lambda loose: (loose.start, -loose.end)):
            for start, stop in _left_of(loose, taken):
                begin = max(start, end)
                if begin < stop and accepts(loose, text[begin:stop]):
                    accepted.append(Span(begin, stop, loose.kind))
                    end = stop
    return accepted


def _free(finds: Iterable[Span], claimed: Sequence[Span]) -> list[Span]:
    """Return the finds that overlap no claim; claims are disjoint and in order."""
    free = []
    claims = iter(claimed)
    claim = next(claims, None)
    for find in sorted(finds, key=_start):
        while claim is not None and claim.end <= find.start:
            claim = next(claims, None)
        if claim is None or find.end <= claim.start:
            free.append(find)
    return free


def _left_of(loose: Loose, claimed: Sequence[Span]) -> list[tuple[int, int]]:
    """Return the parts of a suspect that no claim covers."""
    parts, at = [], loose.start
    for span in _around(loose, claimed):
        if span.end > at:
            parts.append((at, span.start))
            at = span.end
    parts.append((at, loose.end))
    return [(start, end) for start, end in parts if start < end]


def _is_taken(body: Encoded, claimed: Sequence[Span]) -> bool:
    """Check whether a secret overlaps the body; the kept beginning of a secret may be a body, as in a JWT."""
    return any(span.secret < body.end and body.start < span.end for span in _around(body, claimed))


def _around(find: Loose | Encoded, claimed: Sequence[Span]) -> Iterator[Span]:
    """Yield the claims that may overlap a find: from the last that begins before it to the last that begins in it."""
    for position in range(max(0, bisect_right(claimed, find.start, key=_start) - 1), len(claimed)):
        if claimed[position].start >= find.end:
            return
        yield claimed[position]


class _Shorter:
    """Secrets of at least `LEARNED_FROM` bytes, by their beginnings."""

    def __init__(self) -> None:
        self._sizes: dict[bytes, dict[int, None]] = {}
        self._known: dict[bytes, None] = {}

    def add(self, secret: bytes) -> None:
        """Add a secret; the shortest must come first."""
        if len(secret) >= LEARNED_FROM and secret not in self._known:
            self._known[secret] = None
            self._sizes.setdefault(secret[:LEARNED_FROM], {})[len(secret)] = None

    def within(self, raw: bytes) -> list[bytes]:
        """Return the secrets in `raw`, shortest first, possibly `raw` itself among them."""
        if len(raw) > _LONG:
            return [secret for secret in islice(self._known, _SPLITTERS) if secret in raw]
        candidates = {
            raw[position : position + size]
            for position in range(len(raw) - LEARNED_FROM + 1)
            for size in self._sizes.get(raw[position : position + LEARNED_FROM], ())
        }
        return sorted(
            (secret for secret in candidates if secret in self._known), key=lambda secret: (len(secret), secret)
        )


def _split(raw: bytes, shorter: Iterable[bytes]) -> list[bytes]:
    parts = [raw]
    for secret in shorter:
        if secret != raw and secret in raw:
            parts = [piece for part in parts for piece in part.split(secret)]
    return parts


def _stands_for_itself(text: bytes, occurrence: Span) -> bool:
    """Check whether an occurrence is a whole word, where required, and whether the context confirms a short name."""
    start, end = occurrence.start, occurrence.end
    is_long = end - start >= LEARNED_FROM
    if occurrence.kind not in _NAMES and is_long and not text[start:end].isdigit():
        return True
    if not (opens(text, start) and closes(text, end)):
        return False
    if occurrence.kind not in _NAMES or is_long:
        return True
    tells = _TELLS_USER if occurrence.kind == "home" else _TELLS_HOST
    if tells.search(text, max(0, start - _TELLS), start) is not None:
        return True
    return end - start >= _SAYS_WHO and _is_line(text, start, end)


def _is_line(text: bytes, start: int, end: int) -> bool:
    """Check whether the span fills its line, as in the output of `whoami` and `hostname`."""
    return _LINE_BEGINS.search(text, max(0, start - 2), start) is not None and _LINE_ENDS.match(text, end) is not None
