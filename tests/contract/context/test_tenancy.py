"""Another project's object is the same as one that does not exist: for every route of the OpenAPI document."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import httpx
import pytest

from support.context_builders import append_event, fork_branch, new_artifact, new_bundle, new_session
from support.operation_store import Store
from support.purge_rows import insert_response
from support.store_servers import RunningServer, auth_header, new_api_key, run_server
from traceforge.context.model.inputs import NewAlias, NewPurge, NewReplayRun, NewSnapshot
from traceforge.context.model.objects import Target
from traceforge.ids import new_id

_NAMES = re.compile(r"\{([a-z_]+)\}")
# Of an answer's headers, what may differ between two answers that say the same.
_OWN = frozenset(("x-request-id", "date", "content-length"))


class Things(NamedTuple):
    """One of everything, in one project."""

    artifact_id: str
    bundle_id: str
    session_id: str
    branch_id: str
    event_id: str
    snapshot_id: str
    key_id: str
    project_id: str
    fork_id: str
    response_id: str
    release_id: str
    replay_run_id: str
    alias: str
    purge_job_id: str


def things(store: Store) -> Things:
    """Make one of everything."""
    session = new_session(store, "base")
    event = append_event(store, session)
    forked = fork_branch(store, session)
    append_event(store, forked)
    snapshot = store.create_snapshot(session.id, session.default_branch_id, NewSnapshot())
    new_api_key(store, "read")
    key = store.list_api_keys(limit=100).data[-1]
    alias = store.create_alias(NewAlias(name=new_id("alias"), targets=[Target(provider="openai", model="m")]))
    run = NewReplayRun(baseline=alias.name, candidate=alias.name, snapshot_ids=[snapshot.id])
    return Things(
        new_artifact(store).id, new_bundle(store, "x").id, session.id, session.default_branch_id, event.id,
        snapshot.id, key.id, store.project_id, forked.id, insert_response(store, snapshot.id, "answer"),
        alias.live_release_id,
        store.create_replay_run(run, start=False).id, alias.name,
        store.create_purge_job(NewPurge(targets=[new_artifact(store).id])).id,
    )  # fmt: skip


_PREFIXES = ("art", "bnd", "ses", "br", "evt", "snp", "key", "prj", "br", "rsp", "alr", "rpl", "alias", "pjb")


def nothings() -> Things:
    """Ids that do not exist."""
    return Things(*(new_id(prefix) for prefix in _PREFIXES))


def bodies(own: Things, ids: Things) -> dict[str, Any]:
    """A body for every operation that takes one; `ids` wherever it refers to something."""
    item = {"artifact_id": ids.artifact_id, "role": "user"}
    event = {"event_type": "note", "payload_ref": ids.artifact_id}
    at = {"expected_version": 1, "expected_head_event_id": own.event_id}
    return {
        "create_artifact": {"artifact_type": "document", "content": "x"},
        "create_bundle": {"items": [item]},
        "create_session": {"base_bundle_ids": [ids.bundle_id]},
        "update_session": {"metadata": {"a": 1}},
        "fork_branch": {"fork_from_branch_id": ids.branch_id, "fork_from_event_id": ids.event_id},
        "update_branch": {"label": "x"},
        "append_event": {**at, "event": event},
        "merge_branch": {**at, "source_branch_id": ids.fork_id, "strategy": "checkpoint"},
        "create_snapshot": {},
        "create_response": {"model": own.alias, "snapshot_id": ids.snapshot_id},
        "create_alias": {"name": "x", "targets": [{"provider": "openai", "model": "m"}]},
        "create_release": {"targets": [{"provider": "openai", "model": "m"}]},
        "create_replay_run": {"baseline": ids.release_id, "candidate": ids.alias, "snapshot_ids": [ids.snapshot_id]},
        "create_purge_job": {"targets": [ids.session_id]},
        "create_project": {"name": "x"},
        "create_api_key": {"scopes": ["read"], "project_id": ids.project_id},
    }


@pytest.fixture
def asker(store: Store, other: Store, shared_store: Store) -> Iterator[tuple[RunningServer, str]]:
    """A server, and a key of a project that is not its operator's."""
    with run_server(shared_store, required=True) as site:
        yield site, new_api_key(store, "admin")


def comparable_response(answer: httpx.Response, ids: Things) -> tuple[Any, ...]:
    """An answer without what must differ: its own id, and the ids it was asked for."""
    text = answer.text
    for other_ids in ids:
        text = text.replace(other_ids, "ID")
    return answer.status_code, text, {name: header for name, header in answer.headers.items() if name not in _OWN}


def test_on_every_route_an_id_of_another_project_is_treated_as_unknown(
    asker: tuple[RunningServer, str], store: Store, other: Store, record_property: Any
) -> None:
    """In the path, in the body and as a cursor; the responses are equal except for the ids."""
    site, key = asker
    own, foreign, missing = things(store), things(other), nothings()
    document = site.http.get("/v2/openapi.json", headers=auth_header(key)).json()
    count = 0
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            name = operation["operationId"]
            for place in (*_NAMES.findall(path), "body", "after"):
                assert ("requestBody" in operation) == (name in bodies(own, own)), f"{name} needs a body here"
                if place == "body" and name not in _REFERS:
                    continue
                if place == "after" and not any(
                    parameter["name"] == "after" for parameter in operation["parameters"]
                ):
                    continue
                answers = [_request(site, key, method, path, name, place, own, ids) for ids in (foreign, missing)]
                assert comparable_response(answers[0], foreign) == comparable_response(answers[1], missing), (
                    name,
                    place,
                )
                assert 404 == answers[0].status_code, (name, place, answers[0].text)
                count += 1
    assert count >= 40
    record_property(
        "summary", f"tenancy: {count} places of {len(document['paths'])} paths say the same of a foreign id"
    )


_REFERS = ("create_bundle", "create_session", "fork_branch", "append_event", "merge_branch", "create_api_key",
            "create_response", "create_replay_run", "create_purge_job")  # fmt: skip


def _request(
    site: RunningServer, key: str, method: str, path: str, name: str, place: str, own: Things, ids: Things
) -> httpx.Response:
    """Ask with ids of our own everywhere but in one place."""
    filled = _NAMES.sub(lambda match: getattr(ids if match[1] == place else own, match[1]), path)
    body = bodies(own, ids if place == "body" else own).get(name)
    query = {"provider": "openai"} if name == "render_snapshot" else {}
    query |= {"after": _cursor(name, ids)} if place == "after" else {}
    return site.http.request(method, filled, json=body, params=query, headers=auth_header(key))


def _cursor(name: str, ids: Things) -> str:
    of = {
        "list_artifacts": ids.artifact_id, "list_bundles": ids.bundle_id, "list_sessions": ids.session_id,
        "list_branches": ids.branch_id, "list_events": ids.event_id, "list_snapshots": ids.snapshot_id,
        "list_responses": ids.response_id, "list_aliases": ids.alias, "list_replay_runs": ids.replay_run_id,
        "list_blocks": ids.event_id, "list_projects": ids.project_id, "list_api_keys": ids.key_id,
        "list_purge_jobs": ids.purge_job_id,
    }  # fmt: skip
    return of[name]


def things_of(store: Store) -> list[Any]:
    """What a project holds."""
    return [store.list_sessions().data, store.list_artifacts().data, store.list_bundles().data]


def test_no_route_writes_into_another_project(asker: tuple[RunningServer, str], store: Store, other: Store) -> None:
    """Whatever its response is."""
    site, key = asker
    own, foreign = things(store), things(other)
    before = (things_of(other), other.get_branch(foreign.session_id, foreign.branch_id), other.list_api_keys().data)
    document = site.http.get("/v2/openapi.json", headers=auth_header(key)).json()
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            for place in (*_NAMES.findall(path), "body"):
                _request(site, key, method, path, operation["operationId"], place, own, foreign)
    after = (things_of(other), other.get_branch(foreign.session_id, foreign.branch_id), other.list_api_keys().data)
    assert before == after
