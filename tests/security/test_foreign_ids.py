"""A tenant calls every operation of the context server with the ids of another project.

A foreign id is as unknown as one that does not exist, wherever it stands: in the path, in the body, as a cursor. The
answers are equal but for the id itself, and the other project is afterwards as it was before.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from support.context_builders import append_event, fork_branch, new_artifact, new_bundle, new_session
from support.loopback_models import connect_models, model_server
from support.operation_store import Store
from support.store_servers import auth_header, new_api_key, run_server
from traceforge.context.api.operation_types import Operation
from traceforge.context.api.operations import OPERATIONS
from traceforge.context.model.inputs import (
    NewAlias,
    NewApiKey,
    NewProject,
    NewPurge,
    NewReplayRun,
    NewResponse,
    NewSnapshot,
)
from traceforge.context.model.objects import Target
from traceforge.ids import new_id

CURSORS = {
    "list_artifacts": "artifact_id",
    "list_bundles": "bundle_id",
    "list_sessions": "session_id",
    "list_branches": "branch_id",
    "list_events": "event_id",
    "list_snapshots": "snapshot_id",
    "list_blocks": "block_id",
    "list_responses": "response_id",
    "list_aliases": "alias",
    "list_replay_runs": "replay_run_id",
    "list_purge_jobs": "purge_job_id",
    "list_projects": "project_id",
    "list_api_keys": "key_id",
}
EXPECTED_REFUSALS = {
    (409, "merge_branch"), (409, "create_response"), (409, "append_event"),  # The branch has moved on.
    (409, "cancel_response"), (409, "cancel_replay_run"),  # They have ended.
    (409, "create_alias"),  # There is one already.
    (410, "create_purge_job"), (410, "delete_artifact"), (410, "delete_session"),  # They are purged already.
    (403, "create_project"),
}  # fmt: skip
TARGETS = [{"provider": "openai", "model": "m"}]


class Ids(dict[str, str]):
    """The ids of a project; remembers which of them a request needs."""

    def __init__(self, ids: dict[str, str]) -> None:
        super().__init__(ids)
        self.used: dict[str, None] = {}

    def __getitem__(self, name: str) -> str:
        self.used[name] = None
        return super().__getitem__(name)


def _head(ids: Ids) -> dict[str, Any]:
    return {"expected_version": 1, "expected_head_event_id": ids["event_id"]}


# By operation, every body that has an id in it: each id counts. `{}` for a body without one.
BODIES: dict[str, list[Callable[[Ids], Any]]] = {
    "create_artifact": [lambda _: {"artifact_type": "document", "content": "x"}],
    "create_bundle": [lambda ids: {"items": [{"artifact_id": ids["artifact_id"], "role": "system"}]}],
    "create_session": [lambda ids: {"base_bundle_ids": [ids["bundle_id"]]}],
    "update_session": [lambda _: {"metadata": {}}],
    "fork_branch": [
        lambda ids: {"fork_from_branch_id": ids["branch_id"], "fork_from_event_id": ids["event_id"]},
    ],
    "update_branch": [lambda _: {"label": "x"}],
    "append_event": [
        lambda ids: {**_head(ids), "event": {"event_type": "user_message", "payload_ref": ids["artifact_id"]}}
    ],
    "merge_branch": [
        lambda ids: {**_head(ids), "source_branch_id": ids["other_branch_id"], "strategy": "checkpoint"},
        lambda ids: {**_head(ids), "source_branch_id": ids["other_branch_id"], "strategy": "rebase"},
        lambda ids: {**_head(ids), "source_branch_id": ids["other_branch_id"], "strategy": "fork"},
        lambda ids: {**_head(ids), "source_branch_id": ids["other_branch_id"], "strategy": "compact",
                     "model": ids["release_id"]},
        lambda ids: {**_head(ids), "source_branch_id": ids["other_branch_id"], "strategy": "compact",
                     "model": ids["alias"]},
    ],
    "create_snapshot": [lambda _: {}],
    "create_response": [
        lambda ids: {"model": ids["alias"], "snapshot_id": ids["snapshot_id"]},
        lambda ids: {"model": ids["release_id"], "session_id": ids["session_id"], "branch_id": ids["branch_id"],
                     **_head(ids)},
        lambda ids: {"model": ids["alias"], "session_id": ids["session_id"], "stream": True},
    ],
    "create_alias": [lambda _: {"name": "another", "targets": TARGETS}],
    "create_release": [lambda _: {"targets": TARGETS}],
    "create_replay_run": [
        lambda ids: {"candidate": ids["alias"], "baseline": ids["release_id"], "snapshot_ids": [ids["snapshot_id"]]},
        lambda ids: {"candidate": "openai/m", "baseline": ids["alias"], "session_id": ids["session_id"]},
    ],
    "create_purge_job": [
        lambda ids: {"targets": [ids["session_id"]]},
        lambda ids: {"targets": [ids["event_id"]]},
        lambda ids: {"targets": [ids["artifact_id"]]},
    ],
    "create_project": [lambda _: {"name": "x"}],
    "create_api_key": [lambda ids: {"scopes": ["read"], "project_id": ids["project_id"]}],
}  # fmt: skip

QUERIES = {"render_snapshot": {"provider": "openai"}}  # By operation, a query without which it is refused.


def fill_project(store: Store, name: str) -> dict[str, str]:
    """One object of each kind, and their ids."""
    artifact = new_artifact(store, f"{name}: an artifact")
    bundle = new_bundle(store, f"{name}: a bundle")
    session = new_session(store, f"{name}: a session")
    event = append_event(store, session, f"{name}: an event")
    other = fork_branch(store, session)
    append_event(store, other, f"{name}: another event")
    snapshot = store.create_snapshot(session.id, session.default_branch_id, NewSnapshot())
    alias = store.create_alias(NewAlias(name=f"{name}-model", targets=[Target(provider="openai", model="m")]))
    response = store.create_response(NewResponse(model=alias.name, snapshot_id=snapshot.id))
    run = store.create_replay_run(NewReplayRun(candidate=alias.name, baseline=alias.name, snapshot_ids=[snapshot.id]))
    purged = new_artifact(store, f"{name}: purged")
    job = store.create_purge_job(NewPurge(targets=[purged.id]))
    key = store.create_api_key(NewApiKey(scopes=["read"], label=name))
    return {
        "artifact_id": artifact.id, "bundle_id": bundle.id, "session_id": session.id,
        "branch_id": session.default_branch_id, "other_branch_id": other.id, "event_id": event.id,
        "snapshot_id": snapshot.id, "block_id": store.list_blocks(snapshot.id, limit=1).data[0].id,
        "response_id": response.id, "alias": alias.name, "release_id": alias.live_release_id, "replay_run_id": run.id,
        "purge_job_id": job.id, "key_id": key.id, "project_id": store.project_id,
    }  # fmt: skip


class Attack:
    """A server with two projects, and the client of one of them with a key that may do everything there."""

    def __init__(self, url: str, operator: Store) -> None:
        self.victim, attacker = (
            operator.of_project(operator.create_project(NewProject(name=name)).id) for name in ("victim", "attacker")
        )
        self.foreign, self.own = fill_project(self.victim, "victim"), fill_project(attacker, "attacker")
        self.client = httpx.Client(
            base_url=url, headers=auth_header(new_api_key(attacker, "admin")), trust_env=False, timeout=60
        )

    def send(
        self, operation: Operation, ids: Ids, make_body: Callable[[Ids], Any] | None, after: str = ""
    ) -> httpx.Response:
        path = operation.path.format_map(ids)
        body = make_body(ids) if make_body is not None else None
        query = {"after": ids[after]} if after else QUERIES.get(operation.name, {})
        return self.client.request(operation.method, f"/v2{path}", json=body, params=query)

    def read_victim(self) -> list[Any]:
        """Everything that the victim can list."""
        store, ids = self.victim, self.foreign
        return [
            store.list_artifacts(), store.list_bundles(), store.list_sessions(),
            store.list_branches(ids["session_id"]),
            store.list_events(ids["session_id"], ids["branch_id"]), store.list_responses(), store.list_aliases(),
            store.list_snapshots(ids["session_id"], ids["branch_id"]), store.list_replay_runs(),
            store.list_purge_jobs(), store.list_api_keys(), store.get_artifact_content(ids["artifact_id"]),
        ]  # fmt: skip


@pytest.fixture(scope="module")
def attack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attack]:
    """Both projects on one server that requires keys."""
    folder: Path = tmp_path_factory.mktemp("foreign")
    with ExitStack() as stack:
        url = stack.enter_context(model_server()).url
        store = stack.enter_context(closing(Store.open(str(folder / "context.db"))))
        operator = connect_models(store, url)
        server = stack.enter_context(run_server(operator, required=True))
        attack = Attack(server.url, operator)
        yield attack
        attack.client.close()


def unknown_id(foreign_id: str) -> str:
    """An id of the same kind that nobody has; an alias has a name."""
    prefix, separator, _ = foreign_id.partition("_")
    return new_id(prefix) if separator else "unknown-model"


def requests_of(operation: Operation) -> list[tuple[Callable[[Ids], Any] | None, str]]:
    """Every body of an operation, or its cursor."""
    if operation.body is not None:
        return [(make_body, "") for make_body in BODIES[operation.name]]
    return [(None, CURSORS[operation.name])] if operation.is_list else [(None, "")]


def test_a_foreign_id_is_as_unknown_as_one_that_does_not_exist(attack: Attack) -> None:
    """In every place of every operation; nothing of the other project is shown, and nothing of it changes."""
    before, tried, differences = attack.read_victim(), 0, []
    for operation in OPERATIONS:
        for make_body, after in requests_of(operation):
            template = Ids(attack.own)
            operation.path.format_map(template)
            if make_body is not None:
                make_body(template)
            for name in [*template.used, *([after] if after else [])]:
                answers = []
                for foreign_id in (attack.foreign[name], unknown_id(attack.foreign[name])):
                    response = attack.send(operation, Ids({**attack.own, name: foreign_id}), make_body, after)
                    answers.append((response.status_code, response.text.replace(foreign_id, "ID")))
                tried += 1
                (status, shown), (_, expected) = answers
                foreign = [value for key, value in attack.foreign.items() if key != "alias" and value in shown]
                if _without_request_id(shown) != _without_request_id(expected) or status < 400 or foreign:
                    differences.append((operation.name, name, answers))

    assert [] == differences
    assert tried > 60
    assert before == attack.read_victim()


def _without_request_id(text: str) -> str:
    return re.sub(r"req_[0-9a-z]+", "REQUEST", text)


def test_no_list_has_anything_of_another_project(attack: Attack) -> None:
    """With one's own ids in the path, and without a cursor."""
    for operation in OPERATIONS:
        if operation.is_list:
            listed = attack.send(operation, Ids(attack.own), None)
            assert 200 == listed.status_code
            assert [] == [value for value in attack.foreign.values() if value in listed.text], operation.name
    models = attack.client.get("/v1/models")
    assert (True, False) == ("attacker-model" in models.text, "victim-model" in models.text)
    for name in (attack.foreign["alias"], attack.foreign["release_id"]):
        assert 404 == attack.client.get(f"/v1/models/{name}").status_code
        body = {"model": name, "messages": [{"role": "user", "content": "Hi"}]}
        assert 404 == attack.client.post("/v1/chat/completions", json=body).status_code


def test_a_remembered_answer_is_of_one_project(attack: Attack) -> None:
    """The same idempotency key, path and body in two projects are two requests."""
    victim = httpx.Client(
        base_url=attack.client.base_url, headers=auth_header(new_api_key(attack.victim, "admin")), trust_env=False,
        timeout=60,
    )  # fmt: skip
    bodies = {
        "create_artifact": BODIES["create_artifact"][0], "create_session": lambda _: {},
        "create_alias": BODIES["create_alias"][0], "create_api_key": lambda _: {"scopes": ["read"]},
        "create_response": lambda ids: {"model": "openai/m", "snapshot_id": ids["snapshot_id"]},
    }  # fmt: skip
    with closing(victim):
        for operation in OPERATIONS:
            if operation.name in bodies:
                answers = [
                    client.post(f"/v2{operation.path}", json=bodies[operation.name](Ids(ids)),
                                headers={"Idempotency-Key": f"guessed-{operation.name}"})
                    for client, ids in ((victim, attack.foreign), (attack.client, attack.own))
                ]  # fmt: skip
                assert [201, 201] == [answer.status_code for answer in answers], answers[1].text
                assert answers[0].json() != answers[1].json()
                if "id" in answers[0].json():
                    assert answers[0].json()["id"] not in answers[1].text


def test_the_same_requests_with_own_ids_are_served(attack: Attack) -> None:
    """So the refusals above are because of the foreign id; what takes something away comes last."""
    refused = []
    for operation in sorted(
        OPERATIONS, key=lambda operation: (operation.scope == "admin", operation.method == "DELETE")
    ):
        for make_body, _ in requests_of(operation):
            response = attack.send(operation, Ids(attack.own), make_body)
            if response.status_code >= 400 and (response.status_code, operation.name) not in EXPECTED_REFUSALS:
                refused.append((operation.name, response.status_code, response.text))

    assert [] == refused


def test_every_operation_with_a_body_is_attacked() -> None:
    """And so is every list: a new one has to be added here."""
    assert {operation.name for operation in OPERATIONS if operation.body is not None} == set(BODIES)
    assert {operation.name for operation in OPERATIONS if operation.is_list} == set(CURSORS)
