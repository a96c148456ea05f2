"""Logs of agents in recordings of terminals."""

import io

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from trajmill.connectors.recordings.terminal_bench.agent_logs import AgentLog, Printed, agent_log, unfold

_WIDTH = 24
_WORDS = st.lists(st.text("abcdefgh.,'\"", min_size=1, max_size=40), min_size=1, max_size=12)
_HEADING = "\r\n\x1b[1;31mmini-swe-agent\x1b[0m (step \x1b[1m1\x1b[0m, \x1b[1m$0.01\x1b[0m):\x1b[0m\r\n"
_TRACEBACK = (
    "06:50:42 - LiteLLM:ERROR: logging.py:1 - Missing dependency\r\nTraceback (most recent call last):\r\n"
    '  File "proxy.py", line 1, in <module>\r\n    import backoff\r\nModuleNotFoundError: No module\r\n\r\n'
    "During handling of the above exception, another exception occurred:\r\n\r\n"
    'Traceback (most recent call last):\r\n  File "proxy.py", line 2\r\nImportError: Missing dependency\r\n'
)


@given(_WORDS.map(" ".join))
def test_a_line_that_a_console_wrapped_is_as_it_was(line: str) -> None:
    wrapped = io.StringIO()
    Console(width=_WIDTH, file=wrapped).print(line, highlight=False, markup=False)
    assert unfold(wrapped.getvalue().removesuffix("\n"), _WIDTH) == line


def test_rules_of_the_full_width_and_lines_before_a_fence_stay_lines() -> None:
    rule, command = f"==== 1 passed {'=' * (_WIDTH - 14)}", "x" * 10 + " " + "y" * (_WIDTH - 11)
    text = f"{rule}\nnext\n{'=' * _WIDTH}\nafter\n{command}\n```"
    assert unfold(text, _WIDTH) == text


def _log_of(thought: str, answer: str) -> AgentLog:
    output = f"This is mini-swe-agent version 1.7.0.\r\n{_HEADING}{thought}\r\n\x1b[1;32mUser\x1b[0m:\r\n{answer}"
    log = agent_log(Printed([(0, 0.0, output)]), 100, None)
    assert log is not None
    return log


def test_tracebacks_of_libraries_before_a_message_are_no_part_of_it() -> None:
    thought = f"⠹ Waiting for the LM to respond...{_TRACEBACK}THOUGHT: Look.\r\n\r\n```bash\r\nls\r\n```\r\n"
    answer = f"{_TRACEBACK}<returncode>0</returncode>\r\n<output>\r\nnotes.txt\r\n</output>\r\n"
    ((step,),) = _log_of(thought, answer).runs()
    assert step.action.reasoning == "THOUGHT: Look."
    assert step.next_observation is not None
    assert (step.next_observation.content, step.next_observation.origin, step.exit_code) == (
        "notes.txt",
        "environment",
        0,
    )
