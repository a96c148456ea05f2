"""Flags of Beam's PipelineOptions, parsed before any runner is made."""

from __future__ import annotations

import argparse
import io
from collections.abc import Sequence
from contextlib import redirect_stderr
from typing import Any

from apache_beam.options.pipeline_options import PipelineOptions

from trajmill.schemas import ConfigError


class FlinkBatch(PipelineOptions):
    """Option of Beam's runner for Flink that the SDK does not list."""

    @classmethod
    def _add_argparse_args(cls, parser: Any) -> None:
        parser.add_argument("--execution_mode_for_batch", help="how Flink hands on what steps of batch jobs make")


class _Parser(argparse.ArgumentParser):
    """Parser to which Beam's option classes add their options."""

    def add_value_provider_argument(self, *names: str, **more: Any) -> None:
        """Add an option whose value Beam may receive later."""
        self.add_argument(*names, **more)


def parse_flags(flags: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """Return the values of all of Beam's options by name, and the flags that no option class of Beam defines.

    Raises:
        ConfigError: a flag has no valid value.
    """
    parser = _Parser(allow_abbrev=False)
    for options in PipelineOptions.__subclasses__():
        options._add_argparse_args(parser)  # the method by which Beam has options defined
    messages = io.StringIO()
    try:
        with redirect_stderr(messages):
            values, unknown = parser.parse_known_args(list(flags))
            return values, list(unknown)
    except SystemExit as error:
        fault = messages.getvalue().strip().rpartition("error: ")[2]
        raise ConfigError(f"Beam does not take an option: {' '.join(fault.split())}.") from error
