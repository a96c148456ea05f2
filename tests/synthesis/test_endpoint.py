"""Endpoints: what fails for the moment is repeated, what was answered is not asked again, costs keep their bound."""

import builtins
from pathlib import Path
from typing import Any

import pytest

from tests.synthesis.chat_server import ChatServer, chat_server, completion
from trajmill.pipelines.storage.folders import Folder
from trajmill.schemas import ConfigError, ShardError
from trajmill.synthesis.endpoint import Address, Endpoint, Pace, most_tokens, openai_library, reply_of
from trajmill.synthesis.replies import Prices, Replies, Reply, Request, Spending, SpentError, Usage

PRICES = Prices(2.0, 10.0)
ONE_ANSWER = 100 * 2 / 1e6 + 200 * 10 / 1e6


@pytest.fixture
def chat():
    with chat_server(lambda _: "an answer") as server:
        yield server


def endpoint(chat: ChatServer, folder: Path, spending: Spending | None = None, pace: Pace | None = None, **more: Any):
    address = Address(chat.url, prices=PRICES, **{"retries": 5, "timeout_s": 20.0, **more})
    return Endpoint(address, Replies(Folder(str(folder))), spending or Spending(), pace or Pace(None))


def request(index: int = 0, **sampling: Any) -> Request:
    return Request("m", ({"role": "user", "content": "what now?"},), sampling, index)


@pytest.mark.parametrize("fault", [429, 503, "reset", b"{not json", b'{"choices": []}'])
def test_what_fails_for_the_moment_is_asked_again(chat, tmp_path, fault):
    chat.faults = [fault, fault]
    assert endpoint(chat, tmp_path).ask(request()).content == "an answer"
    assert chat.met == 3


def test_an_endpoint_that_never_answers_ends_the_run_and_may_be_asked_again(chat, tmp_path):
    chat.faults = [500] * 6
    spending = Spending(bound=1.0)
    with pytest.raises(ShardError, match="500"):
        endpoint(chat, tmp_path, spending).ask(request())
    assert chat.met == 6
    assert spending._held == 0
    assert endpoint(chat, tmp_path).ask(request()).content == "an answer"


def test_an_endpoint_that_is_not_there_is_told_by_its_address(tmp_path):
    address = Address("http://127.0.0.1:9/v1", retries=1)
    with pytest.raises(ShardError, match=r"127\.0\.0\.1:9/v1"):
        Endpoint(address, Replies(Folder(str(tmp_path))), Spending(), Pace(None)).ask(request())


@pytest.mark.parametrize("status", [401, 404])
def test_a_key_or_model_that_is_not_known_ends_it_at_once(chat, tmp_path, status):
    chat.faults = [status]
    with pytest.raises(ConfigError):
        endpoint(chat, tmp_path).ask(request())
    assert chat.met == 1


def test_a_request_that_is_not_taken_is_no_answer_and_is_not_kept(chat, tmp_path):
    chat.faults = [400]
    client = endpoint(chat, tmp_path)
    assert client.ask(request()).finish == "refused"
    assert client.ask(request()).content == "an answer"


def test_settings_that_an_endpoint_never_takes_are_told(chat, tmp_path):
    chat.faults = [400] * 8
    client = endpoint(chat, tmp_path)
    for index in range(7):
        assert client.ask(request(index)).finish == "refused"
    with pytest.raises(ConfigError, match="8"):
        client.ask(request(7))


def test_an_answer_is_kept_by_request_model_sampling_and_number(chat, tmp_path):
    different = [request(), request(1), request(temperature=0.5), Request("n", request().messages)]
    for _ in range(2):
        client = endpoint(chat, tmp_path)
        for variant in different:
            client.ask(variant)
    assert len(chat.asked) == 4
    assert len({variant.key for variant in different}) == 4


def test_a_kept_answer_that_is_cut_off_is_asked_for_again(chat, tmp_path):
    endpoint(chat, tmp_path).ask(request())
    (file,) = tmp_path.rglob("*.json")
    file.write_bytes(file.read_bytes()[:20])
    assert endpoint(chat, tmp_path).ask(request()).content == "an answer"
    assert len(chat.asked) == 2


def test_the_key_is_sent_and_stands_in_no_file(chat, tmp_path):
    endpoint(chat, tmp_path, key="sk-secret").ask(request())
    assert chat.keys == {"Bearer sk-secret"}
    assert not any(b"sk-secret" in file.read_bytes() for file in tmp_path.rglob("*.json"))


def test_costs_are_those_of_the_tokens_that_the_endpoint_counted(chat, tmp_path):
    spending = Spending()
    client = endpoint(chat, tmp_path, spending)
    for index in range(3):
        client.ask(request(index))
    assert spending.usage == Usage(300, 600)
    assert spending.cost == pytest.approx(3 * ONE_ANSWER)
    again = Spending()
    endpoint(chat, tmp_path, again).ask(request(0))
    assert (again.known, again.asked, again.fetched_cost) == (1, 0, 0.0)
    assert again.cost == pytest.approx(ONE_ANSWER)


def test_an_answer_without_a_count_is_booked_at_the_most_that_it_may_cost(tmp_path):
    spending = Spending()
    with chat_server(lambda _: {**completion("x"), "usage": None}) as chat:
        endpoint(chat, tmp_path, spending).ask(request(max_tokens=500))
    assert spending.uncounted == 1
    assert spending.cost == PRICES.cost(most_tokens(request(max_tokens=500)))


def test_no_request_is_sent_that_might_pass_the_bound(chat, tmp_path):
    most = PRICES.cost(most_tokens(request(max_tokens=200)))
    spending = Spending(bound=2 * ONE_ANSWER + most)
    client = endpoint(chat, tmp_path, spending)
    client.ask(request(0, max_tokens=200))
    client.ask(request(1, max_tokens=200))
    client.ask(request(2, max_tokens=200))
    with pytest.raises(SpentError):
        client.ask(request(3, max_tokens=200))
    assert len(chat.asked) == 3


def test_requests_keep_their_distance_and_repeated_ones_too(chat, tmp_path):
    now, waits = [0.0], []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        now[0] += seconds

    pace = Pace(120, clock=lambda: now[0], sleep=sleep)
    chat.faults = [429, "reset"]
    client = endpoint(chat, tmp_path, pace=pace)
    client.ask(request(0))
    client.ask(request(1))
    assert chat.met == 4
    assert waits == [0.5, 0.5, 0.5]


def test_without_the_client_the_message_names_the_extra(monkeypatch):
    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name == "openai":
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ConfigError, match="llm"):
        openai_library()


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://x/v1", ""])
def test_an_address_that_is_none_is_told(url):
    with pytest.raises(ConfigError):
        Address(url)


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (completion("a", "thought"), Reply("a", "thought", "stop", Usage(100, 200), "fp-7")),
        ({"choices": [{"message": {"content": None, "reasoning": "r"}}]}, Reply("", "r")),
        ({"choices": [{"message": {"content": "\ud800x"}}]}, Reply("?x")),
        ({"choices": [{"message": {"content": None}}]}, None),
        ({"choices": [{"message": {"content": ["a"]}}]}, None),
        ({"choices": [{"message": None}]}, None),
        ({"error": "x"}, None),
    ],
)
def test_only_a_chat_completion_is_read_as_one(body, found):
    import json

    assert reply_of(json.dumps(body).encode()) == found
