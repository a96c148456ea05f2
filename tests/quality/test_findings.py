"""What scrubbing would still replace is told with its place, its kind and a digest, and nothing else is."""

import pyarrow as pa
import pytest

from trajmill.quality.scrubbing.findings import digest_of, findings

TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


def found(*texts):
    return list(findings(pa.array(texts, pa.string())))


def test_a_secret_is_told_by_its_bytes_and_kind():
    text = f"é export GITHUB={TOKEN} and more"
    (finding,) = found("nothing", None, text)
    assert (finding.text, finding.kind) == (2, "token")
    assert TOKEN.endswith(text.encode()[finding.start : finding.end].decode())


def test_equal_secrets_have_equal_digests_and_others_others():
    first, again, third = found(f"a {TOKEN}", f"b=1; {TOKEN} c", f"a {TOKEN[:-1]}z")
    assert first.digest == again.digest != third.digest
    assert first.digest == digest_of("token", f"a {TOKEN}".encode()[first.start : first.end])
    assert digest_of("token", b"x") != digest_of("email", b"x")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("write to anna.smith@acme-industries.com today", "email"),
        ("password = 'kd83hfKQ92jfh3'", "assignment"),
        ("https://anna:s3cr3tWord9@host.example.org/x", "url_password"),
    ],
)
def test_the_kind_is_that_of_the_find(text, kind):
    assert kind in {finding.kind for finding in found(text)}


def test_an_array_that_is_a_part_of_another_is_looked_at_alone():
    whole = pa.array([f"a {TOKEN}", "nothing", f"b {TOKEN}"], pa.string())
    assert [finding.text for finding in findings(whole.slice(1))] == [1]
    assert list(findings(whole.slice(1, 1))) == []
    assert list(findings(pa.array([], pa.string()))) == []
