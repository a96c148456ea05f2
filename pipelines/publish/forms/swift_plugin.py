"""Template for ms-swift that returns token ids with their labels. It is self-contained; `swift.yaml` names it.

ms-swift encodes each row by a template, also those of `cached_dataset`; this one returns the ids of the row. At
inference the model needs its own chat template, with which the ids were made.
"""

from __future__ import annotations

from typing import Any

from swift.template import Template, TemplateMeta, register_template


class TokenIdTemplate(Template):
    """Template that returns `input_ids` and `labels` of a row."""

    def _encode(self, inputs: Any) -> dict[str, Any]:
        row = inputs.extra_kwargs
        return {"input_ids": list(row["input_ids"]), "labels": list(row["labels"])}


_META = TemplateMeta(
    "trajmill_ids", prefix=[], prompt=["{{QUERY}}"], chat_sep=None, suffix=[], template_cls=TokenIdTemplate
)
register_template(_META, exist_ok=True)
