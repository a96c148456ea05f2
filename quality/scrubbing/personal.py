"""Finders of personal data: e-mail and network addresses, user and host names.

They yield `Span`s also for harmless values (`stays`), so that these are claimed in the same way before and after
scrubbing. Names of persons in prose are not looked for.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final, TypeAlias

from trajmill.quality.scrubbing.kinds import Kind, Span
from trajmill.quality.scrubbing.matching import closes, compile_pattern, matches, opens, past_escape
from trajmill.quality.scrubbing.placeholders import NUMBERED_HOST, NUMBERED_USER, RESERVED_DOMAIN

_ABOVE: Final = rb"\\+u[0-9a-fA-F]{4}"
"""Letter outside ASCII in JSON escapes."""

EMAIL_TRIGGER: Final = (
    rb"[A-Za-z0-9_+\x80-\xff-](?:@|%40)(?:[A-Za-z0-9.\x80-\xff-]|\\+u[0-9a-fA-F]{4})+\.(?:[A-Za-z\x80-\xff]|\\+u0)"
)
_IN_LABEL: Final = rb"(?:[A-Za-z0-9\x80-\xff-]|" + _ABOVE + rb")"
_DOMAIN: Final = compile_pattern(
    rb"(?:@|%40)((?:[A-Za-z0-9\x80-\xff]|" + _ABOVE + rb")" + _IN_LABEL + rb"*\.(?:" + _IN_LABEL + rb"+\.){0,4}"
    rb"([A-Za-z]{2,18}|(?:[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|" + _ABOVE + rb"){2,12}))"
)
_LOCAL: Final = re.compile(
    rb"(?:[A-Za-z0-9_+-]|(?<![\x80-\xff])[\xc2-\xf4]|"
    + _ABOVE
    + rb")(?:[A-Za-z0-9._+\x80-\xff-]|%2[bB]|"
    + _ABOVE
    + rb"){0,63}\Z"
)
_LOCAL_BYTES: Final = 200
_LABEL: Final = 63
"""Largest label of a domain, in bytes (RFC 1035, 2.3.4)."""

_FILE_ENDINGS: Final = frozenset(
    b"png jpg gif svg css js ts jsx tsx py rb go rs md txt xml yml zip tar tgz gz bz2 whl jar exe dll so "
    b"sh bat ini cfg log lock map mjs cjs vue htm pdf doc ico bmp tif mp3 mp4 wav avi mov ttf otf json "
    b"yaml toml html jpeg webp scss conf class java swift service socket timer target mount scope slice "
    b"path device swap transpose format join split strip encode decode append items keys values copy shape "
    b"mean astype read write close call apply text length push then header blink catch name type size data "
    b"index node self base core main".split()
)
"""Endings of files, systemd units and object members, which personal domains do not have."""

_SECOND_LEVEL: Final = frozenset(b"com org net edu gov ac co mil or ne gob".split())
_USER_INFO: Final = re.compile(rb"://[^\s/\"'<>]*\Z")
_NO_PERSON: Final = frozenset(b"git hg svn noreply no-reply donotreply do-not-reply postmaster mailer-daemon".split())


def emails(text: bytes, lo: int, hi: int) -> Iterator[Span]:
    """Find e-mail addresses; those at reserved domains and of no person (`git@`, `noreply@`) stay."""
    after = 0
    for match in matches(_DOMAIN, text, lo, hi):
        middle, end = match.span()
        local_part = _LOCAL.search(text, max(after, middle - _LOCAL_BYTES), middle)
        start = past_escape(text, local_part.start()) if local_part else middle
        if start == middle or not closes(text, end) or text[end : end + 1] == b"(" or _in_address(text, start):
            continue
        local, domain = text[start:middle], match.group(1)
        if _is_domain(domain, match.group(2).lower()):
            stays = RESERVED_DOMAIN.fullmatch(domain) is not None or local.lower() in _NO_PERSON
            after = end
            yield Span(start, end, "email", stays)


def _in_address(text: bytes, start: int) -> bool:
    """Check whether the text at `start` continues a `scheme://`: user and host of a URL look like an e-mail address."""
    return _USER_INFO.search(text, max(0, start - 256), start) is not None


def _is_domain(domain: bytes, tld: bytes) -> bool:
    labels = domain.lower().split(b".")
    if labels[0].isdigit() and len(labels) == 2 and len(labels[0]) == 1:
        return False
    if tld in _FILE_ENDINGS:
        return labels[-2] in _SECOND_LEVEL and len(labels) > 2
    return max(map(len, labels)) <= _LABEL and not re.fullmatch(rb"\dx|[\d.]+", b".".join(labels[:-1]))


IP_TRIGGER: Final = rb"\d\.\d{1,3}\.\d{1,3}\.\d|[23][0-9a-fA-F]{3}:[0-9a-fA-F]{0,4}:[0-9a-fA-F:]"
_OCTET: Final = rb"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_IP4: Final = compile_pattern(rb"%s(?:\.%s){3}" % (_OCTET, _OCTET))
_IP6: Final = compile_pattern(rb"[23][0-9a-fA-F]{3}:(?:[0-9a-fA-F]{0,4}:){1,6}[0-9a-fA-F]{0,4}")
_VERSION: Final = re.compile(
    rb"(?i)(?:version|ver|release|build|rev|revision|v|==|>=|<=|~=|\^)[\"'\\]*\s*[:=]?\s*[\"'\\]*\Z"
    rb"|\b(?:\w*chrom(?:e|ium)\w*|firefox\w*|edge?|safari|opera|opr|brave|vivaldi|electron|webview\w*|webkit\w*|gecko"
    rb"|\w*driver|sdk|jdk|jre|runtime|framework|package|plugin|extension|library|patch|firmware|bios|kernel|reader)"
    rb"[\s/(:=\"'\\]{1,6}\Z"
)
_NEXT_VERSION: Final = re.compile(
    rb"(?i)\b(?:upgrad|downgrad|updat|bump|version|releas)\w*\b[^\n:]{0,64}\Z|\d\.\d+ (?:to|and|=>) \Z"
)
"""Words before the versions of an upgrade: `Upgrading x (1.2.3.4 => 1.2.3.5)`."""

_DECIMAL: Final = re.compile(rb"\d?\.\d+[ ,]\Z")
"""Decimal number before another in an SVG path, where a number may begin with its decimal point."""

_LISTED: Final = re.compile(rb"[ |]*[\w@./+:-]+[ \t|]+v?\d+(?:\.\d+){1,2}(?:[-+.~]?[a-z]\w*)?[ \t|]*\Z")
_LIST_COLUMN: Final = re.compile(rb"[ |]*[\w@./+:-]+[ \t|]+\Z")
_LINE_BREAK: Final = re.compile(rb"\r?\n|(?:\\r)?\\n")
_LIST_BYTES: Final = 160
_ADDRESS: Final = re.compile(
    rb"(?i)(?:(?:\b|_)(?:ip|ips|ipv4|addr|address|host|server|inet|via|client|remote|peer|dst|src|ping"
    rb"|nameserver|gateway|dns)\b[^\w\n]{0,6}|://|@)\Z"
)
_RUNS_ON: Final = re.compile(rb"[.+~-]\w|%")
_RANGE: Final = re.compile(rb"-(?:\d{1,3}\.){3}\d{1,3}(?![\w.-])")
_IN_RANGE: Final = re.compile(rb"(?<![\w.-])(?:\d{1,3}\.){3}\d{1,3}-\Z")
_RESOLVERS: Final = frozenset(b"8.8.8.8 8.8.4.4 1.1.1.1 1.0.0.1 9.9.9.9".split())


def addresses(text: bytes, lo: int, hi: int) -> Iterator[Span]:
    """Find IPv4 and IPv6 addresses; private and reserved addresses and the well-known public resolvers stay.

    Small numbers are taken for a version, section or object identifier unless the text announces an address: three of a
    single digit, two of a single digit and none of 100 or more, none above 20, or a first number up to 32 with two of a
    single digit or at most one other number above 64.
    """
    for match in matches(_IP4, text, lo, hi):
        start, end = match.span()
        if _is_whole_number(text, start, end) and not _is_version(text, start, end):
            yield Span(start, end, "ip", text[start:end] in _RESOLVERS or not _is_public(text[start:end]))
    for match in matches(_IP6, text, lo, hi):
        start, end = match.span()
        while end > start and text[end - 1 : end] == b":" and text[end - 2 : end] != b"::":
            end -= 1
        if opens(text, start) and text[start - 1 : start] != b":" and closes(text, end) and _is_ip6(text[start:end]):
            yield Span(start, end, "ip", not _is_public(text[start:end]))


def _is_whole_number(text: bytes, start: int, end: int) -> bool:
    """Check that no digits, dotted groups or words adjoin the number; the ends of a range are two numbers."""
    before = text[max(0, start - 1) : start]
    if before in (b"-", b"+", b".") and not _IN_RANGE.search(text, max(0, start - 17), start):
        return False
    runs_on = _RUNS_ON.match(text, end) and not _RANGE.match(text, end)
    return opens(text, start) and closes(text, end) and not runs_on


def _is_version(text: bytes, start: int, end: int) -> bool:
    before = text[max(0, start - 24) : start]
    if _VERSION.search(before) or (before[-1:] == b"/" and before[-2:-1].isalnum() and text[end : end + 1] != b":"):
        return True
    octets = text[start:end].split(b".")
    if _DECIMAL.search(before) and len(octets[0]) == 1:
        return True
    if _is_listed(text, start, end) or _NEXT_VERSION.search(text, max(0, start - 100), start):
        return True
    digits, numbers = sum(len(octet) == 1 for octet in octets), sorted(map(int, octets))
    numbering = digits >= 3 or (digits == 2 and numbers[3] < 100) or numbers[3] <= 20
    numbering |= int(octets[0]) <= _MAJOR and (digits >= 2 or numbers[2] <= 2 * _MAJOR)
    is_announced = _ADDRESS.search(before) or (int(octets[0]) > _MAJOR and _TOWARDS.search(before))
    return numbering and not is_announced and not _PORT.match(text, end)


_TOWARDS: Final = re.compile(rb"(?i)\b(?:from|to|at)\b[^\w\n]{0,6}\Z")
_MAJOR: Final = 32
"""Largest number at the beginning of most versions."""

_PORT: Final = re.compile(rb":\d|/\d\d?\b| - - \[")
"""Text after an address: a port, the bits of a network, or the fields of a server log."""


def _is_listed(text: bytes, start: int, end: int) -> bool:
    """Check whether the number ends a line in a list of packages: an adjacent line has a name and a shorter version."""
    lines = _LINE_BREAK.split(text[max(0, start - _LIST_BYTES) : start])
    after = _LINE_BREAK.split(text[end : end + _LIST_BYTES])
    if not _LIST_COLUMN.match(lines[-1]) or after[0].strip(b" \t|"):
        return False
    return any(_LISTED.match(line) is not None for line in (*lines[-2:-1], *after[1:2]))


def _is_public(raw: bytes) -> bool:
    address = ipaddress.ip_address(raw.decode())
    if isinstance(address, ipaddress.IPv6Address):
        return address.is_global and int(address) >> 108 != 0x3FFF0
    return address.is_global and not address.is_multicast


def _is_ip6(raw: bytes) -> bool:
    try:
        ipaddress.IPv6Address(raw.decode())
    except ValueError:
        return False
    return True


_NAME: Final = rb"[A-Za-z0-9_\x80-\xff][A-Za-z0-9._\x80-\xff-]{0,63}"
_DRIVE: Final = rb":(?:\\+|/)(?i:users|documents and settings)(?:\\+|/)"
_SHARED: Final = rb"(?:nfs|lustre|gpfs|scratch|beegfs|ceph|pfs|cluster|hpc|work|project|storage|export|net|fs\d?)"
_MOUNTED: Final = (
    rb"(?:/run)?/media/|/(?:"
    + _SHARED
    + rb"|data|mnt)/[Uu]sers?/|\\{1,4}[\w$.-]{1,32}\\{1,4}[\w.-]{1,32}\\{1,4}home\\{1,4}"
)
HOME_TRIGGER: Final = (
    rb"/(?:home|Users)\\*/[\w\x80-\xff]|" + _DRIVE + rb"[\w\x80-\xff]|-(?:home|Users)-\w"
    rb"|(?:USER|USERNAME|LOGNAME)=\w|[ug]id=\d{1,9}\(\w|(?:/media|(?:"
    + _SHARED
    + rb"|data|mnt)/[Uu]sers?)/\w|\\home\\+[a-z_]|~[a-z_][\w-]*/"
)
_HOME: Final = compile_pattern(
    rb"(?:\\*/(?:home|Users)\\*/|[A-Za-z]%s)(%s)|-(?:home|Users)-([A-Za-z0-9_]{1,32})"
    rb"|(?:USER|USERNAME|LOGNAME)=(%s)|[ug]id=\d{1,9}\((%s)\)|(?:%s)(%s)|[\s\"'=:(]~([a-z_][a-z0-9_-]{1,31})/"
    % (_DRIVE, _NAME, _NAME, _NAME, _MOUNTED, _NAME)
)
_ON_DRIVE: Final = re.compile(rb"[A-Za-z]:(\\+|/)(?:[A-Za-z]+|[A-Za-z]+ and [A-Za-z]+)(\\+|/)")
_MORE_WORDS: Final = re.compile(rb"(?: [A-Za-z0-9._-]{1,32}){1,2}(?=\\)")
_NO_HOME: Final = re.compile(rb"\.(?:html?|php|aspx?|jsp|js|css|json|xml|png|jpe?g|gif|svg|ico|txt|md|py)$")
WELL_KNOWN: Final = frozenset(
    b"root user users ubuntu runner node vscode app apps www-data www admin administrator dev developer debian "
    b"ec2-user centos fedora vagrant pi docker jovyan gitpod codespace coder sandbox agent openhands swe swe- "
    b"agent model test tests tester testuser guest default public shared all runneradmin jenkins gitlab-runner "
    b"circleci travis git nobody linuxbrew postgres mysql oracle nginx apache web webapp deploy deployer "
    b"builder build buildkite ci bot nixos arch alpine kali student jupyter conda me username your_username "
    b"yourname your-name name user_name someone foo bar project projects workspace workdir code src data opt "
    b"tmp local computeruse computer hadoop spark airflow celery redis elasticsearch grafana prometheus "
    b"minecraft steam deck android ios system service daemon worker python ruby rails go rust java php perl ctf "
    b"ctfuser hacker nonroot appuser containeruser abc linux mac osboxes wsl anonymous wheel staff sudo adm "
    b"video audio plugdev netdev lxd games bin daemon lp mail man sys sync uucp proxy backup list irc gnats messagebus "
    b"sshd syslog systemd-network systemd-resolve systemd-timesync systemd+ polkitd dbus avahi colord rtkit ntp chrony "
    b"postfix dovecot named bind mongodb rabbitmq memcache cassandra kafka zookeeper etcd consul vault kernel utmp tty "
    b"disk kmem dialout fax voice cdrom floppy tape shadow crontab ssh input kvm render sgx users operator src "
    b"dip pipewire pulse gdm lightdm ftp squid vboxadd domain none everyone trustedinstaller nx-server _apt _www "
    b"node_modules frontend backend server client lib libs bin share docs doc site sites dist static assets public "
    b"repo repos packages package modules module components pages views views images img css js fonts templates vendor "
    b"storage cache config logs log scripts tools tests lib64 include etc var run media usb disk cdrom home latest "
    b"index main en de fr es new old dev prod staging demo example examples playground task tasks job jobs "
    b"to path apt distutils session images image uploads upload files file videos video avatars photos thumbs".split()
)
"""Account names that images, services and tutorials share; they identify nobody."""


_PLAIN_HOME: Final = re.compile(rb"/(?:home|Users)/([A-Za-z][A-Za-z0-9_-]{0,31})(?=[/\s\"',;)\]]|\Z)")


def common_home(data: bytes, start: int, end: int) -> int:
    """Return the end of a common user's home folder that begins at `start` of a text that ends at `end`; 0 if there is
    none.

    Logs of agents name such folders in every line, so they are skipped before any finder is called.
    """
    match = _PLAIN_HOME.match(data, start, end)
    return match.end() if match and is_common_account(match.group(1)) else 0


def homes(text: bytes, lo: int, hi: int) -> Iterator[Span]:
    r"""User names in home folders (`/home/x`, `C:\Users\x`, `/media/x`, `~x/`), in `USER=` and in what `id` prints."""
    for match in matches(_HOME, text, lo, hi):
        group = next(number for number in range(1, 7) if match.group(number) is not None)
        start, end = match.span(group)
        drive = _ON_DRIVE.match(text, match.start(), start)
        if drive:
            end = _with_spaces(text, end)
            if len(drive[2]) > len(drive[1]):  # the last backslash begins an escape
                start = min(past_escape(text, start), end)
        end = start + len(text[start:end].rstrip(b".-"))
        file = group == 1 and _NO_HOME.search(text[start:end])
        if start < end and not file and _is_home(text, match.start(), group):
            yield Span(match.start(), end, "home", is_common_user(text[start:end]), start - match.start())


def _with_spaces(text: bytes, end: int) -> int:
    """Return the end of a name that may contain spaces, if a backslash shows that the words after `end` belong to
    it.
    """
    more = _MORE_WORDS.match(text, end)
    return more.end() if more else end


_TAG_OF_PATH: Final = re.compile(
    rb"<(?:[a-z]{1,12}_)?(?:path|cwd|dir|directory|file|filename|folder|root|workspace)>\Z"
)


def _is_home(text: bytes, start: int, group: int) -> bool:
    before = text[max(0, start - 32) : start]
    if group == 2:
        return not before or before[-1:] in b" /\\\"'`\n=:("
    if group == 5:
        return opens(text, start) and before[-1:] not in (b".", b"}", b"-")
    if opens(text, start) or group > 2:
        excluded = re.search(rb"(?:[.$}\])>-]|(?:GET|POST|PUT|HEAD) )\Z", before)
        return excluded is None or _TAG_OF_PATH.search(before) is not None
    return re.search(rb"(?:/(?:" + _SHARED + rb"|var|mnt|data|usr)|[\s\"'=]-[IL]|/[a-z]|\b[A-Z])\Z", before) is not None


@lru_cache(maxsize=4096)
def is_common_account(name: bytes) -> bool:
    """Call `is_common_user` with a cache, for names that a log repeats in every line."""
    return is_common_user(name)


def is_common_user(name: bytes) -> bool:
    """Check whether the name identifies nobody: an account that many systems have, or a placeholder."""
    return name.lower() in WELL_KNOWN or NUMBERED_USER.fullmatch(name) is not None


_OF_LINE: Final = rb"(?:^|[\r\n]|\\n)"
_LISTED_FILE: Final = compile_pattern(
    _OF_LINE
    + rb" {0,12}(?:\d{1,12} {1,12})?[-dlbcps][rwxsStT-]{9}[.+@]? {1,12}\d{1,9} {1,12}("
    + _NAME
    + rb") {1,12}("
    + _NAME
    + rb") "
)
_LOGGED_IN: Final = compile_pattern(
    _OF_LINE + rb"(" + _NAME + rb") {1,24}(?:pts/\d|tty[A-Za-z]{0,4}\d|console |seat\d|:\d)"
)
_ACCOUNT: Final = compile_pattern(rb"(?:^|[\s\"']|\\n)(" + _NAME + rb"):[x*!]:[1-5]?\d{4}:\d{1,6}:")
_WHO: Final = compile_pattern(
    rb"\bwhoami(?:\r?\n|(?:\\{1,8}r)?\\{1,8}n)(" + _NAME + rb")(?:\r?\n|(?:\\{1,8}r)?\\{1,8}n|\\{0,8}\"|$)"
)
_LISTINGS: Final = (_LISTED_FILE, _LOGGED_IN, _ACCOUNT, _WHO)
_TITLES: Final = compile_pattern(
    rb"(?:[A-Z%][A-Z%/()]{0,20} {1,24}){0,12}(?:USER|UID|OWNER)(?: {1,24}[A-Z%][A-Z%/()@]{0,24}){2,14}"
)
_COLUMN: Final = re.compile(rb"[^ \r\n\\]+")
_ENTRY: Final = re.compile(rb"(?:\r?\n|(?:\\{1,8}r)?\\{1,8}n)([^\r\n\\]{8,400})")
_ENTRIES: Final = 500


def _other_than(words: Iterable[bytes]) -> bytes:
    """Build a pattern of the shortest beginnings of a word that differ from all given words, each of which ends in a
    blank.
    """
    by_first: dict[int, list[bytes]] = {}
    for word in words:
        by_first.setdefault(word[0], []).append(word[1:])
    other_bytes = b"[^" + b"".join(re.escape(bytes([first])) for first in by_first) + b"]"
    longer = (re.escape(bytes([first])) + _other_than(rest) for first, rest in by_first.items() if b"" not in rest)
    return b"(?:" + b"|".join([other_bytes, *longer]) + b")"


_STRANGER: Final = _other_than(
    word + b" "
    for word in b"root dev user users ubuntu runner node vscode agent app staff wheel admin www-data".split()
)
"""Beginning of an owner other than these, which listings show in every line."""

LISTING_TRIGGER: Final = (
    rb"[rwxsStT-]{9}[.+@]? +\d+ +(?:[^\s\d]\S* +)?" + _STRANGER + rb"[\w.-]* "
    rb"|\w +(?:pts/\d|tty[A-Za-z]*\d| :\d)|:[x*!]:[1-5]?\d{4}:\d|\bwhoami[\r\n\\]"
    rb"|(?:USER|UID|OWNER) +[A-Z%][A-Z%]* +[A-Z%]"
)


def listings(text: bytes, lo: int, hi: int) -> Iterator[Span]:
    """Find user names in listings of files, processes, jobs and accounts, and in the output of `who` and `whoami`."""
    for pattern in _LISTINGS:
        for match in matches(pattern, text, lo, hi):
            for group in range(1, match.re.groups + 1):
                yield _account(text, *match.span(group))
    for match in matches(_TITLES, text, lo, hi):
        titles = match.group().split()
        column_number = next(
            column_number for column_number, title in enumerate(titles) if title in (b"USER", b"UID", b"OWNER")
        )
        at = match.end()
        for _ in range(_ENTRIES):
            entry = _ENTRY.match(text, at)
            columns = [*_COLUMN.finditer(text, *entry.span(1))] if entry else []
            if entry is None or len(columns) < 3:
                break
            name = columns[column_number][0] if column_number < len(columns) else b""
            if _ACCOUNT_NAME.fullmatch(name) and any(column[0].isdigit() for column in columns):
                yield _account(text, *columns[column_number].span())
            at = entry.end()


_ACCOUNT_NAME: Final = re.compile(rb"[A-Za-z_][\w.$+-]{1,31}")


def _account(text: bytes, start: int, end: int) -> Span:
    return Span(start, end, "home", is_common_user(text[start:end]) or text[start:end].isdigit())


_COLOURS: Final = rb"(?:\x1b\[[0-9;]*m)*"
HOST_TRIGGER: Final = (
    rb"[\w-]@[A-Za-z0-9][A-Za-z0-9.-]*" + _COLOURS + rb"[: ]"
    rb"|(?:ssh|scp|rsync|sftp|mosh|copy-id)\s[^\n|;&@]*@[A-Za-z0-9]"
)
HOST_NAME_TRIGGER: Final = rb"HOSTNAME=\w|(?:Linux|Darwin) [\w.-]+ \d+\.\d+\.\d"
_HOST_NAME: Final = compile_pattern(
    rb"HOSTNAME=([A-Za-z0-9][A-Za-z0-9.-]{0,62})"
    rb"|(?:Linux|Darwin) ([A-Za-z0-9][A-Za-z0-9.-]{0,62}) \d+\.\d+\.\d[\w.+-]{0,64} (?:#\d|Darwin Kernel)"
)
"""Host names in the output of `env` and `uname -a`."""

_AT: Final = re.compile(rb"@([A-Za-z0-9][A-Za-z0-9.-]{0,62})")
_USER: Final = re.compile(rb"[A-Za-z_][A-Za-z0-9_.-]{0,31}\Z")
USER_BYTES: Final = 64
"""Bytes that hold a user name and the escape sequence before it."""

_PROMPT: Final = re.compile(
    _COLOURS + rb"(?::" + _COLOURS + rb"(?:[~/]|\s?[$#%] )"  # carol@thinkpad:~$
    rb"|[ ](?:[~/]|[\w.-]{1,40}\])[^\n$#%>]{0,80}[$#%>]|[ ]MINGW"  # [carol@web src]$, carol@mac ~ %
    rb"|[ ][\w.-]{1,64} %[ \x1b])"  # carol@mac src %
)
_REMOTE: Final = re.compile(rb"(?:ssh|scp|rsync|sftp|mosh|ssh-copy-id)\s[^\n|;&]{0,80}\Z")
_VERSION_OF: Final = re.compile(rb"\d+(?:\.\d+){0,2}(?:-[\w.-]+)?")
"""Version after the `@` of a package: `left-pad@1.3.0`."""
_COMMON_HOSTS: Final = re.compile(
    rb"(?i)localhost|[0-9a-f]{12}|[0-9a-f]{64}|runsc|modal|host(?:name)?|server|remote|box|container|docker|sandbox|vm|machine"
    rb"|(?:.*\.)?(?:github|gitlab|bitbucket|dev\.azure|visualstudio|sourceforge|heroku)\.(?:com|org|net)|[\d.]+"
)


def host_names(text: bytes, lo: int, hi: int) -> Iterator[Span]:
    """Find host names in `HOSTNAME=` and in the output of `uname -a`; those that stay in `prompts` stay here too."""
    for match in matches(_HOST_NAME, text, lo, hi):
        start, end = match.span(1 if match.group(1) is not None else 2)
        end = start + len(text[start:end].rstrip(b".-"))
        if opens(text, match.start()):
            yield Span(start, end, "host", is_common_host(text[start:end]))


def prompts(text: bytes, lo: int, hi: int, wanted: frozenset[Kind]) -> Iterator[Span]:
    """Find host and user names in prompts (`user@host:~$`) and in `ssh`, `scp` and `rsync` commands.

    Host names of containers (12 hex digits), `localhost` and the large forges stay.
    """
    at = text.find(b"@", lo, hi)
    while at >= 0:
        begin = text.rfind(b"\n", 0, at) + 1
        end = text.find(b"\n", at)
        end = end if end >= 0 else len(text)
        if end - begin <= _SHORT_LINE:
            for middle, start, stop, kind, stays in line_prompts(text[begin:end], wanted):
                if lo <= begin + middle < hi:
                    yield Span(begin + start, begin + stop, kind, stays)
        else:
            for _, start, stop, kind, stays in _prompts(text, max(lo, begin), min(hi, end), wanted):
                yield Span(start, stop, kind, stays)
        at = text.find(b"@", end, hi)


def common_prompt(data: bytes, start: int, begin: int) -> int:
    """Return the beginning of the host in a common `user@host` whose `@` follows `start`; 0 if user or host may
    identify somebody.

    The text begins at `begin`. Containers show such a prompt on every screen, so it is skipped like the homes of
    `common_home`. The host itself is still searched, for example for an address.
    """
    match = _AT.match(data, start + 1)
    if match is None or not is_common_host(match[1].rstrip(b".-")):
        return 0
    before = data[max(begin, start - USER_BYTES) : start + 1]
    return match.start(1) if _ends_in_common_user(before[before.rfind(b"\n") + 1 :]) else 0


@lru_cache(maxsize=4096)
def _ends_in_common_user(before: bytes) -> bool:
    user = _USER.search(before)
    return user is not None and is_common_account(before[past_escape(before, user.start()) :])


Prompt: TypeAlias = tuple[int, int, int, Kind, bool]
"""Position of the `@` of a prompt, and the span of one of its names: start, end, kind, flag that it stays."""

_SHORT_LINE: Final = 512


@lru_cache(maxsize=1 << 16)
def line_prompts(line: bytes, wanted: frozenset[Kind]) -> tuple[Prompt, ...]:
    """Return the prompts of one line, cached, since a terminal repeats its lines from screen to screen."""
    return tuple(_prompts(line, 0, len(line), wanted))


def _prompts(text: bytes, lo: int, hi: int, wanted: frozenset[Kind]) -> Iterator[Prompt]:
    at = text.find(b"@", lo, hi)
    while at >= 0:
        match, middle = _AT.match(text, at), at
        at = text.find(b"@", at + 1, hi)
        if match is None:
            continue
        host, end = match.span(1)
        user = _USER.search(text, max(0, middle - 32), middle)
        start = past_escape(text, user.start()) if user else middle
        end = host + len(text[host:end].rstrip(b".-"))
        if start == middle or _VERSION_OF.fullmatch(text, host, end):
            continue
        if not _PROMPT.match(text, end):
            command = _REMOTE.search(text, max(0, start - 120), start)
            if not command or not opens(text, command.start()):
                continue
        if "host" in wanted:
            yield middle, host, end, "host", is_common_host(text[host:end])
        if "home" in wanted:
            yield middle, start, middle, "home", is_common_account(text[start:middle])


@lru_cache(maxsize=4096)
def is_common_host(name: bytes) -> bool:
    """Check whether the name identifies no machine: a container, a common host, or a placeholder."""
    known = _COMMON_HOSTS.fullmatch(name) or NUMBERED_HOST.fullmatch(name) or RESERVED_DOMAIN.fullmatch(name)
    return known is not None
