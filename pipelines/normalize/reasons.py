"""Reasons of rejects by what they say of the file: nothing is wanted of it, or its bytes cannot be read."""

from __future__ import annotations

from typing import Final

NOTHING_TO_LEARN: Final = frozenset(
    (
        "benchmark",
        "empty",
        "empty_patch",
        "empty_recording",
        "misrecognized",
        "no_action",
        "no_actions",
        "no_calls",
        "no_conversation",
        "no_entries",
        "no_episodes",
        "no_events",
        "no_history",
        "no_input",
        "no_lines",
        "no_messages",
        "no_observation",
        "no_output",
        "no_outputs",
        "no_pages",
        "no_results",
        "no_rows",
        "no_screens",
        "no_start",
        "no_states",
        "no_transitions",
        "not_read",
        "one_direction",
        "other_domain",
        "own_output",
        "pickle",
        "unrecorded_input",
    )
)
"""Reasons of what a connector could read, and that holds no action with an answer, or none that is wanted."""

DAMAGED: Final = frozenset(
    (
        "bad_archive",
        "bad_checksum",
        "bad_compression",
        "bad_json",
        "bomb",
        "encrypted",
        "line_too_long",
        "member_too_large",
        "nested_too_deeply",
        "not_utf8",
        "record_too_large",
        "too_large",
        "truncated",
        "value_too_long",
    )
)
"""Reasons of what could not be read whatever its format, as its bytes are damaged or too many."""
