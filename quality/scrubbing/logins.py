"""Finders of passwords that no name and `=` announce: typed at a prompt, given to a command, kept in a file of logins.

The place tells a password, whatever its letters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from trajmill.quality.lazy_regex import Later
from trajmill.quality.scrubbing.base64_bodies import Inner, decoded_body
from trajmill.quality.scrubbing.context import is_credential, user_and_password, whole
from trajmill.quality.scrubbing.kinds import Encoded, Loose
from trajmill.quality.scrubbing.matching import SLACK, compiled, compiled_set, matches, opens
from trajmill.quality.scrubbing.values import is_password, is_secret, is_typed

_AT_WORD: Final = rb"(?:\b|\\[nrt])"
"""Where a word begins, also after a line end that JSON escapes."""

_QUOTED: Final = rb"[\"'\\]{0,8}"
_OF_WHOM: Final = (
    rb"\[sudo\] password for [\w.@\\$-]{1,64}"
    rb"|[\w.-]{1,64}@[\w.:-]{1,64}[\"'\\]{1,8}s password"
    rb"|passphrase for (?:key )?" + _QUOTED + rb"[^'\"\n:]{1,200}" + _QUOTED + rb"|\(current\) unix password"
    rb"|password for (?:user |role )?"
    + _QUOTED
    + rb"[a-z]{0,5}(?:://)?[\w.@\\-]{1,100}"
    + _QUOTED
    + rb"|(?:enter|retype|repeat|confirm|verify|type) (?:[a-z]{2,10} ){0,3}(?:password|pass ?phrase)"
    rb"(?: again| \([a-z ]{1,40}\))?"
)
_LINE: Final = rb"(?:^|[\r\n]|\\[rn])[ \t]{0,8}"
_BARE: Final = rb"(?:(?:New|Old|Current|Root|UNIX|Login|Vault|MySQL|Admin) )?(?:Password|Passphrase)"
_END: Final = rb"[ \t]*(?:\r|\n|\x1b|\\{1,8}[rn]|\\{1,8}u00(?:0[aAdD]|1[bB])|[\"'`]|$)"
_PROMPTED: Final = (
    compiled(rb"(?i)(?:" + _OF_WHOM + rb"): {0,2}([^\s\"'`\\\x1b]{3,128})" + _END),
    compiled(_LINE + _BARE + rb": {0,2}([^\s\"'`\\\x1b]{3,127}[^\s\"'`\\\x1b,;(){}\[\]])" + _END),
)
"""The second without what would be source code: `Password: password,`."""

_WAITS: Final = re.compile(
    rb"(?i)(?:" + _OF_WHOM + rb"|(?:\A|[\s(>])(?:password|passphrase)(?: again)?(?: \([^()\n]{1,60}\))?):"
    rb"(?:\x1b\[[0-9;?]{0,16}[A-Za-z]|[\s\x07])*\Z"
)
WAITS_BYTES: Final = 320
"""Bytes at the end of a screen that a prompt has room in."""

PROMPT_TRIGGER: Final = rb"(?i:(?:password|pass ?phrase)(?:: {0,2}[^\s\"'`\\]{3}| for ['\"\\a-z0-9/]| again:| \([a-z]))"

_PLAIN: Final = rb"([^\s\"'`\\|;&-][^\s\"'`\\|;&]{2,127})"
_WORD: Final = _QUOTED + _PLAIN
_IN_QUOTES: Final = rb"N?\\{0,4}[\"']([^\"'\\\r\n]{3,128})"
_ARGUMENTS: Final = rb"\s(?:[^\n|;&]{0,200}?\s)?"
_NEXT: Final = rb"(?:\s|\\{1,8}[nr]){1,8}"
_REGISTRY: Final = rb"(?:docker|podman|nerdctl|buildah|skopeo|crane|oras|helm|oc|az|cf)\s(?:[a-z]{2,12}\s)?login"
_STDIN: Final = rb"[ ]?\| ?(?:sudo [^\n|;&]{0,40}?-\w{0,8}S|[^\n|;&]{0,80}(?:--(?:password-|passphrase-)?stdin|--with-token|kinit|cryptsetup))"

_ANY: Final = is_password
_TYPED_ONLY: Final = is_typed
_RANDOM: Final = partial(is_secret, sensitivity="password", quoted=True)

_STATEMENTS: Final[tuple[tuple[bytes, bytes, Callable[[bytes], bool]], ...]] = (
    # commands
    (
        rb"[ ](?:-u ?|--user[ =])[ \"'\\]{0,8}[^\s:\"'\\/-][^\s:\"'\\/]{0,63}:",
        rb"[\"'\\]{0,8}([^\s\"'\\/:]{4,128})",
        _ANY,
    ),
    (rb"[ ]-u[ \"'\\]{1,8}:", rb"([^\s\"'\\/:]{4,128})", _ANY),
    (rb"https? (?:[^\n|;&]{0,80} )?(?:-a|--auth)[ =]", _QUOTED + rb"[^\s:\"'\\/]{1,64}:([^\s\"'\\/:]{4,128})", _ANY),
    (rb"sshpass -p ?", _QUOTED + rb"([^\s\"'\\]{4,128})", _ANY),
    (_REGISTRY, _ARGUMENTS + rb"(?:-p[ =]?|--password[ =])" + _WORD, _ANY),
    (rb"(?:mysql|mariadb)[a-z]{0,9}\s", rb"(?:[^\n|;&]{0,200}?\s)?-p" + _WORD, _ANY),
    (rb"mysqladmin\s", rb"[^\n|;&]{0,200}?password " + _WORD, _ANY),
    (rb"mongo[a-z]{0,9}\s", rb"(?:[^\n|;&]{0,200}?\s)?-p ?" + _WORD, _ANY),
    (rb"(?:redis|valkey)-cli\s", rb"(?:[^\n|;&]{0,200}?\s)?-a[ =]" + _WORD, _ANY),
    (rb"(?:unzip|zip|7za?|sqlcmd|bcp)\s[^\n|;&]{0,40}-(?:P |P|p)", _WORD, _ANY),
    (rb"(?:psexec|winexe|wmic)[^\n|;&]{0,80}\s-p ?", _WORD, _ANY),
    (rb"ldap(?:search|add|modify|delete|passwd|whoami)\s", rb"(?:[^\n|;&]{0,200}?\s)?-w " + _WORD, _ANY),
    (
        rb"(?:smbclient|rpcclient|smbget|net rpc)\s",
        rb"[^\n|;&]{0,200}?-U[ =]?" + _QUOTED + rb"[^\s%\"']{1,64}%" + _PLAIN,
        _ANY,
    ),
    (rb"snmp[a-z]{2,9}\s", rb"[^\n|;&]{0,80}?-c " + _WORD, _TYPED_ONLY),
    (rb"pass(?:in|out)? pass:", _PLAIN, _ANY),
    (rb"openssl passwd ", rb"(?:-[a-z0-9]{1,8} |-salt \S{1,40} ){0,4}" + _WORD, _TYPED_ONLY),
    (rb"openssl enc ", rb"[^\n|;&]{0,200}?-[kK] " + _WORD, _ANY),
    (
        rb"htpasswd ",
        rb"(?:-[a-zA-Z]{1,6} ){0,3}-[a-zA-Z]{0,6}b[a-zA-Z]{0,6} (?:-[a-zA-Z]{1,6} ){0,3}(?:[\w./-]*[./][\w./-]* )?[\w.@-]{1,64} "
        + _WORD,
        _ANY,
    ),
    (rb"(?:user(?:add|mod)|adduser)\s", rb"[^\n|;&]{0,200}?(?:-p|--password)[ =]" + _WORD, _ANY),
    (rb"echo (?:-[ne]{1,2} )?", _WORD + _QUOTED + _STDIN, _ANY),
    (rb"chpasswd\s{0,4}<<<\s{0,4}", _QUOTED + rb"[a-z_][\w.-]{0,31}:" + _PLAIN, _ANY),
    (
        rb"chpasswd\s{0,4}<<-?\s{0,4}[\"'\\]{0,4}\w{1,16}",
        rb"[\"'\\]{0,4}" + _NEXT + rb"[a-z_][\w.-]{0,31}:" + _PLAIN,
        _ANY,
    ),
    (rb"[\"'][a-z_][\w.-]{0,31}:", rb"([^\s\"'`\\|;&:]{3,128})[\"'\\]{0,8} ?\| ?(?:sudo )?chpasswd", _ANY),
    (rb"net use ", rb"(?:[A-Z*]: )?\\{2,16}\S{1,128} ([^\s/\"'*][^\s\"']{3,127})", _TYPED_ONLY),
    (rb"net use ", rb"[^\n|;&]{0,200}?/user:\S{1,64} ([^\s/\"'*][^\s\"']{3,127})", _TYPED_ONLY),
    (rb"net user ", rb"\S{1,64} ([^\s/\"'*][^\s\"']{3,127})", _TYPED_ONLY),
    (rb"(?:cmdkey|x?freerdp|rdesktop)", rb"[^\n|;&]{0,200}?[ /-]p(?:ass)?:" + _WORD, _ANY),
    (rb"nmcli ", rb"[^\n|;&]{0,200}?(?:password|psk) " + _WORD, _TYPED_ONLY),
    (rb"wpa_passphrase ", rb"(?:\"[^\"\n]{1,40}\"|\S{1,40}) " + _WORD, _ANY),
    (rb"(?:requirepass|masterauth|wpa-psk|wifi-sec\.psk)[ \t]{1,8}", _WORD, _TYPED_ONLY),
    (rb"[>\n]\s{0,4}AUTH ", rb"(?:\w{1,32} )?" + _WORD, _TYPED_ONLY),
    (rb"configure set [\w.-]{1,60}(?:key|token|secret)[\w]{0,12} ", _WORD, _ANY),
    (rb"(?:from-literal=)[\w.-]{1,64}=", _WORD, _RANDOM),
    (rb"gh secret set ", rb"[^\n|;&]{0,80}?(?:-b|--body)[ =]?" + _WORD, _ANY),
    (
        rb"(?:wandb|vault|modal|cargo|flyctl|vercel|netlify|clearml|comet|tailscale) login ",
        rb"(?:-\S{1,60} ){0,4}([\w.~+/-]{20,512})",
        _ANY,
    ),
    (rb"authtoken ", rb"([\w-]{20,80})", _ANY),
    (rb":_(?:authToken|auth|password)[ =]", _WORD, _ANY),
    (rb"ConvertTo-SecureString\s", rb"{0,4}(?:-String\s{1,4})?[\"'\\]{1,4}([^\"'\\\r\n]{3,128})", _ANY),
    # statements
    (
        rb"(?i:identified)\s{1,8}(?i:with\s{1,8}[\w'\"]{1,40}\s{1,8})?(?i:by|as)\s{1,8}(?i:password\s{1,8})?",
        _IN_QUOTES,
        _ANY,
    ),
    (rb"(?:PASSWORD|password)[ =(]{1,3}", _IN_QUOTES, _TYPED_ONLY),
    (
        rb"(?i:expect)[^\n]{0,60}(?i:pass)[^\n]{0,40}",
        rb"(?:\s|\\{1,4}[nrt]){1,8}[\w.]{0,40}send(?:line)?(?: -- ?| -s ?|\()?\s?[\"'{\\]{1,4}([^\"'\\\s]{3,128})",
        _ANY,
    ),
    (_AT_WORD + rb"send (?:-- |-s )?", rb"[\"'\\]{1,4}([^\"'\\\s/]{8,128})\\{1,8}r", _RANDOM),
    # what programs print
    (rb"(?i:access key(?: id)?|session token) \[[^\]\n]{0,40}\]: ", rb"([^\s\"\\]{12,1000})", _ANY),
    (
        rb"(?i:(?:temporary|generated|initial|new|default|admin|your|one-time) password)",
        rb"(?: (?:is|was)(?: generated)?(?: for [\w@.-]{1,64})?| has been (?:re)?set to)?:?\s{1,4}" + _WORD,
        _RANDOM,
    ),
    (rb"(?i:use the following password)", rb"[^:\n]{0,60}:" + _NEXT + rb"([0-9a-f]{32})", _ANY),
    (
        rb"(?i:(?:verification|security|login|one-time|confirmation|authentication|access|sign-in|2fa) code)",
        rb"(?: is|:|,)?\s{1,2}[\"'*\\]{0,4}(\d{4,8})",
        _ANY,
    ),
    (rb"Private-MAC: ", rb"([0-9a-f]{40,64})", _ANY),
    # links
    (
        rb"[?&;#](?i:code|state|ticket|t|otp|nonce|k|jsessionid|sid|session)=",
        rb"([\w.~%+/-]{16,1000})",
        partial(is_secret, quoted=True),
    ),
    (
        rb"/(?i:reset|recover|verify|confirm|activate|magic|invite|unsubscribe|set)[a-z_-]{0,24}/(?:[\w=-]{1,24}/)?",
        rb"([\w.~-]{20,512})",
        partial(is_secret, quoted=True),
    ),
)
"""Where passwords stand in commands, statements, messages and links: (what the scan looks for, what follows with the secret as its
group, what it has to look like)."""

_PATTERNS: Final = tuple((compiled(head + tail), accepts) for head, tail, accepts in _STATEMENTS)
_SET: Final = Later(lambda: compiled_set([head for head, _, _ in _STATEMENTS], 16))
COMMAND_TRIGGER: Final = b"|".join(b"(?:" + head + b")" for head, _, _ in _STATEMENTS)

_GAP: Final = rb"(?:\s|\\{1,8}[nrt]){1,16}"
_NAMED: Final = (
    _AT_WORD
    + rb"(?:machine"
    + _GAP
    + rb"[^\s\\\"']{1,128}|default)"
    + _GAP
    + rb"login"
    + _GAP
    + rb"[^\s\\\"']{1,64}"
    + _GAP
    + rb"(?:account"
    + _GAP
    + rb"[^\s\\\"']{1,64}"
    + _GAP
    + rb")?"
)
_DATABASE: Final = rb":(?:\*|54\d\d|643\d|26257|5\d{4}):[\w.*-]{1,64}:[\w.*@-]{1,64}:"
_FILES: Final = (
    compiled(_NAMED + rb"password" + _GAP + rb"([^\s\\\"']{1,256})"),
    compiled(
        rb"(?:^|\n|\\n|[\"'])[\w.*/-]{1,128}" + _DATABASE + rb"([^\s:\"'\\]{3,128})(?:\r?\n|\\{1,8}[rn]|[\"'`]|$)"
    ),
)
FILE_TRIGGER: Final = (
    rb"login(?:\s|\\+[nrt])+[^\s\\\"']{1,64}(?:\s|\\+[nrt])+(?:password|account)"
    rb"|:(?:\*|54\d\d|643\d|26257|5\d{4}):[\w.*-]"
)

_AUTH: Final = rb"(?:[\"']auth" + _QUOTED + rb"\s{0,4}:\s{0,4}|" + _AT_WORD + rb"_auth ?= ?)" + _QUOTED
_BASIC: Final = compiled(_AUTH + rb"([A-Za-z0-9+/_-]{6,400}={0,2})")
_SECRET: Final = compiled(rb"(?i)" + _AT_WORD + rb"kind" + _QUOTED + rb":\s{0,4}" + _QUOTED + rb"secret\b")
_DATA: Final = compiled(_AT_WORD + rb"(?:data|stringData)" + _QUOTED + rb":[ \t]{0,4}(?:\{|\r?\n|(?:\\+r)?\\+n)")
_ENTRY: Final = re.compile(
    rb"(?:\s|\\[nt]|,|#[^\n\\]*)*+[\"'\\]{0,8}[\w.-]{1,253}[\"'\\]{0,8}:[ \t]*(?:[|>]-?\s+)?[\"'\\]{0,8}"
    rb"([A-Za-z0-9+/]{4,4096}={0,2})(?![\w:])[\"'\\]{0,8}"
)
_NEAR: Final = 2048
"""Bytes before and after `kind: Secret` in which its data begin."""

ENCODED_TRIGGER: Final = (
    rb"[\"']auth[\"'\\]*\s*:\s*[\"'\\]*[A-Za-z0-9+/_-]{6}|_auth ?= ?[\"'\\]*[A-Za-z0-9+/_-]{6}"
    rb"|(?i:kind[\"'\\]*:\s*[\"'\\]*secret\b)"
)
TRIGGER: Final = b"|".join(
    b"(?:" + one + b")" for one in (PROMPT_TRIGGER, COMMAND_TRIGGER, FILE_TRIGGER, ENCODED_TRIGGER)
)


def passwords(text: bytes, lo: int, hi: int, inner: Inner) -> Iterator[Loose | Encoded]:
    """What stands after a prompt to the end of its line, what commands take, and what files of logins hold.

    Files are `.netrc`, `.pgpass`, Docker's and npm's settings and Kubernetes secrets, the last three in base64.
    """
    for pattern in _PROMPTED:
        for match in matches(pattern, text, lo, hi):
            yield Loose(match.start(1), match.end(1), "assignment", is_typed)
    for number in _SET.Match(text[lo : hi + SLACK]) or range(len(_PATTERNS)):
        pattern, accepts = _PATTERNS[number]
        for match in matches(pattern, text, lo, hi):
            start, end = match.span(1)
            if opens(text, match.start()) or not text[match.start() : match.start() + 1].isalnum():
                yield Loose(start, end, "assignment", accepts)
    for pattern in _FILES:
        for match in matches(pattern, text, lo, hi):
            yield Loose(*match.span(1), "assignment", is_password)
    for match in matches(_BASIC, text, lo, hi):
        start, end = match.span(1)
        body = decoded_body(text, start, end, partial(user_and_password, inner))
        yield body if body and b":" in body.data else Loose(start, end, "assignment", is_credential)
    yield from _kubernetes(text, lo, hi, inner)


def waits_for_password(screen: bytes) -> bool:
    """Whether a screen ends in a prompt for a password, so that what is typed next is one."""
    return _WAITS.search(screen, max(0, len(screen) - WAITS_BYTES)) is not None


_ENTER: Final = rb"(?:\\[nr]|\\u000[aAdD]|[\r\n]|<(?i:enter|return|cr)>|[ ]?\b(?:Enter|C-m)\b)*"
_TYPED: Final = (
    re.compile(
        rb"\"(?:keystrokes|keys|text|input|data|chars|content|command|cmd|value|string)\"\s*:\s*"
        rb"\"((?:[^\"\\\s]|\\[^nrtu]){3,128}?)" + _ENTER + rb"\""
    ),
    re.compile(rb"\A\s*([^\s\"{}\[\]<\\][^\s\"\\]{2,127}?)" + _ENTER + rb"\s*\Z"),
)
"""In the arguments of an action, and as its whole text."""


def typed(action: bytes) -> tuple[Loose, ...]:
    """What an action types, if it is one word: after a prompt for a password it is the password."""
    found = (match for pattern in _TYPED for match in pattern.finditer(action))
    return tuple(Loose(match.start(1), match.end(1), "assignment", is_typed) for match in found)


def _kubernetes(text: bytes, lo: int, hi: int, inner: Inner) -> Iterator[Loose | Encoded]:
    """The data of Kubernetes secrets, which `kubectl get secret -o yaml` and `-o json` print."""
    done = 0
    for secret in matches(_SECRET, text, lo, hi):
        begin, end = max(done, secret.start() - _NEAR), min(len(text), secret.end() + _NEAR)
        for data in _DATA.finditer(text, begin, end):
            if data.end() <= done:
                continue
            at = done = data.end()
            while entry := _ENTRY.match(text, at):
                at = done = entry.end()
                start, end = entry.span(1)
                body = decoded_body(text, start, end, partial(whole, inner))
                yield body or Loose(start, end, "assignment", is_password)
