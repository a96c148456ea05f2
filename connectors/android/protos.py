"""The two kinds of protobuf messages in Android's TFRecord files: `tf.train.Example` and the accessibility forest.

The descriptors are built from the fields' public numbers (tensorflow's `core/example/{example,feature}.proto`,
android_env's `proto/a11y/*.proto`), so no generated code has to be kept. They are in a descriptor pool of their own, so
that they do not collide with those of another library. Fields that are not used here are left out; protobuf skips them.
Protobuf is imported with the first message, since most runs read none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

from trajmill.connectors.reading.tfrecord import example_features
from trajmill.schemas import ParseError

VALUES: Final = 8 << 20
"""Largest number of values of an example. A number takes eight bytes in memory, and an empty text sixteen."""

_BYTES: Final = 1
"""Kind of a feature whose values are bytes; see `example_features`."""

_ONE_VALUE: Final = b"\n"
"""First byte of each bytes value in the serialized form."""

_KINDS: Final = ("bytes", "string", "float", "int32", "int64", "bool")
_EXAMPLE: Final = {
    "BytesList": ("1 bytes* value",),
    "FloatList": ("1 float* value",),
    "Int64List": ("1 int64* value",),
    "Feature": ("1 BytesList bytes_list", "2 FloatList float_list", "3 Int64List int64_list"),
    "Entry": ("1 string key", "2 Feature value"),
    "Features": ("1 Entry* feature",),
    "Example": ("1 Features features",),
}
"""Messages by name, with their fields. A map is serialized as a list of entries, and is read as a list."""

_FOREST: Final = {
    "Rect": ("1 int32 left", "2 int32 top", "3 int32 right", "4 int32 bottom"),
    "Node": (
        "1 int32 unique_id",
        "2 Rect bounds_in_screen",
        "3 string class_name",
        "4 string content_description",
        "5 string hint_text",
        "6 string package_name",
        "7 string text",
        "10 string view_id_resource_name",
        "11 int32 window_id",
        "12 bool is_checkable",
        "13 bool is_checked",
        "14 bool is_clickable",
        "15 bool is_editable",
        "16 bool is_enabled",
        "17 bool is_focusable",
        "18 bool is_focused",
        "19 bool is_long_clickable",
        "20 bool is_password",
        "21 bool is_scrollable",
        "22 bool is_selected",
        "23 bool is_visible_to_user",
        "25 int32* child_ids",
        "27 int32 depth",
        "30 int32 drawing_order",
        "31 string tooltip_text",
    ),
    "Tree": ("1 Node* nodes",),
    "Window": (
        "1 Rect bounds_in_screen",
        "2 int32 display_id",
        "3 int32 id",
        "4 int32 layer",
        "5 string title",
        "6 int32 window_type",
        "7 bool is_accessibility_focused",
        "8 bool is_active",
        "9 bool is_focused",
        "10 bool is_in_picture_in_picture_mode",
        "11 Tree tree",
    ),
    "Forest": ("1 Window* windows",),
}
"""`AndroidAccessibilityForest` and its parts. `window_type` is an enum there, which is serialized as an integer."""


class Messages(NamedTuple):
    """The classes of the two outermost messages."""

    Example: Any
    Forest: Any


@cache
def messages() -> Messages:
    """Return the message classes, built once per process."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="trajmill_android.proto", package="trajmill", syntax="proto3")
    for name, lines in {**_EXAMPLE, **_FOREST}.items():
        message = file.message_type.add(name=name)
        for line in lines:
            number, kind, field = line.split()
            plain = kind.rstrip("*")
            field_proto = message.field.add(name=field, number=int(number))
            field_proto.label = field_proto.LABEL_REPEATED if kind.endswith("*") else field_proto.LABEL_OPTIONAL
            if plain in _KINDS:
                field_proto.type = getattr(field_proto, f"TYPE_{plain.upper()}")
            else:
                field_proto.type, field_proto.type_name = field_proto.TYPE_MESSAGE, f".trajmill.{plain}"
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    types = [pool.FindMessageTypeByName(f"trajmill.{name}") for name in ("Example", "Forest")]
    return Messages(*(message_factory.GetMessageClass(message_type) for message_type in types))


def read_example(data: bytes, uri: str, offset: int) -> dict[str, Sequence[Any]]:
    """Return the features of a serialized `tf.train.Example` by key (bytes, floats or integers); the later wins.

    Raises:
        ParseError: `bad_record`: the record is no such message, or holds no features; `too_many_values`.
    """
    if len(data) > VALUES:
        numbers = sum(size for _, kind, size in example_features(data) if kind != _BYTES)
        if numbers > VALUES or data.count(_ONE_VALUE) > VALUES:
            raise ParseError(uri, offset, "too_many_values", f"of which {VALUES} are read at most", excerpt=data[:512])
    from google.protobuf.message import DecodeError

    try:
        example = messages().Example.FromString(data)
    except DecodeError as error:
        detail = f"wanted a tf.train.Example: {error}"
        raise ParseError(uri, offset, "bad_record", detail, excerpt=data[:512]) from None
    by_key: dict[str, Sequence[Any]] = {}
    for entry in example.features.feature:
        value = entry.value
        by_key[entry.key] = value.bytes_list.value or value.float_list.value or value.int64_list.value
    if not by_key:
        raise ParseError(uri, offset, "bad_record", "the example holds no features", excerpt=data[:512])
    return by_key


def example_of(features: Mapping[str, Sequence[str | bytes | float | int]]) -> bytes:
    """Serialize features by key, each a list of one type, as a `tf.train.Example` for `read_example`."""
    example = messages().Example()
    for key, values in features.items():
        value = example.features.feature.add(key=key).value
        if all(isinstance(item, str | bytes) for item in values):
            value.bytes_list.value.extend([item.encode() if isinstance(item, str) else item for item in values])
        elif isinstance(values[0], float):
            value.float_list.value.extend(values)
        else:
            value.int64_list.value.extend(values)
    return bytes(example.SerializeToString())


def text_of(values: Sequence[Any] | None) -> str | None:
    """Return the first value as text if it is non-empty bytes; bytes that are not UTF-8 are replaced."""
    first = values[0] if values else None
    return first.decode("utf-8", "replace") if isinstance(first, bytes) and first else None


def whole_of(values: Sequence[Any] | None) -> int | None:
    """Return the first value if it is an integer."""
    first = values[0] if values else None
    return first if isinstance(first, int) else None
