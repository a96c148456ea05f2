"""The steps of one ATIF document as turns and words, and the trajectories of sub-agents that it refers to.

Rules, after RFC 0001 of Harbor, versions 1.0 to 1.7, read leniently: results go with calls by `source_call_id`, also
those on a later step, and several of one step with the same call; without it by position, and one result for several
calls with the last, which it followed. A call that a later step repeats under its id is the same call. Copied context
makes no steps, but tells what was shown last. A step of `context_management` is a harness text. An agent step without
calls that was answered is an action whose text is its message. The commands of a step of Terminus-2 are one action,
since it looks at the terminal once; its first prompt is system prompt, task, and what the terminal showed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from trajmill.connectors.agents.atif import values
from trajmill.connectors.agents.atif.calls import all_typed, commands_of, first_among, together
from trajmill.connectors.conversation.content import media_type, observation, seen_text
from trajmill.connectors.conversation.content import shown as shown_content
from trajmill.connectors.conversation.failures import failed
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
from trajmill.schemas import COMPLETE, KEYSTROKES, WAIT, Attachment, Observation, json_text, keystrokes_text

RAW: Final = "raw_response"
"""Name of an action that is the agent's message itself, answered by the environment."""

Report = Callable[[int, str, str], None]
Image = Callable[[str, str | None], Attachment | None]


class Reader:
    """What one document says, step by step.

    Args:
        terminus: whether the agent words its observations as Terminus does.
        ours: whether `pipelines.render.atif_documents` wrote the document, which says what the instruction is.
        member: the document's own, for the steps.
        image: gives the attachment of an image by path and media type, None if the log does not hold it.
        report: is told offset, reason and detail of what is not carried on.

    Attributes:
        items: turns and words.
        system: the agent's system prompt, in pieces.
        instruction: what the agent was asked, where the document says so itself.
        model: the first model that a step names.
        references: sub-agents that are referred to, each with the turn that refers to it, if one does.
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
        """Takes in one step."""
        self._offset = offset
        source = step.get("source") if isinstance(step, dict) else None
        if source not in ("system", "user", "agent"):
            self._report(offset, "bad_step", "wanted a step whose source is system, user or agent")
            return
        copied = step.get("is_copied_context") is True
        if "extra" in step and "context_management" in values.table(step, "extra"):
            self._managed(step)
        elif source == "agent":
            self._copied(step) if copied else self._agent(step)
        else:
            self._said(step, source, copied)

    def _content(self, content: Any) -> tuple[str | None, tuple[Attachment, ...]]:
        """Text and attachments of a content: a string or a list of parts; the text is None if it has none."""
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
                found = self._image(path, text_in(source, "media_type")) if path else None
                if found is None:
                    self._report(self._offset, "image_missing", f"the log does not hold the image {(path or '')[:200]}")
                else:
                    images.append(found)
            else:
                self._report(self._offset, "bad_content", "wanted a part of a content that is text or image")
        if isinstance(content, dict):
            texts += [whole] if (whole := shallow_json(content)) is not None else []
        return ("\n".join(texts) if texts else None), tuple(images)

    def _managed(self, step: dict[str, Any]) -> None:
        """Notes what the harness did to the context; its results are its words, not the environment's."""
        texts = [self._content(step.get("message"))[0]]
        for result in values.items(values.table(step, "observation"), "results"):
            self._refer(result, None)
            texts.append(self._content(result.get("content"))[0] if isinstance(result, dict) else None)
        told = [one for one in texts if one] or [shallow_json(step["extra"]["context_management"]) or ""]
        self.items.append(Said("harness", "\n\n".join(told)))
        self._turn = None

    def _said(self, step: dict[str, Any], source: str, copied: bool) -> None:
        said, images = self._content(step.get("message"))
        role = text_in(values.own(step), "role")
        if self._ours and source == "user" and role is None and not self._acted and self.instruction is None:
            self.instruction = said
        elif source == "system" and role is None and not self._acted and "observation" not in step:
            self.system += [said] if said else []
        elif (said or images) and not self._prompted(source, said):
            self._say(step, source, said, images, copied)
        if "observation" in step:
            self._unasked(step, copied)

    def _say(
        self, step: dict[str, Any], source: str, said: str | None, images: tuple[Attachment, ...], copied: bool
    ) -> None:
        """Takes in words that are no prompt; copied ones only where they say what the agent is to do."""
        if copied and not (source == "user" and self._unasked_yet()):
            return
        told = values.own(step)
        role = text_in(told, "role") or ("user" if source == "user" else "harness")
        self.items.append(Said(role, said or "", images or values.attachments(told), text_in(told, "uri")))
        self._turn = None

    def _unasked_yet(self) -> bool:
        """Whether nobody has asked for anything yet."""
        return not self._acted and not any(isinstance(one, Said) and one.role == "user" for one in self.items)

    def _prompted(self, source: str, said: str | None) -> bool:
        """Whether the text is the first prompt of Terminus-2; then it is taken in."""
        if not (self._terminus and source == "user" and said and self._unasked_yet()):
            return False
        prompt = prompt_of(said, False)
        if prompt.task is None:
            return False
        self.system += [prompt.system] if prompt.system else []
        self.items.append(Said("user", prompt.task))
        if prompt.seen is not None:
            self.items.append(prompt.seen)
        return True

    def _unasked(self, step: dict[str, Any], copied: bool) -> None:
        """Takes in results that stand on a step of another source than the agent."""
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

    def _copied(self, step: dict[str, Any]) -> None:
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
        observed, given = get("observation"), get("tool_calls")
        results = values.items(observed, "results") if observed else []
        if not isinstance(given, list):
            given = []
        if not results and len(given) == 1 and values.raw_result(step.get("extra")) is not None:
            results = [values.NOTHING]  # Harbor leaves out an answer without text.
        if len(given) == 1 == len(results) and "extra" not in step and not self._terminus:
            plain = self._plain(given[0], results[0], at)
            if plain is not None:
                turn.add(plain)
                self.items.append(turn)
                self._turn = turn
                return
        self._acts(turn, step, given, results)

    def _acts(self, turn: Turn, step: dict[str, Any], given: list[Any], results: list[Any]) -> None:
        """Takes in what was called and answered in the turn of a step."""
        at = turn.at
        repeated: list[Call] = []
        if self._terminus and len(results) <= 1 and all_typed(given):
            for call in self._typing(given, at):
                turn.add(call)
            results = [{**one, "source_call_id": None} if isinstance(one, dict) else one for one in results]
        else:
            for one in given:
                if (made := self._call(one, at, repeated)) is not None:
                    turn.add(made)
        if not given and results and turn.texts and any(self._says(result) for result in results):
            turn.add(self._raw(turn))
        self._override(turn, step, given)
        if turn.texts or turn.thoughts or turn.calls:
            self.items.append(turn)
            self._turn = turn
        if results:
            self._results(step, turn, repeated, results)

    def _plain(self, given: Any, result: Any, at: Time) -> Call | None:
        """The only call of a step, answered by its only result; None if either holds more than most do."""
        if not isinstance(given, dict) or not isinstance(result, dict):
            return None
        name, raw, call_id = given.get("function_name"), given.get("arguments"), given.get("tool_call_id")
        content = result.get("content")
        if (
            not (isinstance(name, str) and isinstance(raw, dict) and isinstance(call_id, str))
            or not (isinstance(content, str) and name and call_id and result.get("source_call_id") == call_id)
            or call_id in self._waiting
            or "extra" in given
            or "extra" in result
            or "subagent_trajectory_ref" in result
            or (arguments := shallow_json(raw)) is None
        ):
            return None
        call = Call(name, arguments, call_id, self._offset, self._member, at)
        told = read_output(content, Source(tool=name))
        call.shown = Observation(told.text, media_type(told.text))
        call.ends(told)
        self._answered[call_id] = call, self._offset
        return call

    def _says(self, result: Any) -> bool:
        return isinstance(result, dict) and result.get("content") is not None

    def _raw(self, turn: Turn) -> Call:
        """The action of a step whose message was answered without a call."""
        message, turn.texts = turn.texts[0], []
        commands = commands_of(message) if self._terminus else None
        if commands:
            return self._keys(commands, turn.at, None)
        return Call(RAW, json_text({"content": message}), None, self._offset, self._member, turn.at, message)

    def _typing(self, given: list[Any], at: Time) -> list[Call]:
        strokes = [one["arguments"] for one in given if one.get("function_name") == "bash_command"]
        calls = [self._keys(strokes, at, text_in(given[0], "tool_call_id"))] if strokes else []
        for one in given:
            if one.get("function_name") == "mark_task_complete":
                call_id = text_in(one, "tool_call_id")
                calls.append(Call(COMPLETE, None, call_id, self._offset, self._member, at, keystrokes_text([])))
        return calls

    def _keys(self, strokes: list[dict[str, Any]], at: Time, call_id: str | None) -> Call:
        typed = [(one["keystrokes"], values.number(one, "duration")) for one in strokes]
        name = KEYSTROKES if any(keys for keys, _ in typed) else WAIT
        arguments = shallow_json({"commands": strokes})
        return Call(name, arguments, call_id, self._offset, self._member, at, keystrokes_text(typed))

    def _call(self, given: Any, at: Time, repeated: list[Call]) -> Call | None:
        """The call; None if it is none, or one that an earlier step made, which `repeated` is given then."""
        if not isinstance(given, dict):
            given = values.NOTHING
        get = given.get
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
        if "extra" in given and (told := values.own(given)):
            call.text = str_in(told, "text")
            if "call_id" in told:
                call.call_id = str_in(told, "call_id")
            if "arguments" in told:
                call.arguments = values.json_of(told["arguments"])
        if waiting is None:
            self._waiting[call_id or ""] = [call]
        else:
            waiting.append(call)
        return call

    def _override(self, turn: Turn, step: dict[str, Any], given: list[Any]) -> None:
        """Gives calls what is told of them one by one: words, times and what stood before."""
        if "extra" not in step:
            for one in given:
                if isinstance(one, dict) and "extra" in one:
                    break
            else:
                return
        before = values.seen(values.own(step))
        for call, one in zip(turn.calls, given, strict=False) if len(given) == len(turn.calls) else ():
            told = values.own(one)
            call.seen = before
            if not told:
                continue
            if "message" in told:
                call.message = str_in(told, "message")
            if "reasoning" in told:
                call.reasoning = str_in(told, "reasoning")
            if "started_at" in told:
                call.at = microseconds(text_in(told, "started_at"))
            seconds = values.number(told, "duration_s")
            call.seconds = seconds if seconds is not None and seconds >= 0 else None
            call.exit_code = values.int32(told, "exit_code")
            limit = values.number(told, "time_limit_s")
            call.limit = limit if limit is not None and limit > 0 else None
            call.killed = values.flag(told, "timed_out")
            ending = (values.number(told, "reward"), values.flag(told, "terminated"), values.flag(told, "truncated"))
            call.ending = ending

    def _results(self, step: dict[str, Any], turn: Turn, repeated: list[Call], results: list[Any]) -> None:
        """Gives the results of a step to their calls."""
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
        """Gives results that name no call to the calls of their step."""
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
        """The call of that id which a result on its step answers; it waits no longer."""
        waiting = self._waiting.get(call_id)
        # An id may come again while a call of an earlier step is open still: results stand with their calls.
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
        """The call of that id that this step has answered already: one call may have several results there."""
        call, offset = self._answered.get(call_id, (None, 0))
        return call if offset == self._offset else None

    def _stray(self, call_id: str) -> None:
        """Reports a result that answers no call, or comes steps after its call was answered."""
        if call_id in self._answered:
            self._report(self._offset, "result_repeated", f"an earlier step answered the call {call_id:.80}")
        else:
            self._report(self._offset, "result_without_call", f"no call has the id {call_id:.80}")

    def _answer(self, call: Call, call_id: str | None, result: Any, step: dict[str, Any], alone: bool) -> None:
        """Gives a result, which names its call by that id, to the call."""
        earlier = call.shown
        shown, told = self._observation(call.name, result, step, alone)
        call.shown = shown if earlier is None else together(earlier, shown)
        if call_id is not None:
            self._answered[call_id] = call, self._offset
        call.ends(told)
        turn = self._turn
        if turn is not None and call.shown is not None and first_among(turn.calls, [call]) is None:
            if call.late:
                self.items = [one for one in self.items if one is not earlier]
            call.late = True
            self.items.append(call.shown)
        if call.exit_code is None and isinstance(result, dict) and "extra" in result:
            call.exit_code = values.int32(result["extra"], "exit_code")

    def _observation(
        self, tool: str | None, result: Any, step: dict[str, Any], alone: bool
    ) -> tuple[Observation | None, Output]:
        """What a result shows, and what the harness's words around it tell of how the call ended."""
        if not isinstance(result, dict):
            self._report(self._offset, "bad_result", "wanted an object in the results of an observation")
            return None, Output(None)
        extra = values.table(result, "extra") if "extra" in result else values.NOTHING
        told = values.table(extra, values.OWN) if extra else extra
        raw = values.raw_result(extra) or (values.raw_result(step["extra"]) if alone and "extra" in step else None)
        if raw is not None:
            return _of_claude(raw, text_in(step.get("extra"), "tool_use_name"))
        content = result.get("content")
        shown, images = (content, ()) if isinstance(content, str) else self._content(content)
        if shown is None and not images and not told:
            return None, Output(None)
        origin, form, cut, ended = "environment", "response", "none", Output(None)
        if shown is not None and self._terminus:
            given, ended = values.terminal_output(shown)
            shown, form, origin, cut = given.content, given.form, given.origin, given.truncation
        elif shown is not None:
            ended = read_output(shown, Source(tool=tool))
            shown, cut = ended.text, "harness" if ended.cut else "none"
        if result.get("subagent_trajectory_ref"):
            origin = "agent"
        error = failed(extra) if extra else None
        made = Observation(
            content=shown,
            media_type=media_type(shown),
            form=form,
            origin=origin,
            is_error=error,
            truncation=cut,
            attachments=images,
        )
        return (values.observation(shown, told, made) if told else made), ended

    def _refer(self, result: Any, turn: Turn | None) -> None:
        """Notes the sub-agents that a result refers to."""
        given = result.get("subagent_trajectory_ref") if isinstance(result, dict) else None
        if not given:
            return
        for reference in given if isinstance(given, list) else [given]:
            if isinstance(reference, dict):
                self.references.append((reference, turn))


def _of_claude(kept: dict[str, Any], tool: str | None) -> tuple[Observation, Output]:
    """What Claude Code was given; Harbor keeps it beside a result to which it adds sections of its own."""
    raw, beside = values.table(kept, "raw_tool_result"), values.table(kept, "tool_use_result")
    seen = shown_content(raw["content"])
    source = Source(CLAUDE_CODE, None, tool, raw.get("is_error") is True)
    text, notes = apart(seen_text(seen) or "", source)
    if not source.failed:
        text, around = split_by_twin(text, put_out(beside))
        notes = (*notes, *around)
    told = read_output(text, source)
    made = observation(told.text, failed(raw), seen.attachments, truncation(text, source))
    return replace(made, origin=speaker(text, source) or made.origin), replace(told, notes=(*told.notes, *notes))
