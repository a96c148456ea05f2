"""What a text holds is found whatever text lies before or behind it in the same buffer."""

import pytest

from tests.quality.planted import plants
from trajmill.quality.scrubbing.detection import Detection
from trajmill.quality.scrubbing.kinds import KINDS, Finds, Kind

NEIGHBOURS = (b"word", b"x9", b"a/", b"_", b"-", b"=", b"tail: ", b"\xc3\xa4", b"\\n")


def places(finds: Finds) -> set[tuple[int, int, str]]:
    spans = {(span.start, span.end, str(span.kind)) for span in finds.spans}
    return spans | {(loose.start, loose.end, str(loose.kind)) for loose in finds.loose}


@pytest.mark.parametrize("kind", KINDS)
def test_a_secret_is_found_whatever_text_stands_beside_it(kind: Kind) -> None:
    detection = Detection.of(tuple(KINDS))
    for plant in plants(kind, 24, seed=9):
        text = plant.text.encode()
        alone = places(detection.finds(text))
        for beside in NEIGHBOURS:
            data, offsets = (
                beside + text + beside,
                [0, len(beside), len(beside) + len(text), 2 * len(beside) + len(text)],
            )
            regions = detection.regions(data, offsets).get(1, [])
            assert alone <= places(detection.finds(text, regions) if regions else Finds()), (beside, text)
