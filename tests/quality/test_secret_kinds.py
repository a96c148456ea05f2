"""No kind of secret that its form or its place tells stays readable, whatever its letters; what only looks so stays."""

from random import Random

import pytest

from tests.quality.secret_kinds import SecretKind, secret_kinds
from tests.tables import table
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
    table(__file__, "no_secret_kinds"),
)
def test_what_only_looks_like_a_secret_or_a_person_stays(text: str) -> None:
    assert scrub_text(text) == text


def test_an_address_of_a_device_becomes_one_that_no_maker_has() -> None:
    told = scrub_text("link/ether 3c:22:fb:9a:41:7e x\nPhysical Address: 3C-22-FB-9A-41-7E\n")
    first, second = told.split()[1], told.split()[-1]
    assert first.startswith("02:")
    assert second == first.upper().replace(":", "-")
    assert scrub_text(told, "another") == told
