"""What logs attach is offered with its bytes to whoever wants it, whichever format and however it is held."""

import hashlib
from collections import Counter

from tests.conftest import ROOT
from tests.rows import blob_at
from trajmill.connectors.connector import Blob, MemoryBlob
from trajmill.connectors.reading.attached import attachment_of_bytes, attachment_of_member, handed_to
from trajmill.connectors.registry import connectors
from trajmill.schemas import ParseError, Reject

PICTURE = b"\x89PNG a cup of tea"
DIGEST = hashlib.sha256(PICTURE).hexdigest()


class Offered:
    """Keeps what it is offered."""

    def __init__(self) -> None:
        self.held: dict[str, bytes] = {}

    def take(self, sha256: str, data: bytes) -> None:
        self.held[sha256] = data

    def refer(self, sha256: str, blob: Blob, member: str) -> None:
        self.held[sha256] = blob.read(member)


def test_bytes_of_a_log_are_offered_under_their_digest_and_an_attachment_holds_none_of_them():
    offered = Offered()
    with handed_to(offered):
        found = attachment_of_bytes(PICTURE, "image", "image/png")
    assert (found.sha256, found.role, found.media_type, found.name) == (DIGEST, "image", "image/png", None)
    assert offered.held == {DIGEST: PICTURE}


def test_a_file_of_a_log_is_offered_by_its_name():
    blob, offered = MemoryBlob("log", {"log.json": b"{}", "shot.png": PICTURE}), Offered()
    with handed_to(offered):
        names = [
            attachment_of_member(blob, "shot.png", "screenshot", None, name).name
            for name in (None, "pictures/shot.png")
        ]
    assert names == ["shot.png", "pictures/shot.png"]
    assert offered.held == {DIGEST: PICTURE}


def test_nobody_is_offered_anything_before_or_after():
    offered = Offered()
    with handed_to(offered), handed_to(None):
        attachment_of_bytes(PICTURE, "image", None)
    attachment_of_bytes(PICTURE, "image", None)
    assert offered.held == {}


def test_every_format_offers_what_its_logs_attach():
    attached: Counter[str] = Counter()
    silent: dict[str, set[str]] = {}
    for name, connector in connectors().items():
        for path in sorted((ROOT / "tests" / "fixtures" / name / "input").iterdir()):
            told, offered = set[str](), Offered()
            with handed_to(offered):
                try:
                    for found in connector.parse(blob_at(path)):
                        for step in [] if isinstance(found, Reject) else found.steps:
                            sides = [one for one in (step.observation, step.next_observation) if one is not None]
                            told |= {one.sha256 for side in sides for one in side.attachments}
                except ParseError:
                    pass
            assert all(hashlib.sha256(data).hexdigest() == digest for digest, data in offered.held.items())
            attached[name] += len(told)
            if lacking := told - offered.held.keys():
                silent[f"{name}/{path.name}"] = lacking
    assert silent == {}
    assert sum(count > 0 for count in attached.values()) >= 18
