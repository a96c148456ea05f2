"""Values that are secrets: kinds, shapes and neighbours."""

from random import Random

import pytest

from tests.failures import every
from tests.quality.planted import plants
from tests.quality.secret_kinds import secret_kinds
from tests.tables import table
from trajmill.quality.scrub import scrub_text
from trajmill.quality.scrubbing.detection import Detection
from trajmill.quality.scrubbing.kinds import KINDS, Finds, Kind
from trajmill.quality.scrubbing.sensitive_names import is_sensitive_name
from trajmill.quality.scrubbing.values import is_secret

RANDOM = b"x7Kq9Wz4Lm8Rt3Bv6Nc2Yp5"
LETTERS = b"qzxkwvjhgpbqtx"
DIGITS = b"83920174659203847561"


@pytest.mark.parametrize(
    ("value", "least", "how"),
    [
        (RANDOM, 12, {"quoted": True}),
        (RANDOM, 14, {}),
        (RANDOM, 8, {"sensitivity": "password"}),
        (LETTERS, 8, {"sensitivity": "password", "quoted": True}),
        (LETTERS, 10, {"sensitivity": "password"}),
        (RANDOM, 20, {"sensitivity": "key"}),
        (DIGITS, 16, {"quoted": True}),
    ],
)
def test_a_value_is_a_secret_from_its_shortest_length_on(value, least, how):
    assert not is_secret(value[: least - 1], **how)
    assert is_secret(value[:least], **how)


@pytest.mark.parametrize(
    ("value", "told"), [(b"123", False), (b"1234", True), (b"12345678", True), (b"123456789", False)]
)
def test_a_code_is_four_to_eight_digits_in_quotes(value, told):
    assert is_secret(value, sensitivity="code", quoted=True) is told
    assert not is_secret(value, sensitivity="code")


NEIGHBOURS = (b"word", b"x9", b"a/", b"_", b"-", b"=", b"tail: ", b"\xc3\xa4", b"\\n")


def places(finds: Finds) -> set[tuple[int, int, str]]:
    spans = {(span.start, span.end, str(span.kind)) for span in finds.spans}
    return spans | {(loose.start, loose.end, str(loose.kind)) for loose in finds.loose}


@pytest.mark.parametrize("kind", KINDS)
def test_a_secret_is_found_whatever_text_stands_beside_it(kind: Kind) -> None:
    detection = Detection.of(tuple(KINDS))
    for plant in plants(kind, 12, seed=9):
        text = plant.text.encode()
        alone = places(detection.finds(text))
        for beside in NEIGHBOURS:
            data, offsets = (
                beside + text + beside,
                [0, len(beside), len(beside) + len(text), 2 * len(beside) + len(text)],
            )
            regions = detection.regions(data, offsets).get(1, [])
            assert alone <= places(detection.finds(text, regions) if regions else Finds()), (beside, text)


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


def test_a_planted_secret_is_readable_nowhere() -> None:
    with every() as case:
        for kind in secret_kinds():
            with case(f"{kind.family}-{kind.name}"):
                left = kind.left(Random(f"{kind.name} 1"))
                assert bool(left) == (kind.name in OUT_OF_REACH), left


def test_a_name_whose_last_word_is_sensitive_announces_a_secret() -> None:
    assert [name for name in SENSITIVE if not is_sensitive_name(name)] == []
    assert [name for name in HARMLESS if is_sensitive_name(name)] == []


def test_what_only_looks_like_a_secret_or_a_person_stays() -> None:
    texts = table(__file__, "no_secret_kinds")
    assert [scrub_text(text) for text in texts] == texts


def test_an_address_of_a_device_becomes_one_that_no_maker_has() -> None:
    scrubbed = scrub_text("link/ether 3c:22:fb:9a:41:7e x\nPhysical Address: 3C-22-FB-9A-41-7E\n")
    first, second = scrubbed.split()[1], scrubbed.split()[-1]
    assert first.startswith("02:")
    assert second == first.upper().replace(":", "-")
    assert scrub_text(scrubbed, "another") == scrubbed
