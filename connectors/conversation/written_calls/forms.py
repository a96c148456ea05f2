"""Table of the forms in which agents write calls into their texts; see `form` for its columns."""

from __future__ import annotations

import re
from typing import Final

from trajmill.connectors.conversation.written_calls import actions, client_xml, python_calls, tags, tokens
from trajmill.connectors.conversation.written_calls.form import Form, mark_of

_RESPONSE: Final = re.compile(r"\s*<tool_response>\n?")
_RESPONSE_END: Final = re.compile(r"\n?</tool_response>\s*(?=<tool_response>|\Z)")
_TEMPLATE: Final = re.compile(
    r"Observation:[ \t]*\n?|(?=OBSERVATION:|(?:Exit code: -?\d+\n)?(?:EXECUTION RESULT|Execution output) of \[)"
)
"""Heads of answers; those that `harness_text` reads are only looked ahead at."""

_SHOWN: Final = re.compile(
    r"\s*(?:Observation|OBSERVATION|OS output|The output of the OS):[ \t]*\n*|The output of the OS is empty\."
)
_STEPS_LEFT: Final = re.compile(
    r"\n?You have \d+ steps left and \d+ chances? to propose solution left\.[^\n]*(?:\n[^\n]+)?\Z"
)

CLIENT_XML: Final = Form(  # Cline and Roo; the tag `use_mcp_tool` is MiroThinker's, too
    "</",
    mark_of(rf"<(?P<tool>{client_xml.TOOLS})>\s*(?=<)"),
    client_xml.read_call,
    client_xml.HEAD,
    plain=True,
)
FORMS: Final = (
    Form(  # Hermes and Qwen, Qwen3-Coder, GLM
        "<tool_call>",
        mark_of(
            r"<tool_call>(?=\s*[{\[]|\s*<function=|\n?[^\s<>{}()=]{1,200}\n?(?:<arg_key>|</tool_call>))"
            r"|^[ \t]*<tool_call>[ \t]*$"
        ),
        tags.read_tags,
        _RESPONSE,
        _RESPONSE_END,
        wrapped=True,
    ),
    Form(  # OpenHands and R2E-Gym, answered under their heads (see `harness_text`)
        "<function=",
        mark_of(r"<function=[^<>\s]{1,200}>(?=\s*<(?:parameter=|/function>))|^[ \t]*<function=[^<>\s]{1,200}>[ \t]*$"),
        tags.function,
        _TEMPLATE,
        plain=True,
    ),
    Form(  # Kimi K2
        "<|tool_call",
        mark_of(r"<\|tool_calls?_section_begin\|>|<\|tool_call_begin\|>"),
        tokens.section,
        re.compile(r"\s*## Return of (?P<id>[^\s<>|]{1,200})\n"),
    ),
    Form(  # harmony
        "<|channel|>",
        mark_of(r"(?:<\|start\|>assistant(?:[ \t]*to=[^\s<]+)?)?<\|channel\|>"),
        tokens.channels,
        re.compile(r"\s*<\|start\|>(?:functions\.)?(?P<name>[^\s<]+) to=assistant<\|channel\|>\w*<\|message\|>"),
        re.compile(r"<\|end\|>\s*(?=<\|start\|>|\Z)"),
    ),
    CLIENT_XML,
    Form(  # CodeAct and OpenDevin
        "<execute",
        mark_of(r"(?:^[ \t]*<execute(?:_\w{1,20})?>|<execute(?:_\w{1,20})?>(?=[^<\n]*</execute))"),
        actions.code,
        _SHOWN,
        tail=_STEPS_LEFT,
        plain=True,
    ),
    Form(  # Olmo
        "<function_calls>",
        mark_of(r"<function_calls>(?=\s*[\w.]+\()"),
        python_calls.read_lines,
        re.compile(r"(?=[{\[])"),
        plain=True,
    ),
    Form(  # ToolACE
        "[",
        mark_of(r"\A\s*\[\s*(?P<name>[^(\[\]{}\n]{1,200}?)\s*\("),
        python_calls.read_list,
        wrapped=True,
        declared=True,
    ),
    Form(  # ReAct, AgentInstruct, AgentTraj
        ":",
        mark_of(r"^[ \t]*(?:Action|ACTION|Act):[ \t]*\n*"),
        actions.action,
        _SHOWN,
        plain=True,
        asks=actions.asks_for_actions,
    ),
    Form(  # smolagents
        "ode",
        mark_of(r"^(?:Code:\s*\n```(?:py|python)?[ \t]*\n|<code>[ \t]*\n)"),
        actions.blob,
        _SHOWN,
        asks=actions.asks_for_code,
    ),
)
