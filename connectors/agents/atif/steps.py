"""Steps of one ATIF document as turns and messages, and the sub-agent trajectories that it refers to.

Rules, after RFC 0001 of Harbor, versions 1.0 to 1.7, read leniently. Results are matched to calls by `source_call_id`,
also on a later step; several results of one step may belong to one call. Results without the id are matched by
position; a single result for several calls belongs to the last of them. A call that a later step repeats under the same
id is the same call. Copied context makes no steps, but it states the last observation. A step of `context_management`
is a harness text. An agent step that has no calls but was answered is an action whose text is its message. The commands
of a step of Terminus-2 are one action, since it looks at the terminal once. Its first prompt holds the system prompt,
the task, and the first content of the terminal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from trajmill.connectors.agents.atif import values
from trajmill.connectors.agents.atif.calls import are_terminus_calls, commands_of, first_among, join_observations
from trajmill.connectors.conversation.content import media_type, observation, seen_text
from trajmill.connectors.conversation.content import shown as shown_content
from trajmill.connectors.conversation.failures import is_failure
from trajmill.connectors.conversation.harness_text import (
    CLAUDE_CODE,
    Source,
    put_out,
    read_output,
    speaker,
    split_by_twin,
    truncation,
)
from trajmill.connectors.conversation.reminders import apart
from trajmill.connectors.conversation.terminus_texts import prompt_of
from trajmill.connectors.conversation.turns import Call, Item, Said, Time, Turn
from trajmill.connectors.conversation.wrapped_output import Output
from trajmill.connectors.reading.fields import str_in, text_in
from trajmill.connectors.reading.json_text import shallow_json
from trajmill.connectors.reading.own_arguments import arguments_in
from trajmill.connectors.reading.times import microseconds
from trajmill.schemas import (
    COMPLETE,
    KEYSTROKES,
    WAIT,
    Attachment,
    Observation,
    json_text,
    keystrokes_text,
    sampled_text,
)

RAW: Final = "raw_response"
"""Name of the action where the agent's message itself is the action that the environment answers."""

Report = Callable[[int, str, str], None]
Image = Callable[[str, str | None], Attachment | None]


class Reader:
    """Reader of one document, step by step.

    Args:
        terminus: whether the agent words its observations as Terminus does.
        ours: whether `pipelines.render.atif_documents` wrote the document, which then states the instruction.
        member: the document's member, for the steps.
        image: returns the attachment of an image by path and media type; None if the log does not hold it.
        report: called with offset, reason and detail of each reject.

    Attributes:
        system: the pieces of the agent's system prompt.
        instruction: the instruction, if the document states it.
        model: the first model that a step names.
        references: references to sub-agents, each with the turn that refers to it, if any.
    """

    def __init__(self, terminus: bool, ours: bool, member: str, image: Image, report: Report) -> None:
        self.items: list[Item] = []
        self.system: list[str] = []
        self.instruction: str | None = None
        self.model: str | None = None
        self.references: list[tuple[dict[str, Any], Turn | None]] = []
        self._terminus = terminus
        self._ours = ours
        self._member = member
        self._image = image
        self._report = report
        self._offset = 0
        self._acted = False
        self._waiting: dict[str, list[Call]] = {}
        self._answered: dict[str, tuple[Call, int]] = {}
        self._turn: Turn | None = None

    def step(self, offset: int, step: Any) -> None:
        """Process one step."""
        self._offset = offset
        source = step.get("source") if isinstance(step, dict) else None
        if source not in ("system", "user", "agent"):
            self._report(offset, "bad_step", "wanted a step whose source is system, user or agent")
            return
        copied = step.get("is_copied_context") is True
        if "extra" in step and "context_management" in values.table(step, "extra"):
            self._add_harness_notes(step)
        elif source == "agent":
            self._add_copied(step) if copied else self._agent(step)
        else:
            self._said(step, source, copied)

    def _content(self, content: Any) -> tuple[str | None, tuple[Attachment, ...]]:
        """Return the text and attachments of a content, a string or a list of parts; None if there is no text."""
        if isinstance(content, str):
            return content, ()
        texts: list[str] = []
        images: list[Attachment] = []
        for part in content if isinstance(content, list) else ():
            if isinstance(part, str):
                texts.append(part)
            elif isinstance(part, dict) and isinstance(part.get("text"), str):
                texts.append(part["text"])
            elif isinstance(part, dict) and part.get("type") == "image":
                source = values.table(part, "source")
                path = text_in(source, "path")
                image = self._image(path, text_in(source, "media_type")) if path else None
                if image is None:
                    self._report(self._offset, "image_missing", f"the log does not hold the image {(path or '')[:200]}")
                else:
                    images.append(image)
            else:
                self._report(self._offset, "bad_content", "wanted a part of a content that is text or image")
        if isinstance(content, dict):
            texts += [content_json] if (content_json := shallow_json(content)) is not None else []
        return ("\n".join(texts) if texts else None), tuple(images)

    def _add_harness_notes(self, step: dict[str, Any]) -> None:
        """Record what the harness did to the context. Results of such a step are harness texts, not observations."""
        texts = [self._content(step.get("message"))[0]]
        for result in values.items(values.table(step, "observation"), "results"):
            self._refer(result, None)
            texts.append(self._content(result.get("content"))[0] if isinstance(result, dict) else None)
        notes = [text for text in texts if text] or [shallow_json(step["extra"]["context_management"]) or ""]
        self.items.append(Said("harness", "\n\n".join(notes)))
        self._turn = None

    def _said(self, step: dict[str, Any], source: str, copied: bool) -> None:
        text, images = self._content(step.get("message"))
        role = text_in(values.own(step), "role")
        if self._ours and source == "user" and role is None and not self._acted and self.instruction is None:
            self.instruction = text
        elif source == "system" and role is None and not self._acted and "observation" not in step:
            self.system += [text] if text else []
        elif (text or images) and not self._take_prompt(source, text):
            self._say(step, source, text, images, copied)
        if "observation" in step:
            self._add_unasked_results(step, copied)

    def _say(
        self, step: dict[str, Any], source: str, text: str | None, images: tuple[Attachment, ...], copied: bool
    ) -> None:
        """Add a message that is no prompt. A copied message is added only if it states the task."""
        if copied and not (source == "user" and self._is_unasked()):
            return
        extension = values.own(step)
        role = text_in(extension, "role") or ("user" if source == "user" else "harness")
        self.items.append(Said(role, text or "", images or values.attachments(extension), text_in(extension, "uri")))
        self._turn = None

    def _is_unasked(self) -> bool:
        """Return True if there is no user message yet."""
        return not self._acted and not any(isinstance(item, Said) and item.role == "user" for item in self.items)

    def _take_prompt(self, source: str, text: str | None) -> bool:
        """Add the first prompt of Terminus-2; return False if the text is not such a prompt."""
        if not (self._terminus and source == "user" and text and self._is_unasked()):
            return False
        prompt = prompt_of(text, False)
        if prompt.task is None:
            return False
        self.system += [prompt.system] if prompt.system else []
        self.items.append(Said("user", prompt.task))
        if prompt.seen is not None:
            self.items.append(prompt.seen)
        return True

    def _add_unasked_results(self, step: dict[str, Any], copied: bool) -> None:
        """Add the results on a step whose source is not the agent."""
        for result in values.items(values.table(step, "observation"), "results"):
            self._refer(result, self._turn)
            call_id = text_in(result, "source_call_id")
            call = None if copied else self._asked(call_id or "", [])
            if call is not None:
                self._answer(call, call_id, result, step, False)
            elif call_id is not None and not copied:
                self._stray(call_id)
            elif (shown := self._observation(None, result, step, False)[0]) is not None:
                self.items.append(shown)
                self._turn = None

    def _add_copied(self, step: dict[str, Any]) -> None:
        for result in values.items(values.table(step, "observation"), "results"):
            shown = self._observation(None, result, step, False)[0]
            if shown is not None:
                self.items.append(shown)

    def _agent(self, step: dict[str, Any]) -> None:
        self._acted = True
        if self.model is None:
            self.model = text_in(step, "model_name")
        get = step.get
        at, message, thought = microseconds(get("timestamp")), get("message"), get("reasoning_content")
        if not isinstance(message, str):
            message = self._content(message)[0]
        texts = [message] if message and not message.isspace() and not values.is_filler(step, message) else []
        thoughts = [thought] if isinstance(thought, str) and thought else []
        turn = Turn(self._offset, self._member, at, [], texts, thoughts)
        if "metrics" in step and step.get("llm_call_count") in (None, 1):
            metrics = values.table(step, "metrics")
            turn.sampled = sampled_text(metrics.get("completion_token_ids"), metrics.get("logprobs"))
        observed, calls = get("observation"), get("tool_calls")
        results = values.items(observed, "results") if observed else []
        if not isinstance(calls, list):
            calls = []
        if not results and len(calls) == 1 and values.raw_result(step.get("extra")) is not None:
            results = [values.NOTHING]  # Harbor leaves out an answer without text.
        if len(calls) == 1 == len(results) and "extra" not in step and not self._terminus:
            plain = self._plain(calls[0], results[0], at)
            if plain is not None:
                turn.add(plain)
                self.items.append(turn)
                self._turn = turn
                return
        self._acts(turn, step, calls, results)

    def _acts(self, turn: Turn, step: dict[str, Any], calls: list[Any], results: list[Any]) -> None:
        """Add the calls and results of a step's turn."""
        at = turn.at
        repeated: list[Call] = []
        if self._terminus and len(results) <= 1 and are_terminus_calls(calls):
            for call in self._typing(calls, at):
                turn.add(call)
            results = [{**item, "source_call_id": None} if isinstance(item, dict) else item for item in results]
        else:
            for item in calls:
                if (new_call := self._call(item, at, repeated)) is not None:
                    turn.add(new_call)
                else:
                    turn.sampled = None
        if not calls and results and turn.texts and any(self._says(result) for result in results):
            turn.add(self._raw(turn))
        self._override(turn, step, calls)
        if turn.texts or turn.thoughts or turn.calls:
            self.items.append(turn)
            self._turn = turn
        if results:
            self._results(step, turn, repeated, results)

    def _plain(self, block: Any, result: Any, at: Time) -> Call | None:
        """Build the only call of a step with its only result; None if either has fields beyond the usual ones."""
        if not isinstance(block, dict) or not isinstance(result, dict):
            return None
        name, raw, call_id = block.get("function_name"), block.get("arguments"), block.get("tool_call_id")
        content = result.get("content")
        if (
            not (isinstance(name, str) and isinstance(raw, dict) and isinstance(call_id, str))
            or not (isinstance(content, str) and name and call_id and result.get("source_call_id") == call_id)
            or call_id in self._waiting
            or "extra" in block
            or "extra" in result
            or "subagent_trajectory_ref" in result
            or (arguments := shallow_json(raw)) is None
        ):
            return None
        call = Call(name, arguments, call_id, self._offset, self._member, at)
        output = read_output(content, Source(tool=name))
        call.shown = Observation(output.text, media_type(output.text))
        call.ends(output)
        self._answered[call_id] = call, self._offset
        return call

    def _says(self, result: Any) -> bool:
        return isinstance(result, dict) and result.get("content") is not None

    def _raw(self, turn: Turn) -> Call:
        """Build the action of a step whose message was answered without a call."""
        message, turn.texts = turn.texts[0], []
        commands = commands_of(message) if self._terminus else None
        if commands:
            return self._keys(commands, turn.at, None)
        return Call(RAW, json_text({"content": message}), None, self._offset, self._member, turn.at, message)

    def _typing(self, blocks: list[Any], at: Time) -> list[Call]:
        strokes = [block["arguments"] for block in blocks if block.get("function_name") == "bash_command"]
        calls = [self._keys(strokes, at, text_in(blocks[0], "tool_call_id"))] if strokes else []
        for block in blocks:
            if block.get("function_name") == "mark_task_complete":
                call_id = text_in(block, "tool_call_id")
                calls.append(Call(COMPLETE, None, call_id, self._offset, self._member, at, keystrokes_text([])))
        return calls

    def _keys(self, strokes: list[dict[str, Any]], at: Time, call_id: str | None) -> Call:
        typed = [(command["keystrokes"], values.number(command, "duration")) for command in strokes]
        name = KEYSTROKES if any(keys for keys, _ in typed) else WAIT
        arguments = shallow_json({"commands": strokes})
        return Call(name, arguments, call_id, self._offset, self._member, at, keystrokes_text(typed))

    def _call(self, block: Any, at: Time, repeated: list[Call]) -> Call | None:
        """Build the call; None if it is malformed or repeats an earlier step's call, which goes to `repeated`."""
        if not isinstance(block, dict):
            block = values.NOTHING
        get = block.get
        name, raw, call_id = get("function_name"), get("arguments"), get("tool_call_id")
        if isinstance(raw, str):
            raw = arguments_in(raw)
        arguments = shallow_json(raw) if isinstance(raw, dict) else "{}" if raw is None else None
        if not isinstance(name, str) or not name or arguments is None:
            self._report(self._offset, "bad_call", "wanted a function name and an object of shallow arguments")
            return None
        if not isinstance(call_id, str) or not call_id:
            call_id = None
        waiting = self._waiting.get(call_id or "")
        for earlier in waiting if waiting is not None and call_id is not None else ():
            if earlier.name == name and earlier.arguments == arguments and earlier.offset != self._offset:
                repeated.append(earlier)
                return None
        call = Call(name, arguments, call_id, self._offset, self._member, at)
        if "extra" in block and (extension := values.own(block)):
            call.text = str_in(extension, "text")
            if "call_id" in extension:
                call.call_id = str_in(extension, "call_id")
            if "arguments" in extension:
                call.arguments = values.json_of(extension["arguments"])
        if waiting is None:
            self._waiting[call_id or ""] = [call]
        else:
            waiting.append(call)
        return call

    def _override(self, turn: Turn, step: dict[str, Any], blocks: list[Any]) -> None:
        """Apply what the extension states about each call: message, times and the observation before it."""
        if "extra" not in step:
            for block in blocks:
                if isinstance(block, dict) and "extra" in block:
                    break
            else:
                return
        before = values.seen(values.own(step))
        for call, block in zip(turn.calls, blocks, strict=False) if len(blocks) == len(turn.calls) else ():
            extension = values.own(block)
            call.seen = before
            if not extension:
                continue
            if "message" in extension:
                call.message = str_in(extension, "message")
            if "reasoning" in extension:
                call.reasoning = str_in(extension, "reasoning")
            if "started_at" in extension:
                call.at = microseconds(text_in(extension, "started_at"))
            seconds = values.number(extension, "duration_s")
            call.seconds = seconds if seconds is not None and seconds >= 0 else None
            call.exit_code = values.int32(extension, "exit_code")
            limit = values.number(extension, "time_limit_s")
            call.limit = limit if limit is not None and limit > 0 else None
            call.killed = values.flag(extension, "timed_out")
            ending = (
                values.number(extension, "reward"),
                values.flag(extension, "terminated"),
                values.flag(extension, "truncated"),
            )
            call.ending = ending

    def _results(self, step: dict[str, Any], turn: Turn, repeated: list[Call], results: list[Any]) -> None:
        """Assign the results of a step to their calls."""
        targets = [*turn.calls, *repeated]
        alone = len(results) == 1
        loose = []
        for result in results:
            call_id = text_in(result, "source_call_id")
            if call_id is None or "subagent_trajectory_ref" in result:
                self._refer(result, turn)
            if call_id is None:
                loose.append(result)
            elif (call := self._asked(call_id, targets)) is not None:
                self._answer(call, call_id, result, step, alone)
            elif alone and len(targets) == 1 and targets[0].shown is None:
                self._answer(targets[0], call_id, result, step, True)
            else:
                self._stray(call_id)
        if loose:
            self._loose(step, targets, loose)

    def _loose(self, step: dict[str, Any], targets: list[Call], loose: list[Any]) -> None:
        """Assign results that name no call to the calls of their step."""
        open_calls = [call for call in targets if call.shown is None and call.name != COMPLETE]
        open_calls = open_calls or [call for call in targets if call.shown is None]
        if len(loose) == 1 and len(open_calls) > 1:
            open_calls = open_calls[-1:]
        for call, result in zip(open_calls, loose, strict=False):
            for waiting in self._waiting.values():
                if call in waiting:
                    waiting.remove(call)
            self._answer(call, None, result, step, len(loose) == 1)
        for result in loose[len(open_calls) :]:
            if self._says(result):
                self._report(self._offset, "result_without_call", "a result without an id, and no call left for it")

    def _asked(self, call_id: str, targets: list[Call]) -> Call | None:
        """Remove and return the waiting call with that id that a result on this step answers."""
        waiting = self._waiting.get(call_id)
        # An id may repeat while a call of an earlier step is still open; results belong to the calls of their own step.
        own = first_among(waiting, targets) if waiting and targets else None
        if own is None and (again := self._again(call_id)) is not None:
            return again
        if not waiting:
            return None
        call = waiting.pop(own or 0)
        if not waiting:
            del self._waiting[call_id]
        return call

    def _again(self, call_id: str) -> Call | None:
        """Return the call of that id that this step has already answered; a call may have several results."""
        call, offset = self._answered.get(call_id, (None, 0))
        return call if offset == self._offset else None

    def _stray(self, call_id: str) -> None:
        """Report a result that answers no call, or whose call was answered on an earlier step."""
        if call_id in self._answered:
            self._report(self._offset, "result_repeated", f"an earlier step answered the call {call_id:.80}")
        else:
            self._report(self._offset, "result_without_call", f"no call has the id {call_id:.80}")

    def _answer(self, call: Call, call_id: str | None, result: Any, step: dict[str, Any], alone: bool) -> None:
        """Assign a result to the call that it names by id."""
        earlier = call.shown
        shown, output = self._observation(call.name, result, step, alone)
        call.shown = shown if earlier is None else join_observations(earlier, shown)
        if call_id is not None:
            self._answered[call_id] = call, self._offset
        call.ends(output)
        turn = self._turn
        if turn is not None and call.shown is not None and first_among(turn.calls, [call]) is None:
            if call.late:
                self.items = [item for item in self.items if item is not earlier]
            call.late = True
            self.items.append(call.shown)
        if call.exit_code is None and isinstance(result, dict) and "extra" in result:
            call.exit_code = values.int32(result["extra"], "exit_code")

    def _observation(
        self, tool: str | None, result: Any, step: dict[str, Any], alone: bool
    ) -> tuple[Observation | None, Output]:
        """Return the observation in a result, and the end of the call as the harness's words around it state it."""
        if not isinstance(result, dict):
            self._report(self._offset, "bad_result", "wanted an object in the results of an observation")
            return None, Output(None)
        extra = values.table(result, "extra") if "extra" in result else values.NOTHING
        extension = values.table(extra, values.OWN) if extra else extra
        raw = values.raw_result(extra) or (values.raw_result(step["extra"]) if alone and "extra" in step else None)
        if raw is not None:
            return _of_claude(raw, text_in(step.get("extra"), "tool_use_name"))
        content = result.get("content")
        shown, images = (content, ()) if isinstance(content, str) else self._content(content)
        if shown is None and not images and not extension:
            return None, Output(None)
        origin, form, cut, ended = "environment", "response", "none", Output(None)
        if shown is not None and self._terminus:
            screen, ended = values.terminal_output(shown)
            shown, form, origin, cut = screen.content, screen.form, screen.origin, screen.truncation
        elif shown is not None:
            ended = read_output(shown, Source(tool=tool))
            shown, cut = ended.text, "harness" if ended.cut else "none"
        if result.get("subagent_trajectory_ref"):
            origin = "agent"
        error = is_failure(extra) if extra else None
        built = Observation(
            content=shown,
            media_type=media_type(shown),
            form=form,
            origin=origin,
            is_error=error,
            truncation=cut,
            attachments=images,
        )
        return (values.observation(shown, extension, built) if extension else built), ended

    def _refer(self, result: Any, turn: Turn | None) -> None:
        """Record the sub-agents that a result refers to."""
        references = result.get("subagent_trajectory_ref") if isinstance(result, dict) else None
        if not references:
            return
        for reference in references if isinstance(references, list) else [references]:
            if isinstance(reference, dict):
                self.references.append((reference, turn))


def _of_claude(metadata: dict[str, Any], tool: str | None) -> tuple[Observation, Output]:
    """Return the result that Claude Code received; Harbor keeps it beside a result with sections of its own."""
    raw, beside = values.table(metadata, "raw_tool_result"), values.table(metadata, "tool_use_result")
    seen = shown_content(raw["content"])
    source = Source(CLAUDE_CODE, None, tool, raw.get("is_error") is True)
    text, notes = apart(seen_text(seen) or "", source)
    if not source.failed:
        text, around = split_by_twin(text, put_out(beside))
        notes = (*notes, *around)
    output = read_output(text, source)
    answer = observation(output.text, is_failure(raw), seen.attachments, truncation(text, source))
    return replace(answer, origin=speaker(text, source) or answer.origin), replace(
        output, notes=(*output.notes, *notes)
    )
