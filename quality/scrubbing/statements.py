"""Passwords and keys in commands, database statements, program messages and links, as a table.

Their place makes most of them secrets, whatever their letters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from trajmill.quality.scrubbing.kinds import Loose
from trajmill.quality.scrubbing.matching import compile_pattern, matches, opens
from trajmill.quality.scrubbing.values import is_password, is_secret, is_typed

_QUOTED: Final = rb"[\"'\\]{0,8}"
_PLAIN: Final = rb"([^\s\"'`\\|;&-][^\s\"'`\\|;&]{2,127})"
_WORD: Final = _QUOTED + _PLAIN
_ON: Final = rb"[^\n|;&]{0,200}?"
_OPENED: Final = rb"N?\\{0,4}[\"']"
_TEXT: Final = rb"([^\"'\\\r\n]{3,128})"
_NEXT: Final = rb"(?:\s|\\{1,8}[nr]){1,8}"
_USER: Final = rb"[a-z_][\w.-]{0,31}:"
_PIPED: Final = (
    rb"[\"'\\]{0,8} ?\| ?(?:sudo [^\n|;&]{0,40}-\w{0,8}S|[^\n|;&]{0,80}(?:--(?:password-|passphrase-)?stdin"
    rb"|--with-token|kinit|cryptsetup))"
)
_MIXED: Final = partial(is_secret, sensitivity="password", quoted=True)
_RANDOM: Final = partial(is_secret, quoted=True)

_STATEMENTS: Final[tuple[tuple[bytes, bytes, Callable[[bytes], bool]], ...]] = (
    # commands with passwords as arguments
    (
        rb"[ ](?:-u ?|--user[ =])[ \"'\\]{0,8}[^\s:\"'\\/-][^\s:\"'\\/]{0,63}:",
        rb"[\"'\\]{0,8}([^\s\"'\\/:]{4,128})",
        is_password,
    ),
    (rb"[ ]-u[ \"'\\]{1,8}:", rb"([^\s\"'\\/:]{4,128})", is_password),
    (
        rb"https? (?:[^\n|;&]{0,80} )?(?:-a|--auth)[ =]",
        _QUOTED + rb"[^\s:\"'\\/]{1,64}:([^\s\"'\\/:]{4,128})",
        is_password,
    ),
    (rb"sshpass -p ?", _WORD, is_password),
    (
        rb"(?:docker|podman|nerdctl|buildah|skopeo|crane|oras|helm|oc|az|cf)\s(?:[a-z]{2,12}\s)?login",
        rb"\s(?:" + _ON + rb"\s)?(?:-p[ =]?|--password[ =])" + _WORD,
        is_password,
    ),
    (rb"(?:mysql|mariadb)[a-z]{0,9}\s", rb"(?:" + _ON + rb"\s)?-p" + _WORD, is_password),
    (rb"mysqladmin\s", _ON + rb"password " + _WORD, is_password),
    (rb"mongo[a-z]{0,9}\s", rb"(?:" + _ON + rb"\s)?-p ?" + _WORD, is_password),
    (rb"(?:redis|valkey)-cli\s", rb"(?:" + _ON + rb"\s)?-a[ =]" + _WORD, is_password),
    (rb"(?:unzip|zip|7za?|sqlcmd|bcp)\s(?:[^\n|;&]{0,40}\s)?-(?:P |P|p)", _WORD, is_password),
    (rb"(?:psexec|winexe)[^\n|;&]{0,80}\s-p ?", _WORD, is_password),
    (rb"ldap(?:search|add|modify|delete|passwd|whoami)\s", rb"(?:" + _ON + rb"\s)?-w " + _WORD, is_password),
    (
        rb"(?:smbclient|rpcclient|smbget|net rpc)\s",
        _ON + rb"-U[ =]?" + _QUOTED + rb"[^\s%\"']{1,64}%" + _PLAIN,
        is_password,
    ),
    (rb"snmp[a-z]{2,9}\s", _ON + rb"-c " + _WORD, is_typed),
    (rb"pass(?:in|out)? pass:", _PLAIN, is_password),
    (rb"openssl passwd ", rb"(?:-[a-z0-9]{1,8} |-salt \S{1,40} ){0,4}" + _WORD, is_typed),
    (rb"openssl enc ", _ON + rb"-[kK] " + _WORD, is_password),
    (
        rb"htpasswd (?:-[a-zA-Z]{1,6} ){0,3}-[a-zA-Z]{0,6}b[a-zA-Z]{0,6} ",
        rb"(?:-[a-zA-Z]{1,6} ){0,3}(?:[\w./-]{0,80}[./][\w./-]{0,80} )?[\w.@-]{1,64} " + _WORD,
        is_password,
    ),
    (rb"(?:user(?:add|mod)|adduser)\s", _ON + rb"(?:-p|--password)[ =]" + _WORD, is_password),
    (rb"echo (?:-[ne]{1,2} )?" + _WORD + _PIPED, rb"", is_password),
    (_OPENED + _USER + rb"([^\s\"'`\\|;&:]{3,128})[\"'\\]{0,8} ?\| ?(?:sudo )?chpasswd", rb"", is_password),
    (rb"chpasswd\s{0,4}<<<\s{0,4}", _QUOTED + _USER + _PLAIN, is_password),
    (rb"chpasswd\s{0,4}<<-?\s{0,4}[\"'\\]{0,4}\w{1,16}", rb"[\"'\\]{0,4}" + _NEXT + _USER + _PLAIN, is_password),
    (rb"net use ", rb"(?:[A-Z*]: )?\\{2,16}\S{1,128} ([^\s/\"'*][^\s\"']{3,127})", is_typed),
    (rb"net use ", _ON + rb"/user:\S{1,64} ([^\s/\"'*][^\s\"']{3,127})", is_typed),
    (rb"net user ", rb"\S{1,64} ([^\s/\"'*][^\s\"']{3,127})", is_typed),
    (rb"(?:cmdkey|x?freerdp|rdesktop)", _ON + rb"[ /-]p(?:ass)?:" + _WORD, is_password),
    (rb"nmcli ", _ON + rb"(?:password|psk) " + _WORD, is_typed),
    (rb"wpa_passphrase ", rb"(?:\"[^\"\n]{1,40}\"|\S{1,40}) " + _WORD, is_password),
    (rb"(?:requirepass|masterauth|wpa-psk|wifi-sec\.psk)[ \t]{1,8}", _WORD, is_typed),
    (rb"[>\n]\s{0,4}AUTH ", rb"(?:\w{1,32} )?" + _WORD, is_typed),
    (rb"configure set [\w.-]{1,60}(?:key|token|secret)\w{0,12} ", _WORD, is_password),
    (rb"from-literal=[\w.-]{1,64}=", _WORD, _MIXED),
    (rb"gh secret set ", _ON + rb"(?:-b|--body)[ =]?" + _WORD, is_password),
    (
        rb"(?:wandb|vault|modal|cargo|flyctl|vercel|netlify|clearml|comet|tailscale) login ",
        rb"(?:-\S{1,60} ){0,4}([\w.~+/-]{20,512})",
        is_password,
    ),
    (rb"authtoken ", rb"([\w-]{20,80})", is_password),
    (rb":_(?:authToken|auth|password)[ =]", _WORD, is_password),
    (rb"ConvertTo-SecureString\s", rb"{0,4}(?:-String\s{1,4})?[\"'\\]{1,4}" + _TEXT, is_password),
    # statements of databases and of scripts that answer prompts
    (
        rb"(?i:identified)\s{1,8}(?i:by|with\s{1,8}[\w'\"]{1,40}\s{1,8}(?:by|as))\s{1,8}(?i:password\s{1,8})?"
        + _OPENED,
        _TEXT,
        is_password,
    ),
    (rb"(?:PASSWORD|password)(?: ?= ?N| |\()\\{0,4}[\"']", _TEXT, is_typed),
    (
        rb"(?i:expect)[ ({][^\n]{0,60}(?i:pass)[^\n]{0,40}(?:\s|\\{1,4}[nrt]){1,8}[\w.]{0,40}send",
        rb"(?:line)?(?: -- ?| -s ?|\()?\s?[\"'{\\]{1,4}([^\"'\\\s]{3,128})",
        is_password,
    ),
    (rb"send (?:-- |-s )?[\"'\\]{1,4}", rb"([^\"'\\\s/]{8,128})\\{1,8}r", _MIXED),
    # messages of programs
    (rb"(?i:access key(?: id)?|session token) \[[^\]\n]{0,40}\]: ", rb"([^\s\"\\]{12,1000})", is_password),
    (
        rb"(?i:(?:temporary|generated|initial|new|default|admin|your|one-time) password)",
        rb"(?: (?:is|was)(?: generated)?(?: for [\w@.-]{1,64})?| has been (?:re)?set to)?:?\s{1,4}" + _WORD,
        _MIXED,
    ),
    (rb"(?i:use the following password)", rb"[^:\n]{0,60}:" + _NEXT + rb"([0-9a-f]{32})", is_password),
    (
        rb"(?i:(?:verification|security|login|one-time|confirmation|authentication|access|sign-in|2fa) code)",
        rb"(?: is|:|,)?\s{1,2}[\"'*\\]{0,4}(\d{4,8})",
        is_password,
    ),
    (rb"Private-MAC: ", rb"([0-9a-f]{40,64})", is_password),
    # links
    (rb"[?&;#](?i:code|state|ticket|t|otp|nonce|k|jsessionid|sid|session)=", rb"([\w.~%+/-]{16,1000})", _RANDOM),
    (
        rb"/(?i:reset|recover|verify|confirm|activate|magic|invite|unsubscribe)[a-z_-]{0,24}/(?:[\w=-]{1,24}/)?",
        rb"([\w.~-]{20,512})",
        _RANDOM,
    ),
)
"""(pattern for the scan, following pattern, check of the secret); the only group is the secret."""

_REPEATED: Final = re.compile(rb"\{([01]),\d{2,3}\}")
TRIGGER: Final = b"|".join(
    b"(?:" + _REPEATED.sub(lambda match: b"*" if match[1] == b"0" else b"+", head) + b")" for head, _, _ in _STATEMENTS
)
"""Trigger of statements.

Parts that the table counts are plain loops here, since one automaton runs the triggers of all kinds.
"""

_PATTERNS: Final = tuple((compile_pattern(head + tail), accepts) for head, tail, accepts in _STATEMENTS)


def find_stated(text: bytes, lo: int, hi: int) -> Iterator[Loose]:
    """Find the secrets in commands, statements, messages and links."""
    for pattern, accepts in _PATTERNS:
        for match in matches(pattern, text, lo, hi):
            if opens(text, match.start()) or not text[match.start() : match.start() + 1].isalnum():
                start, end = match.span(1)
                yield Loose(start, end, "assignment", accepts)
