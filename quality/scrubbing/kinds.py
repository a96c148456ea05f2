"""Kinds of what can be scrubbed, and the description of a find; it neither finds nor replaces anything."""

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
"""Every kind, in order of precedence: where two finds overlap, the earlier keeps the bytes.

private_key: lines of a PEM block. jwt: the signature of a JSON Web Token. token, cloud_key: what is told by its own
form, hashes of passwords too. url_password: `scheme://user:password@`. host: host names of prompts and ssh commands.
email, ip (public only), iban, card, ssn (of the USA), phone: as named. device: IMEI and MAC addresses. person: names of
authors and account holders. home: user names in home folders, prompts and listings of files, processes and accounts.
header: values of credential headers and cookies. assignment: values that a name such as `password` or `api_key`
announces, and passwords after a prompt, in commands and in files of logins.
"""


@record
class Span:
    """Bytes of a text that a kind claims.

    Attributes:
        start: first byte.
        end: end.
        kind: what they are.
        stays: whether they are known to be harmless, and only claimed.
        kept: how many of the first bytes stay, so that the type is visible.
    """

    start: int
    end: int
    kind: Kind
    stays: bool = False
    kept: int = 0

    @property
    def secret(self) -> int:
        """Beginning of what is replaced."""
        return self.start + self.kept


@record
class Loose:
    """Bytes that their context makes suspect: what other finds leave of them is a secret where `accepts` says so."""

    start: int
    end: int
    kind: Kind
    accepts: Callable[[bytes], bool]


@record
class Encoded:
    """A base64 or hexadecimal body that holds text.

    Attributes:
        pieces: (start, end) of its lines in the outer text; one if it is not wrapped.
        data: the decoded bytes.
        text: how many of them, from the first, are text.
        urlsafe: whether it is in the alphabet with `-` and `_`.
        finds: what was found in the text.
        announced: whether what stands before says that it is secret.
        hexadecimal: whether it is in hexadecimal digits and no base64.
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
    """A view of a text, with what was found in it that the text itself does not show."""

    view: View
    finds: Finds


@record
class Finds:
    """Finds of a text.

    Attributes:
        spans: disjoint, in order.
        loose: suspects.
        encoded: base64 and hexadecimal bodies, with or without finds inside.
        viewed: what only its views show.
    """

    spans: tuple[Span, ...] = ()
    loose: tuple[Loose, ...] = ()
    encoded: tuple[Encoded, ...] = ()
    viewed: tuple[Viewed, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.spans or self.loose or self.encoded or self.viewed)


def check_kinds(kinds: Iterable[str]) -> tuple[Kind, ...]:
    """Check the kinds and return them in order of precedence, each once.

    Raises:
        ConfigError: there is no such kind, with the nearest name.
    """
    wanted = set(kinds)
    for name in sorted(wanted - set(KINDS)):
        nearest = get_close_matches(name, KINDS, 1)
        raise ConfigError(f"There is no kind '{name}' to scrub.", nearest[0] if nearest else None)
    return tuple(kind for kind in KINDS if kind in wanted)
