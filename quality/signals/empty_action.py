"""Signal of actions without a call, a keystroke or a wait."""

from __future__ import annotations

from typing import ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trajmill.quality.fingerprint import struct_text
from trajmill.quality.signal import Measured, Numbers, Signal
from trajmill.schemas import KEYSTROKES, MESSAGE

_NO_KEYS: Final = r'^\s*\[\s*\{"keystrokes": ""\}(,\s*\{"keystrokes": ""\})*\s*\]\s*$'


def empty_actions(batch: pa.RecordBatch) -> pa.Array:
    """Return one boolean a row: true if the action is empty.

    A message to the user without a call is empty, and so are keystrokes without a key or a duration. A wait with a
    duration is an action, and `[]` declares the task complete, so neither is empty.
    """
    name, text = struct_text(batch, "action", "name"), struct_text(batch, "action", "text")
    is_name = {word: pc.equal(name.dictionary, word).take(name.indices) for word in ("", MESSAGE, KEYSTROKES)}
    blank = pc.equal(pc.utf8_trim_whitespace(text), "")
    keyless = pc.or_(blank, pc.match_substring_regex(text, _NO_KEYS))
    nothing = pc.or_(pc.and_(is_name[""], blank), pc.and_(is_name[KEYSTROKES], keyless))
    return pc.or_(nothing, is_name[MESSAGE])


class EmptyAction(Signal):
    """1 if the action is empty, else 0."""

    name: ClassVar[str] = "empty_action"
    measures: ClassVar[str] = "1: no call, no keystroke and no wait"

    def measure(self, measured: Measured) -> Numbers:
        return empty_actions(measured.batch).to_numpy(zero_copy_only=False).astype(np.float32)
