"""What a framework says in the place of a tool or a user when an agent is to try again: Pydantic AI's words.

`1 validation error:` with the errors as JSON, or `Validation feedback:`, and `Fix the errors and try again.` at the
end: the call never reached its tool, so all of it is the harness's. Where a tool itself asked for another try, only
that last sentence is.
"""

from __future__ import annotations

import re
from typing import Final

RETRY: Final = "Fix the errors and try again."

_REFUSED: Final = re.compile(r"(?:[0-9]{1,6} validation errors?:\s*```json\s|Validation feedback:\n)")


def asks_again(text: str) -> bool:
    """Whether the text is the framework's as a whole."""
    return text.endswith(RETRY) and _REFUSED.match(text) is not None


def without_retry(text: str) -> tuple[str, tuple[str, ...]]:
    """What a tool said, and the framework's request to try again behind it."""
    if not text.endswith(f"\n\n{RETRY}") or asks_again(text):
        return text, ()
    return text.removesuffix(RETRY).rstrip("\n"), (RETRY,)
