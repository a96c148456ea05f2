"""Rule of the names that announce a secret: of variables, headers, fields, parameters, members, options and cookies.

A name is sensitive if its last word is, however the words are joined: `DB_PASSWORD`, `dbPassword`, `DBPASS`,
`X-Api-Key`, `session[password]`, `user%5Bpassword%5D`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, Literal
from urllib.parse import unquote_to_bytes

Sensitivity = Literal["password", "code", "secret", "key"]
"""Kind of secret that a name announces.

A `password` may be short and of letters or digits alone; a `code` is a few digits; a `secret` is long; a `key` has
other meanings too, so that its value has to look random.
"""

LONG_WORDS: Final = (
    rb"passw|passphrase|passcode|pass[_.\[%0-9-]|pwd|token|secret|credential|_auth[_.\[%0-9-]|apikey"
    rb"|(?:api|access|auth|private|signing|encryption|account|master|service)[_-]?key"
)
SHORT_WORDS: Final = (
    rb"key|auth|pass|creds?|pw|psk|private|(?:amz|goog)-signature|bearer|jwt|csrf|xsrf|sid|sessid|sessionid|session|parol"
    rb"|passwort|kennwort|pin|otp|cvv|cvc|puk"
)
"""Words for a scan; every sensitive name contains at least one.

The short words are also parts of many other words, so they must end the name.
"""

_LAST: Final[tuple[tuple[Sensitivity, re.Pattern[bytes]], ...]] = (
    ("code", re.compile(rb"pin|otp|totp|cvv|cvc|puk")),
    (
        "password",
        re.compile(
            rb"\w*(?:password|passwd|passphrase|pwd)s?|passw|pw|passcode|psk|parol|passwort|kennwort"
            rb"|(?!(?:by|com|encom|sur|tres|over|under|im|multi|sub)pass)\w{0,12}pass"
        ),
    ),
    (
        "secret",
        re.compile(
            rb"\w*(?:secret|token|credential|apikey)s?|creds?|auth|authorization|bearer|jwt|\w*sess(?:ion)?id|sid"
            rb"|csrf|xsrf|csrfmiddlewaretoken|(?:auth|access|secret|private|app)key"
        ),
    ),
    ("key", re.compile(rb"\w{0,12}keys?|private|session|mnemonic")),
)
"""Kind of secret, and the pattern of the last words that announce it."""

_TELLS: Final = frozenset(
    b"api access auth private signing encryption account master service license secret stripe client deploy shared "
    b"application app subscription admin consumer webhook session jwt hmac aes cipher crypto decryption server "
    b"project user".split()
)
"""Words that make a following `key` a secret."""

_NO_KEY: Final = frozenset(
    b"pub public primary foreign sort partition cache group object row column map dict index translation locale "
    b"shortcut hot arrow route component dedupe unique composite natural surrogate cluster registry pattern item "
    b"entry event lookup host known react data image feature flag socket".split()
)
"""Words that make a following `key` harmless."""

_NO_SECRET: Final = frozenset(
    b"starting change lock max num min total prompt completion input output cached used per count eos bos pad unk "
    b"sep cls mask page continuation next cursor sync special first last stop end start public no reset forgot "
    b"pagination".split()
)
"""Words that make a following `token`, or a similar word, harmless."""

_AFTER: Final = frozenset(
    b"value hash base prod dev staging test live main old new current confirm confirmation again encrypted enc b64 "
    b"base64 string env default primary secondary id text plain plaintext raw".split()
)
"""Words at the end of a name that are ignored, as numbers are."""

_WORD: Final = re.compile(rb"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")


def is_sensitive_name(name: bytes) -> bool:
    """Check whether a name announces a secret."""
    return sensitivity(name) is not None


@lru_cache(maxsize=1 << 14)
def sensitivity(name: bytes) -> Sensitivity | None:
    """Return the kind of secret that a name announces; None if it announces none."""
    words = [word.lower() for word in _WORD.findall(unquote_to_bytes(name))]
    while len(words) > 1 and (words[-1] in _AFTER or words[-1].isdigit()):
        words.pop()
    last, before = words[-1] if words else b"", words[-2] if len(words) > 1 else b""
    if before == b"pass" and last in (b"phrase", b"word", b"code"):
        return "password"
    kind_of_name = next((kind for kind, pattern in _LAST if pattern.fullmatch(last)), None)
    if last == b"signature" and before in (b"amz", b"goog"):
        return "secret"
    if kind_of_name == "key":
        return None if before in _NO_KEY else "secret" if before in _TELLS else "key"
    return None if kind_of_name == "secret" and before in _NO_SECRET else kind_of_name
