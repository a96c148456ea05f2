"""A seeded generator of made-up secrets in the texts that give them away, and of the ways they are embedded."""

import base64
import json
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Final

from trajmill.quality.scrub import Kind

LOWER: Final = "abcdefghijklmnopqrstuvwxyz"
UPPER: Final = LOWER.upper()
DIGITS: Final = "0123456789"
ALNUM: Final = LOWER + UPPER + DIGITS
HEX: Final = "0123456789abcdef"


@dataclass(frozen=True)
class Plant:
    """A text that holds secrets; none of `secrets` may be left in it."""

    kind: Kind
    text: str
    secrets: tuple[str, ...]


def _draw(random: Random, alphabet: str, length: int) -> str:
    """Characters of the alphabet, a digit and a letter among them where it has both."""
    drawn = [random.choice(alphabet) for _ in range(length)]
    places = random.sample(range(length), 3)
    for index, group in zip(places, (DIGITS, LOWER, UPPER), strict=True):
        choices = [char for char in group if char in alphabet]
        if choices:
            drawn[index] = random.choice(choices)
    return "".join(drawn)


def _cloud_key(random: Random) -> Plant:
    secret = _draw(random, UPPER + "234567", 16)
    long = _draw(random, ALNUM + "+/", 40)
    choices = (
        (f"aws_access_key_id = AKIA{secret}", secret),
        (f"found key ASIA{secret}, rotating", secret),
        (f"AWS_SECRET_ACCESS_KEY={long}", long),
        (f"key: AIza{long[:35].replace('+', '-').replace('/', '_')} ok", long[:35].replace("+", "-").replace("/", "_")),
        (f"DefaultEndpointsProtocol=https;AccountName=x;AccountKey={long * 2}abcde1==;EndpointSuffix=y", long * 2),
    )
    text, value = random.choice(choices)
    return Plant("cloud_key", text, (value,))


def _token(random: Random) -> Plant:
    def of(alphabet: str, length: int) -> str:
        return _draw(random, alphabet, length)

    prefix, body = random.choice(
        (
            ("ghp_", of(ALNUM, 36)),
            ("hf_", "".join(random.choices(LOWER + UPPER, k=34))),
            ("sk_live_", "".join(random.choices(LOWER + UPPER, k=24))),
            ("dapi", of(HEX, 32)),
            ("key-", of(HEX, 32)),
            ("ntn_", of(DIGITS, 11) + of(ALNUM, 35)),
            ("secret_", of(ALNUM, 43)),
            ("$6$", of(ALNUM, 16) + "$" + of(ALNUM + "./", 86)),
            ("$y$j9T$", of(ALNUM + "./", 22) + "$" + of(ALNUM + "./", 43)),
            ("$2b$12$", of(ALNUM + "./", 53)),
            ("gho_", of(ALNUM, 36)),
            ("ghs_", of(ALNUM, 36)),
            ("github_pat_", of(ALNUM, 22) + "_" + of(ALNUM, 59)),
            ("glpat-", of(ALNUM + "-_", 20)),
            ("xoxb-", f"{of(DIGITS, 12)}-{of(DIGITS, 12)}-{of(ALNUM, 24)}"),
            ("xoxp-", f"{of(DIGITS, 11)}-{of(DIGITS, 11)}-{of(DIGITS, 12)}-{of(HEX, 32)}"),
            ("sk-", of(ALNUM, 48)),
            ("sk-proj-", of(ALNUM + "-_", 64)),
            ("sk-ant-api03-", of(ALNUM + "-_", 93) + "AA"),
            ("hf_", of(ALNUM, 34)),
            ("npm_", of(ALNUM, 36)),
            ("pypi-AgEIcHlwaS5vcmc", of(ALNUM + "-_", 80)),
            ("sk_live_", of(ALNUM, 24)),
            ("rk_live_", of(ALNUM, 24)),
            ("ya29.", of(ALNUM + "-_", 80)),
            ("SG.", of(ALNUM, 22) + "." + of(ALNUM, 43)),
            ("SK", of(HEX, 32)),
            ("M", of(ALNUM, 23) + "." + of(ALNUM, 6) + "." + of(ALNUM, 38)),
            (of("123456789", 9) + ":AA", of(ALNUM, 33)),
        )
    )
    text = random.choice(("token is {}", "git clone https://x-access-token:{}@github.com/o/r", "'{}',", "export T={}"))
    return Plant("token", text.format(prefix + body), (body,))


def _assignment(random: Random) -> Plant:
    secret = _draw(random, ALNUM, random.randint(16, 40))
    word = _draw(random, LOWER + DIGITS, random.randint(8, 14))
    odd = f"{word[:4]}@{word[4:]}!{secret[:3]}"
    text, value = random.choice(
        (
            (f"DB_PASSWORD={word}", word),
            (f"export API_TOKEN='{secret}'", secret),
            (f'{{"client_secret": "{secret}", "n": 1}}', secret),
            (f"password: {word}", word),
            (f'  api_key: "{secret}"', secret),
            (f'password = "{odd}"', odd),
            (f"https://api.acme.io/v1?api_key={secret}&page=2", secret),
            (f"deploy --token {secret} --force", secret),
            (f"mysql --password={word} -u app", word),
            (f"curl -u admin:{word} https://acme.io", word),
            (f"<password>{word}</password>", word),
            (f'{{"name": "password", "value": "{word}"}}', word),
            (f"apiKey: '{secret}',", secret),
            (f"SECRET_KEY_BASE={secret}{secret}", secret),
        )
    )
    return Plant("assignment", text, (value,))


def _login(random: Random) -> Plant:
    """Passwords of letters alone, which only their place tells."""
    secret = _draw(random, LOWER, random.randint(8, 14))
    pair = base64.b64encode(f"app:{secret}".encode()).decode()
    text, value = random.choice(
        (
            (f"[sudo] password for app: {secret}\nok", secret),
            (f"app@db's password: {secret}\n", secret),
            (f"Enter passphrase for key '/x/id_rsa': {secret}\n", secret),
            (f"Retype new UNIX password: {secret}\n", secret),
            (f"login:app\nPassword: {secret}\n$", secret),
            (f'{{"auths": {{"r.io": {{"auth": "{pair}"}}}}}}', pair),
            (f"machine r.io login app password {secret}\n", secret),
            (f"machine r.io\n  login app\n  password {secret}\n", secret),
            (f"\ndb.r.io:5432:main:app:{secret}\n", secret),
            (f"docker login -u app -p {secret} r.io", secret),
            (f"mysql -u app -p{secret} main", secret),
            (f"echo {secret} | sudo -S true", secret),
            (f"echo 'app:{secret}' | sudo chpasswd", secret),
            (f"openssl rsa -passin pass:{secret} -in x.pem", secret),
            (f"data:\n  main: {base64.b64encode(secret.encode()).decode()}\nkind: Secret\n", secret),
        )
    )
    return Plant("assignment", text, (value,))


def _assignment_or_login(random: Random) -> Plant:
    return random.choice((_assignment, _login))(random)


def _private_key(random: Random) -> Plant:
    lines = [_draw(random, ALNUM + "+/", 64) for _ in range(random.randint(2, 6))]
    lines.append(_draw(random, ALNUM + "+/", random.randint(16, 60)) + "==")
    name = random.choice(("RSA PRIVATE KEY", "PRIVATE KEY", "OPENSSH PRIVATE KEY", "EC PRIVATE KEY"))
    text = "\n".join([f"-----BEGIN {name}-----", *lines, f"-----END {name}-----"])
    return Plant("private_key", text, tuple(lines))


def _jwt(random: Random) -> Plant:
    def part(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value, separators=(",", ":")).encode()).rstrip(b"=").decode()

    signature = _draw(random, ALNUM + "-_", 43)
    claims = part({"sub": _draw(random, DIGITS, 10), "iat": random.randrange(10**9, 2 * 10**9)})
    text = f"{part({'alg': 'HS256', 'typ': 'JWT'})}.{claims}.{signature}"
    return Plant("jwt", random.choice(("{}", "session={}", "Bearer {}", 'id_token: "{}"')).format(text), (signature,))


def _url_password(random: Random) -> Plant:
    secret = _draw(random, ALNUM + "!~", random.randint(8, 20))
    scheme = random.choice(("postgres", "mysql", "redis", "amqp", "https", "mongodb+srv"))
    return Plant("url_password", f"{scheme}://app:{secret}@db.acme.io:5432/main", (secret,))


def _header(random: Random) -> Plant:
    secret = _draw(random, ALNUM, random.randint(20, 40))
    basic = base64.b64encode(f"admin:{secret}".encode()).decode()
    text, value = random.choice(
        (
            (f"Authorization: Bearer {secret}", secret),
            (f"authorization: token {secret}", secret),
            (f"Authorization: Basic {basic}", basic),
            (f"Cookie: theme=dark; sid={secret}; lang=en", secret),
            (f"Set-Cookie: sid={secret}; Path=/; HttpOnly", secret),
            (f"X-Api-Key: {secret}", secret),
            (f'{{"name": "Cookie", "value": "sid={secret}"}}', secret),
            (f'{{"name":"Authorization","value":"Bearer {secret}"}}', secret),
            (f'{{"x-api-key": "{secret}"}}', secret),
            (f'curl -H "Authorization: Bearer {secret}" https://api.acme.io', secret),
            (f"cookie:\n  - sid={secret}; a=b", secret),
        )
    )
    return Plant("header", text, (value,))


def _email(random: Random) -> Plant:
    local = _draw(random, LOWER, random.randint(4, 12)) + random.choice(("", ".x", "+tag", "_9", "7"))
    domain = random.choice(("gmail.com", "corp.io", "mail.acme.co.uk", "uni-x.edu", "acme.org", "x.de", "me.fr"))
    text = random.choice(("mail {} now", "Author: A B <{}>", '"{}"', "mailto:{}", "user={}&x=1", "[{}]"))
    return Plant("email", text.format(f"{local}@{domain}"), (f"{local}@{domain}", local))


def _ip(random: Random) -> Plant:
    if random.random() < 0.3:
        groups = [f"{random.randrange(0x1000, 0xFFFF):x}" for _ in range(6)]
        address = random.choice((f"2a02:{groups[0]}::{groups[1]}", ":".join(["2607", *groups, "1"])))
    else:
        first = random.choice((23, 34, 45, 52, 81, 93, 104, 134, 185, 203, 217))
        address = f"{first}.{random.randint(100, 250)}.{random.randint(21, 250)}.{random.randint(1, 254)}"
    text = random.choice(("ping {}", "http://{}/x", "from {} port 22", '"remote": "{}"', "{}: up", "({})"))
    if ":" in address:
        text = text.replace("http://{}/x", "http://[{}]/x")
    return Plant("ip", text.format(address), (address,))


def _phone(random: Random) -> Plant:
    area, exchange = (str(random.randint(2, 9)) + _digits(random, 2) for _ in range(2))
    line = "2" + _digits(random, 3)
    number = random.choice(
        (
            f"({area}) {exchange}-{line}",
            f"{area}-{exchange}-{line}",
            f"+1 {area} {exchange} {line}",
            f"+1-{area}-{exchange}-{line}",
            f"+44 7{_digits(random, 3)} 1{_digits(random, 5)}",
            f"+49 30 1{_digits(random, 6)}",
            f"+337{_digits(random, 8)}",
        )
    )
    text = random.choice(("call {} today", "phone: {}", '"tel": "{}"', "or {}, ask"))
    return Plant("phone", text.format(number), (number,))


def _digits(random: Random, count: int) -> str:
    return "".join(random.choice(DIGITS) for _ in range(count))


def luhn_digit(numerals: str) -> str:
    total = sum(int(d) if index % 2 else sum(divmod(2 * int(d), 10)) for index, d in enumerate(reversed(numerals)))
    return str(-total % 10)


def _card(random: Random) -> Plant:
    start, length = random.choice((("4", 16), ("51", 16), ("2304", 16), ("37", 15), ("6011", 16), ("3530", 16)))
    numerals = start + _digits(random, length - len(start) - 1)
    numerals += luhn_digit(numerals)
    gap = random.choice(("", " ", "-"))
    groups = (4, 6, 5) if length == 15 else (4, 4, 4, 4)
    parts, offset = [], 0
    for group in groups:
        parts.append(numerals[offset : offset + group])
        offset += group
    number = gap.join(parts)
    return Plant(
        "card", random.choice(("card {} exp 12/29", '"number": "{}"', "pay with {}.")).format(number), (number,)
    )


def _iban(random: Random) -> Plant:
    country, size = random.choice((("DE", 18), ("FR", 23), ("GB", 18), ("NL", 14), ("NO", 11), ("MT", 27)))
    account = _draw(random, DIGITS, size) if country in {"DE", "NO"} else _draw(random, UPPER + DIGITS, size)
    checked = int("".join(str(int(char, 36)) for char in f"{account}{country}00"))
    plain = f"{country}{98 - checked % 97:02d}{account}"
    spaced = " ".join(plain[at : at + 4] for at in range(0, len(plain), 4))
    number = random.choice((plain, spaced))
    return Plant("iban", random.choice(("IBAN: {}", '"iban": "{}"', "pay to {} now")).format(number), (number[2:],))


def _ssn(random: Random) -> Plant:
    area, group, serial = random.randint(1, 665), random.randint(1, 99), random.randint(1, 9999)
    number = f"{area:03d}-{group:02d}-{serial:04d}"
    text = random.choice(("SSN: {}", '"ssn": "{}"', "name,ssn\nAda,{}", "Social Security number is {}.", "ssn={}"))
    number = number.replace("-", "") if text == "ssn={}" else number
    return Plant("ssn", text.format(number), (number,))


def _name(random: Random) -> str:
    return (
        random.choice(LOWER) + _draw(random, LOWER, random.randint(4, 11)) + random.choice(("", "7", "_x", "-z", ".q"))
    )


def _device(random: Random) -> Plant:
    imei, mac = f"35{_digits(random, 13)}", ":".join(_draw(random, HEX, 12)[at : at + 2] for at in range(0, 12, 2))
    text, value = random.choice(
        (
            (f"IMEI: {imei}", imei),
            (f"Device ID = {imei}", imei),
            (f"link/ether 3c{mac[2:]} brd ff:ff:ff:ff:ff:ff", mac[3:]),
            (f"Physical Address: 3C{mac[2:].upper().replace(':', '-')}", mac[3:].upper().replace(":", "-")),
        )
    )
    return Plant("device", text, (value,))


def _person(random: Random) -> Plant:
    first, last = (random.choice(UPPER) + "".join(random.choices(LOWER, k=random.randint(4, 9))) for _ in range(2))
    text = random.choice(
        (
            "Author: {} <x@example.com>",
            "Signed-off-by: {} <x@example.com>",
            'git config user.name "{}"',
            "Reviewed-by: {}\n",
            '"author_name": "{}"',
            "FN:{}\n",
        )
    )
    return Plant("person", text.format(f"{first} {last}"), (first, last))


def _home(random: Random) -> Plant:
    name = _name(random)
    text = random.choice(
        (
            "cd /home/{}/src",
            "open /Users/{}/Library",
            "C:\\Users\\{}\\AppData",
            "export USER={}",
            "file:///home/{}/x.txt",
            "uid=1000({}) gid=1000({})",
        )
    )
    return Plant("home", text.format(name, name), (name,))


def _host(random: Random) -> Plant:
    name = random.choice(("ws-", "lap", "prod.", "node-")) + _draw(random, LOWER + DIGITS, random.randint(4, 9))
    text = random.choice(("root@{}:~# ls", "[root@{} src]$ pwd", "ssh deploy@{} uptime", "root@{}:/var/log$ cat x"))
    return Plant("host", text.format(name), (name,))


MAKERS: Final[dict[Kind, Callable[[Random], Plant]]] = {
    "private_key": _private_key,
    "jwt": _jwt,
    "token": _token,
    "cloud_key": _cloud_key,
    "url_password": _url_password,
    "host": _host,
    "email": _email,
    "ip": _ip,
    "iban": _iban,
    "card": _card,
    "ssn": _ssn,
    "phone": _phone,
    "device": _device,
    "person": _person,
    "home": _home,
    "header": _header,
    "assignment": _assignment_or_login,
}

FILLER: Final = "total 48\ndrwxr-xr-x 2 root root 4096 Jan  1 00:00 lib\nran 12 tests in 0.031s\n"


def plants(kind: Kind, count: int, seed: int = 7) -> list[Plant]:
    """`count` texts with secrets of one kind, always the same for a seed."""
    random = Random(f"{kind} {seed}")
    return [MAKERS[kind](random) for _ in range(count)]


def plain(text: str) -> str:
    return f"{FILLER}{text}\n{FILLER}"


def in_json(text: str) -> str:
    return json.dumps({"step": 3, "output": plain(text)})


def in_json_twice(text: str) -> str:
    return json.dumps({"arguments": in_json(text)})


def in_shell(text: str) -> str:
    return f"$ printf '%s' {shlex.quote(text)} > out\n"


def in_base64(text: str) -> str:
    return f"data:text/plain;base64,{base64.b64encode(plain(text).encode()).decode()}"


def in_wrapped_base64(text: str) -> str:
    return f"$ base64 x\n{base64.encodebytes(plain(text).encode()).decode()}$ \n"


def from_json(text: str) -> str:
    return str(json.loads(text)["output"])


def from_json_twice(text: str) -> str:
    return from_json(json.loads(text)["arguments"])


def from_shell(text: str) -> str:
    return shlex.split(text)[3]


def from_base64(text: str) -> str:
    return base64.b64decode(text.partition(",")[2]).decode()


def from_wrapped_base64(text: str) -> str:
    return base64.b64decode("".join(text.splitlines()[1:-1])).decode()


EMBEDDINGS: Final[dict[str, tuple[Callable[[str], str], Callable[[str], str]]]] = {
    "plain": (plain, str),
    "json": (in_json, from_json),
    "json twice": (in_json_twice, from_json_twice),
    "shell": (in_shell, from_shell),
    "base64": (in_base64, from_base64),
    "wrapped base64": (in_wrapped_base64, from_wrapped_base64),
}
"""Name → (how a text is embedded, how it is read again)."""
