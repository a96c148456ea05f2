"""Helpers of the tests of Android's TFRecord files: examples and accessibility forests from plain values."""

from typing import Any

from trajmill.connectors.android.protos import example_of, messages
from trajmill.connectors.reading.tfrecord import frame_record

PNG = b"\x89PNG\r\n\x1a\n"


def example(**features: Any) -> bytes:
    """A serialized `tf.train.Example`; `__` in a key is `/`, texts are bytes, a single value is a list of one."""
    return example_of(
        {key.replace("__", "/"): value if isinstance(value, list) else [value] for key, value in features.items()}
    )


def tfrecord(*records: bytes) -> bytes:
    """A TFRecord file of the records."""
    return b"".join(frame_record(record) for record in records)


def forest(*windows: dict[str, Any]) -> bytes:
    """A serialized forest. A window is its fields and `views`; a view is its fields, `box` and `children` by place."""
    message = messages().Forest()
    for fields in windows:
        window = message.windows.add()
        fill(window, fields)
        for index, view in enumerate(fields.get("views", [])):
            node = window.tree.nodes.add(unique_id=index, is_visible_to_user=True, is_enabled=True)
            fill(node, view)
            node.child_ids.extend(view.get("children", []))
    return bytes(message.SerializeToString())


def fill(message: Any, fields: dict[str, Any]) -> None:
    """Sets the fields that are told; `box` is left, top, right, bottom."""
    for key, value in fields.items():
        if key == "box":
            for side, number in zip(("left", "top", "right", "bottom"), value, strict=True):
                setattr(message.bounds_in_screen, side, number)
        elif key not in ("views", "children"):
            setattr(message, key, value)


FRAME = {"class_name": "android.widget.FrameLayout", "package_name": "org.example", "box": (0, 0, 100, 200)}
BUTTON = {"class_name": "android.widget.Button", "is_clickable": True, "is_focusable": True}


def screen(*views: dict[str, Any], **window: Any) -> bytes:
    """A forest of one focused app window with those views under its root."""
    root = {**FRAME, "children": list(range(1, len(views) + 1))}
    fields = {"window_type": 1, "is_focused": True, "is_active": True, "box": (0, 0, 100, 200), **window}
    return forest({**fields, "views": [root, *views]})
