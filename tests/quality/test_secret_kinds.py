"""No kind of secret that its form or its place tells stays readable, whatever its letters; what only looks so stays."""

from __future__ import annotations

from random import Random

import pytest

from tests.quality.secret_kinds import SecretKind, secret_kinds
from trajmill.quality.scrub import scrub_text
from trajmill.quality.scrubbing.sensitive_names import is_sensitive_name

SENSITIVE = (
    b"DBPASS SSHPASS PGPASSWORD MYSQL_PWD STRIPE_KEY apiKey X-Api-Key session[password] user%5Bpassword%5D pw "
    b"client.secret secret_key_base AWS_SECRET_ACCESS_KEY AWS_ACCESS_KEY_ID DbPassword PRIVATE-TOKEN "
    b"X-Acme-Credentials JSESSIONID pin connect.sid csrf_token password2 db_password_prod X-Amz-Signature"
).split()
HARMLESS = (
    b"max_tokens total_tokens token_type next_page_token primary_key public_key foreignKey cacheKey bypass compass "
    b"author tokenizer password_reset_url keyboard passenger thought_signature hash"
).split()
OUT_OF_REACH = {"name in prose", "postal address", "reversed", "spelled out", "cluster home with a group"}


@pytest.mark.parametrize("kind", secret_kinds(), ids=lambda kind: f"{kind.family}-{kind.name}")
def test_a_planted_secret_is_readable_nowhere(kind: SecretKind) -> None:
    left = kind.left(Random(f"{kind.name} 1"))
    assert bool(left) == (kind.name in OUT_OF_REACH), left


@pytest.mark.parametrize("name", SENSITIVE)
def test_a_name_whose_last_word_is_sensitive_announces_a_secret(name: bytes) -> None:
    assert is_sensitive_name(name)


@pytest.mark.parametrize("name", HARMLESS)
def test_a_name_of_something_else_announces_none(name: bytes) -> None:
    assert not is_sensitive_name(name)


@pytest.mark.parametrize(
    "text",
    [
        "/home/node_modules/x.js /home/frontend/app /home/backend/src and node_modules, frontend",
        "update V8 to 4.4.63.30, Standards-Version updated to 4.6.0.1, v8: updated to 4.1.0.25, 3.26 to 3.31.74.1",
        '{"title": "Letters from a Lighthouse", "author": "Ruth Abel", "year": 1962}',
        "Sir Thomas Fairfax (1612-1671) was an English soldier",
        "authorization = authorization[1].encode('ascii')",
        "\n\ndef ttypager(text):",
        "convert_path('/home/to/my/stuff')",
        'MountPath "/media/apt";',
        "curl --pinnedpubkey sha256//ce118b51897f4452dc https://a.example",
        "credit_cards = ['4242', 'billing_address_of_the_customer']",
        "passengers: confirmed_reservations",
        "https://www.bank.example/-/media/lighthouse/files/museum/stem",
        "PASS: binutils-all/i386/ibt\nPASS: gas/elf/common3a\n",
        "POST /v1/whatsapp/media/get https://www.dmtc.com/media/history /media/images/x.png",
        "provided that such works are identified as 'derived from the RSA Data'",
        "can be error-prone: records of zip files may be error-prone",
        '"secret:[a-zA-Z0-9/_+=.@-]+"',
        '"key": "550e8400-e29b-41d4-a716-446655440000", "key": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822c"',
        '"KmsKeyId": "arn:aws:kms:us-east-1:123456789012:key/a12c345d-6ef7-890g-h123-456i789jk0l1"',
        '"password": "string", "token": "the token of the session", password: required, <password>mandatory</password>',
        '"result_key": "ServerlessV2PlatformVersions", "S3Key": "RHEL5export-i-fh8sjjsq.ova"',
        "-rw-r--r-- 1 root root 12 Jan  1 10:00 x\ndrwxr-xr-x 2 www-data staff 4096 Jan  1 10:00 y\n",
        "USER       PID %CPU %MEM COMMAND\nroot         1  0.0  0.1 init\nnobody      12  0.0  0.1 dnsmasq\n",
        "link/ether 02:42:ac:11:00:02 brd ff:ff:ff:ff:ff:ff loopback 00:00:00:00:00:00",
        "MD5:16:27:ac:a5:76:28:2d:36:63:1b:56:4d:eb:df:a6:48",
        "Author: The GitHub Team <noreply@github.com>\nSigned-off-by: dependabot[bot] <support@example.com>",
        "getty@tty1.service user@1000.service self.a@b.transpose po/en@quot.header",
        "mobile: 1700000000, tel: 12, call 0x1234, phone: 5550123456",
    ],
)
def test_what_only_looks_like_a_secret_or_a_person_stays(text: str) -> None:
    assert scrub_text(text) == text


def test_a_colour_and_blanks_between_name_and_value_change_nothing() -> None:
    for between in ("=\x1b[32m", "=\x1b[0m\x1b[1;32m", ":      \x1b[33m", "=            ", " \x1b[0m=\x1b[0m \x1b[32m"):
        told = scrub_text(f"$ env\nDB_PASSWORD{between}hunter2zq\x1b[0m\n")
        assert "hunter2zq" not in told
        assert told.startswith(f"$ env\nDB_PASSWORD{between}")


def test_an_address_of_a_device_becomes_one_that_no_maker_has() -> None:
    told = scrub_text("link/ether 3c:22:fb:9a:41:7e x\nPhysical Address: 3C-22-FB-9A-41-7E\n")
    first, second = told.split()[1], told.split()[-1]
    assert first.startswith("02:")
    assert second == first.upper().replace(":", "-")
    assert scrub_text(told, "another") == told
