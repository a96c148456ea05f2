"""ttyrecs: how records are told from other bytes, and what clocks, sizes and channels do."""

import struct

from trajmill.connectors.recordings.ttyrec import Ttyrec

CONNECTOR = Ttyrec()
BEGAN = 1_900_000_000


def record(seconds: float, data: bytes | str, channel: int | None = None) -> bytes:
    content = data.encode() if isinstance(data, str) else data
    head = struct.pack("<III", BEGAN + int(seconds), round((seconds % 1) * 1e6), len(content))
    return head + (b"" if channel is None else bytes([channel])) + content


SESSION = (
    record(0, "\x1b[?2004h$ ")
    + record(1, "pwd\r\n\x1b[?2004l\r")
    + record(1.5, "/home\r\n\x1b[?2004h$ ")
    + record(4, "true\r\n\x1b[?2004l\r")
    + record(4, "\x1b[?2004h$ ")
)


def test_a_file_without_the_name_is_taken_only_for_dated_records_that_come_out_even():
    assert CONNECTOR.sniff(SESSION, "log.bin") is not None
    assert CONNECTOR.sniff(bytes(600), "zeros.bin") is None
    assert CONNECTOR.sniff(b"<html>" * 50, "page") is None
    assert CONNECTOR.sniff(record(0, "once"), "log.bin") is None
