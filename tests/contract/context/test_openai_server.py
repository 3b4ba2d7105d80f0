"""`/v1` on the server, with OpenAI's own SDK; and the stream of `/v2/responses`."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest

from support.context_builders import append_event, list_all_events, new_session
from support.loopback_models import chat_answer, connect_models, model_server, streamed_response
from support.operation_store import Store
from support.store_servers import RunningServer, auth_header, new_api_key, run_server
from support.upstream import ScriptedResponse, Upstream
from traceforge.context.model.inputs import NewAlias, NewPurge
from traceforge.context.model.objects import Progress, Target
from traceforge.context.responses import openai_sessions
from traceforge.context.responses.model_releases import PROVIDERS
from traceforge.context.responses.openai_sessions import pin_session
from traceforge.context.responses.openai_shape import read_chat
from traceforge.errors import BranchConflict

TOOL: Any = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
CALL: Any = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": "{}"}}


@pytest.fixture(scope="session", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def backend(request: pytest.FixtureRequest) -> str:
    """The server does not know which database it is, so `make test` takes one."""
    return str(request.param)


@pytest.fixture
def site(model_store: Store) -> Iterator[RunningServer]:
    """Its server."""
    with run_server(model_store) as server:
        yield server


def sdk(server: RunningServer, key: str = "none") -> openai.OpenAI:
    """OpenAI's SDK, which knows nothing of us."""
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key=key, max_retries=0)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_sdk_works_unchanged_with_every_provider_behind_an_alias(store: Store, provider: Any) -> None:
    """With and without streaming, chat completions and responses."""
    with model_server() as model:
        store = connect_models(store, model.url)
        store.create_alias(NewAlias(name="bot", targets=[Target(provider=provider, model="m")]))
        with run_server(store) as server, sdk(server) as client:
            messages: Any = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello?"}]
            completion = client.chat.completions.create(model="bot", messages=messages)
            chunks = list(client.chat.completions.create(model="bot", messages=messages, stream=True))
            response = client.responses.create(model="bot", instructions="Be brief.", input="Hello?")
            events = list(client.responses.create(model="bot", input="Hello?", stream=True))

    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    contents = [
        stored_response.output["content"] for stored_response in store.list_responses().data if stored_response.output
    ]
    last = events[-1]
    assert last.type == "response.completed"
    assert contents == [completion.choices[0].message.content, text, response.output_text, last.response.output_text]
    assert all(contents)
    assert ("bot", "chat.completion") == (completion.model, completion.object)
    assert "stop" == chunks[-1].choices[0].finish_reason
    assert "response.created" == events[0].type


def test_a_call_is_pinned_to_a_snapshot_and_its_ids_are_in_headers(
    model_store: Store, site: RunningServer, upstream: Upstream
) -> None:
    """The snapshot compiles again; the body has only OpenAI's fields; the provider gets the same messages."""
    messages: Any = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "One?"},
        {"role": "assistant", "content": "Two."},
        {"role": "user", "content": [{"type": "text", "text": "Three?"}]},
    ]
    with sdk(site) as client:
        raw = client.chat.completions.with_raw_response.create(
            model="bot", messages=messages, tools=[TOOL], temperature=0
        )

    response = model_store.get_response(raw.headers["x-traceforge-response"])
    sent = json.loads(upstream.received[0].body)
    body = json.loads(raw.content)
    assert response.snapshot_id == raw.headers["x-traceforge-snapshot"]
    assert response.session_id == raw.headers["x-traceforge-session"]
    assert response.alias_release_id == raw.headers["x-traceforge-release"]
    assert response.trace_id == raw.headers["x-traceforge-trace"]
    assert model_store.verify_snapshot(response.snapshot_id).valid
    assert {"id", "object", "created", "model", "choices", "usage"} == set(body)
    assert messages == sent["messages"]
    assert [TOOL] == sent["tools"]
    assert ("m-1", 0) == (sent["model"], sent["temperature"])


def test_tools_are_called_and_answered(model_store: Store, site: RunningServer, upstream: Upstream) -> None:
    """The SDK gets the call, and sends the result back."""
    upstream.respond_with(
        ScriptedResponse([chat_answer(None, tool_calls=[CALL])]), ScriptedResponse([chat_answer("Seen.")])
    )  # type: ignore[arg-type]
    with sdk(site) as client:
        messages: Any = [{"role": "user", "content": "Look."}]
        first = client.chat.completions.create(model="bot", messages=messages, tools=[TOOL])
        message = first.choices[0].message
        assert message.tool_calls is not None
        messages += [message, {"role": "tool", "tool_call_id": "call_1", "content": "A cat."}]
        second = client.chat.completions.create(model="bot", messages=messages, tools=[TOOL])

    assert "tool_calls" == first.choices[0].finish_reason
    assert "Seen." == second.choices[0].message.content
    assert "A cat." == json.loads(upstream.received[1].body)["messages"][2]["content"]


@pytest.mark.parametrize("path", ["chat", "responses"])
def test_the_first_token_arrives_before_the_upstream_has_sent_the_last(
    site: RunningServer, upstream: Upstream, path: str
) -> None:
    """Nothing is held back: the upstream waits until the client has its first text."""
    permits = threading.Semaphore(0)
    upstream.respond_with(streamed_response("One", " two", " three", permits=permits))
    heard: list[str] = []
    with sdk(site) as client:
        if path == "chat":
            for chunk in client.chat.completions.create(
                model="bot", messages=[{"role": "user", "content": "Count."}], stream=True
            ):
                if chunk.choices and chunk.choices[0].delta.content:
                    heard.append(chunk.choices[0].delta.content)
                    permits.release()
        else:
            for event in client.responses.create(model="bot", input="Count.", stream=True):
                if event.type == "response.output_text.delta":
                    heard.append(event.delta)
                    permits.release()

    assert ["One", " two", " three"] == heard


def test_a_client_that_disconnects_cancels_the_call(
    model_store: Store, site: RunningServer, upstream: Upstream
) -> None:
    """As with OpenAI."""
    upstream.respond_with(streamed_response("One", " two", permits=threading.Semaphore(0)))
    with sdk(site) as client:
        stream = client.chat.completions.create(
            model="bot", messages=[{"role": "user", "content": "Count."}], stream=True
        )
        next(iter(stream))
        stream.close()

    for _ in range(200):
        response = model_store.list_responses().data[0]
        if response.status is not Progress.RUNNING:
            break
        threading.Event().wait(0.05)
    assert Progress.CANCELED is response.status


def test_a_call_is_refused_if_another_call_changes_its_session_meanwhile(
    model_store: Store, upstream: Upstream
) -> None:
    """Its answer would belong to a history that the client did not send."""
    first_message: Any = {"role": "user", "content": "One?"}
    session = new_session(model_store)
    first = pin_session(model_store, read_chat({"model": "bot", "messages": [first_message]}), session.id)
    second = pin_session(
        model_store,
        read_chat({"model": "bot", "messages": [first_message, {**first_message, "content": "Two?"}]}),
        session.id,
    )

    with pytest.raises(BranchConflict):
        model_store.create_response(first)

    assert [] == upstream.received
    assert Progress.COMPLETED is model_store.create_response(second).status
    assert ["One?", "Two?", "Yes."] == [event.content for event in list_all_events(model_store, session)]


@pytest.mark.parametrize("backend", ["postgresql"], indirect=True)  # SQLite has one writer at a time.
@pytest.mark.parametrize("new_texts", [[], ["Two?"]], ids=["the same history", "a new message"])
def test_an_event_that_is_appended_after_the_history_was_compared_is_a_conflict(
    model_store: Store, upstream: Upstream, monkeypatch: pytest.MonkeyPatch, new_texts: list[str]
) -> None:
    """It is committed on another connection; the model must not see a message that the client did not send."""
    session = new_session(model_store)
    append_event(model_store, session, "One?")
    messages: Any = [{"role": "user", "content": text} for text in ["One?", *new_texts]]
    monkeypatch.setattr(
        openai_sessions, "_check_same_tools", lambda *_: append_event(model_store, session, "Meanwhile.")
    )

    with pytest.raises(BranchConflict):
        model_store.create_response(
            pin_session(model_store, read_chat({"model": "bot", "messages": messages}), session.id)
        )

    assert [] == upstream.received
    assert ["One?", "Meanwhile."] == [event.content for event in list_all_events(model_store, session)]


def test_a_session_appends_only_the_new_messages(model_store: Store, site: RunningServer, upstream: Upstream) -> None:
    """The branch holds each message once; a different history is a conflict, and no model is called."""
    with sdk(site) as client:
        messages: Any = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "One?"}]
        first = client.chat.completions.with_raw_response.create(model="bot", messages=messages)
        header = {"X-TraceForge-Session": first.headers["x-traceforge-session"]}
        messages += [first.parse().choices[0].message, {"role": "user", "content": "Two?"}]
        second = client.chat.completions.with_raw_response.create(
            model="bot", messages=messages, extra_headers=header
        )
        messages[1] = {"role": "user", "content": "Something else?"}
        with pytest.raises(openai.ConflictError) as error:
            client.chat.completions.create(model="bot", messages=messages, extra_headers=header)

    session = model_store.get_session(first.headers["x-traceforge-session"])
    assert session.id == second.headers["x-traceforge-session"]
    assert ["One?", "Yes.", "Two?", "Yes."] == [event.content for event in list_all_events(model_store, session)]
    assert "history_mismatch" == error.value.code
    assert 2 == len(upstream.received)


def test_a_failed_model_call_is_an_error_status_and_its_response_is_stored(
    model_store: Store, site: RunningServer, upstream: Upstream
) -> None:
    """Also for a stream that has not sent any text yet."""
    upstream.respond_with(ScriptedResponse([b"{}"], status=500))
    with sdk(site) as client:
        for stream in (False, True):
            with pytest.raises(openai.InternalServerError) as error:
                client.chat.completions.create(
                    model="bot", messages=[{"role": "user", "content": "Hi"}], stream=stream
                )
            assert (502, "provider_refused") == (error.value.status_code, error.value.code)
            response = model_store.get_response(error.value.response.headers["x-traceforge-response"])
            assert Progress.FAILED is response.status


def test_a_stream_that_breaks_off_ends_with_an_error_event(
    model_store: Store, site: RunningServer, upstream: Upstream
) -> None:
    """After the first text it is too late for an error status."""
    answer = streamed_response("One", " two")
    answer.pieces, answer.reset = answer.pieces[:1], True
    upstream.respond_with(answer)
    with sdk(site) as client, pytest.raises(openai.APIError, match="gave no answer"):
        list(client.chat.completions.create(model="bot", messages=[{"role": "user", "content": "Hi"}], stream=True))

    response = model_store.list_responses().data[0]
    assert response.error is not None
    assert "provider_cut" == response.error.code


def test_a_call_without_a_valid_api_key_is_refused(model_store: Store, upstream: Upstream) -> None:
    """A key with the scope `read` cannot call a model."""
    reader, writer = new_api_key(model_store, "read"), new_api_key(model_store, "write")
    messages: Any = [{"role": "user", "content": "Hi"}]
    with run_server(model_store, required=True) as server:
        with sdk(server) as nobody, pytest.raises(openai.AuthenticationError):
            nobody.chat.completions.create(model="bot", messages=messages)
        with sdk(server, reader) as client:
            assert ["bot"] == [model.id for model in client.models.list()]
            assert ("bot", "model") == (client.models.retrieve("bot").id, client.models.retrieve("bot").object)
            with pytest.raises(openai.NotFoundError):
                client.models.retrieve("nobody")
            with pytest.raises(openai.PermissionDeniedError):
                client.chat.completions.create(model="bot", messages=messages)
        with sdk(server, writer) as client:
            assert client.chat.completions.create(model="bot", messages=messages).choices[0].message.content
            with pytest.raises(openai.NotFoundError):
                client.chat.completions.create(model="nobody", messages=messages)
    assert 1 == len(upstream.received)


def events_of(text: str) -> list[tuple[str, Any]]:
    """Server-sent events."""
    sent = []
    for block in text.strip().split("\n\n"):
        name, data = block.split("\n")
        sent.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return sent


def test_v2_streams_texts_and_then_the_final_object(
    model_store: Store, site: RunningServer, upstream: Upstream
) -> None:
    """The same key gives the same bytes again, and asks no model."""
    upstream.respond_with(streamed_response("One", " two"))
    body = {"model": "bot", "session_id": new_session(model_store).id, "input": "Count.", "stream": True}
    first = site.http.post("/v2/responses", json=body, headers={"Idempotency-Key": "k"})
    response = site.http.post("/v2/responses", json=body, headers={"Idempotency-Key": "k"})

    events = events_of(first.text)
    assert 201 == first.status_code
    assert first.headers["content-type"].startswith("text/event-stream")
    assert ["response.created", "response.text.delta", "response.text.delta", "response.completed"] == [
        name for name, _ in events
    ]
    assert ["One", " two"] == [data["delta"] for name, data in events if name == "response.text.delta"]
    assert ("running", "completed") == (events[0][1]["status"], events[-1][1]["status"])
    assert "One two" == events[-1][1]["output"]["content"]
    assert (201, first.content) == (response.status_code, response.content)
    assert first.headers["content-type"] == response.headers["content-type"]
    assert 1 == len(upstream.received)


def test_v2_stores_the_answer_if_the_client_disconnects(
    model_store: Store, site: RunningServer, upstream: Upstream
) -> None:
    """The answer is already paid for."""
    permits = threading.Semaphore(0)
    upstream.respond_with(streamed_response("One", " two", permits=permits))
    session = new_session(model_store)
    body = {"model": "bot", "session_id": session.id, "input": "Count.", "stream": True}
    with site.http.stream("POST", "/v2/responses", json=body) as answer:
        assert any("One" in line for line in answer.iter_lines())
    permits.release(5)

    for _ in range(200):
        response = model_store.list_responses().data[0]
        if response.status is not Progress.RUNNING:
            break
        threading.Event().wait(0.05)
    assert Progress.COMPLETED is response.status
    assert ["Count.", "One two"] == [event.content for event in list_all_events(model_store, session)]


@pytest.mark.counted("purge")
def test_a_stream_that_breaks_off_logs_only_the_error_code(
    model_store: Store, site: RunningServer, upstream: Upstream, caplog: pytest.LogCaptureFixture
) -> None:
    """Its session is purged meanwhile: the stream ends with an error, and no other logger writes."""
    upstream.respond_with(streamed_response("One", " two", permits=threading.Semaphore(0)))
    session = new_session(model_store)
    body = {"model": "bot", "session_id": session.id, "input": "Count.", "stream": True}
    with site.http.stream("POST", "/v2/responses", json=body, headers={"Idempotency-Key": "k"}) as answer:
        lines = answer.iter_lines()
        assert any("delta" in line for line in lines)
        running = model_store.list_responses().data[0]
        model_store.create_purge_job(NewPurge(targets=[session.id]))
        model_store.models.cancel(running.id)
        remaining_lines = list(lines)
        response = site.http.post("/v2/responses", json=body, headers={"Idempotency-Key": "k"})

    ((name, data),) = events_of("\n".join(remaining_lines[-3:]))
    assert "error" == name
    assert ("purged", "gone_error", None) == tuple(data["error"][field] for field in ("code", "type", "param"))
    assert data["error"]["receipt_id"].startswith("pur_")
    assert (410, "purged") == (response.status_code, response.json()["error"]["code"])
    logged, refused = sorted(site.wait_for_log(2), key=lambda line: line["status"])
    assert (201, "purged") == (logged["status"], logged["code"])
    assert 410 == refused["status"]
    assert [] == [record.getMessage() for record in caplog.records]


def test_v2_cancels_a_response_of_another_request(
    model_store: Store, site: RunningServer, upstream: Upstream
) -> None:
    """The stream ends with the cancelled response."""
    upstream.respond_with(streamed_response("One", " two", permits=threading.Semaphore(0)))
    body = {"model": "bot", "session_id": new_session(model_store).id, "input": "Count.", "stream": True}
    text = ""
    with site.http.stream("POST", "/v2/responses", json=body) as answer:
        for line in answer.iter_lines():
            text += line + "\n"
            if '"delta"' in line:
                running = model_store.list_responses().data[0]
                canceled = httpx.post(f"{site.url}/v2/responses/{running.id}/cancel", trust_env=False)

    assert (200, "canceled") == (canceled.status_code, canceled.json()["status"])
    assert "response.canceled" == events_of(text)[-1][0]


def test_a_response_over_http_needs_a_key_that_may_write(model_store: Store) -> None:
    """Scopes hold for what costs money too."""
    with run_server(model_store, required=True) as server:
        body = {"model": "bot", "session_id": new_session(model_store).id, "input": "Hi"}
        refused = server.http.post("/v2/responses", json=body, headers=auth_header(new_api_key(model_store, "read")))
        response = server.http.post(
            "/v2/responses", json=body, headers=auth_header(new_api_key(model_store, "write"))
        )

    assert (403, 201) == (refused.status_code, response.status_code)
