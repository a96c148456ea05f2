"""Names that `schemas` exports besides its errors."""

from trajmill.schemas.action import (
    COMPLETE,
    KEYSTROKES,
    MESSAGE,
    WAIT,
    Action,
    call_text,
    call_text_of,
    json_text,
    keystrokes,
    keystrokes_text,
    sampled_text,
)
from trajmill.schemas.assembler import Assembler
from trajmill.schemas.observation import Attachment, Observation
from trajmill.schemas.reject import REJECT_SCHEMA, Reject, reject_table
from trajmill.schemas.scan import scan_transitions
from trajmill.schemas.spool import Pile, Shelf, Spool, Steps
from trajmill.schemas.trajectory import Agent, Context, Environment, Origin, Outcome, Step, Task, Trajectory
from trajmill.schemas.transition import SCHEMA_VERSION, TRANSITION_SCHEMA, json_schema
from trajmill.schemas.verdict import USES, verdict_schema

__all__ = [
    "COMPLETE",
    "KEYSTROKES",
    "MESSAGE",
    "REJECT_SCHEMA",
    "SCHEMA_VERSION",
    "TRANSITION_SCHEMA",
    "USES",
    "WAIT",
    "Action",
    "Agent",
    "Assembler",
    "Attachment",
    "Context",
    "Environment",
    "Observation",
    "Origin",
    "Outcome",
    "Pile",
    "Reject",
    "Shelf",
    "Spool",
    "Step",
    "Steps",
    "Task",
    "Trajectory",
    "call_text",
    "call_text_of",
    "json_schema",
    "json_text",
    "keystrokes",
    "keystrokes_text",
    "reject_table",
    "sampled_text",
    "scan_transitions",
    "verdict_schema",
]
