"""The section of a recipe that says what the tables of a published data set hold: `normalize.dataset`.

Which files of a data set are read, and which column of a row means what. What the files really hold is compared with
it when a run is planned (see `plan.column_mapping`); here only the recipe itself is checked.
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
    """Columns by role; names joined by dots lead into structs.

    Attributes:
        messages: of layout `messages`: the conversation, a list of chat messages or JSON text of one.
        steps: of layout `steps`: the list of steps, or JSON text of one.
        content: of layout `log`: the text of a whole log.
        action: what was done: a call (struct, or JSON text), a list of parallel calls, keystrokes, or plain text.
        arguments: the arguments, where `action` holds only the name of a tool.
        observation: what stood before the action.
        next_observation: what the action led to; without it, it is the observation of the next step.
        message: what the agent said aloud with the action.
        reasoning: what it thought.
        reward: of the step.
        terminated: whether the environment ended the episode here.
        truncated: whether a limit ended it here.
        is_error: whether the environment marked what followed as an error.
        exit_code: of the command.
        started_at: when the action began: a time, or ISO 8601 text.
        url: where the agent was: address, activity, working folder.
        id: of the trajectory; in layout `transitions`, rows with one id are one trajectory.
        task: the task's id.
        instruction: what the agent was asked to do.
        tools: definitions of the tools.
        system: the agent's own system prompt.
        initial_state: the world before the first action.
        agent: who acted.
        model: the model behind it.
        environment: the environment: app, site, image, server.
        instance: one instance of it.
        resolved: whether the task was solved: true, false, 1 or 0; anything else is not known.
        score: the verifier's score.
        domain: one of the seven.
        licence: of the row.
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
        """Return (role, column) of every role that has a column, in the order above."""
        return tuple((role, column) for role, column in self.model_dump().items() if column is not None)


class Dataset(Section):
    """Settings of reading a published data set: its files, and the layout of their rows.

    Attributes:
        config: the configuration whose files are read, as the data set's card names it; the default one if empty.
        splits: the splits whose files are read; all if empty.
        files: names of the tables that the columns speak of, as a glob below the raw root.
        layout: `messages`, `steps`, `log` or `transitions`; without it, known layouts are told by their columns.
        columns: which column holds what; of layout `steps`, those of a step are fields of the step.
        format: of layout `log`: the connector that reads the logs.
        domain: of every trajectory; may be left out where the recipe has one domain, or `columns.domain` tells it.
        tool: the tool that an action of plain text is a call of; without it, the text is the action as it stands.
        argument: the argument of that tool which the text is.
        form: form of the observations; by default screen for web, os and android, stream for terminal, else response.
        kind: `code` if a program simulated the environment, `model` if a model did.
        world_model: `name@revision` of that model.
        sampling: its sampling settings.
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
        """Return the settings for connectors; a domain that is not stated is the recipe's, if it has just one."""
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
        """Explain what is wrong with the domain under a recipe that takes these in; None if nothing is."""
        if self.domain is not None and self.domain not in domains:
            return f"dataset.domain is {self.domain}, which is not among the recipe's domains"
        is_known = self.columns.domain is not None or self.domain is not None or len(domains) == 1
        if self.layout in (None, "log") or is_known:
            return None
        return f"dataset.domain or dataset.columns.domain should say which domain rows are of: {', '.join(DOMAINS)}"


WHOLE: Final = Dataset()
"""The default configuration of a data set, every split."""
