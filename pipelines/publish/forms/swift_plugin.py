"""A template for ms-swift that hands on token ids with their labels. It stands alone; `swift.yaml` names it.

ms-swift has each row encoded by a template, also of `cached_dataset`; this one returns what the row holds. What a model
that was trained so is asked with is its own chat template, by which the ids were made.
"""

from __future__ import annotations

from typing import Any

from swift.template import Template, TemplateMeta, register_template


class TokenIdTemplate(Template):
    """Returns `input_ids` and `labels` of a row."""

    def _encode(self, inputs: Any) -> dict[str, Any]:
        row = inputs.extra_kwargs
        return {"input_ids": list(row["input_ids"]), "labels": list(row["labels"])}


_META = TemplateMeta(
    "trajmill_ids", prefix=[], prompt=["{{QUERY}}"], chat_sep=None, suffix=[], template_cls=TokenIdTemplate
)
register_template(_META, exist_ok=True)
