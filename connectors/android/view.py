"""Android views as nodes of the compact tree: their roles, labels and states, and whether they get a line.

Shared by the readers of uiautomator dumps and of DroidBot states, so that one screen has the same text in both. This
module does not read files.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Final, TypeAlias

from trajmill.connectors.screens.element_ids import is_lasting
from trajmill.connectors.screens.tree import DIALECT, Box, Node, Tree, has_area
from trajmill.schemas import Attachment, Observation, Trajectory
from trajmill.schemas.record import record
from trajmill.schemas.trajectory import without_surrogates

Element: TypeAlias = str | dict[str, Any]
"""A node as actions name it."""

FLAGS: Final = (
    "checkable",
    "checked",
    "clickable",
    "enabled",
    "focusable",
    "focused",
    "scrollable",
    "long-clickable",
    "password",
    "selected",
    "editable",
    "visible-to-user",
)
"""The boolean attributes of a view, in the order of the argument of `states_of`."""

_ENABLED: Final = FLAGS.index("enabled")
_VISIBLE: Final = FLAGS.index("visible-to-user")

_ROLES: Final = {
    "View": "group",
    "ViewGroup": "group",
    "SearchAutoComplete": "textbox",
    "Switch": "switch",
    "SwitchCompat": "switch",
    "SwitchMaterial": "switch",
    "SwitchWidget": "switch",
    "ToggleButton": "switch",
    "RadioButton": "radio",
    "CheckBox": "checkbox",
    "RecyclerView": "list",
    "ListView": "list",
    "ExpandableListView": "list",
    "GridView": "grid",
    "Spinner": "combobox",
    "SeekBar": "slider",
    "ViewPager2": "pager",
    "CardView": "group",
    "MaterialCardView": "group",
    "LinearLayoutCompat": "group",
    "TableRow": "group",
    "ViewAnimator": "group",
    "ViewFlipper": "group",
    "ViewSwitcher": "group",
}
_ROLE_ENDS: Final = (
    ("EditText", "textbox"),
    ("AutoCompleteTextView", "textbox"),
    ("ImageButton", "button"),
    ("RadioButton", "radio"),
    ("Button", "button"),
    ("ImageView", "image"),
    ("TextView", "text"),
    ("CheckBox", "checkbox"),
    ("RecyclerView", "list"),
    ("ProgressBar", "progressbar"),
    ("ScrollView", "scrollview"),
    ("WebView", "webview"),
    ("ViewPager", "pager"),
    ("Layout", "group"),
    ("ViewGroup", "group"),
)
_NOT_ROLE: Final = re.compile(r"[^a-z0-9_.-]+")
_PLAIN: Final = frozenset({"disabled"})
"""A container without text and with no state but these gets no line."""


@lru_cache(maxsize=4096)
def role_of(kind: str) -> str:
    """Return the role of a view class, such as `button` for `android.widget.Button`; `group` for layout classes.

    A class without a role of its own keeps its short name in lower case.
    """
    short = re.split(r"[.$]", kind)[-1]
    if short in _ROLES:
        return _ROLES[short]
    for end, role in _ROLE_ENDS:
        if short.endswith(end):
            return role
    return _NOT_ROLE.sub("_", short.lower())[:64].strip("_") or "view"


def flags_of(view: Mapping[str, Any], names: Sequence[str]) -> tuple[bool, ...]:
    """Read each of `FLAGS` (True if it is `true`) of a view in JSON under these names, in their order.

    A view is enabled and visible by default.
    """
    flags = list(map(view.get, names))
    if flags[_ENABLED] is None:
        flags[_ENABLED] = True
    if flags[_VISIBLE] is None:
        flags[_VISIBLE] = True
    return tuple([value is True for value in flags])


@cache
def states_of(flags: tuple[bool, ...]) -> tuple[str, ...]:
    """Return the states of a view from its `FLAGS`.

    `unchecked` is stated for a checkable view that is not checked. `focusable` is stated only if the view is not
    clickable, since nearly all clickable views are focusable too.
    """
    checkable, checked, clickable, enabled, focusable, focused, scrollable, long_click, password, selected = flags[:10]
    pairs = (
        ("clickable", clickable),
        ("long_clickable", long_click),
        ("scrollable", scrollable),
        ("editable", flags[10]),
        ("focusable", focusable and not clickable),
        ("focused", focused),
        ("checked", checked),
        ("unchecked", checkable and not checked),
        ("selected", selected),
        ("password", password),
        ("disabled", not enabled),
    )
    return tuple(word for word, is_set in pairs if is_set)


@lru_cache(maxsize=4096)
def short_id(resource: str) -> str:
    """Return the entry name of a resource id: `switch_widget` of `com.android.settings:id/switch_widget`."""
    return resource.rpartition(":id/")[2]


def view_node(
    kind: str, text: str, description: str, hint: str, resource: str, bounds: Box | None, states: tuple[str, ...]
) -> Node | None:
    """Return the node of a view; None if the view only lays out its children or has no place on a screen.

    A view gets no line if its role is `group` and it has no text and no state but `disabled`, or if its box is inverted
    or empty, as Android reports it for views that are scrolled away or were never laid out. The text of a field is its
    value, and its hint a label; for other views text and description are labels. A resource id without a package is the
    id of an element of a web page in the app, and is left out if pages generate it anew each time.
    """
    if bounds is not None and not has_area(bounds):
        return None
    ident = ""
    if resource:
        _, mark, ident = resource.rpartition(":id/")
        if not mark and not is_lasting(resource):
            ident = ""
    role = role_of(kind)
    if role == "textbox":
        name, value = description or hint, text
        second = hint if hint != name else ""
        if "editable" in states:
            states = tuple([state for state in states if state != "editable"])
    else:
        name, value = text or description, ""
        second = description if description != name else ""
    if role == "group" and not (name or value) and _PLAIN.issuperset(states):
        return None
    return Node(role, name, value, second, states, ident, bounds)


def drawn_box(window: Box | None, root: Box | None) -> Box | None:
    """Return the box in which a window draws its views, around its own box and that of its root view; None if unknown.

    Both boxes are needed, since Android reports the touchable region of a window, which can be smaller than the window.
    """
    boxes = [box for box in (window, root) if box is not None and has_area(box)]
    if not boxes:
        return None
    lefts, tops, rights, bottoms = zip(*boxes, strict=True)
    return min(lefts), min(tops), max(rights), max(bottoms)


def is_outside(box: Box | None, drawn: Box | None) -> bool:
    """Return True if a view is entirely outside of the box of `drawn_box`, so that it is invisible."""
    if box is None or drawn is None:
        return False
    return box[0] >= drawn[2] or box[1] >= drawn[3] or box[2] <= drawn[0] or box[3] <= drawn[1]


@lru_cache(maxsize=4096)
def window_node(package: str, title: str, bounds: Box | None, states: tuple[str, ...] = ()) -> Node:
    """Return the node of a window: named by its package, described by its title if known."""
    return Node("window", package, "", title, states, "", bounds)


Touch: TypeAlias = tuple[Box | None, bool, bool]
"""Box of a view that can be clicked or focused, whether it is clickable, and whether it is focusable."""


@record
class Mark:
    """A view that can be clicked or focused, in document order; `node` is its id in the tree, 0 if it has no line."""

    node: int
    bounds: Box | None
    clickable: bool
    focusable: bool


@dataclass(frozen=True, slots=True)
class Source:
    """The log's own text of a screen, for recipes that choose `raw`; `dialect` names its writer."""

    text: str
    media_type: str
    dialect: str


@dataclass(frozen=True, slots=True)
class Screen:
    """A screen: its tree, the tree's text, the package of its focused window, else of its topmost, and its marks.

    Marks are pairs of a node and its touch. If `source` is given, the observation shows it instead of the tree, and
    actions name their elements by its attributes. `reach` is the last node of the first display if there are several; a
    touch cannot reach nodes of the others.
    """

    tree: Tree
    text: str
    package: str
    marks: Sequence[tuple[int, Touch]] = ()
    source: Source | None = None
    reach: int | None = None

    def observation(self, uri: str | None = None, attachments: tuple[Attachment, ...] = ()) -> Observation:
        """Return the screen as an observation; `uri` is the activity in the foreground, if known."""
        if self.source is not None:
            text, media_type, dialect = self.source.text, self.source.media_type, self.source.dialect
            return Observation(text, media_type, "screen", dialect, uri=uri, attachments=attachments)
        return Observation(self.text, form="screen", dialect=DIALECT, uri=uri, attachments=attachments)

    def element(self, node: int | None) -> Element | None:
        """Return a node as actions name it: `#12`, or by its resource id and box if the log's own text is shown.

        None for no node (None or 0).
        """
        if not node:
            return None
        if self.source is None:
            return f"#{node}"
        target = self.tree.nodes[node - 1]
        is_json = self.source.media_type == "application/json"
        named: dict[str, Any] = {"resource_id": _full_id(target.ident, self.source.text)} if target.ident else {}
        if target.bounds is not None:
            left, top, right, bottom = target.bounds
            named["bounds"] = [[left, top], [right, bottom]] if is_json else f"[{left},{top}][{right},{bottom}]"
        return named or None


def _full_id(ident: str, text: str) -> str:
    """Return the full resource id for an entry name if a text has exactly one; else the name."""
    forms = set(re.findall(rf"[\w.]+:id/{re.escape(ident)}(?![\w.$-])", text))
    return forms.pop() if len(forms) == 1 else ident


def environment_of(packages: list[str]) -> str | None:
    """Return the most frequent package of a trajectory's screens; None if there is none.

    Launchers and the system's own surfaces count only if there is nothing else; of equally frequent packages the first
    wins.
    """
    apps = [name for name in packages if is_app(name)]
    seen = apps or [name for name in packages if name]
    return max(dict.fromkeys(seen), key=seen.count) if seen else None


def is_app(package: str) -> bool:
    """Return True if a package is neither a launcher nor the system's own surface."""
    return bool(package) and "launcher" not in package and package not in ("android", "com.android.systemui")


def sound(trajectory: Trajectory) -> Trajectory:
    """Replace lone surrogates in the trajectory's texts, which JSON can hold and text cannot."""
    task, environment, agent = trajectory.task, trajectory.environment, trajectory.agent
    texts = [task.id, task.instruction, environment.id, environment.instance_id, agent.name, agent.model]
    for step in trajectory.steps:
        action, before, after = step.action, step.observation, step.next_observation
        texts.append(action.name)
        texts.append(action.reasoning)
        if before is not None:
            texts.append(before.uri)
        if after is not None:
            texts.append(after.uri)
    try:
        "".join(filter(None, texts)).encode()
    except UnicodeEncodeError:
        return without_surrogates(trajectory)
    return trajectory
