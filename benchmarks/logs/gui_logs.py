"""Logs of agents on screens, of the sizes that real ones have; see `screen_logs`, whose formats show screens alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from benchmarks.logs.android import View, views
from benchmarks.logs.text import Text
from samples.writing.json_text import document, lines

_APP: Final = "org.example.news"
_SHARED: Final = 15
"""Views in a hundred that are another on the next screen."""


def agentnet(text: Text, limit: int) -> Mapping[str, bytes]:
    """Tasks of twelve clicks, a line each, with what annotators' models wrote of each."""
    rows: list[bytes] = []
    size = 0
    while size < limit:
        steps: list[dict[str, Any]] = [
            {
                "index": number,
                "image": f"{text.hex(32)}.png",
                "value": {
                    "code": f"pyautogui.click(x=0.{100 + text.below(800)}, y=0.{100 + text.below(800)})",
                    "observation": text.phrase(60, 140),
                    "thought": text.phrase(50, 150),
                    "action": text.phrase(6, 20),
                    "last_step_correct": True,
                    "last_step_redundant": False,
                    "reflection": text.phrase(40, 90),
                },
            }
            for number in range(12)
        ]
        steps[-1]["value"] |= {"code": "computer.terminate(status='success')"}
        fields = {"task_id": f"{len(rows)}", "instruction": text.phrase(8, 30), "task_completed": True}
        fields |= {"alignment_score": 9, "efficiency_score": 8, "task_difficulty": 3, "natural_language_task": "Do it."}
        rows.append(lines([{**fields, "actual_task": "It was done.", "traj": steps}]))
        size += len(rows[-1])
    return {"": b"".join(rows)}


def ufo(text: Text, limit: int) -> Mapping[str, bytes]:
    """A task with a window of some 120 controls before each step, of which some change."""
    members: dict[str, bytes] = {}
    steps: list[dict[str, Any]] = []
    names = [text.phrase(1, 4) for _ in range(120)]
    size = 0
    while size < limit:
        number = len(steps) + 1
        names = [text.phrase(1, 4) if text.below(100) < _SHARED else name for name in names]
        controls = [_control(index + 1, 1, name, []) for index, name in enumerate(names)]
        members[f"ui_tree/step_{number}.json"] = document(_control(0, 0, "Notes", controls), None)
        size += len(members[f"ui_tree/step_{number}.json"])
        chosen = {"function": "click_input", "args": {"button": "left", "double": False}}
        aimed = {"control_label": str(1 + text.below(100)), "control_text": text.phrase(1, 3)}
        steps.append(
            {
                "observation": text.phrase(30, 80),
                "thought": text.phrase(30, 80),
                "status": "CONTINUE",
                "plan": [text.phrase(4, 9) for _ in range(3)],
                "comment": text.phrase(5, 20),
                "step": number,
                "round_step": number,
                "agent_step": number,
                "round_num": 0,
                "subtask": "Write it",
                "action": [{**chosen, **aimed}],
                "action_type": ["UIControl"],
                "request": "Write and save.",
                "agent_type": "AppAgent",
                "agent_name": "AppAgent/NOTES.EXE",
                "application": "NOTES.EXE",
                "cost": 0.02,
                "result": "",
            }
        )
    return {**members, "response.log": lines(steps)}


def _control(number: int, level: int, name: str, children: list[dict[str, Any]]) -> dict[str, Any]:
    top = 30 + 20 * number
    share = {"left": 0.0, "top": 0.02, "right": 0.4, "bottom": 0.04}
    return {
        "id": f"node_{number}",
        "name": name,
        "control_type": ("Button", "Text", "Edit", "ListItem")[number % 4] if level else "Window",
        "rectangle": {"left": 100, "top": top, "right": 500, "bottom": top + 18},
        "adjusted_rectangle": {"left": 0, "top": top, "right": 400, "bottom": top + 18},
        "relative_rectangle": share,
        "level": level,
        "children": children,
    }


def aitz(text: Text, limit: int) -> Mapping[str, bytes]:
    """An episode of taps, with some 40 texts on each screen and what a model wrote of it."""
    steps: list[dict[str, Any]] = []
    size = 0
    while size < limit:
        boxes = [[20 + 50 * index, 40, 40, 30 + text.below(900)] for index in range(40)]
        touched = f"[0.{100 + text.below(800)}, 0.{100 + text.below(800)}]"
        steps.append(
            {
                "episode_id": "523638528775825151",
                "episode_length": 0,
                "step_id": len(steps),
                "instruction": "Open the news and read the first article.",
                "ui_positions": json.dumps(boxes),
                "ui_text": json.dumps([text.phrase(1, 3) for _ in boxes]),
                "ui_types": json.dumps(["TEXT" for _ in boxes]),
                "result_action_type": 4,
                "result_action_text": "",
                "result_touch_yx": touched,
                "result_lift_yx": touched,
                "image_path": f"general/GENERAL-1/GENERAL-1_{len(steps)}.png",
                "coat_screen_desc": text.phrase(40, 90),
                "coat_action_think": text.phrase(30, 70),
                "coat_action_desc": text.phrase(5, 12),
                "coat_action_result": text.phrase(10, 30),
            }
        )
        size += len(json.dumps(steps[-1]))
    for step in steps:
        step["episode_length"] = len(steps)
    return {"": document(steps, 4)}


def android_world(text: Text, limit: int) -> Mapping[str, bytes]:
    """An episode of clicks, with the elements of some 40 views before and after each."""
    befores: list[Any] = []
    outputs: list[str] = []
    size = 0
    after = _elements(views(text, _APP, 40))
    afters: list[Any] = []
    while size < limit:
        befores.append(after)
        after = _elements(views(text, _APP, 40))
        afters.append(after)
        click = json.dumps({"action_type": "click", "index": text.below(20)})
        outputs.append(f"Reason: {text.phrase(20, 60)}\nAction: {click}")
        size += 2 * len(json.dumps(after))
    columns = {"before_element_list": befores, "after_element_list": afters, "action_output": outputs}
    columns |= {"summary": [text.phrase(10, 40) for _ in outputs], "step_number": list(range(len(outputs)))}
    known = {"goal": "Read the news.", "task_template": "NewsRead", "instance_id": 0, "is_successful": 1.0}
    return {
        "": document([{**known, "agent_name": "t3a", "episode_length": len(outputs), "episode_data": columns}], None)
    }


def _elements(screen: list[View]) -> list[dict[str, Any]]:
    """The views as the elements that a text agent is shown."""
    flags = ("checked", "checkable", "editable", "focused", "focusable", "long_clickable", "scrollable", "selected")
    return [
        {
            "text": view.text,
            "content_description": view.description or None,
            "class_name": f"android.{view.kind}",
            "bbox": None,
            "bbox_pixels": dict(zip(("x_min", "y_min", "x_max", "y_max"), view.box, strict=True)),
            "hint_text": None,
            **{f"is_{flag}": False for flag in flags},
            "is_clickable": view.clickable,
            "is_enabled": True,
            "is_visible": True,
            "package_name": _APP,
            "resource_name": view.identifier or None,
            "tooltip": None,
            "resource_id": None,
            "metadata": None,
        }
        for view in screen
    ]
