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
_PREFIX: Final = 12
"""Characters before those of a placeholder by which an issuer tells its tokens, at most."""

_STARTS: Final = re.compile(r"[.:/@_-]")


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
        found = {(secret, kind) for kind, detector in _detectors() for secret in detector.analyze_string(text)}
        found |= {(secret, kind) for secret, kind in known if secret in text}
        places = {
            (match.start(), match.end(), kind)
            for secret, kind in found
            if secret and not _is_placeholder(secret)
            for match in re.finditer(re.escape(secret), text)
        }
        for start, end, kind in sorted(places):
            begin = len(text[:start].encode())
            secret = text[start:end].encode()
            yield Finding(number, begin, begin + len(secret), kind, digest_of(kind, secret))


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
    """(secret, rule) of all that gitleaks finds in the texts; none where it is not installed."""
    program = shutil.which(_GITLEAKS)
    if program is None or not len(texts):
        return set()
    words = [program, "stdin", "--no-banner", "--exit-code", "0", "--report-format", "json", "--report-path", "-"]
    data = "\n".join(text for text in texts.to_pylist() if text).encode()
    done = subprocess.run(words, input=data, capture_output=True, check=False)  # noqa: S603 (its own words alone)
    try:
        found = json.loads(done.stdout or b"[]") or []
        return {(one["Secret"], f"{_GITLEAKS} {one['RuleID']}") for one in found if one["RuleID"] != _RANDOM}
    except (ValueError, KeyError, TypeError) as error:
        raise ShardError(f"{program} ended with {done.returncode} and wrote no report that can be read.") from error


def _is_placeholder(secret: str) -> bool:
    """Whether the secret is a placeholder, behind the first characters that tell its issuer."""
    starts = {*range(min(_PREFIX, len(secret))), *(match.end() for match in _STARTS.finditer(secret))}
    return any(is_certified(core_of(secret[start:].encode())) for start in starts)
