"""From an exchange to a trace."""

from __future__ import annotations

import json
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.corpus import need_shared
from support.corpus_traffic import interactions, one_in
from support.exchanges import (
    COMPOSER,
    REDACTOR,
    chat_answer,
    chat_request,
    corpus_exchange,
    make_exchange,
    response_bytes,
    streamed_trace,
    trace_body,
)
from support.json_texts import fuzz, json_texts, nest
from support.wire_transcripts import CHAT, GENERATING, MESSAGES, NDJSON, SSE, sse
from traceforge.exchange import Caller, CallOutcome, Exchange
from traceforge.redact.redactions import REDACTED, Redacted, Redaction
from traceforge.redact.redactor import Redactor
from traceforge.traces.chunk_file import read_chunks
from traceforge.traces.trace_composer import TraceComposer
from traceforge.traces.trace_summary import summarize_trace

MAIL = "ann.lee@corp-example.org"


@one_in
def test_every_call_of_the_corpus_becomes_a_valid_trace(one_in: int) -> None:
    """It reads back, with the response byte for byte and the same chunks."""
    byte_equal = 0
    for number, interaction in enumerate(interactions(need_shared("corpus/llm"))):
        if number % one_in:
            continue
        exchange = corpus_exchange(interaction, number)

        stored = COMPOSER.compose(exchange)

        body = trace_body(stored)
        assert summarize_trace(body) == stored.summary, interaction.name
        if "redacted" in body or body["wire"].get("encoding"):
            continue
        response_body = b"".join(chunk.data for chunk in exchange.chunks)
        if stored.chunks:
            pieces = [chunk.data for chunk in exchange.chunks]
            assert pieces == [chunk.data for chunk in read_chunks(stored.chunks)], interaction.name
        elif not isinstance(body["provider_response"], dict) or "b64" not in body["provider_response"]:
            assert response_body == response_bytes(stored), interaction.name
            byte_equal += 1
    assert byte_equal > 6800 / one_in


def test_composing_is_deterministic() -> None:
    """The same call gives the same bytes, from any composer."""
    secret = {"a": MAIL, "stream": True}
    exchange = make_exchange(CHAT, chat_request(MAIL, **secret), chat_answer(f"to {MAIL} and {MAIL}"))

    assert COMPOSER.compose(exchange) == TraceComposer(REDACTOR).compose(exchange) == COMPOSER.compose(exchange)


def test_composing_is_deterministic_where_a_name_is_an_echo() -> None:
    """The path of such a member has the name that is stored, and not the marker that stood for it meanwhile."""
    exchange = make_exchange(CHAT, chat_request(MAIL), {"id": "r", "accounts": {MAIL: 1}})
    trace = trace_body(COMPOSER.compose(exchange))

    assert ['$.accounts["[REDACTED]"]'] == [entry["path"] for entry in trace["redacted"]["response"]]


def test_heads_that_differ_in_their_length_share_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client sends the same address and the same key with bodies of any length."""
    composer, work = TraceComposer(REDACTOR), []
    redact_url, with_values = Redactor.redact_url, Redactor.with_values

    def note_url(redactor: Redactor, url: str, path: str = "$") -> Redacted[str]:
        work.append("url")
        return redact_url(redactor, url, path)

    def note_values(redactor: Redactor, redactions: Iterable[Redaction]) -> Redactor:
        redactions = list(redactions)
        work.extend(item.reveal() for item in redactions)
        return with_values(redactor, redactions)

    monkeypatch.setattr(Redactor, "redact_url", note_url)
    monkeypatch.setattr(Redactor, "with_values", note_values)
    for length in ("10", "11", "12"):
        headers = [("api-key", "q7bz4" * 6), ("Content-Length", length)]
        trace = trace_body(
            composer.compose(make_exchange(CHAT, chat_request("hi"), chat_answer("ho"), headers=headers))
        )
        assert [f"api-key: {REDACTED}", f"Content-Length: {length}"] == trace["wire"]["request_headers"][-2:]

    assert (1, 1) == (work.count("url"), work.count("q7bz4" * 6))


@fuzz(200)
@given(json_texts, json_texts, st.sampled_from(GENERATING), st.sampled_from([200, 400, 500]))
def test_any_json_on_both_sides_gives_a_valid_trace(
    request_body: bytes, response_body: bytes, address: str, status: int
) -> None:
    """What a client or a provider writes is theirs; the answer can be written again where nothing was redacted."""
    stored = COMPOSER.compose(make_exchange(address, request_body, response_body, status=status))

    body = trace_body(stored)
    assert "redacted" in body or response_body == response_bytes(stored)


@fuzz(200)
@given(st.binary(max_size=80), st.binary(max_size=80), st.sampled_from([SSE, NDJSON, "application/json", "a/b", ""]))
def test_any_bytes_on_both_sides_give_a_valid_trace(
    request_body: bytes, response_body: bytes, media_type: str
) -> None:
    """Not even JSON."""
    for address in GENERATING:
        assert trace_body(
            COMPOSER.compose(
                make_exchange(
                    address, request_body, response_body, media_type=media_type, request_media_type=media_type
                )
            )
        )


@pytest.mark.parametrize("depth", [140, 150, 151, 199, 200, 201, 400, 1_000])
@pytest.mark.parametrize("address", GENERATING)
def test_a_body_of_any_depth_gives_a_valid_trace(depth: int, address: str) -> None:
    """A value that would nest too deep in a trace is kept as text, and is clean all the same."""
    deep = nest(json.dumps(MAIL), depth, "{[").encode()

    for media_type, body in (("application/json", deep), (SSE, b"data: " + deep + b"\n\n")):
        stored = COMPOSER.compose(make_exchange(address, deep, body, media_type=media_type))

        assert trace_body(stored)
        assert MAIL.encode() not in stored.trace + stored.chunks


def test_an_invalid_request_is_stored_without_its_unified_view() -> None:
    """The unified view goes, the body stays."""
    request = {"model": 7, "messages": [{"role": "alien", "content": 5}]}

    body = trace_body(COMPOSER.compose(make_exchange(CHAT, request, chat_answer("x"))))

    assert request == body["provider_request"]
    assert chat_answer("x") == body["provider_response"]


def test_an_invalid_response_is_stored_without_its_unified_view() -> None:
    """Such as one whose choices are of the wrong type."""
    answer = chat_answer("x", choices=[{"index": "first", "message": {"role": 3}}], usage={"total_tokens": -1})

    body = trace_body(COMPOSER.compose(make_exchange(CHAT, chat_request("x"), answer)))

    assert answer == body["provider_response"]


def test_json_with_the_media_type_of_a_form_gives_a_valid_trace() -> None:
    """Cleaned as a form it may be no JSON any more."""
    data = b'{"a":  "x&key=abcdef&b=2"}'

    body = trace_body(COMPOSER.compose(make_exchange(CHAT, data, data, media_type="application/x-www-form-urlencoded",
                                       request_media_type="application/x-www-form-urlencoded")))  # fmt: skip

    assert b"abcdef" not in json.dumps(body).encode()


def test_a_plain_body_is_kept_with_its_layout() -> None:
    """Compact or indented, with a line end or without, and as text where none of the four gives the bytes."""
    value = {"id": "1", "n": [1, 2.5], "text": "é"}
    texts = {
        "compact": json.dumps(value, separators=(",", ":"), ensure_ascii=False),
        "indented-lf": json.dumps(value, indent=2, ensure_ascii=False) + "\n",
        "": json.dumps(value),
    }
    for layout, text in texts.items():
        stored = COMPOSER.compose(make_exchange("/v1/other", b"", text.encode()))

        assert layout == trace_body(stored)["wire"].get("response_layout", "")
        assert text.encode() == response_bytes(stored)


# ---------------------------------------------------------------------------------------------
# How a call went


def _outcome(exchange: Exchange) -> tuple[str, str, str, str]:
    body = trace_body(COMPOSER.compose(exchange))
    return (
        body["metadata"]["status"], body["metadata"].get("error", ""),
        body["wire"]["ending"], body["wire"]["outcome"],
    )  # fmt: skip


STREAM = sse(*({"choices": [{"index": 0, "delta": {"content": text}}]} for text in ("a", "b")), with_done=True)


def test_a_call_that_succeeded_says_so() -> None:
    """Plain or as a stream."""
    assert ("success", "", "complete", "answered") == _outcome(
        make_exchange(CHAT, chat_request("x"), chat_answer("y"))
    )
    stored = streamed_trace(1)
    assert "success" == stored.summary.status
    assert stored.summary.streamed


def test_a_call_without_an_answer_has_the_reason() -> None:
    """No response and no ending; the reason is redacted."""
    failed = make_exchange(
        CHAT, chat_request("x"), b"", status=0, outcome=CallOutcome.FAILED, error=f"no route to {MAIL}"
    )

    assert ("error", f"no route to {REDACTED}", "none", "failed") == _outcome(failed)
    assert trace_body(COMPOSER.compose(failed))["response"] is None


def test_a_stream_that_broke_off_is_an_error() -> None:
    """What had come is kept."""
    cut = make_exchange(CHAT, b"{}", STREAM[:60], media_type=SSE, outcome=CallOutcome.CUT, error="connection reset")

    assert ("error", "connection reset", "cut", "cut") == _outcome(cut)
    assert STREAM[:60] == response_bytes(COMPOSER.compose(cut))


def test_a_successful_call_with_a_truncated_body_is_marked() -> None:
    """A body too large to store is not a failure of the call."""
    body = trace_body(COMPOSER.compose(make_exchange(CHAT, b"", chat_answer("x"), error=f"too large, says {MAIL}")))

    assert "success" == body["metadata"]["status"]
    assert "too large, says [REDACTED]" == body["wire"]["incomplete"]


def test_a_stream_that_ended_early_without_an_error_is_an_error() -> None:
    """The provider closed the connection as if it were done."""
    status, error, ending, outcome = _outcome(make_exchange(CHAT, b"{}", STREAM[:60], media_type=SSE))

    assert ("error", "cut", "answered") == (status, ending, outcome)
    assert "before it said that it was complete" in error


def test_a_client_that_left_after_the_last_event_got_its_answer() -> None:
    """Many clients close as soon as they have read the end."""
    exchange = make_exchange(MESSAGES, b"{}", b"", media_type=SSE, outcome=CallOutcome.CLIENT_LEFT)
    complete = make_exchange(CHAT, b"{}", chat_answer("x"), outcome=CallOutcome.CLIENT_LEFT)

    assert ("error", "the call was left") == _outcome(exchange)[:2]
    assert ("success", "", "complete", "left") == _outcome(complete)


def test_an_error_of_the_provider_keeps_its_message() -> None:
    """And without what it repeats of the request."""
    answer = {"error": {"message": f"bad key for {MAIL}", "type": "auth"}}

    assert ("error", f"bad key for {REDACTED}", "error", "answered") == _outcome(
        make_exchange(CHAT, b"{}", answer, status=401)
    )
    assert ("error", "HTTP status 502", "error", "answered") == _outcome(
        make_exchange(CHAT, b"{}", b"<html>", status=502)
    )


def test_numbers_too_large_for_the_index_do_not_fail() -> None:
    """A provider may claim any number of tokens, and a caller any step."""
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 10**30}
    answer, caller = chat_answer("x", usage=usage), Caller(session_id="s", step_index=10**40)

    stored = COMPOSER.compose(make_exchange(CHAT, chat_request("x"), answer, caller=caller))

    assert 1e30 == stored.summary.tokens
    assert stored.summary == type(stored.summary).from_bytes(stored.summary.to_bytes())


@pytest.mark.parametrize(
    ("address", "provider"),
    [
        ("https://api.openai.com/v1/images/generations", "openai"),
        ("https://API.OpenAI.com:443/v1/files", "openai"),
        ("https://api.anthropic.com/v1/messages/count_tokens", "anthropic"),
        ("https://api.cohere.com/v1/datasets", "cohere"),
        ("https://api.openai.com.example.com/v1/files", "other"),
        ("http://127.0.0.1:8080/v1/files", "other"),
    ],
)
def test_a_call_without_a_unified_view_has_the_provider_of_its_host(address: str, provider: str) -> None:
    body = trace_body(COMPOSER.compose(make_exchange(address, {"a": 1}, {"b": 2})))

    assert (provider, "other") == (body["provider"], body["response"]["object"])


@pytest.mark.parametrize(
    ("url", "endpoint"),
    [
        ("mcp://menu_server/tools/call", "/menu_server/tools/call"),
        ("tool://find_dish/call", "/find_dish/call"),
        ("https://tools.example/mcp/tools/call", "/mcp/tools/call"),
    ],
)
def test_a_call_of_a_tool_names_its_server_or_function(url: str, endpoint: str) -> None:
    """Without it, the calls of all tools look alike in a list."""
    body = trace_body(COMPOSER.compose(make_exchange(url, {"method": "tools/call"}, {"result": 1})))

    assert endpoint == body["endpoint"]
