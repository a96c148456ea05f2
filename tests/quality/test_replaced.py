"""Placeholders are found again in scrubbed texts, and nowhere else."""

import json
import random
import string

import pytest

from trajmill.quality.scrub import scrub_text
from trajmill.quality.scrubbing.replaced import placeholder_spans

LETTERS = string.ascii_letters + string.digits


def drawn(size: int, seed: int, letters: str = LETTERS) -> str:
    return "".join(random.Random(seed).choices(letters, k=size))


TEXTS = {
    "json": lambda secret: json.dumps({"password": secret}),
    "environment": lambda secret: f"API_TOKEN={secret}\nHOME=/",
    "header": lambda secret: f"Authorization: Bearer {secret}",
    "token": lambda secret: f"cloned with ghp_{secret[:36]} from there",
    "key id": lambda secret: f"aws_access_key_id = AKIA{secret[:16].upper()}",
    "two letters before it": lambda secret: f"sid=SK{secret.encode().hex()[:32]}",
    "url": lambda secret: f"postgres://lamp:{secret}@db/beds",
}


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("seed", range(4))
def test_what_scrubbing_put_into_a_text_is_found_to_the_letter(name, seed):
    text = TEXTS[name](drawn(36, seed))
    clean = scrub_text(text)
    assert clean != text
    changed = [number for number, (before, after) in enumerate(zip(text, clean, strict=True)) if before != after]
    spans = placeholder_spans(clean)
    assert len(spans) == 1
    assert spans[0][0] <= changed[0]
    assert changed[-1] < spans[0][1]
    assert spans[0][1] - spans[0][0] <= 36
    assert placeholder_spans(text) == []


@pytest.mark.parametrize("before", ["lamp-", "lamp-post_", "--lamp/post.of=", "a.b.c.d.e.f.g.h.i.j.k-"])
def test_a_placeholder_is_found_behind_up_to_eleven_other_parts_of_its_word(before):
    placeholder = json.loads(scrub_text(json.dumps({"password": drawn(36, 1)})))["password"]
    assert placeholder_spans(before + placeholder) == [(len(before), len(before) + 36)]
    assert placeholder_spans("a.b.c.d.e.f.g.h.i.j.k.l-" + placeholder) == []


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("/home/jonathan/lamp", "/home/{}/lamp"),
        ("by anna.schmidt@gardens.org", "by {}"),
        ("from 203.119.114.214 now", "from {} now"),
    ],
)
def test_names_and_addresses_of_nobody_are_found(text, kept):
    clean = scrub_text(text)
    [(begin, end)] = placeholder_spans(clean)
    assert clean != text
    assert f"{clean[:begin]}{{}}{clean[end:]}" == kept


def test_ordinary_text_holds_none():
    words = ["user guide", "host.py", "deadbeef" * 5, "00000000", "11111111-2222", "192.168.0.1", "src/lamp/user1.py"]
    words += [drawn(size, seed) for size in (8, 20, 64) for seed in range(300)]
    assert placeholder_spans(" ".join(words)) == []
