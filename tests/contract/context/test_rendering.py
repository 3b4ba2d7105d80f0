"""A response pins everything that determined it, and its request can be rendered again to the same bytes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import update

from support.context_builders import append_event, new_artifact, new_session
from support.loopback_models import chat_answer, connect_models, model_server, scripted_provider
from support.operation_store import Store
from support.store_servers import new_api_key, run_server
from support.upstream import ScriptedResponse
from traceforge.canon import JSONObject, digest_canonical
from traceforge.context import Client
from traceforge.context.api.client_verification import verify_store
from traceforge.context.api.embedded_transport import EmbeddedTransport
from traceforge.context.model.cache_keys import materialization_key
from traceforge.context.model.inputs import (
    NewAlias,
    NewArtifact,
    NewBundle,
    NewResponse,
    NewSession,
    NewSnapshot,
    SnapshotRendering,
)
from traceforge.context.model.objects import ArtifactType, BundleItem, Response, Target
from traceforge.context.responses import stored_responses
from traceforge.context.responses.model_releases import PROVIDERS
from traceforge.context.responses.renderer_revisions import target_runtime
from traceforge.context.responses.rr_1 import RR1
from traceforge.context.storage.store_transaction import StoreTransaction
from traceforge.context.storage.tables import responses
from traceforge.errors import InvalidFields, StoreRefused
from traceforge.wire.endpoints import Dialect

TOOLS = [{"name": "look_up", "description": "Look it up.", "input_schema": {"type": "object", "properties": {}}}]
SCHEMA = {"title": "An answer", "type": "object", "properties": {"text": {"type": "string"}}}


@pytest.fixture(scope="module")
def model() -> Iterator[str]:
    """Where the bundled model server is."""
    with model_server() as server:
        yield server.url


def full_session(store: Store) -> str:
    """A session with instructions, tools, a schema, and a question."""
    kinds = [
        (ArtifactType.POLICY, "Be brief."),
        (ArtifactType.TOOL_BUNDLE_SOURCE, TOOLS),
        (ArtifactType.RESPONSE_SCHEMA, SCHEMA),
    ]
    items = [
        BundleItem(artifact_id=new_artifact(store, content, artifact_type=kind).id, role="system")  # type: ignore[arg-type]
        for kind, content in kinds
    ]
    session = store.create_session(NewSession(base_bundle_ids=[store.create_bundle(NewBundle(items=items)).id]))
    append_event(store, session, "Where is Paris?")
    return session.id


def ask(store: Store, model_name: str = "openai/m-1", **more: Any) -> Response:
    """The response of a model in a new session."""
    return store.create_response(NewResponse(model=model_name, session_id=full_session(store), **more))


def digest_by_hand(path: str, body: str) -> str:
    """The digest of a request, computed without our code."""
    fields = f"path:{len(path.encode())}:{path}\nbody:{len(body.encode())}:{body}\n"
    return "sha256:" + hashlib.sha256(f"traceforge.request.v1\n{fields}".encode()).hexdigest()


def change_response(store: Store, response_id: str, columns: JSONObject, content: JSONObject) -> None:
    """Change a stored response, as a program that has the keyring could."""

    def work(tx: StoreTransaction) -> None:
        changed = stored_responses.open_content(tx, stored_responses.load_row(tx, response_id)) | content
        sealed = stored_responses._seal(tx, response_id, changed)
        tx.execute(update(responses).where(responses.c.id == response_id).values(**columns, **sealed))

    store.write(work)


def problems(store: Store, response_id: str) -> list[tuple[str, str]]:
    """The problems of a response: three checks give the same."""
    client = Client(EmbeddedTransport(store))
    by_response = store.verify_response(response_id).problems
    assert by_response == [problem for problem in store.verify().problems if problem.id == response_id]
    assert by_response == [problem for problem in verify_store(client).problems if problem.id == response_id]
    return [(problem.rule, problem.message) for problem in by_response]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_digest_of_a_request_is_that_of_the_bytes_that_were_sent(store: Store, provider: str) -> None:
    """The path and the body, as the provider received them."""
    with scripted_provider() as upstream:
        upstream.respond_with(ScriptedResponse([b"{}"], status=500))
        response = ask(connect_models(store, upstream.url), f"{provider}/m-1", params={"temperature": 0, "seed": 7})
        (received,) = upstream.received

    path = received.line.split()[1].decode()
    assert digest_by_hand(path, received.body.decode()) == response.request_digest
    assert "rr_1" == response.renderer_revision
    assert [] == problems(store, response.id)


def test_the_parameters_of_a_call_are_a_field_with_a_digest(store: Store, model: str) -> None:
    """Those of the target, overridden by those of the request: in every read, and in a list."""
    store = connect_models(store, model)
    target = Target(provider="openai", model="m-1", params={"temperature": 1, "top_p": 0.5})
    store.create_alias(NewAlias(name="bot", targets=[target]))

    response = ask(store, "bot", params={"temperature": 0, "seed": 7})
    plain = ask(store)

    assert {"temperature": 0, "top_p": 0.5, "seed": 7} == response.parameters
    assert digest_canonical(response.parameters) == response.parameters_digest
    assert ({}, digest_canonical({})) == (plain.parameters, plain.parameters_digest)
    assert response == store.get_response(response.id)
    assert [response, plain] == store.list_responses().data
    with (
        run_server(store, required=True) as site,
        Client.connect(site.url, api_key=new_api_key(store, "read")) as client,
    ):
        assert response == client.get_response(response.id)
        assert [response, plain] == client.list_responses().data
        assert client.verify_response(response.id).valid


def test_the_materialization_key_covers_what_serializes_and_nothing_else(store: Store, model: str) -> None:
    """The declared tokenizer and template, and the provider's format; not the model, its revision or parameters."""
    store = connect_models(store, model)
    snapshot_id = ask(store).snapshot_id

    def key(params: dict[str, Any] | None = None, **target: Any) -> str:
        name = f"bot-{len(store.list_aliases(limit=100).data)}"
        store.create_alias(NewAlias(name=name, targets=[Target(**{"provider": "openai", "model": "m-1", **target})]))
        body = NewResponse(model=name, snapshot_id=snapshot_id, params=params or {})
        return str(store.create_response(body).materialization_key)

    plain = key()

    assert plain == key(model="m-2") == key(revision="2026-01") == key({"temperature": 0}) == key(weight=5)
    others = [key(provider="anthropic"), key(tokenizer_revision="t-1"), key(chat_template_revision="t-1")]
    assert 4 == len({plain, *others})


def test_the_materialization_key_covers_the_renderer_and_its_serialization(store: Store, model: str) -> None:
    """Another revision of the renderer is another key, and so is another way to write tools and schemas."""

    class OtherRevision(RR1):
        revision = "rr_2"

        def name_serialization(self, dialect: Dialect) -> str:
            return RR1().name_serialization(dialect)

    class OtherSerialization(RR1):
        def name_serialization(self, dialect: Dialect) -> str:
            return "another"

    response = ask(connect_models(store, model))
    snapshot = store.get_snapshot(response.snapshot_id)
    keys = [
        materialization_key(snapshot, target_runtime(response.target, renderer))
        for renderer in (RR1(), OtherRevision(), OtherSerialization())
    ]

    assert response.materialization_key == keys[0]
    assert 3 == len(set(keys))


@pytest.mark.parametrize(
    ("columns", "content", "rule", "message"),
    [
        ({}, {"params": {"temperature": 1}}, "CS3", "the digest of its parameters is sha256:"),
        ({}, {"request_digest": "sha256:" + "0" * 64}, "CS3", "rendered again, its request is sha256:"),
        ({}, {"target": {"provider": "openai", "model": "m-2"}}, "CS3", "its release resolves to another target"),
        ({"materialization_key": "sha256:" + "0" * 64}, {}, "CS3", "its materialization key is sha256:0000"),
        (
            {"renderer_revision": "rr_9"},
            {},
            "CS4",
            "could not be checked: renderer revision rr_9 is unknown, only rr_1",
        ),
        (
            {"renderer_revision": None},
            {},
            "CS4",
            "could not be checked: how it was rendered was not recorded",
        ),
        (
            {},
            {"request_digest": None},
            "CS4",
            "could not be checked: how it was rendered was not recorded",
        ),
    ],
    ids=["parameters", "request", "target", "key", "unknown revision", "no revision", "no digest"],
)
def test_a_response_that_does_not_render_to_its_request_is_a_problem(
    store: Store, model: str, columns: JSONObject, content: JSONObject, rule: str, message: str
) -> None:
    """What differs, and what could not be compared, each have a rule; neither is valid."""
    store = connect_models(store, model)
    response = ask(store, params={"temperature": 0})
    assert store.verify().valid

    change_response(store, response.id, columns, content)

    listed = problems(store, response.id)
    assert {rule} == {name for name, _ in listed}
    assert any(text.startswith(message) for _, text in listed), listed
    assert not store.verify().valid
    assert not store.verify_response(response.id).valid


def test_a_response_whose_snapshot_cannot_be_rendered_any_more_is_a_problem(store: Store, model: str) -> None:
    """It is bound to another snapshot, whose bytes no model reads."""
    store = connect_models(store, model)
    response = ask(store)
    session = new_session(store)
    attachment = NewArtifact(artifact_type=ArtifactType.BINARY_ATTACHMENT, content_base64="AAEC")
    append_event(store, session, payload_ref=store.create_artifact(attachment).id)
    other = store.create_snapshot(session.id, session.default_branch_id, NewSnapshot())

    change_response(store, response.id, {"snapshot_id": other.id}, {})

    ((rule, message),) = problems(store, response.id)
    assert "CS3" == rule
    assert message.startswith("it cannot be rendered again: block blk_")


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_snapshot_is_rendered_as_the_request_that_would_be_sent(store: Store, provider: str) -> None:
    """The same path, body and digest as those of a response without parameters."""
    with scripted_provider() as upstream:
        upstream.respond_with(ScriptedResponse([chat_answer("Yes.")]))
        response = ask(connect_models(store, upstream.url), f"{provider}/m-1")
        (received,) = upstream.received

    rendering = store.render_snapshot(
        response.snapshot_id,
        SnapshotRendering(provider=provider, model="m-1"),  # type: ignore[arg-type]
    )

    assert received.line.split()[1].decode() == rendering.path
    assert json.loads(received.body) == rendering.body
    assert (response.request_digest, "rr_1") == (rendering.request_digest, rendering.renderer_revision)
    assert [] != rendering.body["tools"]
    unnamed = store.render_snapshot(response.snapshot_id, SnapshotRendering(provider=provider))  # type: ignore[arg-type]
    assert "MODEL" in (unnamed.path, unnamed.body.get("model"), unnamed.model)


def test_a_rendering_that_is_not_possible_is_refused(store: Store) -> None:
    """An unknown revision, provider or parameter; bytes that no model reads."""
    session = new_session(store)
    image = NewArtifact(artifact_type=ArtifactType.BINARY_ATTACHMENT, content_base64="AAEC")
    append_event(store, session, payload_ref=store.create_artifact(image).id)
    snapshot = store.create_snapshot(session.id, session.default_branch_id, NewSnapshot())

    with run_server(store, required=False) as site, Client.connect(site.url) as remote:
        for client in (Client(EmbeddedTransport(store)), remote):
            with pytest.raises(StoreRefused) as refused:
                client.render_snapshot(snapshot.id, provider="openai")
            assert (422, "unsupported_attachment") == (refused.value.status, refused.value.reason)
            with pytest.raises(StoreRefused) as unknown:
                client.render_snapshot(snapshot.id, provider="openai", renderer_revision="rr_9")
            assert (400, "unknown_renderer_revision") == (unknown.value.status, unknown.value.reason)
            with pytest.raises(InvalidFields) as invalid:
                client.render_snapshot(snapshot.id, provider="nobody")  # type: ignore[arg-type]
            assert ["provider"] == [name for name, _ in invalid.value.problems]
        for query, param in (
            ("", "provider"),
            ("provider=openai&x=1", "x"),
            ("provider=openai&provider=ollama", "provider"),
        ):
            answer = site.http.get(f"/v2/snapshots/{snapshot.id}/render?{query}")
            assert (400, param) == (answer.status_code, answer.json()["error"]["param"])
