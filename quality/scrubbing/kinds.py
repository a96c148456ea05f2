"""Kinds of scrubbed values, and the descriptions of finds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final, Literal, get_args

from trajmill.schemas.errors import ConfigError
from trajmill.schemas.record import record

if TYPE_CHECKING:
    from trajmill.quality.scrubbing.views import View

Kind = Literal[
    "private_key",
    "jwt",
    "token",
    "cloud_key",
    "url_password",
    "host",
    "email",
    "ip",
    "iban",
    "card",
    "ssn",
    "phone",
    "device",
    "person",
    "home",
    "header",
    "assignment",
]

KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
"""All kinds, in order of precedence: where two finds overlap, the earlier kind keeps the bytes.

private_key: lines of a PEM block. jwt: the signature of a JSON Web Token. token, cloud_key: values recognized by their
own form, including password hashes. url_password: `scheme://user:password@`. host: host names in prompts and ssh
commands. email, ip (public only), iban, card, ssn (of the USA), phone: as named. device: IMEI and MAC addresses.
person: names of authors and account holders. home: user names in home folders, prompts and listings of files, processes
and accounts. header: values of credential headers and cookies. assignment: values announced by a name such as
`password` or `api_key`, and passwords after a prompt, in commands and in login files.
"""


@record
class Span:
    """Bytes of a text that a kind claims.

    Attributes:
        start: First byte.
        end: End.
        kind: Kind of the bytes.
        stays: True if the bytes are known to be harmless and are only claimed.
        kept: Number of leading bytes that are kept to show the type.
    """

    start: int
    end: int
    kind: Kind
    stays: bool = False
    kept: int = 0

    @property
    def secret(self) -> int:
        """Beginning of the replaced bytes."""
        return self.start + self.kept


@record
class Loose:
    """Suspect bytes by their context; the part that no other find covers is a secret if `accepts` says so."""

    start: int
    end: int
    kind: Kind
    accepts: Callable[[bytes], bool]


@record
class Encoded:
    """Base64 or hexadecimal body that contains text.

    Attributes:
        pieces: (start, end) of its lines in the outer text; a single piece if it is not wrapped.
        data: Decoded bytes.
        text: Number of leading bytes that are text.
        urlsafe: True for the base64 alphabet with `-` and `_`.
        finds: Finds in the text.
        announced: True if the context announces a secret.
        hexadecimal: True for hexadecimal digits instead of base64.
    """

    pieces: tuple[tuple[int, int], ...]
    data: bytes
    text: int
    urlsafe: bool
    finds: Finds
    announced: bool = False
    hexadecimal: bool = False

    @property
    def start(self) -> int:
        """First byte in the outer text."""
        return self.pieces[0][0]

    @property
    def end(self) -> int:
        """End in the outer text."""
        return self.pieces[-1][1]


@record
class Viewed:
    """View of a text, with the finds that the text itself does not show."""

    view: View
    finds: Finds


@record
class Finds:
    """Finds of a text.

    Attributes:
        spans: Disjoint spans, in order.
        loose: Suspects.
        encoded: Base64 and hexadecimal bodies, with or without finds inside.
        viewed: Finds that only the views of the text show.
    """

    spans: tuple[Span, ...] = ()
    loose: tuple[Loose, ...] = ()
    encoded: tuple[Encoded, ...] = ()
    viewed: tuple[Viewed, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.spans or self.loose or self.encoded or self.viewed)


def check_kinds(kinds: Iterable[str]) -> tuple[Kind, ...]:
    """Check the kinds and return each once, in order of precedence.

    Raises:
        ConfigError: A kind is unknown; the error suggests the nearest name.
    """
    if kinds == KINDS:
        return KINDS
    wanted = set(kinds)
    for name in sorted(wanted - set(KINDS)):
        nearest = get_close_matches(name, KINDS, 1)
        raise ConfigError(f"There is no kind '{name}' to scrub.", nearest[0] if nearest else None)
    return tuple(kind for kind in KINDS if kind in wanted)
