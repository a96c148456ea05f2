"""Secrets in the files of a dataset folder, found by scrubbing and by other scanners.

The place of each is reported, never its text.

Every text of a file is scanned: columns of tables down to the leaves, lines of JSON the same way, other files as a
whole. The invented user and host in trajmill's own prompt templates are no finding.

Other scanners have rules of their own, so they can find secrets that a run missed. Used are the token formats of
issuers that detect-secrets knows, and gitleaks if it is installed. Findings by randomness alone are left out, since
every digest looks random, and so are placeholders, which have the form of their secrets.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import islice
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trajmill.pipelines.mix.sample_columns import SAMPLE_SCHEMAS
from trajmill.pipelines.recipe.templates import built_in_texts
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import read_batches
from trajmill.quality.scrubbing.findings import Finding, digest_of, findings
from trajmill.quality.scrubbing.placeholders import core_of, is_certified
from trajmill.schemas import ConfigError, ShardError

_NO_ISSUERS: Final = frozenset({"BasicAuthDetector", "IPPublicDetector", "PrivateKeyDetector"})
"""Detectors that are left out.

They find URLs with a password, which scrubbing judges by the password, public addresses, and the first line of a
scrubbed key.
"""

_RANDOM: Final = "generic-api-key"
"""Rule of gitleaks that judges by entropy."""

_GITLEAKS: Final = "gitleaks"
_NO_FILE: Final = "\n" * 40_000
"""Padding that keeps gitleaks from taking a text for an archive or a PDF by its beginning, and skipping it."""

_PREFIX: Final = 24
"""Largest number of characters before those of a placeholder, by which an issuer marks its tokens."""

_BREAKS: Final = re.compile(r"[\s\"'@:]+")
_REST: Final = re.compile(r"[\w.=+/-]*")
_STARTS: Final = re.compile(r"[./_-]")


def second_findings(texts: pa.StringArray | pa.LargeStringArray) -> Iterator[Finding]:
    """Find secrets of issuers in the texts with other scanners, in order, each text by itself.

    Raises:
        ShardError: gitleaks is installed and fails.
    """
    secrets, lines = _of_gitleaks(texts)
    for number, value in enumerate(texts):
        text = value.as_py()
        if not text:
            continue
        spans = {
            (*match.span(), kind)
            for kind, detector in _detectors()
            for pattern in detector.denylist
            for match in pattern.finditer(text)
            if any(detector.analyze_string(match[0]))
        }
        located = {(*match.span(), kind) for secret, kind in secrets for match in re.finditer(re.escape(secret), text)}
        spans = {span for span in spans | located if not _is_placeholder(text, *span[:2])}
        spans |= {(*match.span(), kind) for line, kind in lines for match in re.finditer(re.escape(line), text)}
        for start, end, kind in sorted(spans):
            begin = len(text[:start].encode())
            data = text[start:end].encode()
            yield Finding(number, begin, begin + len(data), kind, digest_of(kind, data))


@cache
def _detectors() -> list[tuple[str, Any]]:
    """Return (kind, detector) of every issuer that detect-secrets knows."""
    from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class
    from detect_secrets.plugins.base import RegexBasedDetector

    return [
        (kind, detector())
        for kind, detector in sorted(get_mapping_from_secret_type_to_class().items())
        if issubclass(detector, RegexBasedDetector) and detector.__name__ not in _NO_ISSUERS
    ]


def _of_gitleaks(texts: pa.StringArray | pa.LargeStringArray) -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
    """Return (secret, rule) of the findings of gitleaks, and (line, rule) of those in decoded text.

    Both are empty if it is not installed.
    """
    secrets: set[tuple[str, str]] = set()
    lines: set[tuple[str, str]] = set()
    program = shutil.which(_GITLEAKS)
    if program is None or not len(texts):
        return secrets, lines
    words = [program, "stdin", "--no-banner", "--exit-code", "0", "--report-format", "json", "--report-path", "-"]
    words.append("--ignore-gitleaks-allow")  # a log could hold the remark by which a line is passed over
    whole = _NO_FILE + "\n\n".join(text for text in texts.to_pylist() if text)
    with TemporaryDirectory(prefix="trajmill-gitleaks-") as folder:  # no settings of the working folder
        done = subprocess.run(  # noqa: S603 (its own words alone)
            words, input=whole.encode(), capture_output=True, check=False, cwd=folder
        )
    written = whole.split("\n")
    try:
        for finding in json.loads(done.stdout if done.returncode == 0 else ""):
            secret, kind = finding["Secret"], f"{_GITLEAKS} {finding['RuleID']}"
            if not secret or finding["RuleID"] == _RANDOM or _is_placeholder(secret, 0, len(secret)):
                continue
            if any(tag.startswith("decoded:") for tag in finding["Tags"] or ()):
                lines.add(("\n".join(written[finding["StartLine"] - 1 : finding["EndLine"]]), kind))
            else:
                secrets.add((secret, kind))
    except (ValueError, KeyError, TypeError) as error:
        raise ShardError(f"{program} ended with {done.returncode} and wrote no report that can be read.") from error
    return secrets, lines


def _is_placeholder(text: str, start: int, end: int) -> bool:
    """Return True if a part of a finding is a placeholder, after the characters that mark its issuer.

    A rule may end before the placeholder does, so the rest of the word is included.
    """
    last = _REST.match(text, end)
    for part in _BREAKS.split(text[start : last.end() if last else end]):
        starts = {*range(min(_PREFIX, len(part))), *(match.end() for match in _STARTS.finditer(part))}
        if any(is_certified(core_of(part[begin:].encode())) for begin in starts):
            return True
    return False


_LINES: Final = 200
"""Number of lines of JSON that are scanned together."""

_DIGEST: Final = re.compile(r"[0-9a-f]{32}")
_Place = Callable[[int], tuple[int, str]]
"""Function from the number of a text to its row and its place in the row."""


@dataclass(frozen=True, slots=True)
class Found:
    """A text that looks like a secret or like personal data.

    Attributes:
        file: name of the file in the dataset folder.
        row: number of the row, or of the line, from 1.
        id: id of the row, if it has one.
        where: place in the row, such as `messages[3].content`.
        start: first character, from 0.
        digest: digest by which it can be allowed, here and elsewhere.
    """

    file: str
    row: int
    id: str
    where: str
    start: int
    end: int
    kind: str
    digest: str

    @property
    def place(self) -> str:
        """The place of the finding as a line of text."""
        row = f"row {self.row:,}" + (f" ({self.id})" if self.id else "")
        where = f", {self.where}" if self.where else ""
        return f"{self.file}, {row}{where}, characters {self.start:,} to {self.end:,}"


def find_secrets(folder: Folder, name: str) -> Iterator[Found]:
    """Find everything in a file that scrubbing would replace, and the findings of other scanners."""
    first = 1
    for batch in _batches(folder, name):
        ids = _ids(batch)
        for column in batch.schema.names:
            for texts, locate in _texts(batch[column], column, lambda number: (number, "")):
                yield from _report_findings(name, texts, locate, ids, first)
        first += batch.num_rows


def _batches(folder: Folder, name: str) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file. A file without rows is a single text in a column without a name."""
    if name.endswith(".parquet"):
        yield from read_batches(folder, name)
    elif name.endswith(".jsonl"):
        with folder.open(name) as stream:
            while some := list(islice(stream, _LINES)):
                yield pa.RecordBatch.from_pylist(list(map(json.loads, some)), schema=SAMPLE_SCHEMAS["eval"])
    else:
        text = folder.read(name).decode("utf-8", "replace")
        yield pa.RecordBatch.from_arrays([pa.array([text], pa.string())], [""])


def _ids(batch: pa.RecordBatch) -> pa.Array | None:
    """Return the id of each row, from the column of its pool; None if the file has no rows."""
    for name in ("sample_id", "id"):
        if name in batch.schema.names:
            return batch[name]
    return pc.struct_field(batch["extra_info"], "id") if "extra_info" in batch.schema.names else None


def _texts(array: pa.Array, name: str, locate: _Place) -> Iterator[tuple[pa.Array, _Place]]:
    if pa.types.is_struct(array.type):
        for field in array.type:
            below = f"{name}.{field.name}"
            yield from _texts(pc.struct_field(array, field.name), below, locate)
    elif pa.types.is_list(array.type):
        offsets = array.offsets.to_numpy()
        items = array.values.slice(offsets[0], offsets[-1] - offsets[0])
        starts = offsets - offsets[0]

        def of_item(number: int) -> tuple[int, str]:
            at = int(np.searchsorted(starts, number, "right")) - 1
            row, where = locate(at)
            return row, f"{where}[{number - int(starts[at])}]"

        yield from _texts(items, name, of_item)
    elif pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
        yield array, _add_column(name, locate)


def _add_column(name: str, locate: _Place) -> _Place:
    """Add the name of the column to a location. Item numbers follow its first part."""
    head, dot, rest = name.partition(".")

    def named(number: int) -> tuple[int, str]:
        row, where = locate(number)
        return row, f"{head}{where}{dot}{rest}"

    return named


def _report_findings(name: str, texts: pa.Array, locate: _Place, ids: pa.Array | None, first: int) -> Iterator[Found]:
    own = list(findings(texts))
    known = {(finding.text, byte) for finding in own for byte in range(finding.start, finding.end)}
    second_only = (
        second
        for second in second_findings(texts)
        if known.isdisjoint((second.text, at) for at in (second.start, second.end - 1))
    )
    for finding in (*own, *second_only):
        if finding.digest in _of_templates():
            continue
        text = texts[finding.text].as_py().encode()
        start, end = (len(text[:byte].decode("utf-8", "ignore")) for byte in (finding.start, finding.end))
        if ids is None:
            line = text.count(b"\n", 0, finding.start)
            begin = len(text[: text.rfind(b"\n", 0, finding.start) + 1].decode("utf-8", "ignore"))
            yield Found(name, line + 1, "", "", start - begin, end - begin, finding.kind, finding.digest)
        else:
            row, where = locate(finding.text)
            yield Found(name, first + row, str(ids[row].as_py()), where, start, end, finding.kind, finding.digest)


@cache
def _of_templates() -> frozenset[str]:
    """Return the digests of the findings in prompt templates."""
    template_findings: Iterable[Finding] = findings(pa.array(built_in_texts(), pa.string()))
    return frozenset(finding.digest for finding in template_findings)


def allowances(digests: Iterable[str], files: Iterable[str]) -> frozenset[str]:
    """Read the digests that a person allows: given by name, or at the beginning of lines of files.

    Raises:
        ConfigError: a digest is not valid, or a file cannot be read.
    """
    named = list(digests)
    for file in files:
        try:
            with open(file, encoding="utf-8") as stream:
                lines = [line.partition("#")[0].split() for line in stream]
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{file} cannot be read: {error}") from error
        named += [words[0] for words in lines if words]
    for digest in named:
        if not _DIGEST.fullmatch(digest):
            raise ConfigError(f"'{digest[:40]}' is no digest of a finding: 32 hex digits, as push tells them.")
    return frozenset(named)


def listing(reported: Iterable[Found]) -> str:
    """Format findings as a file for `allowances`: a line for each digest, with a comment."""
    by_digest: dict[str, list[Any]] = {}
    for finding in reported:
        by_digest.setdefault(finding.digest, [finding, 0])[1] += 1
    lines = [
        f"{digest}  # {finding.kind}, {count} times; {finding.place}\n"
        for digest, (finding, count) in by_digest.items()
    ]
    return "# Leave the lines of what may be published, after looking at each place; remove the others.\n" + "".join(
        lines
    )
