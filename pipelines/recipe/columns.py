"""The section `normalize.dataset` of a recipe, which describes the tables of a published data set.

It names the files to read and the column of each field. Only the recipe itself is checked here; `plan.column_mapping`
compares it with the files when a run is planned.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, field_validator, model_validator

from trajmill.connectors.column_mapping import NEEDED, ROLES, Layout, Rows
from trajmill.pipelines.recipe.section import LISTED, Section
from trajmill.schemas import DOMAINS
from trajmill.schemas.action import json_text
from trajmill.schemas.trajectory import WORLD_MODEL


class Columns(Section):
    """Columns by role. Names joined by dots lead into structs.

    Attributes:
        messages: in layout `messages`, the conversation: a list of chat messages or its JSON text.
        steps: in layout `steps`, the list of steps or its JSON text.
        content: in layout `log`, the text of a whole log.
        action: the action: a call (struct or JSON text), a list of parallel calls, keystrokes, or plain text.
        arguments: the arguments, where `action` holds only the name of a tool.
        observation: the observation before the action.
        next_observation: the observation after the action; without this column, the observation of the next step.
        message: the text that the agent said with the action.
        reasoning: the agent's reasoning.
        reward: the reward of the step.
        terminated: whether the environment ended the episode at this step.
        truncated: whether a limit ended the episode at this step.
        is_error: whether the environment marked the answer as an error.
        exit_code: the exit code of the command.
        started_at: the time at which the action began, as a time or ISO 8601 text.
        url: the agent's location: a web address, an activity, a working folder.
        id: the trajectory's id; in layout `transitions`, rows with the same id form one trajectory.
        task: the task's id.
        instruction: the task's instruction.
        tools: definitions of the tools.
        system: the agent's own system prompt.
        initial_state: the state of the environment before the first action.
        agent: the agent's name.
        model: the agent's model.
        environment: the environment: app, site, image, server.
        instance: one instance of the environment.
        resolved: whether the task was solved: true, false, 1 or 0; any other value counts as unknown.
        score: the verifier's score.
        domain: one of the seven domains.
        licence: the row's licence.
    """

    messages: str | None = None
    steps: str | None = None
    content: str | None = None
    action: str | None = None
    arguments: str | None = None
    observation: str | None = None
    next_observation: str | None = None
    message: str | None = None
    reasoning: str | None = None
    reward: str | None = None
    terminated: str | None = None
    truncated: str | None = None
    is_error: str | None = None
    exit_code: str | None = None
    started_at: str | None = None
    url: str | None = None
    id: str | None = None
    task: str | None = None
    instruction: str | None = None
    tools: str | None = None
    system: str | None = None
    initial_state: str | None = None
    agent: str | None = None
    model: str | None = None
    environment: str | None = None
    instance: str | None = None
    resolved: str | None = None
    score: str | None = None
    domain: str | None = None
    licence: str | None = None

    def named(self) -> tuple[tuple[str, str], ...]:
        """Return (role, column) of every role that has a column, in the order of the attributes."""
        return tuple((role, column) for role, column in self.model_dump().items() if column is not None)


class Dataset(Section):
    """Settings for reading a published data set: its files and the layout of their rows.

    Attributes:
        config: the configuration whose files are read, as the data set's card names it; the default configuration if
            empty.
        splits: the splits whose files are read; all if empty.
        files: the tables that the columns describe, as a glob below the raw root.
        layout: `messages`, `steps`, `log` or `transitions`; null recognizes known layouts by their columns.
        columns: the column of each role; in layout `steps`, the columns of a step are fields of the step.
        format: in layout `log`, the connector that reads the logs.
        domain: the domain of every trajectory; optional where the recipe has one domain or `columns.domain` is set.
        tool: the tool that an action of plain text calls; null keeps the text as the action.
        argument: the argument of that tool that holds the text.
        form: form of the observations; by default screen for web, os and android, stream for terminal, else response.
        kind: `code` if a program simulated the environment, `model` if a model did.
        world_model: `name@revision` of that model.
        sampling: sampling settings of that model.
    """

    config: str = ""
    splits: Annotated[tuple[str, ...], LISTED] = ()
    files: str = "**"
    layout: Layout | None = None
    columns: Columns = Columns()
    format: str | None = None
    domain: Literal["mcp", "search", "terminal", "swe", "web", "os", "android"] | None = None
    tool: str | None = None
    argument: str = "input"
    form: Literal["screen", "stream", "state", "response"] | None = None
    kind: Literal["real", "code", "model"] = "real"
    world_model: str | None = None
    sampling: dict[str, Any] | None = Field(default=None)

    @field_validator("format")
    @classmethod
    def _known(cls, value: str | None) -> str | None:
        from trajmill.connectors.registry import connectors  # here, since numpy comes with it

        if value is not None and value not in connectors():
            raise ValueError(f"there is no connector '{value}'; `trajmill formats` lists them")
        if value == "table":
            raise ValueError("a table within a table is not read")
        return value

    @model_validator(mode="after")
    def _whole(self) -> Self:
        named = {role for role, _ in self.columns.named()}
        if self.layout is None:
            if named:
                raise ValueError(f"columns need a layout: one of {', '.join(ROLES)}")
            return self
        for role in NEEDED[self.layout]:
            if role not in named:
                raise ValueError(f"layout {self.layout} needs columns.{role}")
        for role in sorted(named - set(ROLES[self.layout])):
            raise ValueError(f"layout {self.layout} has no columns.{role}; it has {', '.join(ROLES[self.layout])}")
        if self.layout in ("steps", "transitions") and not named & {"observation", "next_observation"}:
            raise ValueError(f"layout {self.layout} needs columns.observation or columns.next_observation")
        if (self.layout == "log") != (self.format is not None):
            raise ValueError("layout log needs a format, and no other layout has one")
        return self

    @model_validator(mode="after")
    def _simulated(self) -> Self:
        stated = self.world_model is not None and self.sampling is not None
        if (self.kind == "model") != stated:
            raise ValueError("kind model needs world_model and sampling, and no other kind has them")
        if self.world_model is not None and re.fullmatch(WORLD_MODEL, self.world_model) is None:
            raise ValueError(f"world_model is '{self.world_model}': wanted name@revision, without blanks")
        return self

    def rows(self, domains: tuple[str, ...]) -> Rows:
        """Return the settings for connectors. A domain that is not set defaults to the recipe's only domain."""
        only = domains[0] if len(domains) == 1 and self.layout not in (None, "log") else None
        return Rows(
            layout=self.layout,
            columns=self.columns.named(),
            domain=self.domain or only,
            format=self.format,
            tool=self.tool,
            argument=self.argument,
            form=self.form,
            kind=self.kind,
            world_model=self.world_model,
            sampling=None if self.sampling is None else json_text(self.sampling),
        )

    def fault(self, domains: tuple[str, ...]) -> str | None:
        """Explain what is wrong with the domain in a recipe of these domains; None if nothing is."""
        if self.domain is not None and self.domain not in domains:
            return f"dataset.domain is {self.domain}, which is not among the recipe's domains"
        is_known = self.columns.domain is not None or self.domain is not None or len(domains) == 1
        if self.layout in (None, "log") or is_known:
            return None
        return f"dataset.domain or dataset.columns.domain should say which domain rows are of: {', '.join(DOMAINS)}"


WHOLE: Final = Dataset()
"""The data set's default configuration with every split."""
