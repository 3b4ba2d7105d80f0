"""Replay through the proxy: record, stop the provider, and call again with the real SDKs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from support.command import traceforge
from support.exchanges import chat_answer, chat_request
from support.proxy_process import ExitResult, ProxyProcess, proxy
from support.sdk_calls import MESSAGES, PLAIN_BODIES, SDK_CALLS, STREAM_MEDIA_TYPES, STREAM_PIECES, SdkCall
from support.unrecorded_requests import NEW_QUESTION, UNRECORDED_REQUESTS
from support.upstream import ScriptedResponse, Upstream, uncalled_upstream, upstream

# google-genai subclasses what aiohttp discourages.
pytestmark = pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning")

MAIL, OTHER = "ann.lee@corp-example.org", "bob@corp-example.org"
KEY = "sk-test"
CHAT = "/v1/chat/completions"


def answer(ask: SdkCall) -> ScriptedResponse:
    """The provider's response."""
    if not ask.streaming:
        return ScriptedResponse([PLAIN_BODIES[ask.provider]])
    media = STREAM_MEDIA_TYPES.get(ask.provider, "text/event-stream")
    return ScriptedResponse(STREAM_PIECES[ask.provider], headers={"content-type": media}, chunked=True)


def ignore_event(_: Any) -> None:
    """For SDK calls whose events are not needed."""


@pytest.fixture
def other() -> Iterator[Upstream]:
    """A second provider with other answers, which must never be called."""
    with uncalled_upstream() as provider:
        yield provider


Recorded = tuple[Path, dict[str, Any]]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """A project with calls of every SDK in every way, and the results of each. The provider is stopped."""
    folder = tmp_path_factory.mktemp("project")
    with upstream() as server, proxy(folder, "--upstream", f"up={server.url}") as running:
        results = {}
        for ask in SDK_CALLS:
            server.respond_with(answer(ask))
            results[ask.name] = ask.call(f"{running.url}/up", ignore_event)
            assert 1 == len(server.received)
        ended = running.stop()
    assert f"{len(SDK_CALLS)} recorded" in ended.err
    return folder, results


def record(folder: Path, *calls: tuple[object, ScriptedResponse], address: str = CHAT, **variables: str) -> None:
    """Record some calls through the proxy."""
    with upstream() as server, proxy(folder, "--upstream", f"up={server.url}", **variables) as running:
        for body, response in calls:
            server.respond_with(response)
            httpx.post(f"{running.url}/up{address}", json=body)
        assert 0 == running.stop().code


def replay(
    folder: Path, other: Upstream, *bodies: object, arguments: tuple[str, ...] = (), **variables: str
) -> tuple[list[Any], ExitResult]:
    """Replay some calls; the answers, and the proxy's exit."""
    with proxy(folder, "--mode", "replay", "--upstream", f"up={other.url}", *arguments, **variables) as running:
        answers = [httpx.post(f"{running.url}/up{CHAT}", json=body).json() for body in bodies]
        return answers, running.stop()


# -- the real SDKs


@pytest.mark.slow
def test_every_sdk_gets_the_recorded_response(recorded: Recorded, other: Upstream) -> None:
    """Sync, async and streaming, while another provider is watching and not called; exit 0."""
    folder, results = recorded
    with proxy(folder, "--mode", "replay", "--upstream", f"up={other.url}") as running:
        for ask in SDK_CALLS:
            assert results[ask.name] == ask.call(f"{running.url}/up", ignore_event), ask.name
        ended = running.stop()

    assert f"replayed {len(SDK_CALLS)} calls, 0 not replayed" in ended.err
    assert "compared without" not in ended.err
    assert 0 == ended.code


@pytest.mark.slow
def test_every_sdk_gets_the_recorded_response_at_another_address_and_pace(
    recorded: Recorded, other: Upstream
) -> None:
    """Under the provider's own prefix, which is another server of this machine; ten thousand times as fast."""
    folder, results = recorded
    prefixes = {"openai-responses": "openai"}
    providers = {prefixes.get(ask.provider, ask.provider) for ask in SDK_CALLS}
    upstreams = [word for provider in providers for word in ("--upstream", f"{provider}={other.url}")]
    with proxy(folder, "--mode", "replay", "--pace", "x10000", *upstreams) as running:
        for ask in SDK_CALLS:
            url = f"{running.url}/{prefixes.get(ask.provider, ask.provider)}"
            assert results[ask.name] == ask.call(url, ignore_event), ask.name
        assert 0 == running.stop().code


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ask", "path", "before"), UNRECORDED_REQUESTS, ids=lambda value: getattr(value, "__name__", "")
)
def test_a_miss_is_one_attempt_and_the_exception_explains_it(
    strict: ProxyProcess, ask: Callable[[str], Any], path: str, before: str
) -> None:
    """The path and both values, in the SDK's own exception."""
    missed = misses(strict)

    with pytest.raises(Exception, match="no recorded call matches") as caught:
        ask(f"{strict.url}/up")

    message = str(caught.value).replace('\\"', '"')
    assert f'{path}: recorded "{before}", sent "What is the capital of Spain?"' in message
    assert 1 == misses(strict) - missed


@pytest.fixture(scope="module")
def strict(recorded: Recorded) -> Iterator[ProxyProcess]:
    """A replay whose provider must never be called."""
    with upstream() as server:
        with proxy(recorded[0], "--mode", "replay", "--upstream", f"up={server.url}") as running:
            yield running
            assert 1 == running.stop().code
        assert [] == server.received


def misses(running: ProxyProcess) -> int:
    """The number of requests answered with 418."""
    page = httpx.get(f"{running.url}/metrics").text
    return sum(
        int(line.split()[-1]) for line in page.splitlines() if 'calls_total{provider="up",status="4xx"' in line
    )


def test_a_swallowed_miss_fails_the_run(recorded: Recorded, other: Upstream) -> None:
    """The application continues; the proxy reports the miss, exit 1."""
    bodies = [{"model": "m", "messages": messages} for messages in (NEW_QUESTION, NEW_QUESTION, MESSAGES)]

    _, ended = replay(recorded[0], other, *bodies)

    assert 'sent "What is the capital of Spain?" (2 times)\n' in ended.err
    assert "replayed 1 call, 2 not replayed" in ended.err
    assert 1 == ended.code


# -- exit codes


def test_a_replay_without_requests_is_exit_3(recorded: Recorded, other: Upstream) -> None:
    _, ended = replay(recorded[0], other)

    assert "replayed 0 calls, 0 not replayed" in ended.err
    assert 3 == ended.code


def test_an_empty_project_has_only_misses(tmp_path: Path, other: Upstream) -> None:
    """A note at the start says so."""
    (answer,), ended = replay(tmp_path, other, chat_request("hello"))

    assert "nothing was recorded" in answer["error"]["message"]
    assert "note: nothing to replay" in ended.err
    assert 1 == ended.code


@pytest.mark.parametrize(
    ("arguments", "variables", "message"),
    [
        (["--mode", "strict"], {}, "strict"),
        (["--mode", "replay", "--pace", "fast"], {}, "--pace"),
        (["--mode", "replay", "--pace", "x0"], {}, "--pace"),
        (["--mode", "replay", "--pace", "x-1"], {}, "--pace"),
        (["--mode", "replay", "--pace", "xnan"], {}, "--pace"),
        (["--mode", "replay", "--pace", "10"], {}, "--pace"),
        (["--mode", "auto"], {"CI": "true"}, "CI is set"),
        (["--mode", "auto"], {"CI": "1"}, "CI is set"),
        (["--mode", "replay", "--workers", "2"], {}, "--workers 1"),
    ],
)
def test_wrong_usage_is_exit_2(tmp_path: Path, arguments: list[str], variables: dict[str, str], message: str) -> None:
    """Unknown modes and paces; CI never records."""
    ran = traceforge("proxy", *arguments, cwd=tmp_path, **variables)

    assert 2 == ran.code
    assert message in ran.err


def test_replay_works_in_ci(recorded: Recorded, other: Upstream) -> None:
    body = {"model": "m", "messages": MESSAGES}
    (answer,), ended = replay(recorded[0], other, body, CI="true")

    assert "Paris" == answer["choices"][0]["message"]["content"]
    assert 0 == ended.code


@pytest.mark.parametrize(
    ("match", "message"),
    [
        (
            {"ignore_paths": ["messages"]},
            "traceforge.config.json: match.ignore_paths[0] is not a JSON path: 'messages'",
        ),
        (
            {"ignore_patterns": ["x", "("]},
            "traceforge.config.json: match.ignore_patterns[1] is not a google-re2 expression",
        ),
        ({"redacted": "sometimes"}, "match.redacted"),
        ({"ignored": []}, "unknown key match.ignored"),
    ],
)
def test_an_invalid_match_setting_is_an_error_at_the_start(
    tmp_path: Path, match: dict[str, Any], message: str
) -> None:
    """With its place."""
    (tmp_path / "traceforge.config.json").write_text(json.dumps({"match": match}), encoding="utf-8")

    ran = traceforge("proxy", "--mode", "replay", "--port", "0", cwd=tmp_path)

    assert "TF401" in ran.err
    assert message in ran.err
    assert 3 == ran.code
    assert 1 == traceforge("config", "check", cwd=tmp_path).code


# -- answers in turn, errors, volatile parts


@pytest.mark.slow
def test_answers_come_in_order_and_errors_are_replayed(tmp_path: Path, other: Upstream) -> None:
    """An SDK that got a 429 retries, and gets the recorded answer."""
    body = {"model": "m", "messages": MESSAGES}
    busy = ScriptedResponse(
        [b'{"error": {"message": "busy"}}'], 429, {"content-type": "application/json", "retry-after": "0"}
    )
    record(
        tmp_path, (body, busy), *((body, ScriptedResponse([json.dumps(chat_answer(text)).encode()])) for text in "ab")
    )

    with proxy(tmp_path, "--mode", "replay", "--upstream", f"up={other.url}") as running:
        with openai.OpenAI(base_url=f"{running.url}/up/v1", api_key=KEY, max_retries=1) as client:
            completions = [client.chat.completions.create(**body) for _ in range(3)]  # type: ignore[call-overload]
        ended = running.stop()

    assert ["a", "b", "b"] == [completion.choices[0].message.content for completion in completions]
    assert "replayed 4 calls, 0 not replayed" in ended.err


@pytest.mark.slow
def test_volatile_fields_are_ignored_and_reported(tmp_path: Path, other: Upstream) -> None:
    """Each setting, with its number of uses."""
    settings = {"match": {"ignore_paths": ["$.user"], "ignore_patterns": ["Today is [0-9-]+"]}}
    (tmp_path / "traceforge.config.json").write_text(json.dumps(settings), encoding="utf-8")
    record(tmp_path, (chat_request("Today is 2026-01-01.", user="a"), ScriptedResponse([b'{"n": 1}'])))

    bodies = [chat_request(f"Today is 2026-01-{day}.", user=f"u{day}") for day in ("02", "03")]
    answers, ended = replay(tmp_path, other, *bodies)

    assert [{"n": 1}, {"n": 1}] == answers
    assert "ignored as volatile: $.user (2 times)\n" in ended.err
    assert "ignored as volatile: Today is [0-9-]+ (2 times)\n" in ended.err
    assert 0 == ended.code


@pytest.mark.slow
def test_declaring_the_path_of_a_miss_as_volatile_makes_it_pass(tmp_path: Path, other: Upstream) -> None:
    """Copied from the message."""
    before, after = ({**chat_request("x"), "meta data": {"id": n}} for n in (1, 2))
    record(tmp_path, (before, ScriptedResponse([b'{"n": 1}'])))
    (answer,), _ = replay(tmp_path, other, after)
    path = answer["error"]["message"].partition("differs at ")[2].partition(": recorded 1, sent 2")[0]
    (tmp_path / "traceforge.config.json").write_text(
        json.dumps({"match": {"ignore_paths": [path]}}), encoding="utf-8"
    )

    answer, ended = replay(tmp_path, other, after)

    assert '$["meta data"].id' == path
    assert [{"n": 1}] == answer
    assert 0 == ended.code


# -- what was redacted


def mail_project(folder: Path, **variables: str) -> None:
    """A recorded call with an address in the prompt and in the arguments of a tool."""
    tool = {"id": "t", "type": "function", "function": {"name": "write", "arguments": json.dumps({"to": MAIL})}}
    message = {"role": "assistant", "content": f"Writing to {MAIL}.", "tool_calls": [tool]}
    response_body = chat_answer("", choices=[{"index": 0, "finish_reason": "tool_calls", "message": message}])
    record(
        folder,
        (chat_request(f"Write to {MAIL}."), ScriptedResponse([json.dumps(response_body).encode()])),
        **variables,
    )


def addresses(answer: Any) -> tuple[str, str]:
    """The address in the answer's text, and the one in its arguments."""
    message = answer["choices"][0]["message"]
    return message["content"], json.loads(message["tool_calls"][0]["function"]["arguments"])["to"]


@pytest.mark.slow
def test_an_address_is_compared_by_its_fingerprint_and_put_back(tmp_path: Path, other: Upstream) -> None:
    """With the key; no file has the address."""
    mail_project(tmp_path, TRACEFORGE_MATCH_KEY="k")

    (same, wrong), ended = replay(
        tmp_path,
        other,
        chat_request(f"Write to {MAIL}."),
        chat_request(f"Write to {OTHER}."),
        TRACEFORGE_MATCH_KEY="k",
    )

    assert (f"Writing to {MAIL}.", MAIL) == addresses(same)
    assert "a redacted part differs at $.messages[0].content" in wrong["error"]["message"]
    assert OTHER not in json.dumps(wrong) + ended.err
    assert 1 == ended.code
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert not any(MAIL.encode() in file.read_bytes() for file in files)


@pytest.mark.slow
@pytest.mark.parametrize(("setting", "code"), [("count", 0), ("require", 3)])
def test_without_the_key_an_unverified_address_is_counted_or_refused(
    tmp_path: Path, other: Upstream, setting: str, code: int
) -> None:
    """The live address is put back, whatever it is."""
    (tmp_path / "traceforge.config.json").write_text(json.dumps({"match": {"redacted": setting}}), encoding="utf-8")
    mail_project(tmp_path)

    (answer,), ended = replay(tmp_path, other, chat_request(f"Write to {OTHER}."))

    assert (f"Writing to {OTHER}.", OTHER) == addresses(answer)
    assert "1 call compared without 1 redacted value" in ended.err
    assert code == ended.code


@pytest.mark.slow
def test_the_key_of_the_project_is_used(tmp_path: Path, other: Upstream) -> None:
    """`traceforge init` writes one; no variable is needed."""
    assert 0 == traceforge("init", cwd=tmp_path).code
    mail_project(tmp_path)

    answers, ended = replay(tmp_path, other, chat_request(f"Write to {OTHER}."))

    assert "a redacted part differs" in answers[0]["error"]["message"]
    assert 1 == ended.code


# -- auto, sessions, damage


@pytest.mark.slow
def test_auto_replays_recorded_requests_and_records_new_ones(tmp_path: Path) -> None:
    """A new request is replayed the next time."""
    recorded_request, new_request = chat_request("known"), chat_request("new")
    record(tmp_path, (recorded_request, ScriptedResponse([b'{"n": 1}'])))
    with upstream() as server, proxy(tmp_path, "--mode", "auto", "--upstream", f"up={server.url}") as running:
        server.respond_with(ScriptedResponse([b'{"n": 2}']))
        answers = [
            httpx.post(f"{running.url}/up{CHAT}", json=body).json() for body in (recorded_request, new_request)
        ]
        ended = running.stop()
        assert 1 == len(server.received)

        replayed, _ = replay(tmp_path, server, recorded_request, new_request)
        assert 1 == len(server.received)

    assert [{"n": 1}, {"n": 2}] == answers == replayed
    assert "replayed 1 call, 0 not replayed, 1 new" in ended.err
    assert 0 == ended.code


@pytest.mark.slow
def test_one_session_can_be_replayed(tmp_path: Path, other: Upstream) -> None:
    """Calls of another session are misses."""
    body = chat_request("x")
    with upstream() as server, proxy(tmp_path, "--upstream", f"up={server.url}") as running:
        for session in ("one", "two"):
            server.respond_with(ScriptedResponse([json.dumps({"session": session}).encode()]))
            httpx.post(f"{running.url}/up{CHAT}", json=body, headers={"X-TraceForge-Session-ID": session})
        running.stop()

    answers, _ = replay(tmp_path, other, body, body, arguments=("--session", "two"))
    none, ended = replay(tmp_path, other, body, arguments=("--session", "three"))

    assert [{"session": "two"}, {"session": "two"}] == answers
    assert "nothing was recorded" in none[0]["error"]["message"]
    assert 1 == ended.code


@pytest.mark.slow
def test_a_damaged_trace_is_reported(tmp_path: Path, other: Upstream) -> None:
    """And its request is a miss."""
    record(
        tmp_path,
        (chat_request("a"), ScriptedResponse([b'{"n": 1}'])),
        (chat_request("b"), ScriptedResponse([b'{"n": 2}'])),
    )
    traceforge("trace", "list", cwd=tmp_path)
    files = sorted((tmp_path / ".ai-tests" / "traces").glob("*.json"))
    files[0].write_bytes(b"{")

    answers, ended = replay(tmp_path, other, chat_request("a"), chat_request("b"))

    assert "no recorded call matches" in answers[0]["error"]["message"]
    assert {"n": 2} == answers[1]
    assert "note: 1 trace cannot be read: see traceforge trace verify" in ended.err
    assert 1 == ended.code
