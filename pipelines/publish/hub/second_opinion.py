"""Secrets that other scanners find in finished texts: their rules are not ours, so they can find what a run missed.

The forms of issuers that detect-secrets knows, and gitleaks where it is installed. What only looks random is left out,
since every digest does, and so is a placeholder of scrubbing, which has the form of its secret.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from tempfile import TemporaryDirectory
from typing import Any, Final

import pyarrow as pa

from trajmill.quality.scrubbing.findings import Finding, digest_of
from trajmill.quality.scrubbing.placeholders import core_of, is_certified
from trajmill.schemas import ShardError

_NO_ISSUERS: Final = frozenset({"BasicAuthDetector", "IPPublicDetector", "PrivateKeyDetector"})
"""They find addresses with a password, which scrubbing judges by the password, and the first line of a scrubbed key."""

_RANDOM: Final = "generic-api-key"
"""The rule of gitleaks that judges by entropy."""

_GITLEAKS: Final = "gitleaks"
_NO_FILE: Final = b"\n" * 40_000
"""What begins as an archive or a PDF does, gitleaks takes for one, and reads nothing of what follows."""

_PREFIX: Final = 24
"""Characters before those of a placeholder by which an issuer tells its tokens, at most."""

_BREAKS: Final = re.compile(r"[\s\"'@:]+")
_STARTS: Final = re.compile(r"[./_-]")


def second_findings(texts: pa.StringArray | pa.LargeStringArray) -> Iterator[Finding]:
    """Every place of the texts where another scanner finds a secret of an issuer, each text by itself, in order.

    Raises:
        ShardError: gitleaks is installed and fails.
    """
    known = _of_gitleaks(texts)
    for number, value in enumerate(texts):
        text = value.as_py()
        if not text:
            continue
        places = {
            (*match.span(), kind)
            for kind, detector in _detectors()
            for pattern in detector.denylist
            for match in pattern.finditer(text)
            if any(detector.analyze_string(match[0]))
        }
        for shown, kind in known:
            places |= {(*match.span(), kind) for match in re.finditer(re.escape(shown), text)}
        for start, end, kind in sorted(places):
            begin = len(text[:start].encode())
            data = text[start:end].encode()
            if kind.startswith(_GITLEAKS) or not _is_placeholder(text[start:end]):
                yield Finding(number, begin, begin + len(data), kind, digest_of(kind, data))


@cache
def _detectors() -> list[tuple[str, Any]]:
    """Kind → detector of every issuer that detect-secrets knows."""
    from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class
    from detect_secrets.plugins.base import RegexBasedDetector

    return [
        (kind, detector())
        for kind, detector in sorted(get_mapping_from_secret_type_to_class().items())
        if issubclass(detector, RegexBasedDetector) and detector.__name__ not in _NO_ISSUERS
    ]


def _of_gitleaks(texts: pa.StringArray | pa.LargeStringArray) -> set[tuple[str, str]]:
    """(what stands there, rule) of all that gitleaks finds in the texts; nothing where it is not installed."""
    program = shutil.which(_GITLEAKS)
    if program is None or not len(texts):
        return set()
    words = [program, "stdin", "--no-banner", "--exit-code", "0", "--report-format", "json", "--report-path", "-"]
    words.append("--ignore-gitleaks-allow")  # a log could hold the remark by which a line is passed over
    whole = "\n\n".join(text for text in texts.to_pylist() if text)
    with TemporaryDirectory(prefix="trajmill-gitleaks-") as place:  # no settings of the working folder
        done = subprocess.run(  # noqa: S603 (its own words alone)
            words, input=_NO_FILE + whole.encode(), capture_output=True, check=False, cwd=place
        )
    try:
        found = json.loads(done.stdout) if done.returncode == 0 else None
        return {(_shown(one, whole), f"{_GITLEAKS} {one['RuleID']}") for one in found if _counts(one)}
    except (ValueError, KeyError, TypeError) as error:
        raise ShardError(f"{program} ended with {done.returncode} and wrote no report that can be read.") from error


def _counts(finding: dict[str, Any]) -> bool:
    return finding["RuleID"] != _RANDOM and not _is_placeholder(finding["Secret"])


def _shown(finding: dict[str, Any], whole: str) -> str:
    """What stands in the texts: the secret, or, if that was decoded, the line that holds it."""
    secret, line = finding["Secret"], finding["Line"].strip("\n")
    return str(secret if secret in whole else line)


def _is_placeholder(secret: str) -> bool:
    """Whether a part of what was found is a placeholder, behind the first characters that tell its issuer."""
    for part in _BREAKS.split(secret):
        starts = {*range(min(_PREFIX, len(part))), *(match.end() for match in _STARTS.finditer(part))}
        if any(is_certified(core_of(part[start:].encode())) for start in starts):
            return True
    return False
