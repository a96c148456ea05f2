"""Reasons of rejects by what they mean: the file holds nothing useful, or its bytes cannot be read."""

from __future__ import annotations

from typing import Final

NOTHING_TO_LEARN: Final = frozenset((
    "benchmark", "empty", "empty_patch", "empty_recording", "misrecognized", "no_action", "no_actions", "no_calls",
    "no_conversation", "no_entries", "no_episodes", "no_events", "no_history", "no_input", "no_lines", "no_messages",
    "no_observation", "no_output", "no_outputs", "no_pages", "no_results", "no_rows", "no_screens", "no_start",
    "no_states", "no_transitions", "not_read", "one_direction", "other_domain", "own_output", "pickle",
    "unrecorded_input",
))  # fmt: skip
"""Reasons of files that a connector could read but that hold no usable action with an answer."""

DAMAGED: Final = frozenset((
    "bad_archive", "bad_checksum", "bad_compression", "bad_json", "bomb", "encrypted", "line_too_long",
    "member_too_large", "nested_too_deeply", "not_utf8", "record_too_large", "too_large", "truncated",
    "value_too_long",
))  # fmt: skip
"""Reasons of files that cannot be read, whatever their format, since their bytes are damaged or too many."""
