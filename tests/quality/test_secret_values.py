"""Values that a name announces: which are long and random enough to be a secret."""

import pytest

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
