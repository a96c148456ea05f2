"""What logs attach is offered with its bytes to whoever wants it, whichever format and however it is held."""

import hashlib
from collections import Counter

from tests.conftest import ROOT
from tests.rows import blob_at
from trajmill.connectors.connector import Blob
from trajmill.connectors.reading.attached import handed_to
from trajmill.connectors.registry import connectors
from trajmill.schemas import ParseError, Reject


class Offered:
    """Keeps what it is offered."""

    def __init__(self) -> None:
        self.held: dict[str, bytes] = {}

    def take(self, sha256: str, data: bytes) -> None:
        self.held[sha256] = data

    def refer(self, sha256: str, blob: Blob, member: str) -> None:
        self.held[sha256] = blob.read(member)


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
