"""Report of an output folder, written as `report.html`: one HTML file without scripts that loads nothing.

The same folder gives the same bytes.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from jinja2 import Environment
from markupsafe import Markup

from trajmill.app.pages.markup import environment, stylesheet
from trajmill.app.pages.why import reason_words, rules_of
from trajmill.app.report import charts
from trajmill.app.report.examples import CUT, EXAMPLES, pick_rejects, reject_rows, samples
from trajmill.app.report.figures import LENGTHS, Figures, figures
from trajmill.app.report.sources import Sources
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.ownership import REPORT
from trajmill.quality.variety import KINDS

TEMPLATES: Final = Path(__file__).with_name("templates")


def write_report(out: str) -> str:
    """Write the report of an output folder and return its address.

    Raises:
        ConfigError: The folder holds no run.
    """
    folder = Folder.named(out)
    folder.write(REPORT, report(out))
    return folder.path(REPORT)


def report(out: str, *, is_linked: bool = False) -> bytes:
    """Render the report of an output folder as HTML; raises as `write_report`.

    Args:
        is_linked: True to link numbers to the viewer's lists, as on the page that the viewer serves.
    """
    sources = Sources(out)
    rejects = reject_rows(sources)
    all_figures = figures(sources, rejects)
    values = {
        "figures": all_figures,
        "charts": charts,
        "lengths": LENGTHS,
        "kinds": KINDS,
        "pools": _pools(all_figures),
        "samples": samples(sources),
        "rejects": pick_rejects(sources, rejects),
        "most": EXAMPLES,
        "cut_label": CUT,
        "link": _link if is_linked else lambda text, **_: text,
        "is_linked": is_linked,
        "reason_words": lambda reason: reason_words(reason.partition(" ")[0], rules_of(sources.recipe)),
    }
    return page("report.html", values)


def _link(text: str, path: str = "/", **chosen: str) -> Markup:
    return Markup('<a href="{}?{}">{}</a>').format(path, urlencode(chosen), text)


def page(template: str, values: Mapping[str, Any], more_style: str = "") -> bytes:
    """Render a template as one file with its style sheet inside; its policy allows browsers to use nothing else.

    Args:
        more_style: CSS that follows that of the report.
    """
    style = stylesheet() + (TEMPLATES / "report.css").read_text("utf-8") + more_style
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    rendered = _templates().get_template(template).render(style=style, style_digest=digest, **values)
    return rendered.encode("utf-8", "replace")


@lru_cache
def _templates() -> Environment:
    templates = environment(TEMPLATES)
    templates.optimized = False  # optimizing takes longer than it saves, since the page is rendered once
    return templates


def _pools(all_figures: Figures) -> list[str]:
    """List the pools of the recipe in its order, then any others that have samples."""
    pools = list(all_figures.recipe.get("mix", {}).get("pools", {}))
    return pools + sorted({key.partition(".")[0] for key in all_figures.samples} - set(pools))
