"""The table of a growing corpus as a picture."""

import xml.etree.ElementTree as ET

import pytest

from benchmarks.growth import HEADS, STAGES
from benchmarks.growth_plot import drawn, figures

SVG = "{http://www.w3.org/2000/svg}"
ROWS = [
    ("0.10", "811", "6", "7", "8", "3", "24.0", "", "192", "336", "454", "441"),
    ("10.00", "80,110", "600", "700", "800", "300", "2400.0", "1.00", "192", "336", "1,454", "441"),
]
PAGE = "\n".join(
    [
        "Some words.",
        "",
        f"| {' | '.join(HEADS)} |",
        "|---" * len(HEADS) + "|",
        *(f"| {' | '.join(row)} |" for row in ROWS),
        "",
    ]
)


def test_the_rows_of_a_page_are_read_by_their_heads():
    small, large = figures(PAGE + "\n| another | table |\n")
    assert (small["GB"], large["inputs"], large["judge: peak MB"]) == (0.1, 80_110, 1_454)
    with pytest.raises(ValueError):
        figures("| GB |\n")


def test_what_grows_as_the_logs_do_rises_and_what_does_not_lies_flat():
    tree = ET.fromstring(drawn(figures(PAGE)))
    cpu, peak = (group.findall(f"{SVG}polyline") for group in tree.findall(f"{SVG}g"))
    assert [len(cpu), len(peak)] == [len(STAGES) + 1, len(STAGES)]

    def rises(line: ET.Element) -> float:
        (_, first), (_, last) = (point.split(",") for point in line.attrib["points"].split())
        return float(first) - float(last)

    assert all(rises(line) > 50 for line in cpu)
    assert sorted(rises(line) > 0 for line in peak) == [False, False, False, True]
