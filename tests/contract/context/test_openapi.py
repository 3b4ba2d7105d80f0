"""The OpenAPI document is true: schemathesis, which believes nothing, asks the server what it says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from schemathesis.checks import CHECKS

from support.context_builders import append_event, new_artifact, new_bundle, new_session
from support.example_counts import fuzz_seeds
from support.operation_store import Store
from support.purge_rows import insert_response
from support.store_servers import RunningServer, auth_header, new_api_key, run_server
from traceforge.context.api.operations import OPERATIONS
from traceforge.context.model.inputs import NewAlias, NewPurge, NewReplayRun, NewSnapshot
from traceforge.context.model.objects import Target
from traceforge.ids import new_id
from traceforge.web.openapi_document import build_document

EXAMPLES = 4  # An operation and mode; the slow run has many more.


@pytest.fixture(scope="session", params=["sqlite"])
def backend(request: pytest.FixtureRequest) -> str:
    """SQLite only: these tests check the server, and other tests check both databases."""
    return str(request.param)


@pytest.fixture
def site(store: Store) -> Iterator[RunningServer]:
    """A server with one of everything."""
    with run_server(store) as server:
        yield server


def known_ids(store: Store) -> dict[str, str]:
    """One of everything, by the names of parameters."""
    session = new_session(store, "base")
    append_event(store, session)
    new_api_key(store, "read")
    snapshot = store.create_snapshot(session.id, session.default_branch_id, NewSnapshot())
    alias = store.create_alias(NewAlias(name=new_id("alias"), targets=[Target(provider="ollama", model="m")]))
    run = NewReplayRun(baseline=alias.name, candidate=alias.name, snapshot_ids=[snapshot.id])
    return {
        "response_id": insert_response(store, snapshot.id, "answer"),
        "release_id": alias.live_release_id,
        "alias": alias.name,
        "replay_run_id": store.create_replay_run(run, start=False).id,
        "artifact_id": new_artifact(store).id,
        "bundle_id": new_bundle(store, "x").id,
        "session_id": session.id,
        "branch_id": session.default_branch_id,
        "snapshot_id": snapshot.id,
        "key_id": store.list_api_keys().data[0].id,
        "purge_job_id": store.create_purge_job(NewPurge(targets=[new_artifact(store).id])).id,
    }


def _try_all(site: RunningServer, store: Store, examples: int, seed_number: int | None = None) -> int:
    """Send generated requests to every operation, with ids that exist half of the time; how many."""
    schema = schemathesis.openapi.from_url(f"{site.url}/v2/openapi.json")
    count = 0
    for result in schema.get_all_operations():
        for mode in schemathesis.GenerationMode:
            count += _try(result.ok(), mode, known_ids(store), examples, seed_number=seed_number)
    return count


def _try(
    operation: Any,
    mode: schemathesis.GenerationMode,
    ids: dict[str, str],
    examples: int,
    key: str = "",
    seed_number: int | None = None,
) -> int:
    checks = [CHECKS.get_one(name) for name in CHECKS.get_all_names()]
    count = 0

    @settings(
        max_examples=examples, deadline=None, database=None, derandomize=True, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(case=operation.as_strategy(generation_mode=mode))
    def attack(case: Any) -> None:
        nonlocal count
        count += 1
        if count % 2:
            case.path_parameters = {name: ids[name] for name in case.path_parameters or {}}
        case.call_and_validate(checks=checks, headers=auth_header(key) if key else None)

    if seed_number is not None:
        seed(seed_number)(attack)
    attack()
    return count


@pytest.mark.slow
def test_schemathesis_finds_no_error(site: RunningServer, store: Store, record_property: Any) -> None:
    """Every operation, with valid and invalid bodies."""
    count = _try_all(site, store, EXAMPLES)

    assert count >= EXAMPLES * len(OPERATIONS) // 2
    record_property("summary", f"schemathesis: {count} requests to {len(OPERATIONS)} operations, all as documented")


@pytest.mark.slow
def test_schemathesis_finds_no_operation_that_works_without_an_api_key(store: Store) -> None:
    """With required keys, the document says so; a generated key is never a valid one."""
    key = new_api_key(store, "admin")
    with run_server(store, required=True) as site:
        body = site.http.get("/v2/openapi.json", headers=auth_header(key)).json()
        schema = schemathesis.openapi.from_dict(body)
        schema.config.update(base_url=site.url)
        for result in schema.get_all_operations():
            if result.ok().label in ("GET /v2/sessions", "POST /v2/sessions", "DELETE /v2/api-keys/{key_id}"):
                assert _try(result.ok(), schemathesis.GenerationMode.POSITIVE, known_ids(store), 3, key) > 0


@pytest.mark.slow
def test_schemathesis_finds_no_error_in_many_more_requests(site: RunningServer, store: Store) -> None:
    """The same, five times as often."""
    assert _try_all(site, store, 20) > 300


@pytest.mark.soak
def test_schemathesis_finds_no_error_in_a_soak(site: RunningServer, store: Store, record_property: Any) -> None:
    """The same with other requests in every run."""
    count = sum(_try_all(site, store, EXAMPLES, seed_number) for seed_number in fuzz_seeds())

    record_property("summary", f"schemathesis: {count} requests to {len(OPERATIONS)} operations, all as documented")


def test_the_document_names_every_operation_once() -> None:
    """Under the same names as the methods of the clients."""
    named = {
        (path, method.upper(), operation["operationId"])
        for path, methods in build_document()["paths"].items()
        for method, operation in methods.items()
    }
    assert {(f"/v2{operation.path}", operation.method, operation.name) for operation in OPERATIONS} == named


def test_every_reference_resolves_and_every_pattern_is_valid() -> None:
    """So that client generators can read the document."""
    text = repr(build_document())
    defined = build_document()["components"]["schemas"]
    assert set(re.findall(r"#/components/schemas/(\w+)", text)) <= set(defined)
    assert "(?!" not in text
    for schema in defined.values():
        jsonschema.Draft202012Validator.check_schema(schema)
