"""Beam's options, of which each view is made once.

It does not say which options a run has: `runner` does.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any, Final, TypeVar

from apache_beam.options.pipeline_options import PipelineOptions

View = TypeVar("View", bound=PipelineOptions)

_VIEWS: Final = "_views"


class FlinkBatch(PipelineOptions):
    """An option of Beam's runner for Flink that the SDK does not list."""

    @classmethod
    def _add_argparse_args(cls, parser: Any) -> None:
        parser.add_argument("--execution_mode_for_batch", help="how Flink hands on what steps of batch jobs make")


class Options(PipelineOptions):
    """Beam's options as `PipelineOptions` has them: the same values under the same names.

    Beam asks for a view several times a transform, and parses the flags anew each time: in a run over a few logs that
    was a quarter of the work.
    """

    def view_as(self, cls: type[View]) -> View:
        """The view of that class: it shows the values as they are, and what is set in it is set in all."""
        views: dict[type[PipelineOptions], Any] = self.__dict__.setdefault(_VIEWS, {})
        if cls not in views:
            views[cls] = super().view_as(cls)
        return views[cls]

    def again(self) -> Options:
        """New options of the same flags and values; a deep copy leaves out what Beam keeps from workers."""
        return Options(self._flags, **deepcopy(self._all_options))

    def __getstate__(self) -> dict[str, Any]:
        """Without the views: those of a copy are of its own values, of which Beam leaves some out."""
        return {name: value for name, value in super().__getstate__().items() if name != _VIEWS}
