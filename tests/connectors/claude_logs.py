"""Claude Code session logs as tests write them, and what is read of one."""

import json
from pathlib import Path
from typing import Any

from tests.rows import parsed as rows_of
from trajmill.connectors.agents.claude_code import ClaudeCode
from trajmill.connectors.connector import MemoryBlob
from trajmill.schemas import ParseError, Reject, Step, Trajectory

FIXTURES = Path(__file__).parents[1] / "fixtures" / "claude_code"
CONNECTOR = ClaudeCode()
SESSION = "0a0a0a0a-0000-4000-8000-000000000000"

Line = dict[str, Any]


def parsed(data: bytes, uri: str = "log.jsonl") -> tuple[list[Trajectory], list[Reject]]:
    """The trajectories and rejects of a log; a `ParseError` becomes the last reject."""
    trajectories: list[Trajectory] = []
    rejects: list[Reject] = []
    try:
        for record in CONNECTOR.parse(MemoryBlob(uri, data)):
            (trajectories if isinstance(record, Trajectory) else rejects).append(record)  # type: ignore[arg-type]
    except ParseError as error:
        rejects.append(Reject.of(error, "input", CONNECTOR.name))
    return trajectories, rejects


def rows(data: bytes) -> list[dict[str, Any]]:
    """The rows of a log, after the invariants hold."""
    log_rows: list[dict[str, Any]] = rows_of(CONNECTOR, MemoryBlob("log.jsonl", data))[0]
    return log_rows


def log(*lines: Line | str) -> bytes:
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    return "".join(f"{text}\n" for text in texts).encode()


class Talk:
    """Lines of one conversation, each following the last one unless told otherwise."""

    def __init__(self, session: str = SESSION, **more: Any) -> None:
        self.session = session
        self.more = more
        self.last: str | None = None
        self.count = 0

    def line(self, kind: str, uuid: str, parent: str | None = "", **more: Any) -> Line:
        self.count += 1
        follows = self.last if parent == "" else parent
        self.last = uuid
        header = {"parentUuid": follows, "isSidechain": False, "sessionId": self.session}
        moment = f"2025-11-03T09:{self.count // 60:02d}:{self.count % 60:02d}.000Z"
        return {**header, "type": kind, "uuid": uuid, "timestamp": moment, **self.more, **more}

    def user(self, uuid: str, content: Any, parent: str | None = "", **more: Any) -> Line:
        return self.line("user", uuid, parent, message={"role": "user", "content": content}, **more)

    def agent(self, uuid: str, message: str, *blocks: Any, parent: str | None = "", **more: Any) -> Line:
        body = {"role": "assistant", "id": message, "model": "claude-x", "content": list(blocks)}
        return self.line("assistant", uuid, parent, message=body, **more)

    def call(self, uuid: str, message: str, call: str, parent: str | None = "", **arguments: Any) -> Line:
        return self.agent(uuid, message, use(call, "Bash", **(arguments or {"command": call})), parent=parent)

    def result(self, uuid: str, call: str, content: Any, parent: str | None = "", **more: Any) -> Line:
        block = {"type": "tool_result", "tool_use_id": call, "content": content, **more.pop("block", {})}
        return self.user(uuid, [block], parent, **more)


def use(call: str, tool: str, **arguments: Any) -> Line:
    return {"type": "tool_use", "id": call, "name": tool, "input": arguments}


def text(words: str) -> Line:
    return {"type": "text", "text": words}


def answered(tool: str, content: Any, **more: Any) -> Step:
    """The step of one call of a tool that was answered with `content`."""
    talk = Talk()
    lines = [
        talk.user("u", "go", None),
        talk.agent("a", "msg_1", use("t1", tool)),
        talk.result("r", "t1", content, **more),
    ]
    trajectories, _ = parsed(log(*lines))
    return trajectories[0].steps[0]


def seen(step: Step) -> str | None:
    return step.next_observation.content if step.next_observation else None


def before(step: Step) -> str | None:
    return step.observation.content if step.observation else None


def said(step: Step) -> list[tuple[str, str]]:
    return [(message["role"], message["content"]) for message in json.loads(step.interleaved or "[]")]
