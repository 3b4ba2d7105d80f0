"""The story of a replay: record through the proxy, stop the provider, and ask again with the real SDKs."""

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

# google-genai does what aiohttp discourages.
pytestmark = pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning")

MAIL, OTHER = "ann.lee@corp-example.org", "bob@corp-example.org"
KEY = "sk-test"
CHAT = "/v1/chat/completions"


def answer(ask: SdkCall) -> ScriptedResponse:
    """What the provider says."""
    if not ask.streaming:
        return ScriptedResponse([PLAIN_BODIES[ask.provider]])
    media = STREAM_MEDIA_TYPES.get(ask.provider, "text/event-stream")
    return ScriptedResponse(STREAM_PIECES[ask.provider], headers={"content-type": media}, chunked=True)


def unheard(_: Any) -> None:
    """Nobody listens to the events."""


@pytest.fixture
def other() -> Iterator[Upstream]:
    """A second provider, which answers otherwise, and must never be asked."""
    with uncalled_upstream() as one:
        yield one


Recorded = tuple[Path, dict[str, Any]]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """A project in which every SDK has asked in every way; what each of them returned. The provider is gone."""
    folder = tmp_path_factory.mktemp("project")
    with upstream() as server, proxy(folder, "--upstream", f"up={server.url}") as running:
        results = {}
        for ask in SDK_CALLS:
            server.respond_with(answer(ask))
            results[ask.name] = ask.call(f"{running.url}/up", unheard)
            assert 1 == len(server.received)
        ended = running.stop()
    assert f"{len(SDK_CALLS)} recorded" in ended.err
    return folder, results


def record(folder: Path, *calls: tuple[object, ScriptedResponse], address: str = CHAT, **variables: str) -> None:
    """Record some calls through the proxy."""
    with upstream() as server, proxy(folder, "--upstream", f"up={server.url}", **variables) as running:
        for body, said in calls:
            server.respond_with(said)
            httpx.post(f"{running.url}/up{address}", json=body)
        assert 0 == running.stop().code


def replay(
    folder: Path, other: Upstream, *bodies: object, arguments: tuple[str, ...] = (), **variables: str
) -> tuple[list[Any], ExitResult]:
    """Replay some calls; the bodies of the answers, and how it ended."""
    with proxy(folder, "--mode", "replay", "--upstream", f"up={other.url}", *arguments, **variables) as running:
        got = [httpx.post(f"{running.url}/up{CHAT}", json=body).json() for body in bodies]
        return got, running.stop()


# -- the real SDKs


def test_every_sdk_gets_back_what_it_got(recorded: Recorded, other: Upstream) -> None:
    """Sync, async and streaming, with the provider gone and another one watching: nobody is asked, exit 0."""
    folder, results = recorded
    with proxy(folder, "--mode", "replay", "--upstream", f"up={other.url}") as running:
        for ask in SDK_CALLS:
            assert results[ask.name] == ask.call(f"{running.url}/up", unheard), ask.name
        ended = running.stop()

    assert f"replayed {len(SDK_CALLS)} calls, 0 not recorded" in ended.err
    assert "compared without" not in ended.err
    assert 0 == ended.code


def test_every_sdk_gets_it_again_at_another_address_and_pace(recorded: Recorded) -> None:
    """As the provider's own prefix, without any upstream; ten thousand times as fast as it came."""
    folder, results = recorded
    prefixes = {"openai-responses": "openai"}
    with proxy(folder, "--mode", "replay", "--pace", "x10000") as running:
        for ask in SDK_CALLS:
            url = f"{running.url}/{prefixes.get(ask.provider, ask.provider)}"
            assert results[ask.name] == ask.call(url, unheard), ask.name
        assert 0 == running.stop().code


@pytest.mark.parametrize(
    ("ask", "path", "before"), UNRECORDED_REQUESTS, ids=lambda value: getattr(value, "__name__", "")
)
def test_a_miss_is_one_attempt_and_the_exception_says_everything(
    strict: ProxyProcess, ask: Callable[[str], Any], path: str, before: str
) -> None:
    """The path and both values, in the SDK's own exception."""
    missed = misses(strict)

    with pytest.raises(Exception, match="no recorded call matches") as caught:
        ask(f"{strict.url}/up")

    told = str(caught.value).replace('\\"', '"')
    assert f'{path}: recorded "{before}", sent "What is the capital of Spain?"' in told
    assert 1 == misses(strict) - missed


@pytest.fixture(scope="module")
def strict(recorded: Recorded) -> Iterator[ProxyProcess]:
    """A replay whose provider must never be asked."""
    with upstream() as server:
        with proxy(recorded[0], "--mode", "replay", "--upstream", f"up={server.url}") as running:
            yield running
            assert 1 == running.stop().code
        assert [] == server.received


def misses(running: ProxyProcess) -> int:
    """How many requests were answered with 418 so far."""
    page = httpx.get(f"{running.url}/metrics").text
    return sum(
        int(line.split()[-1]) for line in page.splitlines() if 'calls_total{provider="up",status="4xx"' in line
    )


def test_a_miss_that_is_swallowed_fails_the_run(recorded: Recorded, other: Upstream) -> None:
    """The application goes on as if nothing had happened; the proxy says what did, and exit 1."""
    bodies = [{"model": "m", "messages": messages} for messages in (NEW_QUESTION, NEW_QUESTION, MESSAGES)]

    _, ended = replay(recorded[0], other, *bodies)

    assert 'sent "What is the capital of Spain?" (2 times)\n' in ended.err
    assert "replayed 1 call, 2 not recorded" in ended.err
    assert 1 == ended.code


# -- exit codes


def test_nothing_asked_is_not_a_pass(recorded: Recorded, other: Upstream) -> None:
    """A gate that compared nothing: exit 3."""
    _, ended = replay(recorded[0], other)

    assert "replayed 0 calls, 0 not recorded" in ended.err
    assert 3 == ended.code


def test_an_empty_project_has_only_misses(tmp_path: Path, other: Upstream) -> None:
    """It is said at the start; each request is a miss."""
    (got,), ended = replay(tmp_path, other, chat_request("hello"))

    assert "nothing was recorded" in got["error"]["message"]
    assert "note: nothing to replay" in ended.err
    assert 1 == ended.code


@pytest.mark.parametrize(
    ("arguments", "variables", "told"),
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
def test_wrong_usage_is_exit_2(tmp_path: Path, arguments: list[str], variables: dict[str, str], told: str) -> None:
    """Unknown modes and paces are errors, never a guess; CI never records."""
    ran = traceforge("proxy", *arguments, cwd=tmp_path, **variables)

    assert 2 == ran.code
    assert told in ran.err


def test_replay_works_in_ci(recorded: Recorded, other: Upstream) -> None:
    """That is what it is for."""
    body = {"model": "m", "messages": MESSAGES}
    (got,), ended = replay(recorded[0], other, body, CI="true")

    assert "Paris" == got["choices"][0]["message"]["content"]
    assert 0 == ended.code


@pytest.mark.parametrize(
    ("match", "told"),
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
def test_a_bad_declaration_is_said_before_anything_starts(tmp_path: Path, match: dict[str, Any], told: str) -> None:
    """With its place."""
    (tmp_path / "traceforge.config.json").write_text(json.dumps({"match": match}), encoding="utf-8")

    ran = traceforge("proxy", "--mode", "replay", "--port", "0", cwd=tmp_path)

    assert "TF401" in ran.err
    assert told in ran.err
    assert 3 == ran.code
    assert 1 == traceforge("config", "check", cwd=tmp_path).code


# -- answers in turn, errors, volatile parts


def test_answers_come_in_turn_and_errors_are_replayed_as_they_were(tmp_path: Path, other: Upstream) -> None:
    """An SDK that was told to slow down tries again, and gets what it got then."""
    body = {"model": "m", "messages": MESSAGES}
    busy = ScriptedResponse(
        [b'{"error": {"message": "busy"}}'], 429, {"content-type": "application/json", "retry-after": "0"}
    )
    record(
        tmp_path, (body, busy), *((body, ScriptedResponse([json.dumps(chat_answer(text)).encode()])) for text in "ab")
    )

    with proxy(tmp_path, "--mode", "replay", "--upstream", f"up={other.url}") as running:
        with openai.OpenAI(base_url=f"{running.url}/up/v1", api_key=KEY, max_retries=1) as client:
            said = [client.chat.completions.create(**body) for _ in range(3)]  # type: ignore[call-overload]
        ended = running.stop()

    assert ["a", "b", "b"] == [one.choices[0].message.content for one in said]
    assert "replayed 4 calls, 0 not recorded" in ended.err


def test_what_is_volatile_is_ignored_and_reported(tmp_path: Path, other: Upstream) -> None:
    """Each declaration, with how often it was used."""
    settings = {"match": {"ignore_paths": ["$.user"], "ignore_patterns": ["Today is [0-9-]+"]}}
    (tmp_path / "traceforge.config.json").write_text(json.dumps(settings), encoding="utf-8")
    record(tmp_path, (chat_request("Today is 2026-01-01.", user="a"), ScriptedResponse([b'{"n": 1}'])))

    bodies = [chat_request(f"Today is 2026-01-{day}.", user=f"u{day}") for day in ("02", "03")]
    got, ended = replay(tmp_path, other, *bodies)

    assert [{"n": 1}, {"n": 1}] == got
    assert "ignored as volatile: $.user (2 times)\n" in ended.err
    assert "ignored as volatile: Today is [0-9-]+ (2 times)\n" in ended.err
    assert 0 == ended.code


def test_the_path_that_a_miss_names_makes_it_pass_once_it_is_declared(tmp_path: Path, other: Upstream) -> None:
    """Copied as it stands."""
    before, after = ({**chat_request("x"), "meta data": {"id": n}} for n in (1, 2))
    record(tmp_path, (before, ScriptedResponse([b'{"n": 1}'])))
    (got,), _ = replay(tmp_path, other, after)
    path = got["error"]["message"].partition("differs at ")[2].partition(": recorded 1, sent 2")[0]
    (tmp_path / "traceforge.config.json").write_text(
        json.dumps({"match": {"ignore_paths": [path]}}), encoding="utf-8"
    )

    got, ended = replay(tmp_path, other, after)

    assert '$["meta data"].id' == path
    assert [{"n": 1}] == got
    assert 0 == ended.code


# -- what was redacted


def mail_project(folder: Path, **variables: str) -> None:
    """A recorded call with an address in the prompt and in the arguments of a tool."""
    tool = {"id": "t", "type": "function", "function": {"name": "write", "arguments": json.dumps({"to": MAIL})}}
    message = {"role": "assistant", "content": f"Writing to {MAIL}.", "tool_calls": [tool]}
    said = chat_answer("", choices=[{"index": 0, "finish_reason": "tool_calls", "message": message}])
    record(folder, (chat_request(f"Write to {MAIL}."), ScriptedResponse([json.dumps(said).encode()])), **variables)


def addresses(got: Any) -> tuple[str, str]:
    """Where the answer writes to, in its text and in its arguments."""
    message = got["choices"][0]["message"]
    return message["content"], json.loads(message["tool_calls"][0]["function"]["arguments"])["to"]


def test_an_address_is_compared_by_its_fingerprint_and_put_back(tmp_path: Path, other: Upstream) -> None:
    """With the key; nothing on disk holds it."""
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


@pytest.mark.parametrize(("setting", "code"), [("compare", 0), ("require", 3)])
def test_without_the_key_it_is_counted_or_required(tmp_path: Path, other: Upstream, setting: str, code: int) -> None:
    """The live address is put back, whichever it is."""
    (tmp_path / "traceforge.config.json").write_text(json.dumps({"match": {"redacted": setting}}), encoding="utf-8")
    mail_project(tmp_path)

    (got,), ended = replay(tmp_path, other, chat_request(f"Write to {OTHER}."))

    assert (f"Writing to {OTHER}.", OTHER) == addresses(got)
    assert "1 call compared without 1 redacted value" in ended.err
    assert code == ended.code


def test_the_key_of_the_project_is_used(tmp_path: Path, other: Upstream) -> None:
    """`traceforge init` writes one, and nobody has to set a variable."""
    assert 0 == traceforge("init", cwd=tmp_path).code
    mail_project(tmp_path)

    got, ended = replay(tmp_path, other, chat_request(f"Write to {OTHER}."))

    assert "a redacted part differs" in got[0]["error"]["message"]
    assert 1 == ended.code


# -- auto, sessions, damage


def test_auto_replays_what_it_knows_and_records_what_is_new(tmp_path: Path) -> None:
    """What was new is known the next time."""
    known, new = chat_request("known"), chat_request("new")
    record(tmp_path, (known, ScriptedResponse([b'{"n": 1}'])))
    with upstream() as server, proxy(tmp_path, "--mode", "auto", "--upstream", f"up={server.url}") as running:
        server.respond_with(ScriptedResponse([b'{"n": 2}']))
        got = [httpx.post(f"{running.url}/up{CHAT}", json=body).json() for body in (known, new)]
        ended = running.stop()
        assert 1 == len(server.received)

        again, _ = replay(tmp_path, server, known, new)
        assert 1 == len(server.received)

    assert [{"n": 1}, {"n": 2}] == got == again
    assert "replayed 1 call, 0 not recorded, 1 new" in ended.err
    assert 0 == ended.code


def test_one_session_can_be_replayed(tmp_path: Path, other: Upstream) -> None:
    """The calls of another are not known."""
    body = chat_request("x")
    with upstream() as server, proxy(tmp_path, "--upstream", f"up={server.url}") as running:
        for session in ("one", "two"):
            server.respond_with(ScriptedResponse([json.dumps({"session": session}).encode()]))
            httpx.post(f"{running.url}/up{CHAT}", json=body, headers={"X-TraceForge-Session-ID": session})
        running.stop()

    got, _ = replay(tmp_path, other, body, body, arguments=("--session", "two"))
    none, ended = replay(tmp_path, other, body, arguments=("--session", "three"))

    assert [{"session": "two"}, {"session": "two"}] == got
    assert "nothing was recorded" in none[0]["error"]["message"]
    assert 1 == ended.code


def test_a_damaged_trace_is_said(tmp_path: Path, other: Upstream) -> None:
    """It is not the same as none, and the request is a miss."""
    record(
        tmp_path,
        (chat_request("a"), ScriptedResponse([b'{"n": 1}'])),
        (chat_request("b"), ScriptedResponse([b'{"n": 2}'])),
    )
    traceforge("trace", "list", cwd=tmp_path)
    files = sorted((tmp_path / ".ai-tests" / "traces").glob("*.json"))
    files[0].write_bytes(b"{")

    got, ended = replay(tmp_path, other, chat_request("a"), chat_request("b"))

    assert "no recorded call matches" in got[0]["error"]["message"]
    assert {"n": 2} == got[1]
    assert "note: 1 trace cannot be read: see traceforge trace verify" in ended.err
    assert 1 == ended.code
