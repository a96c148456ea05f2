"""Long observations, capped: head and tail stay, and a stated marker says what is left out between them.

One function for everything that a model reads or predicts: continued pre-training, fine-tuning, RL, evaluation, and
whoever serves a world model. It needs nothing but this file.
"""

from __future__ import annotations

from typing import Final

MARK: Final = "[... {:,} characters are left out here ...]"


def capped(text: str, most: int) -> str:
    """The text, of which at most `most` characters stay beside the marker, half of them at either end.

    Args:
        text: what was observed.
        most: characters that stay, at least 2. A text that is shorter, or not longer than with a marker, stays whole.
    """
    left_out = len(text) - most
    if left_out <= 0:
        return text
    mark = f"\n{MARK.format(left_out)}\n"
    if left_out <= len(mark):
        return text
    head = most - most // 2
    return f"{text[:head]}{mark}{text[len(text) - most // 2 :]}"
