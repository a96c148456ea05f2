"""What secrets become: reserved, fictional or self-certifying, and of the same form."""

import ipaddress
import string
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from tests.quality.planted import luhn_digit
from trajmill.quality.scrubbing.placeholders import (
    body,
    card,
    domain,
    email,
    ip,
    is_card_placeholder,
    is_certified,
    luhn,
    phone,
    user,
)

KEY = b"k" * 32
_SECRET = st.text(string.ascii_letters + string.digits + "-_+/.!@ é漢😀", min_size=8, max_size=90)


@given(_SECRET)
def test_a_placeholder_certifies_itself_and_is_its_own_placeholder(secret: str) -> None:
    raw = secret.encode()
    fresh = body(raw, KEY)
    assert len(fresh) == len(raw)
    assert [c for c in fresh.decode() if not c.isalnum() and c < "\x80"] == [
        c for c in secret if not c.isalnum() and c < "\x80"
    ]
    assert body(fresh, KEY) == fresh == body(fresh, b"another key of some length")


@given(st.text("0123456789abcdef", min_size=32, max_size=32))
def test_a_hexadecimal_secret_stays_hexadecimal(secret: str) -> None:
    assert set(body(secret.encode(), KEY).decode()) <= set("0123456789abcdef")


def test_a_number_does_not_begin_with_zero_afterwards() -> None:
    assert all(body(str(n).encode(), KEY)[:1] != b"0" for n in range(10_000_000, 10_000_300))


@given(st.ip_addresses(v=4).map(str))
def test_an_address_becomes_a_reserved_one_of_the_same_length(text: str) -> None:
    fresh = ip(text.encode(), KEY).decode()
    assert len(fresh) == len(text)
    assert not ipaddress.ip_address(fresh).is_global


@given(st.ip_addresses(v=6, network="2000::/3"), st.booleans(), st.booleans())
def test_a_long_address_becomes_a_documentation_one_in_the_same_form(
    address: ipaddress.IPv6Address, exploded: bool, upper: bool
) -> None:
    text = address.exploded if exploded else str(address)
    text = text.upper() if upper else text
    fresh = ip(text.encode(), KEY).decode()
    assert len(fresh) == len(text)
    assert ipaddress.ip_address(fresh) in ipaddress.ip_network("3fff::/20")
    assert ipaddress.ip_address(fresh) == ipaddress.ip_address(ip(str(address).encode(), KEY).decode())


@given(st.from_regex(r"[a-z0-9]{1,20}@[a-z]{1,20}\.(?:com|io|co\.uk)", fullmatch=True))
def test_an_email_address_becomes_one_that_nobody_has(text: str) -> None:
    fresh = email(text.encode(), KEY).decode()
    assert len(fresh) == len(text)
    local, _, rest = fresh.partition("@")
    assert local[0] == "u"
    assert rest.endswith((".example.com", ".example", ".test", ".zz"))


def test_equal_parts_of_email_addresses_stay_equal() -> None:
    first, two, three = (email(text, KEY) for text in (b"carol@corp.io", b"Carol@CORP.io", b"dave@corp.io"))
    assert first == two
    assert first.split(b"@")[1] == three.split(b"@")[1] == domain(b"corp.io", KEY)
    assert first.split(b"@")[0] == user(b"carol", KEY)


def test_a_long_secret_takes_time_in_proportion_and_its_placeholder_certifies_itself() -> None:
    letters = "".join(Random(3).choices(string.ascii_letters + string.digits, k=1 << 18))
    for size in (1 << 15, 1 << 18):
        raw = letters[:size].encode()
        fresh = body(raw, KEY)
        assert len(fresh) == size
        assert fresh != raw
        assert is_certified(fresh.decode())
        assert body(fresh, b"another key") == fresh


def test_phone_numbers_become_fictional_and_keep_their_separators() -> None:
    fresh = phone(b"+1 (415) 867-5309", KEY).decode()
    assert fresh[:4] == "+1 ("
    assert fresh[7:15] == ") 555-01"
    assert (
        phone(b"415.867.5309", KEY).decode()[-9:-2] == "555.01"[-7:] or phone(b"415.867.5309", KEY)[4:10] == b"555.01"
    )
    assert phone(b"+44 7911 123456", KEY).startswith(b"+44 00")


@given(st.sampled_from(["4", "51", "2304", "37", "6011"]), st.integers(0, 10**12 - 1))
def test_a_card_number_fails_the_check_afterwards(start: str, number: int) -> None:
    length = 14 if start == "37" else 15
    numerals = (start + f"{number:012d}")[:length].ljust(length, "7")
    numerals += luhn_digit(numerals)
    assert luhn(numerals)
    fresh = card(numerals.encode(), KEY).decode()
    assert len(fresh) == len(numerals)
    assert fresh.startswith(start)
    assert not luhn(fresh)
    assert is_card_placeholder(fresh)
