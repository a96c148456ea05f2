"""What is found and what is let stand: planted secrets in every embedding, look-alikes, and the real corpora."""

from __future__ import annotations

import base64
import json
import warnings
from collections.abc import Iterator
from random import Random

import pytest

from tests.conftest import FUZZ, corpora_folder, named_files
from tests.quality.forms import drawn
from tests.quality.planted import EMBEDDINGS, FILLER, LOWER, UPPER, plants
from trajmill.quality.scrub import KINDS, Kind, scrub_text
from trajmill.quality.scrubbing.detection import Detection
from trajmill.quality.scrubbing.issuers import BY_BEGINNING, BY_MIDDLE, Form
from trajmill.quality.scrubbing.session import Session

UUID = "550e8400-e29b-41d4-a716-446655440000"

EACH = 16
"""Plants of each kind, each in every embedding."""


@pytest.mark.parametrize("kind", KINDS)
def test_every_planted_secret_is_found_in_every_embedding_and_becomes_the_same_in_each(kind: Kind) -> None:
    for plant in plants(kind, EACH):
        became = set()
        for name, (embedded, read) in EMBEDDINGS.items():
            outer = embedded(plant.text)
            told = read(scrub_text(outer, "key"))
            left = [secret for secret in plant.secrets if secret in told]
            assert not left, f"{name}: {plant.text}"
            start = read(outer).index(plant.text)
            became.add(told[start : start + len(plant.text)])
        assert len(became) == 1, became


@pytest.mark.parametrize("kind", KINDS)
def test_the_form_of_a_secret_stays(kind: Kind) -> None:
    free = {"email", "home", "host", "ip", "device"}
    for plant in plants(kind, EACH):
        told = scrub_text(plant.text, "key")
        if kind not in free and "Basic" not in plant.text:
            assert [_shape(char) for char in told] == [_shape(char) for char in plant.text]


def _shape(char: str) -> str:
    return "0" if char.isdigit() else "a" if char.islower() else "A" if char.isupper() else char


@pytest.mark.parametrize("kind", KINDS)
def test_the_scan_for_triggers_loses_nothing_of_what_finders_find(kind: Kind) -> None:
    detection = Detection.of(KINDS)
    for plant in plants(kind, EACH, seed=8):
        text = ("x " * 700 + plant.text + " y" * 700).encode()
        patches = []
        for regions in (None, [(0, len(text))]):
            session = Session(b"k" * 32)
            finds = detection.finds(text, regions)
            session.learn(text, finds)
            patches.append(session.patches(text, finds, session.occurrences_in(text)))
        assert patches[0] == patches[1] != []


def test_each_kind_is_found_when_it_alone_is_asked_for() -> None:
    together: set[Kind] = {"cloud_key", "header", "assignment"}
    for kind in set(KINDS) - together:
        for plant in plants(kind, 6, seed=9):
            told = scrub_text(plant.text, kinds=(kind,))
            assert not [secret for secret in plant.secrets if secret in told], plant.text


@pytest.mark.parametrize(
    "text",
    [
        "pip install left-pad==1.2.3.4 from 10.0.0.7, 127.0.0.1, 192.168.1.20, 169.254.1.1 and 172.17.0.2",
        "see [23.2.1.2] // 22.2.1.1 and ObjectIdentifier('2.5.29.16')",
        "Chrome/120.0.6099.109 Safari/537.36 version 4.25.99.1 v22.30.41.50",
        "listening on [::1]:8080, fe80::1, fd00::12, 2001:db8::17 and 0.0.0.0:80",
        "resolver 8.8.8.8 or 1.1.1.1; docs say 192.0.2.44, 198.51.100.7, 203.0.113.99",
        "alice@example.com bob@mail.example.org x@host.test git@github.com noreply@github.com",
        "icon@2x.png @types/node@18.11.9 user@1000.service def f(self): return a@b.T",
        "/home/user/x /home/ubuntu /Users/runner/work C:\\Users\\Public\\Desktop /home/node /home/vscode/.config",
        "https://site.io/home/latest-news/today ./home/readme GET /home/feed",
        "root@3f2a9c81d07b:/app# ls\nuser@localhost:~$ pwd\n",
        "HOSTNAME=3f2a9c81d07b Linux runsc 4.4.0 #1 SMP; Linux version 6.1.0-13 (gcc) #1; Linux Mint 21.1.0",
        '{"phone": "5550123456", "telephone": "4155550147", "mobile": 1700000000, "phones": 4158672390}',
        "2024-01-15T10:22:33.123456Z 2024:01:15 12:34:56 00:1a:2b:3c:4d:5e",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "commit 3d2a5b7c9e1f40617283940a5b6c7d8e9f001122 (HEAD -> main)",
        "id 550e8400-e29b-41d4-a716-446655440000 at 1718000000.123",
        "max_tokens=4096 total_tokens: 1234567890123 next_page_token=CAUQAA2b3c4d5e6f7 tokenizer = 'cl100k_base_2024x'",
        "password = getpass.getpass() token = request.headers['X-Token'] api_key = os.environ['API_KEY']",
        "API_KEY=your-api-key-here SECRET=${SECRET_FROM_VAULT} PASSWORD=changeme123 token: <your token>",
        '<node password="false" checkable="false" bounds="[0,0][1440,2560]"/>',
        "type: password, label: Password, placeholder: Enter your password1",
        "self.password = validated_data1 ; secret_key = generate_key2(32)",
        "AKIAIOSFODNN7EXAMPLE wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        "postgres://user:password@localhost/db http://user:${PASS}@host/ redis://:<pass>@h",
        "call 911 or 555-0123, pi is 3.14159265358979, order 4539-1488, range 100-200-3000",
        "(212) 555-0147 is in films; card 4242 4242 4242 4242 is for tests; 4539148803436468 is none",
        "diff --git a/x b/x\n@@ -12,7 +12,9 @@\n+1234567890\n+0490-0491\n",
        "-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA7x\n-----END PUBLIC KEY-----",
        "-----BEGIN PRIVATE KEY----- is how such a file begins",
        "Cookie: theme=dark; lang=en-US; tz=Europe/Berlin; consent=true",
        "Vary: Cookie, Authorization, X-Requested-With",
        "git checkout -b feature=new1234567 && ls -b color=always",
        "https://u:${PASS}@host/x?mail=alice@example.com ssh://git@github.com http://localhost:8080?user=a@example.com",
        "ssh://deployment-service-account@host http://some-long-service-name.internal@x",
        "Authorization: Bearer $TOKEN, Authorization: Bearer <token>, Authorization: Basic {credentials}",
        "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAA==",
        "aGVsbG8gd29ybGQsIHRoaXMgaXMgcGxhaW4gdGV4dCB3aXRob3V0IHNlY3JldHM=",
        "sk-learn is scikit-learn; hf_hub_download_file_from_repository; npm_config_registry_timeout_value",
        "task-augmented-execution-of-requests risk-assessment-framework-2024-edition",
        "google-chrome 120.0.6099.71, Adobe Reader 23.45.67.89, HeadlessChrome 91.102.114.120, driver 81.45.67.89",
        "numpy         1.26.4\nopencv-python 24.90.80.100\npandas        2.1.0",
        "| foo | 81.45.67.89 |\n| bar | 1.2.3 |",
        "Upgrading foo (81.45.67.89 => 82.3.44.200)\nc0 2.198.223 2.277 1.408 2.41.148.15",
        "[sudo] password for app: \r\nSorry, try again.\r\n[sudo] password for app: \r\n",
        "Password: Required\nPassword: string\nroot@db's password: Permission denied, please try again.",
        "mysql -u root -p main; git log -p main; ssh login node -p 2222; login failed -p retry; mkdir -p zip -p /x/y",
        "unzip -p file.zip member; docker run -p 8080:80 x; grep -n x src/a.c:5432:12:34",
        '{"auth": "required", "auth_type": "oauth2", "authority": "x", "author": "someone1234"}',
        "kind: ConfigMap\ndata:\n  main: c3dvcmRmaXNo\n",
        "GB82 WEST 1234 5698 7654 32, DE89370400440532013000, IT60 X054 2811 1010 0000 0123 457, AB12 3456 7890 1234",
        "SSN: 000-12-3456, 666-12-3456, 912-34-5678, 536-00-4399, 536-90-0000, 078-05-1120",
        "part 536-90-4399 of 536904399",
        'roles = ["token", "value1234567"] if token == request_id_12345678',
        "total_tokens: 1234567890123, token: 12 of 34567890, x_token_count = 123456789012345678",
    ],
)
def test_what_only_looks_like_a_secret_stays(text: str) -> None:
    assert scrub_text(text) == text


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("\x1b[?2004hcarolj@thinkpad:~/src$ ls", "carolj"),
        ("\x1b[01;32mcarolj@thinkpad\x1b[00m:\x1b[01;34m~\x1b[00m$ ", "thinkpad"),
        ("[carolj@web01 src]$ pwd", "web01"),
        ("carolj@mac-mini ~ % ls", "mac-mini"),
        ("carolj@mac-mini src % ls", "mac-mini"),
        ("PATH=/bin\nHOSTNAME=thinkpad\nTERM=xterm", "thinkpad"),
        ("Linux thinkpad 6.1.0-13-amd64 #1 SMP Debian x86_64 GNU/Linux", "thinkpad"),
        ("Darwin mac-mini.local 22.6.0 Darwin Kernel Version 22.6.0", "mac-mini"),
        ("/home/carolj/x\n$ whoami\ncarolj\n", "\ncarolj\n"),
        ('{"out": "/home/carolj/x\\ncarolj\\n"}', "\\ncarolj\\n"),
        ("$ hostname\nlap7\ncarol@lap7:~$ ", "lap7"),
        ('{"phone": "4158672390"}', "4158672390"),
        ('{"phone_number": 4158672390, "n": 1}', "4158672390"),
        ("$ ssh carolj@bastion", "bastion"),
        ("carolj@thinkpad:~$ ls -l\n-rw-r--r--  1 carolj carolj  12 Jan 1 x", " carolj "),
        ('{"path": "C:\\\\Users\\\\Carol Jones\\\\x"}', "Carol"),
        ("~/.claude/projects/-Users-carolj-src/x.jsonl", "carolj"),
        ("deploy by b%2Ex and carol%40corp.io", "carol%40corp"),
        ("https://carol:s3cr3t!pw@git.corp.io/x.git", "s3cr3t"),
        ("sshpass -p 'hunter2!' ssh root@10.0.0.4", "hunter2"),
        ("Cookie: sid=8f14e45fceea167a5a36dedd4bea2543;\n        csrf=c9f0f895fb98ab9159f51fd0297e236d", "c9f0f895"),
        ("{'Authorization': 'Bearer abcDEF123456ghiJKL789'}", "abcDEF123456"),
        ("data:\n  password: aHVudGVyMmh1bnRlcjI=", "aHVudGVyMm"),
        ("AWS_SECRET_ACCESS_KEY=/ESE2g7wdA7daGEtgu1votTgNWaYxoqoJ50NSANd", "ESE2g7"),
        ('{"user":"x","password":12345987}', "12345987"),
        (
            'Authorization: Digest username="Mufasa", nonce="dcd98b", response="6629fae49393a05397450978"',
            "6629fae4",
        ),
        ('{"a": "Authorization: Digest uri=\\"/x\\", response=\\"6629fae49393a05397450978\\"\\n"}', "6629fae49393"),
        ('Authorization: Token token="abcDEF123456ghiJKL789"', "abcDEF123456"),
        (
            'Authorization: OAuth oauth_version="1.0", oauth_signature="tR3%2BTy81lMeYAr%2FFid0kMTYa%2FWM%3D"',
            "tR3%2BTy81l",
        ),
        ("curl -b 'theme=dark; sid=8f14e45fceea167a5a36dedd' https://corp.io", "8f14e45f"),
        ("curl --cookie sid=8f14e45fceea167a5a36dedd https://corp.io", "8f14e45f"),
        ("https://oauth2:p@ss%2Fw0rd9@git.corp.io/x", "w0rd9"),
        ("https://c7ce65426f74bde94fb78c8d5f08b79affd2b49c@github.com/o/r.git", "c7ce6542"),
        (
            "https://x.blob.core.windows.net/c?sig=hcy%2F1kGD2VD%2FeR1UYzaLiA%2FzNyq3pL0sT8uVwXyZ0aA%3D",
            "R1UYzaLiA",
        ),
        ('var stripeToken string = "a8Kq2LmZ0pXw7RtY"', "a8Kq2Lm"),
        ("let token: str = 'a8Kq2LmZ0pXw7RtY'", "a8Kq2Lm"),
        ("password: tr0ub4dor7=", "tr0ub4"),
        ('$apiToken .= "a8Kq2LmZ0pXw7RtY"', "a8Kq2Lm"),
        ('API_TOKEN ?= "a8Kq2LmZ0pXw7RtY"', "a8Kq2Lm"),
        ("API_TOKEN ::= `a8Kq2LmZ0pXw7RtY`", "a8Kq2Lm"),
        ('"apiToken" => "a8Kq2LmZ0pXw7RtY"', "a8Kq2Lm"),
        ('System.setProperty("API_TOKEN", "a8Kq2LmZ0pXw7RtY")', "a8Kq2Lm"),
        ("<apiToken>\n    a8Kq2LmZ0pXw7RtY\n</apiToken>", "a8Kq2Lm"),
        ("DB_PASS=a8Kq2LmZ0p", "a8Kq2Lm"),
        (
            f"https://x.webhook.office.com/webhookb2/{UUID}@{UUID}/IncomingWebhook/8f14e45fceea167a5a36dedd4bea2543/{UUID}",
            "8f14e45fceea",
        ),
        ('"token": "s.ZC9Ecf4M5g9o34Q6RkzGsj0z"', "ZC9Ecf4M5g9"),
        ('"access_token" : "2535984003115747"', "2535984003115747"),
        ("carol@web1's password: swordfish\n", "swordfish"),
        ('{"out": "[sudo] password for app: swordfish\\r\\n"}', "swordfish"),
        ("Password for 'https://app@git.corp.io': swordfish\n", "swordfish"),
        ("redis-cli -h db -a swordfish ping", "swordfish"),
        ("curl -u :swordfish https://corp.io", "swordfish"),
        ('{"data": {"main": "c3dvcmRmaXNo"}, "kind": "Secret"}', "c3dvcmRmaXNo"),
        ("//registry.npmjs.org/:_auth=Y2Fyb2w6c3dvcmRmaXNo", "c3dvcmRmaXNo"),
        ("app:$6$rounds=5000$saltsalt$" + "aB3./" * 17 + "a:19000:0:99999:7:::", "aB3./aB3./"),
        ("range 81.45.67.1-81.45.67.99 is ours", "81.45.67.99"),
        ("web1    81.45.67.89\nweb2    81.45.67.90\n", "81.45.67.89"),
        ("https://x.blob.core.windows.net/c?sig=hcy/1kGD2VD/eR1UYzaLiA/zNyq3pL0sT8uVwXyZ0aA=&se=1", "R1UYzaLiA"),
    ],
)
def test_secrets_in_odd_places_are_found(text: str, secret: str) -> None:
    told = scrub_text(text)
    assert secret not in told
    assert len(told) == len(text)


def test_a_base64_password_still_decodes_to_what_it_is_elsewhere() -> None:
    told = scrub_text("password: aHVudGVyMmh1bnRlcjI=\n$ echo $DB\nhunter2hunter2\n")
    assert "hunter2" not in told
    assert base64.b64decode(told.split()[1]).decode() == told.split()[-1]


@pytest.mark.parametrize("secret", ["hunt3r2x", "pl41nPassw0rd", "Tr0ub4dor&3'x", "p4ss?~?~w0rd", "seventeen_b7tes_x"])
@pytest.mark.parametrize("tail", ["", "\n", ":more"])
@pytest.mark.parametrize("padded", [True, False])
def test_a_short_secret_alone_in_base64_decodes_to_what_it_is_elsewhere(secret: str, tail: str, padded: bool) -> None:
    for encode, decode in ((base64.b64encode, base64.b64decode), (base64.urlsafe_b64encode, base64.urlsafe_b64decode)):
        body = encode((secret + tail).encode()).decode()
        shown = body if padded else body.rstrip("=")
        text = f"password = {json.dumps(secret)}\n$ cat x\n{secret}\n$ base64 x\n{shown}\n"
        told = scrub_text(text)
        lines = told.splitlines()
        assert lines[2] != secret
        assert len(told) == len(text)
        assert decode(lines[4] + "=" * (-len(lines[4]) % 4)).decode() == lines[2] + tail
        assert scrub_text(told) == told


def test_claims_of_a_token_are_scrubbed_like_any_text_and_its_header_stays() -> None:
    claims = base64.urlsafe_b64encode(b'{"email":"carol@corp.io","n":"1"}').rstrip(b"=").decode()
    token = f"eyJhbGciOiJIUzI1NiJ9.{claims}.SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c"
    told = scrub_text(f"carol@corp.io has {token}")
    mail, _, jwt = told.split()
    header, fresh, signature = jwt.split(".")
    assert header == "eyJhbGciOiJIUzI1NiJ9"
    assert json.loads(base64.urlsafe_b64decode(fresh + "=="))["email"] == mail
    assert signature != "SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c"


def test_hostile_texts_are_scrubbed_in_linear_time() -> None:
    texts = [
        "a@b.c " * 6000,
        'password="' + '\\"' * 6000,
        "cookie=x\n  " * 3000,
        "-----BEGIN PRIVATE KEY-----" * 3000,
        "eyJ" + "a" * 60000,
        "QUFB" * 15000,
        "\n".join(["QUFB" * 19] * 2000),
        "://a:b" * 9000,
        "/home/" * 9000,
        "1.1.1.1." * 6000,
        "token=" * 6000,
        "authorization=" * 6000,
        "eyJaaaaaaaa" * 6000,
        "eyJaaaaaaaa.ey" * 6000,
    ]
    for text in texts:
        assert len(scrub_text(text).encode()) == len(text.encode())


MOST = 1 << 18 if FUZZ == 1 else 1 << 30
"""Characters of a real log that are read: one that is longer goes on as it begins, and is read whole in `make fuzz`."""


def _corpus() -> Iterator[tuple[str, str]]:
    root = corpora_folder()
    if root is None:
        warnings.warn("the corpora are not here: no file was read", stacklevel=2)
        return
    for path in (root / name for name in named_files()):
        try:
            text = path.read_bytes().decode()
        except UnicodeDecodeError:
            continue
        yield path.name, text[:MOST]


@pytest.mark.corpus
def test_real_logs_are_scrubbed_once_and_for_all() -> None:
    for name, text in _corpus():
        told = scrub_text(text, name)
        assert len(told.encode()) == len(text.encode()), name
        assert scrub_text(told, name) == told, name
        if name.endswith((".json", ".har", ".traj")) and _is_json(text):
            json.loads(told)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


@pytest.mark.corpus
def test_secrets_of_real_logs_are_few() -> None:
    """By eye, each of them was one (cookies, tokens in chats); a new rule that hits prose or code shows here."""
    read, found = 0, 0
    secrets: tuple[Kind, ...] = ("assignment", "token", "cloud_key", "private_key", "jwt", "url_password", "card")
    for name, text in _corpus():
        read += len(text)
        told = scrub_text(text, name, secrets)
        found += sum(old != new for old, new in zip(text.splitlines(), told.splitlines(), strict=True))
    assert found <= max(1, read / 1e6)


@pytest.mark.parametrize(
    ("beginning", "length", "letters"),
    [
        ("hf_", 34, LOWER + UPPER),
        ("hf_", 34, LOWER),
        ("AKIA", 16, UPPER),
        ("AIza", 35, LOWER + UPPER),
        ("ghp_", 36, LOWER + UPPER),
        ("glpat-", 20, LOWER + UPPER),
        ("sk_live_", 24, LOWER + UPPER),
        ("rk_test_", 24, LOWER + UPPER),
        ("sk-", 48, LOWER + UPPER),
        ("sk-proj-", 48, LOWER + UPPER),
        ("npm_", 36, LOWER + UPPER),
        ("dapi", 32, "abcdef"),
        ("key-", 32, "abcdef"),
        ("secret_", 43, LOWER + UPPER),
        ("ntn_", 46, LOWER + UPPER),
        ("gsk_", 52, LOWER + UPPER),
        ("shpat_", 32, "abcdef"),
        ("dop_v1_", 64, "abcdef"),
        ("SG.", 66, LOWER + UPPER),
    ],
)
def test_an_issued_beginning_decides_by_its_form_alone(beginning: str, length: int, letters: str) -> None:
    random = Random(f"{beginning} {letters}")
    secrets = ["".join(random.choices(letters, k=length)) for _ in range(100)]
    told = scrub_text("".join(f"x = {beginning}{secret}\n" for secret in secrets))
    assert not [secret for secret in secrets if secret in told]


@pytest.mark.parametrize("form", [*BY_BEGINNING, *(form for _, _, form in BY_MIDDLE)], ids=lambda form: form.stays)
def test_what_is_of_an_issued_form_is_found_among_other_text(form: Form) -> None:
    random = Random(form.stays + form.secret)
    secrets, text = [], FILLER * 9
    for _ in range(20):
        secrets.append(drawn(form.secret, random).decode())
        text += f"x = '{drawn(form.stays, random, 8).decode()}{secrets[-1]}'\n{FILLER * 9}"
    told = scrub_text(text, kinds=("token", "cloud_key"))
    assert not [secret for secret in secrets if secret in told]
    assert scrub_text(told, kinds=("token", "cloud_key")) == told


def test_each_of_several_numbers_is_found_behind_its_own_words() -> None:
    text = '{"text": "ssn=240083097", "copy": {"r": "ssn=240083097"}, "other": "ssn 536221457"}'
    told = scrub_text(text)
    assert "240083097" not in told
    assert "536221457" not in told
    assert scrub_text("ssn of whoever asked, 240083097, 536221457").endswith("240083097, 536221457")
